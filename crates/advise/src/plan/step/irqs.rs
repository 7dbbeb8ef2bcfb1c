//! CPUs of interrupts, and bans that keep irqbalance from moving them.

use std::collections::{BTreeMap, BTreeSet};

use super::placement::{self, Placed};
use crate::diagnose::{Loaded, crowds};
use crate::plan::draft::Draft;
use crate::plan::machine::{INDISTINCT, grown};
use crate::plan::policy::Variable;
use rxlab_base::units::{CpuId, CpuMask, Direction, IrqId, NicName, QueueId};
use rxlab_path::evidence::{TRAFFIC, has_never_fired, is_counted, queue_packets};
use rxlab_path::model::{Fact, Irq, Model, Nic, RxQueue};
use rxlab_setting::{PlannedSetting, Setting, Target, interrupts, queueless_targets, set_of, simulation};

/// Longest list of interrupts, in bytes, that irqbalance accepts; the knob sends no longer one.
const LONGEST_BAN: usize = 255;

/// Gives each queue's interrupt a core of its own, near the device; those of transmit queues go to the same
/// core.
pub(in crate::plan) fn near(draft: &mut Draft<'_>) {
    if let Some(why) = draft.no_vectors() {
        return draft.leave(Variable::Irq.because(why.to_string()));
    }
    let placed = placement::near(draft);
    for nic in draft.nics.clone() {
        ban(draft, &nic);
    }
    for of_nic in placed.chunk_by(|a, b| a.nic == b.nic) {
        let nic = &of_nic[0].nic;
        for Placed { queue, cpu, why, .. } in of_nic {
            send(draft, nic, QueueId::rx(*queue), &CpuMask::from(*cpu), why);
        }
        let sends = draft.model.nic(nic).map(|nic| nic.tx.iter().map(|tx| tx.index).collect::<Vec<_>>());
        let received = |tx: &u32| of_nic.iter().find(|placed| placed.queue == *tx);
        // With more transmit queues than receive queues, the last have no receive queue of their number: they only stay near.
        let mut turns = of_nic.iter().cycle();
        for tx in sends.unwrap_or_default() {
            let Some(partner) = received(&tx).or_else(|| turns.next()) else { break };
            if received(&tx).is_none() && sends_near(draft, nic, tx, partner.cpu) {
                continue;
            }
            let why = format!("same CPU as rx-{}", partner.queue);
            send(draft, nic, QueueId::tx(tx), &CpuMask::from(partner.cpu), &why);
        }
    }
    for nic in draft.nics.clone() {
        if draft.model.nic(&nic).is_some_and(|nic| nic.rx.iter().all(|queue| queue.irqs.is_empty())) {
            draft.leave(
                Variable::Irq.because(format!("cannot tell which interrupts of {nic} belong to which queue")),
            );
        }
    }
}

/// True if the interrupts of a transmit queue land on usable CPUs of the domain of this CPU.
fn sends_near(draft: &Draft<'_>, name: &NicName, tx: u32, cpu: CpuId) -> bool {
    let topology = &draft.topology;
    let domain = |cpu: CpuId| topology.place(cpu).map(|(domain, _)| domain);
    let lands = |irq: &Irq| irq.effective.known().and_then(CpuMask::first);
    let is_near =
        |irq: &Irq| lands(irq).is_some_and(|own| topology.usable.contains(own) && domain(own) == domain(cpu));
    draft.model.nic(name).is_some_and(|nic| nic.tx_irqs(tx).all(is_near))
}

/// Sends every interrupt of an interface to these CPUs, any of them: it has almost nothing to do.
pub(in crate::plan) fn anywhere_in(draft: &mut Draft<'_>, name: &NicName, cpus: &CpuMask, why: &str) {
    let Some(nic) = draft.model.nic(name) else { return };
    let receive = nic.rx.iter().map(|rx| QueueId::rx(rx.index));
    let queues = receive.chain(nic.tx.iter().map(|tx| QueueId::tx(tx.index)));
    let is_outside = |queue: &QueueId| !are_inside(nic, &Target::queue(name, *queue), cpus);
    let outside: Vec<QueueId> = queues.filter(is_outside).collect();
    if !outside.is_empty() {
        ban(draft, name);
    }
    outside.into_iter().for_each(|queue| send(draft, name, queue, cpus, why));
}

/// An interrupt that should leave its CPU.
struct Leaving {
    nic: NicName,
    queue: u32,
    from: CpuId,
    /// True if its queue is one of several busy ones that fill its CPU.
    is_crowded: bool,
    packets: f64,
    why: String,
}

/// Moves interrupts away from a CPU that already takes one of the planned interfaces, that those of other interfaces
/// keep busy or that are to be isolated, to the nearest that takes none; then those of busy queues away from a CPU
/// that they fill, where every CPU takes some. All others stay where they are.
pub(in crate::plan) fn apart(draft: &mut Draft<'_>) {
    if let Some(why) = draft.no_vectors() {
        return draft.leave(Variable::Irq.because(why.to_string()));
    }
    let (mut taken, mut leaving) = leaving(draft);
    let is_isolated = |draft: &Draft<'_>, leaving: &Leaving| draft.isolated.contains(leaving.from);
    // Those of full CPUs, and the busiest queues, have most to gain from the CPUs that are left.
    leaving.sort_by(|a, b| {
        let first = |irq: &Leaving| (is_isolated(draft, irq), irq.is_crowded);
        first(b).cmp(&first(a)).then(b.packets.total_cmp(&a.packets))
    });
    let machine = draft.machine();
    let (full, others) = (draft.full(), machine.others(&draft.planned().collect::<Vec<_>>()));
    let mut moves = Vec::new();
    let mut stay: BTreeSet<NicName> = BTreeSet::new();
    for irq in leaving {
        let avoided = taken.union(&full);
        let clear = free_near(draft, irq.from, &avoided.union(&others));
        let near = clear.or_else(|| free_near(draft, irq.from, &avoided));
        // Those on CPUs to be isolated leave at any cost: failing all else, to CPUs that take others, in turn.
        let anywhere = || {
            let without = |cpus: &CpuMask| draft.topology.in_order().find(|cpu| !cpus.contains(*cpu));
            let free = without(&avoided).or_else(|| without(&taken));
            free.or_else(|| draft.topology.in_order().nth(moves.len() % draft.topology.usable.len()))
        };
        match near.or_else(|| is_isolated(draft, &irq).then(anywhere).flatten()) {
            Some(cpu) => {
                taken.insert(cpu);
                moves.push((irq, cpu));
            }
            None => drop(stay.insert(irq.nic)),
        }
    }
    for name in draft.nics.clone() {
        moves.iter().filter(|(irq, _)| irq.nic == name).for_each(|(irq, cpu)| {
            ban(draft, &name);
            send(draft, &name, QueueId::rx(irq.queue), &CpuMask::from(*cpu), &irq.why);
        });
    }
    relieve(draft);
    for name in draft.nics.clone() {
        let moves = |planned: &PlannedSetting| {
            planned.set.knob == "irq_affinity" && planned.set.target.nic() == Some(&name)
        };
        if stay.contains(&name) && !draft.settings.iter().any(moves) {
            draft.leave(Variable::Irq.because(format!(
                "interrupts of {name} share a CPU, and no CPU without an interrupt is left"
            )));
        }
    }
}

/// CPUs that interrupts of interfaces that are not planned for keep busy.
fn foreign(draft: &Draft<'_>) -> CpuMask {
    draft.machine().taken(&draft.planned().collect::<Vec<_>>())
}

/// The CPUs of the planned interfaces' interrupts and those that others keep busy, and the interrupts that should
/// leave theirs.
fn leaving(draft: &Draft<'_>) -> (CpuMask, Vec<Leaving>) {
    let mut taken = foreign(draft);
    let crowds = crowds(&draft.model, &draft.rates);
    let mut seen: BTreeSet<IrqId> = BTreeSet::new();
    let mut leaving = Vec::new();
    // Whichever interface is asked for, the same interrupt stays.
    for nic in draft.model.nics.iter().filter(|nic| draft.nics.contains(&nic.name)) {
        for queue in &nic.rx {
            let Some(irq) = queue.irqs.first() else { continue };
            let Some(from) = draft.home(queue).filter(|_| seen.insert(irq.number)) else { continue };
            let why = if draft.isolated.contains(from) {
                format!("CPU {from} is to be isolated")
            } else if is_silent(draft, nic, queue) {
                continue;
            } else if taken.contains(from) {
                format!("CPU {from} already takes another queue's interrupt")
            } else {
                taken.insert(from);
                continue;
            };
            let is_crowded = crowds.iter().filter(|crowd| crowd.cpu == from).any(|crowd| {
                let mut own = crowd.queues.iter().filter(|busy| busy.nic.name == nic.name);
                own.any(|busy| busy.queue.index == queue.index)
            });
            let packets = queue_packets(nic, queue, &draft.rates);
            let nic = nic.name.clone();
            leaving.push(Leaving { nic, queue: queue.index, from, is_crowded, packets, why });
        }
    }
    (taken, leaving)
}

/// True for a queue that is not counted and whose interrupt has never fired, while others of its interface bring traffic.
fn is_silent(draft: &Draft<'_>, nic: &Nic, queue: &RxQueue) -> bool {
    let rates = &draft.rates;
    let has_fired = |other: &RxQueue| !other.irqs.is_empty() && !has_never_fired(other, rates);
    has_never_fired(queue, rates)
        && !is_counted(nic, queue, rates)
        && rates.rx_packets(&nic.name) >= TRAFFIC
        && nic.rx.iter().any(has_fired)
}

/// Moves interrupts of busy queues off the CPUs that they fill, one at a time by the load that it leaves.
fn relieve(draft: &mut Draft<'_>) {
    draft.expect();
    while let Some((nic, queue, from, to)) = relief(draft) {
        let target = Target::queue(&nic, QueueId::rx(queue));
        draft.settings.retain(|planned| planned.set.knob != "irq_affinity" || planned.set.target != target);
        let before = draft.settings.len();
        ban(draft, &nic);
        let why = format!("the queues of CPU {from} fill it, and CPU {to} has room");
        send(draft, &nic, QueueId::rx(queue), &CpuMask::from(to), &why);
        if draft.settings.len() == before {
            break;
        }
        draft.expect();
    }
}

/// The smallest queue of the busiest CPU that has one to give: its interface, number, CPU, and the CPU near it
/// with most room. While there are CPUs that [`apart`] may fill, only these count, and otherwise no CPU may lose the
/// last interrupt that keeps it from doing so. Once interrupts move, a CPU is busy enough if a sample could show it so: the
/// next plan would move another.
fn relief(draft: &Draft<'_>) -> Option<(NicName, u32, CpuId, CpuId)> {
    let topology = &draft.topology;
    let mut homes: BTreeMap<CpuId, BTreeSet<IrqId>> = BTreeMap::new();
    for queue in draft.planned().flat_map(|nic| &nic.rx) {
        if let (Some(cpu), Some(irq)) = (draft.home(queue), queue.irqs.first()) {
            homes.entry(cpu).or_default().insert(irq.number);
        }
    }
    let (full, foreign) = (draft.full(), foreign(draft));
    let is_begun = draft.settings.iter().any(|planned| planned.set.knob == "irq_affinity");
    let rates = if is_begun { grown(&draft.rates, 1.0 + INDISTINCT) } else { draft.rates.clone() };
    crowds(&draft.model, &rates).iter().find_map(|crowd| {
        let (domain, _) = topology.place(crowd.cpu)?;
        let usable: CpuMask =
            topology.domains[domain].usable.iter().copied().filter(|cpu| !full.contains(*cpu)).collect();
        let is_free = |cpu: &CpuId| !homes.contains_key(cpu) && !foreign.contains(*cpu);
        let free: CpuMask = usable.iter().filter(is_free).collect();
        let is_last = !foreign.contains(crowd.cpu) && homes.get(&crowd.cpu).is_none_or(|irqs| irqs.len() < 2);
        if free.is_empty() && is_last {
            return None;
        }
        let near = if free.is_empty() { usable } else { free };
        let core = |cpu: CpuId| topology.siblings(&cpu.into()).union(&cpu.into());
        let of_core = |cpu: CpuId| core(cpu).iter().map(|cpu| crowd.brought_to(cpu)).sum::<f64>();
        let is_planned = |busy: &&Loaded<'_>| {
            draft.nics.contains(&busy.nic.name) && draft.home(busy.queue) == Some(crowd.cpu)
        };
        crowd.queues.iter().rev().filter(is_planned).find_map(|busy| {
            let room = crowd.room_for(busy.packets).intersection(&near);
            let best = room.iter().min_by(|a, b| {
                let own = crowd.brought_to(*a).total_cmp(&crowd.brought_to(*b));
                of_core(*a).total_cmp(&of_core(*b)).then(own)
            });
            best.map(|cpu| (busy.nic.name.clone(), busy.queue.index, crowd.cpu, cpu))
        })
    })
}

/// A usable CPU that is not avoided, of the same domain if that has any, on a free core if possible.
fn free_near(draft: &Draft<'_>, from: CpuId, avoided: &CpuMask) -> Option<CpuId> {
    let topology = &draft.topology;
    let cores = topology.siblings(avoided);
    let near = topology.place(from).map(|(domain, _)| topology.domains[domain].usable.clone());
    let near = near.filter(|near| !near.is_empty()).unwrap_or_else(|| topology.in_order().collect());
    let pick = |avoided: &CpuMask| near.iter().copied().find(|cpu| !avoided.contains(*cpu));
    pick(&cores.union(avoided)).or_else(|| pick(avoided))
}

/// Sends the interrupts that belong to no queue to these CPUs.
pub(in crate::plan) fn queueless(draft: &mut Draft<'_>, cpus: &CpuMask, why: &str) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        for target in queueless_targets(nic) {
            let inside = draft.model.nic(&name).is_some_and(|nic| are_inside(nic, &target, cpus));
            if !inside && is_readable(draft, &name, &target) {
                draft.set("irq_affinity", target, cpus.to_string(), why);
            }
        }
    }
}

/// True if all interrupts of a target are sent to some of these CPUs.
fn are_inside(nic: &Nic, target: &Target, cpus: &CpuMask) -> bool {
    interrupts(nic, target)
        .iter()
        .all(|irq| irq.affinity.known().is_some_and(|mask| mask.difference(cpus).is_empty()))
}

/// True if the affinity of every interrupt of a target can be read; otherwise it is recorded as left alone, as no
/// value could be put back.
fn is_readable(draft: &mut Draft<'_>, name: &NicName, target: &Target) -> bool {
    let irqs = draft.model.nic(name).map(|nic| interrupts(nic, target)).unwrap_or_default();
    let is_known = |irq: &&Irq| matches!(irq.affinity, Fact::Known(_)) || simulation::is_to_come(irq);
    let is_readable = irqs.iter().all(is_known);
    if !is_readable {
        draft.leave(
            Variable::Irq.because(format!("the affinity of the interrupt of {target} cannot be read")),
        );
    }
    is_readable
}

/// Sends the interrupts of a queue to these CPUs, unless they are sent there or there are none.
fn send(draft: &mut Draft<'_>, name: &NicName, queue: QueueId, wanted: &CpuMask, why: &str) {
    let target = Target::queue(name, queue);
    if !is_readable(draft, name, &target) {
        return;
    }
    if has_unknown_mask(draft, name, queue) {
        return draft.leave(
            Variable::Irq.because(format!("the mask of {target} cannot be read, so its load is not known")),
        );
    }
    if !are_sent(&draft.model, &Setting::new("irq_affinity", target.clone(), wanted.to_string())) {
        draft.set("irq_affinity", target, wanted.to_string(), why);
    }
}

/// True if the interrupts of a target are sent where a setting sends them, or there are none.
pub(in crate::plan) fn are_sent(model: &Model, set: &Setting) -> bool {
    let irqs = set.target.nic().and_then(|name| model.nic(name)).map(|nic| interrupts(nic, &set.target));
    let wanted = set_of(&set.value);
    irqs.unwrap_or_default().iter().all(|irq| irq.affinity.known() == wanted.as_ref())
}

/// True for a queue whose packets may be handed on to CPUs that are not known, so that it is not known either what moves with
/// its interrupt; if it lands on a usable CPU.
fn has_unknown_mask(draft: &Draft<'_>, name: &NicName, queue: QueueId) -> bool {
    let nic = draft.model.nic(name).filter(|_| queue.direction == Direction::Rx);
    let rx = nic.and_then(|nic| nic.rx.iter().find(|rx| rx.index == queue.index));
    rx.is_some_and(|rx| {
        matches!(rx.rps_cpus, Fact::Denied(_) | Fact::Broken(_))
            && draft.home(rx).is_none_or(|home| draft.topology.usable.contains(home))
    })
}

/// Tells irqbalance to leave the interface alone, if it runs and does not do so.
fn ban(draft: &mut Draft<'_>, name: &NicName) {
    let Fact::Known(Some(irqbalance)) = &draft.model.irqbalance else { return };
    let Some(nic) = draft.model.nic(name) else { return };
    let mut irqs = nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
    if irqs.all(|irq| irqbalance.leaves(irq.number, &irq.action)) {
        return;
    }
    let Fact::Known(banned) = &irqbalance.banned_irqs else {
        return draft.leave(
            "irq: irqbalance is running and cannot be told from here to leave the interrupts alone; stop it \
             first"
                .to_owned(),
        );
    };
    let mut list: BTreeSet<IrqId> = banned.iter().copied().collect();
    let before = list.len();
    // irqbalance ignores interrupt 0.
    list.extend(simulation::all_irqs(nic).into_iter().filter(|irq| irq.0 != 0));
    if list.len() == before {
        return;
    }
    // Numbers of future interrupts are not known; they have four digits at most on most machines.
    let length: usize = list.iter().map(|irq| irq.to_string().len().min(4) + 1).sum();
    if length > LONGEST_BAN + 1 {
        return draft.leave(Variable::Irq.because(format!(
            "the interrupts of {name} make a list too long for irqbalance; stop it first, or it moves \
             them back"
        )));
    }
    let why = "irqbalance would move the interrupts back";
    draft.set("irqbalance", Target::Nic(name.clone()), "banned", why);
}
