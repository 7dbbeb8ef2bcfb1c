//! Time that threads ran and waited for a CPU.
//!
//! By the time of the program, one busy thread and four that take turns look alike. Each thread costs one
//! file of about 10 us, so their number is limited: programs that used the largest part of their lifetime
//! come first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{ProcessTimes, read};
use rxlab_base::parse;
use rxlab_base::units::Fact;
use rxlab_sys::Host;

/// Threads read, of all programs together.
const LOOKED_AT: u64 = 512;
/// Programs younger than this, in ticks, count as this old: a full first moment proves little.
const YOUNG: u64 = 100;

/// Times of one thread since its start, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Running. Includes interrupts on top of it unless the kernel accounts for them.
    pub ran_ns: u64,
    /// Runnable while another thread ran.
    pub waited_ns: u64,
}

/// Times by process and thread.
pub type ThreadsOf = BTreeMap<u32, BTreeMap<u32, ThreadTimes>>;

/// The times of the threads of these programs, `now_ns` after boot. Programs with more threads than the
/// remaining limit are left out.
pub(super) fn times(
    host: &dyn Host,
    processes: &BTreeMap<u32, ProcessTimes>,
    now_ns: u64,
) -> Fact<ThreadsOf> {
    let (mut found, mut left) = (ThreadsOf::new(), LOOKED_AT);
    for (pid, times) in busiest_first(processes, now_ns) {
        let Some(rest) = left.checked_sub(times.threads.max(1)) else { continue };
        left = rest;
        let threads = of_process(host, *pid);
        if !threads.is_empty() {
            found.insert(*pid, threads);
        }
    }
    if found.is_empty() { Fact::Unsupported } else { Fact::Known(found) }
}

/// The programs that used CPU time, `now_ns` after boot: those first that used the largest part of their lifetime.
pub(super) fn busiest_first(
    processes: &BTreeMap<u32, ProcessTimes>,
    now_ns: u64,
) -> Vec<(&u32, &ProcessTimes)> {
    let share = |times: &ProcessTimes| {
        let age = (now_ns / parse::TICK_NS).saturating_sub(times.began_ticks).max(YOUNG);
        // Parts per million: integers are ordered.
        Reverse(u128::from(times.cpu_ticks) * 1_000_000 / u128::from(age))
    };
    let mut programs: Vec<_> = processes.iter().filter(|(_, times)| times.cpu_ticks > 0).collect();
    programs.sort_by_key(|(pid, times)| (share(times), **pid));
    programs
}

/// Threads that end meanwhile, or have no reported times, are left out.
fn of_process(host: &dyn Host, pid: u32) -> BTreeMap<u32, ThreadTimes> {
    let names = host.list(&format!("proc/{pid}/task")).unwrap_or_default();
    let times = |name: &String| {
        let path = format!("proc/{pid}/task/{name}/schedstat");
        let (ran_ns, waited_ns) = *read::parsed(host, &path, parse::ran_and_waited_ns).known()?;
        Some((name.parse().ok()?, ThreadTimes { ran_ns, waited_ns }))
    };
    names.iter().filter_map(times).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{LOOKED_AT, ThreadTimes, times};
    use crate::sample::ProcessTimes;
    use rxlab_base::units::Fact;
    use rxlab_sys::RecordedHost;

    fn process(cpu_ticks: u64, began_ticks: u64, threads: u64) -> ProcessTimes {
        ProcessTimes { cpu_ticks, began_ticks, threads, ..ProcessTimes::default() }
    }

    fn with_thread(host: RecordedHost, pid: u32, tid: u32) -> RecordedHost {
        host.with(&format!("proc/{pid}/task/{tid}/schedstat"), format!("{tid}000 {tid} 5\n"))
    }

    #[test]
    fn every_thread_has_its_own_times() {
        let host = with_thread(with_thread(RecordedHost::new(), 70, 70), 70, 72);
        let found = times(&host, &BTreeMap::from([(70, process(9, 1, 2)), (71, process(0, 1, 1))]), 0);
        let found = found.known().expect("read").clone();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&70], "the other never ran");
        assert_eq!(found[&70][&72], ThreadTimes { ran_ns: 72_000, waited_ns: 72 });
        assert_eq!(times(&host, &BTreeMap::from([(71, process(9, 1, 1))]), 0), Fact::Unsupported);
    }

    /// A server that became busy today, on a machine that once compiled a kernel.
    #[test]
    fn who_took_most_of_its_time_comes_first_and_there_is_a_limit() {
        let hour = 360_000;
        let mut processes = BTreeMap::from([
            (70, process(hour, hour * 99, 1)),
            (71, process(hour * 2, 0, u64::from(u32::MAX))),
            (72, process(hour * 2, 0, LOOKED_AT - 1)),
            (73, process(5, 0, 1)),
        ]);
        let host =
            [70, 71, 72, 73].into_iter().fold(RecordedHost::new(), |host, pid| with_thread(host, pid, pid));
        let now_ns = hour * 100 * rxlab_base::parse::TICK_NS;
        let seen = |processes: &BTreeMap<u32, ProcessTimes>| {
            times(&host, processes, now_ns).map(|found| found.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(seen(&processes), Fact::Known(vec![70, 72]), "no room for 71, and then none for 73");
        processes.remove(&72);
        assert_eq!(seen(&processes), Fact::Known(vec![70, 73]));
    }
}
