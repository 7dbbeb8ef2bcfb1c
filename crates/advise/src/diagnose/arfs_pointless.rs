//! The device steers flows for readers that have no queue on their node.

use super::arfs_possible::{local, offload, rfs_complete};
use super::figures::{Evidence, Subject};
use super::places::{loaded_of, most_loaded, readers};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::NOTICEABLE;
use rxlab_path::model::{Model, Nic, Rates};

/// Packets/s from which the choice of a queue for each flow can matter.
const PACKETS: f64 = 10_000.0;

pub(super) const RULE: Rule = Rule {
    id: "arfs-pointless",
    asks: "Does the device steer flows although no queue is on their readers' node?",
    fires: || {
        format!(
            "accelerated RFS is active (a capable driver, ntuple filters on, RFS complete) on a device with \
             {} packets/s, a queue's CPU spends {} of its time in interrupts and softirq, and no queue with \
             traffic lands on a node whose CPUs run processes a quarter of the time",
            count(PACKETS),
            percent(NOTICEABLE)
        )
    },
    silent: "a reader has a queue on its node, nodes are unknown, or the machine has one node",
    evidence: "the CPUs of processes and of the queues' interrupts, the traffic",
    cause: "The kernel asks the device for the queue nearest to the reader; if none is near, the filters \
            cost time and gain nothing.",
    remedy: "Place interrupts of some queues on the readers' node, or run the readers on the queues' node.",
    source: "Documentation/networking/scaling.rst (Accelerated RFS: Suggested Configuration)",
    check: Check::Nic(of_nic),
};

fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let (on, _) = offload(nic)?;
    let queues = loaded_of(model, rates, nic);
    let packets: f64 = queues.iter().map(|queue| queue.packets).sum();
    let busiest = most_loaded(&queues).filter(|queue| queue.load >= NOTICEABLE)?;
    let readers = readers(rates).intersection(&model.scheduled());
    let far = !readers.is_empty() && local(model, &queues, &readers).is_empty();
    if !on || !far || packets < PACKETS || !rfs_complete(model, nic) {
        return None;
    }
    let cpus: CpuMask = queues.iter().map(|queue| queue.cpu).collect();
    Some(Finding {
        severity: Severity::Note,
        title: format!("{} steers flows, but has no queue near their readers", nic.name),
        evidence: vec![
            Evidence::fact(
                Subject::nic(nic),
                format!(
                    "processes run on {}, the queues' interrupts land on {} of other nodes",
                    cpus_text(&readers),
                    cpus_text(&cpus)
                ),
            ),
            busiest.evidence(rates),
        ],
        why: "the filters can direct a flow only to a queue, and no queue is on its reader's node".to_owned(),
        remedy:
            "place interrupts of some queues on the readers' node, or run the readers on the queues' node"
                .to_owned(),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::Function;

    fn host(nodes: u32, readers: &str, on: bool) -> Sketch {
        let sketch = Sketch::new(8).nodes(nodes).device("eth0", &[0, 1]);
        let sketch =
            sketch.driven_by("eth0", "mlx5_core", Function::Plain).offload("eth0", "rx-ntuple-filter", on);
        let sketch = sketch.rfs(32768, "eth0", 16384).traffic("eth0", 2e5).all_receive("0-1", 0.3, 1e5);
        sketch.all_work(readers, 0.5)
    }

    #[test]
    fn readers_on_the_other_node() {
        let found = host(2, "4-7", true).finding(&RULE);
        assert_eq!(found.title, "eth0 steers flows, but has no queue near their readers");
        assert!(
            found.seen()[0].starts_with("processes run on CPUs 4-7, the queues' interrupts land on CPUs 0-1")
        );
    }

    #[test]
    fn near_misses() {
        host(2, "4-7", false).silent(&RULE, "it is off");
        host(2, "3-7", true).silent(&RULE, "one reader is near");
        host(1, "4-7", true).silent(&RULE, "one node");
        host(2, "4-7", true).rfs(0, "eth0", 0).silent(&RULE, "no RFS");
        host(2, "4-7", true).traffic("eth0", 5e3).silent(&RULE, "little traffic");
        let unknown =
            host(2, "4-7", true).tune(|model| model.cpus.iter_mut().for_each(|cpu| cpu.node = None));
        unknown.silent(&RULE, "nodes are not known");
    }
}
