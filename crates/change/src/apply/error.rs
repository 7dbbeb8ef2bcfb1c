//! Reasons why a change was not made, each in one line.

use std::path::PathBuf;

use thiserror::Error;

use crate::journal::{JournalError, Unreadable};
use crate::knob::{KNOBS, KnobError};
use rxlab_base::error::Kind;
use rxlab_base::units::IrqId;
use rxlab_path::constraints::Constraint;
use rxlab_path::model::DeviceAddress;
use rxlab_setting::tunable::known_elsewhere;
use rxlab_setting::{Setting, Target};
use rxlab_sys::{HostError, OtherView};

/// A change was not made.
#[derive(Debug, Error)]
pub enum ApplyError {
    #[error("unknown knob `{name}` ({})", similar_knobs(name))]
    UnknownKnob {
        /// The name asked for.
        name: String,
    },
    #[error("{knob} {target} is set twice")]
    Twice { knob: String, target: Target },
    #[error("{target} and {other} are one control group: set one of them")]
    OneGroup { target: Target, other: Target },
    /// One interrupt, which several targets have, is sent to different CPUs.
    #[error("{other} is interrupt {irq}, as {target}, which is sent elsewhere: set one of them")]
    OneInterrupt { other: Target, target: Target, irq: IrqId },
    /// An open transaction has set the interrupt by another name, and would not put back what this one sets.
    #[error(
        "{target} is interrupt {irq}, which transaction {id} has set as {other}: set {other} instead, or undo {id} first"
    )]
    OtherName { target: Box<Target>, other: Box<Target>, irq: IrqId, id: String },
    /// An open transaction has set a target by which this one gets its value as well: no order of undoing both would restore
    /// it.
    #[error("{knob} {target}: {other}, which transaction {id} has set, {why}: undo {id} first")]
    OtherTarget {
        knob: &'static str,
        target: Box<Target>,
        other: Box<Target>,
        /// What the other one is to it.
        why: &'static str,
        id: String,
    },
    #[error("the plan is for host {plan}, this is {here}")]
    OtherHost {
        /// Host in the plan.
        plan: String,
        here: String,
    },
    #[error("the plan has {target} on device {plan}, but here it is {here}: the plan is for another machine")]
    OtherDevice {
        target: Target,
        /// Device in the plan.
        plan: DeviceAddress,
        here: String,
    },
    /// A constraint of the machine forbids it, although the kernel would take it.
    #[error("{setting}: {constraint}; choose others")]
    Forbidden {
        /// The setting asked for.
        setting: Box<Setting>,
        constraint: Box<Constraint>,
    },
    /// The knob rejects it or fails.
    #[error(transparent)]
    Knob(#[from] KnobError),
    /// The journal cannot be kept, so nothing may be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A shell command failed.
    #[error(transparent)]
    Command(#[from] HostError),
    /// The interfaces in `/sys` may not be those that sockets reach.
    #[error(transparent)]
    View(#[from] OtherView),
    /// The kernel accepted the value but stored another one.
    #[error("{setting}: {why}")]
    NotKept {
        /// The setting asked for.
        setting: Box<Setting>,
        /// The difference in words.
        why: String,
    },
    #[error("the driver reset {setting}, which cannot be set again: {error}")]
    NotReplayed {
        /// The dependent value that was lost and not set again.
        setting: Box<Setting>,
        /// Reason why it cannot be restored.
        error: Box<KnobError>,
    },
    #[error("{knob} {target} was not changed by this transaction")]
    NotTouched { knob: String, target: Target },
    /// Another program interfered between the journal entry and the write.
    #[error("{subject} changed in the meantime: {why}")]
    ChangedMeanwhile { subject: String, why: String },
    /// An unreadable transaction may have changed the same target: its original value is unknown.
    #[error("{}{file}", subject.as_ref().map_or(String::new(), |subject| format!("{subject}: ")))]
    Unreadable {
        /// Knob and target, if they are what it changed.
        subject: Option<String>,
        file: Box<Unreadable>,
    },
    /// A transaction that was not seen before this one began. Nothing was written.
    #[error("transaction {id} was unreadable for a moment")]
    Hidden { id: String },
    /// Transactions are open in another journal of this machine: undo of one would take the values of the
    /// other for foreign ones.
    #[error("transaction {id} is open in another journal, {}", state.display())]
    OtherJournal {
        /// The state directory of that journal.
        state: PathBuf,
        /// One of its transactions.
        id: String,
    },
    #[error("transaction {id} is waiting for confirmation")]
    Pending { id: String },
    /// A panic. Values set before are restored.
    #[error("{0}")]
    Internal(String),
    #[error("interrupted")]
    Interrupted,
}

/// Maximum edit distance of a suggested knob.
const EDITS: usize = 2;

/// The knob that sets what has this name elsewhere, or the knobs whose names are nearest; all knobs if none is near.
fn similar_knobs(name: &str) -> String {
    if let Some(knob) = known_elsewhere(name) {
        return format!("its knob is `{}`", knob.name);
    }
    let near = |knob: &&str| strsim::osa_distance(name, knob) <= EDITS.min(name.len() / 2);
    let all = || KNOBS.iter().map(|knob| knob.name());
    let found: Vec<String> = all().filter(near).map(|knob| format!("`{knob}`")).collect();
    if found.is_empty() {
        format!("known: {}", all().collect::<Vec<_>>().join(", "))
    } else {
        format!("did you mean {}?", found.join(" or "))
    }
}

impl ApplyError {
    pub(super) fn another_interface(knob: &str, target: &Target) -> Self {
        let what = if target.nic().is_some() { "interface" } else { "control group" };
        let why = format!("it is now another {what}");
        Self::ChangedMeanwhile { subject: format!("{knob} {target}"), why }
    }

    /// Exit code class of the error.
    pub fn kind(&self) -> Kind {
        match self {
            ApplyError::UnknownKnob { .. }
            | ApplyError::Twice { .. }
            | ApplyError::OneGroup { .. }
            | ApplyError::OneInterrupt { .. }
            | ApplyError::Forbidden { .. } => Kind::Usage,
            ApplyError::OtherHost { .. }
            | ApplyError::OtherDevice { .. }
            | ApplyError::Pending { .. }
            | ApplyError::OtherName { .. }
            | ApplyError::OtherTarget { .. }
            | ApplyError::ChangedMeanwhile { .. }
            | ApplyError::Unreadable { .. }
            | ApplyError::Hidden { .. }
            | ApplyError::OtherJournal { .. } => Kind::Changed,
            ApplyError::View(_) => Kind::Denied,
            ApplyError::Knob(error) => error.kind(),
            ApplyError::NotReplayed { error, .. } => error.kind(),
            ApplyError::Journal(error) => error.kind(),
            ApplyError::NotKept { .. }
            | ApplyError::NotTouched { .. }
            | ApplyError::Command(_)
            | ApplyError::Internal(_) => Kind::Failed,
            ApplyError::Interrupted => Kind::Interrupted,
        }
    }
}
