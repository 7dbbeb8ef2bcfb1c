//! Where interrupts land, and that nobody moves them from there.

use std::collections::BTreeSet;

use super::placement::{self, Placed};
use crate::model::{Fact, Nic};
use crate::plan::draft::{Draft, What};
use crate::plan::{Target, interrupts, paper};
use crate::units::{CpuId, CpuMask, IrqId, NicName, QueueId};

/// Bytes that irqbalance takes as a list of interrupts; the knob sends no longer one.
const LONGEST_BAN: usize = 255;

/// Each queue's interrupt on a core of its own, near the device; those of transmit queues beside them.
pub(in crate::plan) fn near(draft: &mut Draft<'_>) {
    let placed = placement::near(draft);
    for nic in draft.nics.clone() {
        ban(draft, &nic);
    }
    for Placed { nic, queue, cpu, why } in &placed {
        send(draft, nic, What::Queue(QueueId::rx(*queue)), *cpu, why);
        let why = format!("where the packets of rx-{queue} are taken");
        send(draft, nic, What::Queue(QueueId::tx(*queue)), *cpu, &why);
    }
    for nic in draft.nics.clone() {
        let none = |nic: &Nic| nic.rx.iter().all(|queue| queue.irqs.is_empty());
        if draft.model.nic(&nic).is_some_and(none) {
            draft.leave(format!("irq: the interrupts of {nic} are not known by queue"));
        }
    }
}

/// Moves interrupts away from a CPU that already takes one of the same interface, to the nearest that takes none.
/// All others stay where they are.
pub(in crate::plan) fn apart(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let mut taken = CpuMask::new();
        let mut seen: BTreeSet<IrqId> = BTreeSet::new();
        let mut crowded: Vec<(u32, CpuId)> = Vec::new();
        for queue in &nic.rx {
            let Some(irq) = queue.irqs.first() else { continue };
            // One that has not moved yet will go by itself to where it was sent.
            let pending = match (irq.affinity.known(), irq.effective.known()) {
                (Some(sent), Some(lands)) => sent.intersection(lands).is_empty(),
                _ => false,
            };
            let Some(cpu) = draft.home(queue).filter(|_| seen.insert(irq.number) && !pending) else {
                continue;
            };
            match taken.contains(cpu) {
                true => crowded.push((queue.index, cpu)),
                false => taken.insert(cpu),
            }
        }
        if crowded.is_empty() {
            continue;
        }
        let mut moves = Vec::new();
        for (queue, from) in crowded {
            let Some(cpu) = free_near(draft, from, &taken) else { break };
            taken.insert(cpu);
            moves.push((queue, from, cpu));
        }
        if moves.is_empty() {
            draft.leave(format!("irq: {name} has more queues than there are CPUs for their interrupts"));
            continue;
        }
        ban(draft, &name);
        for (queue, from, cpu) in moves {
            let why = format!("CPU {from} takes another queue's interrupt already");
            send(draft, &name, What::Queue(QueueId::rx(queue)), cpu, &why);
        }
    }
}

/// A usable CPU that takes none of the interrupts, of the same domain if there is one, on a free core if there is one.
fn free_near(draft: &Draft<'_>, from: CpuId, taken: &CpuMask) -> Option<CpuId> {
    let ground = &draft.ground;
    let cores = ground.siblings(taken);
    let near = ground.place(from).map(|(domain, _)| ground.domains[domain].usable.as_slice());
    let all: Vec<CpuId> = ground.in_order().collect();
    let pick = |cpus: &[CpuId], taken: &CpuMask| cpus.iter().copied().find(|cpu| !taken.contains(*cpu));
    let near = near.unwrap_or_default();
    pick(near, &cores.union(taken)).or_else(|| pick(near, taken)).or_else(|| pick(&all, taken))
}

/// The interrupts that are of no queue, to these CPUs.
pub(in crate::plan) fn queueless(draft: &mut Draft<'_>, cpus: &CpuMask, why: &str) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let names: BTreeSet<&str> = nic.queueless_irqs().map(|irq| irq.action.as_str()).collect();
        let targets: Vec<Target> =
            names.into_iter().filter_map(|irq| Target::irq(name.clone(), irq)).collect();
        for target in targets {
            let inside = draft.model.nic(&name).is_some_and(|nic| {
                interrupts(nic, &target)
                    .iter()
                    .all(|irq| irq.affinity.known().is_some_and(|mask| mask.difference(cpus).is_empty()))
            });
            if !inside {
                draft.set("irq_affinity", &name, What::Irq(target), cpus.to_string(), why.to_owned());
            }
        }
    }
}

/// Sends the interrupts of a queue to one CPU, unless they are sent there or there are none.
fn send(draft: &mut Draft<'_>, name: &NicName, what: What, cpu: CpuId, why: &str) {
    let What::Queue(queue) = what else { return };
    let target = Target::Queue { nic: name.clone(), queue };
    let wanted: CpuMask = [cpu].into_iter().collect();
    let Some(nic) = draft.model.nic(name) else { return };
    let irqs = interrupts(nic, &target);
    let unreadable = irqs.iter().any(|irq| match &irq.affinity {
        Fact::Known(_) => false,
        _ => !paper::is_to_come(irq),
    });
    if unreadable {
        return draft.leave(format!("irq: where the interrupt of {target} may go cannot be read"));
    }
    if irqs.iter().any(|irq| irq.affinity.known() != Some(&wanted)) {
        draft.set("irq_affinity", name, What::Queue(queue), wanted.to_string(), why.to_owned());
    }
}

/// Tells irqbalance to leave the interface alone, where it runs and does not do so.
fn ban(draft: &mut Draft<'_>, name: &NicName) {
    let Fact::Known(Some(irqbalance)) = &draft.model.irqbalance else { return };
    let Some(nic) = draft.model.nic(name) else { return };
    let Fact::Known(banned) = &irqbalance.banned_irqs else {
        return draft.leave(
            "irq: irqbalance runs and cannot be told from here to leave the interrupts; stop it first"
                .to_owned(),
        );
    };
    let mut list: BTreeSet<IrqId> = banned.iter().copied().collect();
    let before = list.len();
    // It leaves interrupt 0 alone by itself.
    list.extend(paper::all_irqs(nic).into_iter().filter(|irq| irq.0 != 0));
    if list.len() == before {
        return;
    }
    // Numbers of interrupts to come are not known; they have four digits at most on most machines.
    let length: usize = list.iter().map(|irq| irq.to_string().len().min(4) + 1).sum();
    if length > LONGEST_BAN + 1 {
        return draft.leave(format!(
            "irq: irqbalance takes no list as long as that of the interrupts of {name}; stop it first, or it moves \
             them back"
        ));
    }
    let why = "irqbalance would move the interrupts back".to_owned();
    draft.set("irqbalance", name, What::Whole, "banned".to_owned(), why);
}
