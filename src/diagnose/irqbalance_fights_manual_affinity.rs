//! irqbalance runs, and the placement of interrupts looks like somebody's own work, which
//! irqbalance may undo.
//!
//! A pinned interrupt alone proves nothing: irqbalance pins too. What it does not do is set RPS, or
//! leave several busy queues of one device on one CPU while other CPUs have none.

use std::collections::BTreeSet;

use super::evidence::TRAFFIC;
use super::figures::count;
use super::{Finding, Rule, Severity};
use crate::model::{Irq, Model, Nic, NicKind, Rates};
use crate::units::{CpuId, CpuMask, Fact};

pub(super) const RULE: Rule = Rule {
    id: "irqbalance-fights-manual-affinity",
    asks: "Does irqbalance run while interrupts seem to be placed by hand?",
    fires: || {
        format!(
            "irqbalance runs, a device with {} packets/s has pinned receive interrupts, and either RPS masks were \
             chosen around them or several of its queues share a CPU while others have none",
            count(TRAFFIC)
        )
    },
    silent: "the interrupts are pinned but nothing else shows a hand: irqbalance pins them too",
    evidence: "where the interrupts are pinned, irqbalance and its process id, the masks or queues that show a hand",
    cause: "irqbalance places interrupts anew every ten seconds, unless they are banned.",
    remedy: "Ban these interrupts in irqbalance, or stop it, before placing them by hand.",
    source: "irqbalance(1); field case B",
    check,
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Fact::Known(Some(irqbalance)) = &model.irqbalance else { return Vec::new() };
    let carries = |nic: &&Nic| {
        nic.kind == NicKind::Device && rates.nic(&nic.name).is_some_and(|nic| nic.rx_packets >= TRAFFIC)
    };
    let mut findings = Vec::new();
    for nic in model.nics.iter().filter(carries) {
        let mut evidence = vec![format!("irqbalance runs (pid {})", irqbalance.pid)];
        evidence.extend(rps_around(model, nic));
        evidence.extend(crowded(model, nic));
        if evidence.len() == 1 {
            continue;
        }
        findings.push(Finding {
            id: RULE.id.to_owned(),
            severity: Severity::Note,
            nic: Some(nic.name.clone()),
            cpu: None,
            title: format!("irqbalance may undo the interrupt placement of {}", nic.name),
            evidence,
            why: "irqbalance moves interrupts by its own measure, every 10 s by default, whoever placed them"
                .to_owned(),
            remedy: "if they were placed by hand, ban these interrupts in irqbalance or stop it".to_owned(),
            plans: Vec::new(),
        });
    }
    findings
}

/// Where an interrupt is pinned: its affinity, when that is not every online CPU.
fn pinned<'a>(model: &Model, irq: &'a Irq) -> Option<&'a CpuMask> {
    let online = model.online();
    irq.affinity.known().filter(|mask| !mask.is_empty() && !online.difference(mask).is_empty())
}

fn rps_around(model: &Model, nic: &Nic) -> Option<String> {
    nic.rx.iter().find_map(|queue| {
        let mask = queue.rps_cpus.known().filter(|mask| !mask.is_empty())?;
        let irq = queue.irqs.iter().find(|irq| pinned(model, irq).is_some())?;
        let place = pinned(model, irq)?;
        place.intersection(mask).is_empty().then(|| {
            format!(
                "{}/rx-{}: RPS {mask} was chosen around IRQ {} on CPU {place}; moved into the mask it would spoil it",
                nic.name, queue.index, irq.number
            )
        })
    })
}

fn crowded(model: &Model, nic: &Nic) -> Option<String> {
    let irqs: Vec<&CpuMask> =
        nic.rx.iter().flat_map(|queue| &queue.irqs).map(|irq| pinned(model, irq)).collect::<Option<_>>()?;
    let single: BTreeSet<CpuId> =
        irqs.iter().filter(|mask| mask.len() == 1).filter_map(|mask| mask.first()).collect();
    let all_single = irqs.iter().all(|mask| mask.len() == 1);
    let crowded = all_single && irqs.len() >= 2 && single.len() < irqs.len().min(model.online().len());
    crowded.then(|| {
        let cpus: CpuMask = single.into_iter().collect();
        format!("{} RX interrupts of {} pinned to CPU {cpus}, other CPUs have none", irqs.len(), nic.name)
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::diagnose::sketch::Sketch;
    use crate::model::Fact;
    use crate::units::Need;

    fn evidence(sketch: Sketch) -> Vec<String> {
        let (model, rates) = sketch.build();
        check(&model, &rates).into_iter().flat_map(|finding| finding.evidence).collect()
    }

    fn host(irqs: &[u32]) -> Sketch {
        Sketch::new(8).device("eth0", irqs).traffic("eth0", 4e4)
    }

    #[test]
    fn rps_chosen_around_a_pinned_interrupt() {
        let found = evidence(host(&[2]).rps("eth0", "0-1,3-7").irqbalance());
        assert_eq!(found[0], "irqbalance runs (pid 700)");
        assert!(
            found[1].starts_with("eth0/rx-0: RPS 0-1,3-7 was chosen around IRQ 41 on CPU 2"),
            "{found:?}"
        );
    }

    /// Field case B: 8 queues pinned to CPUs 6 and 7.
    #[test]
    fn queues_crowded_on_few_cpus() {
        let found = evidence(host(&[6, 7, 6, 7, 6, 7, 6, 7]).irqbalance());
        assert_eq!(found[1], "8 RX interrupts of eth0 pinned to CPU 6-7, other CPUs have none");
    }

    #[test]
    fn near_misses() {
        let silent = |sketch| assert_eq!(evidence(sketch), Vec::<String>::new());
        silent(host(&[2]).rps("eth0", "0-1,3-7")); // irqbalance does not run
        let (mut model, rates) = host(&[2]).rps("eth0", "0-1,3-7").build();
        model.irqbalance = Fact::Denied(Need::AllProcesses);
        assert_eq!(check(&model, &rates), [], "it is not known to run");
        silent(host(&[2]).irqbalance()); // pinned, as irqbalance does itself
        silent(host(&[0, 1, 2, 3, 4, 5, 6, 7]).irqbalance()); // one CPU each, as irqbalance does
        silent(host(&[2]).rps("eth0", "0-1,3-7").traffic("eth0", 10.0).irqbalance()); // quiet
        let (mut model, rates) = host(&[2]).rps("eth0", "0-1,3-7").irqbalance().build();
        model.nics[0].rx[0].irqs[0].affinity = Fact::Known(model.online());
        assert_eq!(check(&model, &rates), [], "not pinned");
    }
}
