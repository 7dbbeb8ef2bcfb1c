// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Packets that the kernel frees because it does not deliver them, with its reason, by CPU and interface.

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

// Network namespace whose packets count: the inode of its file.
const volatile __u32 only_namespace;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct net_device {
	int ifindex;
	possible_net_t nd_net;
};
struct dst_entry {
	struct net_device *dev;
};
struct sk_buff {
	struct net_device *dev;
	unsigned long _skb_refdst;
	int skb_iif;
};
#pragma clang attribute pop

// include/linux/skbuff.h: without the bit of a destination that is not counted.
#define SKB_DST_PTRMASK (~1UL)

// The layout is read back by drops.rs: change both together.
struct key {
	__u32 cpu;
	// 0: not known.
	__u32 ifindex;
	__u32 reason;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct key);
	__type(value, __u64);
} drops SEC(".maps");

// Runs of the program, for packets of any namespace.
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} runs SEC(".maps");

SEC("tp_btf/kfree_skb")
int BPF_PROG(freed, struct sk_buff *skb, void *location, unsigned int reason)
{
	struct key key = { .cpu = bpf_get_smp_processor_id(), .ifindex = skb->skb_iif, .reason = reason };
	struct net_device *dev = skb->dev;
	__u64 *count, *run, one = 1;
	__u32 first = 0;

	run = bpf_map_lookup_elem(&runs, &first);
	if (run)
		++*run;
	// TCP clears the device, but the route still leads to one of the same namespace.
	if (!dev) {
		struct dst_entry *dst = (void *)(skb->_skb_refdst & SKB_DST_PTRMASK);

		dev = BPF_CORE_READ(dst, dev);
	} else if (!key.ifindex) {
		// Not yet received, such as for a full backlog.
		key.ifindex = BPF_CORE_READ(dev, ifindex);
	}
	if (BPF_CORE_READ(dev, nd_net.net, ns.inum) != only_namespace)
		return 0;
	count = bpf_map_lookup_elem(&drops, &key);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		bpf_map_update_elem(&drops, &key, &one, BPF_NOEXIST);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
