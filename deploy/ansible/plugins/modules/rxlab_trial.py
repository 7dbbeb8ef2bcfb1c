#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Show whether a change helps, with a randomized paired trial on a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_trial
short_description: Show whether a change helps, with a randomized paired trial on a host
description:
  - Runs C(rxlab trial run). The change is flipped many times, in random order; pairs of neighbouring slots are compared.
  - At the end, after an interrupt and when a limit trips, the host is as it was. Only with O(keep), and only if the change is
    proven to help, it stays.
  - A trial with this name and this change that has ended on the host is not run again, so a second run changes nothing; O(again)
    runs it once more. Of a O(spec) only the name is compared.
  - If the change is proven to hurt, or a limit tripped, the task fails.
  - A trial takes minutes. With V(async) and V(poll), no connection has to last that long.
options:
  spec:
    description:
      - Path of a specification (TOML) on the host, which may have guards, checks and queries. O(name) has to be the name in it.
    type: path
  name:
    description:
      - Name of the trial, one word.
    type: str
    required: true
  nic:
    description:
      - The interface whose packets count, on the host's own traffic.
    type: str
  time:
    description:
      - Decide as well as possible within this time, such as V(3m).
    type: str
  pairs:
    description:
      - Pairs after which the trial ends undecided.
    type: int
  margin:
    description:
      - Differences below this share do not matter, such as V(3%).
    type: str
  html:
    description:
      - Write the report to this file on the host.
    type: path
  keep:
    description:
      - Leave the change in place if it is proven to help.
    type: bool
    default: false
  again:
    description:
      - Run it even if it has ended on this host.
    type: bool
    default: false
extends_documentation_fragment:
  - rxlab.rxlab.host
  - rxlab.rxlab.load
  - rxlab.rxlab.plan
attributes:
  check_mode:
    support: full
    description: C(rxlab trial run --plan-only), which samples the host for 20 s and says how long the trial would take.
  diff_mode:
    support: none
    description: A trial ends with the values that it found.
"""

EXAMPLES = r"""
---
- name: Prove it on the canary
  rxlab.rxlab.rxlab_trial:
    name: rps
    content: "{{ lookup('ansible.builtin.file', 'rps.toml') }}"
    nic: eth0
    time: 5m
  register: trial
  failed_when: trial is failed or trial.verdict != 'helps'
"""

RETURN = r"""
---
trial:
  description: Id of the trial.
  returned: if there is a record
  type: str
  sample: 0003-rps
verdict:
  description: The conclusion, such as V(helps), V(hurts), V(no_measurable_effect), V(inconclusive) or V(guard_tripped).
  returned: if there is a record
  type: str
  sample: helps
recommendation:
  description: What to do, with the reason. C(rxlab trial show ID) on the host has the rest of the record.
  returned: if there is a record
  type: dict
kept:
  description: The change stays on the host.
  returned: if there is a record
  type: bool
transaction:
  description: The transaction that undoes it, if it stays; else empty.
  returned: if there is a record
  type: str
plan_only:
  description: What C(rxlab trial run --plan-only) prints.
  returned: in check mode, if the trial would run
  type: dict
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import LOAD, PLAN, Rxlab, spoken


# Nothing is known of the change: it is tried again.
UNKNOWN = ('', 'interrupted', 'not_applied', 'machine_changed')
# Proven to harm, or beyond a limit: the task fails, each time.
BAD = ('hurts', 'guard_tripped')


def end(verdict):
    """How a trial ended, in a word; empty while it runs, or after it was killed. Trials in blocks have an end, others a verdict."""
    return (verdict or {}).get('verdict') or (verdict or {}).get('end') or ''


def verdict_of(record):
    """How the trial of a record ended, in a word."""
    return end((record.get('analysis') or {}).get('verdict') or record.get('conclusion'))


def answer_with(rxlab, record, changed):
    """Ends the task with a record."""
    kept = [one['id'] for one in rxlab.open() if one['what'] == 'trial ' + record['id']]
    verdict = verdict_of(record)
    answer = {
        'trial': record['id'], 'verdict': verdict, 'recommendation': record.get('recommendation'),
        'kept': bool(kept), 'transaction': kept[-1] if kept else '', 'changed': changed,
    }
    if verdict in BAD + UNKNOWN:
        rxlab.module.fail_json(msg=f'trial {record["id"]} ended with the verdict {verdict or "none"}', **answer)
    rxlab.module.exit_json(**answer)


def is_of_this_change(rxlab, record):
    """True if the trial of a record tried the settings of the task; both are as the program spells them."""
    if rxlab.options['spec'] is not None:
        return True
    path, data = rxlab.plan()
    what = rxlab.settings() if path is None else ['--', path]
    rehearsed = rxlab.must('apply', '--dry-run', *what, data=data)
    wanted = [one['setting'] for one in rehearsed.get('changes') or []]
    return sorted(record['change']) == sorted(wanted)


def ended_before(rxlab):
    """The record of the last trial with the name and the change of the task, if it has a conclusion."""
    for one in reversed(rxlab.must('trial list')['trials']):
        if one['name'] == rxlab.options['name'] and end(one['verdict']) not in UNKNOWN:
            record = rxlab.must('trial show', '--', one['id'])
            if is_of_this_change(rxlab, record):
                return record
    return None


def arguments(rxlab):
    """Words after C(trial run), and standard input."""
    options = rxlab.options
    words = []
    for option in ('time', 'pairs', 'margin', 'html', 'nic', *LOAD):
        if options[option] is not None:
            words.append(f'--{option}={options[option]}')
    if options['keep']:
        words.append('--keep')
    if options['spec'] is not None:
        return words + ['--', options['spec']], None
    if options['load'] is None:
        words.append('--live')
    path, data = rxlab.plan()
    words += rxlab.settings() if path is None else ['--plan=' + path]
    return words + ['--name=' + options['name']], data


def main():
    """Tries, or plans the trial."""
    one = ('plan', 'content', 'settings', 'spec')
    texts = ('time', 'margin', 'nic')
    rxlab = Rxlab(dict(
        PLAN, **LOAD, spec={'type': 'path'}, name={'type': 'str', 'required': True}, html={'type': 'path'},
        pairs={'type': 'int'}, keep={'type': 'bool', 'default': False}, again={'type': 'bool', 'default': False},
        **{name: {'type': 'str'} for name in texts}
    ), mutually_exclusive=[one], required_one_of=[one])
    if not rxlab.options['again']:
        record = ended_before(rxlab)
        if record is not None:
            answer_with(rxlab, record, changed=False)
    words, data = arguments(rxlab)
    if rxlab.is_check:
        planned = rxlab.must('trial run', '--plan-only', *words, data=data)
        rxlab.module.exit_json(changed=True, plan_only=planned)
    ended = rxlab.run('trial run', *words, data=data)
    if ended.json is None:
        rxlab.fail(ended)
    record = ended.json
    if record['name'] != rxlab.options['name']:
        rxlab.module.warn(f'the specification names the trial {record["name"]}: give that as `name`, or each run tries again')
    if ended.code not in (0, 1):
        why = None if spoken(ended.stderr) else f'trial {record["id"]} ended with the verdict {verdict_of(record)}'
        rxlab.fail(ended, why, trial=record['id'], verdict=verdict_of(record))
    answer_with(rxlab, record, changed=True)


if __name__ == '__main__':
    main()
