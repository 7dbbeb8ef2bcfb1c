//! The kernel's own reasons for packets that it freed without delivering them (`enum skb_drop_reason`, since 5.17).
//!
//! Counters say how many packets were lost, and some where; a reason says why. It also exists for packets that nobody misses,
//! such as those to a port without a socket, so it explains a loss that a counter shows and proves none by itself.

use serde::{Deserialize, Serialize};

use rxlab_base::number::count;
use rxlab_base::units::{CpuId, NicName};

/// Freed packets of a network namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DropReasons {
    /// Time for which they were counted, after the sample.
    pub seconds: f64,
    /// Most packets first.
    pub packets: Vec<FreedPackets>,
}

/// Packets of one interface that one CPU freed for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FreedPackets {
    /// The interface by which they came, or by which they were to leave; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicName>,
    /// The CPU that freed them.
    pub cpu: CpuId,
    /// The kernel's name of the reason without its prefix, such as `SOCKET_RCVBUFF`.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}

/// What is known of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    name: &'static str,
    /// Cause of the loss, as the rest of a sentence that begins with the packets.
    pub why: &'static str,
    /// What helps, if the counter `rx_dropped` of an interface has such packets; `None` if other counters have them.
    pub remedy: Option<&'static str>,
}

/// The reasons that explain a counter (include/net/dropreason-core.h of 6.18, and the callers of
/// kfree_skb_reason() in net/core, net/ipv4, net/sched and drivers/net/tun.c).
const REASONS: [Reason; 15] = [
    Reason {
        name: "UNHANDLED_PROTO",
        why: "no protocol of this machine takes them, such as frames of spanning tree or LLDP",
        remedy: Some("see what they are with `tcpdump -e`, and have their sender stop"),
    },
    Reason {
        name: "XDP",
        why: "an XDP program drops them",
        remedy: Some("find the program with `bpftool net`"),
    },
    Reason {
        name: "NOMEM",
        why: "the kernel had no memory for them",
        remedy: Some("free memory, or raise vm.min_free_kbytes"),
    },
    Reason {
        name: "DEV_READY",
        why: "the interface was down",
        remedy: Some("find out what sets the interface down"),
    },
    Reason {
        name: "FULL_RING",
        why: "the queue of the program that reads the interface is full",
        remedy: Some("give that program more CPU time or more queues"),
    },
    Reason {
        name: "PFMEMALLOC",
        why: "they are in memory that is reserved for freeing memory",
        remedy: Some("free memory, or raise vm.min_free_kbytes"),
    },
    Reason { name: "CPU_BACKLOG", why: "the backlog of a CPU is full", remedy: None },
    Reason { name: "TC_INGRESS", why: "a filter of traffic control drops them", remedy: None },
    Reason { name: "QDISC_DROP", why: "a queueing discipline has no room for them", remedy: None },
    Reason { name: "NETFILTER_DROP", why: "a firewall rule drops them", remedy: None },
    Reason { name: "SOCKET_RCVBUFF", why: "the receive buffer of the socket is full", remedy: None },
    Reason { name: "SOCKET_BACKLOG", why: "the socket is in use and its backlog is full", remedy: None },
    Reason { name: "PROTO_MEM", why: "the memory of all sockets of the protocol is used up", remedy: None },
    Reason { name: "TCP_LISTEN_OVERFLOW", why: "the accept queue of the socket is full", remedy: None },
    Reason { name: "NO_SOCKET", why: "no socket is bound to the port", remedy: None },
];

/// What is known of the kernel's reason `name`.
pub fn known(name: &str) -> Option<&'static Reason> {
    REASONS.iter().find(|reason| reason.name == name)
}

impl DropReasons {
    /// Packets by reason, most first, of the entries that `of` selects.
    pub fn by_reason(&self, of: impl Fn(&FreedPackets) -> bool) -> Vec<(&str, u64)> {
        let mut sums: Vec<(&str, u64)> = Vec::new();
        for entry in self.packets.iter().filter(|entry| of(entry)) {
            match sums.iter_mut().find(|(reason, _)| *reason == entry.reason) {
                Some((_, sum)) => *sum += entry.packets,
                None => sums.push((&entry.reason, entry.packets)),
            }
        }
        sums.sort_by_key(|(_, packets)| std::cmp::Reverse(*packets));
        sums
    }

    /// Packets by reason of those that `rx_dropped` of an interface may have.
    pub fn of_interface(&self, nic: &NicName) -> Vec<(&str, u64)> {
        let may_have = |reason: &str| known(reason).is_none_or(|reason| reason.remedy.is_some());
        self.by_reason(|entry| entry.nic.as_ref() == Some(nic) && may_have(&entry.reason))
    }

    /// The entries with most packets: `eth0 SOCKET_RCVBUFF 900 on CPU 2, .. in 0.5 s`.
    pub fn in_words(&self, most: usize) -> String {
        let entries = self.packets.iter().take(most).map(|entry| {
            let nic = entry.nic.as_ref().map_or(String::new(), |nic| format!("{nic} "));
            format!("{nic}{} {} on CPU {}", entry.reason, count(entry.packets as f64), entry.cpu.0)
        });
        let entries: Vec<String> = entries.collect();
        let all = if entries.is_empty() { "none".to_owned() } else { entries.join(", ") };
        format!("{all}, in {:.1} s", self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::{DropReasons, FreedPackets, REASONS, known};
    use rxlab_base::units::CpuId;

    fn reasons(packets: &[(&str, u32, &str, u64)]) -> DropReasons {
        let entry = |&(nic, cpu, reason, packets): &(&str, u32, &str, u64)| FreedPackets {
            nic: nic.parse().ok(),
            cpu: CpuId(cpu),
            reason: reason.to_owned(),
            packets,
        };
        DropReasons { seconds: 0.5, packets: packets.iter().map(entry).collect() }
    }

    #[test]
    fn an_interface_has_its_own_reasons_summed_over_cpus() {
        let freed = reasons(&[
            ("eth0", 2, "SOCKET_RCVBUFF", 900),
            ("eth0", 1, "UNHANDLED_PROTO", 30),
            ("eth0", 2, "UNHANDLED_PROTO", 20),
            ("eth0", 1, "A_NEW_ONE", 45),
            ("eth1", 1, "XDP", 7),
            ("", 0, "NOMEM", 5),
        ]);
        assert_eq!(
            freed.of_interface(&"eth0".parse().expect("a name")),
            [("UNHANDLED_PROTO", 50), ("A_NEW_ONE", 45)]
        );
        assert_eq!(freed.of_interface(&"lo".parse().expect("a name")), []);
        assert_eq!(
            freed.in_words(2),
            "eth0 SOCKET_RCVBUFF 900 on CPU 2, eth0 UNHANDLED_PROTO 30 on CPU 1, in 0.5 s"
        );
        assert_eq!(reasons(&[]).in_words(2), "none, in 0.5 s");
    }

    #[test]
    fn a_reason_has_one_row() {
        for reason in &REASONS {
            assert_eq!(known(reason.name), Some(reason));
        }
    }
}
