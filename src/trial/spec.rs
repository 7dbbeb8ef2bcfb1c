//! The specification of a trial: one change, one workload, a design, guards. Written as
//! TOML, or made from flags.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::check::{Check, CheckError};
use super::halving;
use super::metrics;
use super::probed::{self, Probed};
use super::query::{Query, QueryError};
use super::record::ProbeSlots;
use super::stats::looks;
use crate::load;
use crate::parse;
use crate::plan::Setting;
use crate::plan::candidates::{Candidate, MOST, Searched};
use crate::probe::Budget;
use crate::units::{self, CpuId, CpuMask, NicName};

/// A trial's specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Slots, pairs, seed.
    #[serde(default)]
    pub design: Design,
    /// Limits that stop and roll back immediately.
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
}

/// What a search tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    /// The kind of setting.
    pub of: Searched,
    /// The interface.
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// Slots, pairs, seed.
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
    /// Name of the primary metric; default: the result of [`metrics::choose`], else throughput.
    pub primary: Option<String>,
    /// Metrics of the probe, judged in addition to the standard ones.
    pub metrics: Vec<String>,
}

impl Design {
    /// Length of a slot unless something else is known.
    pub const MEASURE: Duration = Duration::from_secs(2);

    /// Length of a slot.
    pub fn measure(&self) -> Duration {
        self.measure.map_or(Self::MEASURE, |measure| measure.0)
    }

    /// Pairs at which the trial ends undecided.
    pub fn pairs(&self) -> usize {
        self.pairs.unwrap_or(looks::PAIRS)
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

/// Limits for a single slot; beyond one of them the slot ends and the change is rolled back immediately.
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

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    /// Not TOML, or of another structure. Line and column count from 1, the column in characters.
    #[error("line {line}, column {column}: {what}")]
    Text {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
        /// The parser's message.
        what: String,
    },
    /// The name becomes part of a directory name.
    #[error("name = `{0}`: 1 to 40 letters, digits, `-`, `_`, `+` or `.` expected")]
    Name(String),
    /// `[change]` has no change, or several.
    #[error("[change] needs exactly one of: `set` or `against` or both, `plan`, `a` together with `b`")]
    Change,
    /// `[[factor]]` or `[[arm]]` does not describe a trial in blocks.
    #[error("[[{0}]] {1}")]
    Named(&'static str, String),
    /// Only a search has candidates.
    #[error("[candidates] needs kind = \"search\" in [design]")]
    Candidates,
    /// `[workload]` has no workload, or several.
    #[error("[workload] needs exactly one of: `load`, `command`, `live = true`")]
    Workload,
    /// A number out of range.
    #[error("[design] {0}")]
    Design(String),
    /// The workload or the probe has no such metric.
    #[error("{key} = `{name}`: no such metric (known: {})", known.join(", "))]
    Metric {
        /// The key with the metric.
        key: &'static str,
        /// The requested metric.
        name: String,
        /// The available metrics.
        known: Vec<&'static str>,
    },
    /// A metric that a thread measures, without a CPU for it.
    #[error("[probe] spin: `interference.inferred` needs the CPU of the probe thread")]
    Spin,
    /// A probe that measures nothing. A budget alone is none: the usual metrics have it too.
    #[error("[probe] slots, spin, cpus: no metric needs them: list some in `metrics` (known: {})", probed::NAMES.join(", "))]
    Probe,
    /// A load that ends during the trial or changes.
    #[error("[workload.load] {0}: a trial needs a load that neither ends nor changes")]
    Load(&'static str),
    /// A check that cannot be run.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A query that cannot be run.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Clients that cannot offer the load.
    #[error("[[client]] {0}")]
    Client(&'static str),
    /// A guard that could never trip.
    #[error("[guards] p99_us: {0} has no latency")]
    Guard(&'static str),
}

impl Workload {
    fn in_words(&self) -> String {
        match (&self.load, &self.command) {
            (Some(load), _) => format!("{}, {}", load.url, load::shape(load)),
            (None, Some(command)) => format!("command `{command}`, once per slot"),
            (None, None) => "live traffic, nothing driven".to_owned(),
        }
    }
}

/// Longest name of a trial, in bytes.
pub const MAX_NAME: usize = 40;

/// True for a character allowed in the name of a trial, which becomes part of a directory name.
pub fn is_of_name(c: char) -> bool {
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

    /// Checks everything that the types do not.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.design.kind {
            Kind::Pairs | Kind::BeforeAfter if !self.factor.is_empty() => {
                return Err(SpecError::Named("factor", "needs kind = \"factorial\" in [design]".to_owned()));
            }
            Kind::Pairs | Kind::BeforeAfter if !self.arm.is_empty() => {
                let needs = "needs kind = \"search\" or \"sweep\" in [design]".to_owned();
                return Err(SpecError::Named("arm", needs));
            }
            Kind::Pairs | Kind::BeforeAfter => self.check_change()?,
            Kind::Factorial | Kind::Search | Kind::Sweep => self.check_named()?,
        }
        if self.name.is_empty() || self.name.len() > MAX_NAME || !self.name.chars().all(is_of_name) {
            return Err(SpecError::Name(self.name.clone()));
        }
        if self.candidates.is_some() && self.design.kind != Kind::Search {
            return Err(SpecError::Candidates);
        }
        let workload = &self.workload;
        let kinds = [workload.load.is_some(), workload.command.is_some(), workload.live];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            return Err(SpecError::Workload);
        }
        if let Some(load) = &workload.load {
            if load.requests.is_some() {
                return Err(SpecError::Load("requests"));
            }
            if load.rate.as_ref().is_some_and(|rate| rate.is_steady().is_none()) {
                return Err(SpecError::Load("rate"));
            }
        }
        let one_way = workload.load.as_ref().is_some_and(|load| load.url.protocol == load::Protocol::UdpSink);
        if !self.clients.is_empty() && (workload.load.is_none() || one_way) {
            let why = match one_way {
                true => "cannot offer `udp-sink`: a sink counts the datagrams of all clients together",
                false => "needs [workload.load]: what each client offers",
            };
            return Err(SpecError::Client(why));
        }
        if self.clients.iter().any(|client| client.run.trim().is_empty()) {
            return Err(SpecError::Client("run is empty: give a command such as `ssh gen1 rxlab client`"));
        }
        if self.guards.p99_us.is_some() && (workload.live || one_way) {
            return Err(SpecError::Guard(if one_way { "a one-way load" } else { "live traffic" }));
        }
        let design = &self.design;
        let bad = |what: String| Err(SpecError::Design(what));
        let pairs = design.pairs();
        if !(2..=10_000).contains(&pairs) {
            return bad(format!("pairs = {pairs}: must be 2 to 10000"));
        }
        if design.kind == Kind::Pairs && design.min_pairs > pairs {
            return bad(format!("min_pairs = {}: at most pairs = {pairs}", design.min_pairs));
        }
        if design.kind == Kind::BeforeAfter && design.calibration > 0 {
            return bad("calibration: a before-after comparison has no coins to check".to_owned());
        }
        if !(6..=1000).contains(&design.blocks) {
            return bad(format!("blocks = {}: must be 6 to 1000", design.blocks));
        }
        if !(design.margin > 0.0 && design.margin < 1.0) {
            return bad(format!("margin = {}: must be a fraction between 0 and 1", design.margin));
        }
        if design.measure() < Duration::from_millis(50) {
            return bad("measure: must be at least 50ms".to_owned());
        }
        Check::check_all(&self.checks)?;
        Query::check_all(&self.queries)?;
        self.check_metrics()
    }

    /// The workload, in one line.
    pub fn workload_in_words(&self) -> String {
        let words = self.workload.in_words();
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

    fn check_change(&self) -> Result<(), SpecError> {
        let change = &self.change;
        let commands = match (&change.a, &change.b) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            _ => return Err(SpecError::Change),
        };
        let settings = !change.set.is_empty() || !change.against.is_empty();
        if usize::from(settings) + usize::from(change.plan.is_some()) + usize::from(commands) != 1 {
            return Err(SpecError::Change);
        }
        Ok(())
    }

    /// Checks the factors or the arms of a trial in blocks.
    fn check_named(&self) -> Result<(), SpecError> {
        let is_factorial = self.design.kind == Kind::Factorial;
        let (table, all, other, most) = match is_factorial {
            true => ("factor", &self.factor, &self.arm, 3),
            false => ("arm", &self.arm, &self.factor, MOST),
        };
        let kind = self.design.kind.in_words();
        let bad = |what: String| Err(SpecError::Named(table, what));
        if !self.change.is_none() || !other.is_empty() {
            return bad(format!("takes the place of [change] and of other tables in {kind}"));
        }
        let is_made = self.design.kind == Kind::Search && self.candidates.is_some();
        if is_made && !all.is_empty() {
            return bad("gives the candidates, and [candidates] makes others: leave one out".to_owned());
        }
        if !is_made && !(2..=most).contains(&all.len()) {
            return bad(format!("found {}: {kind} has 2 to {most}", all.len()));
        }
        for (at, one) in all.iter().enumerate() {
            let name = &one.name;
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_of_name) {
                return Err(SpecError::Name(name.clone()));
            }
            if one.set.is_empty() {
                return bad(format!("{name}: set is empty"));
            }
            for before in &all[..at] {
                if before.name == *name {
                    return bad(format!("{name}: another {table} has this name"));
                }
                let is_shared = |setting: &&Setting| {
                    before.set.iter().any(|o| o.knob == setting.knob && o.target == setting.target)
                };
                if let Some(shared) = one.set.iter().find(is_shared).filter(|_| is_factorial) {
                    let (other, knob, target) = (&before.name, &shared.knob, &shared.target);
                    return bad(format!("{name}: {other} sets {knob} {target} too"));
                }
            }
        }
        if !self.design.metrics.is_empty() {
            return bad(format!("{kind} judges the primary metric only: leave out `metrics`"));
        }
        Ok(())
    }

    /// Replaces the description of the candidates by the candidates themselves.
    pub fn set_candidates(&mut self, made: Vec<Candidate>) {
        self.candidates = None;
        self.arm = made.into_iter().map(|made| Named { name: made.name, set: made.settings }).collect();
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
        }
    }

    /// A command may print metrics of any name; all others are known in advance.
    fn check_metrics(&self) -> Result<(), SpecError> {
        let design = &self.design;
        let known = metrics::names(self.workload.load.as_ref().map(|load| load.url.protocol));
        for (key, name) in design.primary.iter().map(|name| ("primary", name)) {
            let is_known = known.contains(&name.as_str()) || self.workload.command.is_some();
            if !is_known && !self.measures(name) {
                let known = known.iter().copied().chain(probed::NAMES).collect();
                return Err(SpecError::Metric { key, name: name.clone(), known });
            }
        }
        if let Some(name) = design.metrics.iter().find(|name| !self.measures(name)) {
            let known = probed::NAMES.to_vec();
            return Err(SpecError::Metric { key: "metrics", name: name.clone(), known });
        }
        let asked: Vec<&String> = design.primary.iter().chain(&design.metrics).collect();
        if self.probe.spin.is_none() && asked.iter().any(|name| *name == probed::INFERRED) {
            return Err(SpecError::Spin);
        }
        // The budget also limits the softirq time that the usual metrics come from.
        let usual = Probe { budget: self.probe.budget, ..Probe::default() };
        if self.probe != usual && asked.iter().all(|name| Probed::parse(name).is_none()) {
            return Err(SpecError::Probe);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
