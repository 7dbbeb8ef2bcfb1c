//! Which CPUs each receive queue of one interface should hand its packets to.
//!
//! The rules are those of `share`. Here is what an interface alone asks beyond: what to do where no interrupt is
//! known, and when a mask that somebody made stays.

use std::collections::BTreeMap;

use super::ground::Ground;
use super::share::{Machine, Part, Wish};
use super::{PlannedSetting, Setting, Target};
use crate::diagnose::evidence::receive_time;
use crate::model::{Model, Nic, NicKind, Rates};
use crate::units::{CpuId, CpuMask, QueueId};

/// Packets a second on one queue from which the hyper-threads of the interrupt's CPU are left out
/// too: at 10 to 20 us between packets a core is interrupted all the time.
pub(super) const HIGH_RATE: f64 = 50_000.0;

/// Receive time of the interrupt's CPU that counts as a high rate whatever the packets cost.
pub(super) const HIGH_LOAD: f64 = 0.5;

/// Receive time from which a CPU of a hand-made mask is drowning, so that the mask is no longer
/// left alone.
const DROWNING: f64 = 0.8;

/// The masks that an interface should have and has not, by queue and each with its reason; empty when all are sound.
pub(super) fn masks(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    width: usize,
) -> BTreeMap<u32, (CpuMask, String)> {
    let ground = Ground::new(model);
    // The other thread of a busy core is better than nothing here: a trial can say so.
    let wish = Wish { width, whole_cores: false };
    let (parts, homeless) = Machine { model, rates, ground: &ground }.share_out(&[nic], wish);
    let drowns = |cpu| rates.cpu(cpu).is_some_and(|cpu| receive_time(cpu) >= DROWNING);
    let current = |index: u32| {
        let queue = nic.rx.iter().find(|queue| queue.index == index);
        queue.and_then(|queue| queue.rps_cpus.known())
    };
    let is_short = |part: &Part| {
        let current = current(part.queue).filter(|current| !part.mask.difference(current).is_empty());
        current.is_some_and(|current| current.iter().any(drowns))
    };
    // A new mask for one may hold what others have that are only sound together.
    let together = !parts.iter().any(is_short);
    let given = parts.into_iter().filter(|part| {
        let stays = (part.as_sound && together) || (part.has_part && !is_short(part));
        current(part.queue).is_some() && !part.mask.is_empty() && !stays
    });
    let mut masks: BTreeMap<_, _> = given.map(|part| (part.queue, (part.mask, part.why))).collect();
    let anywhere = match hottest(rates) {
        Some(cpu) => ground.usable.difference(&[cpu].into_iter().collect()),
        None => ground.usable.clone(),
    };
    let why = somewhere(nic, rates, anywhere.len() > width);
    let anywhere: CpuMask = anywhere.iter().take(width).collect();
    for (_, queue) in homeless {
        let Some(current) = current(queue).filter(|_| !anywhere.is_empty()) else { continue };
        // Which CPU receives depends on where the senders run and on the mask itself: once one
        // CPU is left out, turning the mask round gains nothing.
        if !(current.difference(&ground.usable).is_empty() && current.len() == anywhere.len()) {
            masks.insert(queue, (anywhere.clone(), why.clone()));
        }
    }
    masks
}

/// The settings for `masks`.
pub(super) fn settings(nic: &Nic, masks: BTreeMap<u32, (CpuMask, String)>) -> Vec<PlannedSetting> {
    let setting = |(queue, (mask, why)): (u32, (CpuMask, String))| {
        let set = Setting {
            knob: "rps".to_owned(),
            target: Target::Queue { nic: nic.name.clone(), queue: QueueId::rx(queue) },
            value: mask.to_string(),
        };
        PlannedSetting::new(set, why, Some(nic.address.clone()))
    };
    masks.into_iter().map(setting).collect()
}

/// Why a queue of which nobody knows where its packets are taken hands them to these CPUs.
fn somewhere(nic: &Nic, rates: &Rates, is_cut: bool) -> String {
    let interrupt = match nic.kind {
        NicKind::Device => "the interrupt's CPU is not known",
        NicKind::Virtual | NicKind::Loopback => "no interrupt",
    };
    let cpus = if is_cut { "as many CPUs as were asked for" } else { "every CPU" };
    match hottest(rates) {
        Some(cpu) => format!("{interrupt}: {cpus} without CPU {cpu}, where the packets are received now"),
        None => format!("{interrupt}: {cpus}"),
    }
}

/// The CPU that does most of the receive work: by packets, which a short interval cannot blur.
pub(super) fn hottest(rates: &Rates) -> Option<CpuId> {
    rates.hottest(|cpu| cpu.packets).or_else(|| rates.hottest(receive_time)).map(|(cpu, _)| cpu)
}
