// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Replaces libbpf's header: a program is a function of its name.

#pragma once

#define BPF_PROG(name, arguments...) name(arguments)
