// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Cost of received packets: time of every NET_RX run, net of the interrupts inside it, by cause
// and by the task it interrupted.
//
// Every event takes constant work, with no stack walk and no event stream. The cause of a run is the place
// where NET_RX was raised: in the handler of an interrupt, in an inter-processor interrupt, in another
// softirq, or by the task itself. The first raise since the last run decides. A run whose raise was not seen,
// because that program was not attached then, has the class of the interrupt that ended just before it, or is
// the task's own.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.bpf.h"
#include "records.bpf.h"
#include "accounts.bpf.h"

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_entry, int number, struct irqaction *action)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->irq = number;
	enter(cpu, IN_IRQ);
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_exit, int number, struct irqaction *action, int result)
{
	struct cpu *cpu = this_cpu();
	struct irq *irq;
	__u64 ns;

	if (!cpu)
		return 0;
	ns = leave(cpu, NIC_IRQ);
	if (!ns)
		return 0;
	cpu->irq_ns += ns;
	cpu->irqs++;
	irq = irq_of(cpu, number);
	if (irq) {
		irq->ns += ns;
		irq->count++;
	}
	charge_interrupt(cpu, ns);
	return 0;
}

SEC("tp_btf/call_function_single_entry")
int BPF_PROG(ipi_entry, int vector)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->ipi_raised = 0;
	enter(cpu, IN_IPI);
	return 0;
}

SEC("tp_btf/call_function_single_exit")
int BPF_PROG(ipi_exit, int vector)
{
	struct cpu *cpu = this_cpu();
	__u64 ns;

	if (!cpu)
		return 0;
	ns = leave(cpu, RPS_IPI);
	if (!ns)
		return 0;
	// Others have another purpose: a wakeup, a TLB flush.
	if (!cpu->ipi_raised) {
		cpu->other_ns += ns;
		cpu->others++;
		cpu->tail_ns = ns;
		return 0;
	}
	cpu->ipi_ns += ns;
	cpu->ipis++;
	charge_interrupt(cpu, ns);
	return 0;
}

// A run shows that the inter-processor interrupt before it handed packets over.
static __always_inline void has_handed_over(struct cpu *cpu)
{
	__u64 ns = cpu->tail_ns;

	if (!ns)
		return;
	cpu->tail_ns = 0;
	cpu->other_ns -= ns;
	cpu->others--;
	cpu->ipi_ns += ns;
	cpu->ipis++;
	charge_interrupt(cpu, ns);
}

SEC("tp_btf/local_timer_entry")
int BPF_PROG(timer_entry, int vector)
{
	struct cpu *cpu = this_cpu();

	if (cpu)
		enter(cpu, IN_TIMER);
	return 0;
}

SEC("tp_btf/local_timer_exit")
int BPF_PROG(timer_exit, int vector)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->other_ns += leave(cpu, OTHER_IRQ);
	cpu->others++;
	return 0;
}

static __always_inline void note_raise(struct cpu *cpu, int unnamed_interrupt)
{
	__u32 class;

	if (cpu->place == IN_IPI)
		cpu->ipi_raised = 1;
	if (cpu->pending)
		return;
	switch (cpu->place) {
	case IN_IRQ:
		class = NIC_IRQ;
		cpu->pending_irq = cpu->irq;
		break;
	case IN_IPI:
		class = RPS_IPI;
		break;
	case IN_TIMER:
		class = OTHER_IRQ;
		break;
	default:
		if (unnamed_interrupt) {
			class = OTHER_IRQ;
		} else if (cpu->serving == NET_RX_SOFTIRQ + 1) {
			// The run goes on in another: it stopped on its budget, or passes packets on.
			class = cpu->run_class;
			cpu->pending_irq = cpu->run_irq;
		} else {
			class = cpu->serving ? OTHER_SOFTIRQ : SELF;
		}
	}
	cpu->pending = class + 1;
}

// One of the two is loaded: a kernel whose symbol table has no variables rejects the first. Without the
// count an interrupt that has neither a number nor a tracepoint (a hypervisor's) counts as the task.
SEC("tp_btf/softirq_raise")
int BPF_PROG(raised, unsigned int vector)
{
	struct cpu *cpu;

	if (vector != NET_RX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (cpu)
		note_raise(cpu, in_hard_interrupt());
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(raised_no_count, unsigned int vector)
{
	struct cpu *cpu;

	if (vector != NET_RX_SOFTIRQ)
		return 0;
	cpu = this_cpu();
	if (cpu)
		note_raise(cpu, 0);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(run_entry, unsigned int vector)
{
	struct cpu *cpu = this_cpu();
	__u32 before;

	if (!cpu)
		return 0;
	cpu->serving = vector + 1;
	// Before the beginning: an interrupt between the two lines adds nothing.
	cpu->run_irq_ns = 0;
	barrier();
	cpu->run_began = bpf_ktime_get_ns();
	if (vector != NET_RX_SOFTIRQ)
		return 0;
	before = cpu->run_began - cpu->tail_at < TAIL ? cpu->tail_class : SELF;
	cpu->tail_at = 0;
	cpu->run_polled = 0;
	if (cpu->pending) {
		cpu->run_class = cpu->pending - 1;
		cpu->run_irq = cpu->pending_irq;
		cpu->compared = 1 + (cpu->run_class == before);
		cpu->pending = 0;
	} else {
		cpu->run_class = before;
		cpu->run_irq = cpu->tail_irq;
		cpu->compared = 0;
		if (before == RPS_IPI)
			has_handed_over(cpu);
	}
	return 0;
}

static __always_inline __u32 log2(__u64 value)
{
	__u32 bits = 0;

	if (value >> 32)
		return 31;
	if (value >> 16) { bits += 16; value >>= 16; }
	if (value >> 8) { bits += 8; value >>= 8; }
	if (value >> 4) { bits += 4; value >>= 4; }
	if (value >> 2) { bits += 2; value >>= 2; }
	return bits + (value >> 1);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(run_exit, unsigned int vector)
{
	struct cpu *cpu = this_cpu();
	struct task_struct *task;
	struct victim *victim;
	struct irq *irq;
	__u64 inside, ns, class;
	__u32 cause;

	if (!cpu)
		return 0;
	cpu->serving = 0;
	if (!cpu->run_began)
		return 0;
	// Before the clock: an interrupt between the two lines is left in, and never subtracted twice.
	inside = cpu->run_irq_ns;
	barrier();
	ns = bpf_ktime_get_ns() - cpu->run_began - inside;
	cpu->run_began = 0;
	cpu->taken_ns += ns;
	if (vector != NET_RX_SOFTIRQ)
		return 0;

	cause = cpu->run_class;
	class = cause;
	task = bpf_get_current_task_btf();
	if (!task->pid)
		class = IDLE;
	else if (IS_KSOFTIRQD(task))
		class = KSOFTIRQD;
	else if (IS_IRQ_THREAD(task))
		class = IRQ_THREAD;
	// The verifier of 6.1 requires a bound on the register that indexes the arrays.
	barrier_var(class);
	if (class >= CLASSES)
		return 0;
	cpu->ns[class] += ns;
	cpu->runs[class]++;
	cpu->histogram[log2(ns) & 31]++;
	cpu->polled_runs += cpu->run_polled;
	if (cpu->compared) {
		cpu->compared_runs++;
		cpu->compared_ns += ns;
		if (cpu->compared == 1) {
			cpu->differing_runs++;
			cpu->differing_ns += ns;
		}
	}
	if (cause == NIC_IRQ) {
		irq = irq_of(cpu, cpu->run_irq);
		if (irq)
			irq->net_rx_ns += ns;
	}
	if (class == IDLE || class == KSOFTIRQD || class == IRQ_THREAD)
		return 0;
	victim = victim_of(cpu, task, ns);
	if (victim)
		victim->ns[class] += ns;
	return 0;
}

// Ends a stretch of a NAPI thread, and begins the next if the thread goes on.
static __always_inline void thread_time(struct cpu *cpu, int goes_on)
{
	__u64 now = bpf_ktime_get_ns();

	if (cpu->thread_began)
		cpu->threaded_ns += now - cpu->thread_began - (cpu->taken_ns - cpu->thread_base);
	cpu->thread_began = goes_on ? now : 0;
	cpu->thread_base = cpu->taken_ns;
}

// A waiting task polls again and again until it has something or gives up, and all that time is in the
// kernel. There is no hook before a poll: the first one of each wait has no length.
static __always_inline void busy_polled(struct cpu *cpu, struct napi_struct *napi, int work)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 task = bpf_get_current_pid_tgid();

	if (cpu->busy_task == task)
		cpu->busy_ns += now - cpu->busy_began - (cpu->taken_ns - cpu->busy_base);
	cpu->busy_polls++;
	cpu->busy_work += work;
	// After the last poll of a wait the task does its own work.
	cpu->busy_task = napi->state & IN_BUSY_POLL ? task : 0;
	cpu->busy_began = now;
	cpu->busy_base = cpu->taken_ns;
}

static __always_inline void count_poll(struct cpu *cpu, struct napi_struct *napi, int work, int budget)
{
	struct key key = {};
	struct napi new = {};
	struct net_device *device;
	struct napi *entry;

	key.cpu = bpf_get_smp_processor_id();
	key.id = napi->napi_id;
	device = napi->dev;
	// NAPIs of transmit queues have no number; the backlog of a CPU has no device either.
	if (!key.id && device)
		key.id = UNNUMBERED | device->ifindex;
	entry = bpf_map_lookup_elem(&napis, &key);
	if (!entry) {
		if (device) {
			new.ifindex = device->ifindex;
			bpf_probe_read_kernel(&new.device, sizeof(new.device), &device->name);
		}
		bpf_map_update_elem(&napis, &key, &new, BPF_NOEXIST);
		entry = bpf_map_lookup_elem(&napis, &key);
		if (!entry) {
			cpu->unlisted++;
			return;
		}
	}
	entry->polls++;
	entry->work += work;
	// A console that empties its device polls with a budget of 0.
	entry->full += budget > 0 && work >= budget;
}

// One of the two is loaded: without a NAPI thread on the machine nothing has to be done at each switch
// between tasks.
SEC("tp_btf/napi_poll")
int BPF_PROG(polled, struct napi_struct *napi, int work, int budget)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (cpu->serving == NET_RX_SOFTIRQ + 1) {
		cpu->run_polled = 1;
	} else {
		if (IS_NAPI_THREAD(bpf_get_current_task_btf())) {
			cpu->threaded_polls++;
			// A thread that has its CPU to itself is never switched to or from.
			thread_time(cpu, 1);
		} else {
			busy_polled(cpu, napi, work);
		}
	}
	count_poll(cpu, napi, work, budget);
	return 0;
}

SEC("tp_btf/napi_poll")
int BPF_PROG(polled_untimed, struct napi_struct *napi, int work, int budget)
{
	struct cpu *cpu = this_cpu();

	if (!cpu)
		return 0;
	if (cpu->serving == NET_RX_SOFTIRQ + 1) {
		cpu->run_polled = 1;
	} else {
		if (IS_NAPI_THREAD(bpf_get_current_task_btf()))
			cpu->threaded_polls++;
		else
			busy_polled(cpu, napi, work);
	}
	count_poll(cpu, napi, work, budget);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	int begins = IS_NAPI_THREAD(next);
	struct cpu *cpu;

	if (!begins && !IS_NAPI_THREAD(prev))
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	thread_time(cpu, begins);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
