# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs rxlab on the host, reads its JSON, and says what its exit codes mean."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import os

from ansible.module_utils.basic import AnsibleModule

# Options of every module; their documentation is the fragment `host`.
HOST = {
    'executable': {'type': 'str', 'default': 'rxlab'},
    'state_dir': {'type': 'path'},
    'netns': {'type': 'str'},
}

# A plan, in one of three forms: the fragment `plan`.
PLAN = {
    'plan': {'type': 'path'},
    'content': {'type': 'str'},
    'settings': {'type': 'list', 'elements': 'str'},
}

# The built-in load: the fragment `load`.
LOAD = {
    'load': {'type': 'str'},
    'connections': {'type': 'int'},
    'rate': {'type': 'str'},
}

# docs/exit-codes.md
MEANING = {
    2: 'the request is wrong',
    3: 'a permission or a kernel feature is missing on the host',
    4: 'the host changed under rxlab, or is not the one that the request is for',
    5: 'the work could not be done',
    130: 'interrupted, after everything was restored',
}


def meaning(code):
    """What an exit code of rxlab means, in words; None if it is no error."""
    if code < 0:
        return f'rxlab was killed by signal {-code}; its guard reverts what was not confirmed'
    return f'exit code {code}: {MEANING[code]}' if code in MEANING else None


def spoken(text):
    """The messages of standard error, each with its hints."""
    messages = []
    for line in text.splitlines():
        if line.startswith('  hint: ') and messages:
            messages[-1][1].append(line[len('  hint: '):])
        elif line.startswith('rxlab: '):
            messages.append((line[len('rxlab: '):], []))
        elif line.startswith('error: '):
            # The command line was not understood: the rest is its usage.
            messages.append((line[len('error: '):], []))
            break
    return messages


class Ended:
    """A run of rxlab: its exit code, its JSON if it printed any, and its words."""

    def __init__(self, code, out, err):
        self.code = code
        self.stderr = err
        try:
            self.json = json.loads(out)
        except ValueError:
            self.json = None


class Rxlab:
    """The rxlab of this host."""

    def __init__(self, options, **restrictions):
        self.module = AnsibleModule(
            argument_spec=dict(HOST, **options), supports_check_mode=True, **restrictions
        )
        self.options = self.module.params
        self.is_check = self.module.check_mode
        name = self.options['executable']
        self.program = self.module.get_bin_path(name)
        if self.program is None:
            where = 'it is not an executable file' if os.sep in name else 'it is not in PATH'
            self.module.fail_json(
                msg=f'rxlab is not installed on this host: {name}: {where}',
                hints=['install rxlab, or name its path in `executable`'],
            )

    def run(self, command, *arguments, data=None):
        """Runs a command of rxlab with --json; `data` is its standard input."""
        words = [self.program, '--json']
        for option in ('state_dir', 'netns'):
            if self.options[option] is not None:
                words.append('--{0}={1}'.format(option.replace('_', '-'), self.options[option]))
        words.extend(command.split())
        words.extend(arguments)
        # Words are passed as they are: no shell, no variables, no home directories.
        code, out, err = self.module.run_command(
            words, data=data, binary_data=True, expand_user_and_vars=False
        )
        return Ended(code, out, err)

    def must(self, command, *arguments, data=None, codes=(0,)):
        """Runs a command and returns its JSON; another exit code than `codes` fails the task."""
        ended = self.run(command, *arguments, data=data)
        if ended.code not in codes or ended.json is None:
            self.fail(ended)
        self.pass_on(spoken(ended.stderr))
        return ended.json

    def pass_on(self, messages):
        """What rxlab says next to its result: an earlier change that went back, for example."""
        for message, hints in messages:
            self.module.warn('; '.join(['rxlab: ' + message] + hints))

    def fail(self, ended, why=None, **more):
        """Fails the task: why, what the exit code means, and what rxlab advises."""
        messages = spoken(ended.stderr)
        hints = []
        if messages and why is None:
            # The error is the last; before it come notices.
            why, hints = messages.pop()
        self.pass_on(messages)
        if meaning(ended.code) is None and ended.json is None:
            why = why or 'rxlab printed no JSON: is it older than this collection?'
        self.module.fail_json(
            msg='; '.join(part for part in (why, meaning(ended.code)) if part),
            rc=ended.code, hints=hints, stderr=ended.stderr, **more
        )

    def plan(self):
        """Arguments that name the plan of the task as a file, and what is standard input then."""
        if self.options['plan'] is not None:
            return self.options['plan'], None
        if self.options['content'] is not None:
            return '/dev/stdin', self.options['content'].encode()
        return None, None

    def settings(self):
        """The settings of the task as options."""
        return ['--set=' + setting for setting in self.options['settings'] or []]

    def version(self):
        """Version of the program."""
        code, out, err = self.module.run_command([self.program, '--version'])
        return out.split()[-1] if code == 0 and out.split() else ''

    def open(self):
        """The open transactions, the oldest first."""
        return self.must('status', codes=(0, 1))['transactions']


def state_of(transaction):
    """`held`: it goes back unless it is confirmed; `applied`; or `unfinished`."""
    state = transaction['state']
    return 'held' if isinstance(state, dict) else state


def lines(values):
    """Values as lines of a diff: pairs of what has the value, and the value."""
    return ''.join(f'{target} = {"(not there yet)" if value is None else value}\n' for target, value in values)


def difference(changes, before, after):
    """A diff of the changed values: `setting` is `knob target = value`."""
    def target(setting):
        return setting.split(' = ', 1)[0]
    return {
        'before': lines((target(one['setting']), before(one)) for one in changes),
        'after': lines((target(one['setting']), after(one)) for one in changes),
    }
