//! Predicted rates: the work of each CPU once the interrupts of a model are elsewhere.

use std::collections::BTreeMap;

use super::share::{Machine, receive_work};
use super::topology::CpuTopology;
use crate::diagnose::evidence::queue_packets;
use crate::model::{Model, Nic, NicKind, Rates};
use crate::units::CpuId;

/// Returns the rates of a machine once its queues and interrupts are as in `after`: the work a CPU does for a
/// queue moves with the queue's interrupt. Queues of one CPU share its work by their packets, and new queues
/// share that of their interface.
///
/// Planning by the current load of the new CPU would find it idle, and another one next time.
pub(super) fn carried(before: &Model, rates: &Rates, after: &Model, topology: &CpuTopology) -> Rates {
    let machine = Machine { model: before, rates, topology };
    let mut on_cpu: BTreeMap<CpuId, (f64, f64)> = BTreeMap::new();
    let mut works: Vec<(usize, usize, CpuId, f64)> = Vec::new();
    for (at, nic) in devices(before) {
        for (queue, rx) in nic.rx.iter().enumerate() {
            let Some(cpu) = machine.home(rx) else { continue };
            let packets = queue_packets(nic, rx, rates);
            let sum = on_cpu.entry(cpu).or_default();
            (sum.0, sum.1) = (sum.0 + packets, sum.1 + 1.0);
            works.push((at, queue, cpu, packets));
        }
    }
    let machine = Machine { model: after, rates, topology };
    let mut moves: Vec<(CpuId, CpuId, f64)> = Vec::new();
    for (at, queue, from, packets) in works {
        let (all, count) = on_cpu[&from];
        let part = if all > 0.0 { packets / all } else { 1.0 / count };
        let Some(nic) = after.nics.get(at) else { continue };
        let to: Vec<CpuId> = match nic.rx.len() == before.nics[at].rx.len() {
            true => nic.rx.get(queue).and_then(|rx| machine.home(rx)).into_iter().collect(),
            false => nic.rx.iter().filter_map(|rx| machine.home(rx)).collect(),
        };
        let each = part / to.len() as f64;
        moves.extend(to.into_iter().filter(|to| *to != from).map(|to| (from, to, each)));
    }
    let mut carried = rates.clone();
    let place: BTreeMap<CpuId, usize> =
        rates.cpus.iter().enumerate().map(|(at, cpu)| (cpu.cpu, at)).collect();
    for (from, to, part) in moves {
        let (Some(from), Some(to)) = (place.get(&from), place.get(&to)) else { continue };
        let was = &rates.cpus[*from];
        let (softirq, ksoftirqd) = (was.softirq * part, was.ksoftirqd * part);
        let (packets, runs) = (was.packets * part, was.net_rx * part);
        for (at, sign) in [(*from, -1.0), (*to, 1.0)] {
            let cpu = &mut carried.cpus[at];
            cpu.softirq += sign * softirq;
            cpu.ksoftirqd += sign * ksoftirqd;
            cpu.packets += sign * packets;
            cpu.net_rx += sign * runs;
        }
    }
    for (was, cpu) in rates.cpus.iter().zip(&mut carried.cpus) {
        // Below 0 where there is more work than time: what is not receiving stays the same.
        cpu.idle = was.idle + receive_work(was) - receive_work(cpu);
    }
    for (at, nic) in devices(before) {
        let counts = carried.nics.iter_mut().find(|rates| rates.name == nic.name);
        if let Some(counts) = counts
            && after.nics.get(at).is_some_and(|after| after.rx.len() != nic.rx.len())
        {
            counts.queues.clear();
        }
    }
    carried
}

fn devices(model: &Model) -> impl Iterator<Item = (usize, &Nic)> {
    model.nics.iter().enumerate().filter(|(_, nic)| nic.kind == NicKind::Device)
}

#[cfg(test)]
mod tests {
    use super::carried;
    use crate::diagnose::sketch::{Sketch, cpus};
    use crate::model::{Fact, Model, Rates};
    use crate::plan::topology::CpuTopology;

    fn times(rates: &Rates) -> Vec<u32> {
        rates.cpus.iter().map(|cpu| (cpu.softirq * 1e3).round() as u32).collect()
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
        let after = |model_after: &Model| carried(&model, &rates, model_after, &CpuTopology::new(&model));
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
        assert_eq!(times(&carried(&model, &rates, &swapped, &CpuTopology::new(&model))), [100, 900]);
    }

    #[test]
    fn new_queues_share_the_work_of_their_interface() {
        let sketch = Sketch::new(4).device("eth0", &[0]).queue_traffic("eth0", &[4e4]).receives(0, 0.8, 4e4);
        let (model, rates) = sketch.build();
        let (after, _) = Sketch::new(4).device("eth0", &[0, 1, 2, 3]).build();
        let carried = carried(&model, &rates, &after, &CpuTopology::new(&model));
        assert_eq!(times(&carried), [200, 205, 205, 205]);
        assert!(carried.nics[0].queues.is_empty(), "how many packets each has is not known");
    }
}
