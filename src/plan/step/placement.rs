//! Which CPU should take the interrupt of each receive queue: near the device, and each on a core of its own.

use std::collections::BTreeMap;

use crate::model::Nic;
use crate::plan::draft::Draft;
use crate::units::{CpuId, IrqId, NicName};

/// A queue and the CPU for its interrupt.
pub(super) struct Placed {
    pub(super) nic: NicName,
    pub(super) queue: u32,
    pub(super) cpu: CpuId,
    /// Why there.
    pub(super) why: String,
}

/// Queues that share an interrupt, as one.
struct Vector {
    queues: Vec<u32>,
    domain: usize,
}

/// A CPU for the interrupt of every queue that has one.
///
/// Interrupts of a device whose node is known stay in that node. Those of others are spread over all: neighbours
/// together, as drivers do it, or where there are fewer interrupts than nodes, to the nodes that have least. In a
/// node each gets an equal part, and its interrupt the first core of that part.
pub(super) fn near(draft: &Draft<'_>) -> Vec<Placed> {
    let ground = &draft.ground;
    let nics: Vec<&Nic> = draft.planned().collect();
    let mut load = vec![0usize; ground.domains.len()];
    let mut vectors: Vec<Vec<Vector>> = nics.iter().map(|_| Vec::new()).collect();
    let home = |nic: &Nic| {
        let of_node = |node| ground.domains.iter().position(|domain| domain.node == Some(node));
        nic.node.and_then(of_node).filter(|at| !ground.domains[*at].cores.is_empty())
    };
    // Those that have no choice come first: the others make room for them.
    for known in [true, false] {
        for (nic, vectors) in nics.iter().zip(&mut vectors).filter(|(nic, _)| home(nic).is_some() == known) {
            let queues = by_interrupt(nic);
            let domains = match home(nic) {
                Some(domain) => vec![domain; queues.len()],
                None => spread(draft, queues.len(), &load),
            };
            for (queues, domain) in queues.into_iter().zip(domains) {
                load[domain] += 1;
                vectors.push(Vector { queues, domain });
            }
        }
    }
    let mut turn = vec![0usize; ground.domains.len()];
    let mut placed = Vec::new();
    for (nic, vectors) in nics.iter().zip(vectors) {
        let of_node = home(nic).is_some();
        for vector in vectors {
            let domain = &ground.domains[vector.domain];
            let (all, mine) = (load[vector.domain], turn[vector.domain]);
            turn[vector.domain] += 1;
            let (cpu, how) = match () {
                () if all <= domain.cores.len() => {
                    (domain.cores[mine * domain.cores.len() / all], "a core of its own")
                }
                () if all <= domain.usable.len() => {
                    (domain.usable[mine * domain.usable.len() / all], "a CPU of its own")
                }
                () => (domain.usable[mine % domain.usable.len()], "shared: there are more queues than CPUs"),
            };
            let place = match (domain.node, of_node) {
                (Some(node), true) => format!("node {node}, where the device is; "),
                (Some(node), false) if ground.domains.len() > 1 => {
                    format!("node {node}, as the device's own is not known; ")
                }
                _ => String::new(),
            };
            placed.extend(vector.queues.iter().map(|queue| Placed {
                nic: nic.name.clone(),
                queue: *queue,
                cpu,
                why: format!("{place}{how}"),
            }));
        }
    }
    placed
}

/// The queues that have an interrupt, those that share one together.
fn by_interrupt(nic: &Nic) -> Vec<Vec<u32>> {
    let mut seen: BTreeMap<IrqId, usize> = BTreeMap::new();
    let mut vectors: Vec<Vec<u32>> = Vec::new();
    for queue in &nic.rx {
        let Some(first) = queue.irqs.first() else { continue };
        let at = *seen.entry(first.number).or_insert(vectors.len());
        if at == vectors.len() {
            vectors.push(Vec::new());
        }
        vectors[at].push(queue.index);
    }
    vectors
}

/// A domain for each of `count` interrupts; empty where no domain has a CPU.
fn spread(draft: &Draft<'_>, count: usize, load: &[usize]) -> Vec<usize> {
    let domains = &draft.ground.domains;
    let mut with_cpus: Vec<usize> = (0..domains.len()).filter(|at| !domains[*at].usable.is_empty()).collect();
    if count < with_cpus.len() {
        // Fewest interrupts a core first; the sort is stable.
        with_cpus.sort_by(|a, b| {
            let weight = |at: usize, other: usize| load[at] * domains[other].cores.len();
            weight(*a, *b).cmp(&weight(*b, *a))
        });
        with_cpus.truncate(count);
        with_cpus.sort_unstable();
        return with_cpus;
    }
    let cores = || with_cpus.iter().map(|at| (*at, domains[*at].cores.len()));
    let total: usize = cores().map(|(_, cores)| cores).sum();
    let domain_of = |turn: usize| {
        let mut left = turn * total / count;
        let found = cores().find(|(_, cores)| match left.checked_sub(*cores) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        found.map(|(at, _)| at)
    };
    (0..count).filter_map(domain_of).collect()
}
