// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Replaces libbpf's header: in user space every type has the layout of its declaration.

#pragma once
