//! From the queue to a CPU: its interrupt, then RPS (`get_rps_cpu` in net/core/dev.c).

use super::{Certainty, Step, known};
use crate::model::{Model, Nic, NicKind, RxQueue};
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId};

/// Interrupt of the queue, and the CPU that takes packets from it, or the reason why neither is known.
pub(super) fn interrupt(
    model: &Model,
    nic: &Nic,
    queue: &Step<u32>,
) -> Result<(Step<IrqId>, Step<CpuId>), String> {
    if queue.among.is_empty() {
        return Ok((Step::new([], queue.certainty, None), Step::new([], queue.certainty, None)));
    }
    if nic.kind != NicKind::Device {
        let none = Step::new([], Certainty::Certain, Some("a virtual interface has no interrupt".to_owned()));
        return Ok((
            none,
            Step::not_known("packets are received on the CPU that hands them to the interface"),
        ));
    }
    let queues = queues(nic, queue)?;
    if let Some(fact) = model.unknown_interrupts(nic) {
        known(fact, "the list of interrupts")?;
    }
    if let Some(without) = queues.iter().find(|queue| queue.irqs.is_empty() && queue.channel_cpu.is_none()) {
        return Err(format!("no interrupt of rx-{} is known", without.index));
    }
    let irqs = queues.iter().flat_map(|queue| &queue.irqs).map(|irq| irq.number);
    let irq = Step::settled(irqs, queue.certainty);
    let is_threaded = nic.napi.threaded == Fact::Known(true)
        || queues.iter().any(|queue| queue.napi.as_ref().is_some_and(|napi| napi.thread.is_some()));
    if is_threaded {
        let why = "a kernel thread polls the queue (threaded NAPI): the scheduler chooses its CPU";
        return Ok((irq, Step::not_known(why)));
    }
    let pending = queues.iter().flat_map(|queue| &queue.irqs).find(|irq| irq.is_pending());
    let pending = pending.map(|irq| format!("IRQ {} moves there when it next fires", irq.number));
    let cpus: Result<Vec<CpuMask>, String> = queues.into_iter().map(cpus_of).collect();
    let cpu = cpus.map(|cpus| Step::settled(cpus.iter().flat_map(CpuMask::iter), queue.certainty));
    let mut cpu = cpu.unwrap_or_else(Step::not_known);
    cpu.why.extend(pending);
    Ok((irq, cpu))
}

/// The candidates of a queue step.
fn queues<'a>(nic: &'a Nic, queue: &Step<u32>) -> Result<Vec<&'a RxQueue>, String> {
    let find = |index: &u32| {
        let found = nic.rx.iter().find(|rx| rx.index == *index);
        found.ok_or_else(|| format!("{} has no queue rx-{index}", nic.name))
    };
    queue.among.iter().map(find).collect()
}

/// CPUs that a queue's interrupts go to, from the next one on.
fn cpus_of(queue: &RxQueue) -> Result<CpuMask, String> {
    if let Some(cpu) = queue.channel_cpu {
        return Ok(cpu.into());
    }
    let mut all = CpuMask::new();
    for irq in &queue.irqs {
        let cpus = match &irq.effective {
            Fact::Known(cpus) if !cpus.is_empty() && !irq.is_pending() => cpus,
            _ => known(&irq.affinity, &format!("the affinity of IRQ {}", irq.number))?,
        };
        all = all.union(cpus);
    }
    Ok(all)
}

/// True if RFS steers packets of one of the queues.
pub(super) fn has_rfs<'a>(model: &Model, queues: impl IntoIterator<Item = &'a RxQueue>) -> bool {
    let is_set = |entries: &Fact<u32>| entries.known().is_some_and(|entries| *entries > 0);
    is_set(&model.rps_sock_flow_entries) && queues.into_iter().any(|queue| is_set(&queue.rps_flow_cnt))
}

/// CPU after RPS, or the reason why it is not known. `cpu` takes the packets from the queue; `hash` is the one that RPS
/// uses, or the reason why that is not known.
pub(super) fn rps(
    model: &Model,
    nic: &Nic,
    queue: &Step<u32>,
    cpu: &Step<CpuId>,
    hash: Result<u32, String>,
) -> Result<Step<CpuId>, String> {
    if queue.among.is_empty() {
        return Ok(Step::new([], queue.certainty, None));
    }
    let queues = queues(nic, queue)?;
    if has_rfs(model, queues.iter().copied()) {
        return Err("RFS is on: it prefers the CPU where the application last ran".to_owned());
    }
    let masks: Vec<CpuMask> = queues.iter().copied().map(rps_mask).collect::<Result<_, _>>()?;
    let all = masks.iter().fold(CpuMask::new(), |all, mask| all.union(mask));
    let stays = |why: String| Step { why: vec![why], ..cpu.clone() };
    if all.is_empty() {
        return Ok(stays("RPS is off: the same CPU".to_owned()));
    }
    if masks.iter().any(|mask| *mask != masks[0]) {
        let of_each = queues.iter().zip(masks).map(|(queue, mask)| {
            if !mask.is_empty() {
                Ok(mask)
            } else if cpu.among.is_empty() {
                Err(format!("RPS is off for rx-{}, whose CPU is unknown", queue.index))
            } else {
                cpus_of(queue)
            }
        });
        let cpus: Vec<CpuMask> = of_each.collect::<Result<_, String>>()?;
        return Ok(Step::settled(cpus.iter().flat_map(CpuMask::iter), Certainty::NotKnown));
    }
    let is_online = |id: &CpuId| model.cpu(*id).is_none_or(|cpu| cpu.online);
    let hash = match hash {
        _ if all.len() == 1 => None,
        Ok(hash) => Some(hash),
        Err(why) => {
            // Packets for a CPU that is offline stay where they are.
            let stay = cpu.among.iter().copied().filter(|_| !all.iter().all(|id| is_online(&id)));
            return Ok(Step::new(all.iter().filter(is_online).chain(stay), Certainty::NotKnown, Some(why)));
        }
    };
    // The kernel's `reciprocal_scale`.
    let position = (u64::from(hash.unwrap_or_default()) * all.len() as u64) >> 32;
    let id = all.iter().nth(position as usize).expect("the position is below the number of CPUs");
    if !is_online(&id) {
        return Ok(stays(format!("CPU {id} of the RPS mask is offline: the same CPU")));
    }
    // If the queue is not known, all possible queues have this mask.
    let before = Some(queue.certainty).filter(|certainty| *certainty != Certainty::NotKnown);
    let step = Step::new([id], before.unwrap_or(Certainty::Certain), None);
    let assumption = hash.map(|_| "assumed that the driver marks its hash as one of ports".to_owned());
    Ok(step.with_doubts(assumption.into_iter().collect()))
}

fn rps_mask(queue: &RxQueue) -> Result<CpuMask, String> {
    match &queue.rps_cpus {
        // A kernel without RPS.
        Fact::Unsupported => Ok(CpuMask::new()),
        fact => known(fact, &format!("the RPS mask of rx-{}", queue.index)).cloned(),
    }
}
