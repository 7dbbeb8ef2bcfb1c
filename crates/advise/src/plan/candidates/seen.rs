//! CPUs where the work of an interface is seen: those that receive its packets now, and those whose programs read them.
//!
//! A virtual interface has no interrupt: its packets are received where they are sent. Counters of the kernel are those of
//! all interfaces, so a CPU that receives answers of the programs here looks like one that receives their requests.

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::evidence::{TRAFFIC, irq_cpus};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, ProcessRates, Rates};

use super::super::machine::Machine;
use super::super::topology::CpuTopology;
use crate::diagnose::processing;

/// Part of an interface's packets below which a CPU does not count as one that receives them.
const SOME: f64 = 0.05;

/// Part of an interface's packets that the receiving CPUs account for.
const MOST: f64 = 0.9;

/// Packets/s sent, as a part of those received, from which those sent may be received on this machine as well.
pub(in crate::plan) const ANSWERS: f64 = 0.25;

/// Part of a CPU's time that programs use where packets are read.
const READS: f64 = 0.05;

/// CPUs that take the packets of an interface first, the one that takes most first.
pub(in crate::plan) fn receiving(
    model: &Model,
    rates: &Rates,
    topology: &CpuTopology,
    nic: &Nic,
    readers: &CpuMask,
) -> Vec<CpuId> {
    let machine = Machine { model, rates, topology };
    let landing = nic.rx.iter().flat_map(|queue| {
        machine.home(queue).into_iter().chain(irq_cpus(queue, model, rates).iter()).collect::<Vec<_>>()
    });
    let mut found: Vec<CpuId> = Vec::new();
    for cpu in landing {
        if !found.contains(&cpu) {
            found.push(cpu);
        }
    }
    if found.is_empty() { without_interrupts(rates, nic, readers) } else { found }
}

/// The same without an interrupt: the CPUs with most of these packets account for the interface's. While it sends nearly as
/// much as it receives, those that receive what it sends are told apart by `readers` only.
fn without_interrupts(rates: &Rates, nic: &Nic, readers: &CpuMask) -> Vec<CpuId> {
    let Some(traffic) = rates.nic(&nic.name).filter(|traffic| traffic.rx_packets >= TRAFFIC) else {
        return Vec::new();
    };
    let masks = nic.rx.iter().filter_map(|queue| queue.rps_cpus.known());
    let masked = masks.fold(CpuMask::new(), |all, mask| all.union(mask));
    // A target's packets were received elsewhere. It runs NET_RX when asked, or when it had to stop before; a CPU that
    // hands packets over runs it to send the interrupts.
    let value = |cpu: &CpuRates| {
        let own = (cpu.net_rx - cpu.rps_ipis - cpu.time_squeeze).max(0.0);
        if masked.contains(cpu.cpu) { own } else { own.max(cpu.packets) }
    };
    let is_known = !readers.is_empty();
    let mut cpus: Vec<(bool, f64, CpuId)> =
        rates.cpus.iter().map(|cpu| (readers.contains(cpu.cpu), value(cpu), cpu.cpu)).collect();
    cpus.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    // Runs are fewer than packets: what all CPUs have is then the sum to explain.
    let counted: f64 = cpus.iter().map(|(_, value, _)| value).sum();
    let all = traffic.rx_packets.min(counted);
    let answers = traffic.tx_packets >= ANSWERS * traffic.rx_packets;
    let mut explained = 0.0;
    let mut found = Vec::new();
    for (_, value, cpu) in cpus {
        if explained >= MOST * all && (is_known || !answers) {
            break;
        }
        if value >= SOME * all {
            explained += value;
            found.push(cpu);
        }
    }
    found
}

/// CPUs whose programs read the packets of an interface: those that run programs with sockets of this network namespace,
/// otherwise those that run any; with a virtual interface the latter may be senders.
pub(in crate::plan) fn readers(model: &Model, rates: &Rates, nic: &Nic) -> CpuMask {
    let online = model.online();
    let known = rates.processes.known().into_iter().flatten();
    let with_sockets: CpuMask = known.filter(|process| has_sockets(process)).flat_map(runs_on).collect();
    let with_sockets = with_sockets.intersection(&online);
    if !with_sockets.is_empty() || nic.kind == NicKind::Virtual {
        return with_sockets;
    }
    rates.cpus.iter().filter(|cpu| processing(cpu) >= READS).map(|cpu| cpu.cpu).collect::<CpuMask>()
}

fn has_sockets(process: &ProcessRates) -> bool {
    process.sockets.known().is_some_and(|sockets| !sockets.held.is_empty())
}

/// CPUs that the threads of a program run on, as far as known.
fn runs_on(process: &ProcessRates) -> Vec<CpuId> {
    let threads: Vec<CpuId> = process.each.iter().filter(|one| one.ran >= READS).map(|one| one.cpu).collect();
    if !threads.is_empty() {
        return threads;
    }
    let ran = process.ran_on.known().filter(|cpus| !cpus.is_empty());
    ran.map_or_else(|| process.stays_on.into_iter().collect(), |cpus| cpus.iter().collect())
}
