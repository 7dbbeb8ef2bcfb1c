//! Sets again what somebody else has changed: only values of open transactions, each as a further
//! intent of the transaction that set it, so that undo still goes back to the value before all of it.

use serde::Serialize;

use super::check::knob_of;
use super::drift::Suspect;
use super::{ApplyError, Live, State, Transaction, ValueStatus, status};
use crate::host::Host;
use crate::journal::{Beside, History};
use crate::model::Model;
use crate::plan::Target;

/// What became of one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reapplied {
    /// Which knob.
    pub knob: String,
    /// On what, by the names of now where the device is still there.
    pub target: Target,
    /// The value that it should have.
    pub wanted: String,
    /// What was found and done.
    #[serde(flatten)]
    pub outcome: Reapply,
    /// Who may have changed it.
    pub suspects: Vec<Suspect>,
}

/// What was found and done about one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reapply {
    /// It has the value; nothing was written.
    Holds,
    /// A newer transaction has set it since; it was left to that one.
    Covered {
        /// Which one.
        by: String,
    },
    /// It was somebody else's and is ours again.
    Reapplied {
        /// What it was.
        was: String,
    },
    /// It would be written; this was a dry run.
    Due {
        /// What it is.
        was: String,
    },
    /// The device, queue or namespace is no more.
    Gone,
    /// It could be neither read nor set.
    Failed {
        /// Why, in one line.
        why: String,
    },
}

/// What [`Transaction::reapply`] would do, without doing it; `None` for a transaction that is not
/// applied as a whole. Writes nothing.
pub fn preview_reapply(
    history: &History,
    newer: &[(String, History)],
    host: &dyn Host,
    model: &Model,
) -> Option<Vec<Reapplied>> {
    let values = applied(history, newer, host, model)?;
    let due = |value: &ValueStatus, beside: &[Beside], was: String| {
        canonical(value, beside, host, model).map_or_else(failed, |_| Reapply::Due { was })
    };
    Some(values.into_iter().map(|applied| one(applied, due)).collect())
}

impl Transaction {
    /// Sets each value again that somebody else has changed; one that cannot be set is reported, and
    /// the others are set all the same. `None` for a transaction that is not applied as a whole: one that
    /// waits for its confirmation, or is unfinished. `newer` are the open transactions that began after
    /// it, `model` must be fresh.
    pub fn reapply(
        &mut self,
        newer: &[(String, History)],
        host: &dyn Host,
        model: &Model,
    ) -> Option<Vec<Reapplied>> {
        let values = applied(self.journal().history(), newer, host, model)?;
        let mut fresh = model.clone();
        let mut set = |value: &ValueStatus, beside: &[Beside], was: String| {
            let set = self.set_again(value, beside, host, &mut fresh);
            set.map_or_else(failed, |()| Reapply::Reapplied { was })
        };
        let all: Vec<Reapplied> = values.into_iter().map(|applied| one(applied, &mut set)).collect();
        let any = |is: fn(&Reapply) -> bool| all.iter().any(|reapplied| is(&reapplied.outcome));
        // What failed is compared with the same moment as before.
        if any(|outcome| matches!(outcome, Reapply::Reapplied { .. }))
            && !any(|outcome| matches!(outcome, Reapply::Failed { .. }))
        {
            // The values hold all the same. Later looks then compare with the moment before.
            let _ = self.note(host, &fresh);
        }
        Some(all)
    }

    fn set_again(
        &mut self,
        value: &ValueStatus,
        beside: &[Beside],
        host: &dyn Host,
        model: &mut Model,
    ) -> Result<(), ApplyError> {
        let wanted = canonical(value, beside, host, model)?;
        self.write(host, model, knob_of(&value.knob)?, &value.target, wanted, true).map(|_| ())
    }
}

/// A value, and those beside it that are set again when it is written.
type Applied = (ValueStatus, Vec<Beside>);

/// The values of a transaction that is applied as a whole and stays.
fn applied(
    history: &History,
    newer: &[(String, History)],
    host: &dyn Host,
    model: &Model,
) -> Option<Vec<Applied>> {
    let status = status(history, newer, host, model)?;
    if status.state != State::Applied {
        return None;
    }
    // Of such a transaction nothing was undone, so that each target has its value, in the same order.
    let beside = history.touched().into_iter().map(|touched| touched.beside);
    Some(status.values.into_iter().zip(beside).collect())
}

/// The wanted value, checked against the machine of now: a CPU of it may be offline. Values from before
/// the transaction are the kernel's own and may have a form that nobody would ask for.
fn canonical(
    value: &ValueStatus,
    beside: &[Beside],
    host: &dyn Host,
    model: &Model,
) -> Result<String, ApplyError> {
    let knob = knob_of(&value.knob)?;
    if value.wanted == value.original {
        knob.spares(host, model, &value.target, &value.wanted, beside)?;
        return Ok(value.wanted.clone());
    }
    Ok(knob.check(host, model, &value.target, &value.wanted)?)
}

fn failed(error: ApplyError) -> Reapply {
    Reapply::Failed { why: error.to_string() }
}

/// `due` decides about a value that drifted, given what it is now.
fn one(
    (value, beside): Applied,
    mut due: impl FnMut(&ValueStatus, &[Beside], String) -> Reapply,
) -> Reapplied {
    let outcome = match &value.live {
        Live::Kept => Reapply::Holds,
        Live::Covered { by } => Reapply::Covered { by: by.clone() },
        Live::Original => due(&value, &beside, value.original.clone()),
        Live::Drifted { value: was } => due(&value, &beside, was.clone()),
        Live::Gone => Reapply::Gone,
        Live::Unreadable { why } => Reapply::Failed { why: why.clone() },
    };
    let ValueStatus { knob, target, wanted, suspects, .. } = value;
    Reapplied { knob, target, wanted, outcome, suspects }
}

#[cfg(test)]
mod tests;
