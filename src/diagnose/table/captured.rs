//! The machines below fixtures/hosts, as they were between their two moments.

#![allow(clippy::disallowed_methods)] // Opens the captured hosts.

use std::fs::File;
use std::path::Path;

use super::Host;
use crate::diagnose::diagnose;
use crate::diagnose::evidence::irq_cpus;
use crate::model::{IrqRates, Model, NicKind, Rates};
use crate::sample::{Counters, Inventory, Scope};
use crate::snapshot::Snapshot;
use crate::units::Fact;

/// Captured with nothing but what the capture itself takes.
const IDLE: [&str; 6] = [
    "e1000e-4cpu",
    "microvm-2cpu",
    "virtio-128cpu-16queue",
    "virtio-16cpu-2nic",
    "virtio-32cpu-2node",
    "virtio-8cpu-8queue",
];

/// Captured under load.
const LOADED: &str = "virtio-8cpu-1queue";

fn captured(name: &'static str) -> Host {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(name);
    let file = File::open(folder.join("host.tar.zst")).expect("a captured host");
    let snapshot = Snapshot::read(file).expect("a snapshot");
    let first = Inventory::take(snapshot.first(), Scope::Counters);
    let last = Inventory::take(snapshot.last(), Scope::Counters);
    let before = Counters::take(snapshot.first(), &first);
    let after = Counters::take(snapshot.last(), &last);
    let rates = Rates::between(&before, &after).expect("two moments of one boot").accounted(&last);
    Host { name, model: Model::new(&last), rates, near: &[] }
}

/// A captured machine as it would be with traffic on every queue: their CPUs spend 60 % of their time on it and
/// all of them 30 % in processes. Its settings are what its kernel and driver made of it.
fn under_load(name: &'static str, captured_as: &'static str, near: &'static [&'static str]) -> Host {
    const PACKETS: f64 = 50_000.0;
    let Host { mut model, mut rates, .. } = captured(captured_as);
    // An interrupt that has not come yet may still be shown where it was before its move.
    let queues = model.nics.iter_mut().flat_map(|nic| &mut nic.rx);
    for irq in queues.flat_map(|queue| &mut queue.irqs) {
        let may = irq.affinity.known().expect("read");
        let shown = irq.effective.known().is_some_and(|place| place.difference(may).is_empty());
        if !shown {
            irq.effective = Fact::Known(may.first().into_iter().collect());
        }
    }
    rates.cpus.iter_mut().for_each(|cpu| (cpu.user, cpu.idle) = (0.3, 0.7));
    for nic in model.nics.iter().filter(|nic| nic.kind == NicKind::Device) {
        let traffic = rates.nics.iter_mut().find(|rates| rates.name == nic.name).expect("at both moments");
        traffic.queues = nic.rx.iter().map(|queue| (queue.index, PACKETS)).collect();
        traffic.rx_packets = PACKETS * nic.rx.len() as f64;
        (traffic.rx_bytes, traffic.tx_packets) = (traffic.rx_packets * 500.0, traffic.rx_packets);
        for queue in &nic.rx {
            // What is sent completes where packets come in, as virtio and most drivers place it.
            let own = queue.irqs.iter().chain(nic.tx_irqs(queue.index));
            let place = irq_cpus(queue, &model, &rates).first().expect("it has a place");
            for irq in own {
                rates.irqs.retain(|rates| rates.irq != irq.number);
                let per_cpu = [(place, PACKETS / 10.0)].into();
                rates.irqs.push(IrqRates { irq: irq.number, action: irq.action.clone(), per_cpu });
            }
        }
        for queue in &nic.rx {
            let place = irq_cpus(queue, &model, &rates).first().expect("it has a place");
            let cpu = rates.cpus.iter_mut().find(|cpu| cpu.cpu == place).expect("online");
            (cpu.softirq, cpu.idle, cpu.packets, cpu.net_rx) = (0.6, 0.1, PACKETS, PACKETS / 10.0);
        }
    }
    Host { name, model, rates, near }
}

/// The captured machines, the idle ones first.
pub(super) fn hosts() -> Vec<Host> {
    let as_captured = IDLE.iter().chain([&LOADED]).map(|name| captured(name));
    let placed_well = &["xps-mismatch", "irq-on-wrong-node", "queues-share-a-cpu"];
    let loaded = [
        under_load(
            "virtio-8cpu-8queue under load",
            "virtio-8cpu-8queue",
            &["too-few-queues", "rps-redundant"],
        ),
        under_load("virtio-128cpu-16queue under load", "virtio-128cpu-16queue", placed_well),
        under_load("virtio-16cpu-2nic under load", "virtio-16cpu-2nic", placed_well),
        under_load("e1000e-4cpu under load", "e1000e-4cpu", placed_well),
    ];
    as_captured.chain(loaded).collect()
}

#[test]
fn an_idle_machine_gets_no_finding() {
    for name in IDLE {
        let host = captured(name);
        assert_eq!(diagnose(&host.model, &host.rates), [], "{name}");
    }
}

#[test]
fn every_captured_host_is_in_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts");
    let entries = std::fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").file_name());
    let mut there: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
    there.sort();
    let mut listed: Vec<&str> = IDLE.iter().chain([&LOADED]).copied().collect();
    listed.sort_unstable();
    assert_eq!(there, listed);
}
