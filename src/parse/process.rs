//! CPUs, times and children of a process: `/proc/PID/status`, `/proc/PID/stat` and
//! `/proc/PID/task/TID/children`.

use super::ParseError;
use crate::units::{CpuId, CpuMask};

/// `Cpus_allowed_list` of `/proc/PID/status`.
pub fn allowed_cpus(text: &str) -> Result<CpuMask, ParseError> {
    let lines = (1..).zip(text.lines());
    let mut lists =
        lines.filter_map(|(number, line)| Some((number, line.strip_prefix("Cpus_allowed_list:")?)));
    let (number, list) =
        lists.next().ok_or_else(|| ParseError::at(text.lines().count(), "no line Cpus_allowed_list"))?;
    list.parse().map_err(|error: crate::units::MaskError| ParseError::at(number, error.to_string()))
}

/// The CPU that a thread last ran on: field 39 of `/proc/PID/stat`.
pub fn last_cpu(text: &str) -> Result<CpuId, ParseError> {
    // The name may contain spaces and parentheses; nothing after it does.
    let (_, rest) = text.rsplit_once(')').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
    // The first field after the name is number 3.
    let field = rest.split_ascii_whitespace().nth(39 - 3);
    let field = field.ok_or_else(|| ParseError::at(1, "fewer than 39 fields"))?;
    let cpu = super::counter(1, field)?;
    CpuId::try_from(cpu).map_err(|error| ParseError::at(1, error.to_string()))
}

/// CPU time and other fields of a process in `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its name, at most 15 bytes (of kernel threads 63).
    pub command: String,
    /// Time in user and kernel mode of all its threads, including ended ones, in ticks of USER_HZ
    /// (1/100 s): fields 14 and 15.
    pub cpu_ticks: u64,
    /// The part of it in kernel mode: field 15.
    pub system_ticks: u64,
    /// True for a kernel thread: `PF_KTHREAD` of include/linux/sched.h in field 9.
    pub of_kernel: bool,
    /// Current number of threads: field 20.
    pub threads: u64,
    /// Start time in ticks since boot: field 22. Distinguishes two processes with the same number.
    pub began_ticks: u64,
}

const PF_KTHREAD: u64 = 0x0020_0000;

/// Parses `/proc/PID/stat`.
pub fn process_stat(text: &str) -> Result<ProcessStat, ParseError> {
    let (head, rest) = text.rsplit_once(')').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
    let (_, command) = head.split_once('(').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first field after the name is number 3.
    let field = |number: usize| {
        let field = fields.get(number - 3);
        let field = field.ok_or_else(|| ParseError::at(1, format!("fewer than {number} fields")))?;
        super::counter(1, field)
    };
    let system_ticks = field(15)?;
    let cpu_ticks =
        field(14)?.checked_add(system_ticks).ok_or_else(|| ParseError::at(1, "times overflow"))?;
    Ok(ProcessStat {
        command: command.to_owned(),
        cpu_ticks,
        system_ticks,
        of_kernel: field(9)? & PF_KTHREAD != 0,
        threads: field(20)?,
        began_ticks: field(22)?,
    })
}

/// True if a thread runs or waits for a CPU: field 3 of its `stat` is `R`.
pub fn is_runnable(text: &str) -> Result<bool, ParseError> {
    let (_, rest) = text.rsplit_once(')').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
    let state = rest.split_ascii_whitespace().next().unwrap_or_default();
    match state.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Ok(*letter == b'R'),
        _ => Err(ParseError::at(1, format!("invalid state `{state}`"))),
    }
}

/// True if a process has ended and only its exit code is left: field 3 of its `stat` is `Z` or `X`.
pub fn has_ended(text: &str) -> bool {
    let state = text.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().next());
    matches!(state, Some("Z" | "X" | "x"))
}

/// The process ids in `children`.
pub fn children(text: &str) -> Result<Vec<u32>, ParseError> {
    text.split_ascii_whitespace()
        .map(|word| {
            let pid = super::counter(1, word)?;
            u32::try_from(pid).map_err(|_| ParseError::at(1, format!("invalid process ID `{word}`")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{allowed_cpus, children, is_runnable, last_cpu, process_stat};
    use crate::units::{CpuId, CpuMask};

    /// A thread called `a) S 1 (b`.
    const STAT: &str = "812 (a) S 1 (b) S 1 812 812 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 1 2 3 \
        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 5 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn captured_text() {
        assert_eq!(last_cpu(STAT), Ok(CpuId(5)));
        let status = "Name:\tnginx\nCpus_allowed:\t0d\nCpus_allowed_list:\t0,2-3\nMems_allowed_list:\t0\n";
        assert_eq!(allowed_cpus(status).map(|cpus| cpus.to_string()), Ok("0,2-3".to_owned()));
        assert_eq!(children("3 4 17 "), Ok(vec![3, 4, 17]));
        let stat = process_stat(&STAT.replace(" 0 0 0 0 20 ", " 7 8 0 0 20 ")).expect("valid");
        assert_eq!((stat.command.as_str(), stat.cpu_ticks, stat.began_ticks), ("a) S 1 (b", 15, 1));
        assert_eq!((stat.threads, stat.of_kernel), (1, false));
        // From ksoftirqd/0 on Linux 6.18.
        let thread = process_stat(&STAT.replace(" 4194560 ", " 69238848 ")).expect("valid");
        assert!(thread.of_kernel);
        assert_eq!(is_runnable(STAT), Ok(false));
        assert_eq!(is_runnable(&STAT.replace("b) S", "b) R")), Ok(true));
    }

    #[test]
    fn bad_text_is_named() {
        assert_eq!(allowed_cpus("Name:\tx\nCpus_allowed_list:\tx\n").expect_err("bad").line, 2);
        assert!(allowed_cpus("Name:\tx\n").is_err());
        assert!(last_cpu("812 (a) S 1 2 3").is_err());
        assert!(is_runnable("812 (a)").is_err() && is_runnable("812 (a) Run 1").is_err());
        assert!(children("3 -4").is_err() && children("99999999999").is_err());
        assert!(last_cpu(&STAT.replace(" 17 5 ", " 17 -1 ")).is_err());
        assert!(last_cpu(&STAT.replace(" 17 5 ", " 17 99999 ")).is_err(), "no kernel has it");
    }

    proptest! {
        #[test]
        fn any_name_and_any_cpu(name in "[^\n]{0,15}", cpu in 0u32..4096) {
            let text = STAT.replace("a) S 1 (b", &name).replace(" 17 5 ", &format!(" 17 {cpu} "));
            prop_assert_eq!(last_cpu(&text), Ok(CpuId(cpu)));
            prop_assert_eq!(process_stat(&text).map(|stat| stat.command), Ok(name.clone()));
            let status = format!("Name:\t{name}\nCpus_allowed_list:\t{cpu}\n");
            let only: CpuMask = [CpuId(cpu)].into_iter().collect();
            prop_assert_eq!(allowed_cpus(&status), Ok(only));
        }
    }
}
