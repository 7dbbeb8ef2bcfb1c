//! Packets that an interface dropped, and neither its ring nor a backlog accounts for.

use std::ops::RangeInclusive;

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, precise_percent};
use rxlab_path::drop_reasons::{DropReasons, Reason, known};
use rxlab_path::ledger::{Dropped, dropped};
use rxlab_path::model::{Model, Nic, NicKind, Rates};

/// Drops per second from which they matter: `rx_dropped` also has frames that no protocol here takes (spanning tree, LLDP,
/// VLANs that are not set up), of which a quiet network sends several per second.
const DROPS: f64 = 10.0;

/// Part of the interface's packets from which they matter: a tenth of a percent makes TCP slow; less may be those frames.
const PART: f64 = 1e-3;

/// Names the reason of each packet that the kernel frees, from 5.17 on.
const REASONS: &str = "perf trace -a -e skb:kfree_skb";

pub(super) const RULE: Rule = Rule {
    id: "interface-drops",
    asks: "Does an interface drop packets that neither its ring nor a backlog lost?",
    fires: || {
        format!(
            "an interface drops at least {} packets/s and {} of its packets (rx_dropped without those that the device had no \
             buffer for, or that a full backlog dropped; tx_dropped of a veth or a tap, whose other end does not get them)",
            count(DROPS),
            precise_percent(PART)
        )
    },
    silent: "ring-overruns or backlog-drops reports them, or they are few: frames of a protocol that this machine does not \
             speak count as dropped",
    evidence: "packets dropped and received per second, statistics of the driver that grew, the kernel's reasons",
    cause: "The driver had no memory for a packet or refused it, a tunnel could not queue or decrypt it, nothing here takes \
            its protocol or VLAN, or the other end of a veth or a tap was full.",
    remedy: "Find the reason: `ethtool -S` of the interface, or `perf trace -a -e skb:kfree_skb`, which names it from kernel \
             5.17 on. A tunnel drops what its CPU has no time for: spread its packets.",
    source: "include/uapi/linux/if_link.h (rx_dropped, tx_dropped); net/core/dev.c __netif_receive_skb_core, dev_get_stats; \
             net/core/gro_cells.c gro_cells_receive; drivers/net/veth.c veth_xmit; drivers/net/tun.c tun_net_xmit",
    check: Check::Nic(finding),
};

/// Reasons in the evidence.
const SHOWN: usize = 3;

/// Packets of a reason, in multiples of the drops, for which it is their cause. Many more are others: an inactive member of a
/// bond frees what it receives as `UNHANDLED_PROTO`, and counts it as rx_nohandler (Documentation/ABI/testing/
/// sysfs-class-net-statistics).
const EXPLAINS: RangeInclusive<f64> = 0.5..=2.0;

/// Tunnels that queue what they unwrapped for a poll on the same CPU, at most `netdev_max_backlog` packets
/// (gro_cells_init()).
const QUEUEING: [&str; 11] =
    ["vxlan", "geneve", "bareudp", "gre", "gretap", "ip6gre", "ip6gretap", "ipip", "sit", "ip6tnl", "macsec"];

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let traffic = rates.nic(&nic.name)?;
    let (name, Dropped { received, sent }) = (&nic.name, dropped(nic, rates));
    let matters = |lost: f64, rest: f64| lost >= DROPS && lost >= PART * (lost + rest);
    let is_sent = !matters(received, traffic.rx_packets);
    let (lost, rest) = if is_sent { (sent, traffic.tx_packets) } else { (received, traffic.rx_packets) };
    if !matters(lost, rest) {
        return None;
    }
    let kind = nic.stack.kind.as_deref().unwrap_or_default();
    let mut evidence = vec![Evidence::about(Subject::nic(nic), |seen| {
        let (counter, verb) = if is_sent { ("tx_dropped", "sent") } else { ("rx_dropped", "received") };
        format!(
            "{name}: {} packets/s dropped ({counter}), {} {verb}",
            seen.packets(counter, lost),
            seen.packets(if is_sent { "tx_packets" } else { "rx_packets" }, rest)
        )
    })];
    let own = traffic.losses.iter().filter(|(counter, rate)| **rate > 0.0 && !counter.ends_with("x_dropped"));
    evidence.extend(own.map(|(counter, rate)| {
        Evidence::about(Subject::nic(nic), |seen| {
            format!("{name}: {counter} {}/s", seen.packets(counter, *rate))
        })
    }));
    // What is received has reasons; what the other end does not take is freed there.
    let freed = rates.drop_reasons.known().filter(|_| !is_sent);
    let per_second = |freed: &DropReasons| {
        let of_nic = freed.of_interface(name).into_iter();
        of_nic
            .map(|(reason, packets)| (reason.to_owned(), packets as f64 / freed.seconds))
            .collect::<Vec<_>>()
    };
    let reasons = freed.map(per_second).unwrap_or_default();
    if let [_, ..] = reasons[..] {
        evidence.push(Evidence::about(Subject::nic(nic), |seen| {
            let shown = reasons.iter().take(SHOWN);
            let shown: Vec<String> =
                shown.map(|(reason, rate)| format!("{reason} {}/s", seen.packets("freed", *rate))).collect();
            format!("{name}: by the kernel's reason, right after the sample: {}", shown.join(", "))
        }));
    }
    let explains =
        |(reason, rate): &(String, f64)| known(reason).filter(|_| EXPLAINS.contains(&(rate / lost)));
    let first = reasons.iter().find_map(explains);
    let mut inspect = None;
    let (why, remedy) = if let Some(Reason { why, remedy: Some(remedy), .. }) = first {
        ((*why).to_owned(), *remedy)
    } else if is_sent && !nic.up {
        let why = "its other end is down, or no program has it open: nothing takes what is sent to it";
        (why.to_owned(), "set the other end up, or remove the route that leads there")
    } else if is_sent {
        let why = "the other end takes packets more slowly than they are sent to it, and its queue is full";
        (
            why.to_owned(),
            "give the program, container or virtual machine at the other end more CPU time, or more queues",
        )
    } else if QUEUEING.contains(&kind) {
        let backlog = model.settings.netdev_max_backlog.known();
        let now = backlog.map_or(String::new(), |packets| format!(", now {packets}"));
        let why = format!(
            "the queue of unwrapped packets of a CPU is full (at most net.core.netdev_max_backlog{now}), or the tunnel \
             refuses them"
        );
        (
            why,
            "relieve the CPU that unwraps them (RPS on the device below); a longer netdev_max_backlog only covers bursts",
        )
    } else if nic.kind != NicKind::Device && !kind.is_empty() {
        inspect = Some(REASONS);
        let why =
            format!("the {kind} interface has no room for them or refuses them; it does not report which");
        (
            why,
            "spread its packets (RPS, threaded NAPI) if their CPU is busy; `perf trace -a -e skb:kfree_skb` names the reason",
        )
    } else {
        inspect = Some(REASONS);
        let why =
            "its driver has no memory for them or refuses them, or nothing here takes their protocol or VLAN";
        (
            why.to_owned(),
            "find the reason: `ethtool -S` of the interface, or `perf trace -a -e skb:kfree_skb`",
        )
    };
    Some(Finding {
        severity: Severity::Warning,
        title: format!("{name} drops {} packets/s ({})", count(lost), precise_percent(lost / (lost + rest))),
        evidence,
        why,
        remedy: remedy.to_owned(),
        inspect: inspect.map(str::to_owned),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::diagnose::{Severity, diagnose};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_path::drop_reasons::{DropReasons, FreedPackets};

    fn host() -> Sketch {
        Sketch::new(4).device("eth0", &[0]).traffic("eth0", 6e4)
    }

    fn virtual_one(kind: &str) -> Sketch {
        let kind = Some(kind.to_owned());
        host().veth("one0").traffic("one0", 5e4).edit("one0", |nic| nic.stack.kind = kind)
    }

    #[test]
    fn any_interface_on_the_way_is_named() {
        let found = host().dropped("eth0", 900.0).finding(&RULE);
        assert_eq!(
            (found.title.as_str(), found.severity),
            ("eth0 drops 900 packets/s (1.5 %)", Severity::Warning)
        );
        assert_eq!(found.seen(), ["eth0: 900 packets/s dropped (rx_dropped), 60,000 received"]);
        let tunnel = virtual_one("wireguard").dropped("one0", 900.0).finding(&RULE);
        assert_eq!(tunnel.title, "one0 drops 900 packets/s (1.8 %)");
        assert!(tunnel.why.starts_with("the wireguard interface"), "{tunnel:?}");
        let queueing = virtual_one("vxlan").dropped("one0", 900.0).finding(&RULE);
        assert!(queueing.why.contains("netdev_max_backlog"), "{queueing:?}");
        let driver = host().dropped("eth0", 900.0).counted("eth0", "rx_drops", 500.0).finding(&RULE);
        assert_eq!(driver.seen()[1], "eth0: rx_drops 500/s");
    }

    #[test]
    fn the_kernel_s_reason_is_the_cause() {
        let entry = |reason: &str, packets| FreedPackets {
            nic: "eth0".parse().ok(),
            cpu: CpuId(1),
            reason: reason.to_owned(),
            packets,
        };
        let freed = |packets| Fact::Known(DropReasons { seconds: 1.0, packets });
        let because =
            |packets| host().dropped("eth0", 900.0).measured(|rates| rates.drop_reasons = freed(packets));
        let found =
            because(vec![entry("SOCKET_RCVBUFF", 900), entry("UNHANDLED_PROTO", 500), entry("NOMEM", 3)])
                .finding(&RULE);
        assert!(found.why.starts_with("no protocol of this machine takes them"), "{found:?}");
        let seen = found.seen().last().expect("evidence").to_string();
        assert!(seen.ends_with("right after the sample: UNHANDLED_PROTO 500/s, NOMEM 3/s"), "{seen}");
        // A reason of a later kernel is shown, and explains nothing.
        let later = because(vec![entry("A_NEW_ONE", 5)]).finding(&RULE);
        assert!(later.why.starts_with("its driver has no memory"), "{later:?}");
        let few = because(vec![entry("XDP", 1)]).finding(&RULE);
        assert!(few.why.starts_with("its driver has no memory"), "one of 900: {few:?}");
        let bond = because(vec![entry("UNHANDLED_PROTO", 5_000)]).finding(&RULE);
        assert!(
            bond.why.starts_with("its driver has no memory"),
            "not the packets that were counted: {bond:?}"
        );
        let elsewhere = because(vec![entry("SOCKET_RCVBUFF", 900)]).finding(&RULE);
        assert_eq!(elsewhere.evidence.len(), 1, "the socket's own counter has those");
    }

    /// A veth counts as its own what its other end has no room for.
    #[test]
    fn what_the_other_end_does_not_get() {
        let sends = |kind: &str| {
            let sketch = virtual_one(kind).counted("one0", "tx_dropped", 500.0);
            sketch.nic_rates("one0", |rates| rates.tx_packets = 9_500.0)
        };
        let found = sends("veth").finding(&RULE);
        assert_eq!(found.title, "one0 drops 500 packets/s (5.0 %)");
        assert!(found.why.starts_with("the other end"), "{found:?}");
        let down = sends("veth").edit("one0", |nic| nic.up = false).finding(&RULE);
        assert!(down.why.starts_with("its other end is down"), "{down:?}");
        sends("wireguard").silent(&RULE, "lost on the way out");
    }

    #[test]
    fn a_loss_is_told_once() {
        let ids = |sketch: Sketch| {
            let (model, rates) = sketch.build();
            diagnose(&model, &rates).into_iter().map(|finding| finding.id).collect::<Vec<_>>()
        };
        assert_eq!(
            ids(host().missed("eth0", 900.0).dropped("eth0", 900.0)),
            ["ring-overruns"],
            "ena has them in both"
        );
        assert_eq!(ids(host().drops(1, 900.0).dropped("eth0", 905.0)), ["backlog-drops"]);
    }

    #[test]
    fn near_misses() {
        host()
            .dropped("eth0", 9.0)
            .traffic("eth0", 500.0)
            .dropped("eth0", 9.0)
            .silent(&RULE, "spanning tree");
        host().dropped("eth0", 50.0).silent(&RULE, "0.08 %");
    }
}
