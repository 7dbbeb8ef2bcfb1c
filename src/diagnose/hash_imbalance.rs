//! One receive queue takes far more packets than the others: few flows, one large flow, or an uneven table.

use super::evidence::{irq_cpus, receive_time, tier};
use super::figures::{count, percent};
use super::{Finding, Rule, Severity};
use crate::model::{Model, Nic, NicKind, Rates};
use crate::parse::ethtool::FlowAction;
use crate::units::CpuId;

/// Packets of the busiest queue against the mean of the others.
const ODDS: f64 = 3.0;
/// Receive time of the busiest queue's CPU from which it is a limit: twice the traffic does not fit.
const BUSY: f64 = 0.5;
/// The queue's part of the table against the mean of all that are in it.
const UNEVEN: f64 = 1.5;
/// Part of the packets below which a queue counts as left out.
const LEFT_OUT: f64 = 0.01;

pub(super) const RULE: Rule = Rule {
    id: "hash-imbalance",
    asks: "Does one of several receive queues take most packets, and is its CPU short of time?",
    fires: || {
        format!(
            "of a device with several queues, all of them counted, one takes {ODDS:.0} times the mean of the others, \
             and the CPU of its interrupt spends {} of its time in softirq",
            percent(BUSY)
        )
    },
    silent: "that CPU has time, queues are not counted one by one, or somebody chose the queue: a flow rule leads to \
             it, or further RSS contexts exist",
    evidence: "packets a second of the busiest queue and of the others, its part of the RSS table, its CPU's time",
    cause: "RSS sends all packets of a flow to one queue: few flows, or one large one, do not spread; nor does an \
            uneven table.",
    remedy: "An even table (ethtool -X equal); a hash over ports, where it takes addresses alone; more flows.",
    source: "Documentation/networking/scaling.rst (RSS)",
    check,
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device && nic.rx.len() >= 2);
    devices.filter_map(|nic| finding(model, rates, nic)).collect()
}

/// A flow rule leads to this queue, or contexts spread what the table does not.
fn is_chosen(nic: &Nic, queue: u32) -> bool {
    let rules = nic.hardware.rules.known().into_iter().flatten();
    let to_queue = rules.map(|rule| &rule.action).any(|action| match action {
        FlowAction::Queue(to) => *to == queue,
        FlowAction::Context { .. } => true,
        _ => false,
    });
    to_queue || nic.hardware.rss_contexts.known().into_iter().flatten().any(|context| context.context != 0)
}

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let counted = &rates.nic(&nic.name)?.queues;
    let queues: Vec<_> =
        nic.rx.iter().map(|queue| Some((queue, *counted.get(&queue.index)?))).collect::<Option<_>>()?;
    let total: f64 = queues.iter().map(|(_, packets)| packets).sum();
    let (queue, most) = queues.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1)).copied()?;
    let others = (total - most) / (queues.len() - 1) as f64;
    let load = |cpu: CpuId| rates.cpu(cpu).map_or(0.0, receive_time);
    let cpu = irq_cpus(queue, model, rates).iter().max_by(|a, b| load(*a).total_cmp(&load(*b)))?;
    if most < ODDS * others || load(cpu) < BUSY || is_chosen(nic, queue.index) {
        return None;
    }
    let (name, index) = (&nic.name, queue.index);
    let weights = nic.hardware.rss.known().map(|rss| rss.weights()).filter(|weights| !weights.is_empty());
    let part = weights.as_ref().map(|weights| {
        let entries: usize = weights.values().sum();
        let own = weights.get(&index).copied().unwrap_or(0) as f64 / entries as f64;
        (own, own * weights.len() as f64)
    });
    let left_out = queues.iter().filter(|(_, packets)| *packets < LEFT_OUT * total).count();
    let mut evidence = vec![
        format!(
            "{name}/rx-{index}: {} packets/s; the other {} have {} packets/s on average, {left_out} of them next to none",
            count(most),
            queues.len() - 1,
            count(others)
        ),
        format!("CPU {cpu}, its interrupt: {} of its time in softirq; {}", percent(load(cpu)), tier(rates)),
    ];
    evidence.extend(part.map(|(own, _)| format!("{} of the RSS table lead to rx-{index}", percent(own))));
    let (why, remedy) = match part {
        Some((_, odds)) if odds >= UNEVEN => (
            "the RSS table leads more flows to this queue than to others".to_owned(),
            format!("an even table: ethtool -X {name} equal {}", queues.len()),
        ),
        _ => (
            match (part, left_out) {
                (None, _) => "a flow stays on one queue: a large flow or few flows, or an RSS table that is not told",
                (_, 0) => "the RSS table is even, and a flow stays on one queue: one large flow, or a few",
                _ => "the RSS table is even, and a flow stays on one queue: there are fewer flows than queues, or one is large",
            }
            .to_owned(),
            format!(
                "no mask splits one flow; of many UDP flows let the hash take ports too (ethtool -N {name} \
                 rx-flow-hash udp4 sdfn)"
            ),
        ),
    };
    Some(Finding {
        id: RULE.id.to_owned(),
        severity: Severity::Warning,
        nic: Some(name.clone()),
        cpu: Some(cpu),
        title: format!(
            "rx-{index} takes {} of the packets of {name}'s {} queues",
            percent(most / total),
            queues.len()
        ),
        evidence,
        why,
        remedy,
        plans: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::diagnose::Finding;
    use crate::diagnose::sketch::Sketch;
    use crate::parse::ethtool::{FlowAction, FlowRule, FlowSpec};
    use crate::units::Fact;

    fn host(packets: &[f64], softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", packets);
        sketch.receives(2, softirq, packets[2]).table("eth0", &[0, 1, 2, 3].repeat(32))
    }

    const ONE: [f64; 4] = [9e3, 1.1e4, 2e5, 1e4];

    fn of(sketch: Sketch) -> Vec<Finding> {
        let (model, rates) = sketch.build();
        check(&model, &rates)
    }

    #[test]
    fn one_large_flow() {
        let found = of(host(&ONE, 0.7));
        assert_eq!(found[0].title, "rx-2 takes 87 % of the packets of eth0's 4 queues");
        assert!(found[0].why.contains("one large flow"), "{}", found[0].why);
        assert_eq!(found[0].evidence[2], "25 % of the RSS table lead to rx-2");
        assert!(of(host(&[0.0, 0.0, 2e5, 0.0], 0.7))[0].why.contains("fewer flows than queues"));
    }

    #[test]
    fn an_uneven_table() {
        let found = of(host(&ONE, 0.7).table("eth0", &[2, 2, 2, 2, 2, 2, 0, 1, 2, 3]));
        assert_eq!(found[0].remedy, "an even table: ethtool -X eth0 equal 4");
    }

    #[test]
    fn near_misses() {
        assert!(of(host(&ONE, 0.3)).is_empty(), "time to spare");
        assert!(of(host(&[9e4, 8e4, 2e5, 9e4], 0.7)).is_empty(), "the luck of the hash");
        assert!(of(host(&ONE, 0.7).traffic("eth0", 2e5)).is_empty(), "queues are not counted");
        let one = Sketch::new(8).device("eth0", &[2]).queue_traffic("eth0", &[2e5]).receives(2, 0.9, 2e5);
        assert!(of(one).is_empty(), "one queue");
        let rule = FlowRule { location: 0, spec: FlowSpec::default(), action: FlowAction::Queue(2) };
        let chosen = host(&ONE, 0.7).edit("eth0", |nic| nic.hardware.rules = Fact::Known(vec![rule]));
        assert!(of(chosen).is_empty(), "field case E: a rule sends all packets there");
    }
}
