//! The way of one flow's packets: hash, indirection table, queue, interrupt, CPU, RPS.
//!
//! A flow rule of the device comes first. Otherwise the device hashes header fields and looks up the queue in its
//! table.

mod cpu;
mod hash;
mod rules;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Flow, Model, Nic, NicKind, Transport};
use rules::Rules;
use rxlab_base::parse::ethtool::{FlowAction, Rss};
use rxlab_base::units::{CpuId, Fact, IrqId, NicName};

/// The hash function may be reported even then.
const NO_TABLE: &str = "the driver reports no RSS table";

/// How sure a step is, least first. A step is no surer than those that it follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// At best the possible values are known.
    NotKnown,
    /// True if the assumption in the reasons is.
    Assumed,
    /// Computed by the standard method from values that device and kernel report.
    Computed,
    /// Reported by device and kernel, or the only possibility.
    Certain,
}

/// One step of the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step<T> {
    /// Every possible value, ascending. Empty if nothing is known about the step, or if the flow does not take it.
    pub among: Vec<T>,
    /// How sure that is.
    pub certainty: Certainty,
    /// The reasons, if there are any to name.
    pub why: Vec<String>,
}

impl<T: Ord + Copy> Step<T> {
    fn new(among: impl IntoIterator<Item = T>, certainty: Certainty, why: Option<String>) -> Self {
        let among: BTreeSet<T> = among.into_iter().collect();
        Self { among: among.into_iter().collect(), certainty, why: why.into_iter().collect() }
    }

    fn not_known(why: impl Into<String>) -> Self {
        Self::new([], Certainty::NotKnown, Some(why.into()))
    }

    /// Given every value that is possible after a step of this certainty: a single one is certain even if the step
    /// before is not known.
    fn settled(among: impl IntoIterator<Item = T>, before: Certainty) -> Self {
        let step = Self::new(among, before, None);
        let certainty = match (step.among.len(), before) {
            (1, Certainty::NotKnown) => Certainty::Certain,
            (0 | 1, before) => before,
            _ => Certainty::NotKnown,
        };
        Self { certainty, ..step }
    }

    /// The value, if only one is possible.
    pub fn only(&self) -> Option<T> {
        match self.among[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Given what is assumed, if anything.
    fn with_doubts(mut self, doubts: Vec<String>) -> Self {
        if !doubts.is_empty() {
            self.certainty = self.certainty.min(Certainty::Assumed);
            self.why.extend(doubts);
        }
        self
    }
}

/// The way of one flow's packets through a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowPath {
    /// `rxlab.flow/1`.
    pub schema: String,
    /// The flow: transport, local end, remote end.
    pub flow: Flow,
    /// The interface that receives it.
    pub nic: NicName,
    /// The driver; `None` for virtual interfaces, which do not name theirs in sysfs.
    pub driver: Option<String>,
    /// The device's RSS hash.
    pub hash: Step<u32>,
    /// Position in the indirection table; `None` if no table decides.
    pub entry: Option<Step<u32>>,
    /// Receive queue.
    pub queue: Step<u32>,
    /// Interrupt of the queue.
    pub irq: Step<IrqId>,
    /// CPU that takes the packets from the queue.
    pub cpu: Step<CpuId>,
    /// CPU that takes them up the stack: the same one without RPS.
    pub rps_cpu: Step<CpuId>,
}

impl FlowPath {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.flow/1";

    /// The way of `flow`, received by `nic`. A machine from a redacted snapshot (`is_redacted`) has neither hash keys
    /// nor the real addresses of flow rules.
    pub fn new(model: &Model, nic: &Nic, flow: &Flow, is_redacted: bool) -> Self {
        let rules = Rules::new(nic, flow, is_redacted);
        let rss = rules.rss(nic);
        let hash = rss.as_ref().map_err(Clone::clone);
        let hash = hash.and_then(|rss| hash::rss_hash(nic, flow, rss, is_redacted));
        let hash = hash.unwrap_or_else(Step::not_known);
        let (entry, queue) = queue(model, nic, flow, &rules, rss, &hash);
        let (irq, cpu) = cpu::interrupt(model, nic, &queue)
            .unwrap_or_else(|why| (Step::not_known(why.clone()), Step::not_known(why)));
        let rps_cpu = cpu::rps(model, nic, &queue, &cpu, hash::skb_hash(nic, flow, &rules, &hash))
            .unwrap_or_else(Step::not_known);
        Self {
            schema: Self::SCHEMA.to_owned(),
            flow: *flow,
            nic: nic.name.clone(),
            driver: nic.driver.clone(),
            hash,
            entry,
            queue,
            irq,
            cpu,
            rps_cpu,
        }
    }
}

/// Position in the table, if one decides, and the queue.
fn queue(
    model: &Model,
    nic: &Nic,
    flow: &Flow,
    rules: &Rules<'_>,
    rss: Result<Rss, String>,
    hash: &Step<u32>,
) -> (Option<Step<u32>>, Step<u32>) {
    let all = || nic.rx.iter().map(|queue| queue.index);
    let unknown = |why: String| (None, Step::new(all(), Certainty::NotKnown, Some(why)));
    if let Some(why) = rules.ambiguous() {
        return unknown(why);
    }
    let mut offset = 0;
    if let Some(rule) = rules.deciding() {
        let steered = |queue: Option<u32>, how: String| {
            let why = format!("flow rule {} {how}", rule.location);
            (None, Step::new(queue, Certainty::Certain, Some(why)))
        };
        match rule.action {
            FlowAction::Context { queue, .. } => offset = queue,
            FlowAction::Queue(queue) => return steered(Some(queue), "sends the packets there".to_owned()),
            FlowAction::VirtualFunction { vf, queue } => {
                return steered(None, format!("sends the packets to virtual function {vf}, rx-{queue}"));
            }
            FlowAction::Drop | FlowAction::WakeOnLan => return steered(None, "drops the packets".to_owned()),
        }
    } else if nic.rx.len() <= 1 {
        return (None, Step::new(all(), Certainty::Certain, None).with_doubts(rules.doubts()));
    }
    if nic.kind != NicKind::Device {
        return unknown("the interface that hands over the packets chooses the queue".to_owned());
    }
    let rss = match rss {
        Ok(rss) if !rss.table.is_empty() => rss,
        Ok(_) => return unknown(NO_TABLE.to_owned()),
        Err(why) => return unknown(why),
    };
    let entry = entry(hash, rss.table.len());
    let doubts: Vec<String> = rules.doubts().into_iter().chain(moved_by_device(model, nic, flow)).collect();
    let queue = match entry.only().and_then(|entry| rss.table.get(entry as usize).map(|queue| queue + offset))
    {
        Some(queue) => Step::new([queue], entry.certainty, None).with_doubts(doubts),
        // Whatever else steers the flow may use any queue.
        None if !doubts.is_empty() => Step::new(all(), Certainty::NotKnown, None),
        None => Step::settled(rss.weights().into_keys().map(|queue| queue + offset), Certainty::NotKnown),
    };
    (Some(entry), queue)
}

/// Position of a hash in a table of `entries` entries.
fn entry(hash: &Step<u32>, entries: usize) -> Step<u32> {
    let Some(value) = hash.only() else { return Step::new([], Certainty::NotKnown, None) };
    let why = format!("the hash modulo {entries}, the length of the table");
    let position = Step::new([(value as usize % entries) as u32], hash.certainty, Some(why));
    // Devices take the lowest bits of the hash.
    let odd = (!entries.is_power_of_two()).then(|| "assumed: the length is not a power of two".to_owned());
    position.with_doubts(odd.into_iter().collect())
}

/// The reason why a device may use another queue than its table says.
fn moved_by_device(model: &Model, nic: &Nic, flow: &Flow) -> Option<String> {
    let has_ntuple = is_on(nic, "rx-ntuple-filter");
    let driver = nic.driver.as_deref().unwrap_or_default();
    if has_ntuple == Some(true) && cpu::has_rfs(model, &nic.rx) {
        return Some("assumed that accelerated RFS has not moved the flow".to_owned());
    }
    if nic.driver_facts().hash.may_lack_table {
        return Some(
            "assumed that the hypervisor has this table: older kernels pass it only if it is set".to_owned(),
        );
    }
    // Application-targeted routing, active without ntuple rules.
    let has_atr = nic.driver_facts().has_atr && has_ntuple != Some(true);
    (has_atr && flow.transport == Transport::Tcp)
        .then(|| format!("assumed that Flow Director of {driver} (ATR) has not moved the flow"))
}

/// True if an offload is on; `None` if that is not known.
fn is_on(nic: &Nic, offload: &str) -> Option<bool> {
    let features = nic.hardware.features.known()?;
    features.iter().find(|feature| feature.name == offload).map(|feature| feature.on)
}

/// A known value, or a sentence that says why it is not known.
fn known<'a, T>(fact: &'a Fact<T>, what: &str) -> Result<&'a T, String> {
    match fact {
        Fact::Known(value) => Ok(value),
        Fact::NotAsked | Fact::Unsupported => Err(format!("{what} is not reported")),
        Fact::Denied(need) => Err(format!("{what} needs {need}")),
        Fact::Broken(why) => Err(format!("{what} is unknown: {why}")),
    }
}
