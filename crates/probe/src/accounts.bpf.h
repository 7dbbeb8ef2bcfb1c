// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The task or interrupt that this CPU works for, and the account that a time goes to.

#pragma once

static __always_inline struct cpu *this_cpu(void)
{
	__u32 id = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, &id);
}

static __always_inline struct victim *victim_of(struct cpu *cpu, struct task_struct *task, __u64 ns)
{
	struct task_struct *leader = task->group_leader;
	struct process key = { bpf_get_smp_processor_id(), task->tgid, leader->start_boottime };
	__u32 at = SLOT(task->tgid);
	struct victim_slot *slot = bpf_map_lookup_elem(&victim_slots, &at);
	struct victim *victim = 0;
	struct victim new = {};

	// An interrupt in between has the same task: it takes the slot for the same process.
	if (slot && !slot->process.id) {
		slot->victim.exec_id = task->self_exec_id - 1;
		slot->process = key;
	}
	if (slot && slot->process.id == key.id && slot->process.began == key.began)
		victim = &slot->victim;
	else
		victim = bpf_map_lookup_elem(&victims, &key);
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
		bpf_probe_read_kernel(&victim->comm, sizeof(victim->comm), &leader->comm);
	}
	return victim;
}

static __always_inline struct irq *irq_of(struct cpu *cpu, __u32 number)
{
	struct key key = { bpf_get_smp_processor_id(), number };
	__u32 at = SLOT(number);
	struct irq_slot *slot = bpf_map_lookup_elem(&irq_slots, &at);
	struct irq new = {};
	struct irq *irq;

	// At once: another interrupt may come in between.
	if (slot && !slot->number)
		__sync_val_compare_and_swap(&slot->number, 0, number + 1ULL);
	if (slot && slot->number == number + 1ULL)
		return &slot->irq;
	irq = bpf_map_lookup_elem(&irqs, &key);
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

	// Threads that exist to receive lose nothing, as in run_exit.
	if (!task->pid || IS_KSOFTIRQD(task) || IS_IRQ_THREAD(task) || IS_NAPI_THREAD(task))
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

// Ends the interrupt under way and returns its length; 0 when its beginning was not seen.
static __always_inline __u64 leave(struct cpu *cpu, __u32 class)
{
	__u64 now = bpf_ktime_get_ns();
	__u64 ns = cpu->irq_began ? now - cpu->irq_began : 0;

	// A timer that comes between an interrupt and the run that it caused does not cause that run.
	if (class != OTHER_IRQ || cpu->irq_began - cpu->tail_at >= TAIL) {
		cpu->tail_class = class;
		cpu->tail_irq = cpu->irq;
		cpu->tail_ns = 0;
	}
	cpu->tail_at = now;
	if (cpu->run_began)
		cpu->run_irq_ns += ns;
	cpu->taken_ns += ns;
	cpu->irq_began = 0;
	cpu->place = TASK;
	return ns;
}
