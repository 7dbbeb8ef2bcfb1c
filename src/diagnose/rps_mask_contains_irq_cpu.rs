//! The CPU that takes a queue's interrupt is also in the queue's RPS mask, and is busy.

use super::evidence::{TRAFFIC, irq_cpus, loopback_share, queue_packets, receive_time, tier};
use super::figures::{count, percent};
use super::places::receive_work;
use super::{Finding, Rule, Severity};
use crate::model::{Model, NicKind, Rates};

/// Receive time of the interrupt's CPU from which its part of the RPS work is better done
/// elsewhere. Field case C: 32 of 32 CPUs gave 250k requests/s, 7 without the interrupt's CPU 670k.
const BUSY: f64 = 0.25;

pub(super) const RULE: Rule = Rule {
    id: "rps-mask-contains-irq-cpu",
    asks: "Does RPS hand packets back to the CPU that already takes the interrupt?",
    fires: || {
        format!(
            "the RPS mask of a queue with {} packets/s holds other CPUs and the CPU of its interrupt, which spends \
             {} of its time in softirq",
            count(TRAFFIC),
            percent(BUSY)
        )
    },
    silent: "that CPU has time to spare, no other CPU is in the mask, or most packets are on `lo`",
    evidence: "the mask, the CPU of the interrupt and its softirq time, packets a second of the queue",
    cause: "The CPU that polls the queue and hands packets over also gets its part of them back.",
    remedy: "Take the interrupt's CPU out of the mask.",
    source: "Documentation/networking/scaling.rst (RPS: Suggested Configuration); field case C",
    check,
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    if loopback_share(model, rates).is_some() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for nic in model.nics.iter().filter(|nic| nic.kind == NicKind::Device) {
        // One finding an interface, for its busiest such queue: the remedy is the same for all.
        let caught = nic.rx.iter().filter_map(|queue| {
            let mask = queue.rps_cpus.known()?;
            let both = mask.intersection(&irq_cpus(queue, model, rates));
            let packets = queue_packets(nic, queue, rates);
            let load = |cpu| receive_work(rates, cpu, packets);
            let cpu = both.iter().max_by(|a, b| load(*a).total_cmp(&load(*b)))?;
            let matters = packets >= TRAFFIC && load(cpu) >= BUSY && mask.len() > both.len();
            let time = rates.cpu(cpu).map_or(0.0, receive_time);
            matters.then_some((queue, mask, cpu, time, packets))
        });
        let caught: Vec<_> = caught.collect();
        let Some((queue, mask, cpu, time, packets)) =
            caught.iter().rev().max_by(|a, b| a.3.total_cmp(&b.3)).copied()
        else {
            continue;
        };
        let name = &nic.name;
        let mut evidence = vec![
            format!(
                "{name}/rx-{}: {} packets/s, RPS {mask}, interrupt on CPU {cpu}",
                queue.index,
                count(packets)
            ),
            format!("CPU {cpu}: {} of its time in softirq; {}", percent(time), tier(rates)),
        ];
        if caught.len() > 1 {
            evidence.push(format!("the same on {} of {} queues", caught.len(), nic.rx.len()));
        }
        findings.push(Finding {
            id: RULE.id.to_owned(),
            severity: Severity::Warning,
            nic: Some(name.clone()),
            cpu: Some(cpu),
            title: format!("CPU {cpu} takes the interrupt of {name}/rx-{} and its RPS work too", queue.index),
            evidence,
            why: "the interrupt's CPU must take every packet off the queue first; stack work on top makes it the \
                  bottleneck"
                .to_owned(),
            remedy: format!("take CPU {cpu} out of the mask"),
            plans: vec!["rps".to_owned()],
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::diagnose::sketch::Sketch;

    fn host(mask: &str, softirq: f64) -> Sketch {
        Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).receives(2, softirq, 5e3).rps("eth0", mask)
    }

    fn titles(sketch: Sketch) -> Vec<String> {
        let (model, rates) = sketch.build();
        check(&model, &rates).into_iter().map(|finding| finding.title).collect()
    }

    #[test]
    fn field_case_a_as_it_was_kept() {
        assert_eq!(
            titles(host("0-7", 0.49)),
            ["CPU 2 takes the interrupt of eth0/rx-0 and its RPS work too"]
        );
    }

    #[test]
    fn near_misses() {
        assert!(titles(host("0-1,3-7", 0.49)).is_empty(), "not in the mask");
        assert!(titles(host("0-7", 0.1)).is_empty(), "time to spare");
        assert!(titles(host("2", 0.49)).is_empty(), "nothing else in the mask");
        let disk = host("0-7", 0.49).traffic("eth0", 1_200.0).receives(2, 0.49, 150.0);
        assert!(titles(disk).is_empty(), "1,200 packets/s do not take that long: it is a disk");
        assert!(titles(host("0-7", 0.49).traffic("eth0", 100.0)).is_empty(), "no traffic");
    }

    #[test]
    fn many_queues_make_one_finding() {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).traffic("eth0", 4e4).rps("eth0", "0-7");
        let (model, rates) = sketch.receives(2, 0.3, 5e3).receives(3, 0.5, 5e3).build();
        let found = check(&model, &rates);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cpu, Some(crate::units::CpuId(3)));
        assert_eq!(found[0].evidence[2], "the same on 2 of 2 queues");
    }
}
