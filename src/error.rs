//! The error of the edge: what went wrong, what to do about it, which exit code it means.
//!
//! Below `commands/` every module has its own typed error; this one is for people and scripts.

use std::fmt;

/// Why a command did not end with exit code 0. The codes are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 1: findings were made, or a guard of a trial tripped. Not a malfunction.
    Findings,
    /// 2: the command line, a file or a value given by the user is wrong.
    Usage,
    /// 3: a permission or a kernel feature is missing.
    Denied,
    /// 4: the machine is not, or no longer, what the command assumes (drift, NIC gone, another host).
    Changed,
    /// 5: the work could not be done: target down, disk full, a process could not be started.
    Failed,
    /// 130: interrupted; everything was put back first.
    Interrupted,
    /// 0: the reader of the output has closed it, which is how `head` says that it has seen enough.
    OutputClosed,
}

impl Kind {
    /// The process exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Findings => 1,
            Kind::Usage => 2,
            Kind::Denied => 3,
            Kind::Changed => 4,
            Kind::Failed => 5,
            Kind::Interrupted => 130,
            Kind::OutputClosed => 0,
        }
    }
}

/// One clear line (what, where), hints (what to do), and a kind (the exit code).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandError {
    /// Decides the exit code.
    pub kind: Kind,
    /// What and where, without a final full stop. Empty when everything was already printed.
    pub message: String,
    /// What to do, one line each.
    pub hints: Vec<String>,
}

impl CommandError {
    /// An error of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), hints: Vec::new() }
    }

    /// Wrong input: exit code 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Could not be done: exit code 5.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(Kind::Failed, message)
    }

    /// Ends with the exit code of `kind` and prints nothing: the output has said it all.
    pub fn silent(kind: Kind) -> Self {
        Self::new(kind, "")
    }

    /// Adds one line of advice.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hints.iter().try_for_each(|hint| write!(f, "\n  hint: {hint}"))
    }
}

impl std::error::Error for CommandError {}

/// Output errors at the edge. A broken pipe is no error: it ends the command silently with exit code
/// 0.
impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::silent(Kind::OutputClosed),
            _ => Self::failed(format!("cannot write the output: {error}")),
        }
    }
}
