//! The course of `rxlab tune`: what limits the machine, what was tried, what was shown, and what became of it.

use serde::{Deserialize, Serialize};

use super::blocks::{BlocksRecord, Effects};
use super::choose::Choice;
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
        return "the unchanged machine".to_owned();
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
        format!("leads {all}, not proven better than {}", open.join(", "))
    }
}
