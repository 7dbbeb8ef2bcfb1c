//! A plan that uses every knob, for the machine made of plain files.

use std::collections::BTreeSet;

use rxlab_change::knob::KNOBS;
use rxlab_setting::Setting;

/// One value for each knob, and the file that its write changes: two files for the queue with two interrupts and for the
/// process with two threads.
pub(crate) const SETTINGS: [(&str, &str); 41] = [
    ("irqbalance eth0 = banned", "socket/irqbalance/70/setup"),
    ("threaded eth0 = on", "eth0/threaded"),
    ("queue_threaded eth0/rx-1 = on", "netdev/napi-get"),
    ("napi_defer_hard_irqs eth0 = 2", "eth0/napi_defer_hard_irqs"),
    ("queue_defer_hard_irqs eth0/rx-0 = 5", "netdev/napi-get"),
    ("gro_flush_timeout eth0 = 20000", "eth0/gro_flush_timeout"),
    ("queue_gro_flush_timeout eth0/rx-0 = 50000", "netdev/napi-get"),
    ("irq_suspend_timeout eth0/rx-1 = 20000000", "netdev/napi-get"),
    ("irq_affinity eth0/rx-0 = 3", "irq/24/smp_affinity"),
    ("default_smp_affinity host = 0-3", "default_smp_affinity"),
    ("irq_affinity eth0/rx-1 = 4-5", "irq/25/smp_affinity"),
    ("irq_affinity eth0/tx-1 = 5", "irq/41/smp_affinity"),
    ("irq_affinity eth0/irq-eth0 = 2", "irq/39/smp_affinity"),
    ("xps_cpus eth0/tx-0 = 0-1", "tx-0/xps_cpus"),
    ("xps_rxqs eth0/tx-1 = 1", "tx-1/xps_rxqs"),
    ("rps_default_mask host = 2-3", "rps_default_mask"),
    ("rps eth0/rx-0 = 1-3", "eth0/queues/rx-0/rps_cpus"),
    ("rps veth0/rx-0 = 2", "veth0/queues/rx-0/rps_cpus"),
    ("rfs_entries host = 32768", "rps_sock_flow_entries"),
    ("rfs eth0/rx-0 = 16384", "rx-0/rps_flow_cnt"),
    ("rfs eth0/rx-1 = 16384", "rx-1/rps_flow_cnt"),
    ("netdev_budget host = 600", "netdev_budget"),
    ("netdev_budget_usecs host = 12000", "netdev_budget_usecs"),
    ("netdev_max_backlog host = 2000", "netdev_max_backlog"),
    ("dev_weight host = 128", "dev_weight"),
    ("flow_limit_cpus host = 0-1", "flow_limit_cpu_bitmap"),
    ("gro_normal_batch host = 16", "gro_normal_batch"),
    ("skb_defer_max host = 128", "skb_defer_max"),
    ("busy_poll host = 50", "busy_poll"),
    ("busy_read host = 50", "busy_read"),
    ("rmem_default host = 1048576", "rmem_default"),
    ("rmem_max host = 8388608", "rmem_max"),
    ("somaxconn host = 16384", "somaxconn"),
    ("tcp_max_syn_backlog host = 4096", "tcp_max_syn_backlog"),
    ("nf_conntrack_max host = 524288", "nf_conntrack_max"),
    ("clocksource host = hpet", "current_clocksource"),
    ("affinity pid:812 = 4-5", "task/813/status"),
    ("ksoftirqd_priority cpu:2 = fifo:10", "22/stat"),
    ("ksoftirqd_priority cpu:3 = nice:-5", "23/stat"),
    ("napi_affinity eth0/rx-1 = 4", "task/501/status"),
    ("napi_priority eth0/rx-1 = rr:3", "501/stat"),
];

/// The driver recreates its queues, and adds one.
const QUEUES: [&str; 3] = ["channels eth0 = combined 3", "irq_affinity eth0/rx-2 = 5", "rps eth0/rx-2 = 1"];

/// Before the queues: device settings.
const RINGS: [&str; 2] = ["ring_rx eth0 = 512", "ring_tx eth0 = 1024"];

/// After the queues: which of them the device selects, and its moderation.
const DEVICE: [&str; 30] = [
    "rss_key eth0 = 01020304",
    "rss_fields_tcp4 eth0 = sdfn",
    "rss_fields_udp4 eth0 = sdfn",
    "rss_fields_tcp6 eth0 = none",
    "rss_fields_udp6 eth0 = sdfn",
    "rss_symmetric eth0 = xor",
    "rss eth0 = weights 1,3",
    "rss_context eth0/context-1 = equal 1",
    "rss_context eth0/context-2 = equal 2",
    "rss_context eth0/context-3 = weights 1,3",
    "ntuple eth0 = on",
    "ntuple_rule eth0/rule-3 = tcp4 dst-ip 10.0.0.2 dst-port 443 action 1",
    "ntuple_rule eth0/rule-7 = ether dst 02:fc:00:00:00:01 action 0",
    "ntuple_rule eth0/rule-8 = none",
    "adaptive_rx eth0 = off",
    "adaptive_tx eth0 = off",
    "rx_usecs eth0 = 50",
    "rx_frames eth0 = 64",
    "tx_usecs eth0 = 60",
    "tx_frames eth0 = 32",
    "queue_adaptive_rx eth0/rx-1 = on",
    "queue_rx_usecs eth0/rx-1 = 100",
    "queue_rx_frames eth0/rx-0 = 16",
    "gro eth0 = off",
    "gro_hw eth0 = on",
    "lro eth0 = on",
    "rx_checksum eth0 = off",
    "udp_gro_forwarding eth0 = on",
    "gro_max_size eth0 = 185000",
    "gro_ipv4_max_size eth0 = 180000",
];

pub(crate) fn setting(text: &str) -> Setting {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn settings(texts: &[&str]) -> Vec<Setting> {
    texts.iter().copied().map(setting).collect()
}

/// All of them, in the order of applying.
pub(crate) fn everything() -> Vec<Setting> {
    let [channels, irq, rps] = QUEUES;
    let texts = SETTINGS.map(|(text, _)| text);
    let (before, rest) = texts.split_at(1);
    let (irqs, rest) = rest.split_at(11);
    settings(&[before, &RINGS, &[channels], &DEVICE, irqs, &[irq, rps], rest].concat())
}

/// Knobs that are killed at every operation together: those of one group disturb, replay or precede each other.
const GROUPS: [&str; 6] = [
    // Queues that are created again, with their interrupts, rings and tables.
    "irqbalance ring_rx ring_tx channels rss irq_affinity default_smp_affinity",
    // The masks of these queues, of each and of all.
    "channels rps_default_mask rps rfs_entries rfs xps_cpus xps_rxqs flow_limit_cpus",
    // The device's choice of a queue: contexts, fields, and rules that go with their switch.
    "rss_key rss_fields_tcp4 rss_fields_udp4 rss_fields_tcp6 rss_fields_udp6 rss_symmetric rss rss_context \
     ntuple ntuple_rule",
    // Moderation, of which the switches come first, and offloads.
    "adaptive_rx adaptive_tx rx_usecs rx_frames tx_usecs tx_frames queue_adaptive_rx queue_rx_usecs \
     queue_rx_frames gro gro_hw lro rx_checksum udp_gro_forwarding gro_max_size gro_ipv4_max_size",
    // Polling, of the device and of each queue, and the threads that do it.
    "threaded queue_threaded napi_defer_hard_irqs queue_defer_hard_irqs gro_flush_timeout \
     queue_gro_flush_timeout irq_suspend_timeout napi_affinity napi_priority \
     ksoftirqd_priority affinity",
    // The machine's own limits.
    "netdev_budget netdev_budget_usecs netdev_max_backlog dev_weight gro_normal_batch skb_defer_max busy_poll \
     busy_read rmem_default rmem_max somaxconn tcp_max_syn_backlog nf_conntrack_max clocksource",
];

/// [`everything`] in groups, each in the order of applying.
pub(crate) fn groups() -> Vec<Vec<Setting>> {
    let everything = everything();
    let group = |knobs: &&str| {
        let is_in = |setting: &&Setting| knobs.split(' ').any(|knob| knob == setting.knob);
        everything.iter().filter(is_in).cloned().collect()
    };
    GROUPS.iter().map(group).collect()
}

#[test]
fn every_knob_is_used() {
    let all: BTreeSet<&str> = KNOBS.iter().map(|knob| knob.name()).collect();
    let (everything, groups) = (everything(), groups().concat());
    for settings in [&everything, &groups] {
        assert_eq!(settings.iter().map(|setting| setting.knob.as_str()).collect::<BTreeSet<_>>(), all);
    }
}
