//! `net_rx_action` exhausts its budget with packets left: when that matters, and when it does not.

use super::figures::{Evidence, Subject, Unit};
use super::ring_overruns::{Blame, blame};
use super::workload::{Landing, landings, nic_on, processing};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::DROWNING;
use rxlab_path::evidence::{FULL, LOST, busy, receive_time};
use rxlab_path::model::{CpuRates, Model, Rates};
use rxlab_path::sample::Settings;

/// Exhausted budgets per second from which they are examined, and their part of NET_RX runs.
const SOME: (f64, f64) = (10.0, 0.01);
/// The same from which they are reported although no packet is lost or waits.
const MANY: (f64, f64) = (100.0, 0.10);
/// Time of ksoftirqd from which much of the receive work is left to it.
const LEFT: f64 = 0.10;

/// Time of processes from which ksoftirqd waits for its turn among them.
const COMPETING: f64 = 0.25;

/// The kernel's defaults: packets, and the smallest default in microseconds (two ticks of at least 1 ms).
const DEFAULT_BUDGET: u32 = 300;
const DEFAULT_USECS: u32 = 2_000;

pub(super) const RULE: Rule = Rule {
    id: "time-squeeze",
    asks: "Does softirq exhaust its budget with packets left, and does it matter?",
    fires: || {
        format!(
            "{} runs/s and {} of the NET_RX runs of a CPU with time left exhaust the budget (softnet column \
             3), and either a ring whose interrupt lands there overflows although the CPU has time \
             and the ring is not short, or the CPU is full, ksoftirqd takes {} of its time and processes \
             take {}; a note at {} runs/s and {} or more",
            count(SOME.0),
            percent(SOME.1),
            percent(LEFT),
            percent(COMPETING),
            count(MANY.0),
            percent(MANY.1)
        )
    },
    silent: "exhausted budgets are few, this or another CPU of the device that loses packets spends 80 % of \
             its time on receive work (then time is short, and no budget helps), or the CPUs have time and \
             the budget is the kernel's default: then ring-overruns covers the ring",
    evidence: "exhausted budgets and NET_RX runs per second, the CPU's time in softirq, ksoftirqd and \
               processes, the budget",
    cause: "A run ends after netdev_budget packets or netdev_budget_usecs; ksoftirqd does the rest and waits \
            for its turn among processes.",
    remedy: "Take work or processes off that CPU. A larger budget lets softirq hold the CPU for longer, at \
             the expense of others: try it last.",
    source: "Documentation/admin-guide/sysctl/net.rst (netdev_budget); net/core/dev.c net_rx_action",
    check: Check::Machine(check),
};

fn squeezed(cpu: &CpuRates, (rate, part): (f64, f64)) -> bool {
    cpu.time_squeeze >= rate && cpu.time_squeeze >= part * cpu.net_rx
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let looked_at = rates.cpus.iter().filter(|cpu| squeezed(cpu, SOME) && receive_time(cpu) < DROWNING);
    let landings = landings(model, rates);
    let small = is_small(&model.settings);
    let lost = |cpu: &CpuRates| {
        let here = landings.iter().filter(|landing| landing.cpus.contains(cpu.cpu));
        // A device counts losses for all its queues together: blame this CPU only if neither another CPU nor
        // the ring is to blame.
        let explained = |landing: &&Landing<'_>| match blame(model, rates, landing.nic).1 {
            Blame::Cpu => true,
            Blame::Processes => false,
            Blame::Ring => !small,
        };
        let own = here.filter(|landing| !explained(landing));
        own.filter_map(|landing| rates.nic(&landing.nic.name)).map(|nic| nic.rx_missed).fold(0.0, f64::max)
    };
    let nothing_lost = |cpu: &CpuRates| {
        let here = landings.iter().filter(|landing| landing.cpus.contains(cpu.cpu));
        here.filter_map(|landing| rates.nic(&landing.nic.name)).all(|nic| nic.rx_missed < LOST)
    };
    let waits = |cpu: &CpuRates| cpu.ksoftirqd >= LEFT && processing(cpu) >= COMPETING && busy(cpu) >= FULL;
    let weight = |cpu: &CpuRates| {
        if lost(cpu) >= LOST {
            3
        } else if waits(cpu) {
            2
        } else {
            u8::from(squeezed(cpu, MANY) && nothing_lost(cpu))
        }
    };
    let worst = looked_at
        .filter(|cpu| weight(cpu) > 0)
        .max_by(|a, b| weight(a).cmp(&weight(b)).then(a.time_squeeze.total_cmp(&b.time_squeeze)));
    let Some(cpu) = worst else { return Vec::new() };
    let id = cpu.cpu;
    let stops = format!("exhausts its budget {} times/s", count(cpu.time_squeeze));
    let away = "take work or processes off that CPU";
    let (severity, title, why, remedy) = match weight(cpu) {
        3 => (
            Severity::Warning,
            format!("CPU {id} {stops} and packets are lost"),
            format!(
                "the ring overflows ({} packets/s) before the next run: the CPU has time, but softirq does \
                 not get it soon enough",
                count(lost(cpu))
            ),
            away,
        ),
        2 => (
            Severity::Warning,
            format!("CPU {id} leaves packets to ksoftirqd {} times/s", count(cpu.time_squeeze)),
            "ksoftirqd does what a run leaves, and waits for its turn among the processes there".to_owned(),
            away,
        ),
        _ => (
            Severity::Note,
            format!("CPU {id} {stops}, without losses"),
            "packets arrive in bursts; the CPU has time for the rest in the next run".to_owned(),
            "nothing to do: this alone does not justify a larger budget",
        ),
    };
    let core = &model.settings;
    let (budget, usecs) = (core.netdev_budget.known(), core.netdev_budget_usecs.known());
    let mut evidence = vec![
        Evidence::about(Subject::Cpu(id), |seen| {
            format!(
                "CPU {id}: {} of {} NET_RX runs/s ended with packets left",
                seen.rate("time_squeeze", cpu.time_squeeze),
                seen.rate("net_rx", cpu.net_rx)
            )
        }),
        Evidence::about(Subject::Cpu(id), |seen| {
            format!(
                "CPU {id}: {} of its time in softirq (ksoftirqd {}), {} in processes, {} idle; {}",
                seen.percent("receive_time", receive_time(cpu)),
                seen.percent("ksoftirqd", cpu.ksoftirqd),
                seen.percent("processing", processing(cpu)),
                seen.percent("idle", cpu.idle),
                seen.tier(rates)
            )
        }),
    ];
    if let (Some(&budget), Some(&usecs)) = (budget, usecs) {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            let budget = seen.figure("netdev_budget", budget.into(), Unit::Count);
            let usecs = seen.figure("netdev_budget_usecs", usecs.into(), Unit::Microseconds);
            format!("net.core.netdev_budget {budget} packets, netdev_budget_usecs {usecs} us")
        }));
    }
    vec![Finding {
        severity,
        nic: nic_on(&landings, id),
        cpu: Some(id),
        title,
        evidence,
        why,
        remedy: if small {
            "the budget is smaller than the kernel's default: restore the default first".to_owned()
        } else {
            remedy.to_owned()
        },
        ..RULE.finding()
    }]
}

/// True if the budget is smaller than the kernel's default.
fn is_small(settings: &Settings) -> bool {
    settings.netdev_budget.known().is_some_and(|budget| *budget < DEFAULT_BUDGET)
        || settings.netdev_budget_usecs.known().is_some_and(|usecs| *usecs < DEFAULT_USECS)
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::Severity;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;

    fn host(softirq: f64, squeezes: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[2]).traffic("eth0", 1e5);
        sketch.receives(2, softirq, 1e5).net_rx(2, 4_000.0).squeezed(2, squeezes)
    }

    #[test]
    fn it_matters_where_packets_are_lost_or_wait() {
        let lost = host(0.5, 90.0).works(2, 0.45).missed("eth0", 300.0).finding(&RULE);
        assert_eq!(lost.title, "CPU 2 exhausts its budget 90 times/s and packets are lost");
        assert_eq!(lost.severity, Severity::Warning);
        let waiting = host(0.4, 90.0).ksoftirqd(2, 0.2).works(2, 0.59).finding(&RULE);
        assert_eq!(waiting.title, "CPU 2 leaves packets to ksoftirqd 90 times/s");
        assert!(waiting.seen()[1].contains("softirq (ksoftirqd 20 %), 60 % in processes"), "{waiting:?}");
    }

    #[test]
    fn many_harmless_ones_are_said_to_be_so() {
        let note = host(0.4, 600.0).finding(&RULE);
        assert_eq!((note.severity, note.plans.len()), (Severity::Note, 0));
        assert!(note.remedy.starts_with("nothing to do"), "{}", note.remedy);
    }

    #[test]
    fn a_larger_budget_is_never_the_first_thing() {
        let advice = |sketch: Sketch| sketch.finding(&RULE).remedy;
        let full = host(0.5, 90.0).works(2, 0.45).missed("eth0", 300.0);
        let hosts = [full, host(0.4, 90.0).ksoftirqd(2, 0.2).works(2, 0.59)];
        assert!(hosts.into_iter().map(advice).all(|remedy| !remedy.contains("budget")));
        let small = host(0.4, 600.0).set(|now| now.netdev_budget = Fact::Known(64));
        assert!(small.finding(&RULE).remedy.contains("smaller than the kernel's default"));
    }

    /// A device's losses were once blamed on any of its CPUs that exhausted the budget.
    #[test]
    fn a_loss_that_something_else_explains() {
        let other = |time| {
            let sketch = Sketch::new(8).device("eth0", &[2, 5]).traffic("eth0", 2e5).missed("eth0", 300.0);
            let sketch = sketch.receives(2, 0.4, 1e5).works(2, 0.55).net_rx(2, 4_000.0).squeezed(2, 90.0);
            sketch.receives(5, time, 1e5).findings(&RULE)
        };
        assert_eq!(other(0.97), [], "CPU 5 drowns");
        assert_eq!(other(0.1).len(), 1, "CPU 2 is the full one");
        host(0.4, 600.0).missed("eth0", 300.0).silent(&RULE, "the ring is what is short");
        let small = host(0.4, 90.0).missed("eth0", 300.0).set(|now| now.netdev_budget = Fact::Known(64));
        assert!(small.finding(&RULE).remedy.contains("restore the default first"), "or the budget");
    }

    #[test]
    fn near_misses() {
        host(0.97, 900.0).missed("eth0", 3e3).silent(&RULE, "time is what is short");
        host(0.4, 60.0).silent(&RULE, "few, and nothing is lost");
        host(0.4, 5.0).missed("eth0", 3e3).silent(&RULE, "too few to be why");
        host(0.4, 90.0).ksoftirqd(2, 0.2).silent(&RULE, "ksoftirqd has the CPU for itself");
    }
}
