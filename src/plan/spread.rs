//! Spreading receive work in software: RPS and RFS for one interface, each as a plan of its own so
//! that each can be tried alone, and both together.
//!
//! Only queues whose values are not sound get a setting, so a machine that follows the plan gets
//! none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ground::usable;
use super::prediction::{DEVICE, Move, Prediction, VIRTUAL, predict};
use super::{Plan, PlannedSetting, rfs, rps};
use crate::diagnose::evidence::irq_cpus;
use crate::model::{Model, Nic, NicKind, Rates};
use crate::units::{CpuId, CpuMask, NicName};

/// A plan for an interface. In JSON it is the plan with one more field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Proposal {
    /// The interface it is for.
    pub nic: NicName,
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
}

/// Proposals, and the reasons for those that are not made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// `rps`, `rfs` and `rps+rfs`, as far as they would change something.
    pub proposals: Vec<Proposal>,
    /// Why a variable is left alone, one line each.
    pub reasons: Vec<String>,
}

impl Spread {
    fn nothing(reason: String) -> Self {
        Self { proposals: Vec::new(), reasons: vec![reason] }
    }
}

/// Plans for `nic`, or for the interface that receives most. Says what would be set whether or not
/// there is need for it: need is for `diagnose` to find.
pub fn spread(model: &Model, rates: &Rates, nic: Option<&NicName>) -> Spread {
    let nic = match nic {
        Some(name) => match model.nic(name) {
            Some(nic) => nic,
            None => return Spread::nothing(format!("there is no interface {name}")),
        },
        None => match busiest(model, rates) {
            Some(nic) => nic,
            None => return Spread::nothing("no interface receives packets".to_owned()),
        },
    };
    let name = &nic.name;
    if nic.kind == NicKind::Loopback {
        return Spread::nothing(format!(
            "{name} receives inside the sender's system call: steering it is refused"
        ));
    }
    let usable = usable(model);
    if usable.len() < 2 {
        return Spread::nothing("there is no second CPU to give work to".to_owned());
    }
    if nic.rx.len() >= usable.len() {
        let reason =
            format!("{name} has {} RX queues for {} CPUs: RPS is redundant", nic.rx.len(), usable.len());
        return Spread::nothing(reason);
    }
    propose(model, rates, nic)
}

/// The interface that receives most, but never `lo`.
pub(super) fn busiest<'a>(model: &'a Model, rates: &Rates) -> Option<&'a Nic> {
    let packets = |nic: &Nic| rates.nic(&nic.name).map_or(0.0, |rates| rates.rx_packets);
    let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback && packets(nic) > 0.0);
    // Reversed, so that the first of equals wins.
    nics.rev().max_by(|a, b| packets(a).total_cmp(&packets(b)))
}

fn propose(model: &Model, rates: &Rates, nic: &Nic) -> Spread {
    let masks = rps::masks(model, rates, nic);
    let rps = rps::settings(model, rates, nic, &masks);
    let rfs = rfs::settings(model, nic);
    let mut spread = Spread::default();
    let readable = nic.rx.iter().all(|queue| queue.rps_cpus.known().is_some());
    let off = nic.rx.iter().any(|queue| queue.rps_cpus.known().is_some_and(CpuMask::is_empty));
    spread.reasons.extend(rps.is_empty().then(|| match (readable, off) {
        (false, _) => format!("rps: a mask of {} cannot be read", nic.name),
        (true, true) => {
            format!("rps: fewer CPUs are free of interrupts than {} has queues to hand over", nic.name)
        }
        (true, false) => format!("rps: the masks of {} are sound as they are", nic.name),
    }));
    let sizes = model.rps_sock_flow_entries.known().is_some()
        && nic.rx.iter().all(|queue| queue.rps_flow_cnt.known().is_some());
    spread.reasons.extend(rfs.is_empty().then(|| {
        match sizes {
            true => format!("rfs: the tables of {} are complete", nic.name),
            false => {
                "rfs: a table cannot be read (the global one is seen from the initial network namespace only)"
                    .into()
            }
        }
    }));

    let evenly = |queue: u32| masks.get(&queue).map(even);
    let readers = readers(model, rates, nic);
    let to_readers = |_: u32| readers.clone();
    if !rps.is_empty() {
        let prediction = prediction(model, rates, nic, evenly);
        spread.proposals.push(proposal(model, nic, "rps", rps.clone(), prediction));
    }
    if !rfs.is_empty() {
        // Where the reader of a flow is known RFS decides, so the readers' CPUs get the work, whatever the masks.
        let prediction = prediction(model, rates, nic, to_readers);
        spread.proposals.push(proposal(model, nic, "rfs", rfs.clone(), prediction.clone()));
        if !rps.is_empty() {
            spread.proposals.push(proposal(model, nic, "rps+rfs", [rps, rfs].concat(), prediction));
        }
    }
    spread
}

fn proposal(
    model: &Model,
    nic: &Nic,
    name: &str,
    settings: Vec<PlannedSetting>,
    prediction: Option<Prediction>,
) -> Proposal {
    let mut notes = Vec::new();
    if let Some(prediction) = &prediction {
        notes.push(format!("predicted: {prediction}"));
        notes.push(prediction.room(name));
    }
    if name != "rps" {
        notes.push(
            "RFS follows the CPU that last read a connected socket: TCP, and UDP after connect(); other \
             UDP servers see no change"
                .to_owned(),
        );
    }
    let plan = Plan {
        schema: Plan::SCHEMA.to_owned(),
        name: name.to_owned(),
        host: Some(model.identity.hostname.clone()),
        settings,
        notes,
        prediction,
    };
    Proposal { nic: nic.name.clone(), plan }
}

pub(super) fn even(mask: &CpuMask) -> BTreeMap<CpuId, f64> {
    mask.iter().map(|cpu| (cpu, 1.0 / mask.len() as f64)).collect()
}

/// Where sockets are read, by the time that processes run: the best guess that rates allow. There
/// is none for virtual interfaces, as their senders run on this machine too.
pub(super) fn readers(model: &Model, rates: &Rates, nic: &Nic) -> Option<BTreeMap<CpuId, f64>> {
    if nic.kind != NicKind::Device {
        return None;
    }
    let online = model.online();
    let cpus = || rates.cpus.iter().filter(|cpu| online.contains(cpu.cpu));
    let total: f64 = cpus().map(|cpu| cpu.user + cpu.system).sum();
    (total > 0.0).then(|| cpus().map(|cpu| (cpu.cpu, (cpu.user + cpu.system) / total)).collect())
}

fn prediction(
    model: &Model,
    rates: &Rates,
    nic: &Nic,
    to: impl Fn(u32) -> Option<BTreeMap<CpuId, f64>>,
) -> Option<Prediction> {
    let mut moves: Vec<Move> = Vec::new();
    for queue in &nic.rx {
        let Some(to) = to(queue.index) else { continue };
        let from = irq_cpus(queue, model, rates).first().or_else(|| rps::hottest(rates))?;
        let current = queue.rps_cpus.known().cloned().unwrap_or_default();
        moves.push(Move { from, part: 1.0, current, to });
    }
    // Queues that land on one CPU share its receive time.
    let counts = moves.iter().fold(BTreeMap::<CpuId, f64>::new(), |mut counts, step| {
        *counts.entry(step.from).or_default() += 1.0;
        counts
    });
    for step in &mut moves {
        step.part = 1.0 / counts[&step.from];
    }
    let cost = if nic.kind == NicKind::Device { DEVICE } else { VIRTUAL };
    let packets = rates.nic(&nic.name).map_or(0.0, |rates| rates.rx_packets);
    predict(rates, &moves, cost).map(|prediction| prediction.at(packets))
}

#[cfg(test)]
#[path = "spread/tests.rs"]
mod tests;
