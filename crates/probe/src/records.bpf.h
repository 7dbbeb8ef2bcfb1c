// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Records of net_rx.bpf.c, and their maps. The layouts are read back by raw.rs: change both together.

#pragma once

// Set in the key of a NAPI without a number, combined with the index of its device.
#define UNNUMBERED 0x80000000

// Cause of a run, or whose time it is; the order is that of `Class` in class.rs.
enum class {
	NIC_IRQ,
	RPS_IPI,
	OTHER_IRQ,
	OTHER_SOFTIRQ,
	SELF,
	KSOFTIRQD,
	IRQ_THREAD,
	IDLE,
	UNKNOWN,
	CLASSES,
};

// Context of this CPU, as far as the hooks show it.
enum place { TASK, IN_IRQ, IN_IPI, IN_TIMER };

struct cpu {
	// Of the softirq and of the interrupt that are under way; 0 = none.
	__u64 run_began;
	__u64 run_irq_ns;
	__u64 irq_began;
	// Time that interrupts and softirqs have taken so far: to be subtracted from a thread's.
	__u64 taken_ns;
	__u64 thread_began;
	__u64 thread_base;
	// The task that waits and polls, and its last poll; 0 = none.
	__u64 busy_task;
	__u64 busy_began;
	__u64 busy_base;
	// End of the latest interrupt that no run has followed yet, and the length of an inter-processor one that is
	// not yet known to have handed packets over.
	__u64 tail_at;
	__u64 tail_ns;
	// Number of the interrupt under way, of the one that raised NET_RX, of the one that caused the run.
	__u32 irq;
	__u32 pending_irq;
	__u32 run_irq;
	__u32 place;
	// Softirq under way, plus 1.
	__u32 serving;
	// Class of the raise whose run is pending, plus 1; class of the run.
	__u32 pending;
	__u32 run_class;
	// This inter-processor interrupt has raised NET_RX.
	__u32 ipi_raised;
	// Class and number of that latest interrupt.
	__u32 tail_class;
	__u32 tail_irq;
	// Of this run: 1 = its raise was seen, 2 = and gives the same cause as the interrupt before it.
	__u32 compared;
	// A NAPI was polled in this run, and that was counted.
	__u32 run_polled;
	// Counters.
	__u64 ns[CLASSES];
	__u64 runs[CLASSES];
	__u64 histogram[32];
	__u64 irq_ns;
	__u64 irqs;
	__u64 ipi_ns;
	__u64 ipis;
	__u64 threaded_ns;
	__u64 threaded_polls;
	__u64 busy_polls;
	__u64 busy_work;
	__u64 busy_ns;
	// Entries that found their table full.
	__u64 unlisted_ns;
	__u64 unlisted;
	// Timers, and inter-processor interrupts for other reasons.
	__u64 other_ns;
	__u64 others;
	// Runs whose raise was seen, and those of them whose cause differs from the interrupt before them.
	__u64 compared_runs;
	__u64 compared_ns;
	__u64 differing_runs;
	__u64 differing_ns;
	// Runs whose polls were counted.
	__u64 polled_runs;
} __attribute__((aligned(64)));

struct key {
	__u32 cpu;
	// Interrupt or NAPI.
	__u32 id;
};

struct process {
	__u32 cpu;
	__u32 id;
	// Nanoseconds since boot: a number may be used again.
	__u64 began;
};

struct irq {
	__u64 ns;
	__u64 count;
	// NET_RX time that it caused.
	__u64 net_rx_ns;
};

struct napi {
	__u64 polls;
	__u64 work;
	__u64 full;
	__u32 ifindex;
	char device[16];
};

struct victim {
	__u64 ns[CLASSES];
	// Interrupt handlers.
	__u64 irq_ns;
	__u64 cgroup;
	char comm[16];
	// Identifies which of the programs that the process became has this name.
	__u32 exec_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	// The loader makes it one for each possible CPU.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

// For entries that find their slot taken. Bounded: an entry that finds no place here either is counted as
// unlisted.
#define TABLE(name, of, record)                   \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_HASH);  \
		__uint(max_entries, 8192);        \
		__type(key, of);                  \
		__type(value, record);            \
	} name SEC(".maps")

// Slots of each CPU, in which most processes and interrupts have their record: no key has to be hashed.
#define SLOTS 64
#define SLOT(id) (bpf_get_smp_processor_id() * SLOTS + (((__u32)(id) * 0x9e3779b1) >> 26))

struct irq_slot {
	// Plus 1; 0 = free.
	__u64 number;
	struct irq irq;
};

struct victim_slot {
	// Free while it has no number.
	struct process process;
	struct victim victim;
};

#define SLOTTED(name, record)                     \
	struct {                                  \
		__uint(type, BPF_MAP_TYPE_ARRAY); \
		/* The loader: for each CPU. */   \
		__uint(max_entries, SLOTS);       \
		__type(key, __u32);               \
		__type(value, record);            \
	} name SEC(".maps")

SLOTTED(irq_slots, struct irq_slot);
SLOTTED(victim_slots, struct victim_slot);
TABLE(irqs, struct key, struct irq);
TABLE(napis, struct key, struct napi);
TABLE(victims, struct process, struct victim);
