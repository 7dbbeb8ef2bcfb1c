//! CPUs: topology, nodes, isolation, control groups.

use std::collections::BTreeMap;

use rxlab_base::units::CpuMask;
use rxlab_sys::RecordedHost;

use super::super::truth::{Cpu, Damage, Kernel, Truth};

const BASE: &str = "sys/devices/system/cpu";

pub(super) fn render(host: RecordedHost, truth: &Truth) -> RecordedHost {
    let present: CpuMask = truth.cpus.iter().map(|cpu| cpu.id).collect();
    let isolated: CpuMask = truth.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.id).collect();
    // Without the boot option kernels print this.
    let nohz = if truth.nohz.is_empty() { "(null)".to_owned() } else { truth.nohz.to_string() };
    let host = host
        .with(&format!("{BASE}/present"), format!("{present}\n"))
        .with(&format!("{BASE}/online"), format!("{}\n", truth.online()))
        .with(&format!("{BASE}/isolated"), format!("{isolated}\n"))
        .with(&format!("{BASE}/nohz_full"), format!("{nohz}\n"));
    nodes(cpuset(topology(host, truth), truth), truth)
}

/// CPUs of each group that are online: the others share nothing that the kernel shows.
fn groups(truth: &Truth, group: impl Fn(&Cpu) -> u32) -> BTreeMap<u32, CpuMask> {
    let mut groups: BTreeMap<u32, CpuMask> = BTreeMap::new();
    for cpu in truth.cpus.iter().filter(|cpu| cpu.online) {
        groups.entry(group(cpu)).or_default().insert(cpu.id);
    }
    groups
}

fn topology(mut host: RecordedHost, truth: &Truth) -> RecordedHost {
    let cores = groups(truth, |cpu| cpu.core);
    let caches = groups(truth, |cpu| cpu.cache);
    let packages = groups(truth, |cpu| cpu.node);
    for cpu in truth.cpus.iter().filter(|cpu| cpu.online) {
        let base = format!("{BASE}/cpu{}", cpu.id);
        if truth.damage != Damage::NoSiblings {
            host = host
                .with(&format!("{base}/topology/thread_siblings_list"), format!("{}\n", cores[&cpu.core]))
                .with(&format!("{base}/topology/core_id"), format!("{}\n", cpu.core))
                .with(&format!("{base}/topology/package_cpus_list"), format!("{}\n", packages[&cpu.node]))
                .with(&format!("{base}/topology/physical_package_id"), format!("{}\n", cpu.node));
        }
        if let Some(capacity) = cpu.capacity {
            host = host.with(&format!("{base}/cpu_capacity"), format!("{capacity}\n"));
        }
        let last = format!("{base}/cache/index3");
        host = host
            .with_list(&format!("{base}/cache"), vec!["index3".to_owned(), "uevent".to_owned()])
            .with(&format!("{last}/level"), "3\n")
            .with(&format!("{last}/shared_cpu_list"), format!("{}\n", caches[&cpu.cache]));
    }
    host
}

fn nodes(mut host: RecordedHost, truth: &Truth) -> RecordedHost {
    if truth.damage == Damage::NoNodes {
        return host;
    }
    let nodes = groups(truth, |cpu| cpu.node);
    for (node, cpus) in &nodes {
        host = host.with(&format!("sys/devices/system/node/node{node}/cpulist"), format!("{cpus}\n"));
    }
    let mut names: Vec<String> = nodes.keys().map(|node| format!("node{node}")).collect();
    names.extend(["has_cpu", "online", "possible"].map(str::to_owned));
    host.with_list("sys/devices/system/node", names)
}

/// Mount point of cpusets of the first version.
const FIRST: &str = "sys/fs/cgroup/cpuset";

/// Mounts of control groups: the controller is in the first version where a group is exclusive.
pub(super) fn mounts(truth: &Truth) -> String {
    let first = format!("33 31 0:29 / /{FIRST} rw - cgroup cgroup rw,cpuset\n");
    let second = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n".to_owned();
    if truth.exclusive.is_empty() { second } else { second + &first }
}

fn cpuset(host: RecordedHost, truth: &Truth) -> RecordedHost {
    if !truth.exclusive.is_empty() {
        let names = ["cpuset.cpus", "shield", "system", "tasks"].map(str::to_owned);
        return host
            .with_list(FIRST, names.to_vec())
            .with(&format!("{FIRST}/cpuset.cpu_exclusive"), "1\n")
            .with(&format!("{FIRST}/cpuset.effective_cpus"), format!("{}\n", truth.online()))
            .with(&format!("{FIRST}/shield/cpuset.cpu_exclusive"), "1\n")
            .with(&format!("{FIRST}/shield/cpuset.effective_cpus"), format!("{}\n", truth.exclusive))
            .with_list(&format!("{FIRST}/system"), vec!["cpuset.cpus".to_owned()])
            .with(&format!("{FIRST}/system/cpuset.cpu_exclusive"), "1\n")
            .with("proc/1/cgroup", "4:cpuset:/system\n");
    }
    let own = truth.cpuset.clone().unwrap_or_else(|| truth.online());
    let host = host.with("sys/fs/cgroup/cpuset.cpus.effective", format!("{own}\n"));
    if truth.kernel >= Kernel::V6_8 { host.with("sys/fs/cgroup/cpuset.cpus.isolated", "\n") } else { host }
}
