//! RPS hands packets to the other hyper-thread of the core that handles the interrupt, at a rate at which
//! that core has no time for both.

use super::figures::Evidence;
use super::places::{Loaded, loaded_of, same_on, worst};
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{SUBSTANTIAL, irq_cpus};
use rxlab_path::model::{Model, Nic, Rates};

/// Packets/s of one queue from which its core is interrupted all the time: one packet in 20 us.
const HIGH_RATE: f64 = 50_000.0;

/// Receive time of the interrupt's CPU that counts as a high rate, whatever the packets cost.
const HIGH_LOAD: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "rps-mask-contains-irq-sibling",
    asks: "Does RPS use the other hyper-thread of a core that is busy with the queue's interrupt?",
    fires: || {
        format!(
            "the RPS mask of a queue contains a hyper-thread of its interrupt's core, but not the \
             interrupt's CPU, and CPUs of other cores; the queue has {} packets/s and its CPU spends {} of \
             its time in interrupts and softirq, or {} at any packet rate",
            count(HIGH_RATE),
            percent(SUBSTANTIAL),
            percent(HIGH_LOAD)
        )
    },
    silent: "the rate is low, the mask has no other core, the interrupt's CPU itself is in the mask \
             (rps-mask-contains-irq-cpu), hyper-threads are unknown, or the packets there may come from \
             `lo`",
    evidence: "the queue's traffic, interrupt and its time in interrupts and softirq, the mask and the \
               hyper-threads in it",
    cause: "Hyper-threads share a core's execution units and L1 caches: stack work on one slows down the \
            polling of the queue on the other.",
    remedy: "Remove the hyper-threads of the interrupt's core from the mask.",
    source: "Documentation/networking/scaling.rst (RPS: at a high rate it may be wise to leave out the \
             interrupt's CPU; RSS: hyper-threads have shown no benefit). Leaving out the other thread from \
             RPS is inferred from these two",
    check: Check::Nic(of_nic),
};

/// One finding per interface, for its busiest such queue: the remedy is the same for all.
fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let queues = loaded_of(model, rates, nic);
    let caught = queues.iter().filter_map(|queue| Some((queue, shared(model, rates, queue)?)));
    let caught: Vec<(&Loaded<'_>, CpuMask)> = caught.collect();
    let (queue, threads) = worst(&caught)?;
    let (name, mask) = (queue.name(), queue.mask()?);
    let mut evidence = vec![
        queue.evidence(rates),
        Evidence::fact(
            queue.subject(),
            format!("{name}: RPS {mask}; the core of CPU {} also has {}", queue.cpu, cpus_text(threads)),
        ),
    ];
    evidence.extend(same_on(caught.len(), nic));
    Some(Finding {
        severity: Severity::Warning,
        cpu: Some(queue.cpu),
        title: format!("RPS of {name} uses the core of its interrupt, CPU {}", queue.cpu),
        evidence,
        why: "hyper-threads share a core: stack work on one slows down the polling on the other".to_owned(),
        remedy: format!("remove {} from the mask", cpus_text(threads)),
        plans: vec![PlanName::Rps],
        ..RULE.finding()
    })
}

/// True for a queue at a rate at which the core of its interrupt has no time for more.
pub(super) fn is_high(queue: &Loaded<'_>) -> bool {
    queue.load >= HIGH_LOAD || (queue.packets >= HIGH_RATE && queue.load >= SUBSTANTIAL)
}

/// The hyper-threads of the interrupt's core in the mask of a queue with a high rate.
fn shared(model: &Model, rates: &Rates, queue: &Loaded<'_>) -> Option<CpuMask> {
    let mask = queue.mask()?;
    let irq = irq_cpus(queue.queue, model, rates);
    let threads = model.siblings(&irq).intersection(mask);
    let other_cores = !mask.difference(&threads).is_empty();
    let alone = mask.intersection(&irq).is_empty();
    (is_high(queue) && alone && other_cores && !threads.is_empty()).then_some(threads)
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// CPUs 2 and 6 are of one core.
    fn host(mask: &str, packets: f64, softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).smt().device("eth0", &[2]).traffic("eth0", packets);
        sketch.receives(2, softirq, packets).rps("eth0", mask)
    }

    #[test]
    fn the_other_thread_at_a_high_rate() {
        let found = host("0-1,3-7", 9e4, 0.3).finding(&RULE);
        assert_eq!(found.title, "RPS of eth0/rx-0 uses the core of its interrupt, CPU 2");
        assert_eq!(found.seen()[1], "eth0/rx-0: RPS 0-1,3-7; the core of CPU 2 also has CPU 6");
        assert_eq!(host("0-1,3-7", 2e4, 0.6).findings(&RULE).len(), 1, "dear packets");
    }

    #[test]
    fn near_misses() {
        host("0-1,3-7", 2e4, 0.3).silent(&RULE, "a low rate");
        host("0-1,3-7", 9e4, 0.1).silent(&RULE, "time to spare");
        host("0-1,3-5,7", 9e4, 0.6).silent(&RULE, "not in the mask");
        host("6", 9e4, 0.6).silent(&RULE, "there is nothing else in it");
        host("0-7", 9e4, 0.6).silent(&RULE, "the interrupt's CPU is the worse one");
        let no_smt = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 9e4).receives(2, 0.6, 9e4);
        no_smt.rps("eth0", "0-1,3-7").silent(&RULE, "a thread a core");
    }
}
