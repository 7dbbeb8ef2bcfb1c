//! A CPU drowns in softirq, and what packets arrive there do not account for it: its time goes elsewhere.

use super::evidence::{TRAFFIC, irq_cpus, is_for_others, may_be_lo, queue_packets, tier};
use super::figures::{count, percent};
use super::{Finding, Rule, Severity};
use crate::model::{CpuRates, Model, Rates};
use crate::units::{CpuId, CpuMask};

/// Softirq time of a CPU that drowns.
const DROWNING: f64 = 0.8;

/// Packets, and NET_RX runs, a second below which hardly any of that time is theirs: at the dearest 100 us each,
/// 5 %.
const FEW: f64 = TRAFFIC / 2.0;

/// Runs a second from which a vector is worth its name; a tick alone makes 100 to 1000 of `TIMER` and `RCU`.
const NAMED: f64 = 1.0;

/// What the vectors are for (`include/linux/interrupt.h`).
const PURPOSES: [(&str, &str); 9] = [
    ("HI", "urgent tasklets"),
    ("TIMER", "kernel timers"),
    ("NET_TX", "packets to send"),
    ("BLOCK", "finished disk requests"),
    ("IRQ_POLL", "polled disks"),
    ("TASKLET", "tasklets of drivers"),
    ("SCHED", "balancing between CPUs"),
    ("HRTIMER", "timers of high resolution"),
    ("RCU", "memory to free after RCU"),
];

pub(super) const RULE: Rule = Rule {
    id: "softirq-not-receive",
    asks: "Does a CPU drown in softirqs that are not for received packets?",
    fires: || {
        format!(
            "softirqs, or ksoftirqd, take {} of a CPU's time, and either fewer than {} packets/s and NET_RX runs/s are \
             there and no interrupt of a queue with {} packets/s lands there, or softirqs of disks and drivers run more \
             often than NET_RX and the packets, at 100 us each, do not account for half of the time",
            percent(DROWNING),
            count(FEW),
            count(TRAFFIC)
        )
    },
    silent: "packets arrive there (one-core-hotspot), or those of `lo` may",
    evidence: "the CPU's time in softirqs and ksoftirqd, its packets and NET_RX runs, the other softirqs that run most \
               often there, other CPUs like it",
    cause: "Softirqs also finish disk requests, run timers and tasklets, and free memory after RCU. A CPU full of \
            these looks the same in top as one full of packets.",
    remedy: "None here: no setting of the receive path changes it. `rxlab trace --out FILE` shows each softirq by name \
             and length, `rxlab steal` whom it robs.",
    source: "include/linux/interrupt.h, kernel/softirq.c (the vectors); /proc/softirqs in proc(5)",
    check,
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let fed = fed(model, rates);
    let elsewhere = |cpu: &&CpuRates| {
        let hardly_any = cpu.packets.max(cpu.net_rx) < FEW && !fed.contains(cpu.cpu);
        in_softirq(cpu) >= DROWNING
            && (hardly_any || is_for_others(model, rates, cpu))
            && !may_be_lo(model, rates, cpu.cpu)
    };
    let mut found: Vec<&CpuRates> = rates.cpus.iter().filter(elsewhere).collect();
    found.sort_by(|a, b| in_softirq(b).total_cmp(&in_softirq(a)));
    let Some((cpu, others)) = found.split_first() else { return Vec::new() };
    let id = cpu.cpu;
    let vectors = vectors(cpu);
    let mut evidence = vec![
        format!(
            "CPU {id}: {} of its time in softirqs ({}), of which ksoftirqd/{id} {}",
            percent(cpu.softirq),
            tier(rates),
            percent(cpu.ksoftirqd)
        ),
        format!("{} packets/s and {} NET_RX runs/s there", count(cpu.packets), count(cpu.net_rx)),
    ];
    if !vectors.is_empty() {
        let named = vectors.iter().take(3).map(|(name, rate)| format!("{name} {}", count(*rate)));
        evidence.push(format!("other softirqs there, runs/s: {}", named.collect::<Vec<_>>().join(", ")));
    }
    if !others.is_empty() {
        let like: CpuMask = others.iter().map(|cpu| cpu.cpu).collect();
        evidence.push(format!("the same on CPU {like}"));
    }
    vec![Finding {
        id: RULE.id.to_owned(),
        severity: Severity::Warning,
        nic: None,
        cpu: Some(id),
        title: format!("softirqs take {} of CPU {id}, most not for packets", percent(in_softirq(cpu))),
        evidence,
        why: why(vectors.first().map(|(name, _)| *name)),
        remedy: format!(
            "nothing to tune here; `rxlab trace --cpu {id} --out FILE` shows each softirq by name and length"
        ),
        plans: Vec::new(),
    }]
}

/// Threads that poll queues are in neither: they receive packets.
fn in_softirq(cpu: &CpuRates) -> f64 {
    cpu.softirq.max(cpu.ksoftirqd).min(1.0)
}

/// The CPUs where the interrupt of a queue with traffic lands: behind RPS they count no packets of their own.
fn fed(model: &Model, rates: &Rates) -> CpuMask {
    let queues = model.nics.iter().flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let loaded = queues.filter(|(nic, queue)| queue_packets(nic, queue, rates) >= TRAFFIC);
    let cpus = loaded.flat_map(|(_, queue)| irq_cpus(queue, model, rates).iter().collect::<Vec<CpuId>>());
    cpus.collect()
}

/// The vectors that run there beside NET_RX, the most frequent first.
fn vectors(cpu: &CpuRates) -> Vec<(&str, f64)> {
    let others = cpu.other_softirqs.iter().map(|(name, rate)| (name.as_str(), *rate));
    let mut vectors: Vec<(&str, f64)> = others.chain([("NET_TX", cpu.net_tx)]).collect();
    vectors.retain(|(_, rate)| *rate >= NAMED);
    vectors.sort_by(|a, b| b.1.total_cmp(&a.1));
    vectors
}

fn why(most: Option<&str>) -> String {
    let purpose = most.and_then(|most| PURPOSES.iter().find(|(name, _)| *name == most));
    match purpose {
        Some((name, purpose)) => {
            format!(
                "the work is not of the receive path; {name} ({purpose}) runs most often, which does not say for how long"
            )
        }
        None => "the work is not of the receive path".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::diagnose::Finding;
    use crate::diagnose::sketch::Sketch;

    fn of(sketch: Sketch) -> Vec<Finding> {
        let (model, rates) = sketch.build();
        check(&model, &rates)
    }

    /// A host of disks, whose requests end on one CPU; the network's interrupt is on another.
    fn disks(softirq: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e4).receives(2, 0.1, 4e4);
        let sketch = sketch.receives(5, softirq, 40.0).ksoftirqd(5, 0.6);
        sketch.softirqs(5, "TIMER", 250.0).softirqs(5, "BLOCK", 41_000.0).softirqs(5, "HI", 0.2)
    }

    #[test]
    fn disks_are_no_packets() {
        let found = of(disks(0.93));
        assert_eq!(found[0].title, "softirqs take 93 % of CPU 5, most not for packets");
        assert_eq!(
            found[0].evidence,
            [
                "CPU 5: 93 % of its time in softirqs (tick-sampled), of which ksoftirqd/5 60 %",
                "40 packets/s and 40 NET_RX runs/s there",
                "other softirqs there, runs/s: BLOCK 41,000, TIMER 250",
            ]
        );
        assert!(found[0].why.contains("BLOCK (finished disk requests)"), "{found:?}");
        assert_eq!(of(disks(0.75)), [], "some room is left");
        let found = of(disks(0.93).receives(6, 0.85, 0.0).receives(7, 0.81, 0.0));
        assert_eq!((found.len(), found[0].evidence[3].as_str()), (1, "the same on CPU 6-7"));
    }

    /// Ticks miss what runs between them; the thread's own time does not.
    #[test]
    fn its_ksoftirqd_drowns() {
        assert_eq!(of(disks(0.3).ksoftirqd(5, 0.9)).len(), 1);
        let (model, mut rates) = disks(0.93).build();
        rates.cpus[5].other_softirqs.clear();
        let found = check(&model, &rates);
        assert_eq!(
            (found[0].evidence.len(), found[0].why.as_str()),
            (2, "the work is not of the receive path")
        );
    }

    #[test]
    fn what_may_be_packets_is_not_said_to_be_none() {
        let other = |runs: f64| disks(0.93).softirqs(5, "BLOCK", runs);
        assert_eq!(of(other(0.0).receives(5, 0.93, 600.0)), [], "some arrive");
        assert_eq!(of(other(0.0).receives(5, 0.93, 40.0).net_rx(5, 600.0)), [], "or NET_RX runs");
        assert_eq!(of(other(3e3).receives(5, 0.93, 4e3).net_rx(5, 2e3)).len(), 1, "but disks have more");
        assert_eq!(of(other(3e3).receives(5, 0.93, 5e3).net_rx(5, 2e3)), [], "dear packets take half");
        assert_eq!(of(other(1e3).receives(5, 0.93, 4e3).net_rx(5, 2e3)), [], "disks are the fewer");
        // Behind RPS the CPU of the interrupt counts few packets and few, long runs.
        let behind = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 4e5).rps("eth0", "0-1,3-7");
        let behind = behind.receives(2, 0.95, 0.0).net_rx(2, 300.0);
        assert_eq!(of(behind.softirqs(2, "TASKLET", 500.0)), []);
        assert_eq!(of(disks(0.93).traffic("eth0", 10.0).loopback().traffic("lo", 3e5)), [], "those of lo");
    }
}
