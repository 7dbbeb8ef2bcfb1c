// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The part of NET_RX that RPS could hand over: the cost of packets past the point where it chooses a CPU.
// `netif_receive_skb` comes right after that point; a driver's next packet or the end of its poll ends it.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "kernel.bpf.h"

// Filter of the runs; zero selects all: runs on top of this thread, and runs with a packet of this network
// namespace.
const volatile __u32 only_thread;
const volatile __u32 only_namespace;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common___of_net {
	unsigned int inum;
};
struct net___of_device {
	struct ns_common___of_net ns;
};
struct possible_net___of_device {
	struct net___of_device *net;
};
struct net_device___of_skb {
	struct possible_net___of_device nd_net;
};
struct sk_buff {
	struct net_device___of_skb *dev;
};
#pragma clang attribute pop

// The layout is read back by handover.rs: change both together.
struct work {
	__u64 run_began;
	__u64 stack_began;
	// An inter-processor interrupt was sent since then.
	__u64 sent;
	// The run under way counts.
	__u64 counts;
	__u64 run_ns;
	__u64 runs;
	// Ways through the stack, of a packet or a list of packets: all, and those that sent an interrupt.
	__u64 stack_ns;
	__u64 ways;
	__u64 sent_ns;
	__u64 sent_ways;
	__u64 packets;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

// The record of this CPU while it runs NET_RX.
static __always_inline struct work *at_work(void)
{
	__u32 first = 0;
	struct work *work = bpf_map_lookup_elem(&works, &first);

	return work && work->run_began ? work : 0;
}

static __always_inline void leave_stack(struct work *work, __u64 now)
{
	__u64 ns = now - work->stack_began;

	if (work->stack_began && work->counts) {
		work->stack_ns += ns;
		work->ways++;
		if (work->sent) {
			work->sent_ns += ns;
			work->sent_ways++;
		}
	}
	work->stack_began = 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(run_entry, unsigned int vector)
{
	__u32 first = 0;
	struct work *work = bpf_map_lookup_elem(&works, &first);

	if (work && vector == NET_RX_SOFTIRQ) {
		work->stack_began = 0;
		work->counts = !only_thread || (__u32)bpf_get_current_pid_tgid() == only_thread;
		work->run_began = bpf_ktime_get_ns();
	}
	return 0;
}

// All packets of a list come by here before the first of them goes on: only the first one begins.
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(received, struct sk_buff *skb)
{
	struct work *work = at_work();

	if (!work)
		return 0;
	if (only_namespace && skb->dev->nd_net.net->ns.inum == only_namespace)
		work->counts = 1;
	work->packets += work->counts;
	if (!work->stack_began) {
		work->sent = 0;
		work->stack_began = bpf_ktime_get_ns();
	}
	return 0;
}

SEC("tp_btf/ipi_send_cpu")
int BPF_PROG(interrupted, unsigned int cpu, unsigned long from, void *callback)
{
	struct work *work = at_work();

	if (work)
		work->sent = 1;
	return 0;
}

static __always_inline int left(void)
{
	struct work *work = at_work();

	if (work && work->stack_began)
		leave_stack(work, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/napi_gro_receive_entry")
int BPF_PROG(brought, void *skb)
{
	return left();
}

SEC("tp_btf/napi_gro_frags_entry")
int BPF_PROG(brought_frags, void *skb)
{
	return left();
}

SEC("tp_btf/napi_poll")
int BPF_PROG(polled, void *napi, int done, int budget)
{
	return left();
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(run_exit, unsigned int vector)
{
	struct work *work = at_work();
	__u64 now;

	if (!work || vector != NET_RX_SOFTIRQ)
		return 0;
	now = bpf_ktime_get_ns();
	leave_stack(work, now);
	if (work->counts) {
		work->run_ns += now - work->run_began;
		work->runs++;
	}
	work->run_began = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
