// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Runs the programs of net_rx.bpf.c in user space, on one CPU: reads events and their times from standard input and
// writes the programs' counts to standard output. So a test knows every duration to the nanosecond.
//
// A line is a time, an event and its arguments. `task NAME PID STARTED` makes a task the current one; PID 0 is the
// idle task, a name with a slash is a kernel thread.

#include <stdio.h>

#include "../../../../crates/probe/src/net_rx.bpf.c"

static struct task_struct *task(const char *name, int pid, unsigned long long started)
{
	struct task_struct *task = calloc(1, sizeof(*task));

	task->flags = strchr(name, '/') ? PF_KTHREAD : 0;
	task->pid = task->tgid = pid;
	task->group_leader = task;
	task->start_boottime = started;
	task->self_exec_id = 1;
	strncpy(task->comm, name, sizeof(task->comm) - 1);
	return task;
}

static void poll(const char *state, int work)
{
	struct napi_struct napi = { .napi_id = 7 };

	napi.state = strcmp(state, "waits") ? 0 : IN_BUSY_POLL;
	polled(&napi, work, 64);
}

static void event(const char *name, const char *word, long number, unsigned long long other)
{
	struct task_struct *before = current;

	if (!strcmp(name, "task")) {
		current = task(word, number, other);
		if (before)
			switched(0, before, current);
	}
#define CALL(event, call) if (!strcmp(name, event)) call
	CALL("irq_entry", irq_entry(number, 0));
	CALL("irq_exit", irq_exit(number, 0, 1));
	CALL("ipi_entry", ipi_entry(0));
	CALL("ipi_exit", ipi_exit(0));
	CALL("timer_entry", timer_entry(0));
	CALL("timer_exit", timer_exit(0));
	CALL("raise", raised_no_count(number));
	CALL("softirq_entry", run_entry(number));
	CALL("softirq_exit", run_exit(number));
	CALL("poll", poll(word, number));
}

static void print_victim(const struct process *process, const struct victim *victim)
{
	printf("victim.%s.%llu %llu\n", victim->comm, process->began, victim->ns[NIC_IRQ]);
}

int main(void)
{
	static const char *names[] = { "NIC_IRQ", "RPS_IPI", "OTHER_IRQ", "OTHER_SOFTIRQ", "SELF",
				       "KSOFTIRQD", "IRQ_THREAD", "IDLE", "UNKNOWN" };
	char line[256], name[32], word[32];
	unsigned long long other;
	struct entry *entry;
	struct cpu *cpu;
	long number;
	int class;

	while (fgets(line, sizeof(line), stdin)) {
		number = other = 0;
		if (sscanf(line, "%llu %31s %31s %ld %llu", &now_ns, name, word, &number, &other) < 3)
			continue;
		event(name, word, number, other);
	}
	cpu = this_cpu();
	for (class = 0; class < CLASSES; class++)
		printf("%s %llu\n", names[class], cpu->ns[class]);
	printf("threaded %llu\nbusy %llu\n", cpu->threaded_ns, cpu->busy_ns);
	printf("ipi %llu\nother %llu\n", cpu->ipi_ns, cpu->other_ns);
	printf("compared %llu\ndiffering %llu\n", cpu->compared_ns, cpu->differing_ns);
	for (entry = entries; entry; entry = entry->next) {
		struct victim_slot *slot = entry->value;

		if (entry->map == &victims)
			print_victim(entry->key, entry->value);
		if (entry->map == &victim_slots && slot->process.id)
			print_victim(&slot->process, &slot->victim);
	}
	return 0;
}
