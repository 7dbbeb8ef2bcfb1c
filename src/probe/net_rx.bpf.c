// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Who pays for received packets: time of every NET_RX run, net of the interrupts inside it, by what caused
// it and by the task it interrupted.
//
// Every event takes constant work, with no stack walk and no event stream. Why a run took place is known
// from where NET_RX was raised: in the handler of an interrupt, in an inter-processor interrupt, in another
// softirq, or by the task itself. The first raise since the last run decides.
//
// The layouts are read back by raw.rs: change both together.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// kernel/softirq.c: enum of softirqs.
#define NET_RX_SOFTIRQ 3
// include/linux/sched.h.
#define PF_KTHREAD 0x00200000
// include/linux/preempt.h: hard interrupts and NMIs.
#define HARD_MASK 0x00ff0000

// Set in the key of a NAPI without a number, beside the index of its device.
#define UNNUMBERED 0x80000000

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

// Why a run took place, or whose time it is; the order is that of `Class` in class.rs.
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

// Where this CPU is, as far as the hooks tell.
enum place { TASK, IN_IRQ, IN_IPI, IN_TIMER };

struct cpu {
	// Of the run and of the interrupt that are under way; 0 = none.
	__u64 run_began;
	__u64 run_irq_ns;
	__u64 irq_began;
	__u64 thread_began;
	__u64 thread_base;
	// Number of the interrupt under way, of the one that raised NET_RX, of the one that caused the run.
	__u32 irq;
	__u32 pending_irq;
	__u32 run_irq;
	__u32 place;
	// Softirq under way, plus 1.
	__u32 serving;
	// Class of the raise that waits for its run, plus 1; class of the run.
	__u32 pending;
	__u32 run_class;
	// This inter-processor interrupt has raised NET_RX.
	__u32 ipi_raised;
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
	// What found its table full.
	__u64 unlisted_ns;
	__u64 unlisted;
	// Timers, and inter-processor interrupts with other reasons.
	__u64 other_ns;
	__u64 others;
} __attribute__((aligned(64)));

struct key {
	__u32 cpu;
	// Interrupt, NAPI, or process.
	__u32 id;
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
	// Which of the programs that the process became has this name.
	__u32 exec_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	// The loader makes it one for each possible CPU.
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct irq);
} irqs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct napi);
} napis SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, struct victim);
} victims SEC(".maps");

static __always_inline struct cpu *this_cpu(void)
{
	__u32 id = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, &id);
}

static __always_inline int in_hard_interrupt(void)
{
	const int *count = 0;

	if (&__preempt_count)
		count = bpf_this_cpu_ptr(&__preempt_count);
	else if (&pcpu_hot)
		count = &((const struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
	return count && (*count & HARD_MASK);
}

// Whether the name of a kernel thread begins so; 8 bytes tell them all apart.
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
#define IS_NAPI_THREAD(task) named(task, 0xffffffffffULL, "napi/\0\0\0")

static __always_inline struct victim *victim_of(struct cpu *cpu, struct task_struct *task, __u64 ns)
{
	struct key key = { bpf_get_smp_processor_id(), task->tgid };
	struct victim *victim = bpf_map_lookup_elem(&victims, &key);
	struct victim new = {};

	if (!victim) {
		new.exec_id = task->self_exec_id - 1;
		bpf_map_update_elem(&victims, &key, &new, BPF_NOEXIST);
		victim = bpf_map_lookup_elem(&victims, &key);
	}
	if (!victim) {
		cpu->unlisted_ns += ns;
		cpu->unlisted++;
		return 0;
	}
	if (victim->exec_id != task->self_exec_id) {
		victim->exec_id = task->self_exec_id;
		victim->cgroup = bpf_get_current_cgroup_id();
		bpf_probe_read_kernel(&victim->comm, sizeof(victim->comm), &task->group_leader->comm);
	}
	return victim;
}

static __always_inline struct irq *irq_of(struct cpu *cpu, __u32 number)
{
	struct key key = { bpf_get_smp_processor_id(), number };
	struct irq *irq = bpf_map_lookup_elem(&irqs, &key);
	struct irq new = {};

	if (irq)
		return irq;
	bpf_map_update_elem(&irqs, &key, &new, BPF_NOEXIST);
	irq = bpf_map_lookup_elem(&irqs, &key);
	if (!irq)
		cpu->unlisted++;
	return irq;
}

// Interrupt time that a task paid for. Inside a run it is kept apart from the run's own.
static __always_inline void charge_interrupt(struct cpu *cpu, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct victim *victim;

	if (!task->pid)
		return;
	victim = victim_of(cpu, task, ns);
	if (victim)
		victim->irq_ns += ns;
}

static __always_inline void enter(struct cpu *cpu, __u32 place)
{
	cpu->place = place;
	cpu->irq_began = bpf_ktime_get_ns();
}

// Ends the interrupt under way and gives its length; 0 when its beginning was not seen.
static __always_inline __u64 leave(struct cpu *cpu)
{
	__u64 ns = 0;

	if (cpu->irq_began)
		ns = bpf_ktime_get_ns() - cpu->irq_began;
	if (cpu->run_began)
		cpu->run_irq_ns += ns;
	cpu->irq_began = 0;
	cpu->place = TASK;
	return ns;
}

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
	ns = leave(cpu);
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
	ns = leave(cpu);
	if (!ns)
		return 0;
	// Others have other reasons: a wakeup, a flush of the TLB.
	if (!cpu->ipi_raised) {
		cpu->other_ns += ns;
		cpu->others++;
		return 0;
	}
	cpu->ipi_ns += ns;
	cpu->ipis++;
	charge_interrupt(cpu, ns);
	return 0;
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
	cpu->other_ns += leave(cpu);
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
		} else if (cpu->run_began) {
			// The run goes on in another: it stopped on its budget, or passes packets on.
			class = cpu->run_class;
			cpu->pending_irq = cpu->run_irq;
		} else {
			class = cpu->serving ? OTHER_SOFTIRQ : SELF;
		}
	}
	cpu->pending = class + 1;
}

// One of the two is loaded: a kernel whose symbol table has no variables refuses the first. Without the
// count an interrupt that has neither a number nor a tracepoint (a hypervisor's) passes for the task.
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

	if (!cpu)
		return 0;
	cpu->serving = vector + 1;
	if (vector != NET_RX_SOFTIRQ)
		return 0;
	cpu->run_class = cpu->pending ? cpu->pending - 1 : UNKNOWN;
	cpu->run_irq = cpu->pending_irq;
	cpu->pending = 0;
	// Before the beginning: an interrupt between the two lines adds nothing.
	cpu->run_irq_ns = 0;
	barrier();
	cpu->run_began = bpf_ktime_get_ns();
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
	if (vector != NET_RX_SOFTIRQ || !cpu->run_began)
		return 0;
	// Before the clock: an interrupt between the two lines is left in, and never taken out twice.
	inside = cpu->run_irq_ns;
	barrier();
	ns = bpf_ktime_get_ns() - cpu->run_began - inside;
	cpu->run_began = 0;

	cause = cpu->run_class;
	class = cause;
	task = bpf_get_current_task_btf();
	if (!task->pid)
		class = IDLE;
	else if (IS_KSOFTIRQD(task))
		class = KSOFTIRQD;
	else if (IS_IRQ_THREAD(task))
		class = IRQ_THREAD;
	// The verifier of 6.1 wants the very register bounded that the arrays are indexed with.
	barrier_var(class);
	if (class >= CLASSES)
		return 0;
	cpu->ns[class] += ns;
	cpu->runs[class]++;
	cpu->histogram[log2(ns) & 31]++;
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

SEC("tp_btf/napi_poll")
int BPF_PROG(polled, struct napi_struct *napi, int work, int budget)
{
	struct cpu *cpu = this_cpu();
	struct key key = {};
	struct napi new = {};
	struct net_device *device;
	struct napi *entry;

	if (!cpu)
		return 0;
	if (!cpu->run_began) {
		if (IS_NAPI_THREAD(bpf_get_current_task_btf())) {
			cpu->threaded_polls++;
		} else {
			cpu->busy_polls++;
			cpu->busy_work += work;
		}
	}
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
			return 0;
		}
	}
	entry->polls++;
	entry->work += work;
	entry->full += work >= budget;
	return 0;
}

// NET_RX and interrupt time of this CPU: what a thread of it has to be relieved of.
static __always_inline __u64 not_of_threads(const struct cpu *cpu)
{
	__u64 sum = cpu->irq_ns + cpu->ipi_ns;
	int class;

#pragma unroll
	for (class = 0; class < CLASSES; class++)
		sum += cpu->ns[class];
	return sum;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
	int begins = IS_NAPI_THREAD(next);
	struct cpu *cpu;
	__u64 now;

	if (!begins && !IS_NAPI_THREAD(prev))
		return 0;
	cpu = this_cpu();
	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (cpu->thread_began)
		cpu->threaded_ns += now - cpu->thread_began - (not_of_threads(cpu) - cpu->thread_base);
	cpu->thread_began = begins ? now : 0;
	cpu->thread_base = not_of_threads(cpu);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
