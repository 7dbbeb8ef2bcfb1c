//! One receive queue takes far more packets than the others: few flows, one large flow, or an uneven table.

use super::figures::{Evidence, Subject};
use super::places::{fits, loaded_of, receive_work, spreading};
use super::workload::{interrupt_cpus, landings};
use super::{Check, Finding, Rule, Severity, tunnel_one_flow};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::parse::ethtool::FlowAction;
use rxlab_base::units::{CpuId, NicName};
use rxlab_path::constraints::rss_reach;
use rxlab_path::evidence::{
    FULL, NO_DOUBLING, TRAFFIC, arrival_cpus, baseline, carrier, is_quiet, may_be_lo, through_lo,
};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};

/// Packets of the busiest queue relative to the mean of the others.
const MIN_RATIO: f64 = 3.0;

/// Number of these queues whose load is shown.
const SHOWN: usize = 3;

/// Part of the busiest queue's packets from which another one is named with it.
const ALIKE_PART: f64 = 0.5;

/// The queue's part of the table relative to that of an even table.
const UNEVEN: f64 = 1.5;

/// Part of an even share of the packets below which a queue counts as left out.
const LEFT_OUT: f64 = 0.1;

pub(super) const RULE: Rule = Rule {
    id: "hash-imbalance",
    asks: "Does one of several receive queues take most packets, and is its CPU short of time?",
    fires: || {
        format!(
            "one queue, or a few similar ones, of a device that counts all its queues takes {MIN_RATIO:.0} times the \
             mean of the others and {} packets/s, and the CPU of its interrupt spends {} of its time on receive work; \
             critical at {} or more",
            count(TRAFFIC),
            percent(NO_DOUBLING),
            percent(FULL)
        )
    },
    silent: "that CPU has time, or is busy with another queue or with `lo`, queues are not counted one by \
             one, the queue was chosen (a flow rule leads to it, further RSS contexts exist, or the device has no RSS), or it is the \
             one flow of a tunnel (tunnel-one-flow)",
    evidence: "packets/s of the busiest queue and of the others, its part of the RSS table, its CPU's time, \
               the headroom",
    cause: "RSS sends all packets of a flow to one queue. Few flows, or a single large one, do not spread; \
            neither do flows between the same addresses if the hash ignores ports, nor flows for which a \
            hypervisor chooses the queue. An uneven table does not spread them evenly either.",
    remedy: "An even table (ethtool -X equal); a hash over ports, if it uses only addresses; RPS, whose hash \
             includes ports; more flows.",
    source: "Documentation/networking/scaling.rst (RSS)",
    check: Check::Device(finding),
};

/// Effect of RPS on a queue whose flows are not known.
pub(super) const PARTLY: &str =
    "with many flows RPS spreads all work but the polling; with one flow it moves that work to a single CPU";

/// The other reason for many packets on one queue.
const ALIKE: &str = "; or many flows that the device's hash or a hypervisor treats as one";

fn ports(nic: &NicName) -> String {
    format!("with many UDP flows, include ports in the hash (ethtool -N {nic} rx-flow-hash udp4 sdfn)")
}

/// True if a flow rule leads to this queue, or further contexts exist.
fn is_chosen(nic: &Nic, queue: u32) -> bool {
    let rules = nic.hardware.rules.known().into_iter().flatten();
    let to_queue = rules.map(|rule| &rule.action).any(|action| match action {
        FlowAction::Queue(to) => *to == queue,
        FlowAction::Context { .. } => true,
        _ => false,
    });
    to_queue || nic.hardware.rss_contexts.known().into_iter().flatten().any(|context| context.context != 0)
}

/// The queue that takes far more packets than the others of its device.
pub(super) struct OverloadedQueue<'a> {
    pub(super) queue: &'a RxQueue,
    /// Packets per second of the busiest queue.
    pub(super) most: f64,
    /// Other queues that take at least half as many.
    pub(super) alike: Vec<(&'a RxQueue, f64)>,
    /// Mean packets/s of the others.
    pub(super) others: f64,
    /// Packets/s of each queue.
    packets: Vec<f64>,
}

/// The queue of a device that takes far more packets than its others, if there is one.
pub(super) fn odd<'a>(rates: &Rates, nic: &'a Nic) -> Option<OverloadedQueue<'a>> {
    let counted = &rates.nic(&nic.name).filter(|_| nic.spreads_flows())?.queues;
    let packets: Vec<f64> =
        nic.rx.iter().map(|queue| counted.get(&queue.index).copied()).collect::<Option<_>>()?;
    let (queue, most) =
        nic.rx.iter().zip(packets.iter().copied()).rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let with_packets = nic.rx.iter().zip(packets.iter().copied());
    let is_alike =
        |(one, packets): &(&RxQueue, f64)| one.index != queue.index && *packets >= most * ALIKE_PART;
    let mut alike: Vec<(&RxQueue, f64)> = with_packets.filter(is_alike).collect();
    // Of three queues, two are not few.
    if (alike.len() + 1) * 2 > packets.len() {
        alike.clear();
    }
    let all = most + alike.iter().map(|(_, packets)| packets).sum::<f64>();
    let others = (packets.iter().sum::<f64>() - all) / (packets.len() - alike.len() - 1).max(1) as f64;
    let is_odd = packets.len() >= 2 && most >= TRAFFIC && most >= MIN_RATIO * others;
    is_odd.then_some(OverloadedQueue { queue, most, alike, others, packets })
}

/// True if a queue takes so many of its device's packets that they may be one flow: RPS moves only the work
/// after the polling of one flow, and to a single CPU.
pub(super) fn may_be_one_flow(rates: &Rates, nic: &Nic, queue: &RxQueue) -> bool {
    is_only_busy(rates, nic, queue)
        || odd(rates, nic).is_some_and(|odd| {
            odd.queue.index == queue.index || odd.alike.iter().any(|(alike, _)| alike.index == queue.index)
        })
}

/// What is seen of a queue that [`may_be_one_flow`].
pub(crate) fn maybe_one_flow(nic: &Nic, queue: &RxQueue) -> String {
    format!("{}/rx-{} takes far more packets than most queues, maybe as one flow", nic.name, queue.index)
}

/// True if a queue takes far more packets than all others of its device, maybe as one flow.
pub(crate) fn is_alone(rates: &Rates, nic: &Nic, queue: &RxQueue) -> bool {
    is_only_busy(rates, nic, queue)
        || odd(rates, nic).is_some_and(|odd| odd.queue.index == queue.index && odd.alike.is_empty())
}

/// True if the queues of a device are not counted, and all but this one are quiet.
fn is_only_busy(rates: &Rates, nic: &Nic, queue: &RxQueue) -> bool {
    nic.spreads_flows()
        && nic.rx.len() > 1
        && nic.rx.iter().all(|one| is_quiet(nic, one, rates) == (one.index != queue.index))
}

/// The CPU that takes most packets RPS hands on from a queue, although others could: the RPS hash includes
/// ports, so there are too few flows for any mask. `None` if interrupts or `lo` may bring that CPU as many:
/// the counters do not distinguish them.
pub(super) fn recipient(model: &Model, rates: &Rates, queue: &RxQueue) -> Option<CpuId> {
    let mask = queue.rps_cpus.known()?.intersection(&model.usable());
    // RFS goes by the reader, and a server of one thread reads many flows.
    let tables = [queue.rps_flow_cnt.known(), model.rps_sock_flow_entries.known()];
    if mask.len() < 2 || !tables.contains(&Some(&0)) {
        return None;
    }
    let packets = |cpu: CpuId| rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
    let recipient = mask.iter().max_by(|a, b| packets(*a).total_cmp(&packets(*b)))?;
    let others =
        mask.iter().filter(|cpu| *cpu != recipient).map(packets).sum::<f64>() / (mask.len() - 1) as f64;
    let handed = packets(recipient) - through_lo(model, rates);
    let most = handed >= TRAFFIC && handed >= MIN_RATIO * others;
    (most && !interrupt_cpus(&landings(model, rates), rates).contains(recipient)).then_some(recipient)
}

/// A queue's part of the RSS table.
#[derive(Clone, Copy)]
pub(super) struct TablePart {
    /// The part, 0 to 1.
    pub(super) own: f64,
    /// Number of queues in the table.
    pub(super) queues: usize,
    /// Number of queues that the table could name.
    pub(super) reach: usize,
}

impl TablePart {
    /// True if it is far more than an even table would have.
    pub(super) fn is_uneven(self) -> bool {
        self.own * self.reach as f64 >= UNEVEN
    }
}

/// The part of a device's RSS table that leads to a queue; `None` if the table is not known.
pub(super) fn table_part(nic: &Nic, queue: u32) -> Option<TablePart> {
    let weights = nic.hardware.rss.known().map(|rss| rss.weights()).filter(|weights| !weights.is_empty())?;
    let entries: usize = weights.values().sum();
    let own = weights.get(&queue).copied().unwrap_or(0) as f64 / entries as f64;
    let reach = rss_reach(nic).unwrap_or(usize::MAX).min(nic.rx.len());
    Some(TablePart { own, queues: weights.len(), reach })
}

/// True if this rule reports too few flows for any mask on a queue.
pub(super) fn says_few_flows(model: &Model, rates: &Rates, nic: &Nic, queue: &RxQueue) -> bool {
    let odd = may_be_one_flow(rates, nic, queue) && recipient(model, rates, queue).is_some();
    odd && nic.kind == NicKind::Device && finding(model, rates, nic).is_some()
}

/// `rx-2 and rx-5 take 95 % of the packets of eth0's 8 queues`.
fn title(nic: &Nic, queue: &RxQueue, alike: &[(&RxQueue, f64)], part: f64) -> String {
    let index = queue.index;
    let who = match alike {
        [] => format!("rx-{index} takes"),
        [(other, _)] => format!("rx-{index} and rx-{} take", other.index),
        more => format!("rx-{index} and {} more queues take", more.len()),
    };
    format!("{who} {} of the packets of {}'s {} queues", percent(part), nic.name, nic.rx.len())
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let OverloadedQueue { queue, most, alike, others, packets } = odd(rates, nic)?;
    let total: f64 = packets.iter().sum();
    let base = baseline(model, rates);
    let load = |cpu: CpuId| receive_work(rates, base, cpu, most);
    let cpu = arrival_cpus(queue, model, rates).iter().max_by(|a, b| load(*a).total_cmp(&load(*b)))?;
    let is_told = tunnel_one_flow::finding(model, rates, nic).is_some();
    if load(cpu) < NO_DOUBLING || is_chosen(nic, queue.index) || is_told {
        return None;
    }
    // Another device's queue may be what keeps it busy.
    let brings =
        carrier(model, rates, cpu).is_some_and(|(of, one)| of.name == nic.name && one.index == queue.index);
    if !brings || may_be_lo(model, rates, cpu) {
        return None;
    }
    let (name, index) = (&nic.name, queue.index);
    let part = table_part(nic, index);
    let least = LEFT_OUT * total / packets.len() as f64;
    let left_out = packets.iter().filter(|packets| **packets < least).count();
    let mut evidence = vec![
        Evidence::about(Subject::rx(nic, index), |seen| {
            let packets_of = format!(
                "{name}/rx-{index}: {} packets/s; the other {} average {} packets/s",
                seen.packets("packets", most),
                seen.count("other_queues", packets.len() - 1 - alike.len()),
                seen.packets("packets_others", others)
            );
            match seen.count("left_out", left_out) {
                count if left_out > 0 => format!("{packets_of}, {count} of them hardly any"),
                _ => packets_of,
            }
        }),
        Evidence::about(Subject::Cpu(cpu), |seen| {
            format!(
                "CPU {cpu} (takes its packets): {} of its time on receive work; {}",
                seen.percent("receive_work", load(cpu)),
                seen.tier(rates)
            )
        }),
    ];
    let busy_too = loaded_of(model, rates, nic).into_iter();
    let busy_too = busy_too.filter(|one| alike.iter().any(|(alike, _)| alike.index == one.queue.index));
    evidence.extend(busy_too.take(SHOWN).map(|one| one.evidence(rates)));
    evidence.extend(part.map(|part| {
        Evidence::about(Subject::rx(nic, index), |seen| {
            format!("{} of the RSS table leads to rx-{index}", seen.percent("rss_share", part.own))
        })
    }));
    let recipient = recipient(model, rates, queue);
    evidence.extend(recipient.map(|cpu| {
        let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
        Evidence::fact(
            Subject::Cpu(cpu),
            format!("RPS may hand them to {}, but CPU {cpu} takes most", cpus_text(&mask)),
        )
    }));
    evidence.push(fits(model, rates));
    let is_steered = queue.rps_cpus.known().is_some_and(|mask| !mask.is_empty());
    let is_uneven = part.is_some_and(TablePart::is_uneven);
    let mut plans = if is_steered { Vec::new() } else { spreading(rates, cpu) };
    if is_uneven {
        plans.insert(0, PlanName::EvenTable);
    }
    let out_of_reach = rss_reach(nic).filter(|reach| (index as usize) < *reach && *reach < packets.len());
    let (why, remedy) = if let Some(part) = part.filter(|part| part.is_uneven()) {
        (
            match part.queues {
                queues if queues < part.reach => {
                    format!("the RSS table leads to {queues} of {} queues only", part.reach)
                }
                _ => "the RSS table directs more flows to this queue than to others".to_owned(),
            },
            format!("an even table: ethtool -X {name} equal {}", part.reach),
        )
    } else if let Some(reach) = out_of_reach.filter(|reach| left_out == packets.len() - reach) {
        (
            format!(
                "RSS of {name} reaches {reach} queues at most: the other {} get no flows",
                packets.len() - reach
            ),
            format!("hand their packets to other CPUs (RPS); {reach} queues are enough"),
        )
    } else {
        (
            match (part, left_out) {
                (None, _) => {
                    "a flow stays on one queue: one large flow, few flows, or an unreported RSS table"
                }
                (_, 0) => "the RSS table is even, and a flow stays on one queue: one large flow, or a few",
                _ => {
                    "the RSS table is even, and a flow stays on one queue: there are fewer flows than \
                     queues, or one is large"
                }
            }
            .to_owned()
                + if recipient.is_none() { ALIKE } else { "" },
            match (recipient, is_steered) {
                (Some(_), _) => "use more flows: a mask cannot split one".to_owned(),
                (None, true) => ports(name),
                (None, false) => format!("{PARTLY}; {}", ports(name)),
            },
        )
    };
    Some(Finding {
        severity: if load(cpu) >= FULL { Severity::Critical } else { Severity::Warning },
        cpu: Some(cpu),
        title: title(nic, queue, &alike, (most + alike.iter().map(|one| one.1).sum::<f64>()) / total),
        evidence,
        why,
        remedy,
        plans,
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::parse::ethtool::{FlowAction, FlowRule, FlowSpec};
    use rxlab_base::units::Fact;

    fn host(packets: &[f64], softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", packets);
        sketch.receives(2, softirq, packets[2]).table("eth0", &[0, 1, 2, 3].repeat(32))
    }

    const ONE: [f64; 4] = [9e3, 1.1e4, 2e5, 1e4];

    #[test]
    fn one_large_flow() {
        let found = host(&ONE, 0.7).finding(&RULE);
        assert_eq!(found.title, "rx-2 takes 87 % of the packets of eth0's 4 queues");
        assert!(found.why.contains("one large flow"), "{}", found.why);
        assert_eq!(found.seen()[2], "25 % of the RSS table leads to rx-2");
        assert_eq!(
            (found.severity, host(&ONE, 0.95).finding(&RULE).severity),
            (Severity::Warning, Severity::Critical)
        );
        assert!(host(&[0.0, 0.0, 2e5, 0.0], 0.7).finding(&RULE).why.contains("fewer flows than queues"));
    }

    /// The second queue of ravb is for AVB streams: all other packets were said to be one large flow.
    #[test]
    fn a_device_without_rss_hashes_nothing() {
        let host = |driver| {
            let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).driver("eth0", driver);
            sketch.queue_traffic("eth0", &ONE).receives(2, 0.7, 2e5)
        };
        assert!(host("igb").finding(&RULE).why.contains("one large flow"));
        for driver in ["ravb", "fec", "macb", "rk_gmac-dwmac"] {
            host(driver).silent(&RULE, driver);
        }
        let with_table = host("intel-eth-pci").table("eth0", &[0, 1, 2, 3].repeat(32));
        assert!(with_table.finding(&RULE).why.contains("one large flow"), "XGMAC has RSS");
    }

    /// Of 128 queues an even share is below 1 %, and all were once called "hardly any".
    #[test]
    fn an_even_share_of_many_queues_is_not_hardly_any() {
        let mut packets = [3e4; 128];
        packets[5] = 4.2e5;
        let cpus: Vec<u32> = (0..128).collect();
        let host =
            Sketch::new(256).device("eth0", &cpus).queue_traffic("eth0", &packets).table("eth0", &cpus);
        let found = host.receives(5, 0.84, 4.2e5).finding(&RULE);
        assert!(found.seen()[0].ends_with("average 30,000 packets/s"), "{found:?}");
        assert!(!found.why.contains("fewer flows than queues"), "{}", found.why);
    }

    /// Only the first was once named, and from four of eight on none.
    #[test]
    fn all_queues_that_take_most_are_named() {
        let host = |hot: &[usize]| {
            let packets: Vec<f64> =
                (0..8).map(|queue| if hot.contains(&queue) { 2.8e5 } else { 5e3 }).collect();
            let sketch =
                Sketch::new(16).device("eth0", &[0, 1, 2, 3, 4, 5, 6, 7]).queue_traffic("eth0", &packets);
            hot.iter().fold(sketch, |sketch, cpu| sketch.receives(*cpu as u32, 0.93, 2.8e5)).findings(&RULE)
        };
        let two = host(&[2, 5]);
        assert_eq!(two[0].title, "rx-2 and rx-5 take 95 % of the packets of eth0's 8 queues");
        assert!(two[0].seen()[2].starts_with("eth0/rx-5: 280,000 packets/s, interrupt on CPU 5, 93 %"));
        assert_eq!(
            host(&[0, 2, 3, 6])[0].title,
            "rx-0 and 3 more queues take 98 % of the packets of eth0's 8 queues"
        );
        assert_eq!(host(&[0, 1, 2, 3, 4]), [], "most of them");
    }

    #[test]
    fn an_uneven_table() {
        let found = host(&ONE, 0.7).table("eth0", &[2, 2, 2, 2, 2, 2, 0, 1, 2, 3]).finding(&RULE);
        assert_eq!(found.remedy, "an even table: ethtool -X eth0 equal 4");
    }

    /// RPS also hashes ports: packets it cannot spread belong to one flow, or a few.
    #[test]
    fn a_mask_tells_few_flows_from_many() {
        let rps = |packets: f64| host(&ONE, 0.7).rps("eth0", "4-7").all_receive("4-7", 0.3, packets);
        let few = rps(100.0).receives(5, 0.7, 2e5).finding(&RULE);
        assert_eq!(few.seen()[3], "RPS may hand them to CPUs 4-7, but CPU 5 takes most");
        assert_eq!(few.remedy, "use more flows: a mask cannot split one");
        let many = rps(5e4).finding(&RULE);
        assert!(many.why.ends_with("treats as one"), "{}", many.why);
        assert!(many.remedy.starts_with("with many UDP flows"), "{}", many.remedy);
        let on_lo = rps(5e4).receives(5, 0.7, 2.5e5).loopback().traffic("lo", 2e5).finding(&RULE);
        assert!(on_lo.why.ends_with("treats as one"), "they may be sent there: {on_lo:?}");
        let reader = rps(100.0).receives(5, 0.7, 2e5).rfs(32768, "eth0", 2048).finding(&RULE);
        assert!(reader.why.ends_with("treats as one"), "RFS takes many flows to one reader: {reader:?}");
        let without = host(&ONE, 0.7).finding(&RULE);
        assert!(without.remedy.starts_with("with many flows RPS spreads"), "{}", without.remedy);
        let shared =
            rps(100.0).device("eth1", &[5]).traffic("eth1", 2e5).receives(5, 0.7, 2e5).finding(&RULE);
        assert!(shared.why.ends_with("treats as one"), "eth1 brings CPU 5 its packets: {shared:?}");
    }

    #[test]
    fn near_misses() {
        host(&ONE, 0.3).silent(&RULE, "time to spare");
        host(&[9e4, 8e4, 2e5, 9e4], 0.7).silent(&RULE, "the luck of the hash");
        host(&ONE, 0.7).traffic("eth0", 2e5).silent(&RULE, "queues are not counted");
        let one = Sketch::new(8).device("eth0", &[2]).queue_traffic("eth0", &[2e5]).receives(2, 0.9, 2e5);
        one.silent(&RULE, "one queue");
        let rule = FlowRule { location: 0, spec: FlowSpec::default(), action: FlowAction::Queue(2) };
        let chosen = host(&ONE, 0.7).edit("eth0", |nic| nic.hardware.rules = Fact::Known(vec![rule]));
        chosen.silent(&RULE, "field case E: a rule sends all packets there");
    }

    #[test]
    fn a_cpu_that_another_queue_or_lo_drowns() {
        let both = |queues: &[f64]| {
            let busy = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 9e4).receives(2, 0.95, 9e4);
            busy.device("eth1", &[0, 1, 2, 3]).queue_traffic("eth1", queues).findings(&RULE)
        };
        assert!(both(&[0.0; 4]).is_empty(), "idle");
        assert!(both(&[10.0, 10.0, 500.0, 10.0]).is_empty(), "almost idle");
        assert!(both(&[10.0, 10.0, 9e3, 10.0]).is_empty(), "eth0's are ten times as many");
        assert_eq!(both(&[10.0, 10.0, 1e5, 10.0]).len(), 1);
        let few = |packets| host(&[10.0, 10.0, packets, 10.0], 0.7).findings(&RULE);
        assert!(few(900.0).is_empty(), "the time is a disk's");
        let on_lo = host(&[1e3, 1e3, 8e3, 1e3], 0.7).receives(2, 0.7, 3e5).loopback().traffic("lo", 3e5);
        on_lo.silent(&RULE, "sent there over lo");
    }
}
