//! RPS is on although every CPU has its own queue: interrupts between CPUs hand packets on, for no gain.

use super::figures::{Evidence, Subject};
use super::places::busiest;
use super::{Check, Finding, Rule, Severity};
use crate::family::PlanName;
use rxlab_base::number::{count, percent, plural};
use rxlab_path::evidence::{NOTICEABLE, TRAFFIC, irq_cpus, may_be_lo, nic_irq_cpus, reach_every_cpu};
use rxlab_path::model::{Model, Nic, Rates};

/// Upper bound on one queue's traffic relative to the average of all: above, the hardware does not spread the
/// traffic, and RPS may.
pub(crate) const EVEN: f64 = 1.5;

pub(super) const RULE: Rule = Rule {
    id: "rps-redundant",
    asks: "Is RPS on although every CPU has its own receive queue?",
    fires: || {
        format!(
            "the interrupts of a device's queues reach every CPU, no queue carries more than {EVEN} times \
             the average, at least half of the queues have RPS to other CPUs, the CPUs get {} RPS \
             interrupts/s and the busiest spends {} of its time in interrupts and softirq",
            count(TRAFFIC),
            percent(NOTICEABLE)
        )
    },
    silent: "a CPU has no queue, few flows carry most packets (then RPS spreads what the queues do not), \
             packets by queue are not counted, or no RPS interrupts are seen",
    evidence: "queues and CPUs, the masks, RPS interrupts/s, the largest share of a queue",
    cause: "RPS was set on a device that got more queues later, or by a script that sets it everywhere.",
    remedy: "Switch RPS off on this interface.",
    source: "Documentation/networking/scaling.rst (RPS: Suggested Configuration)",
    check: Check::Device(finding),
};

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let traffic = rates.nic(&nic.name).filter(|traffic| traffic.rx_packets >= TRAFFIC)?;
    let served = nic_irq_cpus(nic, model, rates);
    let elsewhere = nic.rx.iter().filter(|queue| {
        let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
        !mask.difference(&irq_cpus(queue, model, rates)).is_empty()
    });
    let steered: Vec<_> = elsewhere.collect();
    if !reach_every_cpu(nic, model, rates) || steered.len() * 2 < nic.rx.len() {
        return None;
    }
    // They are known to be even only if every queue is counted.
    let counted = traffic.queues.len() == nic.rx.len();
    let most = traffic.queues.values().copied().fold(0.0, f64::max);
    let mean = traffic.queues.values().sum::<f64>() / nic.rx.len() as f64;
    let ipis: f64 = rates.cpus.iter().map(|cpu| cpu.rps_ipis).sum();
    let (cpu, load) = busiest(rates, &served)?;
    if !counted || most > mean * EVEN || ipis < TRAFFIC || load < NOTICEABLE || may_be_lo(model, rates, cpu) {
        return None;
    }
    let first = steered.first()?;
    let mask = first.rps_cpus.known()?;
    Some(Finding {
        severity: Severity::Warning,
        title: format!("RPS is on for {}, although each CPU has a queue", nic.name),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                format!(
                    "{} on {}; the busiest queue has {} of {} packets/s",
                    plural(seen.count("queues", nic.rx.len()), "RX queue"),
                    plural(seen.count("cpus", served.len()), "CPU"),
                    seen.percent("busiest_share", most / traffic.rx_packets.max(most)),
                    seen.packets("rx_packets", traffic.rx_packets)
                )
            }),
            Evidence::about(Subject::nic(nic), |seen| {
                let queues = plural(seen.count("queues_with_rps", steered.len()), "queue");
                format!("RPS on {queues}: {}/rx-{} {mask}", nic.name, first.index)
            }),
            Evidence::about(Subject::Cpu(cpu), |seen| {
                format!(
                    "{} RPS interrupts/s between CPUs; CPU {cpu} spends {} of its time in interrupts and \
                     softirq ({})",
                    seen.rate("rps_ipis", ipis),
                    seen.percent("receiving", load),
                    seen.tier(rates)
                )
            }),
        ],
        why: "the queues already spread the packets over all CPUs; handing them on costs an interrupt and \
              cache misses"
            .to_owned(),
        remedy: format!("switch RPS off on {} (empty masks), and measure", nic.name),
        plans: vec![PlanName::RpsOff],
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    fn host() -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[2e4; 4]);
        let sketch = sketch.all_receive("0-3", 0.3, 2e4).rps("eth0", "0-3");
        (0..4).fold(sketch, |sketch, cpu| sketch.ipis(cpu, 4e3))
    }

    #[test]
    fn a_queue_for_each_cpu() {
        let found = host().finding(&RULE);
        assert_eq!(found.title, "RPS is on for eth0, although each CPU has a queue");
        assert_eq!(found.seen()[0], "4 RX queues on 4 CPUs; the busiest queue has 25 % of 80,000 packets/s");
        assert_eq!(found.seen()[1], "RPS on 4 queues: eth0/rx-0 0-3");
    }

    #[test]
    fn near_misses() {
        host().rps("eth0", "").silent(&RULE, "RPS is off");
        let own = (0..4).fold(host(), |sketch, queue| sketch.rps_of("eth0", queue, &queue.to_string()));
        own.silent(&RULE, "each to its own CPU");
        host().queue_traffic("eth0", &[7.7e4, 1e3, 1e3, 1e3]).silent(&RULE, "one flow, which RPS may split");
        host().traffic("eth0", 8e4).silent(&RULE, "queues are not counted");
        (0..4).fold(host(), |sketch, cpu| sketch.ipis(cpu, 0.0)).silent(&RULE, "nothing is handed on");
        host().all_receive("0-3", 0.02, 2e4).silent(&RULE, "time to spare");
        let more = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).queue_traffic("eth0", &[2e4; 4]);
        more.all_receive("0-3", 0.3, 2e4).rps("eth0", "4-7").ipis(4, 9e3).silent(&RULE, "CPUs without");
    }
}
