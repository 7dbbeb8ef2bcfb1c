//! CPUs that each receive queue of one interface should hand its packets to.
//!
//! The rules are those of `share`. This adds the rules for a single interface: queues without a known
//! interrupt, and masks that were set by hand.

use std::collections::BTreeMap;

use super::share::{Machine, Part, ShareOptions};
use super::topology::CpuTopology;
use super::{PlannedSetting, Setting, Target};
use crate::diagnose::evidence::receive_time;
use crate::model::{Model, Nic, NicKind, Rates};
use crate::units::{CpuId, CpuMask, QueueId};

/// Packets per second on one queue from which the hyper-threads of the interrupt's CPU are left out too: at
/// 10 to 20 us between packets a core is interrupted all the time.
pub(super) const HIGH_RATE: f64 = 50_000.0;

/// Receive time of the interrupt's CPU that counts as a high rate, independent of the cost of a packet.
pub(super) const HIGH_LOAD: f64 = 0.5;

/// Receive time from which a CPU of a hand-made mask is drowning, so that the mask may be replaced.
const DROWNING: f64 = 0.8;

/// Masks that an interface should have but does not, by queue and each with its reason; empty if all are
/// sound.
pub(super) fn masks(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    width: usize,
) -> BTreeMap<u32, (CpuMask, String)> {
    let topology = CpuTopology::new(model);
    // The other thread of a busy core is better than nothing here: a trial can tell.
    let options = ShareOptions { width, whole_cores: false };
    let (parts, homeless) = Machine { model, rates, topology: &topology }.share_out(&[nic], options);
    let drowns = |cpu| rates.cpu(cpu).is_some_and(|cpu| receive_time(cpu) >= DROWNING);
    let current = |index: u32| {
        let queue = nic.rx.iter().find(|queue| queue.index == index);
        queue.and_then(|queue| queue.rps_cpus.known())
    };
    let is_short = |part: &Part| {
        let current = current(part.queue).filter(|current| !part.mask.difference(current).is_empty());
        current.is_some_and(|current| current.iter().any(drowns))
    };
    // Masks of other queues that are only sound together may overlap a new mask for one.
    let together = !parts.iter().any(is_short);
    let given = parts.into_iter().filter(|part| {
        let stays = (part.as_sound && together) || (part.has_part && !is_short(part));
        current(part.queue).is_some() && !part.mask.is_empty() && !stays
    });
    let mut masks: BTreeMap<_, _> = given.map(|part| (part.queue, (part.mask, part.why))).collect();
    let anywhere = match hottest(rates) {
        Some(cpu) => topology.usable.difference(&[cpu].into_iter().collect()),
        None => topology.usable.clone(),
    };
    let why = somewhere(nic, rates, anywhere.len() > width);
    let anywhere: CpuMask = anywhere.iter().take(width).collect();
    for (_, queue) in homeless {
        let Some(current) = current(queue).filter(|_| !anywhere.is_empty()) else { continue };
        // The receiving CPU depends on where the senders run and on the mask itself: once one CPU is left
        // out, changing the mask gains nothing.
        if !(current.difference(&topology.usable).is_empty() && current.len() == anywhere.len()) {
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

/// Reason for handing the packets of a queue to these CPUs when the receiving CPU is not known.
fn somewhere(nic: &Nic, rates: &Rates, is_cut: bool) -> String {
    let interrupt = match nic.kind {
        NicKind::Device => "the interrupt's CPU is not known",
        NicKind::Virtual | NicKind::Loopback => "no interrupt",
    };
    let cpus = if is_cut { "the requested number of CPUs" } else { "every CPU" };
    match hottest(rates) {
        Some(cpu) => format!("{interrupt}: {cpus}, without CPU {cpu}, which receives the packets now"),
        None => format!("{interrupt}: {cpus}"),
    }
}

/// The CPU that does most of the receive work: by packets, which a short interval does not distort.
pub(super) fn hottest(rates: &Rates) -> Option<CpuId> {
    rates.hottest(|cpu| cpu.packets).or_else(|| rates.hottest(receive_time)).map(|(cpu, _)| cpu)
}
