//! What a trial is asked to do: one change, one workload, a design, guards. Written by people as
//! TOML, or made from flags.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::metrics;
use super::monitor::FIRST_LOOK;
use crate::load;
use crate::parse;
use crate::plan::Setting;
use crate::units::{self, NicName};

/// A trial's specification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// One word for the factor, such as `rps`.
    pub name: String,
    /// What is flipped.
    pub change: Change,
    /// What runs meanwhile.
    pub workload: Workload,
    /// Slots, pairs, seed.
    #[serde(default)]
    pub design: Design,
    /// When to stop and roll back at once.
    #[serde(default)]
    pub guards: Guards,
}

/// The factor: settings, or a pair of shell commands. Exactly one of the two.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Arm B sets these, in this order; arm A is the machine as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<Setting>,
    /// A plan file, as `rxlab apply` takes it; its settings are arm B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Shell command that makes arm A; it is run again at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// Shell command that makes arm B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
}

/// What runs during the slots. Exactly one of `load`, `command`, `live`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The built-in load, running all through the trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<load::Spec>,
    /// A shell command, run once for each slot: its run is the measured interval. It prints one
    /// number (the throughput), or one JSON object whose numbers are metrics by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The machine's own traffic: nothing is driven.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// The interface whose packets count as throughput of live traffic; all but `lo` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicName>,
}

/// Slots, pairs, seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Design {
    /// Seed of the coins; drawn and recorded when not given.
    pub seed: Option<u64>,
    /// Pairs at which the trial ends undecided.
    pub pairs: usize,
    /// Fewest pairs before the trial may stop early: more of them make the other metrics' intervals
    /// narrower. The same as `pairs` = no early stop.
    pub min_pairs: usize,
    /// Pairs with nothing flipped, before the others; 0 = no calibration.
    pub calibration: usize,
    /// Margin of equivalence as a fraction (0.03 = 3 %).
    pub margin: f64,
    /// Settling time before each measured interval.
    pub washout: Seconds,
    /// Measured interval.
    pub measure: Seconds,
    /// Name of the primary metric; throughput for driven workloads, the hottest CPU's softirq share
    /// for live traffic.
    pub primary: Option<String>,
}

impl Default for Design {
    fn default() -> Self {
        Self {
            seed: None,
            pairs: 40,
            min_pairs: FIRST_LOOK,
            calibration: 20,
            margin: 0.03,
            washout: Seconds(Duration::from_millis(500)),
            measure: Seconds(Duration::from_secs(2)),
            primary: None,
        }
    }
}

/// Limits for a single slot; beyond one of them the change is rolled back at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    /// Largest share of failed requests (0.01 = 1 %): of the load, or the `error_rate` that the command
    /// prints.
    pub error_rate: Option<f64>,
    /// Largest p99 latency in microseconds: of the load, in slots of at least 1000 requests, or the
    /// `p99_us` that the command prints.
    pub p99_us: Option<f64>,
    /// Most packets a second dropped at the backlogs and by the interfaces.
    pub drops: Option<f64>,
}

impl Default for Guards {
    fn default() -> Self {
        Self { error_rate: Some(0.01), p99_us: None, drops: None }
    }
}

/// A duration written `500ms`, `2s`, `1m`.
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
    /// Not TOML, or not of this shape. Line and column count from 1, the column in characters.
    #[error("line {line}, column {column}: {what}")]
    Text {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
        /// The parser's words.
        what: String,
    },
    /// The name becomes part of a directory's name.
    #[error("name = `{0}`: 1 to 40 letters, digits, `-`, `_`, `+` or `.` expected")]
    Name(String),
    /// `[change]` asks for nothing, or for several things.
    #[error("[change] needs exactly one of: `set`, `plan`, `a` together with `b`")]
    Change,
    /// `[workload]` asks for nothing, or for several things.
    #[error("[workload] needs exactly one of: `load`, `command`, `live = true`")]
    Workload,
    /// A number out of range.
    #[error("[design] {0}")]
    Design(String),
    /// The primary metric is none that this workload has.
    #[error("primary = `{name}`: there is no such metric (there are: {})", known.join(", "))]
    Primary {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// A guard that would never look.
    #[error("[guards] p99_us: {0} has no latency")]
    Guard(&'static str),
}

impl Workload {
    /// What runs, in one line.
    pub fn in_words(&self) -> String {
        match (&self.load, &self.command) {
            (Some(load), _) => format!("{}, {}", load.url, load::shape(load)),
            (None, Some(command)) => format!("command `{command}`, once for each slot"),
            (None, None) => "live traffic, nothing driven".to_owned(),
        }
    }
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

    /// Checks what the types do not.
    pub fn check(&self) -> Result<(), SpecError> {
        let change = &self.change;
        let commands = match (&change.a, &change.b) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            _ => return Err(SpecError::Change),
        };
        if usize::from(!change.set.is_empty()) + usize::from(change.plan.is_some()) + usize::from(commands)
            != 1
        {
            return Err(SpecError::Change);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '.');
        if self.name.is_empty() || self.name.len() > 40 || !self.name.chars().all(plain) {
            return Err(SpecError::Name(self.name.clone()));
        }
        let workload = &self.workload;
        let kinds = [workload.load.is_some(), workload.command.is_some(), workload.live];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            return Err(SpecError::Workload);
        }
        let one_way = workload.load.as_ref().is_some_and(|load| load.url.protocol == load::Protocol::UdpSink);
        if self.guards.p99_us.is_some() && (workload.live || one_way) {
            return Err(SpecError::Guard(if one_way { "a one-way load" } else { "live traffic" }));
        }
        let design = &self.design;
        let bad = |what: String| Err(SpecError::Design(what));
        if !(2..=10_000).contains(&design.pairs) {
            return bad(format!("pairs = {}: 2 to 10000 expected", design.pairs));
        }
        if design.min_pairs > design.pairs {
            return bad(format!("min_pairs = {}: at most pairs = {}", design.min_pairs, design.pairs));
        }
        if !(design.margin > 0.0 && design.margin < 1.0) {
            return bad(format!("margin = {}: a fraction between 0 and 1 expected", design.margin));
        }
        if design.measure.0 < Duration::from_millis(50) {
            return bad("measure: at least 50ms expected".to_owned());
        }
        self.check_primary()
    }

    /// A command may print metrics of any name; all others are known beforehand.
    fn check_primary(&self) -> Result<(), SpecError> {
        let Some(name) = self.design.primary.as_ref().filter(|_| self.workload.command.is_none()) else {
            return Ok(());
        };
        let known = metrics::names(self.workload.load.as_ref().map(|load| load.url.protocol));
        if known.contains(&name.as_str()) {
            return Ok(());
        }
        Err(SpecError::Primary { name: name.clone(), known })
    }
}

#[cfg(test)]
mod tests {
    use super::{Spec, SpecError};

    const LIVE: &str = "name = \"rps\"\n[change]\nset = [\"rps eth0/rx-0 = 2-7\"]\n[workload]\nlive = true\n";

    #[test]
    fn the_short_form_has_defaults() {
        let spec = Spec::parse(LIVE).expect("a specification");
        assert_eq!((spec.design.pairs, spec.design.margin), (40, 0.03));
        assert_eq!(spec.guards.error_rate, Some(0.01));
        assert_eq!(spec.change.set[0].to_string(), "rps eth0/rx-0 = 2-7");
    }

    #[test]
    fn errors_say_line_and_column() {
        let error =
            Spec::parse(&LIVE.replace("live = true", "live = true\nsped = 1")).expect_err("unknown key");
        assert!(matches!(error, SpecError::Text { line: 6, column: 1, .. }), "{error}");
        let error = Spec::parse(&LIVE.replace("= 2-7", "")).expect_err("no value");
        let text = error.to_string();
        assert!(text.starts_with("line 3, column 7: ") && text.contains("KNOB TARGET = VALUE"), "{text}");
        assert!(!text.contains('\n'));
    }

    #[test]
    fn exactly_one_change_and_one_workload() {
        let two = LIVE.replace("live = true", "live = true\ncommand = \"true\"");
        assert_eq!(Spec::parse(&two), Err(SpecError::Workload));
        let half = LIVE.replace("set = [\"rps eth0/rx-0 = 2-7\"]", "a = \"true\"");
        assert_eq!(Spec::parse(&half), Err(SpecError::Change));
        let none = LIVE.replace("set = [\"rps eth0/rx-0 = 2-7\"]", "");
        assert_eq!(Spec::parse(&none), Err(SpecError::Change));
    }

    /// A guard that cannot see anything once passed for one that sees nothing wrong.
    #[test]
    fn a_guard_that_would_never_look_is_refused() {
        let guarded = |text: &str| Spec::parse(&format!("{text}[guards]\np99_us = 500\n"));
        assert_eq!(guarded(LIVE), Err(SpecError::Guard("live traffic")));
        let load = |url| LIVE.replace("live = true", &format!("load = {{ url = \"{url}\" }}"));
        assert_eq!(guarded(&load("udp-sink://h:1")), Err(SpecError::Guard("a one-way load")));
        assert!(guarded(&load("http://h/")).is_ok());
    }

    #[test]
    fn the_primary_metric_is_one_that_the_workload_has() {
        let with = |workload: &str, primary: &str| {
            let text =
                LIVE.replace("live = true", workload) + &format!("[design]\nprimary = \"{primary}\"\n");
            Spec::parse(&text)
        };
        let http = "load = { url = \"http://127.0.0.1:1/\" }";
        let sink = "load = { url = \"udp-sink://127.0.0.1:1\" }";
        assert!(with(http, "p99_us").is_ok() && with("live = true", "softirq_us_per_packet").is_ok());
        assert!(with("command = \"true\"", "anything").is_ok());
        for (workload, primary) in [(sink, "p99_us"), ("live = true", "client_cpu"), (http, "p98_us")] {
            let error = with(workload, primary).expect_err("no such metric").to_string();
            let start = format!("primary = `{primary}`: there is no such metric (there are: throughput, ");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_specification_survives_json() {
        let spec = Spec::parse(LIVE).expect("a specification");
        let json = serde_json::to_string(&spec).expect("written");
        assert_eq!(serde_json::from_str::<Spec>(&json).expect("read"), spec);
    }
}
