//! The machines of fixtures/hosts, between their two samples.

#![allow(clippy::disallowed_methods)] // Opens the captured hosts.

use std::fs::File;
use std::path::Path;

use super::{Host, moves, receives};
use crate::diagnose::diagnose;
use rxlab_base::units::{CpuId, Fact};
use rxlab_path::evidence::irq_cpus;
use rxlab_path::model::{IrqRates, Model, NicKind, Rates};
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_record::snapshot::Snapshot;

/// Captured with no load but that of the capture itself.
const IDLE: [&str; 6] = [
    "e1000e-4cpu",
    "microvm-2cpu",
    "virtio-128cpu-16queue",
    "virtio-16cpu-2nic",
    "virtio-32cpu-2node",
    "virtio-8cpu-8queue",
];

/// The host that was captured under load.
const LOADED: &str = "virtio-8cpu-1queue";

fn captured(name: &'static str) -> Host {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(name);
    let file = File::open(folder.join("host.tar.zst")).expect("a captured host");
    let snapshot = Snapshot::read(file).expect("a snapshot");
    let first = Inventory::take(snapshot.first(), Scope::Counters);
    let last = Inventory::take(snapshot.last(), Scope::Counters);
    let before = Counters::take(snapshot.first(), &first);
    let after = Counters::take(snapshot.last(), &last);
    let rates = Rates::between(&before, &after).expect("two moments of one boot").accounted(&last);
    Host { name, model: Model::new(&last), rates, near: &[], missing: Vec::new() }
}

/// A captured machine with assumed traffic on every queue: its CPUs spend 60 % of their time on it and all
/// CPUs 30 % in processes. Its settings are those of its kernel and driver.
fn under_load(name: &'static str, captured_as: &'static str, near: &'static [&'static str]) -> Host {
    const PACKETS: f64 = 50_000.0;
    let Host { mut model, mut rates, .. } = captured(captured_as);
    // An interrupt that has not fired yet may still be shown on its old CPU.
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
            // Transmit completions land on the CPU of the receive queue, as with virtio and most drivers.
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
    Host { name, model, rates, near, missing: Vec::new() }
}

/// The captured machines, idle ones first.
pub(super) fn hosts() -> Vec<Host> {
    let as_captured = IDLE.iter().chain([&LOADED]).map(|name| captured(name));
    let loaded = [
        under_load(
            "virtio-8cpu-8queue under load",
            "virtio-8cpu-8queue",
            &["too-few-queues", "rps-redundant"],
        )
        .lacks("rps-redundant", "RPS hands packets on", |model, rates| {
            for queue in &mut model.nics[0].rx {
                queue.rps_cpus = Fact::Known("0-7".parse().expect("a list"));
            }
            rates.cpus.iter_mut().for_each(|cpu| cpu.rps_ipis = 5e3);
        }),
        under_load(
            "virtio-128cpu-16queue under load",
            "virtio-128cpu-16queue",
            &["xps-mismatch", "queues-share-a-cpu", "one-core-hotspot"],
        )
        .lacks("xps-mismatch", "rx-0 and its completions move to node 3", |model, rates| {
            moves(model, rates, 0, 100);
            let sent: Vec<_> = model.nics[0].tx_irqs(0).map(|irq| irq.number).collect();
            let own = rates.irqs.iter_mut().filter(|rates| sent.contains(&rates.irq));
            own.for_each(|rates| rates.per_cpu = [(CpuId(100), 5e3)].into());
        })
        .lacks("queues-share-a-cpu", "rx-1 moves to the CPU of rx-0", joins)
        .lacks("one-core-hotspot", "one of the 16 is at 95 % and the others at 30 %", |_, rates| {
            let busy: Vec<usize> =
                (0..rates.cpus.len()).filter(|cpu| rates.cpus[*cpu].softirq > 0.5).collect();
            busy.iter().for_each(|cpu| receives(rates, *cpu, 0.3));
            receives(rates, busy[3], 0.95);
        }),
        under_load(
            "virtio-16cpu-2nic under load",
            "virtio-16cpu-2nic",
            &["xps-mismatch", "irq-on-wrong-node", "queues-share-a-cpu"],
        )
        .lacks("irq-on-wrong-node", "eth0's queues all land on node 1", |model, rates| {
            moves(model, rates, 0, 14);
            moves(model, rates, 1, 15);
            receives(rates, 14, 0.6);
            receives(rates, 15, 0.6);
        })
        .lacks("xps-mismatch", "the CPUs of tx-0 are on node 1", |model, _| {
            model.nics[0].tx[0].xps_cpus = Fact::Known("8-11".parse().expect("a list"));
        })
        .lacks("queues-share-a-cpu", "rx-1 moves to the CPU of rx-0", joins),
        under_load("e1000e-4cpu under load", "e1000e-4cpu", &[]),
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let entries = std::fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").file_name());
    let mut there: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
    there.sort();
    let mut listed: Vec<&str> = IDLE.iter().chain([&LOADED]).copied().collect();
    listed.sort_unstable();
    assert_eq!(there, listed);
}

/// The interrupt of eth0/rx-1 moves to the CPU of rx-0.
fn joins(model: &mut Model, rates: &mut Rates) {
    let first = irq_cpus(&model.nics[0].rx[0], model, rates).first().expect("it has a place");
    moves(model, rates, 1, first.0);
}
