//! What a trial leaves on disk: everything that was asked, every slot that was measured, and what
//! was concluded. A report needs nothing else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::Identity;
use crate::plan::Prediction;
use crate::probe::Cost;
use crate::units::{CpuId, CpuMask};

/// Which of the two arms of the factor a slot ran with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Arm {
    /// As the machine was.
    A,
    /// With the change.
    B,
}

/// What a slot was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Both slots of the pair ran arm A: they show the noise.
    Calibration,
    /// One slot of each arm.
    Comparison,
}

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughput.
    Higher,
    /// Latency, cost, load of the hottest CPU.
    Lower,
}

/// A metric by name, with what is needed to print and judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Metric {
    /// Key in [`Slot::values`], such as `throughput` or `hottest_cpu_net_rx_share`.
    pub name: String,
    /// What people read, such as `hottest CPU, NET_RX share`.
    pub title: String,
    /// Unit of the values: `req/s`, `pkt/s`, `us`, `%`.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
}

/// One slot: a washout that is not measured, then a measured interval, with one arm set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Slot {
    /// Pair number, from 0, counted within the phase.
    pub pair: usize,
    /// What it was for.
    pub phase: Phase,
    /// 0 = first of its pair, 1 = second.
    pub position: u8,
    /// Which arm was set.
    pub arm: Arm,
    /// Start of the measured interval, seconds since the trial began.
    pub start_s: f64,
    /// Length of the measured interval in seconds.
    pub seconds: f64,
    /// Value of each metric by [`Metric::name`]. A metric that could not be had is not in here.
    pub values: BTreeMap<String, f64>,
    /// Names of those values that are lower bounds: requests that had no answer at the end of the slot count with their
    /// age, and the value lies among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<String>,
    /// NET_RX softirq runs a second by CPU.
    pub net_rx: BTreeMap<CpuId, f64>,
    /// Packets a second that went up the stack, by CPU; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packets: BTreeMap<CpuId, f64>,
    /// Softirq time by CPU, fraction of wall time.
    pub softirq: BTreeMap<CpuId, f64>,
    /// CPU time of the eBPF programs that measured it, where the kernel counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_cost: Option<Cost>,
    /// Why the slot does not count: the manipulation check failed, a CPU went away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

/// What a trial in which throughput is not proven to rise says about capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// A CPU was full, and throughput rose by less than the margin, if at all.
    Same,
    /// A CPU was full, and the interval of the throughput is too wide to say.
    Undecided,
    /// No CPU was full, or all that was offered got through: more capacity would not have shown.
    Hidden,
}

/// The noise of the machine, from pairs in which nothing was flipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Calibration {
    /// Pairs measured.
    pub pairs: usize,
    /// Coefficient of variation of the primary metric over single slots (0.03 = 3 %).
    pub cv: f64,
    /// Standard deviation of the log ratio of a pair.
    pub sd_d: f64,
    /// Lag-1 autocorrelation of the log ratios; beyond +-0.3 slots are too short.
    pub lag1: f64,
    /// Share of relabelled runs that a 5 % test rejects; 3 to 7 % is sound.
    pub rejection_rate: f64,
}

/// An estimate with its interval, all as ratios minus one (0.05 = +5 %).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Effect {
    /// Point estimate: exp(mean of the log ratios) - 1.
    pub mid: f64,
    /// Lower end; -1 = no lower bound yet.
    pub low: f64,
    /// Upper end; infinite (JSON null) = no upper bound yet.
    #[serde(with = "infinite")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub high: f64,
}

/// JSON has no infinity: written as null.
mod infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}

/// What the interval of one metric says against the margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Better, beyond doubt of this method.
    Helps,
    /// Worse, beyond doubt of this method.
    Hurts,
    /// The whole interval is inside the margin and includes 0.
    NoEffect,
    /// The whole interval is inside the margin and excludes 0.
    Negligible,
    /// Neither: more pairs are needed.
    Inconclusive,
    /// The metric was not measured in enough pairs (fewer than 2).
    Unmeasured,
}

/// One metric over all valid pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MetricResult {
    /// Which metric.
    pub metric: Metric,
    /// Valid pairs that have it in both slots.
    pub pairs: usize,
    /// Mean over the slots of arm A, in the metric's unit.
    pub mean_a: f64,
    /// Mean over the slots of arm B.
    pub mean_b: f64,
    /// The change from A to B; `None` with fewer than 2 pairs.
    pub effect: Option<Effect>,
    /// Two-sided p of the sign-flip permutation test; `None` while the trial may still look on.
    pub p: Option<f64>,
    /// What it says.
    pub call: Call,
    /// Smallest effect this many pairs would find with 80 % power (0.03 = 3 %).
    pub detectable: Option<f64>,
    /// Log ratio of each valid pair in time order, `(pair, ln(B/A))`.
    pub ratios: Vec<(usize, f64)>,
}

/// What was concluded. The order of the variants is no ranking; `trial::verdict` ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The primary metric got better.
    Helps,
    /// The primary metric got worse.
    Hurts,
    /// No effect beyond the margin; `negligible` when there is one below it.
    NoMeasurableEffect {
        /// An effect exists and is too small to matter.
        negligible: bool,
    },
    /// Not decided within the pairs allowed.
    Inconclusive {
        /// Smallest effect that would have been found (0.03 = 3 %); infinite (JSON null) when
        /// there were too few pairs to find any.
        #[serde(with = "infinite")]
        #[cfg_attr(test, schemars(with = "Option<f64>"))]
        detectable: f64,
        /// Estimated pairs for a decision.
        pairs_needed: usize,
    },
    /// The receive path takes too little for any gain to exceed the margin.
    CannotMatter {
        /// Upper bound of the gain, f / (1 - f).
        ceiling: f64,
    },
    /// No CPU was busy enough for a change to show.
    ServerIdle {
        /// Busiest CPU, fraction of wall time.
        busiest: f64,
    },
    /// The load generator was the limit: the result says nothing about the server.
    ClientLimited {
        /// Which sign gave it away.
        reason: String,
    },
    /// The work moved off the hottest CPU; that more gets through is not proven.
    SpreadsOnly {
        /// How many times the softirq work of the hottest CPU fits into its time before.
        headroom_before: f64,
        /// The same after.
        headroom_after: f64,
        /// What was seen of the capacity.
        capacity: Capacity,
    },
    /// A guard tripped and the change was rolled back at once.
    GuardTripped {
        /// Which guard and by how much.
        reason: String,
    },
    /// The change did not take hold: the slots of arm B are void.
    NotApplied {
        /// What the manipulation check saw.
        reason: String,
    },
    /// A value of the trial was set from outside: the trial stopped and left that value alone.
    MachineChanged {
        /// The value, what was expected and what was found.
        reason: String,
    },
    /// Stopped by the user before a decision.
    Interrupted,
}

/// When the probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeSlots {
    /// In every slot of either arm, attached from the first to the last.
    #[default]
    Attached,
    /// In an interval of its own after each slot, as long as the slot: the other metrics are measured
    /// without it.
    Detached,
}

/// The probe of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProbeUse {
    /// When it measured.
    pub slots: ProbeSlots,
    /// CPU of the probe thread, when there was one.
    pub spin: Option<CpuId>,
    /// CPUs whose theft counted; empty = all.
    pub cpus: CpuMask,
    /// What this kernel does not let it tell apart.
    pub limits: Vec<String>,
}

/// The conclusion of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Analysis {
    /// The verdict that outranks the others.
    pub verdict: Verdict,
    /// The first is the primary metric.
    pub metrics: Vec<MetricResult>,
    /// Comparison pairs in which both slots are valid.
    pub pairs: usize,
    /// Void slots.
    pub voids: usize,
    /// Remarks that a careful reader wants: assumptions that did not hold, metrics refused.
    pub notes: Vec<String>,
}

/// The record of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialRecord {
    /// `rxlab.trial/1`.
    pub schema: String,
    /// Directory name of the trial, unique on this machine.
    pub id: String,
    /// Version of rxlab that ran it.
    pub version: String,
    /// One word for the factor, such as `rps`.
    pub name: String,
    /// What arm B sets, one setting a line; where arm A is more than the machine as it was, the settings or
    /// commands of both arms, as `A: SETTING` and `B: SETTING`.
    pub change: Vec<String>,
    /// The plan file of arm B, as it was given; `None` = settings or commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The probe, when metrics took one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeUse>,
    /// Softirq times are those that eBPF programs measured in windows, not the kernel's.
    #[serde(default)]
    pub softirq_timed: bool,
    /// What the plan of arm B was predicted to do, when its file said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// What ran meanwhile, in one line: the load's command line or `live traffic`.
    pub workload: String,
    /// Where it ran.
    pub host: Identity,
    /// Online CPUs then.
    pub cpus: usize,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of the coins.
    pub seed: u64,
    /// Margin of equivalence (0.03 = 3 %).
    pub margin: f64,
    /// Pairs at which the trial stops undecided.
    pub max_pairs: usize,
    /// Washout before each measured interval, seconds.
    pub washout_s: f64,
    /// Measured interval, seconds.
    pub measure_s: f64,
    /// Metrics, primary first.
    pub metrics: Vec<Metric>,
    /// The noise, when it was calibrated.
    pub calibration: Option<Calibration>,
    /// Every slot in time order, void ones too.
    pub slots: Vec<Slot>,
    /// The conclusion; `None` while the trial runs or after it was killed.
    pub analysis: Option<Analysis>,
}

impl TrialRecord {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.trial/1";
}
