//! Why requests failed: the reasons of each class of errors, with counts.

use std::collections::BTreeMap;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::error_class::ErrorClass;

/// Most reasons that are kept of one class: a target may answer with a different text each time.
const MOST: usize = 32;
/// Most bytes shown of what a target sent.
pub(super) const SHOWN: usize = 64;
/// Stands for all further ones.
const OTHERS: &str = "other reasons";

/// An error of the system in the system's words, without its number.
pub(super) fn text(error: &std::io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |errno| Errno::from_raw_os_error(errno).to_string())
}

/// Why requests failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) class: ErrorClass,
    /// `None` if the class says it all.
    pub(super) reason: Option<String>,
}

impl Failure {
    pub(super) fn new(class: ErrorClass, reason: impl Into<String>) -> Self {
        Self { class, reason: Some(reason.into()) }
    }
}

impl From<ErrorClass> for Failure {
    fn from(class: ErrorClass) -> Self {
        Self { class, reason: None }
    }
}

/// The beginning of what a target sent, in characters that any output shows.
pub(super) fn shown(bytes: &[u8]) -> String {
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("{}{more}", bytes[..bytes.len().min(SHOWN)].escape_ascii())
}

/// Counts of reasons by class. Not every error has one: a timeout is its own reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Reasons(BTreeMap<ErrorClass, BTreeMap<String, u64>>);

impl Reasons {
    /// Counts `count` errors of `class`.
    pub(super) fn count(&mut self, class: ErrorClass, reason: String, count: u64) {
        let reasons = self.0.entry(class).or_default();
        let is_kept = reasons.len() < MOST || reasons.contains_key(&reason);
        *reasons.entry(if is_kept { reason } else { OTHERS.to_owned() }).or_default() += count;
    }

    /// Adds the counts of `more`.
    pub(super) fn add(&mut self, more: &Self) {
        for (class, reasons) in &more.0 {
            reasons.iter().for_each(|(reason, count)| self.count(*class, reason.clone(), *count));
        }
    }

    /// The reasons of a class with their counts, most frequent first.
    pub fn of(&self, class: ErrorClass) -> Vec<(&str, u64)> {
        let reasons = self.0.get(&class).into_iter().flatten();
        let mut reasons: Vec<(&str, u64)> =
            reasons.map(|(reason, count)| (reason.as_str(), *count)).collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        reasons
    }

    /// True if no error had a reason.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, OTHERS, Reasons};
    use crate::error_class::ErrorClass::{Connect, Tls};

    #[test]
    fn reasons_are_counted_by_class_and_most_frequent_first() {
        let mut reasons = Reasons::default();
        reasons.count(Connect, "refused".into(), 1);
        reasons.count(Connect, "reset".into(), 3);
        let mut more = Reasons::default();
        more.count(Connect, "refused".into(), 1);
        reasons.add(&more);
        assert_eq!(reasons.of(Connect), [("reset", 3), ("refused", 2)]);
        assert_eq!(reasons.of(Tls), []);
    }

    /// A target that answers with another text each time does not take the memory of this process.
    #[test]
    fn the_number_of_reasons_is_bounded_and_no_count_is_lost() {
        let mut reasons = Reasons::default();
        (0..1_000_u32).for_each(|n| reasons.count(Tls, n.to_string(), 1));
        let told = reasons.of(Tls);
        assert_eq!(told.len(), MOST + 1);
        assert_eq!(told[0], (OTHERS, 1_000 - MOST as u64));
    }
}
