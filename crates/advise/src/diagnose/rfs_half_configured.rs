//! RFS needs a global table and one table per queue, of matching sizes; one without the other does
//! nothing.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::count;
use rxlab_path::evidence::TRAFFIC;
use rxlab_path::model::{Model, Nic, NicKind, Rates};

pub(super) const RULE: Rule = Rule {
    id: "rfs-half-configured",
    asks: "Is RFS set only globally, only on queues, only on some queues, or with mismatched table sizes?",
    fires: || {
        format!(
            "an interface with {} packets/s has queue tables without the global one or the reverse, or its \
             tables together are less than half or more than twice the size of the global one",
            count(TRAFFIC)
        )
    },
    silent: "RFS is off or complete, a table cannot be read, or the interface carries no traffic",
    evidence: "the size of the global table and of the queues' tables",
    cause: "RFS needs both tables: the global one records where a flow is read, a queue's where its packets \
            go.",
    remedy: "Set both, each queue's table to the global size divided by the number of queues; or both to 0.",
    source: "Documentation/networking/scaling.rst (RFS Configuration)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some(&global) = model.rps_sock_flow_entries.known() else { return Vec::new() };
    let carries = |nic: &&Nic| rates.rx_packets(&nic.name) >= TRAFFIC;
    let mut nics: Vec<(&Nic, Vec<u32>)> = Vec::new();
    for nic in model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback).filter(carries) {
        let tables: Option<Vec<u32>> =
            nic.steering_queues().iter().map(|queue| queue.rps_flow_cnt.known().copied()).collect();
        nics.extend(tables.filter(|tables| !tables.is_empty()).map(|tables| (nic, tables)));
    }
    // The global table belongs to the machine: one interface that uses it completes RFS; the rest
    // (bridges, the other ends of veths) do not need it.
    let used = nics.iter().any(|(_, tables)| tables.iter().any(|table| *table > 0));
    if global > 0 && !used {
        // Of several that could use it, name the device that receives most.
        let rank = |nic: &Nic| (nic.kind == NicKind::Device, rates.rx_packets(&nic.name));
        nics.sort_by(|(a, _), (b, _)| rank(b).partial_cmp(&rank(a)).expect("rates are numbers"));
        nics.truncate(1);
    }
    nics.iter().filter_map(|(nic, tables)| defect(nic, tables, global, used)).collect()
}

fn defect(nic: &Nic, tables: &[u32], global: u32, used: bool) -> Option<Finding> {
    let queues = tables.len();
    let set = tables.iter().filter(|table| **table > 0).count();
    let sum: u64 = tables.iter().map(|table| u64::from(*table)).sum();
    let name = &nic.name;
    let (title, why) = match (global, set) {
        (0, 0) => return None,
        (0, _) => (
            format!("RFS tables of {name} are set, the global table is 0"),
            "without the global table the kernel does not know where flows are read: RFS is off",
        ),
        (_, 0) if used => return None,
        (_, 0) => (
            format!("the global RFS table is set, the tables of {name} are 0"),
            "without tables on its queues the interface steers nothing: RFS is off there",
        ),
        (_, set) if set < queues => (
            format!("RFS is set on {set} of {queues} queues of {name}"),
            "flows of the other queues are not steered",
        ),
        _ if sum < u64::from(global) / 2 || sum > u64::from(global) * 2 => (
            format!("RFS tables of {name} have {sum} entries, the global table {global}"),
            "the smaller size limits the number of steered flows; the rest of the larger table is wasted",
        ),
        _ => return None,
    };
    let (low, high) = (tables.iter().min()?, tables.iter().max()?);
    let range = if low == high { low.to_string() } else { format!("{low} to {high}") };
    Some(Finding {
        severity: Severity::Note,
        nic: Some(name.clone()),
        title,
        evidence: vec![Evidence::about(Subject::nic(nic), |seen| {
            let (global, queues) =
                (seen.count("rps_sock_flow_entries", global as usize), seen.count("queues", queues));
            format!("rps_sock_flow_entries {global}; rps_flow_cnt {range} on {queues} RX queues of {name}")
        })],
        why: why.to_owned(),
        remedy:
            "set both, each queue's table to the global size divided by the number of queues; or both to 0"
                .to_owned(),
        plans: vec![PlanName::Rfs],
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_path::model::Fact;

    fn host(global: u32, queue: u32) -> Sketch {
        Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 4e4).rfs(global, "eth0", queue)
    }

    #[test]
    fn each_half_and_each_misfit() {
        assert_eq!(host(0, 4096).titles(&RULE), ["RFS tables of eth0 are set, the global table is 0"]);
        assert_eq!(host(32768, 0).titles(&RULE), ["the global RFS table is set, the tables of eth0 are 0"]);
        assert_eq!(
            host(32768, 4096).titles(&RULE),
            ["RFS tables of eth0 have 8192 entries, the global table 32768"]
        );
        let half = host(32768, 16384).edit("eth0", |nic| nic.rx[1].rps_flow_cnt = Fact::Known(0));
        assert_eq!(half.titles(&RULE), ["RFS is set on 1 of 2 queues of eth0"]);
    }

    /// The first one listed was once named, whatever its traffic.
    #[test]
    fn the_busy_device_is_named() {
        let sketch = Sketch::new(8).veth("br0").device("eth0", &[2]).device("eth1", &[3]);
        let sketch = sketch.traffic("br0", 9e4).traffic("eth0", 2e3).traffic("eth1", 8e4);
        assert_eq!(
            sketch.rfs(32768, "eth0", 0).titles(&RULE),
            ["the global RFS table is set, the tables of eth1 are 0"]
        );
    }

    #[test]
    fn near_misses() {
        host(0, 0).silent(&RULE, "off");
        host(32768, 16384).silent(&RULE, "complete");
        host(32768, 0).traffic("eth0", 20.0).silent(&RULE, "no traffic");
        host(32768, 16384).veth("veth0").traffic("veth0", 4e4).silent(&RULE, "eth0 uses the table");
        let unseen = host(32768, 0).tune(|model| model.rps_sock_flow_entries = Fact::Unsupported);
        unseen.silent(&RULE, "the global table is not visible");
    }
}
