//! Restores our values after another program changed them: only those of open transactions, each as another
//! intent of the transaction that set it, so that undo still restores the value before all of it.

use serde::Serialize;

use super::check::knob_of;
use super::drift::Suspect;
use super::{ApplyError, Live, State, Transaction, ValueStatus, status};
use crate::journal::{Displaced, History};
use rxlab_path::model::Model;
use rxlab_setting::Target;
use rxlab_sys::Host;

/// Result for one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reapplied {
    pub knob: String,
    /// Target, by its current name if the device still exists.
    pub target: Target,
    /// The value it should have.
    pub wanted: String,
    #[serde(flatten)]
    pub outcome: Reapply,
    /// Possible causes of the change.
    pub suspects: Vec<Suspect>,
}

/// Findings and actions for one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Reapply {
    /// It has the value; nothing was written.
    Holds,
    /// A newer transaction has set it since; it was left to that one.
    Covered { by: String },
    /// It was foreign and is ours again.
    Reapplied {
        /// The value that another program had set.
        was: String,
    },
    /// It would be written; this was a dry run.
    Due { was: String },
    /// The device, queue or namespace is gone.
    Gone,
    /// It could be neither read nor set.
    Failed {
        /// Reason, in one line.
        why: String,
    },
}

/// Preview of [`Transaction::reapply`]; `None` for a transaction that is not
/// applied as a whole. Writes nothing.
pub fn preview_reapply(
    history: &History,
    newer: &[(String, History)],
    host: &dyn Host,
    model: &Model,
) -> Option<Vec<Reapplied>> {
    let values = applied(history, newer, host, model)?;
    let due = |value: &ValueStatus, displaced: &[Displaced], was: String| {
        canonical(value, displaced, host, model).map_or_else(failed, |_| Reapply::Due { was })
    };
    Some(values.into_iter().map(|applied| one(applied, due)).collect())
}

impl Transaction {
    /// Sets each value again that another program changed; one that cannot be set is reported, and
    /// the others are still set. `None` for a transaction that is not applied as a whole: one that
    /// is waiting for confirmation, or is unfinished. `newer` are the open transactions that began after
    /// it, `model` must be current.
    pub fn reapply(
        &mut self,
        newer: &[(String, History)],
        host: &dyn Host,
        model: &Model,
    ) -> Option<Vec<Reapplied>> {
        let values = applied(self.journal().history(), newer, host, model)?;
        let mut fresh = model.clone();
        let mut set = |value: &ValueStatus, displaced: &[Displaced], was: String| {
            let set = self.set_again(value, displaced, host, &mut fresh);
            set.map_or_else(failed, |()| Reapply::Reapplied { was })
        };
        let all: Vec<Reapplied> = values.into_iter().map(|applied| one(applied, &mut set)).collect();
        let any = |is: fn(&Reapply) -> bool| all.iter().any(|reapplied| is(&reapplied.outcome));
        // A failed value is compared with the same state as before.
        if any(|outcome| matches!(outcome, Reapply::Reapplied { .. }))
            && !any(|outcome| matches!(outcome, Reapply::Failed { .. }))
        {
            // The values still hold. Later comparisons then use the earlier state.
            let _ = self.note(host, &fresh);
        }
        Some(all)
    }

    fn set_again(
        &mut self,
        value: &ValueStatus,
        displaced: &[Displaced],
        host: &dyn Host,
        model: &mut Model,
    ) -> Result<(), ApplyError> {
        let wanted = canonical(value, displaced, host, model)?;
        self.write(host, model, knob_of(&value.knob)?, &value.target, wanted, true).map(|_| ())
    }
}

/// A value and its dependent values, which are set again when it is written.
type Applied = (ValueStatus, Vec<Displaced>);

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
    // Nothing was undone in such a transaction, so each target has its value, in the same order.
    let displaced = history.touched().into_iter().map(|touched| touched.displaced);
    Some(status.values.into_iter().zip(displaced).collect())
}

/// The wanted value, checked against the current machine: a CPU in it may be offline. Values from before
/// the transaction come from the kernel and may have a form that users never write.
fn canonical(
    value: &ValueStatus,
    displaced: &[Displaced],
    host: &dyn Host,
    model: &Model,
) -> Result<String, ApplyError> {
    let knob = knob_of(&value.knob)?;
    let site = knob.site(host, model, &value.target);
    if value.wanted == value.original {
        knob.check_restore(site, &value.wanted, displaced)?;
        return Ok(value.wanted.clone());
    }
    Ok(knob.check(site, &value.wanted)?)
}

fn failed(error: ApplyError) -> Reapply {
    Reapply::Failed { why: error.to_string() }
}

/// `due` decides about a drifted value, given its current value.
fn one(
    (value, displaced): Applied,
    mut due: impl FnMut(&ValueStatus, &[Displaced], String) -> Reapply,
) -> Reapplied {
    let outcome = match &value.live {
        Live::Kept => Reapply::Holds,
        Live::Covered { by } => Reapply::Covered { by: by.clone() },
        Live::Original => due(&value, &displaced, value.original.clone()),
        Live::Drifted { value: was, .. } => due(&value, &displaced, was.clone()),
        Live::Gone => Reapply::Gone,
        Live::Unreadable { why } => Reapply::Failed { why: why.clone() },
    };
    let ValueStatus { knob, target, wanted, suspects, .. } = value;
    Reapplied { knob, target, wanted, outcome, suspects }
}

#[cfg(test)]
mod tests;
