//! irqbalance runs, and interrupts seem to be placed by hand, which irqbalance may undo.
//!
//! A pinned interrupt alone proves nothing: irqbalance pins too. But irqbalance does not set RPS, and does
//! not leave several busy queues of one device on one CPU while other CPUs have none.

use std::collections::BTreeSet;

use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, cpus_text};
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId};
use rxlab_path::evidence::{TRAFFIC, queue_packets};
use rxlab_path::model::{Irq, Irqbalance, Model, Nic, Rates};

/// Interrupts counted on a CPU from which the interrupt was there: a few may arrive late.
const SEEN: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    id: "irqbalance-fights-manual-affinity",
    asks: "Does irqbalance run while interrupts seem to be placed by hand?",
    fires: || {
        format!(
            "irqbalance runs, a device with {} packets/s has pinned receive interrupts that irqbalance does \
             not ban, and either RPS masks were chosen around them, or several of its queues with that much \
             traffic share a CPU while others have none, or an interrupt moved into the RPS mask of its \
             queue during the sample",
            count(TRAFFIC)
        )
    },
    silent: "the interrupts are pinned, or move, without another sign of manual placement (irqbalance does \
             that too), or they are banned in irqbalance, over its socket or on its command line, which then leaves them \
             alone; a policy script decides, and none moved during the sample",
    evidence: "the CPUs of the pinned interrupts, irqbalance's PID, the masks or queues that suggest \
               manual placement, the CPUs that counted an interrupt",
    cause: "irqbalance moves interrupts every ten seconds, unless they are banned.",
    remedy: "Ban these interrupts in irqbalance, or stop it, before placing them by hand.",
    source: "irqbalance(1)",
    check: Check::Device(finding),
};

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let Fact::Known(Some(irqbalance)) = &model.irqbalance else { return None };
    let moved = moved(rates, nic, irqbalance);
    let process = Subject::Process { pid: irqbalance.pid, command: "irqbalance".to_owned() };
    let mut evidence = vec![Evidence::fact(process, format!("irqbalance runs (PID {})", irqbalance.pid))];
    evidence.extend(moved.as_ref().map(|moved| moved.evidence.clone()));
    // A policy script may leave any interrupt alone: only a move shows that it does not.
    if moved.is_some() || irqbalance.policy_script().is_none() {
        evidence.extend(rps_around(model, nic, irqbalance));
        evidence.extend(crowded(model, rates, nic, irqbalance));
    }
    if evidence.len() == 1 || rates.nic(&nic.name)?.rx_packets < TRAFFIC {
        return None;
    }
    let name = &nic.name;
    Some(Finding {
        severity: if moved.is_some() { Severity::Warning } else { Severity::Note },
        cpu: moved.as_ref().map(|moved| moved.to),
        title: match &moved {
            Some(Moved { irq, from, to, .. }) => {
                format!("IRQ {irq} of {name} moved from CPU {from} to CPU {to} under irqbalance")
            }
            None => format!("irqbalance may undo the interrupt placement of {name}"),
        },
        evidence,
        why: "irqbalance moves interrupts every 10 s by default, even those placed by hand".to_owned(),
        remedy: "if they were placed by hand, ban them in irqbalance or stop it".to_owned(),
        ..RULE.finding()
    })
}

/// An interrupt that was counted on two CPUs.
struct Moved {
    irq: IrqId,
    from: CpuId,
    to: CpuId,
    evidence: Evidence,
}

/// The first interrupt of the device that moved into its queue's RPS mask during the sample. A move without a
/// mask is normal for irqbalance.
fn moved(rates: &Rates, nic: &Nic, irqbalance: &Irqbalance) -> Option<Moved> {
    let queues = nic.rx.iter().filter_map(|queue| Some((queue, queue.rps_cpus.known()?)));
    let pairs = queues.flat_map(|(queue, mask)| queue.irqs.iter().map(move |irq| (queue, mask, irq)));
    let mut free = pairs.filter(|(.., irq)| !irqbalance.leaves(irq.number, &irq.action));
    free.find_map(|(queue, mask, irq)| {
        // One CPU according to the kernel: if it spreads an interrupt over several, their counts show no
        // move.
        let to = irq.effective.known().filter(|cpus| cpus.len() == 1)?.first()?;
        let counted = &rates.irqs.iter().find(|rates| rates.irq == irq.number)?.per_cpu;
        let enough = |rate: f64| rate * rates.seconds >= SEEN;
        let elsewhere = counted.iter().filter(|(cpu, rate)| **cpu != to && enough(**rate));
        let (from, before) = elsewhere.max_by(|a, b| a.1.total_cmp(b.1))?;
        let after = counted.get(&to).copied().filter(|rate| enough(*rate))?;
        let spoils = mask.contains(to) && !mask.contains(*from);
        spoils.then(|| Moved {
            irq: irq.number,
            from: *from,
            to,
            evidence: Evidence::about(Subject::Irq(irq.number), |seen| {
                format!(
                    "IRQ {} of {}/rx-{}: {} interrupts/s on CPU {from}, then {} on CPU {to}, which is in its \
                     RPS mask {mask}",
                    irq.number,
                    nic.name,
                    queue.index,
                    seen.rate("interrupts_before", *before),
                    seen.rate("interrupts", after)
                )
            }),
        })
    })
}

/// The CPUs an interrupt is pinned to: its affinity, unless it has every online CPU.
fn pinned<'a>(model: &Model, irq: &'a Irq) -> Option<&'a CpuMask> {
    let online = model.online();
    irq.affinity.known().filter(|mask| !mask.is_empty() && !online.difference(mask).is_empty())
}

fn rps_around(model: &Model, nic: &Nic, irqbalance: &Irqbalance) -> Option<Evidence> {
    nic.rx.iter().find_map(|queue| {
        let mask = queue.rps_cpus.known().filter(|mask| !mask.is_empty())?;
        let mut free = queue.irqs.iter().filter(|irq| !irqbalance.leaves(irq.number, &irq.action));
        let irq = free.find(|irq| pinned(model, irq).is_some())?;
        let place = pinned(model, irq)?;
        let text = format!(
            "{}/rx-{}: RPS {mask} was chosen around IRQ {} on CPU {place}; a move into the mask would defeat it",
            nic.name, queue.index, irq.number
        );
        place.intersection(mask).is_empty().then(|| Evidence::fact(Subject::rx(nic, queue.index), text))
    })
}

fn crowded(model: &Model, rates: &Rates, nic: &Nic, irqbalance: &Irqbalance) -> Option<Evidence> {
    // irqbalance does not move idle queues.
    let busy = nic.rx.iter().filter(|queue| queue_packets(nic, queue, rates) >= TRAFFIC);
    let free = busy.flat_map(|queue| &queue.irqs).filter(|irq| !irqbalance.leaves(irq.number, &irq.action));
    let irqs: Vec<&CpuMask> = free.map(|irq| pinned(model, irq)).collect::<Option<_>>()?;
    let single: BTreeSet<CpuId> =
        irqs.iter().filter(|mask| mask.len() == 1).filter_map(|mask| mask.first()).collect();
    let all_single = irqs.iter().all(|mask| mask.len() == 1);
    let crowded = all_single && irqs.len() >= 2 && single.len() < irqs.len().min(model.online().len());
    crowded.then(|| {
        let cpus: CpuMask = single.into_iter().collect();
        Evidence::about(Subject::nic(nic), |seen| {
            format!(
                "{} busy RX interrupts of {} are pinned to {}, other CPUs have none",
                seen.count("pinned_interrupts", irqs.len()),
                nic.name,
                cpus_text(&cpus)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::parse::IrqbalanceArguments;
    use rxlab_base::units::{CpuId, IrqId, Need};
    use rxlab_path::model::Fact;

    fn evidence(sketch: Sketch) -> Vec<String> {
        sketch
            .findings(&RULE)
            .into_iter()
            .flat_map(|finding| finding.evidence)
            .map(|seen| seen.text)
            .collect()
    }

    fn host(irqs: &[u32]) -> Sketch {
        Sketch::new(8).device("eth0", irqs).traffic("eth0", 4e4)
    }

    #[test]
    fn rps_chosen_around_a_pinned_interrupt() {
        let found = evidence(host(&[2]).rps("eth0", "0-1,3-7").irqbalance());
        assert_eq!(found[0], "irqbalance runs (PID 700)");
        assert!(
            found[1].starts_with("eth0/rx-0: RPS 0-1,3-7 was chosen around IRQ 41 on CPU 2"),
            "{found:?}"
        );
    }

    /// Field case B: 8 queues pinned to CPUs 6 and 7.
    #[test]
    fn queues_crowded_on_few_cpus() {
        let found = evidence(host(&[6, 7, 6, 7, 6, 7, 6, 7]).irqbalance());
        assert_eq!(found[1], "8 busy RX interrupts of eth0 are pinned to CPUs 6-7, other CPUs have none");
    }

    /// The interrupt was on CPU 2 and is on CPU 5 now.
    fn moving(mask: &str, before: f64) -> Sketch {
        host(&[5]).rps("eth0", mask).irqbalance().measured(|rates| {
            rates.irqs[0].per_cpu.insert(CpuId(2), before);
        })
    }

    #[test]
    fn an_interrupt_is_seen_moving_into_the_mask() {
        let found = moving("0-1,3-7", 30.0).finding(&RULE);
        assert_eq!(found.title, "IRQ 41 of eth0 moved from CPU 2 to CPU 5 under irqbalance");
        assert_eq!(
            found.seen()[1],
            "IRQ 41 of eth0/rx-0: 30 interrupts/s on CPU 2, then 50 on CPU 5, which is in its RPS mask 0-1,3-7"
        );
        assert_eq!(found.severity, crate::diagnose::Severity::Warning);
    }

    #[test]
    fn near_misses_of_a_move() {
        moving("0-7", 30.0).silent(&RULE, "every CPU is in the mask");
        moving("", 30.0).silent(&RULE, "normal for irqbalance");
        moving("0-1,3-7", 1.0).silent(&RULE, "a late one");
        let unknown =
            moving("0-1,3-7", 30.0).edit("eth0", |nic| nic.rx[0].irqs[0].effective = Fact::Unsupported);
        unknown.silent(&RULE, "it may be spread over several");
    }

    #[test]
    fn banned_interrupts_are_left_alone() {
        let banned = |numbers: &[u32]| {
            let sketch = host(&[6, 6]).rps("eth0", "0-5").irqbalance().tune(|model| {
                let Fact::Known(Some(irqbalance)) = &mut model.irqbalance else { unreachable!("it runs") };
                irqbalance.banned_irqs = Fact::Known(numbers.iter().copied().map(IrqId).collect());
            });
            sketch.findings(&RULE).len()
        };
        assert_eq!((banned(&[]), banned(&[41]), banned(&[41, 42])), (1, 1, 0));
    }

    /// Without root, the socket says nothing, and anyone can read the command line.
    #[test]
    fn the_command_line_bans_too() {
        let started = |sketch: Sketch, arguments: IrqbalanceArguments| {
            sketch.tune(move |model| {
                let Fact::Known(Some(irqbalance)) = &mut model.irqbalance else { unreachable!("it runs") };
                irqbalance.banned_irqs = Fact::Denied(Need::Root);
                irqbalance.arguments = Fact::Known(arguments);
            })
        };
        let masked = || host(&[6, 6]).rps("eth0", "0-5").irqbalance();
        let banned_irqs = vec![IrqId(41), IrqId(42)];
        let banned = IrqbalanceArguments { banned_irqs, ..IrqbalanceArguments::default() };
        started(masked(), banned).silent(&RULE, "both are banned");
        let named =
            IrqbalanceArguments { banned_names: vec!["eth0".to_owned()], ..IrqbalanceArguments::default() };
        started(masked(), named).silent(&RULE, "by name");
        let script =
            || IrqbalanceArguments { policy_script: Some("/x".to_owned()), ..IrqbalanceArguments::default() };
        started(masked(), script()).silent(&RULE, "the script may leave them alone");
        assert_eq!(started(moving("0-1,3-7", 30.0), script()).findings(&RULE).len(), 1, "it moved");
    }

    #[test]
    fn near_misses() {
        let masked = || host(&[2]).rps("eth0", "0-1,3-7");
        masked().silent(&RULE, "irqbalance does not run");
        let unknown = masked().tune(|model| model.irqbalance = Fact::Denied(Need::AllProcesses));
        unknown.silent(&RULE, "it is not known to run");
        host(&[2]).irqbalance().silent(&RULE, "pinned, as irqbalance does itself");
        host(&[0, 1, 2, 3, 4, 5, 6, 7]).irqbalance().silent(&RULE, "one CPU each, as irqbalance does");
        masked().traffic("eth0", 10.0).irqbalance().silent(&RULE, "quiet");
        let idle = host(&[6, 6, 7]).queue_traffic("eth0", &[4e4, 9.0, 2e4]).irqbalance();
        idle.silent(&RULE, "an idle queue may be anywhere");
        let free = masked().irqbalance().tune(|model| {
            model.nics[0].rx[0].irqs[0].affinity = Fact::Known(model.online());
        });
        free.silent(&RULE, "not pinned");
    }
}
