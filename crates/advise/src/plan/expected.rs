//! Receive work by queue, estimated from a sample, and the rates that it makes once interrupts and masks are
//! elsewhere.
//!
//! Queues share the receive time of CPUs by their packets: all of a queue's work is where its interrupt lands, or
//! with a mask a part of it there and the rest, which costs more then, on the CPUs of the mask. The estimate is
//! corrected until it explains the times that were measured. What no queue explains stays where it is.
//!
//! Planning by the current load of the new CPU would find it idle, and another one next time.

use std::collections::{BTreeMap, BTreeSet};

use super::moves::Cost;
use super::share::{Machine, receive_work};
use super::step::rfs;
use super::topology::CpuTopology;
use rxlab_base::units::{CpuId, CpuMask, IrqId};
use rxlab_path::evidence::{MAX_PACKET_COST, TRAFFIC, is_counted, queue_packets};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, Rates, RxQueue};
use rxlab_setting::simulation;

/// Corrections of the first estimate at most; each comes closer to what was measured.
const CORRECTIONS: usize = 64;

/// Part of a CPU's time, or of a device's packets, that needs no correction.
const EXACT: f64 = 0.001;

/// Part of the rate of a device's busiest interrupt from which another probably serves a queue too.
const FIRES: f64 = 0.1;

/// The CPUs that receive the packets of a queue.
#[derive(Clone, PartialEq)]
struct Path {
    /// `None` if it is not known where they arrive: then only the work on the CPUs of the mask is known to move.
    home: Option<CpuId>,
    mask: CpuMask,
}

/// Parts of a queue's work on one CPU.
struct Part {
    cpu: CpuId,
    /// Receive time, relative to that without a mask.
    time: f64,
    /// Packets that go up the stack.
    packets: f64,
}

/// A queue and the work that it brings.
struct Source {
    nic: usize,
    queue: usize,
    path: Path,
    packets: f64,
    /// Receive time as a fraction of wall time, if its packets are not handed on.
    time: f64,
}

/// Change of what a CPU receives.
#[derive(Default, Clone, Copy)]
struct Change {
    time: f64,
    packets: f64,
    runs: f64,
}

impl Path {
    /// The path of a queue's packets, which come to `otherwise` if their CPU is not known.
    fn new(machine: &Machine<'_>, queue: &RxQueue, otherwise: Option<CpuId>) -> Self {
        let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
        Self { home: machine.home(queue).or(otherwise), mask }
    }

    /// Parts of the work. The interrupt's CPU keeps what would go to CPUs of the mask that are offline
    /// (get_rps_cpu).
    fn parts(&self, online: &CpuMask) -> Vec<Part> {
        let at_home = |time: f64, packets: f64| self.home.map(|cpu| Part { cpu, time, packets }).into_iter();
        if self.mask.is_empty() {
            return at_home(1.0, 1.0).collect();
        }
        let Cost { kept, handed } = Cost::fixed(NicKind::Device);
        let each = 1.0 / self.mask.len() as f64;
        let stays = self.mask.difference(online).len() as f64 * each;
        let home = at_home(kept + (1.0 - kept) * stays, stays);
        let there = self.mask.intersection(online);
        let others = there.iter().map(|cpu| Part { cpu, time: handed * each, packets: each });
        home.chain(others).collect()
    }
}

/// The place that gets most of the packets that are not counted by queue, as far as the packets of CPUs allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Most {
    /// A queue, by the indices of its interface and of itself in the model, and those that no source tells apart from it.
    Queue(usize, usize),
    /// The interrupts of other network namespaces.
    Foreign,
}

/// Factor of the first estimate for [`Most`].
const MOST: f64 = 16.0;

/// Queues of an interface for which [`Most`] is tried.
const TRIED: usize = 4;

/// The receive work of a sampled machine.
pub(super) struct Work<'a> {
    model: &'a Model,
    rates: &'a Rates,
    sources: Vec<Source>,
    /// By interface: interrupts of no known queue that fire.
    firing: Vec<Vec<IrqId>>,
}

impl<'a> Work<'a> {
    /// Estimates the work of every queue, with packets that are not counted by queue shared out as evenly as the sample allows.
    pub(super) fn new(model: &'a Model, rates: &'a Rates, topology: &CpuTopology) -> Self {
        Self::with(model, rates, topology, None)
    }

    /// The same, but with most packets in one place.
    pub(super) fn with(
        model: &'a Model,
        rates: &'a Rates,
        topology: &CpuTopology,
        most: Option<Most>,
    ) -> Self {
        let machine = Machine { model, rates, topology };
        let firing: Vec<Vec<IrqId>> = model.nics.iter().map(|nic| firing(nic, rates)).collect();
        let mut sources = Vec::new();
        for (at, nic) in devices(model) {
            for (queue, rx) in nic.rx.iter().enumerate() {
                let path = Path::new(&machine, rx, guessed(nic, rx, &firing[at]));
                let packets = queue_packets(nic, rx, rates);
                sources.push(Source { nic: at, queue, path, packets, time: 0.0 });
            }
        }
        let parts_of = |source: &Source| source.path.parts(&topology.online);
        let mut parts: Vec<Vec<Part>> = sources.iter().map(parts_of).collect();
        infer(model, rates, &mut sources, &parts, most);
        let foreign = foreign(model, rates, &sources, &parts);
        let own = sources.len();
        parts.extend(foreign.iter().map(parts_of));
        sources.extend(foreign);
        let all: f64 = devices(model).map(|(_, nic)| rates.rx_packets(&nic.name)).sum();
        let usual = rates.cpus.iter().map(receive_work).sum::<f64>() / all.max(1.0);
        for (source, parts) in sources.iter_mut().zip(&parts) {
            // No CPU tells the work of packets that arrive somewhere.
            let each = if parts.is_empty() { usual.min(MAX_PACKET_COST) } else { MAX_PACKET_COST };
            source.time = source.packets * each;
        }
        let measured = by_cpu(rates, |cpu| cpu.softirq.max(cpu.ksoftirqd));
        for _ in 0..CORRECTIONS {
            let explained = sums(&sources, &parts, &measured, |source, part| source.time * part.time);
            let mut most = 0.0f64;
            for (source, parts) in sources.iter_mut().zip(&parts).filter(|(_, parts)| !parts.is_empty()) {
                let all: f64 = parts.iter().map(|part| part.time).sum();
                let off = off(parts, &measured, &explained, |part| part.time) / all;
                let time = (source.time * off).min(source.packets * MAX_PACKET_COST);
                most = most.max((time - source.time).abs());
                source.time = time;
            }
            if most < EXACT {
                break;
            }
        }
        sources.truncate(own);
        Self { model, rates, sources, firing }
    }

    /// Other ways to share out packets that are not counted by queue.
    pub(super) fn others(&self) -> Vec<Most> {
        let mut others = Vec::new();
        for nic in uncounted(self.model, self.rates, &self.sources) {
            let mut paths: Vec<&Path> = Vec::new();
            let own = self.sources.iter().filter(|source| source.nic == nic);
            let apart: Vec<usize> = own
                .filter(|source| {
                    let is_new = !paths.contains(&&source.path);
                    paths.push(&source.path);
                    is_new
                })
                .map(|source| source.queue)
                .collect();
            let tried = apart.len().min(TRIED);
            if tried > 1 {
                others.extend(
                    (0..tried).map(|turn| Most::Queue(nic, apart[turn * (apart.len() - 1) / (tried - 1)])),
                );
            }
        }
        if !others.is_empty() && !foreign_cpus(self.model, self.rates).is_empty() {
            others.push(Most::Foreign);
        }
        others
    }

    /// Receive time of each CPU in the worst case, once queues, interrupts and masks are as in `after`: queues that are not counted
    /// may have brought all of the time of their CPUs, and what leaves a CPU may have brought none where others stay.
    pub(super) fn worst(&self, after: &Model, topology: &CpuTopology) -> Vec<f64> {
        let online = &topology.online;
        let measured = by_cpu(self.rates, receive_work);
        let at = |cpu: CpuId| measured.get(cpu.0 as usize).copied().unwrap_or_default();
        let mut worst = measured.clone();
        let mut add = |cpu: CpuId, time: f64| {
            if let Some(sum) = worst.get_mut(cpu.0 as usize) {
                *sum += time;
            }
        };
        let is_uncounted = |source: &Source| {
            let nic = &self.model.nics[source.nic];
            !is_counted(nic, &nic.rx[source.queue], self.rates)
        };
        // What comes to an unknown CPU may be part of the time of any: then no packet is known to cost more than the others.
        let all: f64 = self.sources.iter().map(|source| source.packets).sum();
        let usual = self.rates.cpus.iter().map(receive_work).sum::<f64>() / all.max(1.0);
        let is_hidden = |source: &Source| source.path.home.is_none() && source.packets >= TRAFFIC;
        let some_hidden = self.sources.iter().any(is_hidden);
        // CPUs where a queue that stays may explain the time, and the most that comes from a CPU to another.
        let mut explained = CpuMask::new();
        let mut changed = Vec::new();
        for source in &self.sources {
            let paths = self.paths(source, after, topology);
            if !matches!(&paths[..], [path] if *path == source.path) {
                changed.push((source, paths));
            } else if is_uncounted(source) {
                source.path.parts(online).iter().for_each(|part| explained.insert(part.cpu));
            }
        }
        let mut most: BTreeMap<(Option<CpuId>, CpuId), (f64, f64)> = BTreeMap::new();
        for (source, paths) in changed {
            let (before, is_uncounted) = (source.path.parts(online), is_uncounted(source));
            let bound = before.iter().map(|part| at(part.cpu) / part.time).reduce(f64::min);
            let time = source.time.max(bound.filter(|_| is_uncounted).unwrap_or_default());
            let each = 1.0 / paths.len().max(1) as f64;
            for part in paths.iter().flat_map(|path| path.parts(online)) {
                let comes = part.time * each;
                if is_uncounted {
                    let (sum, ratio) = most.entry((source.path.home, part.cpu)).or_default();
                    let kept = before.first().map_or(1.0, |part| part.time);
                    (*sum, *ratio) = (*sum + comes * time, ratio.max(comes / kept));
                } else {
                    add(part.cpu, comes * time);
                }
            }
            let leaves = if some_hidden { source.time.min(source.packets * usual) } else { source.time };
            for part in before.iter().filter(|part| !is_uncounted || !explained.contains(part.cpu)) {
                add(part.cpu, -part.time * leaves);
            }
        }
        for ((home, cpu), (sum, ratio)) in most {
            add(cpu, home.map_or(sum, |home| sum.min(ratio * at(home))));
        }
        worst
    }

    /// The paths of a queue's packets in `after`: several if their interface gets another number of queues; none if it is gone.
    fn paths(&self, source: &Source, after: &Model, topology: &CpuTopology) -> Vec<Path> {
        let machine = Machine { model: after, rates: self.rates, topology };
        let (Some(nic), was) = (after.nics.get(source.nic), &self.model.nics[source.nic]) else {
            return vec![source.path.clone()];
        };
        let queues = if nic.rx.len() == was.rx.len() {
            nic.rx.get(source.queue..=source.queue).unwrap_or_default()
        } else {
            &nic.rx[..]
        };
        let path = |queue: &RxQueue| {
            let is_new = queue.index as usize >= was.rx.len();
            let otherwise = if is_new {
                asked_for(queue, &topology.online)
            } else {
                guessed(nic, queue, &self.firing[source.nic])
            };
            Path::new(&machine, queue, otherwise)
        };
        queues.iter().map(path).collect()
    }

    /// The rates once queues, interrupts and masks are as in `after`. Programs use the same part of what receiving
    /// leaves. Above 1 where there is more work than time.
    pub(super) fn rates(&self, after: &Model, topology: &CpuTopology) -> Rates {
        let mut changes: BTreeMap<CpuId, Change> = BTreeMap::new();
        let homes = self.packets_of_homes();
        for source in &self.sources {
            let paths = self.paths(source, after, topology);
            if matches!(&paths[..], [path] if *path == source.path) {
                continue;
            }
            let runs = source
                .path
                .home
                .and_then(|home| Some(self.rates.cpu(home)?.net_rx * source.packets / homes[&home].max(1.0)));
            let own = Change { time: source.time, packets: source.packets, runs: runs.unwrap_or_default() };
            own.along(&source.path, &topology.online, -1.0, &mut changes);
            let each = 1.0 / paths.len().max(1) as f64;
            for path in paths {
                own.along(&path, &topology.online, each, &mut changes);
            }
        }
        let mut expected = self.changed(&changes);
        for (at, nic) in devices(self.model) {
            let counts = expected.nics.iter_mut().find(|rates| rates.name == nic.name);
            if let Some(counts) = counts
                && after.nics.get(at).is_some_and(|after| after.rx.len() != nic.rx.len())
            {
                counts.queues.clear();
            }
        }
        expected
    }

    /// Packets/s that interrupts bring to each CPU.
    fn packets_of_homes(&self) -> BTreeMap<CpuId, f64> {
        let mut packets: BTreeMap<CpuId, f64> = BTreeMap::new();
        for source in &self.sources {
            if let Some(home) = source.path.home {
                *packets.entry(home).or_default() += source.packets;
            }
        }
        packets
    }

    fn changed(&self, changes: &BTreeMap<CpuId, Change>) -> Rates {
        let mut rates = self.rates.clone();
        for cpu in &mut rates.cpus {
            let Some(change) = changes.get(&cpu.cpu) else { continue };
            let before = receive_work(cpu);
            let time = cpu.softirq.max(cpu.ksoftirqd);
            let then = (time + change.time).max(0.0);
            if time > 0.0 {
                (cpu.softirq, cpu.ksoftirqd) = (cpu.softirq * then / time, cpu.ksoftirqd * then / time);
            } else {
                cpu.softirq = then;
            }
            cpu.packets = (cpu.packets + change.packets).max(0.0);
            cpu.net_rx = (cpu.net_rx + change.runs).max(0.0);
            let then = receive_work(cpu);
            if before < 1.0 && then != before {
                cpu.idle = (1.0 - then) * cpu.idle / (1.0 - before);
            }
        }
        rates
    }
}

impl Change {
    /// Adds a part of itself to the CPUs of a path.
    fn along(&self, path: &Path, online: &CpuMask, part: f64, changes: &mut BTreeMap<CpuId, Change>) {
        for Part { cpu, time, packets } in path.parts(online) {
            let change = changes.entry(cpu).or_default();
            change.time += self.time * time * part;
            change.packets += self.packets * packets * part;
        }
        if let Some(home) = path.home {
            changes.entry(home).or_default().runs += self.runs * part;
        }
    }
}

/// Shares out the packets of devices that count none by queue, so that they explain best how many go up the stack on each
/// CPU. Queues whose CPUs are the same keep the same number. Not with RFS, which sends packets to other CPUs. What interrupts of
/// other network namespaces bring explains the rest of what comes to their CPUs.
///
/// Only simulations use it: what it tells apart is lost once interrupts share a CPU, and the next plan would differ.
fn infer(model: &Model, rates: &Rates, sources: &mut [Source], parts: &[Vec<Part>], most: Option<Most>) {
    let mut uncounted = uncounted(model, rates, sources);
    uncounted.retain(|at| !rfs::is_on(model, &model.nics[*at]));
    let measured = by_cpu(rates, |cpu| cpu.packets);
    let all: f64 = sources.iter().map(|source| source.packets).sum();
    let surplus = (measured.iter().sum::<f64>() - all).max(0.0);
    let cpus = foreign_cpus(model, rates);
    let mut strangers: Vec<(usize, f64)> =
        cpus.iter().map(|cpu| (cpu.0 as usize, surplus / cpus.len() as f64)).collect();
    strangers.retain(|(at, _)| *at < measured.len());
    match most {
        Some(Most::Queue(nic, queue)) => {
            let first = sources.iter().find(|source| (source.nic, source.queue) == (nic, queue));
            let path = first.map(|source| source.path.clone());
            let alike =
                sources.iter_mut().filter(|source| source.nic == nic && Some(&source.path) == path.as_ref());
            alike.for_each(|source| source.packets *= MOST);
            let own = || sources.iter().filter(|source| source.nic == nic).map(|source| source.packets);
            let part = rates.rx_packets(&model.nics[nic].name) / own().sum::<f64>().max(1.0);
            sources.iter_mut().filter(|source| source.nic == nic).for_each(|source| source.packets *= part);
        }
        Some(Most::Foreign) => strangers.iter_mut().for_each(|(_, packets)| *packets *= MOST),
        None => {}
    }
    for _ in 0..CORRECTIONS {
        let mut explained = sums(sources, parts, &measured, |source, part| source.packets * part.packets);
        strangers.iter().for_each(|(at, packets)| explained[*at] += packets);
        for (at, packets) in &mut strangers {
            *packets *= measured[*at] / explained[*at].max(f64::MIN_POSITIVE);
        }
        let mut of_nics: BTreeMap<usize, f64> = BTreeMap::new();
        let mut before = Vec::new();
        let of_nic = |source: &Source| uncounted.contains(&source.nic);
        for (source, parts) in sources.iter_mut().zip(parts).filter(|(source, _)| of_nic(source)) {
            before.push(source.packets);
            source.packets *= off(parts, &measured, &explained, |part| part.packets);
            *of_nics.entry(source.nic).or_default() += source.packets;
        }
        let mut most = 0.0f64;
        for (source, before) in sources.iter_mut().filter(|source| of_nic(source)).zip(before) {
            let all = rates.rx_packets(&model.nics[source.nic].name);
            let of_nic = of_nics[&source.nic];
            source.packets = if of_nic > 0.0 { source.packets * all / of_nic } else { before };
            most = most.max((source.packets - before).abs() / all.max(1.0));
        }
        if most < EXACT {
            break;
        }
    }
}

/// The devices that count no packets by queue, by their index in the model. Without those of which packets come to an unknown CPU.
fn uncounted(model: &Model, rates: &Rates, sources: &[Source]) -> BTreeSet<usize> {
    let is_uncounted = |nic: &Nic| !nic.rx.iter().any(|queue| is_counted(nic, queue, rates));
    let mut uncounted: BTreeSet<usize> =
        devices(model).filter(|(_, nic)| is_uncounted(nic)).map(|(at, _)| at).collect();
    let online = model.online();
    let is_hidden = |source: &&Source| source.path.parts(&online).is_empty();
    for source in sources.iter().filter(is_hidden) {
        uncounted.remove(&source.nic);
    }
    uncounted
}

/// A rate of each CPU, by its number.
fn by_cpu(rates: &Rates, rate: impl Fn(&CpuRates) -> f64) -> Vec<f64> {
    let width = rates.cpus.iter().map(|cpu| cpu.cpu.0 as usize + 1).max().unwrap_or_default();
    let mut values = vec![0.0; width];
    rates.cpus.iter().for_each(|cpu| values[cpu.cpu.0 as usize] = rate(cpu));
    values
}

/// Sum of the estimates of all sources on each measured CPU.
fn sums(
    sources: &[Source],
    parts: &[Vec<Part>],
    measured: &[f64],
    value: impl Fn(&Source, &Part) -> f64,
) -> Vec<f64> {
    let mut sums = vec![0.0; measured.len()];
    for (source, part) in
        sources.iter().zip(parts).flat_map(|(source, parts)| parts.iter().map(move |part| (source, part)))
    {
        if let Some(sum) = sums.get_mut(part.cpu.0 as usize) {
            *sum += value(source, part);
        }
    }
    sums
}

/// Measured values of the CPUs of a source relative to the estimates, by its parts there.
fn off(parts: &[Part], measured: &[f64], sums: &[f64], value: impl Fn(&Part) -> f64) -> f64 {
    let at = |values: &[f64], part: &Part| values.get(part.cpu.0 as usize).copied().unwrap_or_default();
    parts.iter().map(|part| value(part) * at(measured, part) / at(sums, part).max(f64::MIN_POSITIVE)).sum()
}

/// Work that interrupts of other network namespaces bring, and that never moves: what else goes up the stack on their CPUs.
fn foreign(model: &Model, rates: &Rates, sources: &[Source], parts: &[Vec<Part>]) -> Vec<Source> {
    let measured = by_cpu(rates, |cpu| cpu.packets);
    let own = sums(sources, parts, &measured, |source, part| source.packets * part.packets);
    let rest = |home: CpuId| {
        let packets = (measured.get(home.0 as usize)? - own.get(home.0 as usize)?).max(0.0);
        let path = Path { home: Some(home), mask: CpuMask::new() };
        Some(Source { nic: usize::MAX, queue: 0, path, packets, time: 0.0 })
    };
    foreign_cpus(model, rates).iter().filter_map(rest).collect()
}

/// CPUs where interrupts of no interface here fire.
fn foreign_cpus(model: &Model, rates: &Rates) -> CpuMask {
    let own: BTreeSet<IrqId> = model.nics.iter().flat_map(simulation::all_irqs).collect();
    let others = rates.irqs.iter().filter(|irq| !own.contains(&irq.irq)).flat_map(|irq| &irq.per_cpu);
    others.filter(|(_, rate)| **rate >= TRAFFIC).map(|(cpu, _)| *cpu).collect()
}

/// Interrupts of a device that fire, but are not known to be a queue's; none if its queues' are known.
fn firing(nic: &Nic, rates: &Rates) -> Vec<IrqId> {
    if nic.rx.iter().all(|queue| !queue.irqs.is_empty()) {
        return Vec::new();
    }
    let rate = |irq: IrqId| {
        let found = rates.irqs.iter().find(|rates| rates.irq == irq);
        found.map_or(0.0, |irq| irq.per_cpu.values().sum::<f64>())
    };
    let rates: Vec<(IrqId, f64)> = nic.other_irqs.iter().map(|irq| (irq.number, rate(irq.number))).collect();
    let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    rates.into_iter().filter(|(_, rate)| most > 0.0 && *rate >= most * FIRES).map(|(irq, _)| irq).collect()
}

/// The CPU that probably takes the packets of a queue whose interrupt is not known: those that fire serve the queues in
/// turn.
fn guessed(nic: &Nic, queue: &RxQueue, firing: &[IrqId]) -> Option<CpuId> {
    let number = firing.get(queue.index as usize % firing.len().max(1))?;
    nic.other_irqs.iter().find(|irq| irq.number == *number)?.effective.known()?.first()
}

/// The CPU that drivers ask for when they add a queue: one after the other, from the first.
fn asked_for(queue: &RxQueue, online: &CpuMask) -> Option<CpuId> {
    online.iter().nth(queue.index as usize % online.len().max(1))
}

/// The CPU with most receive work, and that work.
pub(super) fn hottest(rates: &Rates) -> Option<(CpuId, f64)> {
    let work = rates.cpus.iter().map(|cpu| (cpu.cpu, receive_work(cpu)));
    work.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Devices that bring packets: those of a paravirtual one above a virtual function are that function's.
fn devices(model: &Model) -> impl Iterator<Item = (usize, &Nic)> {
    let devices = model.nics.iter().enumerate().filter(|(_, nic)| nic.kind == NicKind::Device);
    devices.filter(|(_, nic)| model.carriers(nic).is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Most, Work};
    use crate::plan::topology::CpuTopology;
    use rxlab_base::units::{CpuId, IrqId};
    use rxlab_path::model::{Fact, IrqRates, Model, Rates};
    use rxlab_path::sketch::{Sketch, cpus};

    fn times(rates: &Rates) -> Vec<u32> {
        rates.cpus.iter().map(|cpu| (cpu.softirq * 1e3).round() as u32).collect()
    }

    fn carried(before: &Model, rates: &Rates, after: &Model) -> Rates {
        let topology = CpuTopology::new(before);
        Work::new(before, rates, &topology).rates(after, &topology)
    }

    fn send(model: &Model, queue: usize, cpu: &str) -> Model {
        let mut model = model.clone();
        let irq = &mut model.nics[0].rx[queue].irqs[0];
        (irq.affinity, irq.effective) = (Fact::Known(cpus(cpu)), Fact::Known(cpus(cpu)));
        model
    }

    #[test]
    fn uncounted_packets_may_be_shared_out_otherwise() {
        let sketch = Sketch::new(4).device("eth0", &[0, 1]).device("eth1", &[0, 1]);
        let sketch = sketch.traffic("eth0", 2e4).traffic("eth1", 2e4);
        let (model, rates) = sketch.receives(0, 0.6, 3e4).receives(1, 0.2, 1e4).build();
        let (topology, after) = (CpuTopology::new(&model), send(&model, 0, "2"));
        let moved = |most| times(&Work::with(&model, &rates, &topology, most).rates(&after, &topology))[2];
        assert!((290..310).contains(&moved(None)), "half of it");
        assert!((370..400).contains(&moved(Some(Most::Queue(0, 0)))), "all packets of eth0");
        assert!((200..230).contains(&moved(Some(Most::Queue(1, 0)))), "all packets of eth1");
        let others = |model: &Model| Work::new(model, &rates, &topology).others();
        assert_eq!(
            others(&model),
            [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(nic, queue)| Most::Queue(nic, queue))
        );
        assert_eq!(
            others(&send(&send(&model, 0, "1"), 1, "1")).len(),
            2,
            "only eth1 has queues that can be told apart"
        );
    }

    #[test]
    fn work_goes_where_its_interrupt_goes_by_packets() {
        let sketch = Sketch::new(4).device("eth0", &[0, 0]).queue_traffic("eth0", &[3e4, 1e4]);
        let (model, rates) = sketch.receives(0, 0.8, 4e4).build();
        let after = |model_after: &Model| carried(&model, &rates, model_after);
        assert_eq!(after(&model), rates, "nothing has moved");
        assert_eq!(times(&after(&send(&model, 0, "3"))), [200, 5, 5, 605]);
        assert_eq!(times(&after(&send(&send(&model, 0, "1"), 1, "1"))), [0, 805, 5, 5]);
        assert_eq!(after(&send(&model, 1, "2")).cpus[2].packets, 10_030.0);
    }

    /// Two interrupts that swap CPUs: neither takes the other's work along.
    #[test]
    fn what_has_come_does_not_go_on() {
        let sketch = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 2e4);
        let (model, rates) = sketch.receives(0, 0.9, 1e4).receives(1, 0.1, 1e4).build();
        let swapped = send(&send(&model, 0, "1"), 1, "0");
        assert_eq!(times(&carried(&model, &rates, &swapped)), [100, 900]);
    }

    #[test]
    fn new_queues_share_the_work_of_their_interface() {
        let sketch = Sketch::new(4).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).receives(0, 0.8, 4e4);
        let (model, rates) = sketch.build();
        let (after, _) = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).build();
        let carried = carried(&model, &rates, &after);
        assert_eq!(times(&carried), [200, 205, 205, 205]);
        assert!(carried.nics[0].queues.is_empty(), "how many packets each has is unknown");
    }

    /// One of two queues is full of packets, and none is counted: the times of the masks' CPUs tell which.
    #[test]
    fn measured_times_tell_which_queue_brings_the_work() {
        let sketch = Sketch::new(4).device("eth0", &[0, 1]).traffic("eth0", 8e4);
        let (model, rates) = sketch.receives(0, 0.8, 7e4).receives(1, 0.1, 1e4).build();
        let mut masked = model.clone();
        masked.nics[0].rx[0].rps_cpus = Fact::Known(cpus("2-3"));
        let after = carried(&model, &rates, &masked);
        assert_eq!(times(&after), [384, 100, 221, 221], "0.48 stays, and 0.5408 goes");
        assert_eq!(times(&carried(&masked, &after, &model)), [805, 100, 2, 2], "nearly the same back");
    }

    /// Packets of a device of another namespace once moved with an interrupt without packets.
    #[test]
    fn work_without_packets_stays() {
        let sketch = Sketch::new(2).device("eth0", &[0]).queue_traffic("eth0", &[0.0]).receives(0, 0.9, 4e4);
        let (model, mut rates) = sketch.build();
        assert_eq!(times(&carried(&model, &rates, &send(&model, 0, "1"))), [900, 5]);
        rates.nics[0].rx_packets = 2e4;
        rates.nics[0].queues = [(0, 2e4)].into();
        assert_eq!(times(&carried(&model, &rates, &send(&model, 0, "1"))), [0, 905]);
        let per_cpu = [(CpuId(0), 1e4)].into();
        rates.irqs.push(IrqRates { irq: IrqId(99), action: "eno1".to_owned(), per_cpu });
        assert_eq!(times(&carried(&model, &rates, &send(&model, 0, "1"))), [450, 455], "half of the packets");
    }

    /// Queues that are not counted: the packets of the CPUs tell which brings how many, and masks may swap them.
    #[test]
    fn packets_of_cpus_tell_those_of_queues() {
        let sketch = Sketch::new(2).device("eth0", &[0, 1]).traffic("eth0", 8e4);
        let (mut model, rates) = sketch.receives(0, 0.5, 7e4).receives(1, 0.5, 1e4).build();
        model.nics[0].rx[0].rps_cpus = Fact::Known(cpus("1"));
        model.nics[0].rx[1].rps_cpus = Fact::Known(cpus("0"));
        let mut after = model.clone();
        after.nics[0].rx.iter_mut().for_each(|queue| queue.rps_cpus = Fact::Known(cpus("")));
        let then = carried(&model, &rates, &after);
        assert!(then.cpus[1].softirq > 4.0 * then.cpus[0].softirq, "{then:?}");
    }

    /// A queue that nothing counts had the packets of an interrupt of another namespace, and took their work along.
    #[test]
    fn packets_of_another_namespace_are_no_queue_s() {
        let sketch = Sketch::new(3).device("eth0", &[0, 1]).traffic("eth0", 4e4).receives(0, 0.1, 1e4);
        let (model, mut rates) = sketch.receives(1, 0.9, 9e4).build();
        let per_cpu = [(CpuId(1), 1e4)].into();
        rates.irqs.push(IrqRates { irq: IrqId(99), action: "eno1".to_owned(), per_cpu });
        assert_eq!(times(&carried(&model, &rates, &send(&model, 1, "2"))), [100, 600, 305], "3e4 of 9e4");
    }

    /// Packets once came to the busiest CPU if it was not known where, and took its work along.
    #[test]
    fn work_from_an_unknown_cpu_is_added_to_the_mask() {
        let sketch = Sketch::new(3).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).receives(0, 0.6, 3e4);
        let (mut model, rates) = sketch.receives(1, 0.4, 1e4).build();
        model.nics[0].rx[0].irqs.clear();
        let mut after = model.clone();
        after.nics[0].rx[0].rps_cpus = Fact::Known(cpus("1-2"));
        let then = carried(&model, &rates, &after);
        assert_eq!(times(&then), [600, 672, 277], "half of 0.5408 each, of all receive time");
        assert_eq!(times(&carried(&after, &then, &model))[0], 600);
    }

    fn worst(before: &Model, rates: &Rates, after: &Model) -> Vec<u32> {
        let topology = CpuTopology::new(before);
        let worst = Work::new(before, rates, &topology).worst(after, &topology);
        worst.into_iter().map(|time| (time * 1e3).round() as u32).collect()
    }

    /// Interrupts were once sent to a CPU because half of the work of theirs was expected to come along: all of it came.
    #[test]
    fn an_uncounted_queue_may_bring_all_of_its_cpu() {
        let host = |counted: bool| {
            let sketch = Sketch::new(3).device("eth0", &[0, 0]).receives(0, 0.8, 8e4).receives(1, 0.3, 0.0);
            match counted {
                true => sketch.queue_traffic("eth0", &[4e4, 4e4]).build(),
                false => sketch.traffic("eth0", 8e4).build(),
            }
        };
        let (model, rates) = host(false);
        let moved = send(&model, 1, "1");
        assert_eq!(times(&carried(&model, &rates, &moved))[..2], [400, 700]);
        assert_eq!(worst(&model, &rates, &moved)[..2], [800, 1100], "none of it leaves, or all");
        assert_eq!(worst(&model, &rates, &model)[..2], [800, 300], "nothing moves");
        let (model, rates) = host(true);
        assert_eq!(worst(&model, &rates, &send(&model, 1, "1"))[..2], [400, 700], "it is counted");
    }

    /// What comes to an unknown CPU once seemed to be the work of a queue whose interrupt moved away.
    #[test]
    fn a_counted_queue_takes_no_more_along_than_its_packets_cost() {
        let sketch = Sketch::new(2).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).device("eth1", &[0]);
        let sketch = sketch.queue_traffic("eth1", &[4e4]).receives(0, 0.8, 8e4);
        let (mut model, rates) = sketch.build();
        assert_eq!(worst(&model, &rates, &send(&model, 0, "1")), [400, 405]);
        model.nics[1].rx[0].irqs.clear();
        let worst = worst(&model, &rates, &send(&model, 0, "1"));
        assert_eq!(worst[0], 398, "half of all receive time is that of eth1");
    }

    /// Interrupts that do not say which queue they serve take its work along.
    #[test]
    fn work_of_unknown_queues_is_where_their_device_interrupts() {
        let sketch = Sketch::new(3).device("eth0", &[1]).queue_traffic("eth0", &[4e4]).receives(1, 0.4, 4e4);
        let (mut model, mut rates) = sketch.receives(0, 0.6, 0.0).build();
        let irq = model.nics[0].rx[0].irqs.remove(0);
        let per_cpu = [(CpuId(1), 1e4)].into();
        rates.irqs.push(IrqRates { irq: irq.number, action: "mlx4-1".to_owned(), per_cpu });
        model.nics[0].other_irqs.push(irq);
        let mut after = model.clone();
        after.nics[0].other_irqs[0].effective = Fact::Known(cpus("2"));
        assert_eq!(times(&carried(&model, &rates, &after)), [600, 0, 405]);
    }
}
