//! The transmit queue that each CPU sends through: one whose completions are handled near it.

use crate::plan::draft::Draft;
use crate::plan::policy::Variable;
use rxlab_base::units::{CpuId, CpuMask, QueueId};
use rxlab_path::model::{Fact, Irq, Nic, TxQueue};
use rxlab_setting::{Target, set_text};

/// Gives every CPU one transmit queue of its memory domain, unless it already has one.
pub(in crate::plan) fn near(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        if nic.tx.len() < 2 || nic.tx.iter().any(|tx| tx.xps_cpus == Fact::Unsupported) {
            continue;
        }
        if nic.tx.iter().any(|tx| tx.xps_by_rxq == Fact::Known(true)) {
            draft.leave(Variable::Xps.because(format!(
                "{name} sends by receive queue (xps_rxqs), which takes precedence over CPU masks"
            )));
            continue;
        }
        if nic.tx.iter().any(|tx| !matches!(tx.xps_cpus, Fact::Known(_) | Fact::NotAsked)) {
            draft.leave(Variable::Xps.because(format!("a mask of {name} cannot be read")));
            continue;
        }
        let homes: Vec<Option<(usize, usize)>> = nic.tx.iter().map(|tx| home(draft, nic, tx)).collect();
        if homes.iter().any(Option::is_none) {
            draft.leave(
                Variable::Xps.because(format!("cannot tell which CPUs take the interrupts of {name}")),
            );
            continue;
        }
        let homes: Vec<(usize, usize)> = homes.into_iter().flatten().collect();
        if is_sound(draft, nic, &homes) {
            continue;
        }
        let masks = nic.tx.iter().zip(&homes).zip(share_out(draft, &homes));
        let changed = masks.filter(|((tx, _), mask)| tx.xps_cpus.known() != Some(mask));
        let changed: Vec<(u32, usize, CpuMask)> =
            changed.map(|((tx, (domain, _)), mask)| (tx.index, *domain, mask)).collect();
        for (queue, home, mask) in changed {
            let near: CpuMask = draft.topology.domains[home].all.iter().copied().collect();
            let (has_own, has_far) =
                (!mask.intersection(&near).is_empty(), !mask.difference(&near).is_empty());
            let why = match (has_own, has_far) {
                (false, false) => "every CPU sends through a queue nearer to it",
                (true, false) => "CPUs of the NUMA node where its interrupt is handled",
                (false, true) => "CPUs of NUMA nodes where no queue's interrupt is handled",
                (true, true) => {
                    "CPUs of the NUMA node where its interrupt is handled, and of nodes where no queue's is"
                }
            };
            draft.set("xps_cpus", Target::queue(&name, QueueId::tx(queue)), set_text(&mask), why);
        }
    }
}

/// Domain and place of the CPU that handles completions of a transmit queue: by its own interrupt, otherwise
/// by that of the receive queue of the same number. `None` for an interrupt of no CPU: each takes its own, as with mvneta, which
/// sends through the queues of the sending CPU.
fn home(draft: &Draft<'_>, nic: &Nic, tx: &TxQueue) -> Option<(usize, usize)> {
    let of_no_cpu = |irq: &Irq| irq.effective.known().is_some_and(CpuMask::is_empty);
    let own = nic.tx_irqs(tx.index).next().and_then(|irq| irq.effective.known()).and_then(CpuMask::first);
    let cpu = own.or_else(|| {
        let rx = nic.rx.iter().find(|rx| rx.index == tx.index && !rx.irqs.iter().any(of_no_cpu))?;
        draft.home(rx)
    });
    draft.topology.place(cpu?)
}

/// True if every online CPU has exactly one queue, of its own domain if that has one.
fn is_sound(draft: &Draft<'_>, nic: &Nic, homes: &[(usize, usize)]) -> bool {
    let topology = &draft.topology;
    let mut seen = CpuMask::new();
    for (tx, (domain, _)) in nic.tx.iter().zip(homes) {
        let Fact::Known(mask) = &tx.xps_cpus else { return false };
        if !seen.intersection(mask).is_empty() {
            return false;
        }
        seen = seen.union(mask);
        let strange = |cpu: CpuId| {
            let own = topology.place(cpu).map(|(own, _)| own);
            own.is_some_and(|own| own != *domain && homes.iter().any(|(other, _)| *other == own))
        };
        if mask.iter().any(strange) {
            return false;
        }
    }
    topology.online.difference(&seen).is_empty()
}

/// Equal parts of each domain to the queues in it; of the domains without any to the queues that are left, or else to all.
fn share_out(draft: &Draft<'_>, homes: &[(usize, usize)]) -> Vec<CpuMask> {
    let mut masks = vec![CpuMask::new(); homes.len()];
    let domains = draft.topology.domains.iter().enumerate();
    let (with, without): (Vec<_>, Vec<_>) =
        domains.partition(|(at, _)| homes.iter().any(|(domain, _)| domain == at));
    for (at, domain) in with.into_iter().chain(without) {
        let all = || 0..homes.len();
        let own: Vec<usize> = all().filter(|queue| homes[*queue].0 == at).collect();
        let unused: Vec<usize> = all().filter(|queue| masks[*queue].is_empty()).collect();
        let first = [own, unused, all().collect()].into_iter().find(|queues| !queues.is_empty());
        let mut queues = first.unwrap_or_default();
        queues.sort_by_key(|queue| homes[*queue]);
        for (turn, cpu) in domain.all.iter().enumerate() {
            masks[queues[turn * queues.len() / domain.all.len()]].insert(*cpu);
        }
    }
    masks
}
