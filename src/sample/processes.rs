//! The threads and daemons that matter to steering, and how one process is described.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::read;
use crate::host::Host;
use crate::parse;
use crate::units::{CpuId, Fact};

/// Process ids by role.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Processes {
    /// `ksoftirqd/N` by CPU.
    pub ksoftirqd: BTreeMap<CpuId, u32>,
    /// irqbalance, when it runs.
    pub irqbalance: Option<u32>,
}

pub(super) fn take(host: &dyn Host, pids: &[u32]) -> Processes {
    let mut found = Processes::default();
    for pid in pids {
        // A process may end between the listing and the reading: that is no error.
        let Some(name) = command(host, *pid) else { continue };
        if let Some(cpu) = name.strip_prefix("ksoftirqd/").and_then(|cpu| cpu.parse().ok()) {
            found.ksoftirqd.insert(CpuId(cpu), *pid);
        } else if name == "irqbalance" {
            found.irqbalance.get_or_insert(*pid);
        }
    }
    found
}

/// All processes, by number.
pub(super) fn pids(host: &dyn Host) -> Fact<Vec<u32>> {
    match host.list("proc") {
        Err(error) => read::absence(&error),
        Ok(names) => {
            let mut pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
            pids.sort();
            Fact::Known(pids)
        }
    }
}

/// Those of `pids` that are not threads of the kernel, as far as the kernel says: these have no files and
/// no namespaces of their own, and a large machine has thousands.
pub(super) fn programs(host: &dyn Host, pids: &[u32]) -> Vec<u32> {
    let children = |_| read::parsed(host, "proc/2/task/2/children", parse::children);
    let kthreadd = command(host, 2).filter(|name| name == "kthreadd");
    let threads = kthreadd.map_or(Fact::Unsupported, children);
    let threads: BTreeSet<u32> = threads.known().into_iter().flatten().copied().collect();
    pids.iter().copied().filter(|pid| *pid != 2 && !threads.contains(pid)).collect()
}

/// A process's name.
pub(super) fn command(host: &dyn Host, pid: u32) -> Option<String> {
    let comm = host.read(&format!("proc/{pid}/comm")).ok()?;
    Some(parse::thread_name(&String::from_utf8_lossy(&comm)).to_owned())
}

/// The control group that tells most of a process.
pub(super) fn control_group(host: &dyn Host, pid: u32) -> Fact<String> {
    read::parsed(host, &format!("proc/{pid}/cgroup"), parse::control_groups)
        .and_then(|groups| groups.telling().map_or(Fact::Unsupported, |path| Fact::Known(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::{pids, programs, take};
    use crate::host::RecordedHost;
    use crate::units::{CpuId, Fact};

    #[test]
    fn roles_by_name() {
        let host = RecordedHost::new()
            .with("proc/15/comm", "ksoftirqd/0\n")
            .with("proc/23/comm", "ksoftirqd/11\n")
            .with("proc/700/comm", "irqbalance\n")
            .with("proc/701/comm", "irqbalance-ui\n")
            .with("proc/self/comm", "irqbalance\n");
        let Fact::Known(pids) = pids(&host) else { panic!("proc is there") };
        let found = take(&host, &pids);
        assert_eq!(found.irqbalance, Some(700));
        assert_eq!(found.ksoftirqd.get(&CpuId(11)), Some(&23));
        assert_eq!(found.ksoftirqd.len(), 2);
    }

    #[test]
    fn the_kernel_s_own_threads_are_no_programs() {
        let host = RecordedHost::new().with("proc/2/task/2/children", "3 15 \n");
        let pids = [1, 2, 3, 15, 700];
        // In a container, 2 is a process like any other.
        assert_eq!(programs(&host, &pids), [1, 3, 15, 700]);
        assert_eq!(programs(&host.with("proc/2/comm", "kthreadd\n"), &pids), [1, 700]);
    }
}
