// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Replaces libbpf's header: functions called by the BPF programs, for replay.c, which runs them in user space.

#pragma once

#include <stdlib.h>
#include <string.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name
#define __ksym
#define __weak __attribute__((weak))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define barrier() asm volatile("" ::: "memory")
#define barrier_var(variable) asm volatile("" : "+r"(variable))

struct entry {
	struct entry *next;
	const void *map;
	void *key;
	void *value;
};

struct task_struct;
static struct entry *entries;
static struct task_struct *current;
static unsigned long long now_ns;

// Array elements exist from the start, as zeros.
static void *lookup(const void *map, int is_array, const void *key, size_t key_size, size_t value_size)
{
	struct entry *entry;

	for (entry = entries; entry; entry = entry->next)
		if (entry->map == map && !memcmp(entry->key, key, key_size))
			return entry->value;
	if (!is_array)
		return 0;
	entry = calloc(1, sizeof(*entry));
	entry->map = map;
	entry->key = memcpy(malloc(key_size), key, key_size);
	entry->value = calloc(1, value_size);
	entry->next = entries;
	return (entries = entry)->value;
}

#define IS_ARRAY(map) (sizeof(*(map)->type) == BPF_MAP_TYPE_ARRAY * sizeof(int))
#define bpf_map_lookup_elem(map, key_of) \
	lookup(map, IS_ARRAY(map), key_of, sizeof(*(map)->key), sizeof(*(map)->value))
#define bpf_map_update_elem(map, key_of, value_of, flags) \
	memcpy(lookup(map, 1, key_of, sizeof(*(map)->key), sizeof(*(map)->value)), value_of, sizeof(*(map)->value))
#define bpf_get_smp_processor_id() 0
#define bpf_ktime_get_ns() now_ns
#define bpf_get_current_task_btf() current
#define bpf_get_current_pid_tgid() ((unsigned long long)current->tgid << 32 | current->pid)
#define bpf_get_current_cgroup_id() 1
#define bpf_probe_read_kernel(to, size, from) memcpy(to, from, size)
#define bpf_this_cpu_ptr(variable) (variable)
