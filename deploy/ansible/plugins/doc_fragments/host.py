# SPDX-License-Identifier: MIT OR Apache-2.0
"""Options and notes that the modules of rxlab share."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment:
    """The rxlab of a host."""

    DOCUMENTATION = r"""
options:
  executable:
    description:
      - The program on the host, as a path or as a name in C(PATH).
    type: str
    default: rxlab
  state_dir:
    description:
      - Directory of the journal and the trial records on the host.
      - Without it, the program takes its E(RXLAB_STATE_DIR) or C(/var/lib/rxlab).
    type: path
  netns:
    description:
      - Use the interfaces of another network namespace of the host, by a name of C(ip netns), a PID, or a file.
    type: str
requirements:
  - rxlab on the host, on Linux 5.11 or later
notes:
  - The modules start rxlab with a list of arguments, not through a shell.
  - After a failure, RV(ignore:rc) is the exit code of rxlab, RV(ignore:hints) what it advises, and RV(ignore:stderr) its words.
author:
  - rxlab's authors (@rxlab)
"""
