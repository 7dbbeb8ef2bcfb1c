//! Absence is data: a value, or one of four reasons why there is none.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value that may be absent, and why. The four absences mean different things and are never
/// folded into a zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// Read and understood.
    Known(T),
    /// Nobody asked: this says nothing of the machine.
    #[default]
    NotAsked,
    /// This kernel, driver or device has no such thing.
    Unsupported,
    /// There, but we may not read it: what it needs.
    Denied(Need),
    /// There, but not in the form we know: the text names what was wrong.
    Broken(String),
}

/// What it takes to read something: a privilege, or another point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Need {
    /// A file that only its owner, as a rule the superuser, may read.
    #[serde(rename = "root")]
    Root,
    /// Network configuration.
    #[serde(rename = "CAP_NET_ADMIN")]
    NetAdmin,
    /// Looking into processes of other users (`/proc/PID/fd`, `/proc/PID/ns`).
    #[serde(rename = "CAP_SYS_PTRACE")]
    SysPtrace,
    /// Seeing every process, which one does not from within a PID namespace, nor where `/proc` hides those
    /// of others (`hidepid`).
    #[serde(rename = "all_processes")]
    AllProcesses,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Need::Root => "root",
            Need::NetAdmin => "CAP_NET_ADMIN",
            Need::SysPtrace => "CAP_SYS_PTRACE",
            Need::AllProcesses => "sight of all processes",
        })
    }
}

impl<T> Fact<T> {
    /// The value, if known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Applies `f` to a known value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Known(f(value)))
    }

    /// Applies `f` to a known value, whose result may be absent itself.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Fact::Known(value) => f(value),
            Fact::NotAsked => Fact::NotAsked,
            Fact::Unsupported => Fact::Unsupported,
            Fact::Denied(need) => Fact::Denied(need),
            Fact::Broken(why) => Fact::Broken(why),
        }
    }

    /// Parses a known value; a parser's error makes it [`Fact::Broken`].
    pub fn parse<U, E: fmt::Display>(self, f: impl FnOnce(T) -> Result<U, E>) -> Fact<U> {
        self.and_then(|value| f(value).map_or_else(|error| Fact::Broken(error.to_string()), Fact::Known))
    }

    /// This fact, or the other one where this kernel or driver does not have it.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Fact::Unsupported => other(),
            found => found,
        }
    }
}
