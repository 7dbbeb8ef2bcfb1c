# SPDX-License-Identifier: MIT OR Apache-2.0
"""The load that candidates are judged by."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment:
    """The built-in load."""

    DOCUMENTATION = r"""
options:
  load:
    description:
      - Run the built-in load from the host against this URL, instead of judging the host's own traffic.
    type: str
  connections:
    description:
      - Connections or flows of the load.
    type: int
  rate:
    description:
      - Requests per second of the load; without it, a closed loop.
    type: str
"""
