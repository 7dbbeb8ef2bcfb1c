//! Where the packets of a CPU come from: a queue of the model, or something that it does not have.

use super::{TRAFFIC, arrival_cpus, arrivals, irq_cpu, irq_cpus, packets_without_quiet, received};
use crate::drivers::names_a_queue;
use crate::model::{Fact, IrqRates, Model, Nic, NicKind, Rates, RxQueue};
use rxlab_base::units::{CpuId, CpuMask, NicName};

/// Part of a CPU's packets that a queue must have to be where they come from: a tenth leaves room for packets that pass several
/// interfaces (bridge, veth).
pub const ORIGIN: f64 = 0.1;

/// The receive queue that brings a CPU its work: the busiest one of the interface whose interrupts bring most there, unless one whose
/// interrupts are hidden may bring more, else of the
/// interface whose packets may come there (`lo` never): the only one, or the busiest if its mask has this CPU only or the others
/// cannot account for all that the CPU counts. `None` if it may be another interface.
pub fn carrier<'a>(model: &'a Model, rates: &Rates, cpu: CpuId) -> Option<(&'a Nic, &'a RxQueue)> {
    let here = rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
    let lands = |nic: &Nic, queue: &RxQueue| {
        let known = arrival_cpus(queue, model, rates);
        known.contains(cpu) || known.is_empty() && of_device(nic, rates) == cpu.into()
    };
    let comes = |nic: &Nic, queue: &RxQueue| may_come(model, rates, nic, queue, cpu);
    let landing = bringing(model, rates, &lands);
    // One whose interrupts may land anywhere may bring what those that land here leave.
    let may_land =
        |nic: &Nic, queue: &RxQueue| nic.hides_interrupt(queue) && !lands(nic, queue) && comes(nic, queue);
    let stays = |nic: &Nic, queue: &RxQueue| {
        lands(nic, queue) && queue.rps_cpus.known().is_some_and(CpuMask::is_empty)
    };
    let rest = here - bringing(model, rates, &stays).iter().map(|(_, brings)| brings).sum::<f64>();
    let hidden = bringing(model, rates, &may_land).first().map_or(0.0, |(_, brings)| brings.min(rest));
    let is_known = |brings: f64| brings >= here * ORIGIN && brings >= hidden;
    if let Some((nic, _)) = landing.first().filter(|(_, brings)| is_known(*brings)) {
        return Some((nic, busiest(rates, nic, &lands)?));
    }
    let all = bringing(model, rates, &comes);
    let (nic, brings) = *all.first().filter(|(_, brings)| *brings >= here * ORIGIN)?;
    let queue = busiest(rates, nic, &comes)?;
    let is_other = |other: &Nic| other.name != nic.name;
    let least = if here > 0.0 { here } else { brings } * ORIGIN;
    let is_only = !all.iter().any(|(other, brings)| is_other(other) && *brings >= least);
    // What stands on this interface alone counts the same packets.
    let stands_on_it = |other: &Nic| matches!(model.carriers(other)[..], [below] if below.name == nic.name);
    let of_others =
        |other: &Nic, queue: &RxQueue| is_other(other) && comes(other, queue) && !stands_on_it(other);
    let is_handed = queue.rps_cpus.known() == Some(&cpu.into());
    let is_sure = || is_handed || here - packets_of(model, rates, of_others) >= least;
    let is_from_here =
        || accounts(model, rates, cpu) || is_steered(model, queue, cpu) || !may_be_foreign(model, rates, cpu);
    ((is_only || is_sure()) && is_from_here()).then_some((nic, queue))
}

/// The interfaces that together account for a CPU's packets, the busiest first; empty if they bring less than half of them. If
/// there is no [`carrier`], it is not known which of them does.
pub fn candidates<'a>(model: &'a Model, rates: &Rates, cpu: CpuId) -> Vec<&'a Nic> {
    let all = bringing(model, rates, &|nic, queue| may_come(model, rates, nic, queue, cpu));
    if accounts(model, rates, cpu) { all.into_iter().map(|(nic, _)| nic).collect() } else { Vec::new() }
}

/// The interfaces with such queues, and the packets/s of these, most first; `lo` and those whose packets others have received
/// are left out.
fn bringing<'a>(
    model: &'a Model,
    rates: &Rates,
    is_one: &dyn Fn(&Nic, &RxQueue) -> bool,
) -> Vec<(&'a Nic, f64)> {
    let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback && !counts_again(model, nic));
    // A virtual function brings what the paravirtual device above it counts.
    let is_above = |nic: &Nic| {
        let below = model.carriers(nic).into_iter().map(|nic| rates.rx_packets(&nic.name)).sum::<f64>();
        nic.kind == NicKind::Device && below > 0.0 && below >= rates.rx_packets(&nic.name) / 2.0
    };
    let nics = nics.filter(|nic| !is_above(nic));
    let packets = |nic: &Nic| {
        let own = nic.rx.iter().filter(|queue| is_one(nic, queue));
        own.map(|queue| packets_without_quiet(nic, queue, rates)).sum::<f64>()
    };
    let mut all: Vec<(&Nic, f64)> = nics.map(|nic| (nic, packets(nic))).collect();
    all.retain(|(_, packets)| *packets > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// The busiest of an interface's queues of a kind; of equals, as of those that are not counted, the one that interrupts most, and
/// the first.
fn busiest<'a>(rates: &Rates, nic: &'a Nic, is_one: &dyn Fn(&Nic, &RxQueue) -> bool) -> Option<&'a RxQueue> {
    let packets = |queue: &RxQueue| packets_without_quiet(nic, queue, rates);
    let interrupts = |queue: &RxQueue| {
        let counted = queue.irqs.iter().filter_map(|irq| rates.irq(irq.number));
        counted.flat_map(|irq| irq.per_cpu.values()).sum::<f64>()
    };
    let own = nic.rx.iter().filter(|queue| is_one(nic, queue));
    own.rev().max_by(|a, b| {
        packets(a).total_cmp(&packets(b)).then_with(|| interrupts(a).total_cmp(&interrupts(b)))
    })
}

/// Packets/s of such queues of all interfaces but `lo`. A CPU counts a packet again in each VLAN and bridge, as these do.
fn packets_of(model: &Model, rates: &Rates, is_one: impl Fn(&Nic, &RxQueue) -> bool) -> f64 {
    let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    let queues = nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    queues
        .filter(|(nic, queue)| is_one(nic, queue))
        .map(|(nic, queue)| packets_without_quiet(nic, queue, rates))
        .sum()
}

/// True if packets of a queue may come to a CPU: its interrupt lands there or at an unknown CPU, they may be handed there, or
/// threads poll there.
pub fn may_come(model: &Model, rates: &Rates, nic: &Nic, queue: &RxQueue, cpu: CpuId) -> bool {
    let mut lands = arrival_cpus(queue, model, rates);
    if lands.is_empty() {
        lands = of_device(nic, rates);
    }
    lands.is_empty()
        || lands.contains(cpu)
        || arrivals(queue, model, rates).contains_key(&cpu)
        || is_steered(model, queue, cpu)
        || matches!(queue.rps_cpus, Fact::Denied(_) | Fact::Broken(_))
        || rates.cpu(cpu).is_some_and(|cpu| cpu.napi > 0.0)
}

/// The CPUs where a device's packets arrive although it is not known which interrupt is a queue's: the CPU where all of its
/// interrupts land, or those of [`portals`].
pub fn of_device(nic: &Nic, rates: &Rates) -> CpuMask {
    let lands: Vec<CpuMask> = nic.hidden_irqs().into_iter().map(|irq| irq_cpu(irq, rates)).collect();
    match lands.split_first() {
        Some((one, others)) if one.len() == 1 && others.iter().all(|other| other == one) => one.clone(),
        _ => portals(nic, rates),
    }
}

/// The CPUs where interrupts fire that bring packets of every interface of a device's driver; empty if it has none that
/// fire often.
fn portals(nic: &Nic, rates: &Rates) -> CpuMask {
    let facts = nic.driver_facts();
    let own = rates.irqs.iter().filter(|irq| nic.kind == NicKind::Device && facts.is_portal(&irq.action));
    let fires: Vec<(CpuId, f64)> =
        own.flat_map(|irq| irq.per_cpu.clone()).filter(|(_, rate)| *rate > 0.0).collect();
    let is_often = fires.iter().any(|(_, rate)| *rate >= TRAFFIC);
    fires.into_iter().filter(|_| is_often).map(|(cpu, _)| cpu).collect()
}

/// True if the interfaces here may bring at least half of a CPU's packets.
fn accounts(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    let brought = packets_of(model, rates, |nic, queue| may_come(model, rates, nic, queue, cpu));
    brought >= rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets) / 2.0
}

/// Links that count what the interfaces below them have received.
const AGAIN: [&str; 7] = ["bridge", "bond", "team", "vlan", "macvlan", "ipvlan", "dsa"];

/// True for an interface whose packets come by others of this network namespace.
pub(super) fn counts_again(model: &Model, nic: &Nic) -> bool {
    let is_here = |lower: &NicName| model.nic(lower).is_some();
    nic.stack.kind.as_deref().is_some_and(|kind| AGAIN.contains(&kind)) && nic.stack.lower.iter().any(is_here)
}

/// Times that the stack counts each packet of a device: once more for each link above it that counts what it has received.
pub fn rounds(model: &Model, rates: &Rates, nic: &Nic) -> f64 {
    let own = rates.rx_packets(&nic.name);
    let above = model.nics.iter().filter(|above| counts_again(model, above));
    let again = above.filter_map(|above| {
        let below = model.carriers(above);
        let all: f64 = below.iter().map(|nic| rates.rx_packets(&nic.name)).sum();
        let is_below = below.iter().any(|below| below.name == nic.name);
        is_below.then(|| (rates.rx_packets(&above.name) / all.max(1.0)).min(1.0))
    });
    if own > 0.0 { 1.0 + again.sum::<f64>() } else { 1.0 }
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
    foreign_nic(model, rates, cpu).filter(|_| !accounts(model, rates, cpu))
}

/// True if packets of an unknown queue may come to a CPU: an interrupt that is not known to be a queue's fires often there, or
/// none is counted and it is not known where those of a device with traffic land.
pub fn takes_unknown(model: &Model, rates: &Rates, cpu: CpuId) -> bool {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let mut queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    if rates.irqs.is_empty() {
        queues.any(|(nic, queue)| {
            packets_without_quiet(nic, queue, rates) >= TRAFFIC && irq_cpus(queue, model, rates).is_empty()
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
