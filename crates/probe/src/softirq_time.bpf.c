// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Run time of softirqs on each CPU, NET_RX separate from all others. Two clock readings per run and nothing
// else: attached for a part of the time only, see softirq_time.rs.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.bpf.h"

// The layout is read back by softirq_time.rs: change both together. First NET_RX, then all others.
struct time {
	__u64 began;
	__u64 ns[2];
	__u64 runs[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct time);
} times SEC(".maps");

static __always_inline struct time *this_cpu(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&times, &first);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	struct time *time = this_cpu();

	if (time)
		time->began = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vector)
{
	struct time *time = this_cpu();
	__u32 other = vector != NET_RX_SOFTIRQ;

	// A run that began before the window has no beginning.
	if (!time || !time->began)
		return 0;
	time->ns[other] += bpf_ktime_get_ns() - time->began;
	time->runs[other]++;
	time->began = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
