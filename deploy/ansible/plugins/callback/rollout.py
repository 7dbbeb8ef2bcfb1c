# SPDX-License-Identifier: MIT OR Apache-2.0
"""Says at the end of a run on which hosts rxlab's changes are kept, held, or put back, however the run ended."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
---
name: rollout
type: aggregate
short_description: List the hosts on which changes of rxlab are kept, held, or put back
description:
  - Prints the list after the recap, also if the play stopped, or a host was lost in the middle.
  - The list is what the controller has heard. The journal of each host has the truth; the playbook C(rxlab.rxlab.status) asks it.
requirements:
  - enabled with C(callbacks_enabled = rxlab.rxlab.rollout) in C(ansible.cfg), or E(ANSIBLE_CALLBACKS_ENABLED)
author:
  - rxlab's authors (@rxlab)
"""

from ansible.plugins.callback import CallbackBase

KEPT = 'kept'
HELD = 'held'
BACK = 'put back'
UNCHANGED = 'unchanged'
FAILED = 'failed'
UNTOUCHED = 'untouched'
MODULES = ('rxlab_apply', 'rxlab_tune', 'rxlab_trial', 'rxlab_confirm', 'rxlab_undo')


class CallbackModule(CallbackBase):
    """Follows the results of rxlab's modules."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = 'aggregate'
    CALLBACK_NAME = 'rxlab.rxlab.rollout'
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self):
        super().__init__()
        self.hosts = []
        # For each host that answered: the state of each transaction.
        self.states = {}
        self.failed = set()
        self.unreachable = set()

    def v2_playbook_on_play_start(self, play):
        """Takes the names of all hosts, those of later batches too."""
        variables = play.get_variable_manager().get_vars(play=play)
        for host in variables.get('ansible_play_hosts_all', []):
            if host not in self.hosts:
                self.hosts.append(host)

    def v2_runner_on_ok(self, result):
        """Takes the state of transactions from the result of a module."""
        if self.is_ours(result):
            self.follow(self.states.setdefault(result._host.get_name(), {}), result._result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """The same: an undo that fails has left some values, or could not put them back."""
        if self.is_ours(result):
            host = result._host.get_name()
            self.failed.add(host)
            if host in self.states:
                self.follow(self.states[host], result._result, FAILED)

    def v2_runner_on_unreachable(self, result):
        """Notes that nothing more is heard of a host."""
        self.unreachable.add(result._host.get_name())

    @staticmethod
    def is_ours(result):
        """True for a module that changes a host, or says that nothing has to change."""
        task = result._task
        return task.action.split('.')[-1] in MODULES and not task.check_mode

    @staticmethod
    def follow(states, answer, undone=BACK):
        """Takes the states of transactions from the answer of a module."""
        for transaction in answer.get('transactions', []):
            states[transaction['id']] = undone
        if answer.get('transaction'):
            within = answer.get('tuning', answer).get('confirm_within_s')
            states[answer['transaction']] = KEPT if within is None else HELD

    def state(self, host):
        """What is known of a host, in a word."""
        states = self.states.get(host)
        if states is None:
            return FAILED if host in self.failed else UNTOUCHED
        return next((one for one in (FAILED, HELD, KEPT, BACK) if one in states.values()), UNCHANGED)

    def v2_playbook_on_stats(self, stats):
        """Prints the list, if one of rxlab's modules has changed a host or left it alone."""
        if not self.states:
            return
        found = {}
        for host in self.hosts:
            name = host + ' (unreachable)' if host in self.unreachable else host
            found.setdefault(self.state(host), []).append(name)
        self._display.banner('RXLAB')
        for state in (KEPT, HELD, BACK, UNCHANGED, FAILED, UNTOUCHED):
            if state in found:
                self._display.display(f'{state:<10} {", ".join(found[state])}')
        if HELD in found:
            self._display.display('held: the change goes back by itself at its deadline, unless the host has confirmed it already')
