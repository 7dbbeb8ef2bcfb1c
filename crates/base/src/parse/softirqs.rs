//! `/proc/softirqs`: runs of each softirq vector on each CPU since boot.

use std::collections::BTreeMap;

use super::{ParseError, counter, header};
use crate::units::CpuId;

/// The softirq vectors by number, as the kernel prints them (`softirq_to_name` in kernel/softirq.c).
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// Index of NET_TX in [`SOFTIRQS`].
pub const NET_TX: u32 = 2;
/// Index of NET_RX in [`SOFTIRQS`].
pub const NET_RX: u32 = 3;

/// Runs of each of [`SOFTIRQS`], in their order; 0 for one that this kernel does not have.
pub type SoftirqRuns = [u64; SOFTIRQS.len()];

/// Parses `/proc/softirqs`: runs by CPU. Vectors with other names are skipped.
pub fn softirqs(text: &str) -> Result<BTreeMap<CpuId, SoftirqRuns>, ParseError> {
    let cpus = header(text.lines().next())?;
    let mut runs: Vec<SoftirqRuns> = vec![SoftirqRuns::default(); cpus.len()];
    let mut seen = [false; SOFTIRQS.len()];
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let mut words = line.split_whitespace();
        let name = words.next().and_then(|word| word.strip_suffix(':'));
        let Some(vector) = SOFTIRQS.iter().position(|known| Some(*known) == name) else { continue };
        let counts: Vec<u64> = words.map(|word| counter(number, word)).collect::<Result<_, _>>()?;
        if counts.len() != cpus.len() {
            let what = format!("{}: has {} columns for {} CPUs", SOFTIRQS[vector], counts.len(), cpus.len());
            return Err(ParseError::at(number, what));
        }
        runs.iter_mut().zip(counts).for_each(|(runs, count)| runs[vector] = count);
        seen[vector] = true;
    }
    if let Some(vector) = [NET_RX, NET_TX].into_iter().find(|vector| !seen[*vector as usize]) {
        let what = format!("no line `{}:`", SOFTIRQS[vector as usize]);
        return Err(ParseError::at(text.lines().count(), what));
    }
    Ok(cpus.into_iter().zip(runs).collect())
}

#[cfg(test)]
mod tests {
    use super::softirqs;
    use crate::units::CpuId;

    #[test]
    fn columns_follow_the_header() {
        let text = "                    CPU0       CPU2\n          HI:          1          0\n      NET_TX:         12          3\n      NET_RX:        770       2011\n       BLOCK:         31          7\n         NEW:         99         99\n";
        let counts = softirqs(text).expect("valid");
        assert_eq!(counts[&CpuId(0)], [1, 0, 12, 770, 31, 0, 0, 0, 0, 0]);
        assert_eq!(
            counts[&CpuId(2)],
            [0, 0, 3, 2011, 7, 0, 0, 0, 0, 0],
            "no row of another name has a place"
        );
        assert_eq!(counts.len(), 2);
    }

    #[test]
    fn a_short_row_is_an_error() {
        let error = softirqs("CPU0 CPU1\nNET_TX: 1 2\nNET_RX: 1\n").expect_err("short row");
        assert_eq!(error.to_string(), "line 3: NET_RX: has 1 columns for 2 CPUs");
        assert!(softirqs("CPU0\nNET_TX: 1\n").is_err());
        assert!(softirqs("").is_err());
    }
}
