#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Make a plan for a host, without changing it."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_plan
short_description: Make a plan for a host, without changing it
description:
  - Runs C(rxlab plan), which samples the host. It changes nothing, in check mode too.
  - A plan of a policy is made for one host at one moment, so another run may return another plan. To set the same values
    everywhere and again, keep RV(content), or give values as O(settings).
options:
  name:
    description:
      - A policy, such as V(spread) or V(numa-local); some of its variables, such as V(numa-local.rps+rfs); or only V(rps),
        V(rfs) or V(rps+rfs). C(rxlab plan --help) lists them.
    type: str
  settings:
    description:
      - The plan consists of these values, checked against the host.
    type: list
    elements: str
  nics:
    description:
      - Plan for these interfaces.
    type: list
    elements: str
  cpus_per_queue:
    description:
      - Maximum number of CPUs that a queue hands its packets to.
    type: int
  isolated:
    description:
      - CPUs to keep receive work away from, in addition to those that the host isolates, such as V(0-3).
    type: str
  sample:
    description:
      - Length of the sample, such as V(5s).
    type: str
  predict:
    description:
      - Predict the effect on each CPU from costs that are measured on the host.
    type: bool
    default: false
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
- name: Plan for each host
  rxlab.rxlab.rxlab_plan:
    name: rps
    nics: [eth0]
  register: planned

- name: Keep the plan next to the playbook, to review it
  ansible.builtin.copy:
    content: "{{ planned.content }}"
    dest: "plans/{{ inventory_hostname }}.toml"
    mode: "0644"
  delegate_to: localhost
  when: planned.content | length > 0
"""

RETURN = r"""
---
content:
  description: The plan as a file (TOML); empty if there is nothing to plan.
  returned: success
  type: str
plan:
  description: The same as C(rxlab plan --json) prints it.
  returned: success
  type: dict
  contains:
    settings:
      description: The values, each with reason, risk and upkeep.
      type: list
      elements: dict
    notes:
      description: Limits of the plan, or the reasons why there is nothing to plan.
      type: list
      elements: str
"""

import os
import tempfile

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import Rxlab


def main():
    """Plans into a file of the task, and reads it."""
    rxlab = Rxlab({
        'name': {'type': 'str'},
        'settings': {'type': 'list', 'elements': 'str'},
        'nics': {'type': 'list', 'elements': 'str'},
        'cpus_per_queue': {'type': 'int'},
        'isolated': {'type': 'str'},
        'sample': {'type': 'str'},
        'predict': {'type': 'bool', 'default': False},
    }, mutually_exclusive=[('name', 'settings')])
    options = rxlab.options
    words = rxlab.settings()
    words += ['--nic=' + nic for nic in options['nics'] or []]
    for option, flag in (('cpus_per_queue', '--cpus-per-queue'), ('isolated', '--isolated'), ('sample', '--for')):
        if options[option] is not None:
            words.append(f'{flag}={options[option]}')
    if options['predict']:
        words.append('--predict')
    if options['name'] is not None:
        words += ['--', options['name']]
    with tempfile.TemporaryDirectory(dir=rxlab.module.tmpdir) as folder:
        file = os.path.join(folder, 'plan.toml')
        ended = rxlab.run('plan', '--output=' + file, *words)
        if ended.code == 0 and ended.json is not None:
            with open(file, encoding='utf-8') as made:
                rxlab.module.exit_json(changed=False, content=made.read(), plan=ended.json)
    if ended.code != 5:
        rxlab.fail(ended)
    # Nothing to plan is an error if a file is wanted, and else an answer with the reasons.
    nothing = rxlab.run('plan', *[word for word in words if word != '--predict'])
    if nothing.code != 0 or nothing.json is None or nothing.json['settings']:
        rxlab.fail(ended)
    rxlab.module.exit_json(changed=False, content='', plan=nothing.json)


if __name__ == '__main__':
    main()
