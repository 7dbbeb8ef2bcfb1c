//! The specification of a trial: one change, one workload, a design, guards. Written as
//! TOML, or made from flags.

mod validate;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::check::Check;
use super::choose;
use super::halving;
use super::probed::Probed;
use super::query::Query;
use super::record::ProbeSlots;
use rxlab_advise::plan::candidates::{Candidate, Searched};
use rxlab_base::parse;
use rxlab_base::units::{self, CpuId, CpuMask, NicName};
use rxlab_load as load;
use rxlab_probe::Budget;
use rxlab_setting::Setting;
use rxlab_stats::looks;

pub use validate::SpecError;

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// One word for the factor, such as `rps`.
    pub name: String,
    /// The change to flip; none with a factorial design.
    #[serde(default, skip_serializing_if = "Change::is_none")]
    pub change: Change,
    /// The factors of a factorial design.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub factor: Vec<Named>,
    /// The candidates of a search, or the levels of a sweep in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arm: Vec<Named>,
    /// The candidates of a search, made from the machine's topology; they become `arm`s before the trial begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidates: Option<Candidates>,
    /// The workload during the slots.
    pub workload: Workload,
    /// Where the load of the workload runs, if not here: each offers all of it.
    #[serde(default, rename = "client", skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Client>,
    /// Number of slots and pairs, their order and the seed.
    #[serde(default)]
    pub design: Design,
    /// Limits that stop and revert immediately.
    #[serde(default)]
    pub guards: Guards,
    /// Measurement of receive time, for metrics that need it.
    #[serde(default)]
    pub probe: Probe,
    /// Checks from outside the process under test, during the whole trial.
    #[serde(default, rename = "check", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Queries to a Prometheus, for context and as guards.
    #[serde(default, rename = "query", skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<Query>,
}

/// The factor: settings, or a pair of shell commands. Exactly one of the two.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Settings of arm B, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Setting>,
    /// Settings of arm A; without them it is the unchanged machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Setting>,
    /// A plan file, as for `rxlab apply`; its settings are arm B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Shell command that sets arm A, whatever arm B has done; it restores the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// Shell command that sets arm B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
}

impl Change {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings with a name, either all set or all as they were.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// One word, such as `rps`.
    pub name: String,
    /// Its settings, in this order.
    pub set: Vec<Setting>,
    /// Of a candidate of a choice: a scale with one optimum, such as numbers of CPUs, and the position on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<(usize, usize)>,
    /// Of a candidate of a choice: tried only if its neighbours on the scale lead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub later: bool,
}

/// What a search tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    /// The kind of setting.
    pub of: Searched,
    pub nic: NicName,
}

/// A place from which load is offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Shell command that starts `rxlab client` there, such as `ssh gen1 rxlab client`.
    pub run: String,
}

/// The arms of a trial, and how slots are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Two arms, in pairs of neighbouring slots.
    #[default]
    Pairs,
    /// All slots of arm A, then all of arm B: nothing is randomised, and nothing is proven.
    #[serde(rename = "before-after")]
    BeforeAfter,
    /// Every combination of two or three factors, in blocks that hold each combination once.
    Factorial,
    /// The best of several arms, by halving.
    Search,
    /// Every arm in each block, for the curve of a factor over its levels.
    Sweep,
    /// The best of several arms and of the unchanged machine, as soon as the others cannot win; nothing is confirmed.
    Choice,
}

impl Kind {
    /// True for two arms, whose record is that of a trial in pairs.
    pub fn has_two_arms(&self) -> bool {
        matches!(self, Kind::Pairs | Kind::BeforeAfter)
    }

    /// True for the design of most trials: in pairs.
    pub fn is_usual(&self) -> bool {
        *self == Kind::Pairs
    }

    /// `a factorial trial`, as messages name it.
    pub fn in_words(self) -> &'static str {
        match self {
            Kind::Pairs => "a trial in pairs",
            Kind::BeforeAfter => "a before-after comparison",
            Kind::Factorial => "a factorial trial",
            Kind::Search => "a search",
            Kind::Sweep => "a sweep",
            Kind::Choice => "a choice",
        }
    }
}

/// Workload during the slots. Exactly one of `load`, `command`, `live`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The built-in load, running throughout the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<load::Spec>,
    /// A shell command, run once per slot: its run is the measured interval. It prints one
    /// number (the throughput), or one JSON object whose numbers are metrics by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The machine's own traffic: nothing is driven.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// Interface whose packets count as throughput of live traffic; default: all but `lo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicName>,
}

/// Number of slots and pairs, their order and the seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Design {
    /// The arms, and how slots are compared.
    pub kind: Kind,
    /// Blocks of a factorial design, all of which run.
    pub blocks: usize,
    /// Seed of the coins; drawn and recorded if not given.
    pub seed: Option<u64>,
    /// Pairs at which the trial ends undecided; by default [`looks::PAIRS`], more of them if the sample before the trial
    /// chooses slots shorter than [`Design::MEASURE`].
    /// Slots of each arm of a before-after comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<usize>,
    /// Fewest pairs before the trial may stop early: more of them make the other metrics' intervals
    /// narrower. The same as `pairs` = no early stop.
    pub min_pairs: usize,
    /// Pairs with nothing flipped, before the others; 0 = no calibration.
    pub calibration: usize,
    /// Margin of equivalence as a fraction (0.03 = 3 %).
    pub margin: f64,
    /// Settling time before each measured interval.
    pub washout: Seconds,
    /// Measured interval; by default chosen from a sample before the trial, [`Design::MEASURE`] if that cannot tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Seconds>,
    /// Shortest slot that the sample may choose; default [`Design::SHORTEST`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortest: Option<Seconds>,
    /// Time for the sample and all slots, after which the trial decides as well as it can; by default only the number of
    /// pairs ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Seconds>,
    /// Name of the primary metric; default: the result of [`super::metrics::choose`], else throughput.
    pub primary: Option<String>,
    /// Metrics of the probe, judged in addition to the standard ones.
    pub metrics: Vec<String>,
}

impl Design {
    /// Length of a slot unless something else is known.
    pub const MEASURE: Duration = Duration::from_secs(2);

    /// Shortest slot that the sample chooses by itself.
    pub const SHORTEST: Duration = Duration::from_millis(500);

    /// What a flip takes in addition to the washout: the median of `bench/flip.rs` and its worst tenth in the middle.
    pub const FLIP: Duration = Duration::from_millis(5);

    /// Part of the time of a trial that its sample may take.
    const SAMPLED: f64 = 0.2;

    /// Time from one slot to the next.
    pub fn slot(&self, measure: Duration) -> Duration {
        self.washout.0 + Self::FLIP + measure
    }

    /// Shortest slot that the sample may choose.
    pub fn shortest(&self) -> Duration {
        self.shortest.map_or(Self::SHORTEST, |shortest| shortest.0)
    }

    /// Longest sample of a trial with a limited time.
    pub fn time_to_sample(&self) -> Option<Duration> {
        self.time.map(|time| time.0.mul_f64(Self::SAMPLED))
    }

    /// Time of a trial with a limited time that its slots have, if the sample takes all of its own.
    pub fn time_of_slots(&self) -> Option<Duration> {
        self.time.map(|time| time.0.mul_f64(1.0 - Self::SAMPLED))
    }

    pub fn measure(&self) -> Duration {
        self.measure.map_or(Self::MEASURE, |measure| measure.0)
    }

    /// Pairs at which the trial ends undecided.
    pub fn pairs(&self) -> usize {
        self.pairs_at(self.measure())
    }

    /// Pairs at which a trial with slots of `measure` ends undecided. Unless asked for, as many as fit into the time of a
    /// trial with slots of the usual length, or into its time: short slots are noisier, and need more of them.
    pub fn pairs_at(&self, measure: Duration) -> usize {
        if let (None, Some(time)) = (self.pairs, self.time_of_slots()) {
            return (time.as_secs_f64() / 2.0 / self.slot(measure).as_secs_f64()) as usize;
        }
        let slot = |measure: Duration| (self.washout.0 + measure).as_secs_f64();
        let fit = looks::PAIRS as f64 * slot(Self::MEASURE) / slot(measure);
        self.pairs.unwrap_or((fit.round() as usize).max(looks::PAIRS))
    }
}

impl Default for Design {
    fn default() -> Self {
        Self {
            kind: Kind::Pairs,
            blocks: 20,
            seed: None,
            pairs: None,
            min_pairs: looks::FIRST,
            calibration: 0,
            margin: 0.03,
            washout: Seconds(Duration::from_millis(500)),
            measure: None,
            shortest: None,
            time: None,
            primary: None,
            metrics: Vec::new(),
        }
    }
}

/// Measurement of receive time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    /// During the slots or after them.
    pub slots: ProbeSlots,
    /// CPU of the probe thread: a task that is always a possible victim; required by `interference.inferred`.
    pub spin: Option<CpuId>,
    /// CPUs whose interference counts in `interference.*`; default: all.
    pub cpus: CpuMask,
    /// Fraction of a CPU's time that measuring softirq time may take, unless a metric takes more.
    pub budget: Budget,
}

/// Limits for a single slot; beyond one of them the slot ends and the change is reverted immediately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    /// Largest fraction of failed requests (0.01 = 1 %): of the load, or the `error_rate` that the command
    /// prints.
    pub error_rate: Option<f64>,
    /// Largest p99 latency in microseconds: of the load, or the `p99_us` that the command prints.
    pub p99_us: Option<f64>,
    /// Most packets per second dropped by the backlogs and the interfaces.
    pub drops: Option<f64>,
}

impl Default for Guards {
    fn default() -> Self {
        Self { error_rate: Some(0.01), p99_us: None, drops: None }
    }
}

/// A duration written as `500ms`, `2s`, `1m`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Seconds(pub Duration);

impl TryFrom<String> for Seconds {
    type Error = units::DurationError;

    fn try_from(text: String) -> Result<Self, units::DurationError> {
        units::parse_duration(&text).map(Self)
    }
}

impl From<Seconds> for String {
    fn from(seconds: Seconds) -> String {
        units::format_duration(seconds.0)
    }
}

/// Longest name of a trial, in bytes.
pub const MAX_NAME: usize = 40;

/// True for a character allowed in the name of a trial, which becomes part of a directory name.
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.')
}

impl Spec {
    /// Reads the TOML form and checks it.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let spec: Self = toml::from_str(text).map_err(|error| {
            let (line, column) = parse::position(text, error.span().map_or(0, |span| span.start));
            SpecError::Text { line, column, what: error.message().replace('\n', " ") }
        })?;
        spec.check()?;
        Ok(spec)
    }

    /// The workload, in one line.
    pub fn workload_in_words(&self) -> String {
        let words = match (&self.workload.load, &self.workload.command) {
            (Some(load), _) => format!("{}, {}", load.url, load::shape(load)),
            (None, Some(command)) => format!("command `{command}`, once per slot"),
            (None, None) => "live traffic, nothing driven".to_owned(),
        };
        match self.clients.len() {
            0 => words,
            1 => format!("{words}, from another client"),
            count => format!("{words}, from each of {count} clients"),
        }
    }

    /// Requests per second of an open loop at a steady rate, of all clients together.
    pub fn offered(&self) -> Option<f64> {
        let rate = self.workload.load.as_ref()?.rate.as_ref()?.is_steady()?;
        Some(rate * self.clients.len().max(1) as f64)
    }

    /// True if a metric of the probe was asked for.
    pub fn is_probed(&self) -> bool {
        self.design.primary.iter().chain(&self.design.metrics).any(|metric| Probed::parse(metric).is_some())
    }

    /// True for a metric of the probe, of a check or of a query.
    pub fn measures(&self, metric: &str) -> bool {
        Probed::parse(metric).is_some()
            || self.checks.iter().any(|check| check.measures(metric))
            || self.queries.iter().any(|query| query.metric().name == metric)
    }

    /// Replaces the description of the candidates by the candidates themselves.
    pub fn set_candidates(&mut self, made: Vec<Candidate>) {
        self.candidates = None;
        self.arm = made
            .into_iter()
            .map(|made| Named { name: made.name, set: made.settings, size: made.size, later: false })
            .collect();
    }

    /// The named settings of a trial in blocks: factors, candidates or levels.
    pub fn named(&self) -> &[Named] {
        if self.design.kind == Kind::Factorial { &self.factor } else { &self.arm }
    }

    /// Settings of each cell of a trial in blocks, of which the first is the baseline. In a factorial design bit `i` of
    /// its number says whether factor `i` is set; else each arm has one.
    pub fn cells(&self) -> Vec<Vec<Setting>> {
        if self.design.kind != Kind::Factorial {
            return std::iter::once(Vec::new()).chain(self.arm.iter().map(|arm| arm.set.clone())).collect();
        }
        let set = |cell: usize| {
            let set = self.factor.iter().enumerate().filter(|(bit, _)| cell & (1 << bit) != 0);
            set.flat_map(|(_, factor)| factor.set.iter().cloned()).collect()
        };
        (0..1 << self.factor.len()).map(set).collect()
    }

    /// Slots of the trial if none is void and no look stops it.
    pub fn slots(&self) -> usize {
        let design = &self.design;
        match design.kind {
            Kind::Pairs | Kind::BeforeAfter => 2 * (design.calibration + design.pairs()),
            Kind::Factorial => design.blocks << self.factor.len(),
            Kind::Search => halving::slots(self.arm.len(), design.blocks),
            Kind::Sweep => design.blocks * (self.arm.len() + 1),
            Kind::Choice => {
                let first = self.arm.iter().filter(|arm| !arm.later).count();
                choose::slots(first + 1, design.blocks)
            }
        }
    }
}

#[cfg(test)]
mod tests;
