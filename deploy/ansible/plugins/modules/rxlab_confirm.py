#!/usr/bin/python
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Keep a change that was applied with a deadline."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
module: rxlab_confirm
short_description: Keep a change that was applied with a deadline
description:
  - Runs C(rxlab confirm). It is the end of what M(rxlab.rxlab.rxlab_apply) or M(rxlab.rxlab.rxlab_tune) began, once the play's own
    check has passed.
  - It fails if the change went back in the meantime.
options:
  transaction:
    description:
      - The transaction, as the module that set it returned it.
      - If it is empty, nothing was set, and nothing is done.
    type: str
    required: true
  late:
    description:
      - Keep it even after its deadline, if nothing has put it back.
    type: bool
    default: false
extends_documentation_fragment:
  - rxlab.rxlab.host
attributes:
  check_mode:
    support: full
    description: Reports a change if the transaction waits for its confirmation.
  diff_mode:
    support: none
    description: There are no values to compare.
"""

EXAMPLES = r"""
---
- name: Keep what was applied
  rxlab.rxlab.rxlab_confirm:
    transaction: "{{ applied.transaction }}"
"""

RETURN = r"""
---
transaction:
  description: The transaction that is kept; empty if there was none.
  returned: success
  type: str
  sample: 000007-3f2a
"""

from ansible_collections.rxlab.rxlab.plugins.module_utils.rxlab import Rxlab, state_of


def main():
    """Confirms a transaction that is held."""
    rxlab = Rxlab({
        'transaction': {'type': 'str', 'required': True},
        'late': {'type': 'bool', 'default': False},
    })
    transaction = rxlab.options['transaction'] or ''
    if not transaction:
        rxlab.module.exit_json(changed=False, transaction='')
    found = [state_of(one) for one in rxlab.open() if one['id'] == transaction]
    if not found:
        rxlab.module.fail_json(
            msg=f'transaction {transaction} is not applied any more: it went back at its deadline, or was undone'
        )
    if found == ['applied']:
        rxlab.module.exit_json(changed=False, transaction=transaction)
    if not rxlab.is_check:
        late = ['--late'] if rxlab.options['late'] else []
        # An error says what became of it.
        rxlab.must('confirm', *(late + ['--', transaction]))
    rxlab.module.exit_json(changed=True, transaction=transaction)


if __name__ == '__main__':
    main()
