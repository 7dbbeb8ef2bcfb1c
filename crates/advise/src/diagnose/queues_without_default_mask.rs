//! Some queues of a virtual interface have no RPS mask although the network namespace has a default: they came into use after it
//! was set on the others.

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text, plural};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::TRAFFIC;
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, Rates, RxQueue};

/// Number of interfaces and CPUs that are shown.
const SHOWN: usize = 3;

pub(super) const RULE: Rule = Rule {
    id: "queues-without-default-mask",
    asks: "Do queues of virtual interfaces lack the default RPS mask that others of them have?",
    fires: || {
        format!(
            "net.core.rps_default_mask is set, a virtual interface with {0} packets/s has RPS on some queues and none on \
             others; a warning if {0} packets/s are received on CPUs that should take no receive work",
            count(TRAFFIC)
        )
    },
    silent: "no default is set, the interface has no RPS at all (untouched-containers) or on every queue, or it has hardly any \
             traffic",
    evidence: "the default, the queues without a mask and their interface's traffic, packets/s on CPUs that should have none",
    cause: "Packets of a queue without a mask are received on the CPU that sends them. The kernel gives the default to queues of \
            new interfaces; a program that sets masks when an interface appears may see its first queue only, as others are \
            added later.",
    remedy: "Set the mask on every queue of these interfaces.",
    source: "Documentation/admin-guide/sysctl/net.rst (rps_default_mask); drivers/net/veth.c",
    check: Check::Machine(check),
};

fn has_mask(queue: &RxQueue) -> bool {
    queue.rps_cpus.known().is_some_and(|mask| !mask.is_empty())
}

fn lacks_mask(queue: &&RxQueue) -> bool {
    queue.rps_cpus.known().is_some_and(CpuMask::is_empty)
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some(default) = model.settings.rps_default_mask.known().filter(|mask| !mask.is_empty()) else {
        return Vec::new();
    };
    let packets = |nic: &Nic| rates.rx_packets(&nic.name);
    let is_partly = |nic: &&Nic| {
        let is_busy = nic.kind == NicKind::Virtual && packets(nic) >= TRAFFIC;
        is_busy && nic.rx.iter().any(has_mask) && nic.rx.iter().any(|queue| lacks_mask(&queue))
    };
    let mut found: Vec<&Nic> = model.nics.iter().filter(is_partly).collect();
    found.sort_by(|a, b| packets(b).total_cmp(&packets(a)));
    let Some(first) = found.first() else { return Vec::new() };
    let usable = model.usable();
    let reached = rates.cpus.iter().filter(|cpu| !usable.contains(cpu.cpu) && cpu.packets >= TRAFFIC);
    let reached: Vec<&CpuRates> = reached.collect();
    let missing = first.rx.iter().filter(lacks_mask).count();
    let others = match found.len() {
        1 => String::new(),
        all => format!(", and of {} more", plural(all - 1, "interface")),
    };
    let mut evidence =
        vec![Evidence::fact(Subject::Machine, format!("net.core.rps_default_mask is {default}"))];
    evidence.extend(found.iter().take(SHOWN).map(|nic| {
        Evidence::about(Subject::nic(nic), |seen| {
            let lacking = seen.count("queues_without", nic.rx.iter().filter(lacks_mask).count());
            let packets = seen.packets("packets", packets(nic));
            format!("{}: {packets} packets/s, no mask on {lacking} of {} queues", nic.name, nic.rx.len())
        })
    }));
    evidence.extend(reached.iter().take(SHOWN).map(|cpu| {
        Evidence::about(Subject::Cpu(cpu.cpu), |seen| {
            let packets = seen.packets("packets", cpu.packets);
            format!("CPU {} should take no receive work: {packets} packets/s", cpu.cpu)
        })
    }));
    let hit: CpuMask = reached.iter().map(|cpu| cpu.cpu).collect();
    vec![Finding {
        severity: if hit.is_empty() { Severity::Note } else { Severity::Warning },
        nic: Some(first.name.clone()),
        cpu: hit.first(),
        title: format!("{missing} of {} queues of {} have no RPS mask{others}", first.rx.len(), first.name),
        evidence,
        why: if hit.is_empty() {
            "packets of a queue without a mask are received on the CPU that sends them".to_owned()
        } else {
            format!(
                "packets of a queue without a mask are received on the CPU that sends them: {}",
                cpus_text(&hit)
            )
        },
        remedy: format!("set the mask {default} on every queue"),
        plans: vec![PlanName::Rps],
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch, cpus};
    use rxlab_base::units::Fact;
    use rxlab_path::model::RxQueue;

    fn host(masks: &[&str], default: &str) -> Sketch {
        let sketch = Sketch::new(8).container("veth1", 2e4, "").edit("veth1", |nic| {
            let queue = |(index, list): (u32, &&str)| RxQueue {
                index,
                rps_cpus: Fact::Known(cpus(list)),
                ..RxQueue::default()
            };
            nic.rx = (0..).zip(masks).map(queue).collect();
        });
        sketch.set(|settings| settings.rps_default_mask = Fact::Known(cpus(default)))
    }

    #[test]
    fn the_first_queue_only() {
        let found = host(&["0-1", "", ""], "0-1").finding(&RULE);
        assert_eq!(
            (found.severity, found.title.as_str()),
            (Severity::Note, "2 of 3 queues of veth1 have no RPS mask")
        );
        let quiet =
            host(&["0-1", "", ""], "0-1").set(|settings| settings.nohz_full = Fact::Known(cpus("2-7")));
        let found = quiet.receives(5, 0.2, 1.2e4).finding(&RULE);
        assert_eq!(found.severity, Severity::Warning);
        assert_eq!(
            found.seen(),
            [
                "net.core.rps_default_mask is 0-1",
                "veth1: 20,000 packets/s, no mask on 2 of 3 queues",
                "CPU 5 should take no receive work: 12,000 packets/s",
            ]
        );
    }

    #[test]
    fn near_misses() {
        host(&["0-1", "", ""], "").silent(&RULE, "no default");
        host(&["0-1", "0-1"], "0-1").silent(&RULE, "all have one");
        host(&["", ""], "0-1").silent(&RULE, "none has one");
        host(&["0-1", ""], "0-1").traffic("veth1", 50.0).silent(&RULE, "quiet");
    }
}
