//! Why a change was not made, each in one line.

use std::path::PathBuf;

use thiserror::Error;

use crate::error::Kind;
use crate::host::HostError;
use crate::journal::JournalError;
use crate::knob::{KNOBS, KnobError};
use crate::model::DeviceAddress;
use crate::plan::{Setting, Target};

/// A change was not made.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// No knob has this name.
    #[error("unknown knob `{name}` (known: {})", knob_names())]
    UnknownKnob {
        /// As asked for.
        name: String,
    },
    /// One target is given two values.
    #[error("{knob} {target} is set twice")]
    Twice {
        /// Which knob.
        knob: String,
        /// On what.
        target: Target,
    },
    /// The plan names another host.
    #[error("the plan is for host {plan}, this is {here}")]
    OtherHost {
        /// As the plan says.
        plan: String,
        /// This one.
        here: String,
    },
    /// The plan names another device than the one that has the name now.
    #[error("the plan has {target} on device {plan}, but here it is {here}: the plan is for another machine")]
    OtherDevice {
        /// On what.
        target: Target,
        /// As the plan says.
        plan: DeviceAddress,
        /// The device here.
        here: String,
    },
    /// The knob refuses or cannot.
    #[error(transparent)]
    Knob(#[from] KnobError),
    /// The journal cannot be kept, so nothing may be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A shell command did not end with success.
    #[error(transparent)]
    Command(#[from] HostError),
    /// The kernel took the value and made another of it.
    #[error("{setting}: {why}")]
    NotKept {
        /// What was asked for.
        setting: Box<Setting>,
        /// The difference in words.
        why: String,
    },
    /// A value that the write of another one threw away cannot be set again.
    #[error("the driver reset {setting}, which cannot be set again: {error}")]
    NotReplayed {
        /// What was lost.
        setting: Box<Setting>,
        /// Why it cannot be had back.
        error: Box<KnobError>,
    },
    /// A target that this transaction has not touched cannot be set back.
    #[error("{knob} {target} was not changed by this transaction")]
    NotTouched {
        /// Which knob.
        knob: String,
        /// On what.
        target: Target,
    },
    /// Between the note in the journal and the write, another program was there.
    #[error("{subject} changed in the meantime: {why}")]
    ChangedMeanwhile {
        /// Knob and target.
        subject: String,
        /// What differs.
        why: String,
    },
    /// A transaction that cannot be read has changed the same target: what it was before is not known.
    #[error("{}transaction {id} cannot be read: {why}", subject.as_ref().map_or(String::new(), |s| format!("{s}: ")))]
    Unreadable {
        /// Knob and target, where they are what it has changed.
        subject: Option<String>,
        /// Which transaction.
        id: String,
        /// Why it cannot be read.
        why: String,
    },
    /// Transactions are open in another journal of this machine: undo of one would take the values of the other for
    /// a stranger's.
    #[error("transaction {id} is open in another journal, {}", state.display())]
    OtherJournal {
        /// The state directory of that journal.
        state: PathBuf,
        /// One of its transactions.
        id: String,
    },
    /// An earlier change has a deadline that is still running.
    #[error("transaction {id} is waiting for confirmation")]
    Pending {
        /// Which one.
        id: String,
    },
    /// Asked to stop.
    #[error("interrupted")]
    Interrupted,
}

fn knob_names() -> String {
    KNOBS.iter().map(|knob| knob.name()).collect::<Vec<_>>().join(", ")
}

impl ApplyError {
    pub(super) fn another_interface(knob: &str, target: &Target) -> Self {
        let why = "it is now another interface".to_owned();
        Self::ChangedMeanwhile { subject: format!("{knob} {target}"), why }
    }

    /// What it means for the exit code.
    pub fn kind(&self) -> Kind {
        match self {
            ApplyError::UnknownKnob { .. } | ApplyError::Twice { .. } => Kind::Usage,
            ApplyError::OtherHost { .. }
            | ApplyError::OtherDevice { .. }
            | ApplyError::Pending { .. }
            | ApplyError::ChangedMeanwhile { .. }
            | ApplyError::Unreadable { .. }
            | ApplyError::OtherJournal { .. } => Kind::Changed,
            ApplyError::Knob(error) => error.kind(),
            ApplyError::NotReplayed { error, .. } => error.kind(),
            ApplyError::Journal(error) => error.kind(),
            ApplyError::NotKept { .. } | ApplyError::NotTouched { .. } | ApplyError::Command(_) => {
                Kind::Failed
            }
            ApplyError::Interrupted => Kind::Interrupted,
        }
    }
}
