//! Receive work by queue, estimated from a sample, and the rates that it makes once interrupts and masks are
//! elsewhere.
//!
//! Queues share the receive time of CPUs by their packets: all of a queue's work is where its interrupt lands, or
//! with a mask a part of it there and the rest, which costs more then, on the CPUs of the mask. The estimate is
//! corrected until it explains the times that were measured. What no queue explains stays where it is.
//!
//! Planning by the current load of the new CPU would find it idle, and another one next time.

use std::collections::BTreeMap;

use super::moves::Cost;
use super::share::{Machine, receive_work};
use super::topology::CpuTopology;
use crate::diagnose::evidence::queue_packets;
use crate::model::{Model, Nic, NicKind, Rates, RxQueue};
use crate::units::{CpuId, CpuMask};

/// Corrections of the first estimate; each comes closer to the measured times.
const CORRECTIONS: usize = 8;

/// The CPUs that receive the packets of a queue.
#[derive(Clone, PartialEq)]
struct Path {
    home: CpuId,
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
    fn new(machine: &Machine<'_>, queue: &RxQueue, otherwise: Option<CpuId>) -> Option<Self> {
        let mask = queue.rps_cpus.known().cloned().unwrap_or_default();
        Some(Self { home: machine.home(queue).or(otherwise)?, mask })
    }

    /// Parts of the work. The interrupt's CPU keeps what would go to CPUs of the mask that are offline
    /// (get_rps_cpu).
    fn parts(&self, online: &CpuMask) -> Vec<Part> {
        if self.mask.is_empty() {
            return vec![Part { cpu: self.home, time: 1.0, packets: 1.0 }];
        }
        let Cost { kept, handed } = Cost::fixed(NicKind::Device);
        let each = 1.0 / self.mask.len() as f64;
        let stays = self.mask.difference(online).len() as f64 * each;
        let home = Part { cpu: self.home, time: kept + (1.0 - kept) * stays, packets: stays };
        let there = self.mask.intersection(online);
        let others = there.iter().map(|cpu| Part { cpu, time: handed * each, packets: each });
        std::iter::once(home).chain(others).collect()
    }
}

/// The receive work of a sampled machine.
pub(super) struct Work<'a> {
    model: &'a Model,
    rates: &'a Rates,
    sources: Vec<Source>,
    /// The busiest CPU: packets come here if it is not known where.
    busiest: Option<CpuId>,
}

impl<'a> Work<'a> {
    /// Estimates the work of every queue.
    pub(super) fn new(model: &'a Model, rates: &'a Rates, topology: &CpuTopology) -> Self {
        let machine = Machine { model, rates, topology };
        let busiest = hottest(rates).map(|(cpu, _)| cpu);
        let mut sources = Vec::new();
        for (at, nic) in devices(model) {
            for (queue, rx) in nic.rx.iter().enumerate() {
                if let Some(path) = Path::new(&machine, rx, busiest) {
                    let packets = queue_packets(nic, rx, rates);
                    sources.push(Source { nic: at, queue, path, packets, time: packets.max(1.0) });
                }
            }
        }
        let measured: BTreeMap<CpuId, f64> =
            rates.cpus.iter().map(|cpu| (cpu.cpu, cpu.softirq.max(cpu.ksoftirqd))).collect();
        let parts: Vec<Vec<Part>> =
            sources.iter().map(|source| source.path.parts(&topology.online)).collect();
        for _ in 0..CORRECTIONS {
            let mut explained: BTreeMap<CpuId, f64> = BTreeMap::new();
            for (source, parts) in sources.iter().zip(&parts) {
                for part in parts {
                    *explained.entry(part.cpu).or_default() += source.time * part.time;
                }
            }
            let off = |part: &Part| {
                measured.get(&part.cpu).copied().unwrap_or_default()
                    / explained[&part.cpu].max(f64::MIN_POSITIVE)
            };
            for (source, parts) in sources.iter_mut().zip(&parts) {
                let all: f64 = parts.iter().map(|part| part.time).sum();
                source.time *= parts.iter().map(|part| part.time * off(part)).sum::<f64>() / all;
            }
        }
        Self { model, rates, sources, busiest }
    }

    /// The rates once queues, interrupts and masks are as in `after`. Programs use the same part of what receiving
    /// leaves. Above 1 where there is more work than time.
    pub(super) fn rates(&self, after: &Model, topology: &CpuTopology) -> Rates {
        let machine = Machine { model: after, rates: self.rates, topology };
        let mut changes: BTreeMap<CpuId, Change> = BTreeMap::new();
        let homes = self.packets_of_homes();
        for source in &self.sources {
            let (Some(nic), was) = (after.nics.get(source.nic), &self.model.nics[source.nic]) else {
                continue;
            };
            let queues = match nic.rx.len() == was.rx.len() {
                true => nic.rx.get(source.queue..=source.queue).unwrap_or_default(),
                false => &nic.rx[..],
            };
            let path = |queue: &RxQueue| {
                let is_new = queue.index as usize >= was.rx.len();
                let otherwise = if is_new { asked_for(queue, &topology.online) } else { self.busiest };
                Path::new(&machine, queue, otherwise)
            };
            let paths: Vec<Path> = queues.iter().filter_map(path).collect();
            if matches!(&paths[..], [path] if *path == source.path) {
                continue;
            }
            let runs = self.rates.cpu(source.path.home).map_or(0.0, |cpu| cpu.net_rx);
            let own = Change {
                time: source.time,
                packets: source.packets,
                runs: runs * source.packets / homes[&source.path.home].max(1.0),
            };
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
            *packets.entry(source.path.home).or_default() += source.packets;
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
        changes.entry(path.home).or_default().runs += self.runs * part;
    }
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
    use super::Work;
    use crate::diagnose::sketch::{Sketch, cpus};
    use crate::model::{Fact, Model, Rates};
    use crate::plan::topology::CpuTopology;

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
        assert!(carried.nics[0].queues.is_empty(), "how many packets each has is not known");
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
}
