//! CPUs of interrupts, and bans that keep irqbalance from moving them.

use std::collections::BTreeSet;

use super::placement::{self, Placed};
use crate::model::{Fact, Irq, Nic};
use crate::plan::draft::Draft;
use crate::plan::{Target, interrupts, paper, queueless_targets};
use crate::units::{CpuId, CpuMask, IrqId, NicName, QueueId};

/// Longest list of interrupts, in bytes, that irqbalance accepts; the knob sends no longer one.
const LONGEST_BAN: usize = 255;

/// Gives each queue's interrupt a core of its own, near the device; those of transmit queues go to the same
/// core.
pub(in crate::plan) fn near(draft: &mut Draft<'_>) {
    let placed = placement::near(draft);
    for nic in draft.nics.clone() {
        ban(draft, &nic);
    }
    for of_nic in placed.chunk_by(|a, b| a.nic == b.nic) {
        let nic = &of_nic[0].nic;
        for Placed { queue, cpu, why, .. } in of_nic {
            send(draft, nic, QueueId::rx(*queue), &only(*cpu), why);
        }
        let sends = draft.model.nic(nic).map(|nic| nic.tx.iter().map(|tx| tx.index).collect::<Vec<_>>());
        let received = |tx: &u32| of_nic.iter().find(|placed| placed.queue == *tx);
        // With more transmit queues than receive queues, the last have no receive queue of their number.
        let mut turns = of_nic.iter().cycle();
        for tx in sends.unwrap_or_default() {
            let Some(partner) = received(&tx).or_else(|| turns.next()) else { break };
            let why = format!("same CPU as rx-{}", partner.queue);
            send(draft, nic, QueueId::tx(tx), &only(partner.cpu), &why);
        }
    }
    for nic in draft.nics.clone() {
        let none = |nic: &Nic| nic.rx.iter().all(|queue| queue.irqs.is_empty());
        if draft.model.nic(&nic).is_some_and(none) {
            draft.leave(format!("irq: cannot tell which interrupts of {nic} belong to which queue"));
        }
    }
}

/// Sends every interrupt of an interface to these CPUs, any of them: it has almost nothing to do.
pub(in crate::plan) fn anywhere_in(draft: &mut Draft<'_>, name: &NicName, cpus: &CpuMask, why: &str) {
    let Some(nic) = draft.model.nic(name) else { return };
    let receive = nic.rx.iter().map(|rx| QueueId::rx(rx.index));
    let queues: Vec<QueueId> = receive.chain(nic.tx.iter().map(|tx| QueueId::tx(tx.index))).collect();
    let is_inside = |draft: &Draft<'_>, queue: QueueId| {
        draft.model.nic(name).is_some_and(|nic| are_inside(nic, &Target::queue(name, queue), cpus))
    };
    let outside: Vec<QueueId> = queues.into_iter().filter(|queue| !is_inside(draft, *queue)).collect();
    if !outside.is_empty() {
        ban(draft, name);
    }
    outside.into_iter().for_each(|queue| send(draft, name, queue, cpus, why));
}

/// Moves interrupts away from a CPU that already takes one of the planned interfaces or should be kept clean,
/// to the nearest that takes none. All others stay where they are.
pub(in crate::plan) fn apart(draft: &mut Draft<'_>) {
    let mut taken = CpuMask::new();
    let mut seen: BTreeSet<IrqId> = BTreeSet::new();
    let mut crowded: Vec<(NicName, u32, CpuId, String)> = Vec::new();
    for nic in draft.planned() {
        for queue in &nic.rx {
            let Some(irq) = queue.irqs.first() else { continue };
            let Some(cpu) = draft.home(queue).filter(|_| seen.insert(irq.number)) else { continue };
            let why = if draft.clean.contains(cpu) {
                format!("CPU {cpu} is to be kept clean")
            } else if taken.contains(cpu) {
                format!("CPU {cpu} already takes another queue's interrupt")
            } else {
                taken.insert(cpu);
                continue;
            };
            crowded.push((nic.name.clone(), queue.index, cpu, why));
        }
    }
    let others = draft.machine().others(&draft.planned().collect::<Vec<_>>());
    for of_nic in crowded.chunk_by(|a, b| a.0 == b.0) {
        let name = &of_nic[0].0;
        let mut moves = Vec::new();
        for (_, queue, from, why) in of_nic {
            let clear = free_near(draft, *from, &taken.union(&others));
            let Some(cpu) = clear.or_else(|| free_near(draft, *from, &taken)) else { break };
            taken.insert(cpu);
            moves.push((*queue, cpu, why));
        }
        let stay = of_nic[moves.len()..].iter().map(|(_, _, cpu, _)| *cpu);
        let stay: CpuMask = stay.filter(|cpu| draft.clean.contains(*cpu)).collect();
        if !stay.is_empty() {
            draft.leave(format!(
                "irq: no CPU without an interrupt is left for those of {name} on CPU {stay}, which should \
                 be kept clean"
            ));
        } else if moves.is_empty() {
            draft.leave(format!(
                "irq: no CPU without an interrupt is left for those of {name} that share one"
            ));
        }
        if moves.is_empty() {
            continue;
        }
        ban(draft, name);
        for (queue, cpu, why) in moves {
            send(draft, name, QueueId::rx(queue), &only(cpu), why);
        }
    }
}

fn only(cpu: CpuId) -> CpuMask {
    [cpu].into_iter().collect()
}

/// A usable CPU that takes none of the interrupts, of the same domain and on a free core if possible.
fn free_near(draft: &Draft<'_>, from: CpuId, taken: &CpuMask) -> Option<CpuId> {
    let topology = &draft.topology;
    let cores = topology.siblings(taken);
    let near = topology.place(from).map(|(domain, _)| topology.domains[domain].usable.as_slice());
    let all: Vec<CpuId> = topology.in_order().collect();
    let pick = |cpus: &[CpuId], taken: &CpuMask| cpus.iter().copied().find(|cpu| !taken.contains(*cpu));
    let near = near.unwrap_or_default();
    pick(near, &cores.union(taken)).or_else(|| pick(near, taken)).or_else(|| pick(&all, taken))
}

/// Sends the interrupts that belong to no queue to these CPUs.
pub(in crate::plan) fn queueless(draft: &mut Draft<'_>, cpus: &CpuMask, why: &str) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        for target in queueless_targets(nic) {
            let inside = draft.model.nic(&name).is_some_and(|nic| are_inside(nic, &target, cpus));
            if !inside {
                draft.set("irq_affinity", target, cpus.to_string(), why);
            }
        }
    }
}

/// True if all interrupts of a target are sent to some of these CPUs.
fn are_inside(nic: &Nic, target: &Target, cpus: &CpuMask) -> bool {
    let sent = |irq: &&Irq| irq.affinity.known().is_some_and(|mask| mask.difference(cpus).is_empty());
    interrupts(nic, target).iter().all(sent)
}

/// Sends the interrupts of a queue to these CPUs, unless they are sent there or there are none.
fn send(draft: &mut Draft<'_>, name: &NicName, queue: QueueId, wanted: &CpuMask, why: &str) {
    let target = Target::queue(name, queue);
    let Some(nic) = draft.model.nic(name) else { return };
    let irqs = interrupts(nic, &target);
    let unreadable = irqs.iter().any(|irq| match &irq.affinity {
        Fact::Known(_) => false,
        _ => !paper::is_to_come(irq),
    });
    if unreadable {
        return draft.leave(format!("irq: the affinity of the interrupt of {target} cannot be read"));
    }
    if irqs.iter().any(|irq| irq.affinity.known() != Some(wanted)) {
        draft.set("irq_affinity", target, wanted.to_string(), why);
    }
}

/// Tells irqbalance to leave the interface alone, if it runs and does not do so.
fn ban(draft: &mut Draft<'_>, name: &NicName) {
    let Fact::Known(Some(irqbalance)) = &draft.model.irqbalance else { return };
    let Some(nic) = draft.model.nic(name) else { return };
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
    list.extend(paper::all_irqs(nic).into_iter().filter(|irq| irq.0 != 0));
    if list.len() == before {
        return;
    }
    // Numbers of future interrupts are not known; they have four digits at most on most machines.
    let length: usize = list.iter().map(|irq| irq.to_string().len().min(4) + 1).sum();
    if length > LONGEST_BAN + 1 {
        return draft.leave(format!(
            "irq: the interrupts of {name} make a list too long for irqbalance; stop it first, or it moves \
             them back"
        ));
    }
    let why = "irqbalance would move the interrupts back";
    draft.set("irqbalance", Target::Nic(name.clone()), "banned", why);
}
