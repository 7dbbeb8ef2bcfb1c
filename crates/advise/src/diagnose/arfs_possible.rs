//! RFS runs in software on a device that could steer flows itself.

use super::figures::{Evidence, Subject};
use super::places::{Loaded, loaded_of, most_loaded, node, readers};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::drivers;
use rxlab_path::evidence::SUBSTANTIAL;
use rxlab_path::model::{Model, Nic, Rates};

/// The kernel's name of the required offload.
const OFFLOAD: &str = "rx-ntuple-filter";

pub(super) const RULE: Rule = Rule {
    id: "arfs-possible",
    asks: "Does software steer flows although the device could do it?",
    fires: || {
        format!(
            "RFS is complete on a device with several queues whose driver can steer flows ({}), {OFFLOAD} is \
             off and can be switched on, a queue's CPU spends {} of its time in interrupts and softirq, and \
             queues land on the nodes of the CPUs that run processes",
            drivers::names(|row| row.has_arfs).join(", "),
            percent(SUBSTANTIAL)
        )
    },
    silent: "RFS is off, the driver cannot do it, the offload is on or fixed, or the readers' nodes have no \
             queue",
    evidence: "the RFS tables, the offload, the busiest queue",
    cause: "Accelerated RFS needs three things: RFS, a capable driver, and ntuple filters, which many \
            drivers leave off.",
    remedy: "Switch ntuple filters on (ethtool -K NIC ntuple on), and measure.",
    source: "Documentation/networking/scaling.rst (Accelerated RFS)",
    check: Check::Nic(of_nic),
};

fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let (on, changeable) = offload(nic)?;
    let queues = loaded_of(model, rates, nic);
    let busiest = most_loaded(&queues).filter(|queue| queue.load >= SUBSTANTIAL)?;
    if on || !changeable || nic.rx.len() < 2 || !rfs_complete(model, nic) {
        return None;
    }
    let readers = readers(rates).intersection(&model.scheduled());
    let local = local(model, &queues, &readers);
    if readers.is_empty() || local.len() * 2 < readers.len() {
        return None;
    }
    Some(Finding {
        severity: Severity::Note,
        title: format!("{} could steer flows to their readers itself", nic.name),
        evidence: vec![
            Evidence::fact(
                Subject::nic(nic),
                format!("RFS is on; {OFFLOAD} is off; driver {}", nic.driver.as_deref().unwrap_or("unknown")),
            ),
            busiest.evidence(rates),
            Evidence::about(Subject::Cpus(readers.clone()), |seen| {
                let local = seen.count("near_a_queue", local.len());
                let readers = cpus_text(&readers);
                format!("processes run on {readers}; a queue lands on the node of {local} of them")
            }),
        ],
        why: "RFS hands packets on by interrupts between CPUs; the device could deliver them to the right \
              one directly"
            .to_owned(),
        remedy: format!("switch ntuple filters on (ethtool -K {} ntuple on), and measure", nic.name),
        ..RULE.finding()
    })
}

/// For drivers that steer flows: is the offload on, and can it be changed?
pub(super) fn offload(nic: &Nic) -> Option<(bool, bool)> {
    if !nic.driver_facts().has_arfs {
        return None;
    }
    let offload = nic.hardware.features.known()?.iter().find(|feature| feature.name == OFFLOAD)?;
    Some((offload.on, offload.changeable))
}

/// True if RFS is on: the global table and that of every queue are set.
pub(super) fn rfs_complete(model: &Model, nic: &Nic) -> bool {
    model.rps_sock_flow_entries.known().is_some_and(|entries| *entries > 0)
        && nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some_and(|entries| *entries > 0))
}

/// The CPUs of `readers` with a queue on their node; a CPU of an unknown node may be one.
pub(super) fn local(model: &Model, queues: &[Loaded<'_>], readers: &CpuMask) -> CpuMask {
    let nodes: Vec<Option<u32>> = queues.iter().map(|queue| node(model, queue.cpu)).collect();
    let near = |at: Option<u32>| at.is_none() || nodes.iter().any(|node| node.is_none() || *node == at);
    readers.iter().filter(|cpu| near(node(model, *cpu))).collect()
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::Function;

    fn host(driver: &str, on: bool) -> Sketch {
        let sketch =
            Sketch::new(8).nodes(2).device("eth0", &[0, 1]).driven_by("eth0", driver, Function::Plain);
        let sketch = sketch.offload("eth0", "rx-ntuple-filter", on).rfs(32768, "eth0", 16384);
        sketch.traffic("eth0", 2e5).all_receive("0-1", 0.4, 1e5).all_work("0-3", 0.4)
    }

    #[test]
    fn the_offload_is_off() {
        let found = host("ice", false).finding(&RULE);
        assert_eq!(found.title, "eth0 could steer flows to their readers itself");
        assert_eq!(found.seen()[2], "processes run on CPUs 0-3; a queue lands on the node of 4 of them");
    }

    #[test]
    fn near_misses() {
        host("ice", true).silent(&RULE, "it is on");
        host("ixgbe", false).silent(&RULE, "the driver cannot");
        host("ice", false).rfs(0, "eth0", 0).silent(&RULE, "no RFS");
        host("ice", false).all_receive("0-1", 0.1, 1e5).silent(&RULE, "time to spare");
        let far = host("ice", false).all_work("0-3", 0.0).all_work("4-7", 0.5);
        far.silent(&RULE, "the readers have no queue near them");
        let fixed = host("ice", false).edit("eth0", |nic| {
            let mut features = nic.hardware.features.known().cloned().expect("given");
            features[0].changeable = false;
            nic.hardware.features = rxlab_base::units::Fact::Known(features);
        });
        fixed.silent(&RULE, "fixed");
    }
}
