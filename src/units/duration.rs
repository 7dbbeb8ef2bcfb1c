//! Lengths of time as people write them: `500ms`, `60s`, `2m`, `1h`.

use std::time::Duration;

use thiserror::Error;

/// Text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a duration (write a number and ms, s, m or h, such as 60s)")]
pub struct DurationError(String);

/// Reads a number, whole or with a decimal point, and its unit: `ms`, `s`, `m` or `h`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let bad = || DurationError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse_duration;

    #[test]
    fn a_number_and_a_unit() {
        for (text, milliseconds) in
            [("500ms", 500), ("60s", 60_000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "5", "s", "-5s", "5 s", "5d", "1.2.3s", "1e400s", "99999999999999999999999999h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
