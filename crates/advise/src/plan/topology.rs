//! The CPUs of a machine for planners: the usable ones, in memory domains, core by core.

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::model::{Cpu, Model};

/// One memory domain: the CPUs of a NUMA node, or all if the kernel reports none.
#[derive(Debug, Clone)]
pub(super) struct Domain {
    pub(super) node: Option<u32>,
    /// Its online CPUs: by last-level cache, then core, then number.
    pub(super) all: Vec<CpuId>,
    /// Usable CPUs, in the same order.
    pub(super) usable: Vec<CpuId>,
    /// The first of these of each core.
    pub(super) cores: Vec<CpuId>,
}

/// All domains, by node.
#[derive(Debug, Clone)]
pub(super) struct CpuTopology {
    pub(super) online: CpuMask,
    pub(super) usable: CpuMask,
    pub(super) domains: Vec<Domain>,
    /// By CPU number: index of its domain, and its place in it. For online CPUs only.
    places: Vec<Option<(usize, usize)>>,
    /// By CPU number: the threads of its core.
    siblings: Vec<CpuMask>,
}

impl CpuTopology {
    pub(super) fn new(model: &Model) -> Self {
        let (online, usable) = (model.online(), model.usable());
        let mut cpus: Vec<(Key, &Cpu)> =
            model.cpus.iter().filter(|cpu| cpu.online).map(|cpu| (key(cpu), cpu)).collect();
        cpus.sort_unstable_by_key(|(key, _)| *key);
        let width = model.cpus.iter().map(|cpu| cpu.id.0 as usize + 1).max().unwrap_or_default();
        let mut topology = Self {
            online,
            usable,
            domains: Vec::new(),
            places: vec![None; width],
            siblings: vec![CpuMask::new(); width],
        };
        let mut core = None;
        for (key, cpu) in cpus {
            if topology.domains.last().is_none_or(|domain| domain.node != cpu.node) {
                let (all, usable, cores) = (Vec::new(), Vec::new(), Vec::new());
                topology.domains.push(Domain { node: cpu.node, all, usable, cores });
            }
            let at = topology.domains.len() - 1;
            let domain = topology.domains.last_mut().expect("one was just made");
            topology.places[cpu.id.0 as usize] = Some((at, domain.all.len()));
            topology.siblings[cpu.id.0 as usize] = cpu.siblings.clone();
            domain.all.push(cpu.id);
            if topology.usable.contains(cpu.id) {
                domain.usable.push(cpu.id);
                if core.replace((at, key.2)) != Some((at, key.2)) {
                    domain.cores.push(cpu.id);
                }
            }
        }
        topology
    }

    /// Index of the domain of an online CPU, and its place in it.
    pub(super) fn place(&self, cpu: CpuId) -> Option<(usize, usize)> {
        self.places.get(cpu.0 as usize).copied().flatten()
    }

    /// The threads of the cores of `cpus`.
    pub(super) fn siblings(&self, cpus: &CpuMask) -> CpuMask {
        cpus.iter()
            .filter_map(|cpu| self.siblings.get(cpu.0 as usize))
            .fold(CpuMask::new(), |all, some| all.union(some))
    }

    /// The same without `others` in each domain that still has at least `load` usable CPUs then.
    pub(super) fn clear_of(&self, others: &CpuMask, load: &[usize]) -> Self {
        let mut topology = self.clone();
        for (domain, load) in topology.domains.iter_mut().zip(load) {
            let rest: Vec<CpuId> =
                domain.usable.iter().copied().filter(|cpu| !others.contains(*cpu)).collect();
            if rest.is_empty() || rest.len() < *load {
                continue;
            }
            let mut seen = CpuMask::new();
            domain.cores.clear();
            for cpu in &rest {
                if !seen.contains(*cpu) {
                    domain.cores.push(*cpu);
                    seen = seen.union(&self.siblings[cpu.0 as usize]);
                    seen.insert(*cpu);
                }
            }
            domain.usable = rest;
        }
        topology.usable = topology.in_order().collect();
        topology
    }

    /// The usable CPUs, domain by domain and core by core.
    pub(super) fn in_order(&self) -> impl DoubleEndedIterator<Item = CpuId> + '_ {
        self.domains.iter().flat_map(|domain| domain.usable.iter().copied())
    }
}

/// Node (unknown first), lowest CPU of the last-level cache, lowest of the core, its own number.
type Key = (Option<u32>, u32, u32, u32);

fn key(cpu: &Cpu) -> Key {
    let own = cpu.id.0;
    let core = cpu.siblings.first().map_or(own, |first| first.0.min(own));
    // In some virtual machines each CPU reports a cache of its own, but still shares its core.
    let cache = cpu.l3.first().map_or(core, |first| first.0.min(core));
    (cpu.node, cache, core, own)
}

#[cfg(test)]
mod tests {
    use super::CpuTopology;
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_path::sketch::{Sketch, cpus};

    #[test]
    fn domains_hold_cores_and_cores_their_threads() {
        let (mut model, _) = Sketch::new(8).smt().build();
        model.cpus[0].online = false;
        model.cpus[5].isolated = true;
        let topology = CpuTopology::new(&model);
        let [domain] = &topology.domains[..] else { panic!("{topology:?}") };
        let numbers = |cpus: &[CpuId]| cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>();
        assert_eq!(numbers(&domain.all), [4, 1, 5, 2, 6, 3, 7], "CPU 4 shares the core of CPU 0");
        assert_eq!(numbers(&domain.usable), [4, 1, 2, 6, 3, 7]);
        assert_eq!(numbers(&domain.cores), [4, 1, 2, 3]);
        assert_eq!((topology.place(CpuId(1)), topology.place(CpuId(0))), (Some((0, 1)), None));
        assert_eq!(topology.siblings(&cpus("1")), cpus("1,5"));
        let (model, _) = Sketch::new(32).nodes(2).build();
        let nodes: Vec<_> = CpuTopology::new(&model).domains.iter().map(|domain| domain.all.len()).collect();
        assert_eq!(nodes, [16, 16]);
    }

    #[test]
    fn a_domain_is_clear_of_others_while_enough_is_left() {
        let (model, _) = Sketch::new(8).nodes(2).smt().build();
        let topology = CpuTopology::new(&model).clear_of(&cpus("0,5-7"), &[3, 2]);
        let numbers = |cpus: &[CpuId]| cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>();
        assert_eq!(numbers(&topology.domains[0].usable), [1, 2, 3]);
        assert_eq!(numbers(&topology.domains[1].usable), [4, 5, 6, 7], "one is not enough for two");
        assert_eq!(topology.usable, cpus("1-7"));
        let (model, _) = Sketch::new(4).smt().build();
        let topology = CpuTopology::new(&model).clear_of(&cpus("0"), &[1]);
        assert_eq!(numbers(&topology.domains[0].cores), [2, 1], "the other thread begins the core");
    }

    #[test]
    fn what_others_have_taken_is_not_used() {
        let (mut model, _) = Sketch::new(8).build();
        assert_eq!(model.usable(), cpus("0-7"));
        model.settings.nohz_full = Fact::Known(cpus("7"));
        model.settings.cpuset = Fact::Known(cpus("0-6"));
        model.settings.cpuset_isolated = Fact::Known(cpus("5"));
        model.cpus[1].isolated = true;
        assert_eq!(model.usable(), cpus("0,2-4,6"));
    }
}
