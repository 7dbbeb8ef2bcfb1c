//! `/proc/stat`: CPU time by state, in ticks of USER_HZ (1/100 s). proc_stat(5).

use std::collections::BTreeMap;

use super::{ParseError, counter, cpu_number};
use crate::units::CpuId;

/// USER_HZ is 100 on every architecture that rxlab runs on.
pub const TICKS_PER_SECOND: f64 = 100.0;
/// A tick of USER_HZ, in nanoseconds.
pub const TICK_NS: u64 = 10_000_000;

/// Time of one CPU since boot, in USER_HZ ticks. Fields missing in an old kernel are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTimes {
    /// Normal processes in user mode (includes guest time).
    pub user: u64,
    /// Niced processes in user mode.
    pub nice: u64,
    /// Processes in kernel mode, without interrupts and softirqs.
    pub system: u64,
    pub idle: u64,
    /// Idle with I/O outstanding.
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

/// Parses `/proc/stat`: times by CPU; offline CPUs are missing. The sum line `cpu` and everything but CPU lines is
/// skipped.
pub fn stat(text: &str) -> Result<BTreeMap<CpuId, CpuTimes>, ParseError> {
    let mut cpus = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_whitespace();
        let Some(name) = words.next().filter(|name| name.starts_with("cpu") && *name != "cpu") else {
            continue;
        };
        let cpu = cpu_number(number, "cpu", name)?;
        let fields: Vec<u64> = words.map(|word| counter(number, word)).collect::<Result<_, _>>()?;
        if fields.len() < 4 {
            return Err(ParseError::at(
                number,
                format!("{name} has {} fields, expected 4 or more", fields.len()),
            ));
        }
        let field = |index: usize| fields.get(index).copied().unwrap_or(0);
        let times = CpuTimes {
            user: field(0),
            nice: field(1),
            system: field(2),
            idle: field(3),
            iowait: field(4),
            irq: field(5),
            softirq: field(6),
            steal: field(7),
        };
        cpus.insert(cpu, times);
    }
    if cpus.is_empty() {
        return Err(ParseError::at(1, "no line `cpuN`"));
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::stat;
    use crate::units::CpuId;

    const CAPTURED: &str = "cpu  1303 0 1098 59243 77 0 122 5 0 0\n\
        cpu0 661 0 574 29541 41 0 100 3 0 0\n\
        cpu1 641 0 523 29702 36 0 22 2 0 0\n\
        intr 194283 0 0\nctxt 1\nbtime 1\n";

    #[test]
    fn captured_text() {
        let stat = stat(CAPTURED).expect("valid");
        assert_eq!(stat.len(), 2);
        let cpu0 = stat[&CpuId(0)];
        assert_eq!((cpu0.user, cpu0.idle, cpu0.softirq, cpu0.steal), (661, 29541, 100, 3));
    }

    #[test]
    fn offline_cpus_are_missing_not_renumbered() {
        let stat = stat("cpu3 1 2 3 4\n").expect("valid");
        assert_eq!(stat.keys().copied().collect::<Vec<_>>(), [CpuId(3)]);
    }

    #[test]
    fn bad_lines_are_named() {
        assert_eq!(stat("cpu0 1 2\n").expect_err("short").line, 1);
        assert_eq!(
            stat("cpu0 1 2 3 4\ncpu1 1 x 3 4\n").expect_err("bad").to_string(),
            "line 2: `x` is not a counter"
        );
        assert!(stat("").is_err());
        assert!(stat("cpuX 1 2 3 4\n").is_err());
    }
}
