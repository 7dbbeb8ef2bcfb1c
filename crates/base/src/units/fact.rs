//! Absence is data: a value, or one of four reasons for its absence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::display_as;

/// A value, or the reason for its absence. The four absences mean different things and are never
/// folded into a zero.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// Read and understood.
    Known(T),
    /// Not asked: this says nothing about the machine.
    #[default]
    NotAsked,
    /// Not supported by this kernel, driver or device.
    Unsupported,
    /// Present, but not readable: the missing privilege.
    Denied(Need),
    /// Present, but not in a known form: the text says what is wrong.
    Broken(String),
}

/// Requirement for reading a value: a privilege, or another namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Need {
    /// A file that only its owner, usually root, may read.
    #[serde(rename = "root")]
    Root,
    /// Network configuration.
    #[serde(rename = "CAP_NET_ADMIN")]
    NetAdmin,
    /// Inspecting processes of other users (`/proc/PID/fd`, `/proc/PID/ns`).
    #[serde(rename = "CAP_SYS_PTRACE")]
    SysPtrace,
    /// Visibility of every process: missing inside a PID namespace, or where `/proc` hides those of
    /// other users (`hidepid`).
    #[serde(rename = "all_processes")]
    AllProcesses,
}

display_as! { Need:
    Root => "root",
    NetAdmin => "CAP_NET_ADMIN",
    SysPtrace => "CAP_SYS_PTRACE",
    AllProcesses => "visibility of all processes",
}

impl<T> Fact<T> {
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

    /// Applies `f`, whose result may be absent, to a known value.
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

    /// This fact, or the other one if this kernel or driver does not support it.
    #[must_use]
    pub fn or(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Fact::Unsupported => other(),
            found => found,
        }
    }
}
