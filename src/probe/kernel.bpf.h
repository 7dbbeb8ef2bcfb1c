// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// As much of the kernel as net_rx.bpf.c reads.

#pragma once

// kernel/softirq.c: enum of softirqs.
#define NET_RX_SOFTIRQ 3
// include/linux/sched.h.
#define PF_KTHREAD 0x00200000
// include/linux/preempt.h: hard interrupts and NMIs.
#define HARD_MASK 0x00ff0000
// A task that polled less than this ago, in nanoseconds, has not slept meanwhile.
#define BUSY_GAP 100000

// As much of the kernel's types as is read; offsets come from the running kernel.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	unsigned int flags;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	unsigned int self_exec_id;
	char comm[16];
};
struct net_device {
	char name[16];
	int ifindex;
};
struct napi_struct {
	struct net_device *dev;
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
