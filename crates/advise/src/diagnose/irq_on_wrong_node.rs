//! All interrupts of a device's busy queues land on CPUs outside the device's node.
//!
//! Field case C found the effect of the other node "slightly lower, not dramatic".

use std::collections::{BTreeMap, BTreeSet};

use super::figures::{Evidence, Subject};
use super::places::{Loaded, loaded_of, node, of_node};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{cpus_text, percent, plural};
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{SUBSTANTIAL, arrivals, brought, queue_packets, rounds};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};

pub(super) const RULE: Rule = Rule {
    id: "irq-on-wrong-node",
    asks: "Do the interrupts of a device land on a node other than its own?",
    fires: || {
        format!(
            "the node of a device is known, the interrupts of all its queues with traffic land on other \
             nodes, and one of these CPUs spends {} of its time in interrupts and softirq for its \
             packets",
            percent(SUBSTANTIAL)
        )
    },
    silent: "the node is unknown (-1 is not node 0), a queue lands on the device's node and another \
             elsewhere (then they are spread on purpose), or the device's node has no CPU that may handle \
             them",
    evidence: "the device's node and its CPUs, the nodes where the interrupts land, the busiest queue",
    cause: "The device writes packets to the memory of one node; CPUs of another one fetch them over the \
            link between the nodes. irqbalance and drivers ignore the node if it is not reported, or fill \
            one node first.",
    remedy: "Place the interrupts on CPUs of the device's node.",
    source: "systemd.link(5) (IRQAffinityNUMA=); the set_irq_affinity script of Intel's drivers (local)",
    check: Check::Nic(of_nic),
};

fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let queues = loaded_of(model, rates, nic);
    // Most of thousands of interfaces have none.
    if queues.is_empty() {
        return None;
    }
    let nodes = queues.iter().map(|queue| Some((nic.node_of(queue.queue)?, node(model, queue.cpu)?)));
    let nodes: Vec<(u32, u32)> = nodes.collect::<Option<_>>()?;
    let owns: BTreeSet<u32> = nodes.iter().map(|(own, _)| *own).collect();
    let there: BTreeSet<u32> = nodes.iter().map(|(_, there)| *there).collect();
    let usable = model.usable();
    let has_cpus = |own: &u32| !of_node(model, *own).intersection(&usable).is_empty();
    let uncounted = if rates.uncounted { brought(model, rates) } else { BTreeMap::new() };
    let rounds = if rates.uncounted { 1.0 } else { rounds(model, rates, nic) };
    // The rest is the work of packets that other interfaces and masks bring to that CPU, or that it hands on.
    let own_load = |queue: &Loaded<'_>| {
        let here = queues.iter().filter(|other| other.cpu == queue.cpu);
        let own = here.map(|other| other.packets).sum::<f64>() * rounds;
        let counted = rates.cpu(queue.cpu).map_or(0.0, |cpu| cpu.packets);
        let passed = || counted + handed_on(model, rates, queue.cpu);
        let all = uncounted.get(&queue.cpu).copied().unwrap_or_else(passed);
        queue.load * own / all.max(own)
    };
    let busiest = queues.iter().rev().max_by(|a, b| own_load(a).total_cmp(&own_load(b)))?;
    let is_elsewhere = nodes.iter().all(|(own, there)| own != there);
    if !is_elsewhere || !owns.iter().all(has_cpus) || own_load(busiest) < SUBSTANTIAL {
        return None;
    }
    let cpus: CpuMask = queues.iter().map(|queue| queue.cpu).collect();
    let own = owns.iter().fold(CpuMask::new(), |all, own| all.union(&of_node(model, *own)));
    let local = own.intersection(&usable);
    let own = in_words(&owns);
    Some(Finding {
        severity: Severity::Note,
        cpu: Some(busiest.cpu),
        title: match owns.len() {
            1 => format!("{} is on {own}, its interrupts land on {}", nic.name, in_words(&there)),
            _ => format!("{} is on {own}, the interrupt of each queue lands on another node", nic.name),
        },
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                let queues = plural(seen.count("queues_with_traffic", queues.len()), "queue");
                format!("{queues} with traffic, interrupts on {}", cpus_text(&cpus))
            }),
            Evidence::fact(
                Subject::Cpus(local.clone()),
                format!("{own} {} {}", if owns.len() == 1 { "has" } else { "have" }, cpus_text(&local)),
            ),
            busiest.evidence(rates),
        ],
        why: "each packet is fetched from another node's memory".to_owned(),
        remedy: match owns.len() {
            1 => format!("place the interrupts on CPUs of {own}"),
            _ => "place each interrupt on a CPU of the node of its function".to_owned(),
        },
        plans: vec![PlanName::NearIrqs],
        ..RULE.finding()
    })
}

/// Packets/s of all devices that a CPU takes off their queues and masks hand to others, where the stack counts them.
fn handed_on(model: &Model, rates: &Rates, cpu: CpuId) -> f64 {
    let devices =
        model.nics.iter().filter(|nic| nic.kind == NicKind::Device && model.carriers(nic).is_empty());
    let queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let of_queue = |(nic, queue): (&Nic, &RxQueue)| {
        let mask = queue.rps_cpus.known().filter(|mask| !mask.is_empty())?;
        let here = arrivals(queue, model, rates).get(&cpu).copied()?;
        let others = mask.difference(&cpu.into()).len() as f64 / mask.len() as f64;
        Some(queue_packets(nic, queue, rates) * here * others)
    };
    queues.filter_map(of_queue).sum()
}

/// `node 0`, `nodes 0, 1`.
fn in_words(nodes: &BTreeSet<u32>) -> String {
    let list: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use crate::family::PlanName;
    use rxlab_base::units::CpuId;

    fn host(irqs: &[u32]) -> Sketch {
        let sketch = Sketch::new(32).nodes(2).device("eth0", irqs).traffic("eth0", 9e4);
        irqs.iter().fold(sketch, |sketch, cpu| sketch.receives(*cpu, 0.4, 4e4))
    }

    /// The shape of field case C, with the interrupt on the other node.
    #[test]
    fn on_the_other_node() {
        let found = host(&[3]).on_node("eth0", 1).finding(&RULE);
        assert_eq!(found.title, "eth0 is on node 1, its interrupts land on node 0");
        assert_eq!(found.seen()[1], "node 1 has CPUs 16-31");
        assert_eq!(found.plans, [PlanName::NearIrqs]);
        assert_eq!(
            host(&[3, 4]).on_node("eth0", 1).finding(&RULE).seen()[0],
            "2 queues with traffic, interrupts on CPUs 3-4"
        );
    }

    /// Multi-PF: the vectors of the second queue are those of a function in the other node.
    #[test]
    fn the_function_of_a_vector_counts() {
        let sketch = |irqs: &[u32]| {
            host(irqs).on_node("eth0", 0).edit("eth0", |nic| {
                nic.rx[0].irqs[0].node = Some(0);
                nic.rx[1].irqs[0].node = Some(1);
            })
        };
        sketch(&[3, 20]).silent(&RULE, "each at home");
        let found = sketch(&[20, 3]).finding(&RULE);
        assert_eq!(found.title, "eth0 is on nodes 0, 1, the interrupt of each queue lands on another node");
        assert_eq!(found.seen()[1], "nodes 0, 1 have CPUs 0-31");
    }

    /// A quiet interface was said to be on the wrong node once masks of another one kept its CPU busy.
    #[test]
    fn what_others_bring_to_the_cpu_counts_not() {
        let shared = |own: f64| {
            let sketch = host(&[3]).on_node("eth0", 1).traffic("eth0", own).device("eth1", &[0]);
            sketch.traffic("eth1", 9e4).rps("eth1", "3").receives(3, 0.6, 9e4 + own)
        };
        shared(9e3).silent(&RULE, "a tenth of the packets of CPU 3");
        assert_eq!(shared(9e4).findings(&RULE).len(), 1, "half of them");
    }

    /// Once a mask handed on most of what a CPU received, the rest of its time was taken for another interface's.
    #[test]
    fn what_is_handed_on_is_other_work() {
        let shared = |mask: &str| {
            let sketch =
                Sketch::new(32).nodes(2).device("eth0", &[3]).on_node("eth0", 1).traffic("eth0", 3e3);
            let sketch =
                sketch.device("eth1", &[3]).on_node("eth1", 0).traffic("eth1", 9e4).rps("eth1", mask);
            sketch.receives(3, 0.45, 3e3)
        };
        shared("4-7").silent(&RULE, "CPU 3 polls the queue of eth1");
        assert_eq!(shared("").findings(&RULE).len(), 1, "it is eth0's");
    }

    /// The stack counts a packet once more in each bond and VLAN: it was once said to be other work.
    #[test]
    fn packets_that_the_stack_counts_twice_are_the_device_s() {
        let below = |nic: &mut rxlab_path::model::Nic| {
            nic.stack.kind = Some("vlan".to_owned());
            nic.stack.lower = vec!["eth0".parse().expect("a name")];
        };
        let sketch = host(&[3]).on_node("eth0", 1).veth("eth0.7").edit("eth0.7", below);
        let sketch = sketch.traffic("eth0.7", 9e4).receives(3, 0.4, 18e4);
        assert_eq!(sketch.findings(&RULE).len(), 1);
    }

    /// Where packets are not counted by CPU, all work of a CPU was taken for that of the device.
    #[test]
    fn packets_that_masks_bring_are_others() {
        let host = |mask: &str| {
            let host = Sketch::new(4).nodes(2).device("eth0", &[0]).on_node("eth0", 1).device("eth1", &[3]);
            let host = host.traffic("eth0", 2e4).traffic("eth1", 2e5).rps("eth1", mask).receives(0, 0.6, 0.0);
            host.measured(|rates| rates.uncounted = true)
        };
        host("0").silent(&RULE, "most of it is eth1's");
        assert_eq!(host("1").findings(&RULE).len(), 1, "it is eth0's");
    }

    #[test]
    fn near_misses() {
        host(&[3]).silent(&RULE, "the node is not known");
        host(&[16]).on_node("eth0", 1).silent(&RULE, "on its own node");
        host(&[0, 16]).on_node("eth0", 1).silent(&RULE, "field case C: one queue a node");
        host(&[3]).on_node("eth0", 1).receives(3, 0.1, 4e4).silent(&RULE, "time to spare");
        host(&[3]).on_node("eth0", 1).traffic("eth0", 50.0).silent(&RULE, "no traffic");
        let isolated = host(&[3]).on_node("eth0", 1).tune(|model| {
            model.cpus.iter_mut().filter(|cpu| cpu.id >= CpuId(16)).for_each(|cpu| cpu.isolated = true);
        });
        isolated.silent(&RULE, "that node is reserved");
    }
}
