//! Durations and times as text: `5s`, `500ms`, `1m`, `1.5s`, `2026-01-31T14:05:00Z`.

use std::time::Duration;

use thiserror::Error;

/// Text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("`{0}` is not a duration (write 5s, 500ms, 250us, 1m or 1h)")]
    Form(String),
    #[error("`{0}` has no unit (write {0}s, {0}ms, {0}m or {0}h)")]
    Unit(String),
    #[error("`{0}` is too long (at most 1000h)")]
    TooLong(String),
}

/// Units by name, in nanoseconds. Longer names first: `ms` also ends with `s`.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

const LIMIT_NS: u64 = 1000 * 3_600_000_000_000;

/// A time as records have it: RFC 3339 in UTC, in whole seconds.
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads a number and a unit, such as `5s`, `1.5s` or `250 us`. The unit is required. Digits below
/// a nanosecond are cut off.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let bad = || DurationError::Form(text.to_owned());
    let trimmed = text.trim();
    let unit = UNITS.iter().find_map(|(name, ns)| Some((trimmed.strip_suffix(name)?, *ns)));
    let number = unit.map_or(trimmed, |(number, _)| number.trim_end());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(bad());
    }
    let (_, unit) = unit.ok_or_else(|| DurationError::Unit(number.to_owned()))?;
    let whole: u64 = whole.parse().map_err(|_| DurationError::TooLong(text.to_owned()))?;
    // Integer arithmetic: 0.1s is 100 ms exactly.
    let fraction: u64 = fraction
        .bytes()
        .take(15)
        .fold((0, unit), |(sum, scale), digit| (sum + u64::from(digit - b'0') * scale / 10, scale / 10))
        .0;
    match whole.checked_mul(unit).and_then(|ns| ns.checked_add(fraction)) {
        Some(ns) if ns <= LIMIT_NS => Ok(Duration::from_nanos(ns)),
        _ => Err(DurationError::TooLong(text.to_owned())),
    }
}

/// Writes a duration in the largest unit that keeps it whole, so that [`parse_duration`]
/// gives the same value back.
pub fn format_duration(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let units = [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    if ns == 0 {
        return "0s".to_owned();
    }
    match units.iter().find(|(_, size)| ns.is_multiple_of(*size)) {
        Some((name, size)) => format!("{}{name}", ns / size),
        None => format!("{ns}ns"),
    }
}

/// For `#[serde(with = "units::duration_text")]`: a [`Duration`] as text.
pub mod duration_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a text such as `5s`.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::format_duration(*duration))
    }

    /// Reads a text such as `5s`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        super::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{DurationError, format_duration, parse_duration};

    #[test]
    fn the_usual_forms() {
        for (text, ns) in [
            ("5s", 5_000_000_000),
            ("500ms", 500_000_000),
            ("1m", 60_000_000_000),
            ("2min", 120_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1s", 100_000_000),
            ("250 us", 250_000),
            (" 7ns ", 7),
            ("1h", 3_600_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
    }

    #[test]
    fn bad_text_says_what_to_write() {
        for bad in ["", "s", "-5s", "1e3s", "5 parsecs", ".5s", "5.s", "1.2.3s", "NaNs"] {
            assert_eq!(parse_duration(bad), Err(DurationError::Form(bad.into())), "{bad}");
        }
        let error = parse_duration(" 1.5 ").expect_err("no unit").to_string();
        assert_eq!(error, "`1.5` has no unit (write 1.5s, 1.5ms, 1.5m or 1.5h)");
        for long in ["1001h", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(parse_duration(long), Err(DurationError::TooLong(long.into())));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(ns in 0u64..3_600_000_000_000_000) {
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
        }

        #[test]
        fn what_is_read_is_written_the_same(text in " ?[0-9]{1,6}([.][0-9]{1,4})? ?(h|min|m|s|ms|us|ns)|.{0,30}") {
            if let Ok(duration) = parse_duration(&text) {
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
        }
    }
}
