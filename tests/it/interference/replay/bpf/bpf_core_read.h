// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// In the place of libbpf's header: in user space every type is laid out as the source says.

#pragma once
