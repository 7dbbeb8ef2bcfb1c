//! Lost packets and connections that are counted for the whole network namespace, not for a CPU or an interface.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{RawNic, read};
use rxlab_base::display_as;
use rxlab_base::parse::{self, Counts, ParseError};
use rxlab_base::units::{Fact, NicName};
use rxlab_sys::{Host, Query};

/// Where on its way a packet is lost, from the wire to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The device and its driver.
    Device,
    /// The interface: any on the way, also tunnels and veths.
    Interface,
    /// The backlog of a CPU.
    Backlog,
    /// Filters of traffic control, and queues of interfaces that lead to a receiver on this machine.
    Tc,
    /// Connection tracking.
    Conntrack,
    /// The socket of a program.
    Socket,
}

display_as! { Stage:
    Device => "device",
    Interface => "interface",
    Backlog => "backlog",
    Tc => "tc",
    Conntrack => "conntrack",
    Socket => "socket",
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Lost packets or connections; no other counter with this meaning counts the same ones.
    Lost,
    /// Some of those that another counter has as lost, or an event that precedes a loss.
    Sign,
    /// What arrived where the losses are counted.
    Arrived,
    /// A number of the moment that does not add up.
    Level,
}

pub(crate) struct Counter {
    /// Name as in nstat(8); in connection tracking, of the column.
    pub(crate) name: &'static str,
    pub(crate) stage: Stage,
    pub(crate) meaning: Meaning,
    source: &'static str,
}

const SNMP: &str = "proc/net/snmp";
const SNMP6: &str = "proc/net/snmp6";
const NETSTAT: &str = "proc/net/netstat";
const CONNTRACK: &str = "proc/net/stat/nf_conntrack";

const fn counter(name: &'static str, stage: Stage, meaning: Meaning, source: &'static str) -> Counter {
    Counter { name, stage, meaning, source }
}

use Meaning::{Arrived, Level, Lost, Sign};
use Stage::{Conntrack, Socket};

/// All that are read. Where they are counted: net/netfilter/nf_conntrack_core.c (nf_conntrack_in,
/// __nf_conntrack_confirm, early_drop), net/ipv4/udp.c (__udp_queue_rcv_skb), net/ipv6/udp.c
/// (__udpv6_queue_rcv_skb), net/ipv4/tcp_ipv4.c (tcp_add_backlog, tcp_v4_syn_recv_sock), net/ipv4/tcp_input.c
/// (tcp_conn_request, tcp_data_queue, tcp_prune_queue).
pub(crate) const COUNTERS: [Counter; 23] = [
    // The table was full, or memory short.
    counter("drop", Conntrack, Lost, CONNTRACK),
    // Another packet of the connection was entered first.
    counter("insert_failed", Conntrack, Lost, CONNTRACK),
    // Connections that were forgotten to make room.
    counter("early_drop", Conntrack, Sign, CONNTRACK),
    counter("entries", Conntrack, Level, CONNTRACK),
    counter("UdpInDatagrams", Socket, Arrived, SNMP),
    counter("Udp6InDatagrams", Socket, Arrived, SNMP6),
    counter("UdpRcvbufErrors", Socket, Lost, SNMP),
    counter("Udp6RcvbufErrors", Socket, Lost, SNMP6),
    // The memory of all UDP sockets was used up (net.ipv4.udp_mem). Since 5.11.
    counter("UdpMemErrors", Socket, Lost, SNMP),
    counter("Udp6MemErrors", Socket, Lost, SNMP6),
    counter("TcpInSegs", Socket, Arrived, SNMP),
    counter("TcpPassiveOpens", Socket, Arrived, SNMP),
    // Includes the overflows and the full queue of requests.
    counter("TcpExtListenDrops", Socket, Lost, NETSTAT),
    counter("TcpExtListenOverflows", Socket, Sign, NETSTAT),
    counter("TcpExtTCPReqQFullDrop", Socket, Sign, NETSTAT),
    counter("TcpExtTCPReqQFullDoCookies", Socket, Sign, NETSTAT),
    counter("TcpExtTCPBacklogDrop", Socket, Lost, NETSTAT),
    // Since 5.0; before that only `RcvPruned`.
    counter("TcpExtTCPRcvQDrop", Socket, Lost, NETSTAT),
    counter("TcpExtPFMemallocDrop", Socket, Lost, NETSTAT),
    counter("TcpExtTCPOFODrop", Socket, Lost, NETSTAT),
    counter("TcpExtRcvPruned", Socket, Sign, NETSTAT),
    counter("TcpExtPruneCalled", Socket, Sign, NETSTAT),
    counter("TcpExtTCPMemoryPressures", Socket, Sign, NETSTAT),
];

/// What one of the kernel's counters means for losses, by its name in nstat(8), with or without the protocol in front. `None` for
/// others.
pub fn counter_in_words(name: &str) -> Option<String> {
    let is_it = |counter: &&Counter| {
        let short = ["TcpExt", "Tcp", "Udp"].iter().find_map(|protocol| counter.name.strip_prefix(protocol));
        // The columns of connection tracking have the names of many things.
        counter.stage != Conntrack
            && [Some(counter.name), short].iter().flatten().any(|own| own.eq_ignore_ascii_case(name))
    };
    let counter = COUNTERS.iter().find(is_it)?;
    let meaning = match counter.meaning {
        Lost => "lost packets or connections",
        Sign => "a sign of losses that another counter has",
        Arrived => "what arrived",
        Level => "a number of the moment",
    };
    Some(format!("counter {} (/{}): {meaning}, at the {}", counter.name, counter.source, counter.stage))
}

/// Counts since the network namespace was created.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    /// By name in [`COUNTERS`]; those that this kernel does not have are missing.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// Files that could not be read, with the reason.
    pub(crate) unread: BTreeMap<&'static str, Fact<()>>,
    /// Drops by interface and place: [`FILTERS`] or [`QUEUES`].
    pub(crate) tc: Fact<BTreeMap<(NicName, &'static str), u64>>,
}

/// Drops by filters of received packets.
pub const FILTERS: &str = "tc filters";
/// Drops by the queueing disciplines of packets to send. Those of classes are in their parents.
pub(crate) const QUEUES: &str = "tc queues";

/// Drops of the queueing disciplines of these interfaces.
fn tc(host: &dyn Host, nics: &[RawNic]) -> Fact<BTreeMap<(NicName, &'static str), u64>> {
    let names: BTreeMap<u32, &NicName> =
        nics.iter().filter_map(|nic| Some((*nic.ifindex.known()?, &nic.name))).collect();
    read::asked(host, &Query::Qdiscs, parse::qdiscs).map(|qdiscs| {
        let mut drops = BTreeMap::new();
        for parse::Qdisc { ifindex, kind, drops: dropped } in qdiscs {
            let Some(name) = names.get(&ifindex) else { continue };
            let place = if matches!(kind.as_str(), "ingress" | "clsact") { FILTERS } else { QUEUES };
            // A queueing discipline counts what those below it drop as well: the largest is the outermost.
            let sum: &mut u64 = drops.entry(((*name).clone(), place)).or_default();
            *sum = (*sum).max(dropped.into());
        }
        drops
    })
}

type Parser = fn(&str) -> Result<Counts, ParseError>;

const SOURCES: [(&str, Parser); 4] =
    [(SNMP, parse::snmp), (NETSTAT, parse::snmp), (SNMP6, parse::snmp6), (CONNTRACK, parse::conntrack_stat)];

impl Losses {
    /// Reads all counters. `has_conntrack` is true if connections are tracked, which a kernel without
    /// CONFIG_NF_CONNTRACK_PROCFS does without counters.
    pub(super) fn take(host: &dyn Host, nics: &[RawNic], has_conntrack: bool) -> Self {
        let mut losses = Self { tc: tc(host, nics), ..Self::default() };
        for (source, parser) in SOURCES {
            match read::parsed(host, source, parser) {
                Fact::Known(counts) => {
                    let own = COUNTERS.iter().filter(|counter| counter.source == source);
                    losses.counts.extend(own.filter_map(|own| Some((own.name, *counts.get(own.name)?))));
                }
                // Without IPv6. A recording that has neither file says nothing.
                Fact::Unsupported if source == SNMP6 && losses.counts.contains_key("UdpInDatagrams") => {}
                // A machine always has other files there, a recording that was made before has none.
                Fact::Unsupported
                    if source == CONNTRACK && !has_conntrack && host.list("proc/net/stat").is_ok() => {}
                absent => drop(losses.unread.insert(source, absent.map(|_| ()))),
            }
        }
        losses
    }
}

/// [`Losses`] between two samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LossRates {
    /// Events per second by name of the counter; of `entries` the number in the second sample.
    pub rates: BTreeMap<String, f64>,
    /// Drops per second by interface and place in traffic control: `tc filters`, `tc queues`.
    #[serde(default)]
    pub tc: Vec<(NicName, String, f64)>,
    /// Files that could not be read, and counters that stepped back, with the reason.
    pub unread: Vec<Unread>,
}

/// A source that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unread {
    /// The stage whose losses it counts.
    pub stage: Stage,
    /// The file or the counter.
    pub source: String,
    /// Reason why it was not read.
    pub why: String,
}

impl LossRates {
    /// Rates between two samples that are `seconds` apart.
    pub(crate) fn between(before: &Losses, after: &Losses, seconds: f64) -> Self {
        let mut rates = Self::default();
        for counter in &COUNTERS {
            let (then, now) = (before.counts.get(counter.name), after.counts.get(counter.name));
            let rate = match (then, now) {
                (_, Some(now)) if counter.meaning == Level => Some(*now as f64),
                (Some(then), Some(now)) => now.checked_sub(*then).map(|grown| grown as f64 / seconds),
                _ => continue,
            };
            match rate {
                Some(rate) => drop(rates.rates.insert(counter.name.to_owned(), rate)),
                None => rates.unread.push(Unread {
                    stage: counter.stage,
                    source: counter.name.to_owned(),
                    why: "it stepped back".to_owned(),
                }),
            }
        }
        match (&before.tc, &after.tc) {
            (Fact::Known(before), Fact::Known(after)) => {
                // One that was just made starts from 0.
                let grown = after.iter().map(|((nic, place), now)| {
                    let then = before.get(&(nic.clone(), *place)).copied().unwrap_or_default();
                    (nic.clone(), (*place).to_owned(), now.saturating_sub(then) as f64 / seconds)
                });
                rates.tc = grown.filter(|(.., rate)| *rate > 0.0).collect();
            }
            (Fact::Known(_), absent) | (absent, _) => rates.unread.push(Unread {
                stage: Stage::Tc,
                source: "queueing disciplines".to_owned(),
                why: reason(absent),
            }),
        }
        for (source, why) in after.unread.iter().chain(&before.unread) {
            let stage =
                COUNTERS.iter().find(|counter| counter.source == *source).map(|counter| counter.stage);
            let source = format!("/{source}");
            if let (Some(stage), false) = (stage, rates.unread.iter().any(|told| told.source == source)) {
                rates.unread.push(Unread { stage, source, why: reason(why) });
            }
        }
        rates
    }

    /// Events/s of a counter; 0 if it was not read.
    pub fn rate(&self, name: &str) -> f64 {
        self.rates.get(name).copied().unwrap_or_default()
    }
}

/// Reason for the absence of a source, in words.
pub(crate) fn reason<T>(absent: &Fact<T>) -> String {
    match absent {
        Fact::Known(_) => "known".to_owned(),
        Fact::NotAsked => "not queried".to_owned(),
        Fact::Unsupported => "missing".to_owned(),
        Fact::Denied(need) => format!("needs {need}"),
        Fact::Broken(why) => why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::{LossRates, Losses, Stage};
    use rxlab_sys::{Cause, Query, RecordedHost};

    const NETSTAT: &str = "TcpExt: ListenOverflows ListenDrops TCPBacklogDrop\nTcpExt: 3 9 1\n";

    fn machine(lost: u32) -> RecordedHost {
        let udp = format!("Udp: InDatagrams RcvbufErrors\nUdp: 5000 {lost}\nTcp: PassiveOpens\nTcp: 4\n");
        let host = RecordedHost::new().with("proc/net/snmp", udp).with("proc/net/netstat", NETSTAT);
        host.with(&Query::Qdiscs.path(), "")
    }

    fn unread(losses: &LossRates) -> Vec<String> {
        losses.unread.iter().map(|unread| format!("{}: {}", unread.source, unread.why)).collect()
    }

    #[test]
    fn rates_of_what_both_samples_have() {
        let losses = |lost| Losses::take(&machine(lost), &[], false);
        let rates = LossRates::between(&losses(100), &losses(700), 2.0);
        assert_eq!((rates.rate("UdpRcvbufErrors"), rates.rate("TcpExtListenDrops")), (300.0, 0.0));
        assert!(!rates.rates.contains_key("TcpExtTCPRcvQDrop"), "this kernel does not count it");
        let back = LossRates::between(&losses(700), &losses(100), 2.0);
        assert!(unread(&back).contains(&"UdpRcvbufErrors: it stepped back".to_owned()), "{back:?}");
        assert!(!back.rates.contains_key("UdpRcvbufErrors"));
    }

    /// A recording without a file says nothing; a machine that has its neighbours does.
    #[test]
    fn a_missing_file_is_not_read_unless_its_neighbours_were() {
        let rates = |host: &RecordedHost, tracked| {
            let losses = Losses::take(host, &[], tracked);
            LossRates::between(&losses, &losses, 1.0)
        };
        let conntrack = "/proc/net/stat/nf_conntrack: missing";
        let old = RecordedHost::new().with("proc/net/netstat", NETSTAT).with("proc/net/dev", "");
        let disciplines = "queueing disciplines: missing";
        let mut told = unread(&rates(&old, false));
        told.sort();
        assert_eq!(told, ["/proc/net/snmp6: missing", "/proc/net/snmp: missing", conntrack, disciplines]);
        assert_eq!(unread(&rates(&machine(0), false)), [conntrack], "a kernel without IPv6");
        let listed = || machine(0).with("proc/net/stat/rt_cache", "");
        assert_eq!(unread(&rates(&listed(), false)), [""; 0]);
        assert_eq!(unread(&rates(&listed(), true)), [conntrack], "tracked, and not counted");
        let denied = rates(&listed().with_failure("proc/net/netstat", Cause::Denied), false).unread;
        assert_eq!((denied[0].stage, denied[0].why.as_str()), (Stage::Socket, "needs root"));
    }

    #[test]
    fn connection_tracking() {
        let host = |drop: &str| {
            let text = format!("entries insert_failed drop early_drop\n00000100 00000000 {drop} 00000000\n");
            machine(0).with("proc/net/stat/nf_conntrack", text)
        };
        let losses = |drop| Losses::take(&host(drop), &[], true);
        let rates = LossRates::between(&losses("00000000"), &losses("00000014"), 2.0);
        assert_eq!((rates.rate("drop"), rates.rate("entries")), (10.0, 256.0));
    }
}
