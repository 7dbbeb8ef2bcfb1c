//! Interrupts are delayed although hardly any packets arrive meanwhile: each packet waits in vain.

use super::figures::{Evidence, Subject, Unit};
use super::workload::interrupts;
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::{count, percent};
use rxlab_path::evidence::{SUBSTANTIAL, TRAFFIC, nic_irq_cpus, queue_packets, receive_time};
use rxlab_path::model::{Model, Nic, Rates};

/// Delay in microseconds that a request notices: a round trip in a data centre takes 20 to 100.
const HELD: u32 = 100;

/// Packets arriving during the delay below which the delay gains nothing.
const COLLECTED: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    id: "moderation-hurts-latency",
    asks: "Are interrupts delayed although packets arrive one by one?",
    fires: || {
        format!(
            "a device with {} packets/s delays interrupts by {HELD} us or more (not adaptive), fewer than \
             {COLLECTED} packets arrive per queue in that time, there is an interrupt for at least every \
             second packet, and the CPUs spend less than {} of their time in softirq",
            count(TRAFFIC),
            percent(SUBSTANTIAL)
        )
    },
    silent: "moderation is adaptive or ends with the first packet (rx-frames 1), or the driver is one of \
             Intel's, whose devices space interrupts and do not delay the first",
    evidence: "the moderation, packets/s and interrupts/s, packets per delay",
    cause: "The device waits rx-usecs for more packets before it raises an interrupt; at this rate none \
            arrive.",
    remedy: "Adaptive moderation, or a few microseconds; neither affects throughput at this rate.",
    source: "ethtool(8) -C; the drivers' descriptions of rx-usecs",
    check: Check::Device(finding),
};

fn finding(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let set = nic.hardware.coalesce.known()?;
    let held = set.rx_usecs.filter(|usecs| *usecs >= HELD)?;
    let waits = set.adaptive_rx != Some(true) && set.rx_frames.is_none_or(|frames| frames != 1);
    let spaced = nic.driver_facts().moderation.only_spaces;
    let packets = rates.nic(&nic.name)?.rx_packets;
    let busiest = nic.rx.iter().map(|queue| queue_packets(nic, queue, rates)).fold(0.0, f64::max);
    let collected = busiest * f64::from(held) / 1e6;
    let rings: f64 = nic.rx.iter().map(|queue| interrupts(queue, rates)).sum();
    let load = |cpu| rates.cpu(cpu).map_or(0.0, receive_time);
    let busy = nic_irq_cpus(nic, model, rates).iter().map(load).fold(0.0, f64::max);
    let idle = packets >= TRAFFIC && collected < COLLECTED && rings >= packets / 2.0 && busy < SUBSTANTIAL;
    if !waits || spaced || !idle {
        return None;
    }
    let name = &nic.name;
    Some(Finding {
        severity: Severity::Note,
        title: format!("packets of {name} wait up to {held} us for an interrupt"),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                seen.figure("rx_usecs", held.into(), Unit::Microseconds);
                format!("{name}: rx-usecs {held}, not adaptive")
            }),
            Evidence::about(Subject::nic(nic), |seen| {
                format!(
                    "{name}: {} packets/s with {} interrupts/s; {:.2} packets per queue in {held} us",
                    seen.packets("rx_packets", packets),
                    seen.rate("interrupts", rings),
                    seen.figure("packets_held", collected, Unit::Count)
                )
            }),
        ],
        why: "the device delays interrupts for more packets, and at this rate none arrive".to_owned(),
        remedy: format!(
            "if latency matters: ethtool -C {name} adaptive-rx on, or rx-usecs of a few microseconds"
        ),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    fn host(usecs: u32, packets: f64, rings: f64) -> Sketch {
        let sketch = Sketch::new(8).device("eth0", &[0, 1, 2, 3]).driver("eth0", "mlx5_core");
        sketch.traffic("eth0", packets).interrupts("eth0", rings / 4.0).moderation("eth0", usecs, false)
    }

    #[test]
    fn a_long_wait_at_a_low_rate() {
        let found = host(250, 4e3, 3.6e3).titles(&RULE);
        assert_eq!(found, ["packets of eth0 wait up to 250 us for an interrupt"]);
    }

    #[test]
    fn near_misses() {
        host(20, 4e3, 3.6e3).silent(&RULE, "20 us go unnoticed");
        host(250, 4e4, 8e3).silent(&RULE, "more packets arrive");
        host(250, 400.0, 390.0).silent(&RULE, "no traffic");
        host(250, 4e3, 3.6e3).moderation("eth0", 250, true).silent(&RULE, "adaptive");
        host(250, 4e3, 3.6e3).driver("eth0", "i40e").silent(&RULE, "spaces interrupts");
        host(250, 4e3, 3.6e3).receives(2, 0.4, 1e3).silent(&RULE, "the CPU is busy");
        host(250, 4e3, 0.0).silent(&RULE, "polled, or not counted");
    }
}
