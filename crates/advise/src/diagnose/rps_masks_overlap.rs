//! Queues of one or several interfaces hand their packets to the same CPU, while CPUs of its node get none.

use super::figures::{Evidence, Subject};
use super::places::{Loaded, loaded, node};
use super::{Check, Finding, OWN_RULE, Rule, Severity};
use rxlab_base::number::{percent, plural};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{busy, may_be_lo, receive_time};
use rxlab_path::model::{Model, Rates};

/// Receive time of a CPU from which two queues on it are one too many.
const CROWDED: f64 = 0.5;

/// Receive time up to which a CPU counts as unused.
const UNUSED: f64 = 0.05;

/// Busy fraction up to which it has room.
const ROOM: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "rps-masks-overlap",
    asks: "Do several queues hand their packets to the same busy CPU while others get none?",
    fires: || {
        format!(
            "a CPU in the RPS masks of at least two queues with traffic spends {} of its time in softirq, \
             and a CPU of its node, in no mask and without an interrupt, spends at most {} on it and is at \
             most {} busy",
            percent(CROWDED),
            percent(UNUSED),
            percent(ROOM)
        )
    },
    silent: "the masks share CPUs because there are no others, the shared CPU has time to spare, the queues are those of \
             one interface whose driver has one mask for all, or the CPUs in no mask are busy with processes or on another \
             node",
    evidence: "the masks that share the CPU and their queues' traffic, its softirq time, the CPUs that get \
               nothing",
    cause: "Masks were set per interface, or to the same value for all queues.",
    remedy: "Give each queue its own CPUs.",
    source: OWN_RULE,
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let queues = loaded(model, rates);
    let interrupts: CpuMask = queues.iter().map(|queue| queue.cpu).collect();
    let masks = queues.iter().filter_map(Loaded::mask);
    let taken = masks.fold(interrupts.clone(), |all, mask| all.union(mask));
    let has_room =
        |cpu: &CpuId| rates.cpu(*cpu).is_some_and(|cpu| receive_time(cpu) <= UNUSED && busy(cpu) <= ROOM);
    let free: CpuMask = model.usable().difference(&taken).iter().filter(has_room).collect();
    // A CPU that handles an interrupt is busy with that: another rule covers it.
    let shared = taken.difference(&interrupts);
    let shared: CpuMask = shared.iter().filter(|cpu| !may_be_lo(model, rates, *cpu)).collect();
    let crowds = shared.iter().filter_map(|cpu| {
        let load = rates.cpu(cpu).map(receive_time).filter(|load| *load >= CROWDED)?;
        let near: CpuMask = free.iter().filter(|other| node(model, *other) == node(model, cpu)).collect();
        let here = queues.iter().filter(|queue| queue.mask().is_some_and(|mask| mask.contains(cpu)));
        let mut here: Vec<&Loaded<'_>> = here.collect();
        // One mask for all queues of an interface is one mask.
        here.dedup_by(|next, queue| next.nic.name == queue.nic.name && queue.nic.is_steered_by_first());
        (here.len() > 1 && !near.is_empty()).then_some((cpu, load, here, near))
    });
    let worst = crowds.max_by(|a, b| a.1.total_cmp(&b.1));
    worst.map(|(cpu, load, here, near)| finding(rates, cpu, load, &here, &near)).into_iter().collect()
}

fn finding(rates: &Rates, cpu: CpuId, load: f64, here: &[&Loaded<'_>], near: &CpuMask) -> Finding {
    const SHOWN: usize = 4;
    let masked = here.iter().filter_map(|queue| Some((queue, queue.mask()?)));
    let shown = masked.take(SHOWN).map(|(queue, mask)| {
        Evidence::about(queue.subject(), |seen| {
            let packets = seen.packets("packets", queue.packets);
            format!("{}: {packets} packets/s, RPS {mask}", queue.name())
        })
    });
    let mut evidence: Vec<Evidence> = shown.collect();
    if here.len() > SHOWN {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            format!("and {} more", seen.count("more", here.len() - SHOWN))
        }));
    }
    evidence.push(Evidence::about(Subject::Cpu(cpu), |seen| {
        let load = seen.percent("receive_time", load);
        format!("CPU {cpu}: {load} of its time in softirq; {}", seen.tier(rates))
    }));
    evidence.push(Evidence::fact(
        Subject::Cpus(near.clone()),
        format!("CPUs of its node with room, in no mask: {near}"),
    ));
    let busiest = here.iter().rev().max_by(|a, b| a.packets.total_cmp(&b.packets));
    Finding {
        severity: Severity::Warning,
        nic: busiest.map(|queue| queue.nic.name.clone()),
        cpu: Some(cpu),
        title: format!(
            "CPU {cpu} is in the RPS masks of {} queues, {} in none",
            here.len(),
            plural(near.len(), "nearby CPU")
        ),
        evidence,
        why: "each queue spreads its packets over its mask: where masks overlap, the work adds up".to_owned(),
        remedy: format!("give each of these queues its own CPUs: {near} are free"),
        ..RULE.finding()
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// Two interfaces on 8 CPUs, each handing to CPUs 2 and 3.
    fn host(second: &str, softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0]).device("eth1", &[1]).rps("eth0", "2-3");
        let sketch = sketch.traffic("eth0", 5e4).traffic("eth1", 3e4).all_receive("0-1", 0.3, 0.0);
        sketch.rps("eth1", second).all_receive("2-3", softirq, 4e4)
    }

    #[test]
    fn two_interfaces_use_the_same_cpus() {
        let found = host("2-3", 0.7).finding(&RULE);
        assert_eq!(found.title, "CPU 3 is in the RPS masks of 2 queues, 4 nearby CPUs in none");
        assert_eq!(found.seen()[0], "eth0/rx-0: 50,000 packets/s, RPS 2-3");
        assert_eq!(host("3-4", 0.7).finding(&RULE).cpu.map(|cpu| cpu.0), Some(3), "a part of the masks");
    }

    #[test]
    fn near_misses() {
        host("2-3", 0.3).silent(&RULE, "time to spare");
        host("4-5", 0.7).silent(&RULE, "masks of their own");
        host("2-7", 0.7).silent(&RULE, "no CPU is left out");
        host("2-3", 0.7).all_work("4-7", 0.9).silent(&RULE, "the others are busy");
        host("2-3", 0.7).traffic("eth1", 50.0).silent(&RULE, "one queue has traffic");
        let nodes = Sketch::new(8).nodes(2).device("eth0", &[0]).device("eth1", &[1]);
        let nodes = nodes.rps("eth0", "2-3").rps("eth1", "2-3").traffic("eth0", 5e4).traffic("eth1", 3e4);
        nodes.all_receive("2-3", 0.7, 4e4).silent(&RULE, "the others are far away");
        let queues = |driver: &str| {
            let host = Sketch::new(8).device("eth0", &[0, 1]).driver("eth0", driver).traffic("eth0", 8e4);
            host.rps("eth0", "2-3").all_receive("0-1", 0.3, 0.0).all_receive("2-3", 0.7, 4e4)
        };
        queues("xen_netfront").silent(&RULE, "one mask is for all queues");
        assert_eq!(queues("igb").findings(&RULE).len(), 1, "each has its own");
    }
}
