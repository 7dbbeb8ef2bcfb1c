// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The parts of the kernel that the programs read.

#pragma once

// include/linux/interrupt.h: enum of softirqs.
#define NET_TX_SOFTIRQ 2
#define NET_RX_SOFTIRQ 3
// include/linux/sched.h.
#define PF_KTHREAD 0x00200000
// include/linux/preempt.h: hard interrupts and NMIs.
#define HARD_MASK 0x00ff0000
// A run that begins less than this after the end of an interrupt, in nanoseconds, was caused by it if no
// raise was seen (docs/adr/0017).
#define TAIL 1500
// include/linux/netdevice.h, since 4.12: a task that waits for packets polls this NAPI until it has some or
// gives up. It is clear again in the last poll of the wait.
#define IN_BUSY_POLL (1UL << 6)

// Only the fields that are read; offsets come from the running kernel.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	__u64 start_boottime;
	unsigned int self_exec_id;
	char comm[16];
};
struct net_device {
	char name[16];
	int ifindex;
};
struct napi_struct {
	struct net_device *dev;
	unsigned long state;
	unsigned int napi_id;
};
// Kernels 6.2 to 6.14 keep the count in here.
struct pcpu_hot {
	int preempt_count;
};
struct irqaction;
#pragma clang attribute pop

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

static __always_inline int in_hard_interrupt(void)
{
	const int *count = 0;

	if (&__preempt_count)
		count = bpf_this_cpu_ptr(&__preempt_count);
	else if (&pcpu_hot)
		count = &((const struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	return count && (*count & HARD_MASK);
}

// True if the name of a kernel thread begins so; 8 bytes distinguish them all.
static __always_inline int named(const struct task_struct *task, __u64 mask, const char *begin)
{
	__u64 wanted = 0, name = 0;

	if (!(task->flags & PF_KTHREAD))
		return 0;
	__builtin_memcpy(&wanted, begin, 8);
	bpf_probe_read_kernel(&name, sizeof(name), &task->comm);
	return (name & mask) == (wanted & mask);
}

#define IS_KSOFTIRQD(task) named(task, ~0ULL, "ksoftirqd")
#define IS_IRQ_THREAD(task) named(task, 0xffffffffULL, "irq/\0\0\0\0")
// `napi/NIC-ID` of a NAPI, `backlog_napi/N` of a CPU's backlog (6.10): is_napi_thread() of the library.
#define IS_NAPI_THREAD(task) (named(task, 0xffffffffffULL, "napi/\0\0\0") || named(task, ~0ULL, "backlog_"))
