//! Sizes as text: `512K`, `64M`, `1G`.

use thiserror::Error;

/// Text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a size (write 512K, 64M or 1G)")]
pub struct SizeError(String);

/// Reads a size of at least one byte: a number, and K, M or G for 1024 bytes and its powers.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let bad = || SizeError(text.to_owned());
    let units = [('K', 1 << 10), ('M', 1 << 20), ('G', 1u64 << 30)];
    let unit = units.iter().find_map(|(name, bytes)| Some((text.strip_suffix(*name)?, *bytes)));
    let (digits, bytes) = unit.unwrap_or((text, 1));
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let size = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(bytes));
    size.filter(|size| *size > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

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
