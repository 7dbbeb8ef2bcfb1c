//! A CPU drowns in softirqs that the packets arriving there do not account for.

use super::elsewhere::{FEW, bringing, is_elsewhere, storm};
use super::figures::{Evidence, Subject};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::DROWNING;
use rxlab_path::evidence::{TRAFFIC, in_softirq, queue_packets};
use rxlab_path::model::{CpuRates, Model, Rates};

/// Runs/s from which a vector is named; the tick alone causes 100 to 1000 of `TIMER` and `RCU`.
const NAMED: f64 = 1.0;

/// The purposes of the vectors (`include/linux/interrupt.h`).
const PURPOSES: [(&str, &str); 9] = [
    ("HI", "high-priority tasklets"),
    ("TIMER", "kernel timers"),
    ("NET_TX", "packets to send"),
    ("BLOCK", "completed disk requests"),
    ("IRQ_POLL", "polled disks"),
    ("TASKLET", "tasklets, mostly of drivers"),
    ("SCHED", "load balancing"),
    ("HRTIMER", "high-resolution timers"),
    ("RCU", "memory to free after RCU"),
];

pub(super) const RULE: Rule = Rule {
    id: "softirq-not-receive",
    asks: "Is a CPU full of softirqs that are not for received packets?",
    fires: || {
        format!(
            "softirqs, or ksoftirqd, take {} of a CPU's time, and either it has fewer than {} packets/s and \
             NET_RX runs/s and no queue with {} packets/s may bring any, or softirqs of disks, or more of timers or \
             RCU than the tick causes (1,000/s), run more often than NET_RX and the packets do not account for half \
             of the time (counted as 100 us each; in a storm of timers or RCU, as at most 10 us where these run three \
             times per packet, and as at most twice the cost of a packet on the other CPUs)",
            percent(DROWNING),
            count(FEW),
            count(TRAFFIC)
        )
    },
    silent: "packets that arrive there, or may by an interrupt or RPS, can account for it \
             (one-core-hotspot), or packets are not counted by CPU",
    evidence: "the CPU's time in softirqs and ksoftirqd, its packets and NET_RX runs, the other softirqs \
               that run most often there, other CPUs like it",
    cause: "Softirqs also complete disk requests, run timers and tasklets, and free memory after RCU. In \
            top, a CPU full of these looks the same as one full of packets.",
    remedy: "No setting of the receive path reduces it; move a queue's interrupt elsewhere. `rxlab trace \
             --out FILE` shows each softirq with name and duration, `rxlab interference` the programs that lose \
             time to it.",
    source: "include/linux/interrupt.h, kernel/softirq.c (the vectors); /proc/softirqs in proc(5)",
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let elsewhere = |cpu: &&CpuRates| in_softirq(cpu) >= DROWNING && is_elsewhere(model, rates, cpu);
    let mut found: Vec<&CpuRates> = rates.cpus.iter().filter(elsewhere).collect();
    found.sort_by(|a, b| in_softirq(b).total_cmp(&in_softirq(a)));
    let Some((cpu, others)) = found.split_first() else { return Vec::new() };
    let id = cpu.cpu;
    let vectors = vectors(cpu);
    let mut evidence = vec![
        Evidence::about(Subject::Cpu(id), |seen| {
            format!(
                "CPU {id}: {} of its time in softirqs ({}), ksoftirqd/{id} ran {}",
                seen.percent("softirq", cpu.softirq),
                seen.tier(rates),
                seen.percent("ksoftirqd", cpu.ksoftirqd)
            )
        }),
        Evidence::about(Subject::Cpu(id), |seen| {
            let (packets, runs) = (seen.packets("packets", cpu.packets), seen.rate("net_rx", cpu.net_rx));
            format!("{packets} packets/s and {runs} NET_RX runs/s there")
        }),
    ];
    evidence.extend(frequent(cpu));
    if !others.is_empty() {
        let like: CpuMask = others.iter().map(|cpu| cpu.cpu).collect();
        let text = format!("the same on {}", cpus_text(&like));
        evidence.push(Evidence::fact(Subject::Cpus(like), text));
    }
    vec![Finding {
        severity: Severity::Warning,
        cpu: Some(id),
        title: format!("softirqs take {} of CPU {id}, mostly not receive work", percent(in_softirq(cpu))),
        evidence,
        why: why(cpu, vectors.first().map(|(name, _)| *name)),
        remedy: remedy(model, rates, cpu),
        inspect: Some(format!("rxlab trace --cpu {id} --out trace.json")),
        ..RULE.finding()
    }]
}

/// The remedy: a NIC's interrupt need not wait behind that work.
fn remedy(model: &Model, rates: &Rates, cpu: &CpuRates) -> String {
    let is_rcu = storm(cpu).is_some_and(|(vector, _)| vector == "RCU");
    let cpu = cpu.cpu;
    let look = format!("`rxlab trace --cpu {cpu} --out FILE` shows each softirq with name and duration");
    let look = if is_rcu {
        format!("rcu_nocbs={cpu} at boot moves RCU's callbacks into threads; {look}")
    } else {
        look
    };
    let mut queues = bringing(model, rates, cpu);
    match queues.find(|(nic, queue)| queue_packets(nic, queue, rates) >= TRAFFIC) {
        Some((nic, queue)) => {
            format!("keep {}/rx-{} off CPU {cpu}; {look}", nic.name, queue.index)
        }
        None => format!("nothing to tune on the receive path; {look}"),
    }
}

/// Evidence: the softirqs other than NET_RX that run most often on a CPU, if any does.
pub(super) fn frequent(cpu: &CpuRates) -> Option<Evidence> {
    let vectors = vectors(cpu);
    (!vectors.is_empty()).then(|| {
        Evidence::about(Subject::Cpu(cpu.cpu), |seen| {
            let named =
                vectors.iter().take(3).map(|(name, rate)| format!("{name} {}", seen.rate(name, *rate)));
            format!("other softirqs on CPU {}, runs/s: {}", cpu.cpu, named.collect::<Vec<_>>().join(", "))
        })
    })
}

/// The vectors other than NET_RX that run there, most frequent first.
fn vectors(cpu: &CpuRates) -> Vec<(&str, f64)> {
    let others = cpu.other_softirqs.iter().map(|(name, rate)| (name.as_str(), *rate));
    let mut vectors: Vec<(&str, f64)> = others.chain([("NET_TX", cpu.net_tx)]).collect();
    vectors.retain(|(_, rate)| *rate >= NAMED);
    vectors.sort_by(|a, b| b.1.total_cmp(&a.1));
    vectors
}

fn why(cpu: &CpuRates, most: Option<&str>) -> String {
    let Some((name, purpose)) = most.and_then(|most| PURPOSES.iter().find(|(name, _)| *name == most)) else {
        return "most of it is not receive work".to_owned();
    };
    match storm(cpu).filter(|(vector, _)| vector == name) {
        Some((_, runs)) => format!(
            "a storm of {name} softirqs ({purpose}): {} runs/s, where the tick causes at most 1,000; most of it is \
             not receive work",
            count(runs)
        ),
        None => format!(
            "most of it is not receive work; {name} ({purpose}) runs most often, though not necessarily longest"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// A host of disks, whose requests end on one CPU; the network's interrupt is on another.
    fn disks(softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).receives(2, 0.1, 4e4);
        let sketch = sketch.receives(5, softirq, 40.0).ksoftirqd(5, 0.6);
        sketch.softirqs(5, "TIMER", 250.0).softirqs(5, "BLOCK", 41_000.0).softirqs(5, "HI", 0.2)
    }

    #[test]
    fn disks_are_no_packets() {
        let found = disks(0.93).finding(&RULE);
        assert_eq!(found.title, "softirqs take 93 % of CPU 5, mostly not receive work");
        assert_eq!(
            found.seen(),
            [
                "CPU 5: 93 % of its time in softirqs (rough: timer ticks), ksoftirqd/5 ran 60 %",
                "40 packets/s and 40 NET_RX runs/s there",
                "other softirqs on CPU 5, runs/s: BLOCK 41,000, TIMER 250",
            ]
        );
        assert!(found.why.contains("BLOCK (completed disk requests)"), "{found:?}");
        disks(0.75).silent(&RULE, "some room is left");
        let found = disks(0.93).receives(6, 0.85, 0.0).receives(7, 0.81, 0.0).finding(&RULE);
        assert_eq!(found.seen()[3], "the same on CPUs 6-7");
    }

    /// Ticks miss what runs between them; the thread's own time does not.
    #[test]
    fn its_ksoftirqd_drowns() {
        let found = disks(0.3).ksoftirqd(5, 0.9).finding(&RULE);
        assert_eq!(
            found.seen()[0],
            "CPU 5: 30 % of its time in softirqs (rough: timer ticks), ksoftirqd/5 ran 90 %"
        );
        let found = disks(0.93).measured(|rates| rates.cpus[5].other_softirqs.clear()).finding(&RULE);
        assert_eq!((found.evidence.len(), found.why.as_str()), (2, "most of it is not receive work"));
    }

    #[test]
    fn a_storm_is_named() {
        let storm = |vector: &str| {
            let host = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).receives(2, 0.1, 4e4);
            host.receives(5, 0.93, 3e3).softirqs(5, vector, 4e4).finding(&RULE)
        };
        let rcu = storm("RCU");
        assert!(
            rcu.why.starts_with("a storm of RCU softirqs (memory to free after RCU): 40,000 runs/s"),
            "{rcu:?}"
        );
        assert!(rcu.remedy.contains("rcu_nocbs=5 at boot"), "{rcu:?}");
        let timer = storm("TIMER");
        assert!(
            timer.why.starts_with("a storm of TIMER softirqs (kernel timers): 40,000 runs/s"),
            "{timer:?}"
        );
        assert!(!timer.remedy.contains("rcu_nocbs"), "{timer:?}");
    }

    #[test]
    fn a_queue_there_is_better_off_elsewhere() {
        let found =
            disks(0.93).device("eth1", &[5]).traffic("eth1", 2e3).receives(5, 0.93, 2e3).finding(&RULE);
        assert!(found.remedy.starts_with("keep eth1/rx-0 off CPU 5; `rxlab trace --cpu 5"), "{found:?}");
        assert!(disks(0.93).finding(&RULE).remedy.starts_with("nothing to tune on the receive path; "));
    }

    #[test]
    fn what_may_be_packets_is_not_said_to_be_none() {
        assert_eq!(disks(0.93).receives(5, 0.93, 5e4).findings(&RULE), []);
        // Behind RPS the CPU of the interrupt counts few packets and few, long runs.
        let behind = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e5).rps("eth0", "0-1,3-7");
        assert_eq!(behind.receives(2, 0.95, 0.0).net_rx(2, 300.0).findings(&RULE), []);
        // The packets of `lo` are counted where they are received, which is elsewhere.
        assert_eq!(disks(0.93).traffic("eth0", 10.0).loopback().traffic("lo", 3e5).findings(&RULE).len(), 1);
    }
}
