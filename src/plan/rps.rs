//! Which CPUs each receive queue should hand its packets to.
//!
//! The rules, from kernel documentation (networking/scaling) and field case C: CPUs of the memory
//! domain of the queue's interrupt, never the CPU that takes the interrupt, at high packet rates
//! not its hyper-threads either, and no CPU for two queues while there are enough.

use std::collections::BTreeMap;

use super::ground::usable;
use super::{PlannedSetting, Setting, Target};
use crate::diagnose::evidence::{TRAFFIC, irq_cpus, queue_packets, receive_time};
use crate::model::{Model, Nic, NicKind, Rates, RxQueue};
use crate::units::{CpuId, CpuMask, QueueId};

/// Packets a second on one queue from which the hyper-threads of the interrupt's CPU are left out
/// too: at 10 to 20 us between packets a core is interrupted all the time.
pub(super) const HIGH_RATE: f64 = 50_000.0;

/// Receive time of the interrupt's CPU that counts as a high rate whatever the packets cost.
pub(super) const HIGH_LOAD: f64 = 0.5;

/// Receive time from which a CPU of a hand-made mask is drowning, so that the mask is no longer
/// left alone.
const DROWNING: f64 = 0.8;

/// The masks that an interface should have and has not, by queue; empty when all are sound.
pub(super) fn masks(model: &Model, rates: &Rates, nic: &Nic) -> BTreeMap<u32, CpuMask> {
    let around = Around::of(nic, model, rates);
    let candidates: BTreeMap<u32, CpuMask> =
        nic.rx.iter().map(|queue| (queue.index, candidates(model, rates, nic, queue, &around))).collect();
    let ideal = share_out(nic, &candidates);
    let wanted = nic.rx.iter().filter_map(|queue| {
        let mask = ideal.get(&queue.index).filter(|mask| !mask.is_empty())?;
        let current = queue.rps_cpus.known()?;
        let may = &candidates[&queue.index];
        (!sound(model, rates, queue, current, mask, may)).then(|| (queue.index, mask.clone()))
    });
    wanted.collect()
}

/// The settings for `masks`, each with its reason.
pub(super) fn settings(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    masks: &BTreeMap<u32, CpuMask>,
) -> Vec<PlannedSetting> {
    let queues = nic.rx.iter().filter_map(|queue| masks.get(&queue.index).map(|mask| (queue, mask)));
    queues
        .map(|(queue, mask)| {
            let set = Setting {
                knob: "rps".to_owned(),
                target: Target::Queue { nic: nic.name.clone(), queue: QueueId::rx(queue.index) },
                value: mask.to_string(),
            };
            PlannedSetting::new(set, reason(model, rates, nic, queue), Some(nic.address.clone()))
        })
        .collect()
}

fn reason(model: &Model, rates: &Rates, nic: &Nic, queue: &RxQueue) -> String {
    let irq = irq_cpus(queue, model, rates);
    if !irq.is_empty() {
        return format!("CPUs of the same memory domain without CPU {irq}, which takes the interrupt");
    }
    let interrupt = match nic.kind {
        NicKind::Device => "the interrupt's CPU is not known",
        NicKind::Virtual | NicKind::Loopback => "no interrupt",
    };
    match hottest(rates) {
        Some(cpu) => format!("{interrupt}: every CPU without CPU {cpu}, where the packets are received now"),
        None => format!("{interrupt}: every CPU"),
    }
}

/// The CPU that does most of the receive work: by packets, which a short interval cannot blur.
pub(super) fn hottest(rates: &Rates) -> Option<CpuId> {
    rates.hottest(|cpu| cpu.packets).or_else(|| rates.hottest(receive_time)).map(|(cpu, _)| cpu)
}

/// What is the same for all queues of an interface: gathered once, as a machine may have a thousand CPUs.
struct Around {
    usable: CpuMask,
    /// CPUs that take interrupts of this interface.
    irqs: CpuMask,
    /// All threads of their cores.
    cores: CpuMask,
    /// CPUs that take interrupts of other interfaces with traffic.
    others: CpuMask,
}

impl Around {
    fn of(nic: &Nic, model: &Model, rates: &Rates) -> Self {
        let irqs = irqs_of(nic, model, rates);
        let others = model.nics.iter().filter(|other| other.name != nic.name);
        let has_traffic =
            |other: &&Nic| rates.nic(&other.name).is_some_and(|rates| rates.rx_packets >= TRAFFIC);
        let others = others.filter(has_traffic).map(|other| irqs_of(other, model, rates));
        Self {
            usable: usable(model),
            cores: siblings(model, &irqs),
            irqs,
            others: others.fold(CpuMask::new(), |a, b| a.union(&b)),
        }
    }
}

/// Every CPU that may take packets of this queue.
fn candidates(model: &Model, rates: &Rates, nic: &Nic, queue: &RxQueue, around: &Around) -> CpuMask {
    let mine = irq_cpus(queue, model, rates);
    if mine.is_empty() {
        return match hottest(rates) {
            Some(cpu) => around.usable.difference(&[cpu].into_iter().collect()),
            None => around.usable.clone(),
        };
    }
    let rest = domain(model, &around.usable, &mine).difference(&around.irqs);
    // Each further exclusion gives way when it would leave nothing.
    let without = |from: CpuMask, what: &CpuMask| {
        let left = from.difference(what);
        if left.is_empty() { from } else { left }
    };
    let load = mine.iter().filter_map(|cpu| rates.cpu(cpu)).map(receive_time).fold(0.0, f64::max);
    let rest = if queue_packets(nic, queue, rates) >= HIGH_RATE || load >= HIGH_LOAD {
        without(rest, &around.cores)
    } else {
        rest
    };
    without(rest, &around.others)
}

fn irqs_of(nic: &Nic, model: &Model, rates: &Rates) -> CpuMask {
    nic.rx.iter().map(|queue| irq_cpus(queue, model, rates)).fold(CpuMask::new(), |a, b| a.union(&b))
}

fn siblings(model: &Model, cpus: &CpuMask) -> CpuMask {
    cpus.iter().filter_map(|cpu| model.cpu(cpu)).fold(CpuMask::new(), |all, cpu| all.union(&cpu.siblings))
}

/// The usable CPUs near `irq`: its NUMA node, else its last-level cache, else all. A domain without
/// a second CPU (each CPU of some virtual machines claims a cache of its own) is no domain.
fn domain(model: &Model, usable: &CpuMask, irq: &CpuMask) -> CpuMask {
    let Some(cpu) = irq.first().and_then(|cpu| model.cpu(cpu)) else { return usable.clone() };
    let node = cpu.node.map(|node| {
        model.cpus.iter().filter(|other| other.node == Some(node)).map(|other| other.id).collect::<CpuMask>()
    });
    let near = [node.unwrap_or_default(), cpu.l3.clone()].map(|near| near.intersection(usable));
    near.into_iter().find(|near| !near.difference(irq).is_empty()).unwrap_or_else(|| usable.clone())
}

/// Gives each queue its part of what it may use. Queues of a device with the same candidates get
/// disjoint parts; when there are fewer CPUs than queues they get none, as RPS would crowd the work
/// of many CPUs onto few. Queues without interrupts share: nothing tells them apart.
fn share_out(nic: &Nic, candidates: &BTreeMap<u32, CpuMask>) -> BTreeMap<u32, CpuMask> {
    if nic.kind != NicKind::Device || nic.rx.iter().all(|queue| queue.irqs.is_empty()) {
        return candidates.clone();
    }
    let mut groups: Vec<(&CpuMask, Vec<u32>)> = Vec::new();
    for (queue, mask) in candidates {
        match groups.iter_mut().find(|(other, _)| *other == mask) {
            Some((_, queues)) => queues.push(*queue),
            None => groups.push((mask, vec![*queue])),
        }
    }
    let mut shares = BTreeMap::new();
    for (mask, queues) in groups {
        let cpus: Vec<CpuId> = mask.iter().collect();
        if cpus.len() < queues.len() {
            continue;
        }
        for (turn, queue) in queues.iter().enumerate() {
            let part = |n: usize| n * cpus.len() / queues.len();
            shares.insert(*queue, cpus[part(turn)..part(turn + 1)].iter().copied().collect());
        }
    }
    shares
}

/// Whether a mask can stay: it has all that it should have, or somebody chose a part of what is
/// allowed (fewer CPUs won in field case C) and no CPU of it drowns.
fn sound(
    model: &Model,
    rates: &Rates,
    queue: &RxQueue,
    current: &CpuMask,
    ideal: &CpuMask,
    may: &CpuMask,
) -> bool {
    if current.is_empty() {
        return false;
    }
    if irq_cpus(queue, model, rates).is_empty() {
        // Which CPU receives depends on where the senders run and on the mask itself: once one
        // CPU is left out, turning the mask round gains nothing.
        return current.difference(&usable(model)).is_empty() && current.len() == ideal.len();
    }
    let drowns = |cpu| rates.cpu(cpu).is_some_and(|cpu| receive_time(cpu) >= DROWNING);
    let allowed = current.difference(may).is_empty();
    allowed && (ideal.difference(current).is_empty() || !current.iter().any(drowns))
}
