// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The timeline of receive work: one event for each beginning and end, into a ring buffer.
//
// Every event takes constant work. Events that find no room are counted by CPU, and the next one that finds
// room carries the count. No event wakes the reader, which polls: a wakeup would be an interrupt.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.bpf.h"
#include "events.bpf.h"

static __always_inline struct cpu *cpu_that_tells(__u32 what)
{
	__u32 id = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&cpus, &id);

	return cpu && cpu->tells >= what ? cpu : 0;
}

// Room for an event, its time taken before: a later event of this CPU has a later time, or lies between the
// two.
#define ROOM(cpu, record)                                                      \
	({                                                                     \
		record *room = bpf_ringbuf_reserve(&events, sizeof(record), 0); \
		if (!room)                                                     \
			__sync_fetch_and_add(&(cpu)->lost, 1);                 \
		room;                                                          \
	})

static __always_inline void fill(struct event *event, const struct cpu *cpu, __u64 at, __u32 kind, __u32 id)
{
	event->at = at;
	event->cpu = bpf_get_smp_processor_id();
	event->lost = cpu->lost;
	event->kind = kind;
	event->id = id;
	event->first = 0;
	event->second = 0;
}

static __always_inline void tell(__u32 kind, __u32 id, __u32 first)
{
	struct cpu *cpu = cpu_that_tells(EVERYTHING);
	__u64 at = bpf_ktime_get_ns();
	struct event *event;

	if (!cpu)
		return;
	event = ROOM(cpu, struct event);
	if (!event)
		return;
	fill(event, cpu, at, kind, id);
	event->first = first;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

// The same with a name from the kernel, or none.
static __always_inline void tell_named(__u32 tells, __u32 kind, __u32 id, __u32 first, __u32 second, const char *name)
{
	struct cpu *cpu = cpu_that_tells(tells);
	__u64 at = bpf_ktime_get_ns();
	struct named_event *event;

	if (!cpu)
		return;
	event = ROOM(cpu, struct named_event);
	if (!event)
		return;
	fill(&event->event, cpu, at, kind, id);
	event->event.first = first;
	event->event.second = second;
	__builtin_memset(event->name, 0, sizeof(event->name));
	if (name)
		bpf_probe_read_kernel(event->name, sizeof(event->name), name);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_entry, int number, struct irqaction *action)
{
	tell(IRQ_ENTRY, number, 0);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_exit, int number, struct irqaction *action, int result)
{
	tell(IRQ_EXIT, number, 0);
	return 0;
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(ipi_entry, int vector)
{
	tell(IPI_ENTRY, 0, 0);
	return 0;
}

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(ipi_exit, int vector)
{
	tell(IPI_EXIT, 0, 0);
	return 0;
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(timer_entry, int vector)
{
	tell(TIMER_ENTRY, 0, 0);
	return 0;
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(timer_exit, int vector)
{
	tell(TIMER_EXIT, 0, 0);
	return 0;
}

// One of the two is loaded: a kernel whose symbol table has no variables rejects the first.
SEC("tp_btf/softirq_raise")
int BPF_PROG(raised, unsigned int vector)
{
	if (vector == NET_RX_SOFTIRQ || vector == NET_TX_SOFTIRQ)
		tell(RAISE, vector, in_hard_interrupt());
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(raised_no_count, unsigned int vector)
{
	if (vector == NET_RX_SOFTIRQ || vector == NET_TX_SOFTIRQ)
		tell(RAISE, vector, 0);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	tell_named(EVERYTHING, SOFTIRQ_ENTRY, vector, task->pid, 0, task->comm);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vector)
{
	tell(SOFTIRQ_EXIT, vector, 0);
	return 0;
}

SEC("tp_btf/napi_poll")
int BPF_PROG(polled, struct napi_struct *napi, int work, int budget)
{
	const struct net_device *device = napi->dev;

	// The backlog of a CPU has no device.
	tell_named(EVERYTHING, POLL, napi->napi_id, work, budget, device ? device->name : 0);
	return 0;
}

static __always_inline int receives(const struct task_struct *task)
{
	return IS_KSOFTIRQD(task) || IS_NAPI_THREAD(task);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (receives(prev))
		tell(THREAD_OFF, prev->pid, 0);
	if (receives(next))
		tell_named(EVERYTHING, THREAD_ON, next->pid, 0, 0, next->comm);
	return 0;
}

// On the waker's CPU: an untraced CPU may wake a thread of a traced one.
SEC("tp_btf/sched_waking")
int BPF_PROG(woken, struct task_struct *task)
{
	if (receives(task))
		tell_named(WAKEUPS, WAKING, task->pid, 0, 0, task->comm);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
