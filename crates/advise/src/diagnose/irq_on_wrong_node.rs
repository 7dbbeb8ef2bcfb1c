//! All interrupts of a device's busy queues land on CPUs outside the device's node.
//!
//! Field case C found the effect of the other node "slightly lower, not dramatic".

use super::figures::{Evidence, Subject};
use super::places::{loaded_of, most_loaded, node, of_node};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{percent, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::SUBSTANTIAL;
use rxlab_path::model::{Model, Nic, Rates};

pub(super) const RULE: Rule = Rule {
    id: "irq-on-wrong-node",
    asks: "Do the interrupts of a device land on a node other than its own?",
    fires: || {
        format!(
            "the node of a device is known, the interrupts of all its queues with traffic land on other \
             nodes, and one of these CPUs spends {} of its time in interrupts and softirq",
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
    let own = nic.node?;
    let local = of_node(model, own).intersection(&model.usable());
    let queues = loaded_of(model, rates, nic);
    let nodes: Option<Vec<u32>> = queues.iter().map(|queue| node(model, queue.cpu)).collect();
    let mut nodes = nodes.filter(|nodes| !nodes.is_empty() && !nodes.contains(&own))?;
    nodes.sort_unstable();
    nodes.dedup();
    let busiest = most_loaded(&queues)?;
    if local.is_empty() || busiest.load < SUBSTANTIAL {
        return None;
    }
    let cpus: CpuMask = queues.iter().map(|queue| queue.cpu).collect();
    let there: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    let there = format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, there.join(", "));
    Some(Finding {
        severity: Severity::Note,
        cpu: Some(busiest.cpu),
        title: format!("{} is on node {own}, its interrupts land on {there}", nic.name),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                let queues = plural(seen.count("queues_with_traffic", queues.len()), "queue");
                format!("{queues} with traffic, interrupts on CPU {cpus}")
            }),
            Evidence::fact(Subject::Cpus(local.clone()), format!("node {own} has CPUs {local}")),
            busiest.evidence(rates),
        ],
        why: "each packet is fetched from another node's memory".to_owned(),
        remedy: format!("place the interrupts on CPUs of node {own}"),
        plans: vec![PlanName::NearIrqs],
        ..RULE.finding()
    })
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
            "2 queues with traffic, interrupts on CPU 3-4"
        );
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
