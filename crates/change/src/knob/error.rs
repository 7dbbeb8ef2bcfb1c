//! Reasons why a knob cannot do something, each in one line that says what, where and what to do.

use std::borrow::Cow;
use std::fmt::Display;

use rustix::io::Errno;
use thiserror::Error;

use rxlab_base::error::Kind;
use rxlab_base::units::{CpuMask, NicName, QueueId};
use rxlab_setting::Target;
use rxlab_sys::{HostError, OtherNumbers, values_in_words};

/// Errnos and what they mean for a knob.
pub(super) type Meanings = &'static [(Errno, &'static str)];

/// Transient errnos, for any knob.
pub(super) const TRANSIENT: Meanings = &[
    (Errno::BUSY, "it is busy; try again"),
    (Errno::AGAIN, "it is busy; try again"),
    (Errno::NOMEM, "not enough memory; try again or ask for less"),
];

/// Result of what a knob does, as a rule with its own error.
pub type Result<T = (), E = KnobError> = std::result::Result<T, E>;

/// A knob cannot do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KnobError {
    #[error("no interface {nic} (found: {})", list(known))]
    UnknownNic {
        /// The interface asked for.
        nic: NicName,
        /// The interfaces that exist.
        known: Vec<NicName>,
    },
    #[error("{nic} has no queue {queue} (it has {})", list(known))]
    UnknownQueue {
        nic: NicName,
        /// The queue asked for.
        queue: QueueId,
        /// The queues that exist.
        known: Vec<QueueId>,
    },
    #[error("{knob} acts on {acts_on}, not on {target}")]
    WrongTarget {
        knob: &'static str,
        /// Form of its targets.
        acts_on: &'static str,
        target: Target,
    },
    #[error("invalid value `{value}` for {knob}: {why}")]
    BadValue {
        knob: &'static str,
        value: String,
        /// The error, and a valid value.
        why: String,
    },
    #[error("{knob} {target}: {} {cpus} {why}", cpu_word(cpus))]
    UnusableCpus {
        knob: &'static str,
        target: Target,
        /// The unusable CPUs of those asked for.
        cpus: CpuMask,
        why: String,
    },
    /// The queue has no interrupt of its own, or the interface has none of this name. A driver may request it
    /// later: many do so each time the interface is brought up.
    #[error("no interrupt of {target} found: {why}")]
    NoIrq {
        target: Target,
        /// The reason, and what to do.
        why: Cow<'static, str>,
    },
    /// What would show if the target has a value cannot be read.
    #[error("the {what} of {target} are unknown: {why}")]
    Unknown {
        /// `interrupts`, `NAPIs` or `queues`.
        what: &'static str,
        target: Target,
        why: String,
    },
    /// The file does not exist, or nothing answers.
    #[error("this kernel or device does not support {knob} on {target}: {}", missing(path))]
    Unsupported {
        knob: &'static str,
        target: Target,
        /// Relative to the root.
        path: String,
    },
    /// The file exists, but this target cannot have a value.
    #[error("{target} has no {knob}: {why}")]
    Lacks {
        knob: &'static str,
        target: Target,
        /// The reason, and what to do.
        why: &'static str,
    },
    /// The value exists, but rxlab could not set it again: nothing that may change or discard it is written.
    #[error(
        "{knob} {target}: its thread runs under a policy that rxlab could not restore ({policy}); change it first"
    )]
    Unrestorable {
        knob: &'static str,
        target: Target,
        /// Number of include/uapi/linux/sched.h; 6 is SCHED_DEADLINE.
        policy: u32,
    },
    /// The write ends a thread, and the one that follows it would not have the same: nothing is written.
    #[error(
        "{knob} {target} would end the thread {name} (process {pid}), and rxlab could not restore its {what}; set the \
         default first"
    )]
    UnrestorableThread {
        knob: &'static str,
        target: Target,
        /// Number of the thread.
        pid: u32,
        /// Its name, such as `napi/vxlan0-0`.
        name: String,
        /// What it has that a new thread has not, such as `CPUs`.
        what: &'static str,
    },
    /// The kernel or the driver would not take the value back, or would discard others: nothing is written.
    #[error("{knob} {target}: undo could not restore {why}")]
    UnrestorableValue {
        knob: &'static str,
        target: Target,
        /// What would be lost, the reason, and what to do.
        why: String,
    },
    /// There are only files, as in a recording, and they lack a value that the kernel has.
    #[error("{target} has no {knob} in this recording, though Linux {kernel} has it")]
    NotRecorded {
        knob: &'static str,
        target: Target,
        /// Release of the recorded kernel.
        kernel: String,
    },
    /// The target comes and goes by itself and does not exist now: a process, a thread, a control group. Its
    /// value went with it.
    #[error("{target}: {why}")]
    NotThere {
        target: Target,
        /// The missing thing, and what to do.
        why: String,
    },
    /// The kernel shows the value only while the interface is up. It may be kept meanwhile.
    #[error(
        "{target} cannot be read while {nic} is down: the kernel lists NAPIs only of interfaces that are up"
    )]
    Down { target: Target, nic: NicName },
    #[error("cannot {verb} {}: permission denied{meaning}", source(path))]
    Denied {
        /// Either `read` or `write`.
        verb: &'static str,
        /// Relative to the root.
        path: String,
        /// Meaning of the denial there; empty, or begins with a separator.
        meaning: &'static str,
    },
    /// The cause says what to do.
    #[error("cannot {verb} {}: {}", source(&error.path), error.reason())]
    Unseen {
        /// Either `read` or `write`.
        verb: &'static str,
        error: HostError,
    },
    /// The number of a process or thread may be another one's for the system call that would set the value.
    #[error(transparent)]
    Numbers(OtherNumbers),
    /// The file system is mounted read-only, as /sys in most containers: no permission helps.
    #[error("cannot write /{path}: read-only file system (EROFS): run rxlab where it is mounted read-write")]
    ReadOnly {
        /// Relative to the root.
        path: String,
    },
    #[error("{knob} {target} = {value}: the kernel rejected it: {meaning}")]
    Refused {
        knob: &'static str,
        target: Target,
        /// The value written; `?` for a read.
        value: String,
        /// Meaning of the errno there.
        meaning: String,
    },
    #[error("{}, expected {expected}", content(path, text))]
    Broken {
        /// Relative to the root.
        path: String,
        text: String,
        expected: &'static str,
    },
}

/// The file, or the values of the answer.
fn source(path: &str) -> String {
    values_in_words(path).unwrap_or_else(|| format!("/{path}"))
}

fn missing(path: &str) -> String {
    match values_in_words(path) {
        Some(values) => format!("no {values}"),
        None => format!("/{path} does not exist"),
    }
}

fn content(path: &str, text: &str) -> String {
    match values_in_words(path) {
        Some(values) => format!("the {values} are `{text}`"),
        None => format!("/{path} contains `{text}`"),
    }
}

fn list<T: ToString>(items: &[T]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

fn cpu_word(cpus: &CpuMask) -> &'static str {
    if cpus.len() == 1 { "CPU" } else { "CPUs" }
}

impl KnobError {
    /// A file, or an answer, with this content or error in it.
    pub(super) fn broken(path: &str, text: impl Display, expected: &'static str) -> Self {
        KnobError::Broken { path: path.to_owned(), text: text.to_string().trim().to_owned(), expected }
    }

    /// The same error, except that a missing file has the reason `why`.
    #[must_use]
    pub(super) fn or_lacks(self, why: &'static str) -> Self {
        match self {
            KnobError::Unsupported { knob, target, .. } => KnobError::Lacks { knob, target, why },
            error => error,
        }
    }

    /// The kind that decides the exit code.
    pub fn kind(&self) -> Kind {
        match self {
            KnobError::Unsupported { .. }
            | KnobError::Lacks { .. }
            | KnobError::Unrestorable { .. }
            | KnobError::UnrestorableThread { .. }
            | KnobError::UnrestorableValue { .. }
            | KnobError::NotRecorded { .. }
            | KnobError::Denied { .. }
            | KnobError::Unseen { .. }
            | KnobError::Numbers(_)
            | KnobError::ReadOnly { .. } => Kind::Denied,
            KnobError::Refused { .. }
            | KnobError::Broken { .. }
            | KnobError::Unknown { .. }
            | KnobError::Down { .. } => Kind::Failed,
            _ => Kind::Usage,
        }
    }
}
