//! The errors of a specification, and the checks of everything that its types do not.

use std::time::Duration;

use thiserror::Error;

use super::{Kind, MAX_NAME, Probe, Spec, is_name_char};
use crate::check::{Check, CheckError};
use crate::choose;
use crate::metrics;
use crate::probed::{self, Probed};
use crate::query::{Query, QueryError};
use rxlab_advise::plan::candidates::MAX_CANDIDATES;
use rxlab_base::units::format_duration;
use rxlab_setting::Setting;

/// A specification that cannot be run.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    /// Not TOML, or of another structure. Line and column count from 1, the column in characters.
    #[error("line {line}, column {column}: {what}")]
    Text { line: usize, column: usize, what: String },
    /// The name becomes part of a directory name.
    #[error("invalid name `{0}`: must be 1 to 40 letters, digits, `-`, `_`, `+` or `.`")]
    Name(String),
    #[error("[change] {0}: needs exactly one of: `set`, `against` or both; `plan`; `a` with `b`")]
    Change(String),
    /// `[[factor]]` or `[[arm]]` does not describe a trial in blocks.
    #[error("[[{0}]] {1}")]
    Named(&'static str, String),
    #[error("[candidates] needs kind = \"search\" in [design]")]
    Candidates,
    #[error("[workload] needs exactly one of: `load`, `command`, `live = true`")]
    Workload,
    /// A number out of range.
    #[error("[design] {0}")]
    Design(String),
    #[error("{key} = `{name}`: no such metric (known: {})", known.join(", "))]
    Metric {
        /// The key with the metric.
        key: &'static str,
        name: String,
        known: Vec<&'static str>,
    },
    #[error("[probe] spin: `interference.inferred` needs the CPU of the probe thread")]
    Spin,
    /// A probe that measures nothing. A budget alone is none: the usual metrics have it too.
    #[error("[probe] slots, spin, cpus: no metric needs them: list some in `metrics` (known: {})", probed::NAMES.join(", "))]
    Probe,
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
    #[error("[guards] p99_us: {0} has no latency")]
    Guard(&'static str),
}

fn check_name(name: &str) -> Result<(), SpecError> {
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_name_char) {
        Err(SpecError::Name(name.to_owned()))
    } else {
        Ok(())
    }
}

impl Spec {
    /// Checks everything that the types do not.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.design.kind {
            Kind::Pairs | Kind::BeforeAfter => self.check_change()?,
            Kind::Factorial | Kind::Search | Kind::Sweep | Kind::Choice => self.check_named()?,
        }
        check_name(&self.name)?;
        if self.candidates.is_some() && self.design.kind != Kind::Search {
            return Err(SpecError::Candidates);
        }
        self.check_workload()?;
        self.check_design()?;
        Check::check_all(&self.checks)?;
        Query::check_all(&self.queries)?;
        self.check_metrics()
    }

    /// Checks the workload, and the clients and guards that depend on it.
    fn check_workload(&self) -> Result<(), SpecError> {
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
        let one_way = workload.load.as_ref().is_some_and(|load| load.url.protocol.is_one_way());
        if !self.clients.is_empty() && (workload.load.is_none() || one_way) {
            let why = if one_way {
                "cannot offer `udp-sink`: a sink counts the datagrams of all clients together"
            } else {
                "needs [workload.load]: what each client offers"
            };
            return Err(SpecError::Client(why));
        }
        if self.clients.iter().any(|client| client.run.trim().is_empty()) {
            return Err(SpecError::Client("run is empty: give a command such as `ssh gen1 rxlab client`"));
        }
        if self.guards.p99_us.is_some() && (workload.live || one_way) {
            return Err(SpecError::Guard(if one_way { "a one-way load" } else { "live traffic" }));
        }
        Ok(())
    }

    fn check_design(&self) -> Result<(), SpecError> {
        let design = &self.design;
        let bad = |what: String| Err(SpecError::Design(what));
        if !(100..=4000).contains(&design.shortest().as_millis()) {
            return bad("shortest: must be 100ms to 4s".to_owned());
        }
        if let Some(time) = design.time {
            if design.kind != Kind::Pairs || design.pairs.is_some() || design.calibration > 0 {
                return bad("time: only for a trial in pairs, without `pairs` and `calibration`".to_owned());
            }
            // The sample may choose the shortest slots.
            let fit = design.pairs_at(design.measure.map_or(design.shortest(), |measure| measure.0));
            if fit < design.min_pairs {
                let (time, fewest) = (format_duration(time.0), design.min_pairs);
                return bad(format!(
                    "time = {time}: has room for {fit} pairs, but a trial needs {fewest} or more"
                ));
            }
        }
        let pairs = match (design.time, design.measure) {
            (Some(_), None) => design.pairs_at(design.shortest()),
            _ => design.pairs(),
        };
        if !(2..=10_000).contains(&pairs) {
            return bad(format!("pairs = {pairs}: must be 2 to 10000"));
        }
        if design.kind == Kind::Pairs && design.min_pairs > pairs {
            return bad(format!("min_pairs = {}: must be at most pairs = {pairs}", design.min_pairs));
        }
        if design.kind == Kind::BeforeAfter && design.calibration > 0 {
            return bad("calibration: a before-after comparison has no random order to check".to_owned());
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
        Ok(())
    }

    fn check_change(&self) -> Result<(), SpecError> {
        if !self.factor.is_empty() {
            return Err(SpecError::Named("factor", "needs kind = \"factorial\" in [design]".to_owned()));
        }
        if !self.arm.is_empty() {
            let needs = "needs kind = \"search\" or \"sweep\" in [design]".to_owned();
            return Err(SpecError::Named("arm", needs));
        }
        let change = &self.change;
        let commands = match (&change.a, &change.b) {
            (Some(_), Some(_)) => true,
            (None, None) => false,
            (a, _) => {
                let (given, lacking) = if a.is_some() { ("a", "b") } else { ("b", "a") };
                return Err(SpecError::Change(format!("has `{given}` without `{lacking}`")));
            }
        };
        let settings = !change.set.is_empty() || !change.against.is_empty();
        let all = [("set", settings), ("plan", change.plan.is_some()), ("a and b", commands)];
        let given: Vec<&str> = all.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
        match given.as_slice() {
            [_] => Ok(()),
            [] => Err(SpecError::Change("has no change".to_owned())),
            several => Err(SpecError::Change(format!("has several changes ({})", several.join(", ")))),
        }
    }

    /// Checks the factors or the arms of a trial in blocks.
    fn check_named(&self) -> Result<(), SpecError> {
        let is_factorial = self.design.kind == Kind::Factorial;
        let (table, all, other, most) = if is_factorial {
            ("factor", &self.factor, &self.arm, 3)
        } else {
            ("arm", &self.arm, &self.factor, MAX_CANDIDATES)
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
        let most = if self.design.kind == Kind::Choice { choose::MOST } else { most };
        let least = if self.design.kind == Kind::Choice { 1 } else { 2 };
        if !is_made && !(least..=most).contains(&all.len()) {
            return bad(format!("found {}: {kind} has {least} to {most}", all.len()));
        }
        for (at, one) in all.iter().enumerate() {
            let name = &one.name;
            check_name(name)?;
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

    /// A command may print metrics of any name; all others are known in advance.
    fn check_metrics(&self) -> Result<(), SpecError> {
        let design = &self.design;
        let known = metrics::names(self.workload.load.as_ref().map(|load| load.url.protocol));
        if let Some(name) = &design.primary {
            let is_known = known.contains(&name.as_str()) || self.workload.command.is_some();
            if !is_known && !self.measures(name) {
                let known = known.iter().copied().chain(probed::NAMES).collect();
                return Err(SpecError::Metric { key: "primary", name: name.clone(), known });
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
