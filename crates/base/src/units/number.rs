//! Numbers as text: counts with grouped thousands, and sizes (`512K`, `64M`, `1G`).

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

#[cfg(test)]
mod tests {
    use super::{grouped, parse_size};

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
