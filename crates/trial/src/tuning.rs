//! The course of `rxlab tune`: what limits the machine, what was tried, what was shown, and what became of it.

use serde::{Deserialize, Serialize};

use super::blocks::{BlocksRecord, Effects};
use super::choose::Choice;
use super::metrics::name;
use super::record::{Call, MetricResult, TrialRecord};
use rxlab_base::number;
use rxlab_base::units::NicName;
use rxlab_setting::{Setting, in_words};

/// The course of one `rxlab tune`: the output of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tuning {
    /// `rxlab.tune/1`.
    pub schema: String,
    /// The interface.
    pub nic: NicName,
    /// What limits the machine, in one sentence; empty if it goes on with an earlier one.
    pub limit: String,
    /// Title of the metric that decides, and why it does; `None` if nothing is tried.
    pub judged_by: Option<String>,
    /// What is tried, or would be.
    pub candidates: Vec<Tried>,
    /// What is not tried, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Longest time that it takes, seconds.
    pub seconds: f64,
    /// How it ended.
    pub end: End,
    /// The best, as far as it was shown.
    pub best: Option<String>,
    /// Change of the deciding metric by the best, with its interval, in fresh pairs.
    pub gain: Option<String>,
    /// What it costs, as far as it was shown; `None` before the trial that measures it.
    pub price: Option<String>,
    /// Trial in which the candidates were compared.
    pub choice: Option<String>,
    /// Trial of the best against the unchanged machine.
    pub trial: Option<String>,
    /// Transaction of the best, which is set.
    pub transaction: Option<String>,
    /// It reverts unless it is confirmed within this time; `None` if it is kept.
    pub confirm_within_s: Option<f64>,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Its name in the record of the trial.
    pub name: String,
    /// In a few words.
    pub what: String,
    /// Its settings.
    pub settings: Vec<String>,
    /// Tried only if sizes next to it lead.
    pub later: bool,
}

/// Something that is not tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The candidate, or a kind of setting.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum End {
    /// Nothing was tried: only what would be.
    Planned,
    /// Nothing that can be set lifts the limit.
    Limited,
    /// There is nothing to measure, or it cannot be.
    Unmeasurable,
    /// No candidate can be better than the machine as it was.
    NothingToGain,
    /// The best was not proven to help, or something stands against it.
    Unproven {
        /// The reason.
        why: String,
    },
    /// The best helps; it is set.
    Helps,
    /// A trial ended before it could conclude.
    Stopped {
        /// The reason.
        why: String,
    },
}

impl Tuning {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.tune/1";

    /// One that has not begun.
    pub fn new(nic: NicName) -> Self {
        Self {
            schema: Self::SCHEMA.to_owned(),
            nic,
            limit: String::new(),
            judged_by: None,
            candidates: Vec::new(),
            left_out: Vec::new(),
            seconds: 0.0,
            end: End::Planned,
            best: None,
            gain: None,
            price: None,
            choice: None,
            trial: None,
            transaction: None,
            confirm_within_s: None,
        }
    }
}

/// The choice that a record holds; `None` if it has not ended with one.
pub fn choice(record: &BlocksRecord) -> Option<&Choice> {
    match record.conclusion.as_ref()?.found.as_ref()? {
        Effects::Choice(choice) => Some(choice),
        Effects::Factorial(_) | Effects::Search(_) | Effects::Sweep(_) => None,
    }
}

/// The candidate of a cell in words; cell 0 is the machine as it was.
pub fn candidate(record: &BlocksRecord, cell: usize) -> String {
    let Some(named) = cell.checked_sub(1).and_then(|at| record.settings.get(at)) else {
        return "the machine as it was".to_owned();
    };
    let settings: Option<Vec<Setting>> = named.set.iter().map(|line| line.parse().ok()).collect();
    settings.map_or_else(|| named.name.clone(), |settings| in_words(&settings))
}

/// How far the winner was shown to be the best: `is best of 9`, or which ones may be better.
pub fn rank(record: &BlocksRecord, choice: &Choice) -> String {
    let all = choice.tried.len();
    let open: Vec<String> = choice.open.iter().map(|cell| candidate(record, *cell)).collect();
    if open.is_empty() {
        format!("is best of {all}")
    } else {
        format!("leads {all}, not told apart from {}", open.join(", "))
    }
}

/// The change of the deciding metric: `53 % more packets get through [33 to 76]`.
pub fn gain(record: &TrialRecord) -> Option<String> {
    let primary = record.analysis.as_ref()?.metrics.first()?;
    let effect = primary.effect.as_ref()?;
    if primary.metric.name != name::THROUGHPUT || effect.low <= 0.0 {
        return Some(format!("{} {}", number::capitalized(&primary.metric.title), effect.in_words()));
    }
    let what = if primary.metric.unit == "pkt/s" { "packets get through" } else { "requests get through" };
    let percent = |part: f64| format!("{:.0}", part * 100.0);
    let to = if effect.high.is_finite() {
        format!("{} to {}", percent(effect.low), percent(effect.high))
    } else {
        format!("{} or more", percent(effect.low))
    };
    Some(format!("{} % more {what} [{to}]", percent(effect.mid)))
}

/// What the change was shown to cost: metrics that are worse and that no user feels.
pub fn price(record: &TrialRecord) -> String {
    let metrics = record.analysis.as_ref().map_or(&[][..], |analysis| &analysis.metrics);
    let cost = |result: &MetricResult| match (&result.effect, result.call) {
        (Some(effect), Call::Hurts) => Some(format!("{} {}", result.metric.title, effect.estimate())),
        _ => None,
    };
    let costs: Vec<String> = metrics.iter().filter_map(cost).collect();
    if costs.is_empty() { "none was shown".to_owned() } else { costs.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::{gain, price};
    use crate::metrics::{describe, name};
    use crate::record::{Call, Effect};
    use crate::sample_record;

    #[test]
    fn the_gain_is_that_of_the_deciding_metric_and_the_price_what_is_worse() {
        let mut record = sample_record::rps();
        let analysis = record.analysis.as_mut().expect("analysed");
        analysis.metrics.truncate(2);
        analysis.metrics[0].metric = describe(name::THROUGHPUT, "pkt/s");
        analysis.metrics[0].effect = Some(Effect { mid: 0.53, low: 0.33, high: 0.76 });
        analysis.metrics[1].metric = describe(name::MACHINE_CPU, "pkt/s");
        analysis.metrics[1].effect = Some(Effect { mid: 0.06, low: 0.04, high: 0.08 });
        analysis.metrics[1].call = Call::Hurts;
        assert_eq!(gain(&record).as_deref(), Some("53 % more packets get through [33 to 76]"));
        let title = describe(name::MACHINE_CPU, "pkt/s").title;
        assert_eq!(price(&record), format!("{title} +6.0 %"));
        let metrics = &mut record.analysis.as_mut().expect("analysed").metrics;
        metrics[1].call = Call::Inconclusive;
        let open = Effect { mid: 0.01, low: -0.04, high: 0.06 };
        metrics[0].effect = Some(open);
        let words = format!("Throughput {}", open.in_words());
        assert_eq!(gain(&record), Some(words), "not more than was shown");
        assert_eq!(price(&record), "none was shown");
    }
}
