//! Large packets go up the stack one by one because GRO is off.

use super::figures::{Evidence, Subject, Unit};
use super::places::{loaded_of, most_loaded};
use super::{Check, Finding, Rule, Severity};
use rxlab_base::number::count;
use rxlab_path::evidence::SUBSTANTIAL;
use rxlab_path::model::{Model, Nic, Rates};

/// Packets/s from which merging packets is worthwhile.
const PACKETS: f64 = 10_000.0;

/// Bytes per packet from which most packets are parts of larger transfers, which GRO can merge.
const LARGE: f64 = 1_000.0;

/// The kernel's names of GRO, and of its equivalents in the device.
const GRO: &str = "rx-gro";
const BY_DEVICE: [&str; 2] = ["rx-lro", "rx-gro-hw"];

pub(super) const RULE: Rule = Rule {
    id: "gro-off",
    asks: "Do large packets go up the stack one by one because GRO is off?",
    fires: || {
        format!(
            "GRO is off on a device with {} packets/s of {} bytes on average, a queue's CPU spends 25 % of \
             its time in interrupts and softirq, and the device does not merge packets itself",
            count(PACKETS),
            count(LARGE)
        )
    },
    silent: "packets are small (requests, voice, DNS: nothing to merge), LRO or GRO in the device is on, the \
             offloads are unknown, or the CPU has time to spare",
    evidence: "the offload, packets/s and their mean size, the busiest queue",
    cause: "GRO was switched off for a bridge, a capture or a test, or by an old guide for routers.",
    remedy: "Switch GRO on (ethtool -K NIC gro on), unless a program needs the packets unmerged.",
    source: "Documentation/networking/segmentation-offloads.rst (Generic Receive Offload); ethtool(8)",
    check: Check::Nic(of_nic),
};

fn of_nic(model: &Model, rates: &Rates, nic: &Nic) -> Option<Finding> {
    let features = nic.hardware.features.known()?;
    let is = |name: &str, on: bool| features.iter().any(|feature| feature.name == name && feature.on == on);
    let traffic = rates.nic(&nic.name).filter(|traffic| traffic.rx_packets >= PACKETS)?;
    let size = traffic.rx_bytes / traffic.rx_packets;
    let queues = loaded_of(model, rates, nic);
    let busiest = most_loaded(&queues).filter(|queue| queue.load >= SUBSTANTIAL)?;
    if !is(GRO, false) || BY_DEVICE.iter().any(|name| is(name, true)) || size < LARGE {
        return None;
    }
    Some(Finding {
        severity: Severity::Warning,
        cpu: Some(busiest.cpu),
        title: format!("GRO is off on {}, packets average {} bytes", nic.name, count(size)),
        evidence: vec![
            Evidence::about(Subject::nic(nic), |seen| {
                format!(
                    "{}: {GRO} off, {} packets/s, {} bytes/s",
                    nic.name,
                    seen.packets("rx_packets", traffic.rx_packets),
                    count(seen.figure("rx_bytes", traffic.rx_bytes, Unit::BytesPerSecond))
                )
            }),
            busiest.evidence(rates),
        ],
        why: "the stack's cost is per packet: GRO merges up to 45 packets of one flow at an MTU of 1500"
            .to_owned(),
        remedy: format!(
            "switch GRO on (ethtool -K {} gro on), unless a program needs the packets unmerged",
            nic.name
        ),
        ..RULE.finding()
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::diagnose::sketch::{Diagnosed, Sketch};

    fn host(on: bool, size: f64) -> Sketch {
        let sketch = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 8e4).offload("eth0", "rx-gro", on);
        sketch.volume("eth0", 8e4 * size, 100.0).receives(0, 0.5, 8e4)
    }

    #[test]
    fn large_packets_one_by_one() {
        let found = host(false, 1448.0).finding(&RULE);
        assert_eq!(found.title, "GRO is off on eth0, packets average 1,448 bytes");
        assert_eq!(found.seen()[0], "eth0: rx-gro off, 80,000 packets/s, 115,840,000 bytes/s");
    }

    #[test]
    fn near_misses() {
        host(true, 1448.0).silent(&RULE, "it is on");
        host(false, 120.0).silent(&RULE, "small packets");
        host(false, 1448.0).offload("eth0", "rx-lro", true).silent(&RULE, "the device does it");
        host(false, 1448.0).receives(0, 0.1, 8e4).silent(&RULE, "time to spare");
        host(false, 1448.0).traffic("eth0", 2e3).silent(&RULE, "little traffic");
        let unknown = Sketch::new(4).device("eth0", &[0]).traffic("eth0", 8e4).volume("eth0", 1e8, 0.0);
        unknown.receives(0, 0.5, 8e4).silent(&RULE, "offloads are not known");
    }
}
