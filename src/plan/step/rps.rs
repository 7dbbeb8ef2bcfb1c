//! Which CPUs each queue hands its packets to, for all interfaces at once.
//!
//! The rules of `plan::rps` for any number of interfaces: CPUs of the memory domain of the interrupt, never one that
//! takes an interrupt itself, at high packet rates none of its core, and no CPU for two queues.

use crate::diagnose::evidence::{TRAFFIC, queue_packets, receive_time};
use crate::model::{Nic, NicKind};
use crate::plan::draft::{Draft, What};
use crate::plan::rps::{HIGH_LOAD, HIGH_RATE};
use crate::units::{CpuId, CpuMask, NicName, QueueId};

/// A queue and the CPU that takes its interrupt.
struct Home {
    nic: NicName,
    queue: u32,
    cpu: CpuId,
    /// Where that CPU stands in its domain.
    place: usize,
    is_busy: bool,
}

/// Gives each queue a part of the CPUs around its interrupt that is its alone; RPS off where there is none for each.
pub(in crate::plan) fn near(draft: &mut Draft<'_>) {
    redundant(draft);
    let ground = &draft.ground;
    let mut groups: Vec<Vec<Home>> = ground.domains.iter().map(|_| Vec::new()).collect();
    let mut homeless = Vec::new();
    let sharing: Vec<&Nic> = draft.planned().filter(|nic| !draft.has_queue_for_each_cpu(nic)).collect();
    for nic in &sharing {
        for queue in &nic.rx {
            let home = draft.home(queue);
            let Some((cpu, (domain, place))) = home.and_then(|cpu| Some((cpu, ground.place(cpu)?))) else {
                homeless.push(format!(
                    "rps: which CPU takes the interrupt of {}/rx-{} is not known",
                    nic.name, queue.index
                ));
                continue;
            };
            let load = draft.rates.cpu(cpu).map_or(0.0, receive_time);
            let is_busy = load >= HIGH_LOAD || queue_packets(nic, queue, draft.rates) >= HIGH_RATE;
            groups[domain].push(Home { nic: nic.name.clone(), queue: queue.index, cpu, place, is_busy });
        }
    }
    // Interrupts of other interfaces are kept clear of while enough is left.
    let others = others(draft, &sharing);
    let mut wanted: Vec<(Home, CpuMask, String)> = Vec::new();
    for (domain, mut homes) in ground.domains.iter().zip(groups) {
        if homes.is_empty() {
            continue;
        }
        homes.sort_by_key(|home| home.place);
        let irqs: CpuMask = homes.iter().map(|home| home.cpu).collect();
        let mut free: Vec<CpuId> = domain.usable.iter().copied().filter(|cpu| !irqs.contains(*cpu)).collect();
        let cores = match homes.iter().any(|home| home.is_busy) {
            true => ground.siblings(&irqs),
            false => CpuMask::new(),
        };
        let mut without = Vec::new();
        for (soft, what) in [(&cores, "their cores"), (&others, "other interfaces' interrupts")] {
            let rest: Vec<CpuId> = free.iter().copied().filter(|cpu| !soft.contains(*cpu)).collect();
            if rest.len() < free.len() && rest.len() >= homes.len() {
                free = rest;
                without.push(what);
            }
        }
        let count = homes.len();
        let place = domain.node.map_or("the CPUs".to_owned(), |node| format!("the CPUs of node {node}"));
        for (turn, home) in homes.into_iter().enumerate() {
            let part = &free[turn * free.len() / count..(turn + 1) * free.len() / count];
            let width = draft.cpus_per_queue.unwrap_or(usize::MAX);
            // Fewer CPUs than queues: work of many would be crowded onto few.
            let mask: CpuMask = match free.len() >= count {
                true => part.iter().copied().take(width).collect(),
                false => CpuMask::new(),
            };
            let why = match mask.is_empty() {
                true => {
                    format!("{place} all take interrupts: there is none for each queue to hand packets to")
                }
                false => {
                    let all = std::iter::once("interrupts").chain(without.iter().copied());
                    let all: Vec<&str> = all.collect();
                    let alone = if count > 1 { ", for this queue alone" } else { "" };
                    format!("{place} without those of {}{alone}", all.join(" and "))
                }
            };
            wanted.push((home, mask, why));
        }
    }
    // Queues of one interface together, whatever the order of domains.
    wanted.sort_by(|(a, ..), (b, ..)| (&a.nic, a.queue).cmp(&(&b.nic, b.queue)));
    draft.reasons.extend(homeless);
    for (home, mask, why) in wanted {
        give(draft, &home.nic, home.queue, &mask, why);
    }
}

/// Switches RPS off where an interface has a queue for every CPU.
pub(in crate::plan) fn redundant(draft: &mut Draft<'_>) {
    let full: Vec<&Nic> = draft.planned().filter(|nic| draft.has_queue_for_each_cpu(nic)).collect();
    let queues: Vec<(NicName, u32)> =
        full.iter().flat_map(|nic| nic.rx.iter().map(|queue| (nic.name.clone(), queue.index))).collect();
    for (nic, queue) in queues {
        give(draft, &nic, queue, &CpuMask::new(), "every CPU has a queue of its own".to_owned());
    }
}

/// Switches RPS off on interfaces with few packets, where the hand-over only costs time; [`near`] for all others.
pub(in crate::plan) fn where_needed(draft: &mut Draft<'_>) {
    let busy = |nic: &Nic| nic.rx.iter().any(|queue| queue_packets(nic, queue, draft.rates) >= HIGH_RATE);
    let (busy, calm): (Vec<&Nic>, Vec<&Nic>) = draft.planned().partition(|nic| busy(nic));
    let queues: Vec<(NicName, u32)> =
        calm.iter().flat_map(|nic| nic.rx.iter().map(|queue| (nic.name.clone(), queue.index))).collect();
    let busy: Vec<NicName> = busy.iter().map(|nic| nic.name.clone()).collect();
    let all = std::mem::replace(&mut draft.nics, busy);
    near(draft);
    draft.nics = all;
    for (nic, queue) in queues {
        let why = "few packets: handing them to another CPU only takes time".to_owned();
        give(draft, &nic, queue, &CpuMask::new(), why);
    }
}

/// CPUs that take interrupts of interfaces with traffic that get no masks here.
fn others(draft: &Draft<'_>, sharing: &[&Nic]) -> CpuMask {
    let with_traffic =
        |nic: &&Nic| draft.rates.nic(&nic.name).is_some_and(|rates| rates.rx_packets >= TRAFFIC);
    let nics = draft.model.nics.iter().filter(|nic| nic.kind == NicKind::Device).filter(with_traffic);
    let others = nics.filter(|nic| sharing.iter().all(|own| own.name != nic.name));
    others.flat_map(|nic| nic.rx.iter().filter_map(|queue| draft.home(queue))).collect()
}

/// Sets a mask that is not there yet. A part of it that somebody chose stays, unless a width was asked for: fewer
/// CPUs won in field case C.
fn give(draft: &mut Draft<'_>, nic: &NicName, queue: u32, mask: &CpuMask, why: String) {
    let found = draft.model.nic(nic).and_then(|nic| nic.rx.iter().find(|rx| rx.index == queue));
    let Some(current) = found.map(|rx| rx.rps_cpus.known().cloned()) else { return };
    let Some(current) = current else {
        return draft.leave(format!("rps: the mask of {nic}/rx-{queue} cannot be read"));
    };
    let chosen = draft.cpus_per_queue.is_none() && !current.is_empty() && current.difference(mask).is_empty();
    if current != *mask && !chosen {
        let value = if mask.is_empty() { "off".to_owned() } else { mask.to_string() };
        draft.set("rps", nic, What::Queue(QueueId::rx(queue)), value, why);
    }
}
