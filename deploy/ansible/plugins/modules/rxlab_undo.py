#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Put back what rxlab has applied on a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_undo
short_description: Put back what rxlab has applied on a host
description:
  - Runs C(rxlab undo). Every value gets exactly the original that the journal on the host has.
  - A value that another program has changed since is reported and left alone, and the module fails.
  - What was put back before is not touched again, so a second run changes nothing.
  - Exactly one of O(transaction), O(plan_name) and O(all) says what to put back.
options:
  transaction:
    description:
      - This transaction. If it is empty, nothing was set, and nothing is done.
    type: str
  plan_name:
    description:
      - Every open transaction that C(rxlab apply) made of the plan with this name, the newest first.
    type: str
  all:
    description:
      - Every open transaction, the newest first.
    type: bool
    default: false
  force:
    description:
      - Also overwrite values that another program has changed since.
    type: bool
    default: false
extends_documentation_fragment:
  - rxlab.rxlab.host
attributes:
  check_mode:
    support: full
    description: C(rxlab undo --dry-run), which rehearses everything on a copy of the host in memory.
  diff_mode:
    support: full
    description: Each value that goes back.
"""

EXAMPLES = r"""
---
- name: Put back one change
  rxlab.rxlab.rxlab_undo:
    transaction: "{{ applied.transaction }}"

- name: Put back everything
  rxlab.rxlab.rxlab_undo:
    all: true
"""

RETURN = r"""
---
transactions:
  description: What was done for each transaction, the newest first, as C(rxlab undo --json) prints it.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: The transaction.
      type: str
      sample: 000007-3f2a
    closed:
      description: Nothing is left to put back.
      type: bool
    outcomes:
      description: What became of each value.
      type: list
      elements: dict
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import Rxlab, lines


def select(rxlab):
    """Arguments of each run of C(rxlab undo): none if there is nothing to put back."""
    transaction, name = rxlab.options['transaction'], rxlab.options['plan_name']
    if rxlab.options['all']:
        return [[]]
    is_open = list(reversed(rxlab.open()))
    if name:
        return [['--', one['id']] for one in is_open if one['what'] == 'apply ' + name]
    if not transaction:
        return []
    if any(one['id'] == transaction for one in is_open):
        return [['--', transaction]]
    past = rxlab.must('history')['transactions']
    if not any(one['id'] == transaction for one in past):
        rxlab.module.fail_json(msg=f'the journal of this host has no transaction {transaction}', transactions=[])
    return []


def troubles(transactions):
    """What is not as it was before, in words."""
    for transaction in transactions:
        for one in transaction['outcomes']:
            if one['trouble']:
                live = f', and it is {one["live"]}' if 'live' in one else ''
                why = f': {one["why"]}' if 'why' in one else ''
                yield f'{one["knob"]} {one["target"]}: {one["outcome"]} (it was {one["original"]}{live}){why}'


def main():
    """Undoes, or rehearses."""
    rxlab = Rxlab({
        'transaction': {'type': 'str'},
        'plan_name': {'type': 'str'},
        'all': {'type': 'bool', 'default': False},
        'force': {'type': 'bool', 'default': False},
    }, mutually_exclusive=[('transaction', 'plan_name')])
    if rxlab.options['all'] and (rxlab.options['transaction'] or rxlab.options['plan_name']):
        rxlab.module.fail_json(msg='`all` puts everything back: leave out `transaction` and `plan_name`')
    how = ['--force'] if rxlab.options['force'] else []
    if rxlab.is_check:
        how.append('--dry-run')
    transactions = []
    for which in select(rxlab):
        ended = rxlab.run('undo', *(how + which))
        transactions += ended.json['transactions'] if ended.json else []
        if ended.code != 0:
            rxlab.fail(ended, '; '.join(troubles(transactions)) or None, transactions=transactions)
    back = [
        one for transaction in transactions for one in transaction['outcomes']
        if one['outcome'] in ('restored', 'altered', 'restored_in_part')
    ]
    rxlab.module.exit_json(
        changed=bool(back) or any(one['closed'] for one in transactions),
        transactions=transactions,
        diff={
            'before': lines((f'{one["knob"]} {one["target"]}', one['wanted']) for one in back),
            'after': lines((f'{one["knob"]} {one["target"]}', one['original']) for one in back),
        },
    )


if __name__ == '__main__':
    main()
