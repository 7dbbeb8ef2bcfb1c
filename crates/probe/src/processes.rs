//! CPU time of processes as the kernel accounts it, at one moment.

use std::collections::BTreeMap;

use super::interference::ThreadTime;
use super::raw::ProcessId;
use rxlab_base::parse::{self, ProcessStat, TICK_NS};
use rxlab_base::units::Fact;
use rxlab_path::sample::is_napi_thread;
use rxlab_sys::Host;

/// Visible processes, by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processes {
    /// CPU time by process ID.
    pub times: BTreeMap<u32, ProcessStat>,
    /// Time on a CPU of receiving threads, in nanoseconds.
    receivers: BTreeMap<u32, u64>,
}

impl Processes {
    /// Reads all processes. Leaves out those that end meanwhile or cannot be read.
    pub fn take(host: &dyn Host) -> Self {
        let mut processes = Self::default();
        let names = host.list("proc").unwrap_or_default();
        for pid in names.iter().filter_map(|name| name.parse::<u32>().ok()) {
            // The name may contain any bytes.
            let Ok(bytes) = host.read(&format!("proc/{pid}/stat")) else { continue };
            let Ok(stat) = parse::process_stat(&String::from_utf8_lossy(&bytes)) else { continue };
            if stat.command.starts_with("ksoftirqd/") || is_napi_thread(&stat.command) {
                let text = host.read_text(&format!("proc/{pid}/schedstat")).ok();
                if let Some(ns) = text.and_then(|text| parse::on_cpu_ns(&text).ok()) {
                    processes.receivers.insert(pid, ns);
                }
            }
            processes.times.insert(pid, stat);
        }
        processes
    }

    /// True if this process still runs: its number may have been reused.
    pub(super) fn has(&self, process: ProcessId) -> bool {
        self.times.get(&process.pid).is_some_and(|times| times.began_ticks == process.began_ns / TICK_NS)
    }

    /// CPU time of a process since `earlier`; all of it when the process is younger.
    pub(super) fn spent(&self, pid: u32, earlier: &Self) -> Fact<u64> {
        let Some(now) = self.times.get(&pid) else { return Fact::Unsupported };
        let before = earlier.times.get(&pid).filter(|before| before.began_ticks == now.began_ticks);
        let ticks = now.cpu_ticks.saturating_sub(before.map_or(0, |before| before.cpu_ticks));
        Fact::Known(ticks.saturating_mul(TICK_NS))
    }

    /// Run time of receiving threads since `earlier`.
    pub(super) fn threads(&self, earlier: &Self) -> Vec<ThreadTime> {
        let one = |(pid, ns): (&u32, &u64)| ThreadTime {
            name: self.times.get(pid).map_or_else(String::new, |times| times.command.clone()),
            pid: *pid,
            ns: ns.saturating_sub(earlier.receivers.get(pid).copied().unwrap_or_default()),
        };
        self.receivers.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Processes;
    use rxlab_base::units::Fact;
    use rxlab_sys::RecordedHost;

    fn stat(pid: u32, name: &str, ticks: u64, began: u64) -> String {
        format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {ticks} 5 0 0 20 0 1 0 {began} 0 0 0\n")
    }

    #[test]
    fn a_number_used_again_is_another_process() {
        let before = Processes::take(&RecordedHost::new().with("proc/7/stat", stat(7, "old", 90, 1)));
        let after = Processes::take(&RecordedHost::new().with("proc/7/stat", stat(7, "new", 10, 2)));
        assert_eq!(after.spent(7, &before), Fact::Known(150_000_000));
        assert_eq!(before.spent(7, &before), Fact::Known(0));
        assert_eq!(after.spent(8, &before), Fact::Unsupported);
    }

    #[test]
    fn threads_that_receive_are_told_by_name() {
        let host = |ns: &str| {
            RecordedHost::new()
                .with("proc/9/stat", stat(9, "napi/eth0-12", 0, 1))
                .with("proc/9/schedstat", format!("{ns} 0 1\n"))
                .with("proc/10/stat", stat(10, "napier", 0, 1))
                .with("proc/10/schedstat", format!("{ns} 0 1\n"))
                .with("proc/11/stat", stat(11, "backlog_napi/0", 0, 1))
                .with("proc/11/schedstat", format!("{ns} 0 1\n"))
        };
        let threads = Processes::take(&host("5000")).threads(&Processes::take(&host("2000")));
        let threads: Vec<_> = threads.iter().map(|one| (one.name.as_str(), one.pid, one.ns)).collect();
        assert_eq!(threads, [("napi/eth0-12", 9, 3000), ("backlog_napi/0", 11, 3000)]);
    }
}
