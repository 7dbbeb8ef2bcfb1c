//! The CPU that handles a queue's interrupt is also in the queue's RPS mask, and is busy.
//!
//! Field case C: 250k requests/s on all 32 CPUs, 670k on 7 without the interrupt's CPU.

use super::figures::{Evidence, Subject};
use super::places::{mean, receive_work, same_on};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{SUBSTANTIAL, TRAFFIC, baseline, irq_cpus, may_be_lo, queue_packets, receiving};
use rxlab_path::model::{Model, Nic, Rates};

/// Receive time of that CPU relative to the mean of the mask's others: field case A kept 1.7 (48.5 to 28 %).
/// A CPU that is no busier than they are has room for its part.
const MIN_RATIO: f64 = 1.2;

/// CPUs that the mask must keep: one alone would be the next hotspot.
const LEFT: usize = 2;

pub(super) const RULE: Rule = Rule {
    id: "rps-mask-contains-irq-cpu",
    asks: "Does RPS hand packets back to the CPU that already handles the interrupt?",
    fires: || {
        format!(
            "the RPS mask of a queue with {} packets/s contains the CPU of its interrupt and at least {LEFT} \
             others, and that CPU spends {} of its time in interrupts and softirq, {MIN_RATIO} times the mean of \
             the others",
            count(TRAFFIC),
            percent(SUBSTANTIAL)
        )
    },
    silent: "that CPU has time to spare or is no busier with it than the others, too few CPUs would be left \
             in the mask, or the packets there may come from `lo`",
    evidence: "the mask, the CPU of the interrupt, its time in interrupts and softirq and the mean of the \
               others, the queue's packets/s",
    cause: "The CPU that polls the queue and hands packets over also gets a part of them back.",
    remedy: "Remove the interrupt's CPU from the mask.",
    source: "Documentation/networking/scaling.rst (RPS: Suggested Configuration)",
    check: Check::Device(finding),
};

/// One finding per interface, for its busiest such queue: the remedy is the same for all.
fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let base = baseline(model, rates);
    let caught = nic.rx.iter().filter_map(|queue| {
        let mask = queue.rps_cpus.known()?;
        let both = mask.intersection(&irq_cpus(queue, model, rates));
        let packets = queue_packets(nic, queue, rates);
        let load = |cpu| receive_work(rates, base, cpu, packets);
        let cpu = both.iter().max_by(|a, b| load(*a).total_cmp(&load(*b)))?;
        let time = rates.cpu(cpu).map_or(0.0, receiving);
        let rest = mask.difference(&both);
        let most = time >= MIN_RATIO * mean(rates, &rest, receiving) && rest.len() >= LEFT;
        let matters = packets >= TRAFFIC && load(cpu) >= SUBSTANTIAL && most && !may_be_lo(model, rates, cpu);
        matters.then_some((queue, mask, cpu, time, packets))
    });
    let caught: Vec<_> = caught.collect();
    let worst = caught.iter().rev().max_by(|a, b| a.3.total_cmp(&b.3));
    let (queue, mask, cpu, time, packets) = *worst?;
    let name = &nic.name;
    let cpus: CpuMask = caught.iter().map(|one| one.2).collect();
    let mut evidence = vec![
        Evidence::about(Subject::rx(nic, queue.index), |seen| {
            let packets = seen.packets("packets", packets);
            format!("{name}/rx-{}: {packets} packets/s, RPS {mask}, interrupt on CPU {cpu}", queue.index)
        }),
        Evidence::about(Subject::Cpu(cpu), |seen| {
            let others = mean(rates, &mask.difference(&irq_cpus(queue, model, rates)), receiving);
            format!(
                "CPU {cpu}: {} of its time in interrupts and softirq, others in the mask {} on average; {}",
                seen.percent("receiving", time),
                seen.percent("receiving_others", others),
                seen.tier(rates)
            )
        }),
    ];
    evidence.extend(same_on(caught.len(), nic));
    Some(Finding {
        severity: Severity::Warning,
        cpu: Some(cpu),
        title: match caught.len() {
            1 => format!("CPU {cpu} handles the interrupt of {name}/rx-{} and its RPS work", queue.index),
            _ => {
                let handle = if cpus.len() == 1 { "handles" } else { "each handle" };
                format!("{} {handle} interrupts of {name} and RPS work of the same queues", cpus_text(&cpus))
            }
        },
        evidence,
        why: "the interrupt's CPU must first take every packet off the queue; stack work on top makes it \
              the bottleneck"
            .to_owned(),
        remedy: format!("remove CPU {cpu} from the mask"),
        plans: vec![PlanName::Rps],
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    fn host(mask: &str, softirq: f64) -> Sketch {
        Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).receives(2, softirq, 5e3).rps("eth0", mask)
    }

    #[test]
    fn field_case_a_as_it_was_kept() {
        assert_eq!(
            host("0-7", 0.49).titles(&RULE),
            ["CPU 2 handles the interrupt of eth0/rx-0 and its RPS work"]
        );
    }

    /// It fired at 25 % and showed 5 %.
    #[test]
    fn hard_interrupts_are_in_the_figure_that_is_shown() {
        let seen = || host("0-7", 0.05).measured(|rates| rates.cpus[2].irq = 0.25);
        let found = seen().finding(&RULE);
        assert!(
            found.seen()[1].starts_with("CPU 2: 30 % of its time in interrupts and softirq"),
            "{found:?}"
        );
        let all = seen().each("0-1,3-7", |sketch, cpu| sketch.interrupted(cpu, 0.3));
        all.silent(&RULE, "the others have as much");
    }

    #[test]
    fn near_misses() {
        host("0-1,3-7", 0.49).silent(&RULE, "not in the mask");
        host("0-7", 0.1).silent(&RULE, "time to spare");
        host("2", 0.49).silent(&RULE, "nothing else in the mask");
        host("2-3", 0.49).silent(&RULE, "one would be left");
        let least = || host("0-7", 0.26).all_receive("0-1,3-7", 0.45, 5e3);
        least().silent(&RULE, "it has less to do than the others");
        assert_eq!(least().receives(2, 0.55, 5e3).titles(&RULE).len(), 1, "it has more");
        let disk = host("0-7", 0.49).traffic("eth0", 1_200.0).receives(2, 0.49, 150.0);
        disk.silent(&RULE, "1,200 packets/s cost less: it is a disk");
        host("0-7", 0.49).traffic("eth0", 100.0).silent(&RULE, "no traffic");
    }

    #[test]
    fn many_queues_make_one_finding() {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 4e4).rps("eth0", "0-7");
        let found = sketch.receives(2, 0.3, 5e3).receives(3, 0.5, 5e3).finding(&RULE);
        assert_eq!(found.cpu, Some(rxlab_base::units::CpuId(3)));
        assert_eq!(found.title, "CPUs 2-3 each handle interrupts of eth0 and RPS work of the same queues");
        assert_eq!(found.seen()[2], "the same on 2 of 2 queues");
    }
}
