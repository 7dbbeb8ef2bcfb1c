//! Scheduling and parent of a thread, from `/proc/PID/stat`; and the same file, and
//! `/proc/PID/status`, after a change. proc_pid_stat(5).

use super::ParseError;
use crate::units::CpuMask;

// Fields, counted from 1 as in the manual. The first one after the name is number 3.
const BEHIND_NAME: usize = 3;
const PARENT: usize = 4;
const NICE: usize = 19;
const RT_PRIORITY: usize = 40;
const POLICY: usize = 41;

const ALLOWED_LIST: &str = "Cpus_allowed_list:";

/// Scheduling of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduling {
    /// `SCHED_*` of include/uapi/linux/sched.h.
    pub policy: u32,
    /// Priority under a realtime policy; 0 under any other.
    pub priority: u32,
    /// Nice value. Realtime threads have one without effect.
    pub nice: i32,
}

/// Scheduling of a thread.
pub fn scheduling(stat: &str) -> Result<Scheduling, ParseError> {
    let (_, fields) = split(stat)?;
    Ok(Scheduling {
        policy: field(&fields, POLICY)?,
        priority: field(&fields, RT_PRIORITY)?,
        nice: field(&fields, NICE)?,
    })
}

/// The process that started it.
pub fn parent(stat: &str) -> Result<u32, ParseError> {
    field(&split(stat)?.1, PARENT)
}

/// `stat` of the thread with another scheduling.
pub fn with_scheduling(stat: &str, now: &Scheduling) -> Result<String, ParseError> {
    scheduling(stat)?;
    let (name, mut fields) = split(stat)?;
    let values = [(NICE, now.nice.to_string()), (RT_PRIORITY, now.priority.to_string())];
    let values = values.into_iter().chain([(POLICY, now.policy.to_string())]).collect::<Vec<_>>();
    for (number, value) in &values {
        fields[number - BEHIND_NAME] = value;
    }
    Ok(format!("{name}) {}\n", fields.join(" ")))
}

/// `status` of the thread with these CPUs allowed.
pub fn with_allowed_cpus(status: &str, cpus: &CpuMask) -> Result<String, ParseError> {
    super::allowed_cpus(status)?;
    let line = |line: &str| match line.starts_with(ALLOWED_LIST) {
        true => format!("{ALLOWED_LIST}\t{cpus}\n"),
        false => format!("{line}\n"),
    };
    Ok(status.lines().map(line).collect())
}

/// The text before the last parenthesis, which may contain anything, and the fields after it.
fn split(stat: &str) -> Result<(&str, Vec<&str>), ParseError> {
    let (name, rest) = stat.rsplit_once(')').ok_or_else(|| ParseError::at(1, "no name in parentheses"))?;
    Ok((name, rest.split_ascii_whitespace().collect()))
}

fn field<T: std::str::FromStr>(fields: &[&str], number: usize) -> Result<T, ParseError> {
    let text = fields.get(number - BEHIND_NAME);
    let text = text.ok_or_else(|| ParseError::at(1, format!("fewer than {number} fields")))?;
    text.parse().map_err(|_| ParseError::at(1, format!("field {number} is `{text}`")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Scheduling, parent, scheduling, with_allowed_cpus, with_scheduling};
    use crate::parse::{allowed_cpus, last_cpu, process_stat};
    use crate::units::CpuId;

    /// `chrt -f 10 cat /proc/self/stat` on Linux 6.18.
    const CAPTURED: &str = "1985 (cat) R 1983 1983 32014 0 -1 4194560 170 0 0 0 0 0 0 0 -11 0 1 0 1371228 3133440 \
        382 18446744073709551615 94780774957056 94780774976937 140721943018352 0 0 0 0 0 0 0 0 0 17 1 10 1 0 0 0 \
        94780774992944 94780774994560 94781092257792 140721943022261 140721943022281 140721943022281 \
        140721943023595 0\n";

    #[test]
    fn captured_text() {
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
        fn round_trip(name in "[^\n]{0,15}", policy in 0u32..8, priority in 0u32..100, nice in -20i32..20) {
            let stat = CAPTURED.replace("(cat)", &format!("({name})"));
            let now = Scheduling { policy, priority, nice };
            let after = with_scheduling(&stat, &now).expect("whole");
            prop_assert_eq!(scheduling(&after), Ok(now));
            prop_assert_eq!(process_stat(&after), process_stat(&stat));
            let start = format!("1985 ({name}) R");
            prop_assert!(after.starts_with(&start));
        }

        #[test]
        fn never_panics(text in "([0-9]{1,22}|\\)|-| |\n|Cpus_allowed_list:){0,60}|.{0,60}") {
            let now = Scheduling { policy: 0, priority: 0, nice: 0 };
            let _ = (scheduling(&text), parent(&text), with_scheduling(&text, &now));
            if let Ok(after) = with_allowed_cpus(&text, &"1".parse().expect("a list")) {
                prop_assert_eq!(allowed_cpus(&after).expect("there").to_string(), "1");
            }
        }
    }
}
