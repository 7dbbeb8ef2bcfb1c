//! Packets that an interface or its device dropped, and neither its ring nor a backlog accounts for.

use std::ops::RangeInclusive;

use super::figures::{Evidence, Subject};
use super::ring_overruns::{emptied_by, has_traffic, room_of};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent, precise_percent};
use rxlab_path::drivers::{LossKind, loss_kind};
use rxlab_path::drop_reasons::{DropReasons, Reason, known};
use rxlab_path::evidence::LOST;
use rxlab_path::ledger::{Dropped, FILTERS, by_traffic_control, counted_by_device, dropped};
use rxlab_path::model::{Model, Nic, NicKind, NicRates, Rates};

/// Drops per second from which they matter: `rx_dropped` also has frames that no protocol here takes (spanning tree, LLDP,
/// VLANs that are not set up), of which a quiet network sends several per second.
const DROPS: f64 = 10.0;

/// Part of the interface's packets from which they matter: a tenth of a percent makes TCP slow; less may be those frames.
const PART: f64 = 1e-3;

/// Part of what arrives from which losses for lack of a buffer matter at any rate. The host never saw these packets, so frames
/// that no protocol here takes are not among them; `rx_dropped` may be nothing else on an idle interface.
const MOST: f64 = 0.5;

/// Losses within the sample from which [`MOST`] is no chance.
const SEVERAL: f64 = 10.0;

/// Names the reason of each packet that the kernel frees, from 5.17 on.
const REASONS: &str = "perf trace -a -e skb:kfree_skb";

pub(super) const RULE: Rule = Rule {
    id: "interface-drops",
    asks: "Does an interface drop packets that neither its ring nor a backlog lost?",
    fires: || {
        format!(
            "an interface drops at least {} packets/s and {} of its packets (what its device lost other than for lack of a \
             buffer in the ring: rx_over_errors, the driver's own such as rx_discards_phy, drops of its queues; frames that \
             arrived damaged, such as rx_crc_errors; rx_dropped \
             without those of the device, or that a full backlog dropped; tx_dropped and the queueing disciplines of a veth or \
             a tap, whose other end does not get them; filters of traffic control, a note); or a device with too little \
             traffic for ring-overruns lost {} of what arrived for lack of a buffer, at least {} packet/s and {} in the sample",
            count(DROPS),
            precise_percent(PART),
            percent(MOST),
            count(LOST),
            count(SEVERAL)
        )
    },
    silent: "ring-overruns or backlog-drops reports them, or they are few: frames of a protocol that this machine does not \
             speak count as dropped",
    evidence: "packets dropped and received per second, statistics of the driver that grew, the kernel's reasons, the CPU that \
               empties the ring of a device that loses packets",
    cause: "A frame arrived damaged, the device had no room for a packet or no buffer that it fits, the driver had no memory for it or refused it, a \
            tunnel could not queue or decrypt it, nothing here takes its protocol or VLAN, or the other end of a veth or a tap \
            was full.",
    remedy: "What a statistic of the driver accounts for, the kernel never saw: look up the statistic. Otherwise find the \
             reason: `ethtool -S` of the interface, or `perf trace -a -e skb:kfree_skb`, which names it from kernel 5.17 on. A \
             tunnel drops what its CPU has no time for: spread its packets.",
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

/// Where an interface loses packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// On the link: frames arrived damaged.
    Damaged,
    /// By the device, for another reason.
    Device,
    Received,
    Sent,
    /// In filters of its traffic control.
    Filters,
    /// In queueing disciplines on the way to its other end.
    Queues,
}

/// Packets/s lost at a place, and the counter that has them.
type Loss<'a> = (Lost, &'a str, f64);

/// The largest loss, the first of equals.
fn heaviest(all: Vec<Loss<'_>>) -> Option<Loss<'_>> {
    all.into_iter().rev().max_by(|a, b| a.2.total_cmp(&b.2))
}

/// Damaged frames, and what the device lost otherwise. Several counters may have the same packet, and `rx_errors` of some drivers
/// also has what found no buffer (gem_get_stats() of macb): only the rest of it is damaged. With traffic, ring-overruns reports
/// what found no buffer.
fn of_device<'a>(nic: &Nic, traffic: &'a NicRates) -> [Loss<'a>; 2] {
    let counted = counted_by_device(nic, traffic).into_iter();
    let is_damaged = |counter: &str| loss_kind(counter) == Some(LossKind::Damaged);
    let (damaged, others): (Vec<_>, Vec<_>) = counted.partition(|(counter, _)| is_damaged(counter));
    let (by, lost) = others.first().copied().unwrap_or_default();
    let explained = others.iter().map(|(_, rate)| rate).sum::<f64>().max(traffic.rx_missed);
    let damaged = damaged.into_iter().map(|(counter, rate)| {
        let is_sum = counter.ends_with("rx_errors");
        (Lost::Damaged, counter, if is_sum { rate - explained } else { rate })
    });
    let told = if has_traffic(traffic) { traffic.rx_missed } else { 0.0 };
    [heaviest(damaged.collect()).unwrap_or((Lost::Damaged, "", 0.0)), (Lost::Device, by, lost - told)]
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let traffic = rates.nic(&nic.name)?;
    let (name, Dropped { received, sent }) = (&nic.name, dropped(nic, rates));
    let [damaged, device] = of_device(nic, traffic);
    let places =
        [damaged, device, (Lost::Received, "rx_dropped", received), (Lost::Sent, "tx_dropped", sent)];
    let controlled = by_traffic_control(nic, rates);
    let controlled = controlled.map(|(counter, rate)| {
        (if counter == FILTERS { Lost::Filters } else { Lost::Queues }, counter, rate)
    });
    let sends = |place: Lost| matches!(place, Lost::Sent | Lost::Queues);
    let rest = |place| if sends(place) { traffic.tx_packets } else { traffic.rx_packets };
    let starves = starves(rates, nic, traffic);
    let matters = |(place, _, lost): &Loss<'_>| {
        let are_many = *lost >= DROPS && *lost >= PART * (lost + rest(*place));
        are_many || starves && *place == Lost::Device
    };
    let mattering = places.into_iter().chain(controlled).filter(matters);
    // What filters drop is mostly dropped on purpose, and hides nothing else.
    let (filters, others): (Vec<_>, Vec<_>) = mattering.partition(|(place, ..)| *place == Lost::Filters);
    let (place, counter, lost) = heaviest(others).or_else(|| heaviest(filters))?;
    let (is_sent, rest) = (sends(place), rest(place));
    let is_damaged = place == Lost::Damaged;
    let mut evidence = vec![Evidence::about(Subject::nic(nic), |seen| {
        let dropped = match place {
            Lost::Damaged => "damaged",
            Lost::Device => "lost by the device",
            _ => "dropped",
        };
        let (packets, verb) = if is_sent { ("tx_packets", "sent") } else { ("rx_packets", "received") };
        format!(
            "{name}: {} packets/s {dropped} ({counter}), {} {verb}",
            seen.packets(counter, lost),
            seen.packets(packets, rest)
        )
    })];
    let grew = traffic.losses.iter().map(|(counter, rate)| (counter.as_str(), *rate));
    let grew = grew.filter(|(counter, rate)| *rate > 0.0 && !counter.ends_with("x_dropped"));
    let own =
        grew.filter(|shown| !matches!(place, Lost::Damaged | Lost::Device) || *shown != (counter, lost));
    evidence.extend(own.map(|(counter, rate)| {
        Evidence::about(Subject::nic(nic), |seen| {
            format!("{name}: {counter} {}/s", seen.packets(counter, rate))
        })
    }));
    if place == Lost::Device {
        evidence.extend(emptied_by(model, rates, nic));
    }
    let kind = nic.stack.kind.as_deref().unwrap_or_default();
    // What is received has reasons; what the other end does not take is freed there.
    let freed = rates.drop_reasons.known().filter(|_| place == Lost::Received);
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
            format!("{name}: the kernel's reasons, counted right after the sample: {}", shown.join(", "))
        }));
    }
    let explains =
        |(reason, rate): &(String, f64)| known(reason).filter(|_| EXPLAINS.contains(&(rate / lost)));
    let first = reasons.iter().find_map(explains);
    let mut inspect = None;
    let (why, remedy) = if let Some(Reason { why, remedy: Some(remedy), .. }) = first {
        ((*why).to_owned(), *remedy)
    } else if is_damaged {
        inspect = Some(format!("ethtool -S {name}"));
        let why = format!(
            "the frames arrived damaged, or with a wrong length ({counter}): the link or its other end is the cause"
        );
        (
            why,
            "check the cable, the transceiver (ethtool -m), speed and duplex of both ends, and the MTU; no setting of the receive path helps",
        )
    } else if place == Lost::Device && starves {
        inspect = Some(format!("ethtool -S {name}"));
        let why = format!(
            "most of the few packets that arrive find no buffer ({counter}): a queue no longer receives, because of a driver or an \
             XDP program that does not return its buffers, or they come in bursts longer than the ring"
        );
        (
            why,
            "see whether one queue loses all the time (ethtool -S): then examine the driver and the XDP program of the \
             interface, if it has one; other CPUs or RPS do not help",
        )
    } else if place == Lost::Device {
        let why = format!(
            "the device lost them before they reached the host ({counter}): it had no room, the host gave it no buffer \
             that is large enough, or another reason, which only its maker documents"
        );
        (why, if room_of(nic).is_some() { LARGER_RING } else { NO_LARGER_RING })
    } else if let Some(cause) = by_driver(traffic, lost).filter(|_| place == Lost::Received) {
        cause
    } else if place == Lost::Filters {
        inspect = Some(format!("tc -s filter show dev {name} ingress"));
        let why =
            "a filter of its traffic control drops them: a policer over its rate, a rule, or a BPF program";
        (why.to_owned(), "raise the rate of the policer or correct the rule, unless it drops them on purpose")
    } else if place == Lost::Queues {
        inspect = Some(format!("tc -s qdisc show dev {name}"));
        let why =
            "its queueing discipline is full or limits the rate, so that the other end does not get them";
        (why.to_owned(), "a longer queue or a higher rate (tc qdisc), or more CPU time for the other end")
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
        inspect = Some(REASONS.to_owned());
        let why =
            format!("the {kind} interface has no room for them or refuses them; it does not report which");
        (
            why,
            "spread its packets (RPS, threaded NAPI) if their CPU is busy; `perf trace -a -e skb:kfree_skb` names the reason",
        )
    } else {
        inspect = Some(REASONS.to_owned());
        let why =
            "its driver has no memory for them or refuses them, or nothing here takes their protocol or VLAN";
        (
            why.to_owned(),
            "find the reason: `ethtool -S` of the interface, or `perf trace -a -e skb:kfree_skb`",
        )
    };
    let may_pause = place == Lost::Device && !starves && nic.hardware.function.may_pause();
    let remedy = format!("{remedy}{}", if may_pause { FLOW_CONTROL } else { "" });
    let severity = if place == Lost::Filters { Severity::Note } else { Severity::Warning };
    // What filters or the stack drop was received (rx_packets in if_link.h); some virtual drivers count only what they pass on.
    let has_all = place == Lost::Filters || place == Lost::Received && nic.kind == NicKind::Device;
    let part = precise_percent(lost / if has_all { rest.max(lost) } else { lost + rest });
    Some(Finding {
        severity,
        title: if is_damaged {
            format!("{name} receives {} damaged frames/s ({part})", count(lost))
        } else {
            format!("{name} drops {} packets/s ({part})", count(lost))
        },
        evidence,
        why,
        remedy,
        inspect,
        ..RULE.finding()
    })
}

/// True if a device in use has no buffers for most of the few packets that arrive.
fn starves(rates: &Rates, nic: &Nic, traffic: &NicRates) -> bool {
    let missed = traffic.rx_missed;
    let are_most = missed >= MOST * (missed + traffic.rx_packets);
    let are_several = missed >= LOST && missed * rates.seconds >= SEVERAL;
    nic.kind == NicKind::Device && nic.up && !has_traffic(traffic) && are_most && are_several
}

const LARGER_RING: &str = "look up the statistic in the driver's documentation; if buffers were missing, give the CPUs that empty \
                           the rings more time, or make these larger (ethtool -G)";

const NO_LARGER_RING: &str = "look up the statistic in the driver's documentation; if buffers were missing, give the CPUs that \
                              empty the rings more time";

const FLOW_CONTROL: &str = "; flow control (ethtool -A), if the device has it, makes the sender wait instead";

/// The cause of drops that a statistic of the driver accounts for, other than those of the device, and the remedy.
fn by_driver(traffic: &NicRates, lost: f64) -> Option<(String, &'static str)> {
    let accounting = traffic.losses.iter().filter(|(_, rate)| EXPLAINS.contains(&(**rate / lost)));
    let mut kinds = accounting.map(|(counter, _)| (counter, loss_kind(counter)));
    kinds.find_map(|(counter, kind)| match kind? {
        LossKind::Allocation => Some((
            format!("the driver had no memory for buffers ({counter})"),
            "free memory, or keep more of it free for interrupts (vm.min_free_kbytes)",
        )),
        LossKind::Unclear => Some((
            format!("the driver counts as many as {counter}; what that means is not known to rxlab"),
            "look up the statistic in the driver's documentation",
        )),
        LossKind::Ring | LossKind::Device | LossKind::Damaged | LossKind::Paused | LossKind::Harmless => None,
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::diagnose::{Severity, diagnose};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_path::drop_reasons::{DropReasons, FreedPackets};
    use rxlab_path::model::Function;

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
        let driver = || host().dropped("eth0", 900.0).counted("eth0", "rx_drops", 500.0);
        let found = driver().finding(&RULE);
        assert_eq!(found.seen()[0], "eth0: 500 packets/s lost by the device (rx_drops), 60,000 received");
        assert!(found.remedy.contains("ethtool -A"));
        let function = Function::Virtual { physical: None };
        assert!(!driver().driven_by("eth0", "iavf", function).finding(&RULE).remedy.contains("ethtool -A"));
    }

    #[test]
    fn damaged_frames_are_the_link_s_fault() {
        let damaged = host().counted("eth0", "rx_crc_errors", 500.0).counted("eth0", "rx_errors", 500.0);
        let found = damaged.finding(&RULE);
        assert_eq!(found.title, "eth0 receives 500 damaged frames/s (0.8 %)");
        assert!(
            found.why.contains("the link or its other end") && found.remedy.contains("cable"),
            "{found:?}"
        );
        host().counted("eth0", "rx_crc_errors", 5.0).silent(&RULE, "few");
    }

    /// macb adds what found no buffer to `rx_errors`: those were "6 damaged frames/s, check the cable".
    #[test]
    fn what_another_counter_explains_is_not_damaged() {
        let host = |received: f64, lost: f64, damaged: f64| {
            let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", received).missed("eth0", lost);
            let sketch = sketch.counted("eth0", "rx_over_errors", lost);
            sketch.counted("eth0", "rx_errors", lost + damaged).counted("eth0", "rx_crc_errors", damaged)
        };
        let starved = host(0.2, 6.0, 0.1).finding(&RULE);
        assert_eq!(starved.title, "eth0 drops 6 packets/s (96.8 %)");
        assert!(starved.why.contains("no buffer") && !starved.remedy.contains("cable"), "{starved:?}");
        let both = host(6e4, 600.0, 300.0).finding(&RULE);
        assert_eq!(both.title, "eth0 receives 300 damaged frames/s (0.5 %)");
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

    /// 20,000 of 120,000 packets/s were "nothing to do", whichever counter had them.
    #[test]
    fn what_the_device_loses_is_a_finding() {
        let host = || host().traffic("eth0", 1e5);
        for counter in
            ["rx_discards_phy", "rx_over_errors", "rx_drops", "rx_bg#_frames_dropped", "rx_new_drops"]
        {
            let lost = host().counted("eth0", counter, 2e4);
            if counter == "rx_new_drops" {
                lost.silent(&RULE, "not known to be a loss");
                continue;
            }
            let found = lost.finding(&RULE);
            assert_eq!(found.title, "eth0 drops 20,000 packets/s (16.7 %)", "{counter}");
            let seen = format!("eth0: 20,000 packets/s lost by the device ({counter}), 100,000 received");
            assert_eq!(found.seen()[0], seen);
            assert!(found.why.contains(counter) && found.inspect.is_none(), "{found:?}");
        }
        let queues = host().nic_rates("eth0", |rates| rates.queue_drops = [(0, 2e4)].into());
        assert!(queues.finding(&RULE).why.contains("drops of its queues"));
        let both = host().counted("eth0", "rx_drops", 2e4).dropped("eth0", 2e4).finding(&RULE);
        assert!(both.title.contains("20,000") && both.why.contains("rx_drops"), "one loss in both: {both:?}");
        let cpu = host().counted("eth0", "rx_drops", 2e4).receives(0, 0.95, 1e5).finding(&RULE);
        assert!(
            cpu.seen().last().is_some_and(|seen| seen.starts_with("CPU 0 (its interrupts): 95 %")),
            "{cpu:?}"
        );
    }

    #[test]
    fn what_traffic_control_drops() {
        let drops = |nic: &str, place: &str, rate| {
            let dropped = (nic.parse().expect("a name"), place.to_owned(), rate);
            virtual_one("veth").nic_rates("one0", |rates| rates.tx_packets = 5e4).measured(|rates| {
                match &mut rates.losses {
                    Fact::Known(losses) => losses.tc.push(dropped),
                    absent => panic!("{absent:?}"),
                }
            })
        };
        let filters = drops("eth0", "tc filters", 700.0).finding(&RULE);
        assert_eq!(filters.seen(), ["eth0: 700 packets/s dropped (tc filters), 60,000 received"]);
        assert_eq!(filters.severity, Severity::Note, "on purpose");
        let all = drops("eth0", "tc filters", 6e4).finding(&RULE);
        assert_eq!(all.title, "eth0 drops 60,000 packets/s (100.0 %)", "they were received before");
        assert_eq!(filters.inspect.as_deref(), Some("tc -s filter show dev eth0 ingress"));
        let queues = drops("one0", "tc queues", 700.0).finding(&RULE);
        assert_eq!(queues.seen(), ["one0: 700 packets/s dropped (tc queues), 50,000 sent"]);
        assert_eq!(queues.severity, Severity::Warning);
        drops("eth0", "tc queues", 700.0).silent(&RULE, "on the way out");
        drops("eth0", "tc filters", 7.0).silent(&RULE, "few");
    }

    /// A packet that the driver dropped has no reason of the kernel.
    #[test]
    fn what_a_statistic_of_the_driver_accounts_for() {
        let counted =
            |counter, rate| host().dropped("eth0", 900.0).counted("eth0", counter, rate).finding(&RULE);
        let unclear = counted("rx_new_word_drops", 905.0);
        assert!(
            unclear.why.contains("as many as rx_new_word_drops") && unclear.inspect.is_none(),
            "{unclear:?}"
        );
        let memory = counted("alloc_rx_buff_failed", 900.0);
        assert!(
            memory.why.contains("no memory for buffers") && memory.remedy.contains("min_free"),
            "{memory:?}"
        );
        let few = counted("rx_new_word_drops", 90.0);
        assert!(few.inspect.is_some(), "a tenth of them: {few:?}");
    }

    /// Whichever line of the ledger has it, a loss from which the thresholds matter is a finding.
    #[test]
    fn no_loss_of_an_interface_is_left_without_a_finding() {
        let counters = rxlab_path::drivers::LOSSES.iter().filter(|loss| loss.kind.is_lost());
        for counter in counters.map(|loss| loss.name).chain(["rx_dropped", "rx_any_drops", "q#_rx_dropped"]) {
            for (packets, lost) in [(1e5, 2e4), (1e5, 150.0), (0.0, 50.0), (500.0, 20.0)] {
                let (model, rates) = host().traffic("eth0", packets).counted("eth0", counter, lost).build();
                let ledger = rxlab_path::ledger::Ledger::new(&model, &rates);
                let found = diagnose(&model, &rates);
                assert_eq!(
                    ledger.per_second > 0.0,
                    !found.is_empty(),
                    "{counter}: {lost} of {packets}: {found:?}"
                );
            }
        }
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

    /// A ring that a driver no longer filled: 8 of 13 packets/s were lost on an idle machine, and that was "nothing to do".
    #[test]
    fn a_queue_that_no_longer_receives() {
        let host = |received: f64, lost: f64| {
            Sketch::new(4).device("eth0", &[0]).traffic("eth0", received).missed("eth0", lost)
        };
        let found = host(5.0, 8.0).finding(&RULE);
        assert_eq!(found.title, "eth0 drops 8 packets/s (61.5 %)");
        assert!(found.why.contains("find no buffer (rx_missed_errors)"), "{found:?}");
        assert!(found.plans.is_empty() && !found.remedy.contains("ethtool -A"), "{found:?}");
        host(9.0, 8.0).silent(&RULE, "less than half");
        host(0.0, 1.0).silent(&RULE, "five packets in five seconds");
        host(5.0, 8.0).edit("eth0", |nic| nic.up = false).silent(&RULE, "it is down");
        let idle = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 5.0);
        idle.dropped("eth0", 5.0).silent(&RULE, "frames of LLDP and spanning tree, all that arrives");
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
