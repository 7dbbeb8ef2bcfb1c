//! Absence is data: a value, or one of three reasons why there is none.

use serde::{Deserialize, Serialize};

/// A value that may be absent, and why. The three absences mean different things and are never
/// folded into a zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// Read and understood.
    Known(T),
    /// This kernel, driver or device has no such thing.
    Unsupported,
    /// There, but we may not read it.
    Denied,
    /// There, but not in the form we know: the text names what was wrong.
    Broken(String),
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
        match self {
            Fact::Known(value) => Fact::Known(f(value)),
            Fact::Unsupported => Fact::Unsupported,
            Fact::Denied => Fact::Denied,
            Fact::Broken(why) => Fact::Broken(why),
        }
    }

    /// Parses a known value; a parser's error makes it [`Fact::Broken`].
    pub fn parse<U, E: std::fmt::Display>(self, f: impl FnOnce(T) -> Result<U, E>) -> Fact<U> {
        match self {
            Fact::Known(value) => f(value).map_or_else(|error| Fact::Broken(error.to_string()), Fact::Known),
            Fact::Unsupported => Fact::Unsupported,
            Fact::Denied => Fact::Denied,
            Fact::Broken(why) => Fact::Broken(why),
        }
    }
}
