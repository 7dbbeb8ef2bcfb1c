//! Spreading receive work in software: RPS and RFS for one interface, each as a separate plan so that each
//! can be tried alone, and both together.
//!
//! Only queues whose values are not sound get a setting, so a machine that follows the plan gets none.

use serde::{Deserialize, Serialize};

use super::moves::Steering;
use super::share::Machine;
use super::topology::CpuTopology;
use super::{Plan, PlannedSetting, forecast, rfs, rps};
use crate::diagnose::processing;
use crate::model::{Model, Nic, NicKind, Rates};
use crate::units::{CpuMask, NicName};

/// A plan for an interface. In JSON it is the plan with one more field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proposal {
    /// The interface it is for.
    pub nic: NicName,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// Command that tries it on live traffic; filled in by doctor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Proposals, and the reasons for those that are missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// `rps`, `rfs` and `rps+rfs`, as far as they would change something.
    pub proposals: Vec<Proposal>,
    /// Reasons why a variable is left alone, one line each.
    pub reasons: Vec<String>,
}

impl Spread {
    fn nothing(reason: String) -> Self {
        Self { proposals: Vec::new(), reasons: vec![reason] }
    }
}

/// Plans for `nic`, or for the interface that receives most, regardless of need: `diagnose` finds the need.
pub fn spread(model: &Model, rates: &Rates, nic: Option<&NicName>) -> Spread {
    within(model, rates, nic, usize::MAX)
}

/// The same with at most `width` CPUs for a queue.
pub(super) fn within(model: &Model, rates: &Rates, nic: Option<&NicName>, width: usize) -> Spread {
    let named = match nic {
        Some(name) => match model.nic(name) {
            Some(nic) => nic,
            None => return Spread::nothing(format!("there is no interface {name}")),
        },
        None => match busiest(model, rates) {
            Some(nic) => nic,
            None => return Spread::nothing("no interface receives packets".to_owned()),
        },
    };
    let devices = below(model, named);
    let nic = devices.as_ref().and_then(|devices| most(devices, rates)).unwrap_or(named);
    let mut spread = of_nic(model, rates, nic, width);
    if let Some(devices) = devices {
        let note = stands_on(named, &devices);
        spread.proposals.iter_mut().for_each(|proposal| proposal.plan.notes.insert(0, note.clone()));
        spread.reasons.insert(0, note);
    }
    spread
}

fn of_nic(model: &Model, rates: &Rates, nic: &Nic, width: usize) -> Spread {
    let name = &nic.name;
    if nic.kind == NicKind::Loopback {
        return Spread::nothing(format!(
            "{name} receives inside the sender's system call: steering it is refused"
        ));
    }
    let usable = model.usable();
    if usable.len() < 2 {
        return Spread::nothing("no second CPU to give work to".to_owned());
    }
    if nic.napi.threaded.known() == Some(&true) {
        return Spread::nothing(threaded(name));
    }
    let topology = CpuTopology::new(model);
    let redundant = match nic.kind {
        NicKind::Device => Machine { model, rates, topology: &topology }.is_covered_by(nic),
        _ => nic.rx.len() >= usable.len(),
    };
    if redundant {
        let reason =
            format!("{name} has {} RX queues for {} CPUs: RPS is redundant", nic.rx.len(), usable.len());
        return Spread::nothing(reason);
    }
    propose(model, rates, nic, width)
}

/// Reason to leave RPS and RFS alone if kernel threads poll the queues.
pub(super) fn threaded(nic: &NicName) -> String {
    format!(
        "{nic} is polled by kernel threads (threaded NAPI), which the scheduler spreads: RPS stays as it is"
    )
}

/// Links that receive in the same round as their lower device: RPS and RFS were already applied for that
/// device.
const SAME_ROUND: [&str; 5] = ["bond", "team", "vlan", "macvlan", "ipvlan"];

/// The lower devices of an interface whose own masks have no effect, as far as they are in the model; `None`
/// for all others.
pub(super) fn below<'a>(model: &'a Model, nic: &Nic) -> Option<Vec<&'a Nic>> {
    nic.stack.kind.as_deref().filter(|kind| SAME_ROUND.contains(kind))?;
    let devices: Vec<&Nic> = nic.stack.physical.iter().filter_map(|name| model.nic(name)).collect();
    Some(devices).filter(|devices| !devices.is_empty())
}

/// Note about the devices that stand in for an interface.
pub(super) fn stands_on(nic: &Nic, devices: &[&Nic]) -> String {
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    format!(
        "{} is a {} on {}: packets are handed on at the device, and masks above it have no effect",
        nic.name,
        nic.stack.kind.as_deref().unwrap_or("link"),
        names.join(", ")
    )
}

/// The interface that receives most, but never `lo`.
pub(super) fn busiest<'a>(model: &'a Model, rates: &Rates) -> Option<&'a Nic> {
    let nics: Vec<&Nic> = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback).collect();
    most(&nics, rates).filter(|nic| packets(nic, rates) > 0.0)
}

/// Of these, the one that receives most.
fn most<'a>(nics: &[&'a Nic], rates: &Rates) -> Option<&'a Nic> {
    // Reversed, so that the first of equals wins.
    nics.iter().copied().rev().max_by(|a, b| packets(a, rates).total_cmp(&packets(b, rates)))
}

fn packets(nic: &Nic, rates: &Rates) -> f64 {
    rates.nic(&nic.name).map_or(0.0, |rates| rates.rx_packets)
}

fn propose(model: &Model, rates: &Rates, nic: &Nic, width: usize) -> Spread {
    let rps = rps::settings(nic, rps::masks(model, rates, nic, width));
    let rfs = rfs::settings(model, nic);
    let mut spread = Spread::default();
    let readable = nic.rx.iter().all(|queue| queue.rps_cpus.known().is_some());
    let off = nic.rx.iter().any(|queue| queue.rps_cpus.known().is_some_and(CpuMask::is_empty));
    spread.reasons.extend(rps.is_empty().then(|| match (readable, off) {
        (false, _) => format!("rps: a mask of {} cannot be read", nic.name),
        (true, true) => {
            format!("rps: {} has more queues to hand over than there are CPUs without interrupts", nic.name)
        }
        (true, false) => format!("rps: the masks of {} need no change", nic.name),
    }));
    let sizes = model.rps_sock_flow_entries.known().is_some()
        && nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some());
    spread.reasons.extend(rfs.is_empty().then(|| {
        match sizes {
            true => format!("rfs: the tables of {} are complete", nic.name),
            false => "rfs: a table cannot be read (the global one is visible only in the initial network \
                      namespace)"
                .into(),
        }
    }));

    if !rps.is_empty() {
        spread.proposals.push(proposal(model, rates, nic, "rps", rps.clone()));
    }
    if !rfs.is_empty() {
        spread.proposals.push(proposal(model, rates, nic, "rfs", rfs.clone()));
        if !rps.is_empty() {
            spread.proposals.push(proposal(model, rates, nic, "rps+rfs", [rps, rfs].concat()));
        }
    }
    spread
}

fn proposal(model: &Model, rates: &Rates, nic: &Nic, name: &str, settings: Vec<PlannedSetting>) -> Proposal {
    let mut plan = Plan {
        schema: Plan::SCHEMA.to_owned(),
        name: name.to_owned(),
        host: Some(model.identity.hostname.clone()),
        settings,
        notes: Vec::new(),
        prediction: None,
    };
    plan.prediction = forecast(model, rates, &plan).ok();
    if name != "rps" {
        plan.notes.push(
            "RFS follows the CPU that last read a connected socket: TCP, and UDP after connect(); other \
             UDP servers see no change"
                .to_owned(),
        );
    }
    Proposal { nic: nic.name.clone(), plan, next: None }
}

pub(super) fn even(mask: &CpuMask) -> Steering {
    let part = 1.0 / mask.len() as f64;
    mask.iter().map(|cpu| (cpu, part)).collect()
}

/// CPUs where sockets are read, by the time that processes run: the best guess from rates. None for virtual
/// interfaces, as their senders run on this machine too.
pub(super) fn readers(model: &Model, rates: &Rates, nic: &Nic) -> Option<Steering> {
    if nic.kind != NicKind::Device {
        return None;
    }
    let online = model.online();
    let cpus = || rates.cpus.iter().filter(|cpu| online.contains(cpu.cpu));
    let total: f64 = cpus().map(processing).sum();
    (total > 0.0).then(|| cpus().map(|cpu| (cpu.cpu, processing(cpu) / total)).collect())
}

#[cfg(test)]
#[path = "spread/tests.rs"]
mod tests;
