//! An RPS mask contains CPUs that went offline or were isolated later: packets for the former fall back to
//! the interrupt's CPU, the latter are disturbed.

use super::figures::{Evidence, Subject};
use super::places::same_on;
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{TRAFFIC, queue_packets};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};

pub(super) const RULE: Rule = Rule {
    id: "rps-mask-unusable-cpus",
    asks: "Does an RPS mask contain offline or isolated CPUs?",
    fires: || {
        format!(
            "the RPS mask of a queue with {} packets/s contains a CPU that is offline or isolated from the scheduler",
            count(TRAFFIC)
        )
    },
    silent: "the queue has no traffic",
    evidence: "the mask, its offline or isolated CPUs, the queue's traffic",
    cause: "The kernel silently drops such CPUs when a mask is written, but not from an existing mask when a \
            CPU goes offline or a partition is isolated. A packet for an offline CPU is processed where the \
            interrupt lands.",
    remedy: "Rewrite the mask without these CPUs.",
    source: "net/core/dev.c get_rps_cpu, net/core/net-sysfs.c netdev_rx_queue_set_rps_mask; \
             Documentation/admin-guide/cgroup-v2.rst (cpuset.cpus.partition)",
    check: Check::Nic(of_nic),
};

/// A queue whose mask has CPUs that cannot or should not process its packets.
struct Caught<'a> {
    queue: &'a RxQueue,
    mask: &'a CpuMask,
    offline: CpuMask,
    isolated: CpuMask,
    packets: f64,
}

/// One finding per interface, for its busiest such queue.
fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    if nic.kind == NicKind::Loopback {
        return None;
    }
    let (online, kept) = (model.online(), model.set_apart());
    let caught = nic.rx.iter().filter_map(|queue| {
        let mask = queue.rps_cpus.known()?;
        let (offline, isolated) = (mask.difference(&online), mask.intersection(&online).intersection(&kept));
        let packets = queue_packets(nic, queue, rates);
        let bad = packets >= TRAFFIC && !(offline.is_empty() && isolated.is_empty());
        bad.then_some(Caught { queue, mask, offline, isolated, packets })
    });
    let caught: Vec<Caught<'_>> = caught.collect();
    let worst = caught.iter().rev().max_by(|a, b| a.packets.total_cmp(&b.packets))?;
    let name = format!("{}/rx-{}", nic.name, worst.queue.index);
    let bad = worst.offline.union(&worst.isolated);
    let (word, why) = match (worst.offline.is_empty(), worst.isolated.is_empty()) {
        (false, true) => ("offline", "packets for an offline CPU are processed where the interrupt lands"),
        (true, false) => ("isolated", "receive work disturbs the work these CPUs are reserved for"),
        _ => (
            "offline or isolated",
            "packets for an offline CPU are processed where the interrupt lands; receive work disturbs the \
             work that isolated CPUs are reserved for",
        ),
    };
    let part = bad.len() as f64 / worst.mask.len() as f64;
    let mut evidence = vec![Evidence::about(Subject::rx(nic, worst.queue.index), |seen| {
        format!(
            "{name}: {} packets/s, RPS {}; {} of the mask's CPUs are {word}",
            seen.packets("packets", worst.packets),
            worst.mask,
            seen.percent("unusable", part)
        )
    })];
    for (what, cpus) in [("offline", &worst.offline), ("isolated", &worst.isolated)] {
        if !cpus.is_empty() {
            evidence
                .push(Evidence::fact(Subject::Cpus(cpus.clone()), format!("{what}: {}", cpus_text(cpus))));
        }
    }
    evidence.extend(same_on(caught.len(), nic));
    Some(Finding {
        severity: Severity::Note,
        cpu: bad.first(),
        title: format!("the RPS mask of {name} contains {word} CPUs"),
        evidence,
        why: why.to_owned(),
        remedy: format!("rewrite the mask without {}", cpus_text(&bad)),
        plans: vec![PlanName::Rps],
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch, cpus};
    use rxlab_base::units::Fact;

    fn host() -> Sketch {
        Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).rps("eth0", "0-1,3-7")
    }

    fn isolate(sketch: Sketch, list: &str) -> Sketch {
        sketch.set(|settings| settings.cpuset_isolated = Fact::Known(cpus(list)))
    }

    #[test]
    fn offline_isolated_and_both() {
        let found = host().offline("6-7").finding(&RULE);
        assert_eq!(found.title, "the RPS mask of eth0/rx-0 contains offline CPUs");
        assert!(found.seen()[0].ends_with("29 % of the mask's CPUs are offline"), "{found:?}");
        assert_eq!(found.seen()[1], "offline: CPUs 6-7");
        assert_eq!(isolate(host(), "5").finding(&RULE).seen()[1], "isolated: CPU 5");
        let both = isolate(host().offline("7"), "6").finding(&RULE);
        assert_eq!(both.title, "the RPS mask of eth0/rx-0 contains offline or isolated CPUs");
        assert_eq!(both.remedy, "rewrite the mask without CPUs 6-7");
    }

    #[test]
    fn near_misses() {
        host().silent(&RULE, "all are online");
        host().rps("eth0", "0-1").offline("6-7").silent(&RULE, "not in the mask");
        isolate(host().rps("eth0", "0-1"), "6-7").silent(&RULE, "not in the mask");
        host().offline("6-7").traffic("eth0", 50.0).silent(&RULE, "no traffic");
    }
}
