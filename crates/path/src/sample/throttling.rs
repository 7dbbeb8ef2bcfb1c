//! Throttling of the programs' control groups by `cpu.max`. Version 2 only.
//!
//! Several programs share a group, and each group lies within others that may have a limit too: each is read once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cpuset::{directories, with_parents};
use super::{Counters, ProcessTimes, read, threads};
use rxlab_base::parse::{self, CpuLimit, Throttling};
use rxlab_base::units::Fact;
use rxlab_sys::Host;

/// Programs whose groups are read.
const LOOKED_AT: usize = 64;

/// Groups of programs, and what throttled them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Throttlings {
    /// The group of each program: its path below the root group.
    of_program: BTreeMap<u32, String>,
    /// Groups with periods, by path.
    groups: BTreeMap<String, (Throttling, Option<CpuLimit>)>,
}

/// A control group that used up its quota of CPU time and had to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThrottledRates {
    /// Its path below the root group.
    pub group: String,
    /// CPUs' worth of time that it may use, and the length of a period in milliseconds; `None` if there is no limit any
    /// more.
    pub limit: Option<(f64, f64)>,
    /// Periods in which it waited.
    pub throttled: u64,
    /// Periods in which it had something to run.
    pub periods: u64,
    /// Time that it waited, in seconds per second, summed over CPUs.
    pub waited: f64,
}

/// Reads the groups of the programs that used the largest part of their lifetime, `now_ns` after boot.
pub(super) fn take(
    host: &dyn Host,
    processes: &BTreeMap<u32, ProcessTimes>,
    now_ns: u64,
) -> Fact<Throttlings> {
    let directories = directories(host);
    let mut found = Throttlings::default();
    let mut asked: BTreeMap<String, Fact<(Throttling, Option<CpuLimit>)>> = BTreeMap::new();
    for (pid, _) in threads::busiest_first(processes, now_ns).into_iter().take(LOOKED_AT) {
        let own = read::parsed(host, &format!("proc/{pid}/cgroup"), parse::control_groups);
        let Some(path) = own.known().and_then(|groups| groups.unified.clone()) else { continue };
        for group in limited(&path) {
            asked.entry(group.to_owned()).or_insert_with(|| one(host, &directories, group));
        }
        found.of_program.insert(*pid, path);
    }
    found.groups = asked.into_iter().filter_map(|(path, fact)| Some((path, *fact.known()?))).collect();
    if found.of_program.is_empty() { Fact::Unsupported } else { Fact::Known(found) }
}

/// The group and those above it, without the root, which has no limit.
fn limited(path: &str) -> impl Iterator<Item = &str> {
    with_parents(path).filter(|path| !path.is_empty())
}

fn one(host: &dyn Host, directories: &[String], group: &str) -> Fact<(Throttling, Option<CpuLimit>)> {
    let mut found = directories.iter().map(|at| {
        let counted = read::parsed(host, &format!("{at}{group}/cpu.stat"), parse::throttling);
        let limit = read::parsed(host, &format!("{at}{group}/cpu.max"), parse::cpu_limit);
        counted.and_then(|counted| match counted {
            Some(counted) => Fact::Known((counted, limit.known().copied().flatten())),
            None => Fact::Unsupported,
        })
    });
    found.find(|fact| fact.known().is_some()).unwrap_or(Fact::Unsupported)
}

/// The group of a program, or one above it, that was throttled most often between two samples, `seconds` apart.
pub(super) fn between(before: &Counters, after: &Counters, seconds: f64, pid: u32) -> Option<ThrottledRates> {
    let (then, now) = (before.throttling.known()?, after.throttling.known()?);
    let path = now.of_program.get(&pid).filter(|path| then.of_program.get(&pid) == Some(*path))?;
    let rises = limited(path).filter_map(|group| {
        let ((was, _), (is, limit)) = (then.groups.get(group)?, now.groups.get(group)?);
        Some(ThrottledRates {
            group: group.to_owned(),
            limit: limit
                .map(|limit| (limit.quota_us as f64 / limit.period_us as f64, limit.period_us as f64 / 1e3)),
            throttled: is.throttled.checked_sub(was.throttled).filter(|times| *times > 0)?,
            periods: is.periods.checked_sub(was.periods)?,
            waited: is.waited_us.checked_sub(was.waited_us)? as f64 / 1e6 / seconds,
        })
    });
    rises.max_by_key(|group| group.throttled)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Throttlings, limited, take};
    use crate::sample::ProcessTimes;
    use rxlab_base::parse::{CpuLimit, Throttling};
    use rxlab_base::units::Fact;
    use rxlab_sys::RecordedHost;

    fn programs(pids: &[u32]) -> BTreeMap<u32, ProcessTimes> {
        let times = ProcessTimes { cpu_ticks: 100, began_ticks: 1, threads: 1, ..ProcessTimes::default() };
        pids.iter().map(|pid| (*pid, times.clone())).collect()
    }

    fn host(throttled: u64) -> RecordedHost {
        RecordedHost::new()
            .with("proc/self/mountinfo", "31 23 0:27 / /cg rw - cgroup2 cgroup2 rw\n")
            .with("proc/70/cgroup", "0::/web/inner\n")
            .with("proc/71/cgroup", "0::/\n")
            .with("cg/web/cpu.max", "50000 100000\n")
            .with("cg/web/cpu.stat", format!("nr_periods 50\nnr_throttled {throttled}\nthrottled_usec 900\n"))
            .with("cg/web/inner/cpu.max", "max 100000\n")
            .with("cg/web/inner/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
    }

    #[test]
    fn the_limit_of_a_group_above_counts() {
        let Fact::Known(found) = take(&host(7), &programs(&[70, 71, 72]), 1_000_000_000) else {
            panic!("seen")
        };
        assert_eq!(found.of_program.len(), 2, "one has ended");
        let counted = Throttling { periods: 50, throttled: 7, waited_us: 900 };
        let limit = CpuLimit { quota_us: 50_000, period_us: 100_000 };
        assert_eq!(found.groups["/web"], (counted, Some(limit)));
        assert_eq!(found.groups["/web/inner"], (Throttling::default(), None));
        let none = take(&RecordedHost::new(), &programs(&[70]), 1_000_000_000);
        assert_eq!(none, Fact::<Throttlings>::Unsupported);
    }

    #[test]
    fn groups_above() {
        assert_eq!(limited("/a/b/c").collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a"]);
        assert_eq!(limited("/").count(), 0);
    }
}
