//! `/proc/net/softnet_stat`: one row of hexadecimal counters per online CPU.
//!
//! Columns by `softnet_seq_show()` in net/core/net-procfs.c: 1 processed, 2 dropped, 3 time_squeeze,
//! 4 to 8 always 0, 9 formerly cpu_collision, 10 received_rps, 11 flow_limit, 12 backlog length,
//! 13 CPU, 14 and 15 lengths of the two backlog queues. Kernels before 5.14 have 11 columns (9 or 10
//! long ago) and no CPU column; offline CPUs have no row, so a row's position is not its CPU.

use super::ParseError;
use crate::units::CpuId;

/// One row. The counters are `unsigned int` in the kernel: they wrap at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoftnetRow {
    /// Column 13; `None` on kernels without it.
    pub cpu: Option<CpuId>,
    /// Packets that went up the stack on this CPU.
    pub processed: u32,
    /// Packets dropped because the backlog was full.
    pub dropped: u32,
    /// Number of times that `net_rx_action` stopped on its budget with work left.
    pub time_squeeze: u32,
    /// Inter-processor interrupts received for RPS; not packets. 0 if the column is missing.
    pub received_rps: u32,
    /// Packets dropped by flow limit: counted on the CPU that handed them on, and in `dropped` of the target CPU. 0 if
    /// the column is missing.
    pub flow_limit: u32,
}

/// Parses `/proc/net/softnet_stat`, rows in file order.
pub fn softnet(text: &str) -> Result<Vec<SoftnetRow>, ParseError> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let columns: Vec<u32> =
            line.split_whitespace().map(|word| hexadecimal(number, word)).collect::<Result<_, _>>()?;
        if columns.len() < 9 {
            let what = format!("{} columns, expected 9 or more", columns.len());
            return Err(ParseError::at(number, what));
        }
        let column = |n: usize| columns.get(n - 1).copied();
        rows.push(SoftnetRow {
            cpu: column(13).map(CpuId),
            processed: columns[0],
            dropped: columns[1],
            time_squeeze: columns[2],
            received_rps: column(10).unwrap_or(0),
            flow_limit: column(11).unwrap_or(0),
        });
    }
    if rows.is_empty() {
        return Err(ParseError::at(1, "no row"));
    }
    Ok(rows)
}

fn hexadecimal(line: usize, word: &str) -> Result<u32, ParseError> {
    let valid = (1..=8).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_hexdigit());
    let value = u32::from_str_radix(word, 16).ok().filter(|_| valid);
    value.ok_or_else(|| ParseError::at(line, format!("`{word}` is not a 32-bit hexadecimal counter")))
}

#[cfg(test)]
mod tests {
    use super::softnet;
    use crate::units::CpuId;

    /// CPU 1 is offline: a well-known tool would number the second row 1 and read the RPS column
    /// from the wrong place.
    #[test]
    fn the_cpu_is_column_13_not_the_row() {
        let text = "00000344 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 0000000a 00000000 00000000 00000000 00000000 00000000\n\
                    0000000f 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002 00000000 00000000\n";
        let rows = softnet(text).expect("valid");
        assert_eq!(rows[0].cpu, Some(CpuId(0)));
        assert_eq!((rows[0].processed, rows[0].time_squeeze, rows[0].received_rps), (0x344, 1, 10));
        assert_eq!((rows[1].cpu, rows[1].dropped), (Some(CpuId(2)), 2));
    }

    #[test]
    fn eleven_columns_say_no_cpu() {
        let rows = softnet("0000a 0 0 0 0 0 0 0 0 00000003 0\n").expect("valid");
        assert_eq!((rows[0].cpu, rows[0].received_rps), (None, 3));
    }

    #[test]
    fn bad_rows_are_named() {
        assert_eq!(
            softnet("1 2 3\n").expect_err("short").to_string(),
            "line 1: 3 columns, expected 9 or more"
        );
        assert!(softnet("1 2 3 4 5 6 7 8 g\n").is_err());
        assert!(softnet("1 2 3 4 5 6 7 8 123456789\n").is_err());
        assert!(softnet("").is_err());
    }
}
