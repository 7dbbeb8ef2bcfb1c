//! Numbers as text: counts with grouped thousands, rates (`10k`), shares (`3%`), and sizes (`512K`, `64M`, `1G`).

use std::str::FromStr;

use thiserror::Error;

/// A whole number with its thousands grouped: `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of decimal digits only. [`str::parse`] also takes a sign.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a size (write 512K, 64M or 1G)")]
pub struct SizeError(String);

/// Reads a size of at least one byte: a number, and K, M or G for 1024 bytes and its powers.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let units = [('K', 1 << 10), ('M', 1 << 20), ('G', 1u64 << 30)];
    let unit = units.iter().find_map(|(name, bytes)| Some((text.strip_suffix(*name)?, *bytes)));
    let (number, bytes) = unit.unwrap_or((text, 1));
    let size = digits::<u64>(number).and_then(|number| number.checked_mul(bytes));
    size.filter(|size| *size > 0).ok_or_else(|| SizeError(text.to_owned()))
}

/// Reads a number of things, whole or not: `1000`, `0.5`, `10k`, `1.5M`, `2G`; `k` is 1000. `None` for anything else, a
/// sign included.
pub fn parse_count(text: &str) -> Option<f64> {
    let units = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];
    let unit = units.iter().find_map(|(name, times)| Some((text.strip_suffix(name)?, *times)));
    let (number, times) = unit.unwrap_or((text, 1.0));
    Some(plain(number)? * times)
}

/// A number of digits and at most one point.
fn plain(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Text that is not a share.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ShareError {
    #[error("`{0}` is not a share (write 3% or 0.03)")]
    Form(String),
    #[error("`{0}` is above 100 % (write 3% or 0.03)")]
    TooLarge(String),
}

/// Reads a part of a whole as a fraction: `3%`, `3 %` and `0.03` are the same. At most 1.
pub fn parse_share(text: &str) -> Result<f64, ShareError> {
    let percent = text.trim().strip_suffix('%').map(str::trim_end);
    let number = plain(percent.unwrap_or(text.trim())).ok_or_else(|| ShareError::Form(text.to_owned()))?;
    let share = if percent.is_some() { number / 100.0 } else { number };
    if share > 1.0 { Err(ShareError::TooLarge(text.to_owned())) } else { Ok(share) }
}

#[cfg(test)]
mod tests {
    use super::{ShareError, grouped, parse_count, parse_share, parse_size};

    #[test]
    fn counts_have_decimal_units() {
        for (text, count) in
            [("1000", 1e3), ("0.5", 0.5), ("10k", 1e4), ("10K", 1e4), ("1.5M", 1.5e6), ("2G", 2e9)]
        {
            assert_eq!(parse_count(text), Some(count), "{text}");
        }
        for bad in ["", "k", "-1", "+1", "1e3", "10 k", "10kk", "1.2.3", "inf", "10m"] {
            assert_eq!(parse_count(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_percentage_and_a_fraction_are_the_same_share() {
        for (text, share) in [("3%", 0.03), (" 3 % ", 0.03), ("0.03", 0.03), ("100%", 1.0), ("0", 0.0)] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
        for bad in ["", "%", "-3%", "+3%", "NaN", "3 percent", "3%%", "1e-2"] {
            assert_eq!(parse_share(bad), Err(ShareError::Form(bad.to_owned())), "{bad}");
        }
        for large in ["3", "101%"] {
            assert_eq!(parse_share(large), Err(ShareError::TooLarge(large.to_owned())));
        }
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!([grouped(0), grouped(999), grouped(1_000)].join(" "), "0 999 1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn numbers_and_units() {
        assert_eq!(parse_size("64M"), Ok(64 << 20));
        assert_eq!(parse_size("1"), Ok(1));
        assert_eq!(parse_size("3K"), Ok(3072));
        assert_eq!(parse_size("2G"), Ok(2 << 30));
        for bad in ["", "M", "0", "0G", "-1M", "+1M", "1.5M", "64MB", "64 M", "99999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
