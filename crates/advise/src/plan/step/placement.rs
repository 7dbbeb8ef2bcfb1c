//! CPU for the interrupt of each receive queue: near the device, and each on its own core.
//!
//! An interrupt that already has such a CPU stays.

use std::collections::BTreeMap;

use crate::plan::draft::Draft;
use crate::plan::topology::{CpuTopology, Domain};
use rxlab_base::units::{CpuId, IrqId, NicName};
use rxlab_path::constraints::slow;
use rxlab_path::evidence::queue_packets;
use rxlab_path::model::{Nic, RxQueue};

/// Reason for more than one on a CPU.
const SHARED: &str = "shared: more queues than CPUs left for them";

/// Receive time of the CPUs of a node, on average, up to which its interrupts share them rather than leave the node:
/// another node costs every packet, a shared CPU nothing while it is not full.
const ROOMY: f64 = 0.5;

/// The same for those that land in another node already: the estimate changes with them, by more than a quarter if a CPU fills up.
const ROOMY_WHILE: f64 = 0.35;

/// Receive time of a shared CPU from which interrupts are placed by their load, and not by their number.
const EVEN_FROM: f64 = 0.25;

/// Receive time of a shared CPU from which interrupts that are placed by their load stay: an estimate changes with them.
const EVEN_WHILE: f64 = 0.2;

/// Factor by which the busiest shared CPU may exceed the necessary load before interrupts move.
const UNEVEN: f64 = 1.1;

/// A queue and the CPU for its interrupt.
pub(super) struct Placed {
    pub(super) nic: NicName,
    pub(super) queue: u32,
    pub(super) cpu: CpuId,
    pub(super) why: String,
}

/// Queues that share an interrupt, as one.
struct Vector {
    nic: NicName,
    queues: Vec<u32>,
    /// CPU where it lands now, if that CPU is usable.
    now: Option<CpuId>,
    /// Its part of the machine's receive time, by packets: the same wherever it lands.
    time: f64,
    /// True if no more vectors land there than necessary.
    has_room: bool,
    /// The domain of its function, if known.
    home: Option<usize>,
    /// Node of its function, if known.
    node: Option<u32>,
    domain: usize,
}

/// A CPU for the interrupt of every queue that has one.
///
/// Interrupts of a device whose node is known stay in that node, unless there are more of them than CPUs and those would be
/// more than half busy with receiving. Those of other devices are spread over all nodes: neighbours together, as drivers do
/// it, or if there are fewer interrupts than nodes, on the nodes that have fewest. In a node each gets an equal part, and
/// its interrupt the first core of that part.
pub(super) fn near(draft: &Draft<'_>) -> Vec<Placed> {
    let topology = &draft.topology;
    let mut load = vec![0usize; topology.domains.len()];
    let mut vectors = vectors(draft);
    // Those without a choice come first: the others make room for them.
    for vector in &mut vectors {
        if let Some(home) = vector.home {
            vector.domain = home;
            load[home] += 1;
        }
    }
    let mut turns = Vec::new();
    for of_nic in vectors.chunk_by(are_together).filter(|of_nic| of_nic[0].home.is_none()) {
        let domains = spread(topology, of_nic.len(), &load);
        domains.iter().for_each(|domain| load[*domain] += 1);
        turns.push(domains);
    }
    // A CPU that a program fills is not available, nor a slow one, nor, while there are enough, one that takes interrupts of a busy
    // interface outside the plan or of another network namespace.
    let machine = draft.machine();
    let (full, slow) = (machine.full(), slow(&draft.model));
    let planned: Vec<&Nic> = draft.planned().collect();
    let others = machine.others(&planned).union(&machine.taken(&planned));
    let one = vec![1; load.len()];
    let cleared = (!full.is_empty() || !slow.is_empty() || !others.is_empty())
        .then(|| topology.clear_of(&full, &one).clear_of(&slow, &one).clear_of(&others, &load));
    let topology = cleared.as_ref().unwrap_or(topology);
    let leaving: Vec<usize> = (0..load.len()).map(|domain| may_leave(topology, &vectors, domain)).collect();
    see_room(topology, &mut vectors, &load, &leaving);
    let homeless = vectors.chunk_by_mut(are_together).filter(|of_nic| of_nic[0].home.is_none());
    homeless.zip(turns).for_each(|(of_nic, domains)| take_turns(topology, of_nic, domains));
    let poor = full.union(&slow);
    let is_poor = |domain: &Domain| domain.usable.iter().all(|cpu| poor.contains(*cpu));
    let poor: Vec<bool> = topology.domains.iter().map(is_poor).collect();
    spill(topology, &mut vectors, &mut load, (&leaving, &poor));
    let mut groups: Vec<Vec<&Vector>> = topology.domains.iter().map(|_| Vec::new()).collect();
    vectors.iter().for_each(|vector| groups[vector.domain].push(vector));
    let of_groups =
        topology.domains.iter().zip(groups).map(|(domain, group)| cpus(domain, &group).into_iter());
    let mut of_groups: Vec<_> = of_groups.collect();
    let mut placed = Vec::new();
    for vector in &vectors {
        let Some((cpu, how)) = of_groups[vector.domain].next() else { continue };
        let why = format!("{}{how}", place(topology, vector));
        placed.extend(vector.queues.iter().map(|queue| Placed {
            nic: vector.nic.clone(),
            queue: *queue,
            cpu,
            why: why.clone(),
        }));
    }
    placed
}

/// True for vectors of one interface that both have a home, or none.
fn are_together(a: &Vector, b: &Vector) -> bool {
    a.nic == b.nic && a.home.is_none() == b.home.is_none()
}

/// The vectors of all planned interfaces, those of one together; none if no CPU is usable.
fn vectors(draft: &Draft<'_>) -> Vec<Vector> {
    let topology = &draft.topology;
    if topology.usable.is_empty() {
        return Vec::new();
    }
    let of_node = |node| topology.domains.iter().position(|domain| domain.node == Some(node));
    let mut vectors: Vec<Vector> = Vec::new();
    let mut seen: BTreeMap<IrqId, usize> = BTreeMap::new();
    for nic in draft.planned() {
        let of_nic = by_interrupt(nic);
        let all = draft.machine().time_of(nic);
        let packets = |queue: &RxQueue| {
            queue_packets(nic, queue, &draft.rates) / draft.rates.rx_packets(&nic.name).max(1.0)
        };
        for (irq, queues) in of_nic {
            let first = nic.rx.iter().find(|queue| Some(&queue.index) == queues.first());
            let own = nic.rx.iter().filter(|queue| queues.contains(&queue.index));
            let time = all * own.map(packets).sum::<f64>();
            // An earlier interface has it too, and its queues decide.
            if let Some(at) = seen.get(&irq) {
                vectors[*at].time += time;
                continue;
            }
            seen.insert(irq, vectors.len());
            let now = first.and_then(|queue| draft.home(queue)).filter(|cpu| topology.usable.contains(*cpu));
            let node = first.map_or(nic.node, |queue| nic.node_of(queue));
            let home = node.and_then(of_node).filter(|at| !topology.domains[*at].cores.is_empty());
            let nic = nic.name.clone();
            vectors.push(Vector { nic, queues, now, time, has_room: false, home, node, domain: 0 });
        }
    }
    vectors
}

/// Number of vectors that land on each CPU.
fn counts(vectors: &[Vector]) -> BTreeMap<CpuId, usize> {
    let mut counts = BTreeMap::new();
    vectors.iter().filter_map(|vector| vector.now).for_each(|cpu| *counts.entry(cpu).or_default() += 1);
    counts
}

/// Vectors of a domain that may leave it, for how busy they would keep its CPUs: any, only those that land elsewhere already, or
/// none.
fn may_leave(topology: &CpuTopology, vectors: &[Vector], domain: usize) -> usize {
    let own = || vectors.iter().filter(|vector| vector.home == Some(domain));
    let time: f64 = own().map(|vector| vector.time).sum();
    match time / topology.domains[domain].usable.len().max(1) as f64 {
        time if time > ROOMY => usize::MAX,
        time if time > ROOMY_WHILE => own().filter(|vector| is_outside(topology, vector, domain)).count(),
        _ => 0,
    }
}

/// True if a vector lands outside a domain.
fn is_outside(topology: &CpuTopology, vector: &Vector, domain: usize) -> bool {
    vector.now.and_then(|cpu| topology.place(cpu)).is_some_and(|(lands, _)| lands != domain)
}

/// Marks the vectors that land where no more do than necessary, given how many each domain gets: one, while
/// there are enough CPUs.
fn see_room(topology: &CpuTopology, vectors: &mut [Vector], load: &[usize], leaving: &[usize]) {
    let with_load = || topology.domains.iter().map(|domain| domain.usable.len()).zip(load.iter().copied());
    let mut room: usize = with_load().map(|(cpus, load)| cpus.saturating_sub(load)).sum();
    let most = with_load().zip(leaving).map(|((cpus, load), leaving)| {
        let leaving = load.saturating_sub(cpus).min(*leaving).min(room);
        room -= leaving;
        (load - leaving).div_ceil(cpus.max(1)).max(1)
    });
    let most: Vec<usize> = most.collect();
    let counts = counts(vectors);
    for vector in vectors {
        let now = vector.now.filter(|cpu| topology.usable.contains(*cpu));
        let now = now.and_then(|cpu| Some((cpu, topology.place(cpu)?.0)));
        vector.has_room = now.is_some_and(|(cpu, domain)| counts[&cpu] <= most[domain]);
    }
}

/// The domain in which a vector lands now, if there is room for it.
fn domain_now(topology: &CpuTopology, vector: &Vector) -> Option<usize> {
    let now = vector.now.filter(|_| vector.has_room)?;
    topology.place(now).map(|(domain, _)| domain)
}

/// Gives the vectors of one interface these domains, in order; a vector that is already in one of them stays.
fn take_turns(topology: &CpuTopology, vectors: &mut [Vector], mut domains: Vec<usize>) {
    let mut open: Vec<&mut Vector> = Vec::new();
    for vector in vectors {
        let at =
            domain_now(topology, vector).and_then(|now| domains.iter().position(|domain| *domain == now));
        match at {
            Some(at) => vector.domain = domains.remove(at),
            None => open.push(vector),
        }
    }
    open.into_iter().zip(domains).for_each(|(vector, domain)| vector.domain = domain);
}

/// Vectors for which a domain has no CPU, as far as they may leave it, go to another one, but to none that is poor: all its CPUs
/// are slow, or full of programs. Those already outside go first.
fn spill(
    topology: &CpuTopology,
    vectors: &mut [Vector],
    load: &mut [usize],
    (leaving, poor): (&[usize], &[bool]),
) {
    let room = |load: &[usize], at: usize| {
        if poor[at] { 0 } else { topology.domains[at].usable.len().saturating_sub(load[at]) }
    };
    for full in 0..load.len() {
        let surplus = load[full].saturating_sub(topology.domains[full].usable.len()).min(leaving[full]);
        if surplus == 0 {
            continue;
        }
        let may = |vector: &Vector| leaving[full] == usize::MAX || is_outside(topology, vector, full);
        let inside = (0..vectors.len()).rev().filter(|at| vectors[*at].domain == full && may(&vectors[*at]));
        let (outside, others): (Vec<usize>, Vec<usize>) =
            inside.partition(|at| domain_now(topology, &vectors[*at]).is_some_and(|now| now != full));
        for at in outside.into_iter().chain(others).take(surplus) {
            let now = domain_now(topology, &vectors[at]).filter(|now| *now != full && room(load, *now) > 0);
            let with_room = (0..load.len()).filter(|other| room(load, *other) > 0);
            let emptiest = || with_room.max_by(|a, b| room(load, *a).cmp(&room(load, *b)).then(b.cmp(a)));
            let Some(to) = now.or_else(emptiest) else { break };
            load[full] -= 1;
            load[to] += 1;
            vectors[at].domain = to;
        }
    }
}

/// A CPU of the domain for each vector of it, and a description.
fn cpus(domain: &Domain, vectors: &[&Vector]) -> Vec<(CpuId, &'static str)> {
    let count = vectors.len();
    let (places, how, already) = if count <= domain.cores.len() {
        (&domain.cores, "its own core", "its own core, where it lands now")
    } else if count <= domain.usable.len() {
        (&domain.usable, "its own CPU", "its own CPU, where it lands now")
    } else {
        (&domain.usable, SHARED, SHARED)
    };
    let is_shared = count > places.len();
    if is_shared && let Some(even) = by_load(places, vectors) {
        return even.into_iter().map(|cpu| (cpu, how)).collect();
    }
    let mut slots: Vec<usize> = if is_shared {
        (0..count).map(|turn| turn % places.len().max(1)).collect()
    } else {
        (0..count).map(|turn| turn * places.len() / count).collect()
    };
    // A vector that is already in its place stays, and the slot nearest to it is reserved.
    let ranks = ranks(domain, places);
    let mut kept: Vec<Option<CpuId>> = Vec::new();
    let mut taken = vec![false; places.len()];
    for vector in vectors {
        let now = vector.now.filter(|_| is_shared || vector.has_room);
        let rank = now.and_then(|now| ranks.get(&now).copied());
        let slot = rank.and_then(|rank| {
            let nearest = (0..slots.len()).min_by_key(|at| (slots[*at].abs_diff(rank), *at));
            if is_shared { nearest.filter(|at| slots[*at] == rank) } else { nearest.filter(|_| !taken[rank]) }
        });
        if let (Some(slot), Some(rank)) = (slot, rank) {
            taken[rank] = true;
            slots.remove(slot);
        }
        kept.push(now.filter(|_| slot.is_some()));
    }
    let mut slots = slots.into_iter();
    kept.into_iter()
        .map_while(|kept| match kept {
            Some(cpu) => Some((cpu, already)),
            None => slots.next().map(|slot| (places[slot], how)),
        })
        .collect()
}

/// Shared CPUs for vectors that keep them busy, by their times: the longest first, each to the CPU that has least. Those
/// that are about as even where they land now stay there. `None` if none would be busy.
fn by_load(places: &[CpuId], vectors: &[&Vector]) -> Option<Vec<CpuId>> {
    let (even, least) = shared_out(places, vectors, 0.0)?;
    let (kept, most) = shared_out(places, vectors, least * UNEVEN)?;
    let chosen = if most <= least * UNEVEN { kept } else { even };
    let stays = vectors.iter().zip(&chosen).all(|(vector, cpu)| vector.now == Some(*cpu));
    (least > if stays { EVEN_WHILE } else { EVEN_FROM }).then_some(chosen)
}

/// A CPU for each vector, and the time of the busiest CPU. A vector stays if its CPU then has at most the time `enough`.
fn shared_out(places: &[CpuId], vectors: &[&Vector], enough: f64) -> Option<(Vec<CpuId>, f64)> {
    let mut longest: Vec<usize> = (0..vectors.len()).collect();
    longest.sort_by(|a, b| vectors[*b].time.total_cmp(&vectors[*a].time));
    let mut times: Vec<f64> = vec![0.0; places.len()];
    let mut cpus = vec![*places.first()?; vectors.len()];
    for at in longest {
        let Vector { now, time, .. } = vectors[at];
        let now = places.iter().position(|place| Some(*place) == *now);
        let stays = now.filter(|now| times[*now] + time <= enough);
        let least = || (0..places.len()).min_by(|a, b| times[*a].total_cmp(&times[*b]));
        let to = stays.or_else(least)?;
        times[to] += time;
        cpus[at] = places[to];
    }
    Some((cpus, times.into_iter().fold(0.0, f64::max)))
}

/// For each usable CPU of the domain, the index of its core, or of itself, in `places`.
fn ranks(domain: &Domain, places: &[CpuId]) -> BTreeMap<CpuId, usize> {
    let mut rank = 0;
    let ranked = domain.usable.iter().map(|cpu| {
        // The CPUs of a core follow the first of them.
        if places.get(rank + 1) == Some(cpu) {
            rank += 1;
        }
        (*cpu, rank)
    });
    ranked.collect()
}

/// Describes the node, and the reason for it.
fn place(topology: &CpuTopology, vector: &Vector) -> String {
    let Some(node) = topology.domains[vector.domain].node else { return String::new() };
    match (vector.node, vector.home) {
        (Some(own), _) if own == node => format!("node {node}, where the device is; "),
        (Some(own), Some(_)) => {
            format!(
                "node {node}, because the interrupts would share the CPUs of the device's node {own} and keep them busy; "
            )
        }
        (Some(own), None) => {
            format!("node {node}, because no CPU of the device's node {own} may be used; ")
        }
        (None, _) if topology.domains.len() > 1 => {
            format!("node {node}, because the device's node is unknown; ")
        }
        _ => String::new(),
    }
}

/// The queues that have an interrupt, those that share one together.
fn by_interrupt(nic: &Nic) -> Vec<(IrqId, Vec<u32>)> {
    let mut seen: BTreeMap<IrqId, usize> = BTreeMap::new();
    let mut vectors: Vec<(IrqId, Vec<u32>)> = Vec::new();
    for queue in &nic.rx {
        let Some(first) = queue.irqs.first() else { continue };
        let at = *seen.entry(first.number).or_insert(vectors.len());
        if at == vectors.len() {
            vectors.push((first.number, Vec::new()));
        }
        vectors[at].1.push(queue.index);
    }
    vectors
}

/// A domain for each of `count` interrupts; empty if no domain has a CPU.
fn spread(topology: &CpuTopology, count: usize, load: &[usize]) -> Vec<usize> {
    let domains = &topology.domains;
    let mut with_cpus: Vec<usize> = (0..domains.len()).filter(|at| !domains[*at].usable.is_empty()).collect();
    if count < with_cpus.len() {
        // Fewest interrupts per core first; the sort is stable.
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
