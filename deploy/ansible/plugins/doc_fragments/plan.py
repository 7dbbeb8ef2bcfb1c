# SPDX-License-Identifier: MIT OR Apache-2.0
"""The three forms of a plan."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type


class ModuleDocFragment:
    """Values to set."""

    DOCUMENTATION = r"""
options:
  plan:
    description:
      - Path of a plan file (TOML) on the host.
    type: path
  content:
    description:
      - A plan (TOML) as text, such as RV(rxlab.rxlab.rxlab_plan#module:content), or a file on the controller read with
        the lookup P(ansible.builtin.file#lookup).
    type: str
  settings:
    description:
      - Values, such as V(rps eth0/rx-0 = 2-7).
    type: list
    elements: str
"""
