//! The way back: every target of a transaction to the value it had before the first change.
//!
//! Idempotent: what was put back once is not touched again, and a process killed in the middle is
//! followed by the next one from the journal alone.

use serde::Serialize;

use crate::host::Host;
use crate::journal::{History, Journal, JournalError, Outcome, Touched};
use crate::knob::{self, KnobError};
use crate::model::{Model, NicKind};
use crate::plan::Target;

/// What was found and done about one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UndoOutcome {
    /// Which knob.
    pub knob: String,
    /// On what, by the names of now where the device is still there.
    pub target: Target,
    /// The value to go back to.
    pub original: String,
    /// The last value that the transaction had asked for.
    pub wanted: String,
    /// What was found and done.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Whether the user should look: the value is not the original one and was not expected to go.
    pub trouble: bool,
}

/// The result of undoing one transaction.
#[derive(Debug)]
pub struct Undo {
    /// Which transaction.
    pub id: String,
    /// Each target that was not settled before, in the order of undoing.
    pub outcomes: Vec<UndoOutcome>,
    /// Whether nothing is left to undo.
    pub closed: bool,
    /// The journal could not be written. The outcomes hold all the same; undoing again will find
    /// nothing to do.
    pub journal_error: Option<JournalError>,
}

impl Undo {
    /// Whether every value is the original one, or went with its device.
    pub fn is_clean(&self) -> bool {
        self.journal_error.is_none() && self.outcomes.iter().all(|outcome| !outcome.trouble)
    }
}

/// The part of a model that holds when a transaction's network namespace is no more: the machine
/// and its hardware, which falls back to the initial namespace. A virtual interface of the same
/// name here is another one.
pub fn without_namespace(mut model: Model) -> Model {
    model.nics.retain(|nic| nic.kind == NicKind::Device);
    model
}

/// The newest of `others` that touches a target of `history`. Such a one has to be undone first: the
/// value that it found is the one that `history` set.
pub fn covered_by<'a>(history: &History, others: &'a [(String, History)]) -> Option<&'a str> {
    let mine = history.touched();
    let covers =
        |other: &History| other.touched().iter().any(|theirs| mine.iter().any(|t| t.is_same(theirs)));
    others.iter().rev().find(|(_, other)| covers(other)).map(|(id, _)| id.as_str())
}

pub(super) fn run(mut journal: Journal, host: &dyn Host, model: &Model) -> Undo {
    let mut outcomes = Vec::new();
    let mut journal_error = None;
    let mut settled = true;
    for touched in journal.history().touched().into_iter().rev() {
        if touched.outcome.as_ref().is_some_and(Outcome::settles) {
            continue;
        }
        let target = present_target(model, &touched);
        let outcome = match &target {
            Some(target) => put_back(&journal, host, model, &touched, target),
            None => Outcome::Gone,
        };
        settled &= outcome.settles();
        if let Err(error) = journal.undone(touched.seq, &outcome) {
            journal_error.get_or_insert(error);
        }
        let trouble = match &outcome {
            Outcome::Unchanged | Outcome::Restored => false,
            // A virtual device takes its values with it when it goes; hardware should not go.
            Outcome::Gone => !touched.device.as_ref().is_some_and(|d| d.0.starts_with("virtual:")),
            Outcome::Altered { .. } | Outcome::Drift { .. } | Outcome::Failed { .. } => true,
        };
        outcomes.push(UndoOutcome {
            knob: touched.knob,
            target: target.unwrap_or(touched.target),
            original: touched.original,
            wanted: touched.wanted,
            outcome,
            trouble,
        });
    }
    let mut closed = false;
    if settled && journal_error.is_none() {
        match journal.close() {
            Ok(()) => closed = true,
            Err(error) => journal_error = Some(error),
        }
    }
    Undo { id: journal.id().to_owned(), outcomes, closed, journal_error }
}

/// The target by the names of now: the device is found by its lasting address.
pub(super) fn present_target(model: &Model, touched: &Touched) -> Option<Target> {
    match (&touched.target, &touched.device) {
        (Target::Host, _) => Some(Target::Host),
        (Target::Queue { queue, .. }, Some(device)) => {
            let nic = model.nics.iter().find(|nic| nic.address == *device)?;
            Some(Target::Queue { nic: nic.name.clone(), queue: *queue })
        }
        (Target::Queue { .. }, None) => None,
    }
}

fn put_back(
    journal: &Journal,
    host: &dyn Host,
    model: &Model,
    touched: &Touched,
    target: &Target,
) -> Outcome {
    let Some(knob) = knob::find(&touched.knob) else {
        return Outcome::Failed { why: format!("this version has no knob `{}`", touched.knob) };
    };
    let live = match knob.read(host, model, target) {
        Ok(live) => live,
        // The queue went away, and the kernel frees what belonged to it.
        Err(KnobError::UnknownQueue { .. } | KnobError::UnknownNic { .. }) => return Outcome::Gone,
        Err(error) => return Outcome::Failed { why: error.to_string() },
    };
    if knob.same(&touched.original, &live) {
        return Outcome::Unchanged;
    }
    if !knob.left_by(&touched.ours, &touched.unsettled, &live) {
        return Outcome::Drift { live };
    }
    let Some(armed) = journal.arm_restore(touched.seq) else {
        return Outcome::Failed { why: "its intent is not in the journal".to_owned() };
    };
    let written = knob
        .write(host, model, target, &touched.original, &armed)
        .and_then(|()| knob.read(host, model, target));
    match written {
        Ok(kept) if knob.same(&touched.original, &kept) => Outcome::Restored,
        Ok(kept) => Outcome::Altered { kept },
        Err(error) => Outcome::Failed { why: error.to_string() },
    }
}
