#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Read the receive path of a host, what is wrong with it, and what is applied."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_facts
short_description: Read the receive path of a host, what is wrong with it, and what is applied
description:
  - Runs C(rxlab show), C(rxlab doctor) and C(rxlab status), and returns their answers as C(ansible_facts.rxlab).
  - It changes nothing, in check mode too.
options:
  gather:
    description:
      - What to read. V(show) and V(doctor) work without privileges, with less detail.
    type: list
    elements: str
    choices: [show, doctor, status]
    default: [show, doctor, status]
  nic:
    description:
      - Only findings about this interface, or about none in particular.
    type: str
  sample:
    description:
      - Length of the sample of V(doctor), such as V(30s).
    type: str
    default: 5s
extends_documentation_fragment:
  - rxlab.rxlab.host
attributes:
  check_mode:
    support: full
    description: It changes nothing anyway.
  diff_mode:
    support: none
    description: Nothing changes.
"""

EXAMPLES = r"""
---
- name: Look at the host
  rxlab.rxlab.rxlab_facts:

- name: Stop if a CPU is full
  ansible.builtin.assert:
    that: ansible_facts.rxlab.doctor.findings | selectattr('id', 'equalto', 'one-core-hotspot') | length == 0
"""

RETURN = r"""
---
ansible_facts:
  description: Facts of the host.
  returned: success
  type: dict
  contains:
    rxlab:
      description: What was read.
      type: dict
      contains:
        version:
          description: Version of rxlab.
          type: str
          sample: 0.1.0
        show:
          description: C(rxlab show --json).
          type: dict
        doctor:
          description: C(rxlab doctor --json).
          type: dict
        status:
          description: C(rxlab status --json).
          type: dict
        applied:
          description: The open transactions, the oldest first. Returned with V(status).
          type: list
          elements: dict
          contains:
            id:
              description: The transaction.
              type: str
              sample: 000007-3f2a
            what:
              description: The command that made it.
              type: str
              sample: apply rps
            state:
              description: V(applied), V(held) if it goes back unless it is confirmed, or V(unfinished).
              type: str
              sample: applied
            holds:
              description: Every value is still as it was set, by this transaction or a later one.
              type: bool
        holds:
          description: The values of every transaction hold, and all of the journal can be read. Returned with V(status).
          type: bool
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import Rxlab, state_of


def holds(transaction):
    """True if every value is as the transaction, or a later one, has set it."""
    return all(value['live'] in ('kept', 'covered') for value in transaction['values'])


def main():
    """Reads what is asked for."""
    rxlab = Rxlab({
        'gather': {
            'type': 'list', 'elements': 'str', 'choices': ['show', 'doctor', 'status'],
            'default': ['show', 'doctor', 'status'],
        },
        'nic': {'type': 'str'},
        'sample': {'type': 'str', 'default': '5s'},
    })
    gather = rxlab.options['gather']
    facts = {'version': rxlab.version()}
    if 'show' in gather:
        facts['show'] = rxlab.must('show')
    if 'doctor' in gather:
        nic = rxlab.options['nic']
        about = [] if nic is None else ['--nic=' + nic]
        facts['doctor'] = rxlab.must('doctor', '--for=' + rxlab.options['sample'], *about, codes=(0, 1))
    if 'status' in gather:
        facts['status'] = rxlab.must('status', codes=(0, 1))
        is_open = facts['status']['transactions']
        facts['applied'] = [
            {'id': one['id'], 'what': one['what'], 'state': state_of(one), 'holds': holds(one)} for one in is_open
        ]
        facts['holds'] = all(map(holds, is_open)) and not facts['status']['unreadable']
    rxlab.module.exit_json(changed=False, ansible_facts={'rxlab': facts})


if __name__ == '__main__':
    main()
