//! `ETHTOOL_GSTRINGS` and `ETHTOOL_GSTATS`: the driver's own statistics, names and values.

use super::{field, field_text, field32, only};
use crate::parse::WireError;

const NAMES_COUNT: usize = 8;
const NAMES: usize = 12;
const NAME: usize = 32;
const VALUES_COUNT: usize = 4;
const VALUES: usize = 8;

/// Names in the order of the values. Drivers may repeat names and use them as headings.
pub fn stat_names(answer: &[u8]) -> Result<Vec<String>, WireError> {
    let names = only(answer)?;
    let places = places(names, NAMES_COUNT, NAMES, NAME)?;
    places.map(|at| field_text::<NAME>(names, at)).collect()
}

/// Values in the order of the names.
pub fn stats(answer: &[u8]) -> Result<Vec<u64>, WireError> {
    let values = only(answer)?;
    places(values, VALUES_COUNT, VALUES, 8)?.map(|at| field(values, at).map(u64::from_ne_bytes)).collect()
}

/// Start of each entry; their count is at `count_at`.
fn places(
    bytes: &[u8],
    count_at: usize,
    first: usize,
    length: usize,
) -> Result<impl Iterator<Item = usize>, WireError> {
    let count = field32(bytes, count_at)? as usize;
    if bytes.len().saturating_sub(first) / length != count {
        return Err(WireError::new(format!("{} bytes are too short for {count} statistics", bytes.len())));
    }
    Ok((0..count).map(move |index| first + index * length))
}

#[cfg(test)]
mod tests {
    use super::{stat_names, stats};
    use crate::parse::{one_message, words};

    fn pushed(parts: &[&[u8]]) -> Vec<u8> {
        one_message(&parts.concat())
    }

    #[test]
    fn names_and_values() {
        let name = |text: &str| {
            let mut name = [0; 32];
            name[..text.len()].copy_from_slice(text.as_bytes());
            name
        };
        // The longest name fills its field: there is no NUL.
        let long = "rx_queue_0_a_name_of_32_bytes_ab";
        let names = pushed(&[&words(&[0x1b, 1, 2]), &name("rx0_drops"), &name(long)]);
        assert_eq!(stat_names(&names), Ok(vec!["rx0_drops".to_owned(), long.to_owned()]));
        let values = pushed(&[&words(&[0x1d, 2]), &7u64.to_ne_bytes(), &u64::MAX.to_ne_bytes()]);
        assert_eq!(stats(&values), Ok(vec![7, u64::MAX]));
        assert!(stats(&pushed(&[&words(&[0x1d, 2]), &7u64.to_ne_bytes()])).is_err(), "one is missing");
        assert!(stat_names(&pushed(&[&words(&[0x1b, 1, u32::MAX])])).is_err());
    }
}
