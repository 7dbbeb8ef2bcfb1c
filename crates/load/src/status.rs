//! Statuses that count as good: `2xx`, `404`, or several, separated by commas.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use rxlab_base::serde_as_text;

/// Statuses of good responses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Statuses {
    /// First and last of each range.
    ranges: Vec<(u16, u16)>,
}

/// Invalid list of statuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid status `{0}`: must be 2xx, 404, or several separated by commas")]
pub struct StatusError(String);

impl Statuses {
    /// True if `status` is one of them.
    pub fn has(&self, status: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }

    /// True for the default, `2xx`.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self { ranges: vec![(200, 299)] }
    }
}

impl FromStr for Statuses {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Self, StatusError> {
        let range = |part: &str| {
            let (first, last) = match part.strip_suffix("xx") {
                Some(class) => (class.parse::<u16>().ok()?.checked_mul(100)?, 99),
                None => (part.parse().ok()?, 0),
            };
            // A response below 200 is never final.
            let plain = part.bytes().all(|b| b.is_ascii_digit() || b == b'x');
            (plain && (200..1_000).contains(&first)).then_some((first, first + last))
        };
        let ranges: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
        ranges.map(|ranges| Self { ranges }).ok_or_else(|| StatusError(text.to_owned()))
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.ranges.iter().map(|(first, last)| {
            if first == last { first.to_string() } else { format!("{}xx", first / 100) }
        });
        f.write_str(&parts.collect::<Vec<_>>().join(","))
    }
}

serde_as_text!(Statuses);

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::Statuses;

    #[test]
    fn statuses_read_as_they_are_written() {
        let some: Statuses = "2xx, 404".parse().expect("statuses");
        assert_eq!(some.to_string(), "2xx,404");
        assert!(some.has(200) && some.has(299) && some.has(404) && !some.has(300) && !some.has(403));
        assert!(Statuses::default().is_default() && "2xx".parse().is_ok_and(|s: Statuses| s.is_default()));
        for bad in ["", "2x", "1xx", "10xx", "xx", "200,", "+200", "99999xx", "101"] {
            assert!(bad.parse::<Statuses>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_statuses_or_none(text in "([0-9x+-]{0,4},?){0,4}.{0,2}") {
            if let Ok(statuses) = text.parse::<Statuses>() {
                prop_assert_eq!(statuses.to_string().parse::<Statuses>(), Ok(statuses));
            }
        }
    }
}
