//! CPUs and their shared hardware, from /sys/devices/system/cpu and node.
//!
//! Sharing is read once per group, not once per CPU: with a thousand CPUs it would otherwise take
//! longer than everything else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::read;
use rxlab_base::units::{CpuId, CpuMask, Fact};
use rxlab_sys::Host;

/// One logical CPU and the CPUs it shares hardware with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub id: CpuId,
    /// True if it is online.
    pub online: bool,
    /// Listed in `/sys/devices/system/cpu/isolated`.
    pub isolated: bool,
    /// `topology/core_id`; unique only within a package.
    pub core: Option<u32>,
    /// `topology/physical_package_id`.
    pub package: Option<u32>,
    /// Hyper-threads of the same core, itself included; empty if unknown.
    pub siblings: CpuMask,
    /// CPUs that share its last-level cache, itself included; empty if unknown.
    pub l3: CpuMask,
    /// NUMA node; `None` if the kernel shows none.
    pub node: Option<u32>,
    /// Its capacity (`cpu_capacity`), 1024 for the fastest; `None` if the kernel reports none, as where all are alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
}

const BASE: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

pub(super) fn take(host: &dyn Host) -> Fact<Vec<Cpu>> {
    let online = read::cpu_list(host, &format!("{BASE}/online"));
    let present = match read::cpu_list(host, &format!("{BASE}/present")) {
        Fact::Known(present) => Fact::Known(present),
        _ => online.clone(),
    };
    let Fact::Known(online) = online else { return online.map(|_| Vec::new()) };
    let isolated = read::cpu_list(host, &format!("{BASE}/isolated"));
    // A missing file means an old kernel without isolation. An unreadable one hides the CPUs that plans must
    // not touch: then nothing is known about the CPUs.
    let isolated = match isolated {
        Fact::Known(isolated) => isolated,
        Fact::Unsupported => CpuMask::new(),
        absent => return absent.map(|_| Vec::new()),
    };
    present.map(|present| {
        let cores = by_group(&present, |cpu| core(host, cpu), |core| core.siblings.known());
        let mut listed = true;
        let package = |cpu| package(host, cpu, &cores[&cpu].siblings, &mut listed);
        let packages = by_group(&present, package, |package| package.shared.known());
        let mut known_caches = None;
        let caches = by_group(&present, |cpu| last_level_cache(host, cpu, &mut known_caches), Fact::known);
        let nodes = nodes(host, &present, &online);
        let capacities = capacities(host, &online);
        let cpu = |id| Cpu {
            id,
            online: online.contains(id),
            isolated: isolated.contains(id),
            core: cores[&id].core.known().copied(),
            package: packages[&id].number.known().copied(),
            siblings: cores[&id].siblings.known().cloned().unwrap_or_default(),
            l3: caches[&id].known().cloned().unwrap_or_default(),
            node: nodes[&id].known().copied(),
            capacity: capacities.get(&id).copied(),
        };
        present.iter().map(cpu).collect()
    })
}

/// The capacities of these CPUs. A kernel that has none for the first has none; for a CPU that is offline the file may be missing.
fn capacities(host: &dyn Host, online: &CpuMask) -> BTreeMap<CpuId, u32> {
    let capacity = |cpu: CpuId| read::number(host, &format!("{BASE}/cpu{cpu}/cpu_capacity"));
    if online.first().is_none_or(|first| capacity(first) == Fact::Unsupported) {
        return BTreeMap::new();
    }
    online.iter().filter_map(|cpu| Some((cpu, *capacity(cpu).known()?))).collect()
}

/// The result of `look` for every CPU of `all`: called once for each set that `shared` returns.
fn by_group<T: Clone>(
    all: &CpuMask,
    mut look: impl FnMut(CpuId) -> T,
    shared: impl Fn(&T) -> Option<&CpuMask>,
) -> BTreeMap<CpuId, T> {
    let mut found = BTreeMap::new();
    for cpu in all.iter() {
        if found.contains_key(&cpu) {
            continue;
        }
        let one = look(cpu);
        // The first CPU represents its set; a set without that CPU represents no other.
        let group = shared(&one).filter(|group| group.contains(cpu)).cloned().unwrap_or_default();
        for other in group.iter().filter(|other| all.contains(*other)) {
            found.entry(other).or_insert_with(|| one.clone());
        }
        found.insert(cpu, one);
    }
    found
}

#[derive(Clone)]
struct Core {
    core: Fact<u32>,
    siblings: Fact<CpuMask>,
}

/// Hyper-threads share the core, and all its facts.
fn core(host: &dyn Host, cpu: CpuId) -> Core {
    let base = format!("{BASE}/cpu{cpu}/topology");
    Core {
        core: read::number(host, &format!("{base}/core_id")),
        siblings: read::cpu_list(host, &format!("{base}/thread_siblings_list")),
    }
}

#[derive(Clone)]
struct Package {
    number: Fact<u32>,
    /// CPUs with the same value: all of the package, or at least the hyper-threads.
    shared: Fact<CpuMask>,
}

/// `package_cpus_list` (since 5.3) lists CPUs with the same `physical_package_id`. A kernel that does not
/// have it for one CPU (`listed`) has it for none of the package.
fn package(host: &dyn Host, cpu: CpuId, siblings: &Fact<CpuMask>, listed: &mut bool) -> Package {
    let base = format!("{BASE}/cpu{cpu}/topology");
    let number: Fact<u32> = read::number(host, &format!("{base}/physical_package_id"));
    let mut shared = Fact::Unsupported;
    if *listed && number.known().is_some() {
        shared = read::cpu_list(host, &format!("{base}/package_cpus_list"));
        *listed = shared != Fact::Unsupported;
    }
    Package { number, shared: if shared.known().is_some() { shared } else { siblings.clone() } }
}

/// The caches of a CPU by name, and the one with the highest level.
type Caches = (Vec<String>, Option<String>);

fn last_level_cache(host: &dyn Host, cpu: CpuId, known: &mut Option<Caches>) -> Fact<CpuMask> {
    let base = format!("{BASE}/cpu{cpu}/cache");
    read::list(host, &base).and_then(|names| {
        // Levels depend on the kind of CPU: CPUs with the same cache names have them on the same levels.
        // Kinds of CPU in one machine differ in the number of caches.
        let last = match known {
            Some((same, last)) if *same == names => last.clone(),
            _ => {
                let level = |name: &&String| {
                    let level: Fact<u32> = read::number(host, &format!("{base}/{name}/level"));
                    level.known().copied()
                };
                let last = names.iter().filter(|name| name.starts_with("index")).max_by_key(level).cloned();
                *known = Some((names, last.clone()));
                last
            }
        };
        last.map_or(Fact::Unsupported, |name| read::cpu_list(host, &format!("{base}/{name}/shared_cpu_list")))
    })
}

fn nodes(host: &dyn Host, present: &CpuMask, online: &CpuMask) -> BTreeMap<CpuId, Fact<u32>> {
    let mut nodes: BTreeMap<CpuId, Fact<u32>> = present.iter().map(|cpu| (cpu, Fact::Unsupported)).collect();
    let Ok(names) = host.list(NODES) else {
        // Without NUMA a kernel has neither the directory nor the links; recordings can have only the links.
        // The first CPU shows which.
        if online.first().is_some_and(|cpu| linked_node(host, cpu) != Fact::Unsupported) {
            nodes.iter_mut().for_each(|(cpu, node)| *node = linked_node(host, *cpu));
        }
        return nodes;
    };
    for (name, number) in
        names.iter().filter_map(|name| Some((name, name.strip_prefix("node")?.parse().ok()?)))
    {
        match read::cpu_list(host, &format!("{NODES}/{name}/cpulist")) {
            Fact::Known(cpus) => cpus.iter().for_each(|cpu| {
                nodes.entry(cpu).and_modify(|node| *node = Fact::Known(number));
            }),
            // Its CPUs are unknown: any that no other node lists.
            absent => {
                let unlisted = nodes.values_mut().filter(|node| **node == Fact::Unsupported);
                unlisted.for_each(|node| *node = absent.clone().map(|_| number));
            }
        }
    }
    nodes
}

fn linked_node(host: &dyn Host, cpu: CpuId) -> Fact<u32> {
    read::list(host, &format!("{BASE}/cpu{cpu}")).and_then(|names| {
        let node = names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
        node.map_or(Fact::Unsupported, Fact::Known)
    })
}

#[cfg(test)]
mod tests {
    use super::{Cpu, take};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_sys::RecordedHost;

    fn machine() -> RecordedHost {
        let mut host = RecordedHost::new()
            .with("sys/devices/system/cpu/present", "0-4\n")
            .with("sys/devices/system/cpu/online", "0-3\n");
        for cpu in 0..4 {
            let base = format!("sys/devices/system/cpu/cpu{cpu}");
            host = host
                .with(&format!("{base}/topology/core_id"), format!("{}\n", cpu % 2))
                .with(&format!("{base}/topology/physical_package_id"), "0\n")
                .with(
                    &format!("{base}/topology/thread_siblings_list"),
                    format!("{},{}\n", cpu % 2, cpu % 2 + 2),
                )
                .with(&format!("{base}/cache/index0/level"), "1\n")
                .with(&format!("{base}/cache/index0/shared_cpu_list"), format!("{cpu}\n"));
        }
        host
    }

    fn cpus(host: &RecordedHost) -> Vec<Cpu> {
        let Fact::Known(cpus) = take(host) else { panic!("CPUs are there") };
        cpus
    }

    #[test]
    fn siblings_share_the_core_and_nothing_else() {
        let cpus = cpus(&machine());
        let shown: Vec<_> =
            cpus.iter().map(|cpu| (cpu.core, cpu.siblings.to_string(), cpu.l3.to_string())).collect();
        let row = |core, siblings: &str, cache: &str| (core, siblings.to_owned(), cache.to_owned());
        assert_eq!(shown[0], row(Some(0), "0,2", "0"));
        assert_eq!(shown[3], row(Some(1), "1,3", "3"));
        assert_eq!(shown[4], row(None, "", ""), "offline");
    }

    /// Recordings have the number for one CPU of each package, or of each core.
    #[test]
    fn a_package_has_one_number() {
        let number = |host: RecordedHost, cpu: u32, package: &str| {
            host.with(&format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"), package)
        };
        let list = |host: RecordedHost, cpu: u32, list: &str| {
            host.with(&format!("sys/devices/system/cpu/cpu{cpu}/topology/package_cpus_list"), list)
        };
        let packages = |host| cpus(&host).into_iter().map(|cpu| cpu.package).collect::<Vec<_>>();
        let known = |numbers: [u32; 4]| numbers.map(Some).into_iter().chain([None]).collect::<Vec<_>>();
        let by_core = || number(number(machine(), 1, "7\n"), 3, "never read");
        assert_eq!(packages(by_core()), known([0, 7, 0, 7]));
        let listed = list(list(by_core(), 0, "0,2\n"), 1, "1,3\n");
        assert_eq!(packages(listed), known([0, 7, 0, 7]));
        let one = list(number(machine(), 1, "never read"), 0, "0-3\n");
        assert_eq!(packages(one), known([0, 0, 0, 0]));
        // A list without the CPU itself, or an invalid one, represents no other CPU.
        let odd = list(list(by_core(), 0, "1-3\n"), 1, "x\n");
        assert_eq!(packages(number(odd, 2, "5\n")), known([0, 7, 5, 7]));
    }

    /// A hybrid machine: CPU 3 lacks the third level that the others share.
    #[test]
    fn the_last_level_is_that_of_each_kind_of_cpu() {
        let mut host = machine();
        for cpu in 0..3 {
            let base = format!("sys/devices/system/cpu/cpu{cpu}/cache/index3");
            host =
                host.with(&format!("{base}/level"), "3\n").with(&format!("{base}/shared_cpu_list"), "0-2\n");
        }
        let caches: Vec<String> = cpus(&host)[..4].iter().map(|cpu| cpu.l3.to_string()).collect();
        assert_eq!(caches, ["0-2", "0-2", "0-2", "3"]);
    }

    #[test]
    fn nodes_list_their_cpus() {
        let host = machine()
            .with("sys/devices/system/node/node0/cpulist", "0-1\n")
            .with("sys/devices/system/node/node1/cpulist", "2,9\n")
            .with("sys/devices/system/node/node2/cpulist", "\n");
        let nodes = |host| cpus(host).iter().map(|cpu| cpu.node).collect::<Vec<_>>();
        let (zero, one, none) = (Some(0), Some(1), None);
        assert_eq!(nodes(&host), [zero, zero, one, none, none]);
        let link = |host: RecordedHost, cpu: u32, node: u32| {
            host.with_link(&format!("sys/devices/system/cpu/cpu{cpu}/node{node}"), "../../node")
        };
        let host = link(link(machine(), 0, 0), 2, 1);
        assert_eq!(nodes(&host), [zero, none, one, none, none]);
    }

    #[test]
    fn the_cpus_of_a_node_that_cannot_be_read_have_none() {
        let host = machine()
            .with("sys/devices/system/node/node0/cpulist", "0-1\n")
            .with("sys/devices/system/node/node1/cpulist", "x\n");
        let cpus = cpus(&host);
        assert_eq!((cpus[1].node, cpus[3].node), (Some(0), None));
        assert_eq!(cpus[2].id, CpuId(2));
    }
}
