//! `/proc/softirqs`: how often each softirq vector ran on each CPU since boot.

use std::collections::BTreeMap;

use super::{ParseError, counter, header};
use crate::units::CpuId;

/// Runs of the two network vectors by CPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Softirqs {
    /// NET_RX runs.
    pub net_rx: BTreeMap<CpuId, u64>,
    /// NET_TX runs.
    pub net_tx: BTreeMap<CpuId, u64>,
}

/// Parses `/proc/softirqs`; vectors other than the network's are skipped.
pub fn softirqs(text: &str) -> Result<Softirqs, ParseError> {
    let cpus = header(text.lines().next())?;
    let mut rows: BTreeMap<&str, BTreeMap<CpuId, u64>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let mut words = line.split_whitespace();
        let Some(name @ ("NET_RX:" | "NET_TX:")) = words.next() else { continue };
        let counts: Vec<u64> = words.map(|word| counter(number, word)).collect::<Result<_, _>>()?;
        if counts.len() != cpus.len() {
            let what = format!("{name} has {} columns for {} CPUs", counts.len(), cpus.len());
            return Err(ParseError::at(number, what));
        }
        rows.insert(name, cpus.iter().copied().zip(counts).collect());
    }
    let mut row = |name: &str| {
        rows.remove(name).ok_or_else(|| ParseError::at(text.lines().count(), format!("no line `{name}`")))
    };
    Ok(Softirqs { net_rx: row("NET_RX:")?, net_tx: row("NET_TX:")? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::softirqs;
    use crate::units::CpuId;

    #[test]
    fn columns_follow_the_header() {
        let text = "                    CPU0       CPU2\n          HI:          1          0\n      NET_TX:         12          3\n      NET_RX:        770       2011\n";
        let counts = softirqs(text).expect("valid");
        assert_eq!(counts.net_rx[&CpuId(2)], 2011);
        assert_eq!(counts.net_tx[&CpuId(0)], 12);
        assert!(!counts.net_rx.contains_key(&CpuId(1)));
    }

    #[test]
    fn a_short_row_is_an_error() {
        let error = softirqs("CPU0 CPU1\nNET_TX: 1 2\nNET_RX: 1\n").expect_err("short row");
        assert_eq!(error.to_string(), "line 3: NET_RX: has 1 columns for 2 CPUs");
        assert!(softirqs("CPU0\nNET_TX: 1\n").is_err());
        assert!(softirqs("").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "( *CPU[0-9]{1,3}){0,4}\n(NET_[RT]X:( [0-9]{1,22}){0,5}\n){0,3}|.{0,60}") {
            let _ = softirqs(&text);
        }
    }
}
