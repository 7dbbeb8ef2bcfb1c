#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Set values again at each boot of a host, or stop that."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_persist
short_description: Set values again at each boot of a host, or stop that
description:
  - Runs C(rxlab persist), which installs a plan, systemd units and a udev rule below C(/etc), or C(rxlab unpersist).
  - The current values do not change. Files that are up to date are left alone, so a second run changes nothing.
  - A file that was edited is neither overwritten nor removed; the module fails and touches none of the others.
options:
  state:
    description:
      - V(present) sets the values again at each boot; V(absent) stops that.
    type: str
    choices: [present, absent]
    default: present
  plan:
    description:
      - Path of a plan file (TOML) on the host. Without a plan, what is applied and confirmed is persisted.
    type: path
  content:
    description:
      - A plan (TOML) as text.
    type: str
  match:
    description:
      - How to find an interface again, by its bus address or by its hardware address.
    type: str
    choices: [path, mac]
    default: path
  etc:
    description:
      - Directory of configuration on the host.
    type: path
extends_documentation_fragment:
  - rxlab.rxlab.host
attributes:
  check_mode:
    support: full
    description: C(rxlab persist --dry-run) and C(rxlab unpersist --dry-run).
  diff_mode:
    support: full
    description: The files that are written or removed.
"""

EXAMPLES = r"""
---
- name: Set what is applied and confirmed again at each boot
  rxlab.rxlab.rxlab_persist:
  register: persisted

- name: Have systemd read the units
  ansible.builtin.systemd:
    daemon_reload: true
  when: persisted is changed
"""

RETURN = r"""
---
files:
  description: The files that were written or removed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [/etc/rxlab/plan.toml]
settings:
  description: The values that are persisted.
  returned: if O(state=present)
  type: list
  elements: str
  sample: ["rps eth0/rx-0 = 2-7"]
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import Rxlab


def main():
    """Persists, or stops that."""
    rxlab = Rxlab({
        'state': {'type': 'str', 'choices': ['present', 'absent'], 'default': 'present'},
        'plan': {'type': 'path'},
        'content': {'type': 'str'},
        'match': {'type': 'str', 'choices': ['path', 'mac'], 'default': 'path'},
        'etc': {'type': 'path'},
    }, mutually_exclusive=[('plan', 'content')])
    options = rxlab.options
    how = ['--dry-run'] if rxlab.is_check else []
    if options['etc'] is not None:
        how.append('--etc=' + options['etc'])
    if options['state'] == 'absent':
        files = rxlab.must('unpersist', *how)['removed']
        rxlab.module.exit_json(
            changed=bool(files), files=files, diff={'before': ''.join(file + '\n' for file in files), 'after': ''}
        )
    path, data = rxlab.plan()
    how.append('--match=' + options['match'])
    if path is not None:
        how.append('--plan=' + path)
    done = rxlab.must('persist', *how, data=data)
    files = [file['path'] for file in done['files'] if file['changed']]
    rxlab.module.exit_json(
        changed=bool(files), files=files, settings=done['settings'],
        diff={'before': '', 'after': ''.join(file + '\n' for file in files)},
    )


if __name__ == '__main__':
    main()
