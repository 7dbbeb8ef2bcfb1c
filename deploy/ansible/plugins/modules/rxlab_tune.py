#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Find the best setting of the receive path on a host, and set it only if it is proven to help."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_tune
short_description: Find the best setting of the receive path on a host, and set it only if it is proven to help
description:
  - Runs C(rxlab tune). It samples the host, tries candidates for about a second or less each, and compares the best with the
    unchanged host in a trial of its own. At every other end the host is as it was.
  - What is set goes back after O(confirm) unless M(rxlab.rxlab.rxlab_confirm) comes first, or stays at once with O(keep).
  - If an earlier run has set something for the interface, and it still stands, nothing is tried, so a second run changes
    nothing; O(again) looks for what helps in addition.
  - It takes minutes. With V(async) and V(poll), no connection has to last that long.
options:
  nic:
    description:
      - Interface to tune.
    type: str
    required: true
  goal:
    description:
      - What to improve. By default packets that get through if a CPU is full or packets are lost, else CPU time.
    type: str
    choices: [throughput, latency, cpu]
  time:
    description:
      - Time limit for the whole run, such as V(5m).
    type: str
  sample:
    description:
      - Length of the first sample, such as V(10s).
    type: str
  allow_reset:
    description:
      - Also try what interrupts traffic, such as other numbers of queues.
    type: bool
    default: false
  check_url:
    description:
      - Send requests to this URL throughout; failures stop a candidate.
    type: str
  confirm:
    description:
      - Put the best setting back after this time unless it is confirmed.
    type: str
    default: 60s
  keep:
    description:
      - Keep what is proven to help at once.
    type: bool
    default: false
  html:
    description:
      - Write a report of the run to this file on the host.
    type: path
  again:
    description:
      - Run even if an earlier run has set something that still stands.
    type: bool
    default: false
extends_documentation_fragment:
  - rxlab.rxlab.host
  - rxlab.rxlab.load
attributes:
  check_mode:
    support: full
    description: C(rxlab tune --dry-run), which samples the host and says what would be tried.
  diff_mode:
    support: none
    description: What is tried is not known before.
"""

EXAMPLES = r"""
---
- name: Tune, check the service, keep it
  block:
    - name: Find the best setting
      rxlab.rxlab.rxlab_tune:
        nic: eth0
        time: 5m
        confirm: 2m
      register: tuned
    - name: Check the service
      ansible.builtin.command: /usr/local/bin/check-service
      changed_when: false
    - name: Keep it
      rxlab.rxlab.rxlab_confirm:
        transaction: "{{ tuned.transaction }}"
"""

RETURN = r"""
---
end:
  description: How it ended, such as V(helps), V(unproven), V(nothing-to-gain), V(limited), V(unmeasurable), or V(before) if an earlier
    run has set something.
  returned: success
  type: str
  sample: helps
tuning:
  description: What C(rxlab tune --json) prints.
  returned: if it ran
  type: dict
transaction:
  description: The transaction that undoes it; empty if nothing was set.
  returned: success
  type: str
  sample: 000007-3f2a
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import LOAD, Rxlab, state_of


def main():
    """Tunes, or says what would be tried."""
    texts = ('time', 'sample', 'check_url')
    rxlab = Rxlab(dict(
        LOAD, nic={'type': 'str', 'required': True}, goal={'type': 'str', 'choices': ['throughput', 'latency', 'cpu']},
        confirm={'type': 'str', 'default': '60s'}, html={'type': 'path'},
        allow_reset={'type': 'bool', 'default': False}, keep={'type': 'bool', 'default': False},
        again={'type': 'bool', 'default': False}, **{name: {'type': 'str'} for name in texts}
    ))
    options = rxlab.options
    if not options['again']:
        for one in rxlab.open():
            if one['what'] == 'apply tune-' + options['nic'] and state_of(one) == 'applied':
                rxlab.module.exit_json(changed=False, end='before', transaction=one['id'])
    flags = {'sample': 'for', 'check_url': 'check'}
    words = ['--yes']
    for option in ('nic', 'goal', 'html', *LOAD, *texts):
        if options[option] is not None:
            words.append(f'--{flags.get(option, option)}={options[option]}')
    if options['allow_reset']:
        words.append('--allow-reset')
    words.append('--keep' if options['keep'] else '--confirm=' + options['confirm'])
    if rxlab.is_check:
        words.append('--dry-run')
    ended = rxlab.run('tune', *words)
    if ended.json is None:
        rxlab.fail(ended)
    tuning = ended.json
    how = tuning['end']['how']
    answer = {'end': how, 'tuning': tuning, 'transaction': tuning['transaction'] or ''}
    # Exit code 1 without a tripped limit is an answer: nothing was proven, or nothing could be measured.
    if ended.code not in (0, 1) or how == 'stopped':
        rxlab.fail(ended, tuning['end'].get('why'), **answer)
    tried = bool(tuning['candidates']) if rxlab.is_check else tuning['choice'] is not None or tuning['trial'] is not None
    rxlab.module.exit_json(changed=tried or bool(answer['transaction']), **answer)


if __name__ == '__main__':
    main()
