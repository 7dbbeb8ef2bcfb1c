//! Where the packets of a CPU come from: a queue of the model, or something that it does not have.

use super::{TRAFFIC, irq_cpus, queue_packets, received};
use crate::drivers::names_a_queue;
use crate::model::{Fact, IrqRates, Model, Nic, NicKind, Rates, RxQueue};
use rxlab_base::units::CpuId;

/// Part of a CPU's packets that a queue must have to be where they come from: a tenth leaves room for packets that pass several
/// interfaces (bridge, veth).
pub const ORIGIN: f64 = 0.1;

/// The receive queue that brings a CPU its work: the busiest one of the interface whose interrupts bring most there, else the
/// busiest queue of all (`lo` never). Queues whose interrupts are unknown count together: any of them may come here.
pub fn carrier<'a>(model: &'a Model, rates: &Rates, cpu: CpuId) -> Option<(&'a Nic, &'a RxQueue)> {
    let queues = || {
        let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback && !counts_again(model, nic));
        nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)))
            .filter(|(nic, queue)| queue_packets(nic, queue, rates) > 0.0)
    };
    let packets = |(nic, queue): &(&Nic, &RxQueue)| queue_packets(nic, queue, rates);
    let landing = queues().filter(|(_, queue)| irq_cpus(queue, model, rates).contains(cpu));
    // `max_by` keeps the last of equals; reversed, the first queue wins.
    let busiest = |found: Vec<(&'a Nic, &'a RxQueue)>| {
        found.into_iter().rev().max_by(|a, b| packets(a).total_cmp(&packets(b)))
    };
    let landing: Vec<(&Nic, &RxQueue)> = landing.collect();
    let brought = |nic: &Nic| landing.iter().filter(|(of, _)| of.name == nic.name).map(packets).sum::<f64>();
    let most = landing.iter().rev().max_by(|a, b| brought(a.0).total_cmp(&brought(b.0)));
    let here = rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
    let most = most.filter(|(nic, _)| brought(nic) >= here * ORIGIN);
    let of_most = landing.iter().filter(|(nic, _)| most.is_some_and(|(most, _)| most.name == nic.name));
    busiest(of_most.copied().collect()).or_else(|| {
        let is_unknown =
            |queue: &RxQueue| irq_cpus(queue, model, rates).is_empty() && queue.channel_cpu.is_none();
        let may_bring = |found: &(&'a Nic, &'a RxQueue)| {
            let (nic, queue) = *found;
            let sum = |is_one: &dyn Fn(&RxQueue) -> bool| {
                nic.rx.iter().filter(|queue| is_one(queue)).map(|queue| packets(&(nic, queue))).sum()
            };
            let is_handed = |queue: &RxQueue| {
                queue.rps_cpus.known().is_some_and(|mask| mask.len() == 1 && mask.contains(cpu))
            };
            if is_unknown(queue) {
                sum(&is_unknown)
            } else if is_handed(queue) {
                sum(&is_handed)
            } else {
                packets(found)
            }
        };
        let all: Vec<(f64, (&Nic, &RxQueue))> = queues().map(|found| (may_bring(&found), found)).collect();
        let most = all.iter().map(|(brings, _)| *brings).fold(0.0, f64::max);
        let first = all.into_iter().filter(|(brings, _)| *brings == most).map(|(_, found)| found).collect();
        let busiest = busiest(first).filter(|_| most >= here * ORIGIN);
        let is_less = |_: &(&Nic, &RxQueue)| most < here / 2.0;
        busiest.filter(|found| {
            !is_less(found) || is_steered(model, found.1, cpu) || !may_be_foreign(model, rates, cpu)
        })
    })
}

/// Links that count what the devices below them have received.
const AGAIN: [&str; 6] = ["bridge", "bond", "team", "vlan", "macvlan", "ipvlan"];

/// True for an interface whose packets come by devices below it.
fn counts_again(model: &Model, nic: &Nic) -> bool {
    nic.stack.kind.as_deref().is_some_and(|kind| AGAIN.contains(&kind)) && !model.carriers(nic).is_empty()
}

/// True if RPS or RFS may hand packets of a queue to this CPU.
fn is_steered(model: &Model, queue: &RxQueue, cpu: CpuId) -> bool {
    let tables = [queue.rps_flow_cnt.known(), model.rps_sock_flow_entries.known()];
    let by_reader = tables.iter().all(|table| table.is_some_and(|entries| *entries > 0));
    by_reader || queue.rps_cpus.known().is_some_and(|mask| mask.contains(cpu))
}

/// The interrupt of a device that fires most on a CPU, with its rate there, if it fires often and belongs to no interface of
/// the model: /proc/interrupts has those of every network namespace.
pub fn foreign<'a>(model: &Model, rates: &'a Rates, cpu: CpuId) -> Option<(&'a IrqRates, f64)> {
    foreign_of(model, rates, cpu, |_| true)
}

/// The same for an interrupt with the name of a NIC's queue: those of disks are no interface's either.
pub fn foreign_nic<'a>(model: &Model, rates: &'a Rates, cpu: CpuId) -> Option<(&'a IrqRates, f64)> {
    foreign_of(model, rates, cpu, |irq| irq.action.split(", ").any(names_a_queue))
}

fn foreign_of<'a>(
    model: &Model,
    rates: &'a Rates,
    cpu: CpuId,
    counts: impl Fn(&IrqRates) -> bool,
) -> Option<(&'a IrqRates, f64)> {
    let own = |irq: &IrqRates| {
        let mut others = model.nics.iter().flat_map(|nic| &nic.other_irqs);
        let mut devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
        is_of_a_queue(model, irq)
            || others.any(|own| own.number == irq.irq)
            // Some drivers give an interrupt their own name: `mvneta`.
            || devices.any(|nic| {
                nic.driver_facts().is_portal(&irq.action) || nic.driver.as_deref() == Some(irq.action.as_str())
            })
    };
    // A device's interrupt goes to one CPU at a time: what fires on several is a timer, or the like.
    let is_device = |irq: &IrqRates| irq.per_cpu.values().filter(|rate| **rate >= TRAFFIC).count() == 1;
    let often = often(rates, cpu).filter(|(irq, _)| counts(irq) && is_device(irq) && !own(irq));
    often.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// True if the packets of a CPU may be those of a device in another network namespace: an unknown interrupt fires often there or,
/// where interrupts cannot be seen, the interfaces here receive less than half as many.
pub fn may_be_foreign(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    if matches!(model.interrupts, Fact::Denied(_) | Fact::Broken(_)) {
        return received(model, rates) < rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets) / 2.0;
    }
    foreign(model, rates, cpu).is_some()
}

/// The same for an interrupt that is a NIC's of another network namespace, as far as that can be inferred: it has the name of
/// a queue's, and the interfaces here bring less than half of the CPU's packets.
pub fn of_another_namespace<'a>(model: &Model, rates: &'a Rates, cpu: CpuId) -> Option<(&'a IrqRates, f64)> {
    let found = foreign_nic(model, rates, cpu)?;
    let may_come = |queue: &RxQueue| {
        let lands = irq_cpus(queue, model, rates);
        lands.is_empty() || lands.contains(cpu) || is_steered(model, queue, cpu)
    };
    let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    let queues = nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    let brought: f64 = queues
        .filter(|(_, queue)| may_come(queue))
        .map(|(nic, queue)| queue_packets(nic, queue, rates))
        .sum();
    let accounted = brought >= rates.cpu(cpu)?.packets / 2.0;
    (!accounted).then_some(found)
}

/// True if packets of an unknown queue may come to a CPU: an interrupt that is not known to be a queue's fires often there, or
/// none is counted and it is not known where those of a device with traffic land.
pub fn takes_unknown(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let mut queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    if rates.irqs.is_empty() {
        queues.any(|(nic, queue)| {
            queue_packets(nic, queue, rates) >= TRAFFIC && irq_cpus(queue, model, rates).is_empty()
        })
    } else {
        often(rates, cpu).any(|(irq, _)| !is_of_a_queue(model, irq))
    }
}

/// The interrupts that fire often on a CPU, with their rates there.
fn often(rates: &Rates, cpu: CpuId) -> impl Iterator<Item = (&IrqRates, f64)> {
    let here = rates.irqs.iter().filter_map(move |irq| Some((irq, *irq.per_cpu.get(&cpu)?)));
    here.filter(|(_, rate)| *rate >= TRAFFIC)
}

fn is_of_a_queue(model: &Model, irq: &IrqRates) -> bool {
    let queues = model.nics.iter().flat_map(|nic| &nic.rx);
    queues.flat_map(|queue| &queue.irqs).any(|own| own.number == irq.irq)
}
