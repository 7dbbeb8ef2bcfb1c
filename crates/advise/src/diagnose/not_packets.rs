//! CPUs without packets spend much time in interrupts and softirqs.

use super::figures::{Evidence, Subject};
use super::places::{mean, steal};
use super::softirq_not_receive::frequent;
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{cpus_text, percent};
use rxlab_base::units::CpuMask;
use rxlab_path::evidence::{DROWNING, NOTICEABLE, TRAFFIC, in_softirq, receiving, without_packets};
use rxlab_path::model::{Model, Rates};

pub(super) const RULE: Rule = Rule {
    id: "not-packets",
    asks: "Do CPUs that receive no packets spend much time in interrupts and softirqs?",
    fires: || {
        format!(
            "CPUs that take no packets (fewer than {:.0}/s and as few NET_RX runs, and no interrupt of a queue with \
             traffic) spend {} of their time in interrupts and softirqs on average",
            TRAFFIC / 2.0,
            percent(NOTICEABLE)
        )
    },
    silent: "every CPU receives, packets are not counted by CPU, or the time is that of a CPU that drowns in softirqs \
             (softirq-not-receive)",
    evidence: "these CPUs' time in hard interrupts and in softirqs, the softirqs that run most often there, steal time",
    cause: "Timers, RCU, tasklets, disks and other devices take interrupt and softirq time on every CPU, and so does a \
            kernel with debugging. CPUs with packets probably spend as much of their time on it.",
    remedy: "No setting of the receive path reduces it. `rxlab trace --out FILE` shows each softirq with name and \
             duration; `/proc/interrupts` shows the interrupts.",
    source: super::OWN_RULE,
    check: Check::Machine(check),
};

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let quiet: CpuMask =
        without_packets(model, rates).filter(|cpu| in_softirq(cpu) < DROWNING).map(|cpu| cpu.cpu).collect();
    let time = mean(rates, &quiet, receiving);
    if time < NOTICEABLE {
        return Vec::new();
    }
    let names = cpus_text(&quiet);
    let mut evidence = vec![Evidence::about(Subject::Cpus(quiet.clone()), |seen| {
        format!(
            "{names}: {} of their time in softirqs, {} in hard interrupts, {} packets/s each; {}",
            seen.percent("softirq", mean(rates, &quiet, in_softirq)),
            seen.percent("irq", mean(rates, &quiet, |cpu| cpu.irq)),
            seen.packets("packets", mean(rates, &quiet, |cpu| cpu.packets)),
            seen.tier(rates)
        )
    })];
    let busiest = quiet.iter().filter_map(|cpu| rates.cpu(cpu));
    let busiest = busiest.max_by(|a, b| receiving(a).total_cmp(&receiving(b)));
    evidence.extend(busiest.and_then(frequent));
    evidence.extend(steal(rates, &quiet));
    vec![Finding {
        severity: Severity::Note,
        title: format!("interrupts and softirqs take {} of CPUs without packets", percent(time)),
        evidence,
        why: "it is not receive work, and CPUs with packets probably spend as much of their time on it".to_owned(),
        remedy: "nothing to tune on the receive path; `rxlab trace --out FILE` shows each softirq with its duration"
            .to_owned(),
        inspect: Some("rxlab trace --out trace.json".to_owned()),
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    /// Every CPU spends this much on timers; CPU 2 receives.
    fn host(time: f64) -> Sketch {
        let host = Sketch::new(4).device("eth0", &[2]).traffic("eth0", 2e4);
        let host = host.each("0-1,3", |host, cpu| host.receives(cpu, time, 20.0).softirqs(cpu, "TIMER", 9e3));
        host.receives(2, time + 0.2, 2e4)
    }

    #[test]
    fn what_idle_cpus_spend_is_named() {
        let found = host(0.22).interrupted(3, 0.06).finding(&RULE);
        assert_eq!(found.title, "interrupts and softirqs take 24 % of CPUs without packets");
        assert_eq!(
            found.seen(),
            [
                "CPUs 0-1,3: 22 % of their time in softirqs, 2 % in hard interrupts, 20 packets/s each; rough: timer ticks",
                "other softirqs on CPU 3, runs/s: TIMER 9,000",
            ]
        );
        assert!(!found.needs_attention());
    }

    #[test]
    fn near_misses() {
        host(0.05).silent(&RULE, "usual");
        host(0.22).all_receive("0-1,3", 0.22, 2e3).silent(&RULE, "they receive");
        host(0.22).measured(|rates| rates.uncounted = true).silent(&RULE, "packets are not counted");
        let drowns = host(0.02).receives(3, 0.95, 20.0);
        drowns.silent(&RULE, "one CPU drowns, which softirq-not-receive says");
        let handed = host(0.22).rps("eth0", "0-1,3");
        handed.silent(&RULE, "RPS may hand packets to them");
    }

    /// 22 % of the CPU's 42 % are not the price of its packets: 21 us each were shown.
    #[test]
    fn the_price_of_packets_is_without_it() {
        let regime = host(0.22).regime();
        let ns = regime.cpus[0].ns_per_packet.expect("packets");
        assert!((ns - 1e4).abs() < 1.0, "{ns} ns");
        let ns = host(0.02).regime().cpus[0].ns_per_packet.expect("packets");
        assert!((ns - 1.1e4).abs() < 1.0, "hardly anything is left as it is: {ns} ns");
    }
}
