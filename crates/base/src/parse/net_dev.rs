//! `/proc/net/dev`: one row of counters per interface.
//!
//! Columns by `dev_seq_printf_stats()` in net/core/net-procfs.c, after the name and a colon: 1 received bytes, 2 packets,
//! 3 errors, 4 drops, 5 to 8 other receive counters; 9 sent bytes, 10 packets, 11 errors, 12 drops, 13 to 16
//! other transmit counters.

use std::collections::BTreeMap;

use super::{ParseError, counter};
use crate::units::NicName;

/// Counters of one interface. Since kernel 2.6.36 they are 64 bits wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetDevRow {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    /// Sum of `rx_dropped` and `rx_missed_errors`: the file does not separate them.
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_dropped: u64,
}

const COLUMNS: usize = 16;

/// Parses `/proc/net/dev`: one row per interface of the namespace.
pub fn net_dev(text: &str) -> Result<BTreeMap<NicName, NetDevRow>, ParseError> {
    // Two lines of headers. A name that was not UTF-8 is that of no interface here.
    let lines = (1..).zip(text.lines()).skip(2);
    lines
        .filter(|(_, line)| !line.contains(char::REPLACEMENT_CHARACTER))
        .map(|(number, line)| row(number, line))
        .collect()
}

fn row(number: usize, line: &str) -> Result<(NicName, NetDevRow), ParseError> {
    let (name, rest) =
        line.split_once(':').ok_or_else(|| ParseError::at(number, "expected a name and a colon"))?;
    let name = name.trim();
    let name: NicName =
        name.parse().map_err(|_| ParseError::at(number, format!("`{name}` is not an interface name")))?;
    let mut counts = [0; COLUMNS];
    let mut words = rest.split_ascii_whitespace();
    for (at, count) in counts.iter_mut().enumerate() {
        let word = words
            .next()
            .ok_or_else(|| ParseError::at(number, format!("{at} columns, expected {COLUMNS}")))?;
        *count = counter(number, word)?;
    }
    let [rx_bytes, rx_packets, _, rx_dropped, _, _, _, _, tx_bytes, tx_packets, _, tx_dropped, ..] = counts;
    Ok((name, NetDevRow { rx_bytes, rx_packets, rx_dropped, tx_bytes, tx_packets, tx_dropped }))
}

#[cfg(test)]
mod tests {
    use super::{NetDevRow, net_dev};

    /// Captured on Linux 6.18; `eth0` with other figures.
    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 26364160222 175722922    0    0    0     0          0         0 26364160222 175722922    0    0    0     0       0          0
  eth0:       1       2    3    4    5     6          7         8        9      10   11   12   13    14      15         16
";

    #[test]
    fn one_row_per_interface() {
        // Longer than any name.
        let replaced = TEXT.lines().last().expect("eth0").replace("eth0", &"\u{fffd}".repeat(6));
        let rows = net_dev(&format!("{TEXT}{replaced}\n")).expect("valid");
        assert_eq!(rows.len(), 2);
        let row = NetDevRow {
            rx_bytes: 1,
            rx_packets: 2,
            rx_dropped: 4,
            tx_bytes: 9,
            tx_packets: 10,
            tx_dropped: 12,
        };
        assert_eq!(rows[&"eth0".parse().expect("a name")], row);
        assert_eq!(rows[&"lo".parse().expect("a name")].tx_packets, 175_722_922);
    }

    #[test]
    fn bad_rows_are_named() {
        let with = |line: &str| net_dev(&format!("Inter-|\n face |\n{line}\n")).expect_err(line).to_string();
        assert_eq!(with("eth0 1 2"), "line 3: expected a name and a colon");
        assert_eq!(with("eth0: 1 2"), "line 3: 2 columns, expected 16");
        assert_eq!(with("eth0: -1"), "line 3: `-1` is not a counter");
        assert_eq!(with("a b: 1"), "line 3: `a b` is not an interface name");
        assert_eq!(net_dev(""), Ok(Default::default()));
    }
}
