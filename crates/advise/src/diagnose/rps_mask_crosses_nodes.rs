//! RPS hands packets to CPUs outside the interrupt's node, though the readers are not there.

use std::collections::BTreeSet;

use super::figures::Evidence;
use super::places::{Loaded, loaded, loaded_of, mean, node, of_node, same_on, signalled, worst};
use super::rps_mask_contains_irq_sibling::is_high;
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{FULL, SUBSTANTIAL, busy, receive_time};
use rxlab_path::model::{Model, Nic, Rates};

/// Process time of the far CPUs relative to the near ones from which the readers are on the far ones.
const READERS: f64 = 1.5;

/// Receive time above which the near CPUs have no room left.
const NO_ROOM: f64 = 0.8;

pub(super) const RULE: Rule = Rule {
    id: "rps-mask-crosses-nodes",
    asks: "Does RPS hand packets to another NUMA node unnecessarily?",
    fires: || {
        format!(
            "the RPS mask of a queue with traffic contains CPUs outside the node of its interrupt, whose CPU \
             spends {} of its time in interrupts and softirq, while that node has other CPUs",
            percent(SUBSTANTIAL)
        )
    },
    silent: "a node is unknown, processes run mostly on the far CPUs (then the readers are there), the \
             near CPUs all take interrupts or signals of Hyper-V for interfaces with traffic, are fewer than the busy ones of \
             these, are threads of the interrupt's core at a high rate or are full, the interrupt is outside the device's node \
             (irq-on-wrong-node), one mask is for queues whose interrupts land on several nodes, or the packets there may come \
             from `lo`",
    evidence: "the queue's traffic, its interrupt and that CPU's time in interrupts and softirq, the mask \
               and its CPUs on other nodes",
    cause: "The packet and its buffer are in the interrupt's node; a CPU of another node fetches both over \
            the link between the nodes. More CPUs are not always better.",
    remedy: "Limit the mask to CPUs of the interrupt's node.",
    source: "Documentation/networking/scaling.rst (RPS: Suggested Configuration)",
    check: Check::Nic(of_nic),
};

/// One finding per interface, for its busiest such queue.
fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let queues = loaded_of(model, rates, nic);
    // Most of thousands of interfaces have none; the others are compared with all queues of the machine.
    if queues.is_empty() {
        return None;
    }
    // One mask for all of them is near some at most.
    let nodes: BTreeSet<Option<u32>> = queues.iter().map(|queue| node(model, queue.cpu)).collect();
    if nic.is_steered_by_first() && nodes.len() > 1 {
        return None;
    }
    let all = loaded(model, rates);
    let caught = queues.iter().filter_map(|queue| Some((queue, far(model, rates, queue, &all)?)));
    let caught: Vec<(&Loaded<'_>, CpuMask)> = caught.collect();
    let (queue, far) = worst(&caught)?;
    let (name, mask, home) = (queue.name(), queue.mask()?, node(model, queue.cpu)?);
    let mut evidence = vec![
        queue.evidence(rates),
        Evidence::fact(
            queue.subject(),
            format!("{name}: RPS {mask}; the interrupt is on node {home}, outside it {}", cpus_text(far)),
        ),
    ];
    evidence.extend(same_on(caught.len(), nic));
    Some(Finding {
        severity: Severity::Note,
        cpu: Some(queue.cpu),
        title: format!("RPS of {name} hands packets to CPUs outside node {home}"),
        evidence,
        why: "a CPU of another node fetches each packet over the link between the nodes".to_owned(),
        remedy: format!("limit the mask to CPUs of node {home}"),
        plans: vec![PlanName::Rps],
        ..RULE.finding()
    })
}

/// The CPUs of a queue's mask that are on another node without a reason. CPUs where queues with traffic, `all`, or those of Hyper-V
/// arrive are no place for the work of others, nor are threads of a busy core, and fewer CPUs than such queues in the node no place
/// for that of all.
fn far(model: &Model, rates: &Rates, queue: &Loaded<'_>, all: &[Loaded<'_>]) -> Option<CpuMask> {
    let mask = queue.mask().filter(|_| queue.load >= SUBSTANTIAL)?;
    let home = node(model, queue.cpu)?;
    let far: CpuMask = mask.iter().filter(|cpu| node(model, *cpu).is_some_and(|node| node != home)).collect();
    let arrivals: CpuMask = all.iter().map(|queue| queue.cpu).chain(signalled(model, rates)).collect();
    let mut near = of_node(model, home).intersection(&model.usable()).difference(&arrivals);
    if is_high(queue) {
        near = near.difference(&model.siblings(&queue.cpu.into()));
    }
    let is_heavy = |queue: &&Loaded<'_>| queue.load >= SUBSTANTIAL && node(model, queue.cpu) == Some(home);
    let heavy: CpuMask = all.iter().filter(is_heavy).map(|queue| queue.cpu).collect();
    let misplaced = queue.nic.node_of(queue.queue).is_some_and(|own| own != home);
    if far.is_empty() || near.is_empty() || near.len() < heavy.len() || misplaced {
        return None;
    }
    let readers_are_far = mean(rates, &far, |cpu| cpu.user + cpu.system)
        > mean(rates, &near, |cpu| cpu.user + cpu.system) * READERS;
    let full = mean(rates, &near, receive_time) >= NO_ROOM || mean(rates, &near, busy) >= FULL;
    (!readers_are_far && !full).then_some(far)
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch, cpus};

    /// Field case C: the interrupt on CPU 16 of 32, in the second of two nodes.
    fn host(mask: &str) -> Sketch {
        let sketch = Sketch::new(32).nodes(2).device("eth0", &[16]).traffic("eth0", 9e4);
        sketch.receives(16, 0.6, 9e4).rps("eth0", mask).all_work("0-31", 0.3)
    }

    #[test]
    fn all_cpus_but_that_of_the_interrupt() {
        let found = host("0-15,17-31").finding(&RULE);
        assert_eq!(found.title, "RPS of eth0/rx-0 hands packets to CPUs outside node 1");
        assert_eq!(
            found.seen()[1],
            "eth0/rx-0: RPS 0-15,17-31; the interrupt is on node 1, outside it CPUs 0-15"
        );
        assert_eq!(host("0-7").findings(&RULE).len(), 1, "only far ones");
    }

    #[test]
    fn near_misses() {
        host("17-23").silent(&RULE, "field case C's best");
        host("0-15,17-31").receives(16, 0.1, 9e4).silent(&RULE, "time to spare");
        host("0-7").all_work("0-7", 0.8).silent(&RULE, "the readers are there");
        host("0-15,17-31").all_receive("17-31", 0.9, 5e3).silent(&RULE, "the near ones are full");
        host("0-15").all_work("17-31", 0.95).silent(&RULE, "the near ones are full of programs");
        let threads = || {
            let host = Sketch::new(4).nodes(2).device("eth0", &[2]).rps("eth0", "0-1").all_work("0-3", 0.3);
            host.tune(|model| [2, 3].into_iter().for_each(|cpu| model.cpus[cpu].siblings = cpus("2-3")))
        };
        threads()
            .traffic("eth0", 9e4)
            .receives(2, 0.6, 9e4)
            .silent(&RULE, "the near one is of the same busy core");
        let calm = threads().traffic("eth0", 2e4).receives(2, 0.3, 2e4);
        assert_eq!(calm.findings(&RULE).len(), 1, "that core has time");
        host("0-15,17-31").on_node("eth0", 0).silent(&RULE, "the interrupt is in the wrong place");
        let others = Sketch::new(4).nodes(2).device("eth0", &[2, 3]).queue_traffic("eth0", &[9e4, 1e4]);
        let others = others.receives(2, 0.6, 9e4).rps("eth0", "0-1").all_work("0-3", 0.3);
        others.silent(&RULE, "the other CPU of the node takes an interrupt");
        let two = |packets: f64| {
            let two = Sketch::new(4).nodes(2).device("eth0", &[2]).device("eth1", &[3]);
            let two = two.traffic("eth0", 9e4).traffic("eth1", packets).receives(2, 0.6, 9e4);
            two.rps("eth0", "0-1").all_work("0-3", 0.3)
        };
        two(9e4).silent(&RULE, "the other CPU of the node takes an interrupt of another interface");
        assert_eq!(two(0.0).findings(&RULE).len(), 1, "that interface is idle");
        let signals = |packets: f64| {
            let two =
                Sketch::new(4).nodes(2).device("eth0", &[2]).device("eth1", &[3]).channels("eth1", &[3]);
            let two = two.traffic("eth0", 9e4).traffic("eth1", packets).receives(2, 0.6, 9e4);
            two.rps("eth0", "0-1").all_work("0-3", 0.3)
        };
        signals(9e4).silent(&RULE, "Hyper-V signals the other CPU of the node for another interface");
        assert_eq!(signals(0.0).findings(&RULE).len(), 1, "that interface is idle");
        let three = Sketch::new(8).nodes(2).device("eth0", &[0, 1, 2]).traffic("eth0", 2.7e5);
        let three = three.each("0-2", |sketch, cpu| sketch.receives(cpu, 0.6, 9e4)).rps("eth0", "4-7");
        three.silent(&RULE, "one CPU is left for three");
        let one_mask = |driver: &str| {
            let host =
                Sketch::new(8).nodes(2).device("eth0", &[0, 4]).driver("eth0", driver).traffic("eth0", 1.8e5);
            host.each("0,4", |host, cpu| host.receives(cpu, 0.6, 9e4)).rps("eth0", "1-2").all_work("0-7", 0.3)
        };
        one_mask("xen_netfront").silent(&RULE, "it is for queues of both nodes");
        assert_eq!(one_mask("igb").findings(&RULE).len(), 1, "rx-1 has its own");
        let unknown = host("0-15,17-31").tune(|model| model.cpus.iter_mut().for_each(|cpu| cpu.node = None));
        unknown.silent(&RULE, "nodes are not known");
        let one = Sketch::new(32).device("eth0", &[16]).traffic("eth0", 9e4).receives(16, 0.6, 9e4);
        one.rps("eth0", "0-15,17-31").silent(&RULE, "one node");
    }
}
