//! Each packet costs far more CPU time than usual.

use super::elsewhere::{bringing, is_elsewhere};
use super::figures::{Evidence, Subject, Unit};
use super::places::steal;
use super::softirq_not_receive::frequent;
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::{
    SUBSTANTIAL, TRAFFIC, baseline, by_threads, carrier, may_be_lo, queue_packets, receiving, rounds,
};
use rxlab_path::model::{CpuRates, Model, Rates};

/// Cost of a packet from which it is unusual, in seconds: real machines take 1 to 10 us, a published server that answers a
/// request for each packet 23 us.
pub(super) const COSTLY: f64 = 50e-6;

/// Cost of a packet, each time that the stack counts it, above which the time is hardly for packets: 30,000 firewall rules at 10 ns
/// each.
const IMPLAUSIBLE: f64 = 300e-6;

pub(super) const RULE: Rule = Rule {
    id: "costly-packets",
    asks: "Does each packet cost far more CPU time than usual?",
    fires: || {
        format!(
            "a CPU receives {} packets/s, spends {} of its time in interrupts and softirqs more than CPUs without \
             packets, and that is {:.0} to {:.0} us for each packet",
            count(TRAFFIC),
            percent(SUBSTANTIAL),
            COSTLY * 1e6,
            IMPLAUSIBLE * 1e6
        )
    },
    silent: "disks, timers or RCU account for the time (softirq-not-receive), most of it is that of threads that poll queues, the packets may come from `lo`, or packets \
             are not counted by CPU",
    evidence: "the CPU's time, its packets/s, the time for each, the softirqs that run most often there, steal time",
    cause: "Something expensive runs for each packet: thousands of firewall rules one after the other, connection tracking, a \
            BPF program, encryption, a kernel with debugging (lockdep, KASAN), an emulated CPU. Or the time is not for \
            packets.",
    remedy: "Find out what takes the time (`perf top -C N`, `rxlab trace --cpu N --out FILE`) before steering: RPS moves \
             the cost to other CPUs, and does not lower it.",
    source: super::OWN_RULE,
    check: Check::Machine(check),
};

/// Packets/s of a CPU from the wire, and how often the stack counts each: those that its interrupts bring, before GRO merges them,
/// or that go up the stack there, where a bond, a VLAN or a bridge counts them again.
fn packets(model: &Model, rates: &Rates, cpu: &CpuRates) -> (f64, f64) {
    let brought: f64 =
        bringing(model, rates, cpu.cpu).map(|(nic, queue)| queue_packets(nic, queue, rates)).sum();
    let rounds = carrier(model, rates, cpu.cpu).map_or(1.0, |(nic, _)| rounds(model, rates, nic));
    ((cpu.packets / rounds).max(brought), rounds)
}

/// The CPU whose packets cost most, its packets/s and seconds for each, if they are costly.
pub(super) fn costliest<'a>(model: &Model, rates: &'a Rates) -> Option<(&'a CpuRates, f64, f64)> {
    if rates.uncounted {
        return None;
    }
    let base = baseline(model, rates);
    let cost = |cpu: &'a CpuRates| {
        let (own, (packets, rounds)) = (receiving(cpu) - base, packets(model, rates, cpu));
        let counts = packets >= TRAFFIC
            && own >= SUBSTANTIAL
            && (COSTLY..=IMPLAUSIBLE * rounds).contains(&(own / packets));
        let is_receive =
            || !by_threads(cpu) && !is_elsewhere(model, rates, cpu) && !may_be_lo(model, rates, cpu.cpu);
        (counts && is_receive()).then_some((cpu, packets, own / packets))
    };
    rates.cpus.iter().filter_map(cost).max_by(|a, b| a.2.total_cmp(&b.2))
}

fn check(model: &Model, rates: &Rates) -> Vec<Finding> {
    let Some((cpu, packets, cost)) = costliest(model, rates) else { return Vec::new() };
    let id = cpu.cpu;
    let us = count(cost * 1e6);
    let mut evidence = vec![Evidence::about(Subject::Cpu(id), |seen| {
        let us = count(seen.figure("us_per_packet", cost * 1e6, Unit::Microseconds));
        format!(
            "CPU {id}: {} of its time in interrupts and softirqs for {} packets/s: {us} us each; {}",
            seen.percent("receiving", receiving(cpu)),
            seen.packets("packets", packets),
            seen.tier(rates)
        )
    })];
    let base = baseline(model, rates);
    if base > 0.0 {
        evidence.push(Evidence::about(Subject::Machine, |seen| {
            format!(
                "CPUs without packets spend {} there, which is not counted",
                seen.percent("baseline", base)
            )
        }));
    }
    evidence.extend(frequent(cpu));
    evidence.extend(steal(rates, &id.into()));
    vec![Finding {
        severity: Severity::Note,
        nic: carrier(model, rates, id).map(|(nic, _)| nic.name.clone()),
        cpu: Some(id),
        title: format!("each packet costs {us} us on CPU {id}; 1 to 10 us are usual"),
        evidence,
        why: "something expensive runs for each packet: firewall rules, connection tracking, BPF, encryption, a kernel with \
              debugging, an emulated CPU; or the time is for something else"
            .to_owned(),
        remedy: format!(
            "first find out what takes the time: `perf top -C {id}`, `rxlab trace --cpu {id} --out FILE`; steering only moves the \
             cost to other CPUs"
        ),
        inspect: Some(format!("perf top -C {id}")),
        ..RULE.finding()
    }]
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    fn host(time: f64, packets: f64) -> Sketch {
        Sketch::new(4).device("eth0", &[2]).traffic("eth0", packets).receives(2, time, packets)
    }

    /// A router with thousands of rules; the numbers of forum threads: a core full at about 10,000 packets/s.
    #[test]
    fn a_firewall_of_thousands_of_rules() {
        let found = host(0.95, 1.1e4).softirqs(2, "TIMER", 250.0).finding(&RULE);
        assert_eq!(found.title, "each packet costs 86 us on CPU 2; 1 to 10 us are usual");
        assert_eq!(
            found.seen(),
            [
                "CPU 2: 95 % of its time in interrupts and softirqs for 11,000 packets/s: 86 us each; rough: timer ticks",
                "other softirqs on CPU 2, runs/s: TIMER 250",
            ]
        );
        assert_eq!(found.inspect.as_deref(), Some("perf top -C 2"));
        assert!(!found.needs_attention(), "{found:?}");
        let summary = host(0.95, 1.1e4).regime().summary;
        assert!(summary.ends_with("; each packet costs 86 us there, which steering only moves"), "{summary}");
    }

    /// The stack counts a packet of a bond twice: each then cost half as much as it did.
    #[test]
    fn a_packet_of_a_bond_is_one_packet() {
        let bond = |time, packets: f64| {
            let bond = host(time, packets).receives(2, time, 2.0 * packets).veth("bond0");
            bond.traffic("bond0", packets).edit("bond0", |nic| {
                nic.stack.kind = Some("bond".to_owned());
                nic.stack.lower = vec!["eth0".parse().expect("a name")];
            })
        };
        let found = bond(0.95, 3e3).finding(&RULE);
        assert!(found.title.starts_with("each packet costs 317 us"), "158 us each time: {found:?}");
        assert!(found.seen()[0].contains("for 3,000 packets/s"), "{found:?}");
        bond(0.95, 1.5e3).silent(&RULE, "317 us each time: hardly for packets");
        bond(0.95, 2.4e4).silent(&RULE, "40 us");
    }

    #[test]
    fn near_misses() {
        host(0.95, 4.2e4).silent(&RULE, "23 us");
        host(0.95, 900.0).silent(&RULE, "few packets");
        host(0.9, 2.5e3).silent(&RULE, "360 us: hardly for packets");
        host(0.2, 3e3).silent(&RULE, "67 us, but little of its time");
        // GRO: the device counts 16 packets for each that goes up the stack.
        host(0.95, 1.6e5).receives(2, 0.95, 1e4).silent(&RULE, "the device's packets count");
        let disk = host(0.95, 3e3).softirqs(2, "BLOCK", 4e4);
        disk.silent(&RULE, "disks account for it");
        host(0.02, 1.1e4).polls(2, 0.6).silent(&RULE, "56 us, of a thread that polls the queue");
        let base = host(0.9, 1.1e4).all_receive("0-1,3", 0.5, 20.0);
        base.silent(&RULE, "36 us without what CPUs without packets spend");
        host(0.95, 1.1e4).measured(|rates| rates.uncounted = true).silent(&RULE, "not counted");
        assert!(!host(0.95, 4.2e4).regime().summary.contains("each packet costs"));
    }
}
