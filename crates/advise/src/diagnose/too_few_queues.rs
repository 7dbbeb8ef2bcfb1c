//! The CPUs of a device's queues are half full of receive work while others have hardly any: more queues
//! would share it, or RPS if there are no more.

use super::figures::{Evidence, Subject};
use super::places::{Loaded, cores, loaded_of, mean, most_loaded, of_node};
use super::queues_share_a_cpu::movable;
use super::{Check, Finding, Rule, Severity, before_steering};
use crate::family::PlanName;
use rxlab_base::number::{percent, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::constraints::{QueueLimit, queue_limit};
use rxlab_path::evidence::{NO_DOUBLING, receiving};
use rxlab_path::model::{Function, Model, Nic, Rates};

/// Upper bound on the other CPUs' part of it: above, the work is already spread.
const ELSEWHERE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "too-few-queues",
    asks: "Does a device have fewer receive queues than its load needs, and does the driver support more?",
    fires: || {
        format!(
            "each queue of a device carries traffic and lands on a CPU of its own, these CPUs spend {} of \
             their time in interrupts and softirq, the others at most {} as much, there are more cores than \
             queues, and the driver supports more queues, or has several and RPS is off, or the device is a \
             virtual function",
            percent(NO_DOUBLING),
            percent(ELSEWHERE)
        )
    },
    silent: "there is a queue for each core (hyper-threads do not count), or for each core of the device's node while they \
             interrupt another node, a queue has no traffic (then there \
             are too few flows, not queues), several queues share a CPU, including queues of \
             other devices, or no more queues are available: other rules cover devices with one queue, and \
             with several RPS already spreads the work",
    evidence: "each queue's traffic, CPU and its time in interrupts and softirq, the driver's queues and \
               their maximum, the same time of the other CPUs",
    cause: "One CPU at a time serves a queue, so the queues can handle only as much as their CPUs. The \
            driver of the physical function limits the queues of a virtual function.",
    remedy: "More queues, at most one for each core; RPS if there are no more. A virtual function may get \
             more from a newer driver, or from its host.",
    source: "Documentation/networking/scaling.rst (RSS: Suggested Configuration)",
    check: Check::Nic(of_nic),
};

fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let queues = loaded_of(model, rates, nic);
    let cpus: CpuMask = queues.iter().map(|queue| queue.cpu).collect();
    let usable = model.usable();
    let apart = !queues.is_empty() && queues.len() == nic.rx.len() && cpus.len() == queues.len();
    if !apart || queues.len() >= cores(model, &usable) {
        return None;
    }
    // There are as many queues as are of use near the device: its interrupts first have to come there.
    let near = near(model, nic);
    let cores_near = cores(model, &near.intersection(&usable));
    let has_one_each = (1..=queues.len()).contains(&cores_near);
    if has_one_each && cpus.intersection(&near).is_empty() {
        return None;
    }
    let load = mean(rates, &cpus, receiving);
    let others = usable.difference(&cpus);
    let elsewhere = mean(rates, &others, receiving);
    // RPS is on, or never sees the packets.
    let steered = queues.iter().any(|queue| queue.mask().is_some()) || before_steering(nic, rates).is_some();
    let limit = queue_limit(nic).filter(|limit| limit.most > 0);
    let most = limit.as_ref().map(|limit| limit.most);
    let more = most.filter(|most| *most as usize > queues.len() && !has_one_each);
    // A virtual function's driver or its host may support more than it reports.
    let is_virtual = matches!(nic.hardware.function, Function::Virtual { .. });
    let is_limited = is_virtual && !has_one_each;
    let helps = more.is_some() || is_limited || (queues.len() > 1 && !steered);
    if load < NO_DOUBLING || elsewhere > load * ELSEWHERE || !helps {
        return None;
    }
    // Queues of other devices count too: first one of them moves.
    if movable(model, rates).any(|crowd| cpus.contains(crowd.cpu)) {
        return None;
    }
    let (name, number) = (&nic.name, plural(queues.len(), "RX queue"));
    let could = match (more, most) {
        (Some(most), _) => format!(" (of at most {most})"),
        (None, Some(_)) if !has_one_each => " (the maximum)".to_owned(),
        _ => String::new(),
    };
    let until = if steered { "" } else { "; RPS until then" };
    let busiest = most_loaded(&queues)?;
    Some(Finding {
        severity: Severity::Warning,
        cpu: Some(busiest.cpu),
        title: format!("{name} has {number}{could}, their CPUs {} full", percent(load)),
        evidence: evidence(rates, nic, &queues, limit, &others),
        why: why(nic),
        remedy: match more {
            Some(_) => format!("more queues, at most one for each core{until}"),
            None if is_limited => format!("a driver or a host that allows more queues{until}"),
            None => "RPS: let other CPUs process the packets of these queues".to_owned(),
        },
        plans: plans(more.is_some(), steered),
        ..RULE.finding()
    })
}

/// The CPUs of the nodes of a device's queues; all if one is unknown.
fn near(model: &Model, nic: &Nic) -> CpuMask {
    let nodes = nic.rx.iter().map(|queue| Some(of_node(model, nic.node_of(queue)?)));
    let all = nodes.collect::<Option<Vec<CpuMask>>>();
    all.map_or_else(|| model.online(), |all| all.iter().fold(CpuMask::new(), |all, one| all.union(one)))
}

/// More queues first: they also share the polling, which RPS leaves where it is.
fn plans(has_more: bool, steered: bool) -> Vec<PlanName> {
    let plans = [(PlanName::MoreQueues, has_more), (PlanName::Rps, !steered)];
    plans.into_iter().filter(|(_, helps)| *helps).map(|(plan, _)| plan).collect()
}

fn why(nic: &Nic) -> String {
    match nic.hardware.function {
        Function::Virtual { .. } => {
            "each queue is served by one CPU; the driver of the physical function limits the queues of a \
             virtual function"
        }
        _ => "each queue is served by one CPU: these CPUs receive all packets, and the others cannot help",
    }
    .to_owned()
}

fn evidence(
    rates: &Rates,
    nic: &Nic,
    queues: &[Loaded<'_>],
    limit: Option<QueueLimit>,
    others: &CpuMask,
) -> Vec<Evidence> {
    const SHOWN: usize = 3;
    let mut found: Vec<Evidence> = queues.iter().take(SHOWN).map(|queue| queue.evidence(rates)).collect();
    if queues.len() > SHOWN {
        let packets: f64 = queues.iter().map(|queue| queue.packets).sum();
        found.push(Evidence::about(Subject::nic(nic), |seen| {
            let number = plural(seen.count("queues", queues.len()), "queue");
            format!("{number} together: {} packets/s", seen.packets("packets", packets))
        }));
    }
    found.push(Evidence::about(Subject::nic(nic), |seen| match limit {
        Some(QueueLimit { most, why, .. }) => {
            let number = plural(seen.count("queues", queues.len()), "queue");
            let at_most = seen.count("queues_max", most as usize);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("the driver has {number} of at most {at_most}{why}")
        }
        None => "the driver does not report its maximum number of queues".to_owned(),
    }));
    found.push(Evidence::about(Subject::Cpus(others.clone()), |seen| {
        let number = plural(seen.count("cpus", others.len()), "CPU");
        let time = seen.percent("receiving", mean(rates, others, receiving));
        format!("the other {number}: {time} of their time in interrupts and softirq")
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::family::PlanName;
    use rxlab_path::model::{Function, Holder};

    fn host(softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 2e5);
        sketch.all_receive("2-3", softirq, 1e5)
    }

    fn one_queue() -> Sketch {
        Sketch::new(8).device("eth0", &[2]).traffic("eth0", 9e4).receives(2, 0.9, 9e4)
    }

    #[test]
    fn more_queues_where_the_driver_has_them() {
        let found = host(0.63).queues_at_most("eth0", 8).finding(&RULE);
        assert_eq!(found.title, "eth0 has 2 RX queues (of at most 8), their CPUs 63 % full");
        assert_eq!(found.seen()[2], "the driver has 2 queues of at most 8");
        assert_eq!(found.plans, [PlanName::MoreQueues, PlanName::Rps]);
        let steered = host(0.63).queues_at_most("eth0", 8).rps_of("eth0", 0, "4").finding(&RULE);
        assert_eq!(steered.plans, [PlanName::MoreQueues]);
        assert_eq!(one_queue().queues_at_most("eth0", 4).findings(&RULE).len(), 1);
    }

    /// Field case C: a virtual function with two queues, and no more.
    #[test]
    fn rps_where_it_has_no_more() {
        let function = || Function::Virtual { physical: None };
        let found =
            host(0.63).queues_at_most("eth0", 2).driven_by("eth0", "ixgbevf", function()).finding(&RULE);
        assert_eq!(found.title, "eth0 has 2 RX queues (the maximum), their CPUs 63 % full");
        assert!(found.why.contains("virtual function"));
        assert_eq!(found.plans, [PlanName::Rps]);
        let one = |function| {
            one_queue().queues_at_most("eth0", 1).driven_by("eth0", "ixgbevf", function).findings(&RULE)
        };
        assert_eq!(one(function())[0].remedy, "a driver or a host that allows more queues; RPS until then");
        assert_eq!(one(Function::Plain), [], "the hotspot covers it");
        let unknown = host(0.63).finding(&RULE);
        assert_eq!(unknown.seen()[2], "the driver does not report its maximum number of queues");
        assert_eq!(unknown.title, "eth0 has 2 RX queues, their CPUs 63 % full");
    }

    /// "16 queues of at most 64" was said next to "16 queues for 16 cores of its node", with the node idle.
    #[test]
    fn queues_for_all_cores_of_the_node_are_enough() {
        let host = |node| {
            let host = Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2, 3]).traffic("eth0", 4e5);
            host.on_node("eth0", node).queues_at_most("eth0", 8).all_receive("0-3", 0.7, 1e5)
        };
        host(1).silent(&RULE, "the interrupts are on the wrong node");
        let full = host(0).finding(&RULE);
        assert_eq!(full.title, "eth0 has 4 RX queues, their CPUs 70 % full");
        assert_eq!(full.plans, [PlanName::Rps], "no more queues: {full:?}");
    }

    /// Published, of gve: "RPS until then" was next to "RPS and RFS have no effect".
    #[test]
    fn rps_is_no_remedy_for_what_xdp_takes() {
        let taken = host(0.63).all_receive("2-3", 0.63, 2e3).volume("eth0", 2e5 * 64.0, 0.0);
        let taken = taken.queues_at_most("eth0", 8);
        let taken = taken.edit("eth0", |nic| nic.rx[1].held_by = Some(Holder::AfXdp));
        let found = taken.finding(&RULE);
        assert_eq!(found.plans, [PlanName::MoreQueues]);
        assert_eq!(found.remedy, "more queues, at most one for each core");
    }

    #[test]
    fn near_misses() {
        let silent = |sketch: Sketch, why: &str| {
            assert_eq!(sketch.queues_at_most("eth0", 8).findings(&RULE), [], "{why}")
        };
        silent(host(0.3), "the queues' CPUs have room");
        silent(host(0.63).all_receive("0-1,4-7", 0.5, 1e5), "spread already");
        silent(host(0.63).queue_traffic("eth0", &[2e5, 10.0]), "one flow does not use two queues");
        let shared = Sketch::new(8).device("eth0", &[2, 2]).traffic("eth0", 2e5).receives(2, 0.9, 2e5);
        silent(shared, "they share a CPU");
        let both = Sketch::new(8).device("eth0", &[2, 3]).device("eth1", &[2, 3]);
        let both = both.traffic("eth0", 2e5).traffic("eth1", 2e5).all_receive("2-3", 0.84, 2e5);
        silent(both, "they share CPUs with those of another device");
        let cores = Sketch::new(8).smt().device("eth0", &[0, 1, 2, 3]).traffic("eth0", 4e5);
        silent(cores.all_receive("0-3", 0.63, 1e5), "a queue for each core");
        let on_lo = host(0.63).traffic("eth0", 2.4e3).loopback().traffic("lo", 9e6);
        silent(on_lo, "1,200 packets/s do not cost that: those of lo do");
        one_queue().queues_at_most("eth0", 1).silent(&RULE, "one queue, no more: the hotspot covers it");
        host(0.63).rps("eth0", "0-1,4-7").queues_at_most("eth0", 2).silent(&RULE, "all is done");
    }
}
