//! Processes and threads: `/proc/PID/status`, `/proc/PID/stat` and `/proc/PID/task/TID/children`; and the first two
//! after a change. proc_pid_stat(5).

use std::str::FromStr;

use super::{ParseError, counter};
use crate::units::{CpuId, CpuMask};

// Fields of `stat`, counted from 1 as in the manual. The first one after the name is number 3.
const BEHIND_NAME: usize = 3;
const STATE: usize = 3;
const PARENT: usize = 4;
const FLAGS: usize = 9;
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const NICE: usize = 19;
const THREADS: usize = 20;
const START_TIME: usize = 22;
const LAST_CPU: usize = 39;
const RT_PRIORITY: usize = 40;
const POLICY: usize = 41;

const ALLOWED_LIST: &str = "Cpus_allowed_list:";

/// `stat`, split at the last parenthesis.
struct Stat<'a> {
    /// The number and the name, which may contain anything.
    head: &'a str,
    fields: Vec<&'a str>,
}

impl<'a> Stat<'a> {
    fn parse(text: &'a str) -> Result<Self, ParseError> {
        let (head, rest) =
            text.rsplit_once(')').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
        Ok(Self { head, fields: rest.split_ascii_whitespace().collect() })
    }

    fn text(&self, number: usize) -> Result<&'a str, ParseError> {
        let field = self.fields.get(number - BEHIND_NAME).copied();
        field.ok_or_else(|| ParseError::at(1, format!("fewer than {number} fields")))
    }

    fn counter(&self, number: usize) -> Result<u64, ParseError> {
        counter(1, self.text(number)?)
    }

    fn number<T: FromStr>(&self, number: usize) -> Result<T, ParseError> {
        let text = self.text(number)?;
        text.parse().map_err(|_| ParseError::at(1, format!("field {number} is `{text}`")))
    }
}

/// Parses `Cpus_allowed_list` of `/proc/PID/status`.
pub fn allowed_cpus(text: &str) -> Result<CpuMask, ParseError> {
    let lines = (1..).zip(text.lines());
    let mut lists = lines.filter_map(|(number, line)| Some((number, line.strip_prefix(ALLOWED_LIST)?)));
    let (number, list) =
        lists.next().ok_or_else(|| ParseError::at(text.lines().count(), "no line Cpus_allowed_list"))?;
    list.parse().map_err(|error: crate::units::MaskError| ParseError::at(number, error.to_string()))
}

/// The process that a thread belongs to: `Tgid` of `/proc/PID/status`, which the kernel shows for a thread's number too.
/// `None` if the file has no such line.
pub fn thread_group(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Effective capabilities, one bit each: `CapEff` of `/proc/PID/status`. `None` if the file has no such line.
pub fn capabilities(text: &str) -> Option<u64> {
    let bits = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

/// Numbers of a process in `/proc/self/status`: that of the PID namespace of the procfs, and those of the namespaces inside it
/// that the process is in (`NSpid`). Without PID namespaces in the kernel, its only one (`Pid`).
pub fn process_numbers(text: &str) -> Vec<u32> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let numbers = line("NSpid:").or_else(|| line("Pid:")).unwrap_or_default();
    numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// Nanoseconds that a time namespace adds to CLOCK_BOOTTIME: the line `boottime` of `/proc/PID/timens_offsets`, seconds and
/// nanoseconds (time_namespaces(7)).
pub fn boottime_offset_ns(text: &str) -> Result<i64, ParseError> {
    let mut lines = (1..).zip(text.lines());
    let (number, offset) = lines
        .find_map(|(number, line)| Some((number, line.strip_prefix("boottime")?)))
        .ok_or_else(|| ParseError::at(text.lines().count(), "no line boottime"))?;
    let parsed = || {
        let (seconds, nanoseconds) = offset.trim().split_once(' ')?;
        let seconds = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
        seconds.checked_add(nanoseconds.trim().parse().ok()?)
    };
    parsed().ok_or_else(|| ParseError::at(number, "invalid offset"))
}

/// The CPU that a thread last ran on.
pub fn last_cpu(text: &str) -> Result<CpuId, ParseError> {
    let cpu = Stat::parse(text)?.counter(LAST_CPU)?;
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

/// Parses `/proc/PID/stat`. The name may contain blanks and parentheses.
pub fn process_stat(text: &str) -> Result<ProcessStat, ParseError> {
    let stat = Stat::parse(text)?;
    let (_, command) =
        stat.head.split_once('(').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
    let system_ticks = stat.counter(SYSTEM_TIME)?;
    let cpu_ticks = stat.counter(USER_TIME)?.checked_add(system_ticks);
    Ok(ProcessStat {
        command: command.to_owned(),
        cpu_ticks: cpu_ticks.ok_or_else(|| ParseError::at(1, "times overflow"))?,
        system_ticks,
        of_kernel: stat.counter(FLAGS)? & PF_KTHREAD != 0,
        threads: stat.counter(THREADS)?,
        began_ticks: stat.counter(START_TIME)?,
    })
}

/// True if a thread runs or waits for a CPU: its state is `R`.
pub fn is_runnable(text: &str) -> Result<bool, ParseError> {
    let state = Stat::parse(text)?.text(STATE).unwrap_or_default();
    match state.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Ok(*letter == b'R'),
        _ => Err(ParseError::at(1, format!("invalid state `{state}`"))),
    }
}

/// True if a process has ended and only its exit code is left: its state is `Z` or `X`.
pub fn has_ended(text: &str) -> bool {
    Stat::parse(text).is_ok_and(|stat| matches!(stat.text(STATE), Ok("Z" | "X" | "x")))
}

pub fn children(text: &str) -> Result<Vec<u32>, ParseError> {
    text.split_ascii_whitespace()
        .map(|word| {
            let pid = super::counter(1, word)?;
            u32::try_from(pid).map_err(|_| ParseError::at(1, format!("invalid process ID `{word}`")))
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// One of `SCHED_*` of include/uapi/linux/sched.h.
    pub policy: u32,
    /// Priority under a realtime policy; 0 under any other.
    pub priority: u32,
    /// Nice value. Realtime threads have one without effect.
    pub nice: i32,
}

impl Scheduling {
    /// What a thread has between the two system calls that change it to `wanted`: a realtime thread gets its nice value first,
    /// others their policy.
    pub fn halfway(self, wanted: Self) -> Self {
        let is_realtime = matches!(self.policy, 1 | 2);
        if is_realtime { Self { nice: wanted.nice, ..self } } else { Self { nice: self.nice, ..wanted } }
    }
}

/// Scheduling of a thread, from its `stat`.
pub fn scheduling(stat: &str) -> Result<Scheduling, ParseError> {
    let stat = Stat::parse(stat)?;
    Ok(Scheduling {
        policy: stat.number(POLICY)?,
        priority: stat.number(RT_PRIORITY)?,
        nice: stat.number(NICE)?,
    })
}

/// Attributes of a thread that no file shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadAttributes {
    /// Threads that it starts begin with the default scheduling.
    pub resets_on_fork: bool,
    /// Time on the CPU that it asks for at once, in nanoseconds. `None` under a realtime policy, and before Linux 6.12.
    pub slice: Option<u64>,
}

/// Attributes of a thread, from flags and slice as sched_getattr(2) returns them.
pub fn thread_attributes(bytes: &[u8]) -> Result<ThreadAttributes, ParseError> {
    let number = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let (flags, slice) =
        number(0).zip(number(8)).ok_or_else(|| ParseError::at(1, "shorter than 16 bytes"))?;
    Ok(ThreadAttributes { resets_on_fork: flags & 1 != 0, slice: (slice != 0).then_some(slice) })
}

/// The process that started it.
pub fn parent(stat: &str) -> Result<u32, ParseError> {
    Stat::parse(stat)?.number(PARENT)
}

/// `stat` of the thread with another scheduling.
pub fn with_scheduling(stat: &str, now: &Scheduling) -> Result<String, ParseError> {
    scheduling(stat)?;
    let mut stat = Stat::parse(stat)?;
    let [nice, priority, policy] = [now.nice.to_string(), now.priority.to_string(), now.policy.to_string()];
    for (number, value) in [(NICE, &nice), (RT_PRIORITY, &priority), (POLICY, &policy)] {
        stat.fields[number - BEHIND_NAME] = value;
    }
    Ok(format!("{}) {}\n", stat.head, stat.fields.join(" ")))
}

/// `status` of the thread with these CPUs allowed.
pub fn with_allowed_cpus(status: &str, cpus: &CpuMask) -> Result<String, ParseError> {
    allowed_cpus(status)?;
    let line = |line: &str| {
        if line.starts_with(ALLOWED_LIST) { format!("{ALLOWED_LIST}\t{cpus}\n") } else { format!("{line}\n") }
    };
    Ok(status.lines().map(line).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{
        Scheduling, ThreadAttributes, allowed_cpus, boottime_offset_ns, children, is_runnable, last_cpu,
        parent, process_numbers, process_stat, scheduling, thread_attributes, with_allowed_cpus,
        with_scheduling,
    };
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
        assert_eq!(process_numbers("Name:\tx\nPid:\t812\nNSpid:\t812\t4\n"), [812, 4]);
        assert_eq!(process_numbers("Name:\tx\nPid:\t812\n"), [812]);
        let offsets = "monotonic           0         0\nboottime       -70000 500000000\n";
        assert_eq!(boottime_offset_ns(offsets), Ok(-69_999_500_000_000));
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
    fn attributes_of_a_thread() {
        let read = |flags: u64, slice: u64| thread_attributes(&[flags, slice].map(u64::to_ne_bytes).concat());
        let attributes = |resets_on_fork, slice| Ok(ThreadAttributes { resets_on_fork, slice });
        assert_eq!(read(1, 1_400_000), attributes(true, Some(1_400_000)));
        assert_eq!(read(2, 0), attributes(false, None), "a realtime thread");
        assert!(thread_attributes(&[0; 15]).is_err());
    }

    #[test]
    fn bad_text_is_named() {
        assert_eq!(allowed_cpus("Name:\tx\nCpus_allowed_list:\tx\n").expect_err("bad").line, 2);
        assert!(allowed_cpus("Name:\tx\n").is_err());
        assert!(last_cpu("812 (a) S 1 2 3").is_err());
        assert!(process_numbers("Name:\tx\n").is_empty());
        for offsets in
            ["monotonic 0 0\n", "boottime 1\n", "boottime 1 2 3\n", "boottime 9999999999999999 0\n"]
        {
            assert!(boottime_offset_ns(offsets).is_err(), "{offsets}");
        }
        assert!(is_runnable("812 (a)").is_err() && is_runnable("812 (a) Run 1").is_err());
        assert!(children("3 -4").is_err() && children("99999999999").is_err());
        assert!(last_cpu(&STAT.replace(" 17 5 ", " 17 -1 ")).is_err());
        assert!(last_cpu(&STAT.replace(" 17 5 ", " 17 99999 ")).is_err(), "no kernel has it");
    }

    /// `chrt -f 10 cat /proc/self/stat` on Linux 6.18.
    const CAPTURED: &str = "1985 (cat) R 1983 1983 32014 0 -1 4194560 170 0 0 0 0 0 0 0 -11 0 1 0 1371228 3133440 \
        382 18446744073709551615 94780774957056 94780774976937 140721943018352 0 0 0 0 0 0 0 0 0 17 1 10 1 0 0 0 \
        94780774992944 94780774994560 94781092257792 140721943022261 140721943022281 140721943022281 \
        140721943023595 0\n";

    #[test]
    fn scheduling_and_parent() {
        assert_eq!(scheduling(CAPTURED), Ok(Scheduling { policy: 1, priority: 10, nice: 0 }));
        assert_eq!(parent(CAPTURED), Ok(1983));
        assert!(scheduling("15 (x) S 2").is_err() && parent("15").is_err());
        assert!(scheduling(&CAPTURED.replace(" 17 1 10 1 ", " 17 1 -1 1 ")).is_err());
    }

    #[test]
    fn nothing_else_changes() {
        let other = Scheduling { policy: 0, priority: 0, nice: -5 };
        let after = with_scheduling(CAPTURED, &other).expect("whole");
        assert_eq!(scheduling(&after), Ok(other));
        assert_eq!((process_stat(&after), last_cpu(&after)), (process_stat(CAPTURED), Ok(CpuId(1))));
        let back = with_scheduling(&after, &scheduling(CAPTURED).expect("whole")).expect("whole");
        assert_eq!(back, CAPTURED);
        let status = "Name:\tx\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t0\n";
        let after = with_allowed_cpus(status, &"2".parse().expect("a list")).expect("whole");
        assert_eq!(after, status.replace("0-3", "2"));
        assert!(with_allowed_cpus("Name:\tx\n", &"2".parse().expect("a list")).is_err());
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

        #[test]
        fn scheduling_round_trip(name in "[^\n]{0,15}", policy in 0u32..8, priority in 0u32..100, nice in -20i32..20) {
            let stat = CAPTURED.replace("(cat)", &format!("({name})"));
            let now = Scheduling { policy, priority, nice };
            let after = with_scheduling(&stat, &now).expect("whole");
            prop_assert_eq!(scheduling(&after), Ok(now));
            prop_assert_eq!(process_stat(&after), process_stat(&stat));
            let start = format!("1985 ({name}) R");
            prop_assert!(after.starts_with(&start));
        }

        #[test]
        fn what_is_set_is_read(text in "([0-9]{1,22}|\\)|-| |\n|Cpus_allowed_list:){0,60}|.{0,60}") {
            let now = Scheduling { policy: 0, priority: 0, nice: 0 };
            let after = with_scheduling(&text, &now);
            prop_assert_eq!(after.is_ok(), scheduling(&text).is_ok());
            if let Ok(after) = after {
                prop_assert_eq!((scheduling(&after), parent(&after)), (Ok(now), parent(&text)));
            }
            if let Ok(after) = with_allowed_cpus(&text, &"1".parse().expect("a list")) {
                prop_assert_eq!(allowed_cpus(&after).expect("there").to_string(), "1");
            }
        }
    }
}
