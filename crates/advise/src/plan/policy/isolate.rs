//! `isolate`: receive work on few CPUs, and none on those of the application.
//!
//! Published: field cases B and D gave the last CPUs to the interrupts and the others to the server. It costs
//! the other work of these CPUs: 8.6 % of computing with 16 of 128 (published, case D).

use super::Variable;
use crate::plan::draft::Draft;
use crate::plan::step;
use rxlab_base::number::{cpus_text, plural};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::constraints::slow;
use rxlab_path::evidence::DROWNING;
use rxlab_path::model::{Irq, Nic, NicKind};

/// Without a choice of CPUs to isolate, at most one CPU in this many takes receive work.
const ONE_OF: usize = 4;

pub(super) fn draft(draft: &mut Draft<'_>, isolated: &CpuMask) {
    if draft.nics.is_empty() {
        return;
    }
    let work = work(draft);
    let some_taken = draft.topology.usable.len() < draft.topology.online.len();
    if isolated.is_empty() && !some_taken {
        let chosen = last_cores(draft);
        draft.use_only(&chosen);
    }
    let usable = draft.topology.usable.clone();
    let free = draft.topology.online.difference(&usable);
    if free.is_empty() {
        draft.nics.clear();
        return draft.leave(
            "receive work takes whole cores, which leaves none to isolate; name the CPUs with --isolated"
                .to_owned(),
        );
    }
    let signalled = channel_cpus(draft).intersection(&free);
    if !signalled.is_empty() {
        draft.notes.push(format!(
            "VMBus channels still signal {}: no knob moves them; write the CPU to the channel's file `cpu` below \
             /sys/bus/vmbus/devices",
            cpus_text(&signalled)
        ));
    }
    draft.notes.push(format!(
        "this plan pins no process: to keep them on {}, set their affinity, which is a separate variable",
        cpus_text(&free)
    ));
    let idle = std::mem::take(&mut draft.idle);
    settle(draft, &idle, &usable);
    let note = outcome(draft, &usable, &free.difference(&signalled));
    draft.notes.insert(0, note);
    let needed = (work / DROWNING).ceil() as usize;
    if needed > usable.len() {
        let (leave, have) = (plural(needed, "CPU"), if usable.len() == 1 { "has" } else { "have" });
        draft.notes.insert(
            1,
            format!(
                "receive work takes the time of {work:.1} CPUs now, and {} {have} too little room for bursts: packets may be \
                 lost; leave it {leave} with --isolated",
                cpus_text(&usable)
            ),
        );
    }
}

/// Time that the packets of the planned interfaces take, in CPUs, as far as it is known where they arrive.
fn work(draft: &Draft<'_>) -> f64 {
    draft.machine().brought(|nic, _| draft.nics.contains(&nic.name)).into_values().sum()
}

/// Says where receive work is then, and claims to keep CPUs free only if all interrupts are known to stay off them.
fn outcome(draft: &Draft<'_>, usable: &CpuMask, free: &CpuMask) -> String {
    let stays = |irq: &Irq| irq.affinity.known().is_some_and(|mask| mask.intersection(free).is_empty());
    let is_kept = |nic: &&Nic| {
        let of_queues = nic.rx.iter().all(|queue| !queue.irqs.is_empty() || queue.channel_cpu.is_some());
        let all = || nic.rx.iter().flat_map(|queue| &queue.irqs).chain(&nic.other_irqs);
        of_queues && all().all(stays)
    };
    let devices =
        draft.model.nics.iter().filter(|nic| nic.kind == NicKind::Device && nic.up && !nic.rx.is_empty());
    let open: Vec<&str> = devices.filter(|nic| !is_kept(nic)).map(|nic| nic.name.as_str()).collect();
    // With fewer queues, the interrupts of those that stay are for the next plan.
    let is_begun = draft.variables.contains(&Variable::Channels);
    let [usable, free_text] = [usable, free].map(cpus_text);
    match (free.is_empty() || is_begun, open.is_empty()) {
        (true, _) => format!("receive work on {usable}"),
        (false, true) => format!("receive work on {usable}, none on {free_text}"),
        (false, false) => format!(
            "receive work on {usable}; packets of {} may still come to {free_text}: not all of {} interrupts are \
             known or can be moved",
            open.join(", "),
            if open.len() == 1 { "its" } else { "their" }
        ),
    }
}

/// The settings themselves, `idle` interfaces included.
fn settle(draft: &mut Draft<'_>, idle: &[NicName], usable: &CpuMask) {
    draft.step(Variable::Channels, |draft| {
        let all = draft.nics.iter().chain(idle).cloned().collect();
        draft.for_nics(all, step::channels::fewer);
    });
    if draft.variables.contains(&Variable::Channels) {
        draft.notes.push(
            "the interrupts of the queues that stay need another plan, once the others have freed their vectors"
                .to_owned(),
        );
        return;
    }
    draft.step(Variable::Irq, |draft| {
        const WHY: &str = "away from the CPUs to be isolated";
        step::irqs::near(draft);
        if draft.no_vectors().is_some() {
            return;
        }
        idle.iter().for_each(|nic| step::irqs::anywhere_in(draft, nic, usable, WHY));
        let all = draft.nics.iter().chain(idle).cloned().collect();
        draft.for_nics(all, |draft| step::irqs::queueless(draft, usable, WHY));
    });
    draft.step(Variable::Rps, step::rps::near);
    draft.step(Variable::Rfs, step::rfs::off);
}

/// CPUs that the hypervisor signals for the channels of any interface.
fn channel_cpus(draft: &Draft<'_>) -> CpuMask {
    draft.model.nics.iter().flat_map(|nic| &nic.rx).filter_map(|queue| queue.channel_cpu).collect()
}

/// A CPU for each queue and whole cores, from the end, in the nodes of the devices as far as these are known. No slow ones while
/// others are left.
fn last_cores(draft: &Draft<'_>) -> CpuMask {
    let all = vec![1; draft.topology.domains.len()];
    let topology = &draft.topology.clear_of(&slow(&draft.model), &all);
    let queues = |of: &dyn Fn(Option<u32>) -> bool| {
        let of_nics = draft.planned().flat_map(|nic| nic.rx.iter().map(|queue| nic.node_of(queue)));
        of_nics.filter(|node| of(*node)).count()
    };
    let all = queues(&|_| true).max(1);
    let wanted = all.clamp(1, (topology.usable.len() / ONE_OF).max(1));
    let mut last = CpuMask::new();
    for domain in &topology.domains {
        let own = queues(&|node| node.is_some() && node == domain.node);
        // A node with a device has at least one, and keeps one.
        let part = (wanted * own).div_ceil(all).min(domain.usable.len().saturating_sub(1));
        domain.usable.iter().rev().take(part).for_each(|cpu| last.insert(*cpu));
    }
    let rest = wanted.saturating_sub(last.len());
    let from_the_end = topology.in_order().rev().filter(|cpu| !last.contains(*cpu)).take(rest);
    let last = from_the_end.collect::<CpuMask>().union(&last);
    topology.siblings(&last).union(&last).intersection(&topology.usable)
}
