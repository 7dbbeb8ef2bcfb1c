//! The on-disk record of a trial: everything asked, every slot measured, and the
//! conclusion. A report needs nothing else.

use super::metrics::name::THROUGHPUT;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::check::Check;
pub use super::effect::Effect;
use super::prior::Planned;
use super::query::Query;
use super::spec::Kind;
use rxlab_advise::doctor::NicQueues;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::model::Identity;
use rxlab_probe::Cost;
use rxlab_setting::Prediction;
use rxlab_stats::design::{Arm, Phase};

/// An arm without settings, in words.
pub const AS_IS: &str = "the machine as it was";

/// Direction in which a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughput.
    Higher,
    /// Latency, cost, load of the hottest CPU.
    Lower,
}

/// A metric by name, with everything needed to print and judge it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Metric {
    /// Key in [`Slot::values`], such as `throughput` or `hottest_cpu_net_rx_share`.
    pub name: String,
    /// Title for people, such as `hottest CPU, NET_RX share`.
    pub title: String,
    /// Unit of the values: `req/s`, `pkt/s`, `us`, `%`.
    pub unit: String,
    /// Direction that is better.
    pub better: Better,
}

/// One slot: an unmeasured washout, then a measured interval, with one arm set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slot {
    /// Pair number, from 0, counted within the phase. Before and after: number of the slot in its arm.
    pub pair: usize,
    /// Purpose of the slot.
    pub phase: Phase,
    /// 0 = first of its pair, 1 = second. Before and after: 0 = arm A, 1 = arm B.
    pub position: u8,
    /// The arm that was set.
    pub arm: Arm,
    /// Start of the measured interval, seconds since the trial began.
    pub start_s: f64,
    /// Length of the measured interval in seconds.
    pub seconds: f64,
    /// Value of each metric by [`Metric::name`]. Unavailable metrics are absent.
    pub values: BTreeMap<String, f64>,
    /// Names of the values that are lower bounds: requests unanswered at the end of the slot count with their
    /// age, and the value lies among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<String>,
    /// Reasons for values of queries that are missing, by [`Metric::name`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
    /// NET_RX softirq runs per second by CPU.
    pub net_rx: BTreeMap<CpuId, f64>,
    /// Packets per second that went up the stack, by CPU; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packets: BTreeMap<CpuId, f64>,
    /// Softirq time by CPU, fraction of wall time.
    pub softirq: BTreeMap<CpuId, f64>,
    /// CPU time of the eBPF programs that measured it, if the kernel counts that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_cost: Option<Cost>,
    /// Reason why the slot does not count: the manipulation check failed, a CPU went away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

impl Slot {
    /// A slot of a second that counts, by its phase, pair, position and arm.
    pub fn sample((phase, pair, position, arm): (Phase, usize, u8, Arm), values: &[(&str, f64)]) -> Self {
        Self {
            pair,
            phase,
            position,
            arm,
            start_s: (2 * pair + usize::from(position)) as f64 * 1.5,
            seconds: 1.0,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            at_least: Vec::new(),
            absent: BTreeMap::new(),
            net_rx: BTreeMap::new(),
            packets: BTreeMap::new(),
            softirq: BTreeMap::new(),
            probe_cost: None,
            void: None,
        }
    }
}

/// Evidence on capacity from a trial in which throughput is not proven to rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Capacity {
    /// A CPU was full or a part was lost, and throughput rose by less than the margin, if at all.
    Same,
    /// The same, and the interval of the throughput is too wide to decide.
    Undecided,
    /// No CPU was full, or everything offered got through: more capacity would not have shown.
    Hidden,
}

/// The noise of the machine, from pairs in which nothing was flipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Calibration {
    /// Pairs measured.
    pub pairs: usize,
    /// Coefficient of variation of the primary metric over single slots (0.03 = 3 %).
    pub cv: f64,
    /// Standard deviation of the log ratio of a pair.
    pub sd_d: f64,
    /// Share of relabelled runs that a 5 % test rejects; 3 to 7 % is sound.
    pub rejection_rate: f64,
}

/// Call of one metric's interval against the margin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Better, proven by this method.
    Helps,
    /// Worse, proven by this method.
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

impl Call {
    /// The calls of an interval that shows an effect, however small.
    pub const SHOWN: [Self; 3] = [Self::Helps, Self::Hurts, Self::Negligible];
}

/// One metric over all valid pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MetricResult {
    /// The metric.
    pub metric: Metric,
    /// Valid pairs that have it in both slots.
    pub pairs: usize,
    /// Mean over the slots of arm A, in the metric's unit: the geometric one, unless some value is 0.
    pub mean_a: f64,
    /// Mean over the slots of arm B.
    pub mean_b: f64,
    /// The change from A to B; `None` with fewer than 2 pairs.
    pub effect: Option<Effect>,
    /// Two-sided p of the sign-flip permutation test; `None` while the trial may continue.
    pub p: Option<f64>,
    /// The call.
    pub call: Call,
    /// Smallest effect that this many pairs would find with 80 % power (0.03 = 3 %).
    pub detectable: Option<f64>,
    /// What the effect is adjusted for, if live traffic differed by chance between the slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adjustment: Option<Adjustment>,
    /// Change of each valid pair in time order, `(pair, ln(B/A))`; if a value is 0, B - A as a fraction of the mean
    /// of both arms. Adjusted like the effect.
    pub ratios: Vec<(usize, f64)>,
}

/// Adjustment of an effect for circumstances that the change does not cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Adjustment {
    /// The circumstances, by their keys in [`Slot::values`].
    pub covariates: Vec<String>,
    /// Share of the squared log ratios of the pairs that they explain.
    pub explained: f64,
    /// The change from A to B as measured.
    pub unadjusted: Effect,
}

/// The conclusion. The order of the variants is not a ranking; `trial::verdict` ranks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The primary metric got better.
    Helps,
    /// The primary metric got worse.
    Hurts,
    /// No effect beyond the margin; `negligible` if there is one below it.
    NoMeasurableEffect {
        /// An effect exists and is too small to matter.
        negligible: bool,
    },
    /// A comparison of slots before and after the change, which proves nothing.
    Unproven {
        /// The call that a randomised trial with these values would have got.
        apparent: Call,
    },
    /// Undecided within the allowed pairs.
    Inconclusive {
        /// Smallest effect that would have been found (0.03 = 3 %); infinite (JSON null) if
        /// there were too few pairs to find any.
        #[serde(with = "super::effect::infinite")]
        #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
        detectable: f64,
        /// Estimated pairs for a decision.
        pairs_needed: usize,
    },
    /// The receive path takes too little CPU time for any gain to exceed the margin.
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
        /// The sign observed.
        reason: String,
    },
    /// The work moved off the hottest CPU; higher throughput is not proven.
    SpreadsOnly {
        /// Times that the softirq work of the hottest CPU fits into its time, before.
        headroom_before: f64,
        /// The same after.
        headroom_after: f64,
        /// Interval of the latter, from that of the hottest CPU's softirq time.
        headroom_interval: (f64, f64),
        /// Evidence on capacity.
        capacity: Capacity,
    },
    /// A guard tripped and the change was reverted immediately.
    GuardTripped {
        /// The guard and its figures.
        reason: String,
    },
    /// The change did not take hold: the slots of arm B are void.
    NotApplied {
        /// Observation of the manipulation check.
        reason: String,
    },
    /// A value of the trial was set from outside: the trial stopped and left that value alone.
    MachineChanged {
        /// The value, with the expected and the found one.
        reason: String,
    },
    /// Stopped by the user before a decision.
    Interrupted,
}

/// Times at which the probe measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeSlots {
    /// In every slot of both arms, attached from the first to the last.
    #[default]
    Attached,
    /// In a separate interval after each slot, as long as the slot: the other metrics are measured
    /// without it.
    Detached,
}

/// The probe of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeUse {
    /// Times of measurement.
    pub slots: ProbeSlots,
    /// CPU of the probe thread, if there was one.
    pub spin: Option<CpuId>,
    /// CPUs whose interference counted; empty = all.
    pub cpus: CpuMask,
    /// Distinctions that this kernel does not provide.
    pub limits: Vec<String>,
}

/// The conclusion of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// The verdict that outranks the others.
    pub verdict: Verdict,
    /// The first is the primary metric.
    pub metrics: Vec<MetricResult>,
    /// Comparison pairs in which both slots are valid.
    pub pairs: usize,
    /// Void slots.
    pub voids: usize,
    /// Remarks for a careful reader: violated assumptions, rejected metrics.
    pub notes: Vec<String>,
}

/// The record of one trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialRecord {
    /// `rxlab.trial/3`.
    pub schema: String,
    /// Directory name of the trial, unique on this machine.
    pub id: String,
    /// Version of rxlab that ran it.
    pub version: String,
    /// One word for the factor, such as `rps`.
    pub name: String,
    /// The design: in pairs, or before and after.
    #[serde(default, skip_serializing_if = "Kind::is_usual")]
    pub design: Kind,
    /// Settings of arm A, or its command; empty = the machine as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<String>,
    /// Settings of arm B, or its command; empty = the machine as it was.
    pub change: Vec<String>,
    /// The plan file of arm B, as given; `None` = settings or commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// The probe, if a metric needed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeUse>,
    /// Softirq times were measured in windows by eBPF programs, not by the kernel.
    #[serde(default)]
    pub softirq_timed: bool,
    /// Prediction for the plan of arm B, if its file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<Prediction>,
    /// The plan from a sample before the trial; `None` if the slots were given, or nothing could be sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<Planned>,
    /// Receive queues of the interfaces concerned, before the first slot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<NicQueues>,
    /// Checks from outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Queries to a Prometheus.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<Query>,
    /// The workload, in one line: the load's command line or `live traffic`.
    pub workload: String,
    /// The host.
    pub host: Identity,
    /// Network namespace whose interfaces were measured, in the form of `--netns`; `None` for the machine's own, or that of
    /// a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// Online CPUs at that time.
    pub cpus: usize,
    /// Model of the CPUs; `None` if unknown, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Drivers of the interfaces concerned, each once; empty if unknown, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub drivers: BTreeSet<String>,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// Seed of the coins.
    pub seed: u64,
    /// Margin of equivalence (0.03 = 3 %).
    pub margin: f64,
    /// Fewest pairs at which the trial may decide before its end.
    pub min_pairs: usize,
    /// Pairs at which the trial stops undecided.
    pub max_pairs: usize,
    /// Time after which it decides as well as it can, seconds since the first slot; `None` if only pairs end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
    /// The time was over before all pairs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub time_is_over: bool,
    /// Washout before each measured interval, seconds.
    pub washout_s: f64,
    /// Measured interval, seconds.
    pub measure_s: f64,
    /// Metrics, primary first.
    pub metrics: Vec<Metric>,
    /// The noise, if it was calibrated.
    pub calibration: Option<Calibration>,
    /// Every slot in time order, including void ones.
    pub slots: Vec<Slot>,
    /// The conclusion; `None` while the trial runs or after it was killed.
    pub analysis: Option<Analysis>,
}

impl TrialRecord {
    pub const SCHEMA: &'static str = "rxlab.trial/3";

    /// The verdict; `None` before the end.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.analysis.as_ref().map(|analysis| &analysis.verdict)
    }

    /// True if a guard tripped in a slot of arm A, while the change was not set.
    pub fn tripped_without_change(&self) -> bool {
        matches!(self.verdict(), Some(Verdict::GuardTripped { .. }))
            && self.slots.last().is_some_and(|slot| slot.arm == Arm::A)
    }

    /// End of the last slot, seconds since the trial began.
    pub fn done_s(&self) -> f64 {
        self.slots.last().map_or(0.0, |slot| slot.start_s + slot.seconds)
    }

    /// True if another pair would probably end after the time of the trial. Only the clock tells.
    pub fn has_no_time(&self) -> bool {
        let Some(time) = self.time_s else { return false };
        let nominal = self.washout_s + self.measure_s;
        let slots = self.slots.len() as f64;
        let slot = if slots > 0.0 { nominal.max(self.done_s() / slots) } else { nominal };
        self.done_s() + 2.0 * slot > time
    }

    /// The valid slots of the comparison.
    pub fn compared(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.phase == Phase::Comparison && slot.void.is_none())
    }

    /// Slots of the comparison in which no work was done, and all of them, if those are most.
    pub fn idle_slots(&self) -> Option<(usize, usize)> {
        let works = [Arm::A, Arm::B].map(|arm| self.values(THROUGHPUT, arm).collect::<Vec<f64>>()).concat();
        let idle = works.iter().filter(|work| **work == 0.0).count();
        (2 * idle > works.len()).then_some((idle, works.len()))
    }

    /// Values of a metric in the valid comparison slots of an arm.
    pub fn values(&self, metric: &str, arm: Arm) -> impl Iterator<Item = f64> {
        let slots = self.compared().filter(move |slot| slot.arm == arm);
        slots.filter_map(move |slot| slot.values.get(metric).copied())
    }

    /// Settings or commands of each arm, in words.
    pub fn arms(&self) -> [Vec<String>; 2] {
        [&self.against, &self.change].map(|lines| match lines.as_slice() {
            [] => vec![AS_IS.to_owned()],
            lines => lines.to_vec(),
        })
    }

    /// CPU time of the probe's programs in the slots of an arm, as a fraction of one CPU.
    pub fn probe_cost(&self, arm: Arm) -> Option<f64> {
        let slots = self.slots.iter().filter(|slot| slot.arm == arm);
        let (mut ns, mut of_ns) = (0, 0);
        for cost in slots.filter_map(|slot| slot.probe_cost) {
            ns += cost.ns;
            of_ns += cost.of_ns;
        }
        (of_ns > 0).then(|| ns as f64 / of_ns as f64)
    }
}
