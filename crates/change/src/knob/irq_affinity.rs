//! `irq_affinity`: the CPUs that may take the interrupts of a queue, or of the device.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::io::Errno;

use super::error::Meanings;
use super::{Knob, KnobError, Parts, Result, Site, value};
use crate::journal::{Armed, Part};
use rxlab_base::number::cpus_text;
use rxlab_base::units::{CpuMask, Direction, IrqId};
use rxlab_path::model::{Fact, Model, Nic, NicKind};
use rxlab_setting::{Target, interrupts, queueless_targets};
use rxlab_sys::Host;

/// Affinity of the interrupts of one queue, or of those of one name that belong to no queue.
///
/// Kernel: `Documentation/core-api/irq/irq-affinity.rst`. The interrupt is found through the model by device
/// and queue or name each time: its number does not identify it. If several interrupts differ, the value
/// names each, in the order of their numbers: `0;2-3`.
pub(super) struct IrqAffinity;

/// Parts of a value that is one list for each interrupt.
const EACH: char = ';';

fn irqs(site: Site<'_>) -> Result<Vec<IrqId>> {
    let nic = match site.target {
        Target::Queue { queue, .. } if queue.direction == Direction::Rx => site.rx_queue()?.0,
        Target::Queue { .. } => site.tx_queue()?.0,
        Target::Irq { nic, .. } => site.known_nic(nic)?,
        _ => return Err(site.wrong("a queue or an interrupt (NIC/rx-N, NIC/tx-N, NIC/irq-NAME)")),
    };
    let irqs: Vec<IrqId> = interrupts(nic, site.target).iter().map(|irq| irq.number).collect();
    if irqs.is_empty() {
        return Err(unknown(site, nic).unwrap_or_else(|| none(nic, site.target)));
    }
    Ok(irqs)
}

/// The reason why no interrupt is known, if that does not mean that there is none.
fn unknown(site: Site<'_>, nic: &Nic) -> Option<KnobError> {
    match site.model.unknown_interrupts(nic)? {
        Fact::Denied(_) => Some(KnobError::Denied {
            verb: "read",
            path: "proc/interrupts".to_owned(),
            meaning: " (needs root)",
        }),
        Fact::Broken(why) => Some(site.unknown("interrupts", why)),
        Fact::Known(()) | Fact::NotAsked | Fact::Unsupported => None,
    }
}

fn none(nic: &Nic, target: &Target) -> KnobError {
    let Target::Queue { queue, .. } = target else {
        let names: BTreeSet<&str> = nic.queueless_irqs().map(|irq| irq.action.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { Vec::from_iter(names).join(", ") };
        let why = format!(
            "apart from those of its queues, {} has: {names}; many drivers request theirs only while the \
             interface is up",
            nic.name
        );
        return KnobError::NoIrq { target: target.clone(), why: why.into() };
    };
    let why = match (nic.kind, queue.direction) {
        (NicKind::Device, Direction::Rx) => "the kernel does not report which one belongs to this queue",
        (NicKind::Device, Direction::Tx) => {
            "it has none of its own; a receive queue's interrupt may serve it too"
        }
        (NicKind::Virtual, _) => {
            "a virtual interface takes packets on the sender's CPU; use rps to move them"
        }
        (NicKind::Loopback, _) => "lo takes packets on the sender's CPU",
    };
    KnobError::NoIrq { target: target.clone(), why: why.into() }
}

fn path(irq: IrqId) -> String {
    format!("proc/irq/{irq}/smp_affinity")
}

/// While an interrupt moves, the kernel briefly shows the mask it is emptying (`show_irq_affinity` reads
/// `pending_mask` without the lock under which `irq_move_masked_irq` clears it). No interrupt has an empty
/// affinity, so an empty mask is read again.
fn affinity(site: Site<'_>, path: &str) -> Result<CpuMask> {
    let read = || {
        let text = site.read_text(path)?;
        CpuMask::from_hex(&text).map_err(|_| KnobError::broken(path, &text, "a CPU mask"))
    };
    let mut mask = read()?;
    for _ in 0..LOOKS {
        if !mask.is_empty() {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
        mask = read()?;
    }
    Ok(mask)
}

/// Waits until a mask that was written is shown. The kernel stores it next to the old one and applies it when
/// the interrupt next fires; for a moment (`irq_move_masked_irq` before `irq_do_set_affinity`) it shows the
/// old one again. The wait is bounded in case the kernel keeps something else: reading back reveals that.
fn await_shown(site: Site<'_>, path: &str, mask: &CpuMask) {
    for _ in 0..LOOKS {
        match affinity(site, path) {
            Ok(shown) if shown != *mask => std::thread::sleep(BETWEEN_LOOKS),
            _ => return,
        }
    }
}

/// The kernel moves an interrupt within microseconds, a guest with time-shared CPUs within milliseconds.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

const MEANINGS: Meanings = &[
    (Errno::IO, "the kernel manages this interrupt itself (or it cannot be moved); use rps instead"),
    (Errno::INVAL, "none of these CPUs is online"),
    (Errno::OVERFLOW, "this kernel has no such CPU"),
    (Errno::NOSPC, "these CPUs have no free interrupt vectors; choose other CPUs"),
];

const DENIED: &str = " (needs root; or the kernel manages this interrupt itself and it cannot be moved)";

impl Knob for IrqAffinity {
    fn name(&self) -> &'static str {
        "irq_affinity"
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        let queues = value::rx_targets(model, |_| true).into_iter().chain(value::tx_targets(model, |_| true));
        let has_some = |target: &Target| {
            let nic = target.nic().and_then(|nic| model.nic(nic));
            nic.is_some_and(|nic| {
                model.unknown_interrupts(nic).is_some() || !interrupts(nic, target).is_empty()
            })
        };
        queues.filter(has_some).chain(model.nics.iter().flat_map(queueless_targets)).collect()
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        irqs(site)?;
        let mask = site.online_cpus(value)?;
        if mask.is_empty() {
            return Err(site.bad(value, "expected a list of CPUs such as 2 or 0-3"));
        }
        Ok(mask.to_string())
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let mut lists = Vec::new();
        for irq in irqs(site)? {
            let mask = affinity(site, &path(irq)).map_err(|error| match error {
                // With several CPUs each has one: the driver has requested another one since, or files are not visible.
                KnobError::Unsupported { .. } if site.model.online().len() > 1 => site.unknown(
                    "interrupts",
                    &format!("the files of interrupt {irq} are missing now; try again"),
                ),
                error => error,
            })?;
            lists.push(mask.to_string());
        }
        Ok(joined(lists.iter().map(String::as_str).collect()))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let irqs = irqs(site)?;
        let given = parts(value).count();
        if given != 1 && given != irqs.len() {
            let why = format!("{} now has {} interrupts, not {given}", site.target, irqs.len());
            return Err(site.bad(value, why));
        }
        let mut moved = Ok(());
        for (irq, list) in irqs.into_iter().zip(parts(value).cycle()) {
            let path = path(irq);
            let mask: CpuMask = list.parse().map_err(|_| site.bad(value, "not a list of CPUs"))?;
            // Undoing a write that was refused halfway must not ask the refusing interrupt for the mask it
            // already has.
            if site.host.read_text(&path).is_ok_and(|text| CpuMask::from_hex(&text).as_ref() == Ok(&mask)) {
                continue;
            }
            // One that refuses does not keep the others.
            match site.host.write(&path, mask.to_hex().as_bytes()) {
                Ok(()) => await_shown(site, &path, &mask),
                Err(error) => moved = moved.and(Err(site.failed(Some(value), &error, DENIED, MEANINGS))),
            }
        }
        moved
    }

    // A write of several interrupts that was cut short leaves some with the old list and some with the new
    // one: each must be one that rxlab found or wrote.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        parts(live).all(|part| ours.iter().chain(unsettled).any(|value| parts(value).any(|p| p == part)))
    }

    fn parts(&self, site: Site<'_>, original: &str, ours: &[String], live: &str) -> Option<Parts> {
        let irqs = irqs(site).ok()?;
        let (original, now) = (each(original, irqs.len())?, each(live, irqs.len())?);
        let ours: Vec<Vec<&str>> = ours.iter().filter_map(|value| each(value, irqs.len())).collect();
        let mut judged = Parts::default();
        let mut value = now.clone();
        for (at, irq) in irqs.iter().enumerate() {
            let part = |value: &str| Part { part: format!("interrupt {irq}"), value: value.to_owned() };
            if now[at] == original[at] {
                judged.back.push(part(now[at]));
            } else if ours.iter().any(|ours| ours[at] == now[at]) {
                value[at] = original[at];
                judged.ours.push(part(original[at]));
            } else {
                judged.foreign.push(part(now[at]));
            }
        }
        judged.value = joined(value);
        (irqs.len() > 1).then_some(judged)
    }

    fn cpus(&self, value: &str) -> Option<CpuMask> {
        parts(value).try_fold(CpuMask::new(), |all, list| Some(all.union(&list.parse().ok()?)))
    }

    // Some drivers suggest CPUs of their own choice, which the kernel does not record.
    fn is_fresh(&self, host: &dyn Host, value: &str) -> bool {
        let default = host.read_text("proc/irq/default_smp_affinity").ok();
        let default = default.and_then(|text| CpuMask::from_hex(&text).ok());
        let online = host.read_text("sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| text.trim().parse::<CpuMask>().ok());
        parts(value).all(|list| {
            let list = list.parse().ok();
            list.is_some() && (list == default || list == online)
        })
    }

    fn remark(&self, site: Site<'_>, value: &str) -> Option<String> {
        let irqs = irqs(site).ok()?;
        let stays = irqs.iter().zip(parts(value).cycle()).find_map(|(irq, list)| {
            // Kernels without the file give no remark.
            let text = site.host.read_text(&format!("proc/irq/{irq}/effective_affinity")).ok()?;
            let effective = CpuMask::from_hex(&text).ok()?;
            let elsewhere = effective.difference(&list.parse().ok()?);
            (!elsewhere.is_empty()).then_some((irq, elsewhere))
        });
        stays.map(|(irq, cpus)| {
            format!("{} still takes interrupt {irq}, which moves when it next fires", cpus_text(&cpus))
        })
    }
}

fn parts(value: &str) -> impl Iterator<Item = &str> + Clone {
    value.split(EACH)
}

/// The list of each of `count` interrupts; `None` if the value is that of another number of them.
fn each(value: &str, count: usize) -> Option<Vec<&str>> {
    let given = parts(value).count();
    (given == 1 || given == count).then(|| parts(value).cycle().take(count).collect())
}

/// The value of interrupts with these lists, one if all are the same.
fn joined(mut lists: Vec<&str>) -> String {
    if lists.iter().all(|list| *list == lists[0]) {
        lists.truncate(1);
    }
    lists.join(&EACH.to_string())
}

#[cfg(test)]
mod tests;
