//! JSON that commands print, where it is not a value of another crate.

use serde::{Deserialize, Serialize};

use rxlab_advise::diagnose::Rule;
use rxlab_change::apply::{
    Change, CommandUndo, Ending, Kept, OtherOwner, State, TransactionStatus, Undo, UndoOutcome, Waiting,
};
use rxlab_change::journal::Unreadable;
use rxlab_path::model::Identity;
use rxlab_trial::blocks::{BlocksRecord, End};
use rxlab_trial::record::{TrialRecord, Verdict};
use rxlab_trial::schedule::Scheduled;

/// `rxlab status --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusReport {
    schema: String,
    /// The machine; `None` in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Identity>,
    /// Time of the comparison, in UTC; `None` for a recorded machine, and in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<String>,
    /// Open transactions, oldest first, each compared with the machine.
    pub transactions: Vec<TransactionStatus>,
    /// Files of the journal that cannot be read.
    pub unreadable: Vec<UnreadableFile>,
    /// Scheduled checkpoints of trials.
    checkpoints: Vec<OpenCheckpoint>,
}

/// A file of the journal that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnreadableFile {
    /// The transaction.
    id: String,
    /// Its file.
    file: String,
    /// The reason.
    why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct OpenCheckpoint {
    /// Id of the trial.
    trial: String,
    scheduled: Scheduled,
}

impl StatusReport {
    pub const SCHEMA: &'static str = "rxlab.status/1";

    /// `checkpoints`: each with the id of its trial.
    pub fn new(
        (host, taken): (Identity, Option<String>),
        transactions: Vec<TransactionStatus>,
        unreadable: &[Unreadable],
        checkpoints: Vec<(String, Scheduled)>,
    ) -> Self {
        let unreadable = unreadable.iter().map(|found| UnreadableFile {
            id: found.id.clone(),
            file: found.path.display().to_string(),
            why: found.why.to_string(),
        });
        let checkpoints =
            checkpoints.into_iter().map(|(trial, scheduled)| OpenCheckpoint { trial, scheduled });
        Self {
            schema: Self::SCHEMA.to_owned(),
            host: Some(host),
            taken,
            transactions,
            unreadable: unreadable.collect(),
            checkpoints: checkpoints.collect(),
        }
    }

    /// True if every value holds, in time, and all of the journal can be read.
    pub fn is_fine(&self) -> bool {
        self.unreadable.is_empty() && self.transactions.iter().all(TransactionStatus::is_fine)
    }
}

/// `rxlab history --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistoryReport<'a> {
    schema: &'static str,
    /// Transactions, oldest first.
    transactions: &'a [TransactionRow],
    /// Trials by number.
    trials: &'a [TrialRow],
}

impl<'a> HistoryReport<'a> {
    pub const SCHEMA: &'static str = "rxlab.history/1";

    pub fn new(transactions: &'a [TransactionRow], trials: &'a [TrialRow]) -> Self {
        Self { schema: Self::SCHEMA, transactions, trials }
    }
}

/// A transaction in a list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TransactionRow {
    pub id: String,
    /// RFC 3339; empty if the file does not have it.
    pub started: String,
    /// Its purpose, such as `apply rps`; empty if the file does not have it.
    pub what: String,
    #[serde(flatten)]
    pub standing: Standing,
}

/// State of a transaction.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "standing", content = "state", rename_all = "snake_case")]
pub enum Standing {
    /// It is in force.
    Open(State),
    /// It is over.
    Ended(Ending),
    /// Its file cannot be read; the reason.
    Unreadable(String),
}

/// `rxlab trial list --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialsReport<'a> {
    schema: &'static str,
    /// Trials by number.
    trials: &'a [TrialRow],
}

impl<'a> TrialsReport<'a> {
    pub const SCHEMA: &'static str = "rxlab.trials/1";

    pub fn new(trials: &'a [TrialRow]) -> Self {
        Self { schema: Self::SCHEMA, trials }
    }
}

/// A trial in a list.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialRow {
    id: String,
    name: String,
    /// RFC 3339 in UTC.
    started: String,
    /// Slots measured so far.
    slots: usize,
    /// Its verdict, or how it ended; `None` while it runs, or if it was killed or ended with an error.
    verdict: Option<TrialEnd>,
    /// True while a process runs it.
    running: bool,
}

/// The verdict of a trial in pairs, or the end of one in blocks.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum TrialEnd {
    Pairs(Verdict),
    Blocks(End),
}

impl TrialRow {
    pub fn of_pairs(record: &TrialRecord, running: bool) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            started: record.started.clone(),
            slots: record.slots.len(),
            verdict: record.verdict().cloned().map(TrialEnd::Pairs),
            running,
        }
    }

    pub fn of_blocks(record: &BlocksRecord, running: bool) -> Self {
        Self {
            id: record.id.clone(),
            name: record.name.clone(),
            started: record.started.clone(),
            slots: record.slots.len(),
            verdict: record.conclusion.as_ref().map(|conclusion| TrialEnd::Blocks(conclusion.end.clone())),
            running,
        }
    }
}

/// `rxlab undo --json`.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UndoReport<'a> {
    schema: &'static str,
    /// The transaction that `--forget` gave up.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<&'a str>,
    /// What was done for each transaction, the newest first.
    transactions: Vec<UndoneTransaction<'a>>,
    /// Transactions that a newer one with the same values keeps open.
    waiting: &'a [Waiting],
    /// Remarks about transactions that were archived.
    archived: &'a [String],
    /// True if nothing was changed.
    dry_run: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UndoneTransaction<'a> {
    id: &'a str,
    /// True if nothing is left to undo.
    closed: bool,
    outcomes: &'a [UndoOutcome],
    /// The result for its shell commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a CommandUndo>,
}

impl<'a> UndoReport<'a> {
    pub const SCHEMA: &'static str = "rxlab.undo/1";

    pub fn new(undone: &'a [Undo], waiting: &'a [Waiting], archived: &'a [String], dry_run: bool) -> Self {
        let one = |undo: &'a Undo| UndoneTransaction {
            id: &undo.id,
            closed: undo.closed,
            outcomes: &undo.outcomes,
            command: undo.command.as_ref(),
        };
        let transactions = undone.iter().map(one).collect();
        Self { schema: Self::SCHEMA, forgotten: None, transactions, waiting, archived, dry_run }
    }

    /// Nothing was restored: transaction `id` is skipped from now on.
    pub fn forgotten(id: &'a str) -> Self {
        Self { schema: Self::SCHEMA, forgotten: Some(id), ..Self::default() }
    }
}

/// `rxlab apply --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApplyReport<'a> {
    schema: &'static str,
    /// The transaction that undoes it; `None` if nothing was set.
    transaction: Option<&'a str>,
    /// What would be set, if nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [Change]>,
    /// What was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'a [Kept]>,
    /// Seconds until it is reverted unless it is confirmed; `None` without a deadline.
    confirm_within_s: Option<f64>,
    /// Remarks about transactions that were archived.
    archived: &'a [String],
    /// Configuration of other programs that sets the same values.
    other_owners: &'a [OtherOwner],
}

impl<'a> ApplyReport<'a> {
    pub const SCHEMA: &'static str = "rxlab.apply/1";

    /// What would be set.
    pub fn rehearsed(changes: &'a [Change], other_owners: &'a [OtherOwner]) -> Self {
        Self {
            schema: Self::SCHEMA,
            transaction: None,
            changes: Some(changes),
            settings: None,
            confirm_within_s: None,
            archived: &[],
            other_owners,
        }
    }

    /// What was set by transaction `id`, until `confirm_within_s` seconds have passed.
    pub fn set(
        id: &'a str,
        settings: &'a [Kept],
        confirm_within_s: Option<f64>,
        archived: &'a [String],
        other_owners: &'a [OtherOwner],
    ) -> Self {
        Self {
            schema: Self::SCHEMA,
            transaction: Some(id),
            changes: None,
            settings: Some(settings),
            confirm_within_s,
            archived,
            other_owners,
        }
    }
}

/// `rxlab explain --json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RulesReport<'a> {
    schema: &'static str,
    /// The rules asked for, all of them without a name.
    rules: Vec<&'a Rule>,
    /// Entries of the glossary about the term asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    terms: Vec<String>,
}

impl<'a> RulesReport<'a> {
    pub const SCHEMA: &'static str = "rxlab.rules/1";

    pub fn new(rules: Vec<&'a Rule>, terms: Vec<String>) -> Self {
        Self { schema: Self::SCHEMA, rules, terms }
    }
}
