//! A one-queue device carries real traffic on a machine with several CPUs, and RPS is off: a future
//! hotspot.

use super::figures::{Evidence, Subject};
use super::places::{receive_work, spreading};
use super::{Check, Finding, Rule, Severity, one_outer_flow};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::{NOTICEABLE, TRAFFIC, baseline, by_threads, irq_cpus, may_be_lo, receiving};
use rxlab_path::model::{Model, Nic, Rates};

pub(super) const RULE: Rule = Rule {
    id: "single-queue-no-rps",
    asks: "Does a device with one receive queue carry real traffic without RPS?",
    fires: || {
        format!(
            "a device with one receive queue and RPS off receives {} packets/s, and the CPU of its interrupt \
             spends {} of its time in interrupts and softirq",
            count(TRAFFIC),
            percent(NOTICEABLE)
        )
    },
    silent: "the machine has one CPU, the interface is virtual (its packets are received where their senders \
             run), kernel threads poll its queue, the packets there may come from `lo`, they are one flow to the \
             kernel's hash (tunnel-one-flow), or one-core-hotspot already covers the interface",
    evidence: "the interface's packets/s, time in interrupts and softirq of the interrupt's CPU",
    cause: "One queue has one interrupt, which lands on one CPU.",
    remedy: "RPS, before the traffic grows.",
    source: "Documentation/networking/scaling.rst (RPS: Suggested Configuration)",
    check: Check::Device(finding),
};

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let ([queue], packets) = (&nic.rx[..], rates.rx_packets(&nic.name)) else { return None };
    let off = queue.rps_cpus.known().is_some_and(|mask| mask.is_empty());
    let cpus = irq_cpus(queue, model, rates);
    let base = baseline(model, rates);
    let load = |cpu| receive_work(rates, base, cpu, packets);
    let cpu = cpus.iter().max_by(|a, b| load(*a).total_cmp(&load(*b)))?;
    let real = packets >= TRAFFIC && load(cpu) >= NOTICEABLE && !may_be_lo(model, rates, cpu);
    // A thread polls the queue where the scheduler runs it.
    let is_polled = nic.napi.threaded.known() == Some(&true) || rates.cpu(cpu).is_some_and(by_threads);
    if is_polled || model.online().len() < 2 || !off || !real || one_outer_flow(model, rates, nic).is_some() {
        return None;
    }
    Some(Finding {
        severity: Severity::Note,
        cpu: Some(cpu),
        title: format!("all {} packets/s of {} go through CPU {cpu}", count(packets), nic.name),
        evidence: vec![Evidence::about(Subject::Cpu(cpu), |seen| {
            format!(
                "CPU {cpu}: {} of its time in interrupts and softirq ({}), headroom {}",
                seen.percent("receiving", rates.cpu(cpu).map_or(0.0, receiving)),
                seen.tier(rates),
                seen.times("headroom", 1.0 / load(cpu))
            )
        })],
        why: "one queue, no RPS: every packet is processed where its interrupt lands".to_owned(),
        remedy: "RPS, before the traffic grows".to_owned(),
        plans: spreading(rates, cpu),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};
    use rxlab_base::units::Fact;

    fn host(cpus: u32, irqs: &[u32]) -> Sketch {
        Sketch::new(cpus).device("eth0", irqs).traffic("eth0", 2e4).receives(1, 0.15, 2e4)
    }

    #[test]
    fn real_traffic_on_one_queue() {
        let found = host(4, &[1]).finding(&RULE);
        assert_eq!(found.title, "all 20,000 packets/s of eth0 go through CPU 1");
        assert_eq!(
            found.seen(),
            ["CPU 1: 15 % of its time in interrupts and softirq (rough: timer ticks), headroom 6.7x"]
        );
        assert_eq!(
            host(4, &[1]).measured(|rates| rates.cpus[1].irq = 0.15).finding(&RULE).seen(),
            ["CPU 1: 30 % of its time in interrupts and softirq (rough: timer ticks), headroom 3.3x"]
        );
    }

    #[test]
    fn near_misses() {
        host(4, &[1]).rps("eth0", "0,2-3").silent(&RULE, "RPS is on");
        host(4, &[1]).receives(1, 0.02, 2e4).polls(1, 0.15).silent(&RULE, "a thread polls it");
        let threaded = host(4, &[1]).edit("eth0", |nic| nic.napi.threaded = Fact::Known(true));
        threaded.silent(&RULE, "a thread polls it, wherever it runs");
        host(4, &[1, 2]).silent(&RULE, "two queues");
        host(4, &[1]).receives(1, 0.04, 2e4).silent(&RULE, "cheap traffic");
        host(4, &[1]).traffic("eth0", 500.0).silent(&RULE, "little traffic");
        let everywhere = host(4, &[1]).all_receive("0,2-3", 0.14, 2e4);
        everywhere.loopback().traffic("lo", 9e4).silent(&RULE, "lo, wherever programs run");
        Sketch::new(4).veth("veth0").traffic("veth0", 2e4).receives(1, 0.15, 2e4).silent(&RULE, "virtual");
    }
}
