//! Receive work by queue, estimated from a sample, and the rates that it makes once interrupts and masks are
//! elsewhere.
//!
//! Queues share the receive time of CPUs by their packets: all of a queue's work is where its interrupt lands, or
//! with a mask a part of it there and the rest, which costs more then, on the CPUs of the mask. The estimate is
//! corrected until it explains the times that were measured. What no queue explains stays where it is.
//!
//! Planning by the current load of the new CPU would find it idle, and another one next time.

mod uncounted;

use std::collections::BTreeMap;

use super::machine::{Machine, receive_work};
use super::moves::Cost;
use super::topology::CpuTopology;
use crate::diagnose::before_steering;
use rxlab_base::units::{CpuId, CpuMask, Fact, IrqId};
use rxlab_path::evidence::{MAX_PACKET_COST, TRAFFIC, is_counted, queue_packets};
use rxlab_path::model::{Model, Nic, NicKind, Rates, RxQueue};
use rxlab_setting::simulation::is_to_come;
pub(super) use uncounted::Most;
use uncounted::{by_cpu, foreign, foreign_cpus, infer, off, sums, uncounted};

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
    /// True if the sampled machine has this queue: nothing is known of one that a plan adds.
    pub(super) fn has(&self, nic: &Nic, queue: &RxQueue) -> bool {
        self.model.nic(&nic.name).is_some_and(|nic| nic.rx.iter().any(|rx| rx.index == queue.index))
    }

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
                asked_for(nic, queue, &topology.online)
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
            // What XDP takes, no CPU counts.
            let is_taken = before_steering(&self.model.nics[source.nic], self.rates).is_some();
            let packets = if is_taken { 0.0 } else { source.packets };
            let own = Change { time: source.time, packets, runs: runs.unwrap_or_default() };
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
            } else if then < 1.0 && then != before {
                // Nothing shows how much of it programs would use.
                cpu.idle = 1.0 - then;
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

/// The CPU that drivers ask for when they add a queue: one after the other, from the first. VMBus takes those that have fewest
/// channels of the interface (init_vp_index).
fn asked_for(nic: &Nic, queue: &RxQueue, online: &CpuMask) -> Option<CpuId> {
    let channels = || nic.rx.iter().filter_map(|queue| queue.channel_cpu);
    let mut cpus: Vec<CpuId> = online.iter().collect();
    cpus.sort_by_key(|cpu| channels().filter(|channel| channel == cpu).count());
    let turn = (queue.index as usize).saturating_sub(channels().count());
    cpus.get(turn % cpus.len().max(1)).copied()
}

/// The machine with the interrupts of new queues where drivers ask for them, unless a setting has sent them elsewhere.
pub(super) fn landed(mut after: Model) -> Model {
    let online = after.online();
    for nic in &mut after.nics {
        let asked: Vec<Option<CpuId>> = nic.rx.iter().map(|queue| asked_for(nic, queue, &online)).collect();
        for (queue, cpu) in nic.rx.iter_mut().zip(asked) {
            for irq in queue.irqs.iter_mut().filter(|irq| is_to_come(irq) && irq.effective.known().is_none())
            {
                irq.effective = Fact::Known(cpu.into_iter().collect());
            }
        }
    }
    after
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
mod tests;
