#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Set the values of a plan on a host, held until they are confirmed."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_apply
short_description: Set the values of a plan on a host, held until they are confirmed
description:
  - Runs C(rxlab apply). Every original value is on disk before it is changed, and every write is read back.
  - With O(confirm), a process on the host puts everything back after that time unless M(rxlab.rxlab.rxlab_confirm) comes
    first, even if the controller, the connection or the play has died by then.
  - Values that are already set are left alone, so a second run changes nothing.
  - While a change on the host waits for its confirmation, no other can be made, and the module fails.
options:
  confirm:
    description:
      - Put everything back after this time, such as V(60s), unless it is confirmed.
      - It has to be longer than what the play does before M(rxlab.rxlab.rxlab_confirm).
    type: str
seealso:
  - module: rxlab.rxlab.rxlab_confirm
  - module: rxlab.rxlab.rxlab_undo
extends_documentation_fragment:
  - rxlab.rxlab.host
  - rxlab.rxlab.plan
attributes:
  check_mode:
    support: full
    description: C(rxlab apply --dry-run), which rehearses everything on a copy of the host in memory.
  diff_mode:
    support: full
    description: Each value that changes, before and after.
"""

EXAMPLES = r"""
---
- name: Spread the packets of eth0, and keep that only if the service still answers
  block:
    - name: Set it, and put it back after a minute
      rxlab.rxlab.rxlab_apply:
        settings:
          - rps eth0/rx-0 = 2-7
        confirm: 60s
      register: applied
    - name: Check the service
      ansible.builtin.uri:
        url: "http://{{ inventory_hostname }}/health"
      delegate_to: localhost
      become: false
    - name: Keep it
      rxlab.rxlab.rxlab_confirm:
        transaction: "{{ applied.transaction }}"

- name: Set a plan that lies next to the playbook
  rxlab.rxlab.rxlab_apply:
    content: "{{ lookup('ansible.builtin.file', 'rps.toml') }}"
"""

RETURN = r"""
---
state:
  description: V(unchanged) if every value was set already, V(held) if it goes back unless it is confirmed, else V(applied).
  returned: success
  type: str
  sample: held
transaction:
  description: The transaction that undoes it; empty if nothing was set.
  returned: success
  type: str
  sample: 000007-3f2a
confirm_within_s:
  description: Seconds until it goes back.
  returned: if it is held
  type: float
  sample: 60.0
values:
  description: Each value of the plan.
  returned: success
  type: list
  elements: dict
  contains:
    setting:
      description: The value.
      type: str
      sample: rps eth0/rx-0 = 2-7
    before:
      description: The value before; null if its target is not there yet.
      type: str
      sample: "off"
    changed:
      description: It was written, or would be in check mode.
      type: bool
other_owners:
  description: Lines of other programs' configuration that set the same values. They are warnings too.
  returned: success
  type: list
  elements: dict
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import PLAN, Rxlab, difference, state_of


def main():
    """Applies, or rehearses."""
    one = ('plan', 'content', 'settings')
    rxlab = Rxlab(dict(PLAN, confirm={'type': 'str'}), mutually_exclusive=[one], required_one_of=[one])
    path, data = rxlab.plan()
    what = rxlab.settings() if path is None else ['--', path]
    if not what:
        rxlab.module.fail_json(msg='`settings` is empty: there is nothing to apply')
    confirm = rxlab.options['confirm']
    if rxlab.is_check:
        for waiting in rxlab.open():
            if state_of(waiting) == 'held':
                rxlab.module.warn(f'transaction {waiting["id"]} waits for its confirmation: until then, nothing can be applied')
        how = ['--dry-run']
    else:
        how = [] if confirm is None else ['--confirm=' + confirm]
    done = rxlab.must('apply', *(how + what), data=data)
    for owner in done['other_owners']:
        place = owner['file'] if owner['line'] is None else f'{owner["file"]}:{owner["line"]}'
        rxlab.module.warn(f'{owner["by"]} has {owner["knob"]} in {place}: change the value there too')
    if done.get('settings') is None:
        values = [dict(one, changed=one.pop('needed')) for one in done['changes']]
        state = 'unchanged'
    else:
        values = done['settings']
        state = 'applied' if done['confirm_within_s'] is None else 'held'
    changes = [one for one in values if one['changed']]
    if rxlab.is_check and changes:
        state = 'applied' if confirm is None else 'held'

    def after(one):
        return one.get('kept', one['setting'].split(' = ', 1)[-1])
    rxlab.module.exit_json(
        changed=bool(changes), state=state, transaction=done['transaction'] or '',
        confirm_within_s=done['confirm_within_s'], values=values, other_owners=done['other_owners'],
        diff=difference(changes, lambda one: one['before'], after),
    )


if __name__ == '__main__':
    main()
