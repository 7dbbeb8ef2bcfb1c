// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Events of trace.bpf.c. The layouts are read back by trace/event.rs: change both together.

#pragma once

// The order is that of `Event::parse` in trace/event.rs.
enum kind {
	IRQ_ENTRY,
	IRQ_EXIT,
	IPI_ENTRY,
	IPI_EXIT,
	TIMER_ENTRY,
	TIMER_EXIT,
	RAISE,
	SOFTIRQ_ENTRY,
	SOFTIRQ_EXIT,
	POLL,
	THREAD_ON,
	THREAD_OFF,
	WAKING,
};

struct event {
	// CLOCK_MONOTONIC, nanoseconds.
	__u64 at;
	__u32 cpu;
	// Events of this CPU that found no room so far.
	__u32 lost;
	__u32 kind;
	// Interrupt, softirq, NAPI or thread.
	__u32 id;
	// RAISE: in a hard interrupt. SOFTIRQ_ENTRY: the task that runs. POLL: packets, and the budget.
	__u32 first;
	__u32 second;
};

struct named_event {
	struct event event;
	// Of the device or the thread, or of the task.
	char name[16];
};

// Events that a CPU sends; each level includes those before it.
enum tells { NOTHING, WAKEUPS, EVERYTHING };

struct cpu {
	__u32 tells;
	__u32 lost;
} __attribute__((aligned(64)));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	// The loader makes it one for each possible CPU.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	// The loader sets the wanted size.
	__uint(max_entries, 4096);
} events SEC(".maps");
