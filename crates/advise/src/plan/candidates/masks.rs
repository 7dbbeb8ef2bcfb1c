//! RPS masks to try: groups of CPUs around those that receive, each in the order in which its CPUs are added to a mask.

use super::super::machine::Machine;
use super::super::throughput::{EQUAL, Traffic};
use super::super::topology::CpuTopology;
use super::seen;
use rxlab_base::units::{CpuId, CpuMask};
use rxlab_path::constraints::slow;
use rxlab_path::model::{Model, Nic, Rates};

/// CPUs of one kind, for each queue in the order in which a mask takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// One word: `readers`, `cache`, `node`, `other-node`, `machine`.
    pub name: &'static str,
    /// Size of a mask from which a search over sizes begins: the best one by the costs of this host, if they are known.
    pub start: usize,
    /// Size of the largest mask.
    pub most: usize,
    orders: Vec<Vec<CpuId>>,
}

impl Group {
    /// A mask of `size` CPUs for each queue: the first that no other queue has yet, then others.
    pub(super) fn masks(&self, size: usize) -> Vec<CpuMask> {
        let mut given = CpuMask::new();
        let mask = |order: &Vec<CpuId>| {
            let (free, taken): (Vec<CpuId>, Vec<CpuId>) =
                order.iter().partition(|cpu| !given.contains(**cpu));
            let mask: CpuMask = free.into_iter().chain(taken).take(size).collect();
            given = given.union(&mask);
            mask
        };
        self.orders.iter().map(mask).collect()
    }
}

/// Name of the group of CPUs whose programs read the packets.
const READERS: &str = "readers";

/// Groups of CPUs for the queues of an interface, and the CPUs that are in none because they receive.
pub(super) struct Groups {
    pub(super) groups: Vec<Group>,
    pub(super) receiving: CpuMask,
}

/// Size of a mask to begin with if the best is not predicted: few CPUs won in field case C.
const START: usize = 4;

/// The groups that exist; an error says why there is none.
pub(super) fn groups(model: &Model, rates: &Rates, nic: &Nic) -> Result<Groups, String> {
    let topology = CpuTopology::new(model);
    let machine = Machine { model, rates, topology: &topology };
    let readers = seen::readers(model, rates, nic);
    let receiving = seen::receiving(model, rates, &topology, nic, &readers);
    let homes: Vec<Option<CpuId>> = nic
        .steering_queues()
        .iter()
        .map(|queue| machine.home(queue).or(receiving.first().copied()))
        .collect();
    let pool = |without: &CpuMask| topology.usable.difference(without);
    let all: CpuMask = receiving.iter().copied().collect();
    let taken = machine.taken(&[nic]);
    // What receives is left out while another CPU is there; so is what other interfaces keep busy.
    let receiving = [all.union(&taken), all.clone()].into_iter().find(|kept| !pool(kept).is_empty());
    let queues: Vec<Around<'_>> = homes
        .iter()
        .map(|home| {
            let own: CpuMask = home.iter().copied().collect();
            let kept = receiving.clone().unwrap_or(own);
            Around {
                model,
                topology: &topology,
                home: *home,
                pool: pool(&kept),
                order: Order::new(machine, &all, &readers),
            }
        })
        .collect();
    if queues.iter().any(|around| around.pool.is_empty()) {
        return Err(format!("no CPU but the one that receives may take packets of {}", nic.name));
    }
    let traffic = Traffic::new(model, rates, nic);
    type Chosen<'a> = &'a dyn Fn(&Around<'_>) -> CpuMask;
    let kinds: [(&'static str, Chosen<'_>); 5] = [
        (READERS, &|around| readers.intersection(&around.pool)),
        ("cache", &|around| around.cache()),
        ("node", &|around| around.node()),
        ("other-node", &|around| around.pool.difference(&around.node())),
        ("machine", &|around| around.pool.clone()),
    ];
    let mut groups: Vec<Group> = Vec::new();
    for (name, chosen) in kinds {
        let orders: Vec<Vec<CpuId>> = queues.iter().map(|around| around.ordered(&chosen(around))).collect();
        let most = orders.iter().map(Vec::len).min().unwrap_or_default();
        let best = orders.first().zip(traffic.as_ref()).and_then(|(order, traffic)| traffic.best_size(order));
        let start = best.unwrap_or(START).min(most);
        // The same CPUs under a wider name, too.
        if most > 0 && groups.iter().all(|group| group.orders != orders) {
            groups.push(Group { name, start, most, orders });
        }
    }
    Ok(Groups { groups, receiving: receiving.unwrap_or_default().intersection(&all) })
}

/// The mask with which most packets of a virtual interface fit, by the costs of this host; `None` if they are not known. Of equally
/// good ones, CPUs that read where the traffic waits for answers, and otherwise near ones: those were faster when it was measured.
pub(in crate::plan) fn best(model: &Model, rates: &Rates, nic: &Nic) -> Option<CpuMask> {
    let traffic = Traffic::new(model, rates, nic)?;
    let mut groups = groups(model, rates, nic).ok()?.groups;
    groups.sort_by_key(|group| (group.name == READERS) != traffic.is_answered);
    let fits = |group: &Group| {
        let mask = group.masks(group.start).into_iter().next()?;
        Some((traffic.with(&mask)?.fits, mask))
    };
    let masks: Vec<(f64, CpuMask)> = groups.iter().filter_map(fits).collect();
    let most = masks.iter().map(|(fits, _)| *fits).fold(0.0, f64::max);
    masks.into_iter().find(|(fits, _)| *fits >= most * (1.0 - EQUAL)).map(|(_, mask)| mask)
}

/// What makes a CPU a worse choice than others of its group.
struct Order {
    slow: CpuMask,
    /// Full of programs that do not read.
    full: CpuMask,
    /// Threads of the cores that receive.
    siblings: CpuMask,
}

impl Order {
    fn new(machine: Machine<'_>, receiving: &CpuMask, readers: &CpuMask) -> Self {
        let full = machine.full().difference(readers);
        Self { slow: slow(machine.model), full, siblings: machine.topology.siblings(receiving) }
    }
}

/// CPUs around one queue.
struct Around<'a> {
    model: &'a Model,
    topology: &'a CpuTopology,
    /// The CPU that receives its packets, if known.
    home: Option<CpuId>,
    /// CPUs that a mask may have.
    pool: CpuMask,
    order: Order,
}

impl Around<'_> {
    /// CPUs that share the last-level cache with the one that receives; none if those are all of its node.
    fn cache(&self) -> CpuMask {
        let home = self.home.and_then(|cpu| self.model.cpu(cpu));
        let cache = home.map_or_else(CpuMask::new, |home| home.l3.intersection(&self.pool));
        if cache == self.node() { CpuMask::new() } else { cache }
    }

    /// CPUs of its node; of the first with any if that is unknown, or has none.
    fn node(&self) -> CpuMask {
        let domains = &self.topology.domains;
        let of_home = self.home.and_then(|cpu| self.topology.place(cpu)).map(|(at, _)| at);
        let of = |at: usize| domains[at].usable.iter().copied().collect::<CpuMask>().intersection(&self.pool);
        let own = of_home.map(of).filter(|cpus| !cpus.is_empty());
        own.or_else(|| (0..domains.len()).map(of).find(|cpus| !cpus.is_empty())).unwrap_or_default()
    }

    /// CPUs in the order in which a mask takes them: whole cores before second threads, near caches before far ones.
    fn ordered(&self, cpus: &CpuMask) -> Vec<CpuId> {
        let home = self.home.and_then(|cpu| self.model.cpu(cpu));
        let node = self.node();
        let mut first_threads = CpuMask::new();
        for cpu in cpus.iter() {
            if self.topology.siblings(&cpu.into()).intersection(&first_threads).is_empty() {
                first_threads.insert(cpu);
            }
        }
        let Order { slow, full, siblings } = &self.order;
        let key = |cpu: &CpuId| {
            let is_far = home.is_some_and(|home| !home.l3.is_empty() && !home.l3.contains(*cpu));
            let worse = [slow.contains(*cpu), full.contains(*cpu), siblings.contains(*cpu)];
            (worse, !node.contains(*cpu), is_far, !first_threads.contains(*cpu), *cpu)
        };
        let mut order: Vec<CpuId> = cpus.iter().collect();
        order.sort_by_key(key);
        order
    }
}
