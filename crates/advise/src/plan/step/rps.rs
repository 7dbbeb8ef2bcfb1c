//! CPUs that each queue hands its packets to, for all interfaces at once, by the rules of `plan::share`.

use std::collections::{BTreeMap, BTreeSet};

use super::back::Back;
use crate::plan::draft::Draft;
use crate::plan::machine::is_busy;
use crate::plan::policy::Variable;
use crate::plan::share::{FEW, Part, ShareOptions};
use crate::plan::spread::{OWN, given, guessed, narrowed, unsteerable};
use rxlab_base::units::{CpuMask, NicName, QueueId};
use rxlab_path::constraints::slow;
use rxlab_path::evidence::{is_counted, queue_packets};
use rxlab_path::model::{Nic, RxQueue};
use rxlab_setting::{Target, set_text};

/// Reason why RPS is redundant.
const COVERED: &str = "every CPU has its own queue";

/// Gives each queue a part of the CPUs around its interrupt for itself; RPS off if there are not enough for
/// all.
pub(in crate::plan) fn near(draft: &mut Draft<'_>) {
    let nics = steerable(draft);
    give_parts(draft, nics, Vec::new(), false);
}

/// Switches RPS off if the queues bring packets to every CPU.
pub(in crate::plan) fn redundant(draft: &mut Draft<'_>) {
    let nics = steerable(draft);
    let (covered, _) = covered(draft, nics);
    let off = queues(draft, &covered, COVERED);
    switch_off(draft, off, &CpuMask::new());
}

/// Switches RPS off on queues with few packets, where the hand-over only costs time; [`near`] for all others.
pub(in crate::plan) fn where_needed(draft: &mut Draft<'_>) {
    let nics = steerable(draft);
    let machine = draft.machine();
    let brought = machine.brought(|_, _| true);
    let (busy, calm): (Vec<NicName>, Vec<NicName>) = nics.into_iter().partition(|name| {
        draft.model.nic(name).is_some_and(|nic| {
            nic.rx.iter().any(|queue| {
                let of_home = machine.home(queue).and_then(|cpu| brought.get(&cpu).copied());
                is_busy(of_home, queue_packets(nic, queue, &draft.rates))
            })
        })
    });
    let off = queues(draft, &calm, FEW);
    give_parts(draft, busy, off, true);
}

/// The planned interfaces that can be steered, or whose masks have CPUs that must be left at any cost.
fn steerable(draft: &mut Draft<'_>) -> Vec<NicName> {
    let mut names = Vec::new();
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let mut masks = nic.rx.iter().filter_map(|queue| queue.rps_cpus.known());
        let must_leave = masks.any(|mask| !mask.difference(&draft.topology.usable).is_empty());
        match unsteerable(&draft.model, &draft.rates, nic).filter(|_| !must_leave) {
            Some(why) => draft.leave(Variable::Rps.because(why.to_string())),
            None => names.push(name),
        }
    }
    names
}

/// A queue that should have no mask, and the reason.
type Without = (NicName, u32, String);

/// Gives these interfaces their parts, or only their busy queues, and switches RPS off on queues without a part,
/// and on the queues of `off`.
fn give_parts(draft: &mut Draft<'_>, nics: Vec<NicName>, mut off: Vec<Without>, busy_only: bool) {
    let (covered, sharing) = covered(draft, nics);
    off.extend(queues(draft, &covered, COVERED));
    let sharing: Vec<Nic> = sharing.iter().filter_map(|name| draft.model.nic(name).cloned()).collect();
    let options = ShareOptions { width: draft.width, whole_cores: true, by_hand: false, busy_only };
    let (parts, homeless) = draft.machine().share_out(&sharing.iter().collect::<Vec<_>>(), options);
    let given = given(&parts);
    for of_nic in homeless.chunk_by(|(a, _), (b, _)| a.name == b.name) {
        let name = &of_nic[0].0.name;
        let (waiting, hidden): (Vec<&RxQueue>, Vec<&RxQueue>) =
            of_nic.iter().map(|(_, queue)| *queue).partition(|queue| draft.home(queue).is_some());
        if !waiting.is_empty() {
            draft.leave(Variable::Rps.because(format!(
                "{name} has one mask for all queues, and the CPUs of new ones are not known yet"
            )));
        }
        // Where a new queue lands is known once it is there; a guess may give it the mask with the CPU of its own interrupt.
        let sampled = hidden.iter().copied().filter(|queue| draft.is_sampled(of_nic[0].0, queue));
        let guessed = guessed(draft.machine(), of_nic[0].0, sampled, draft.width);
        for queue in hidden.iter().filter(|queue| guessed.iter().all(|(index, ..)| *index != queue.index)) {
            let target = Target::queue(name, QueueId::rx(queue.index));
            let why = format!("cannot tell which CPU takes the interrupt of {target}");
            draft.leave(Variable::Rps.because(why));
        }
        guessed.into_iter().for_each(|(queue, mask, why)| give(draft, name, queue, &mask, why));
    }
    for Part { nic, queue, mask, stays, why } in parts {
        if mask.is_empty() {
            off.push((nic.name.clone(), queue.index, why));
        } else if !stays {
            give(draft, &nic.name, queue.index, &mask, why);
        }
    }
    switch_off(draft, off, &given);
}

/// The interfaces whose queues bring packets to every CPU, and the others.
fn covered(draft: &Draft<'_>, nics: Vec<NicName>) -> (Vec<NicName>, Vec<NicName>) {
    let machine = draft.machine();
    nics.into_iter().partition(|name| draft.model.nic(name).is_some_and(|nic| machine.is_covered_by(nic)))
}

fn queues(draft: &Draft<'_>, nics: &[NicName], why: &str) -> Vec<Without> {
    let nics = nics.iter().filter_map(|name| draft.model.nic(name));
    let queues = nics.flat_map(|nic| nic.steering_queues().iter().map(move |queue| (nic, queue.index)));
    queues.map(|(nic, queue)| (nic.name.clone(), queue, why.to_owned())).collect()
}

/// Removes the masks of these queues, unless the CPU of the interrupt cannot take back the work. All of them
/// are judged together, by the new masks of the others, whose CPUs are `given`.
fn switch_off(draft: &mut Draft<'_>, queues: Vec<Without>, given: &CpuMask) {
    let none = CpuMask::new();
    let is_on = |(nic, queue, _): &Without| {
        rx_queue(draft, nic, *queue).is_none_or(|rx| rx.rps_cpus.known() != Some(&none))
    };
    let on: Vec<Without> = queues.into_iter().filter(is_on).collect();
    if on.is_empty() {
        return;
    }
    let back = Back::new(&draft.machine());
    let slow = slow(&draft.model);
    let may_stay = |draft: &Draft<'_>, nic: &NicName, queue: u32| {
        let mask = rx_queue(draft, nic, queue).and_then(|rx| rx.rps_cpus.known());
        // CPUs that are to be isolated are left at any cost.
        mask.is_some_and(|mask| !mask.is_empty() && mask.difference(&draft.topology.usable).is_empty())
    };
    let is_needed = |(nic, queue, _): &&Without| {
        let home = rx_queue(draft, nic, *queue).and_then(|rx| draft.home(rx));
        may_stay(draft, nic, *queue) && !home.is_some_and(|home| back.is_bearable(home))
    };
    let needed: BTreeSet<(NicName, u32)> =
        on.iter().filter(is_needed).map(|(nic, queue, _)| (nic.clone(), *queue)).collect();
    // Any of the queues that no source tells apart may bring the work that an interrupt's CPU could not take back.
    let are_alike = |nic: &NicName| {
        draft.model.nic(nic).is_some_and(|of| !of.rx.iter().all(|rx| is_counted(of, rx, &draft.rates)))
    };
    let alike: BTreeSet<NicName> =
        needed.iter().map(|(nic, _)| nic).filter(|nic| are_alike(nic)).cloned().collect();
    let mut kept: BTreeMap<NicName, usize> = BTreeMap::new();
    for (nic, queue, why) in on {
        let stays =
            may_stay(draft, &nic, queue) && (alike.contains(&nic) || needed.contains(&(nic.clone(), queue)));
        let found = rx_queue(draft, &nic, queue);
        if !stays {
            give(draft, &nic, queue, &none, why);
            continue;
        }
        *kept.entry(nic.clone()).or_default() += 1;
        let left = found.zip(draft.model.nic(&nic)).and_then(|(rx, of)| {
            let (homes, busy) = (draft.machine().homes(of, rx), draft.machine().taken(&[of]));
            narrowed(rx.rps_cpus.known()?, draft.home(rx)?, &[&homes, &busy, &slow, given])
        });
        if let Some(left) = left {
            give(draft, &nic, queue, &left, OWN.to_owned());
        }
    }
    for (nic, count) in kept {
        let (masks, stay, their) = match count {
            1 => ("the mask of one queue", "stays", "the CPU of its interrupt"),
            _ => ("the masks of several queues", "stay", "the CPUs of their interrupts"),
        };
        draft.leave(
            Variable::Rps
                .because(format!("{masks} of {nic} {stay} in use: {their} could not take that work back")),
        );
    }
}

fn rx_queue<'d>(draft: &'d Draft<'_>, nic: &NicName, queue: u32) -> Option<&'d RxQueue> {
    draft.model.nic(nic)?.rx.iter().find(|rx| rx.index == queue)
}

/// Sets a mask that differs from the current one.
fn give(draft: &mut Draft<'_>, nic: &NicName, queue: u32, mask: &CpuMask, why: String) {
    let Some(rx) = rx_queue(draft, nic, queue) else { return };
    let Some(current) = rx.rps_cpus.known() else {
        return draft.leave(Variable::Rps.because(format!("the mask of {nic}/rx-{queue} cannot be read")));
    };
    if current != mask {
        draft.set("rps", Target::queue(nic, QueueId::rx(queue)), set_text(mask), why);
    }
}
