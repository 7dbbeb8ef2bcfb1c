//! What several rules and plans ask of a model and its rates: where receive work happens, where a
//! queue's interrupt lands, how much room is left. No verdicts here.

use serde::{Deserialize, Serialize};

use crate::model::{CpuRates, Irq, Model, Nic, NicKind, Rates, RxQueue};
use crate::units::{CpuId, CpuMask, NicName};

/// Packets a second from which an interface counts as carrying traffic. Below it, at the most
/// generous cost of 10 us a packet, receive work takes 1 % of one CPU and no setting can matter.
pub const TRAFFIC: f64 = 1_000.0;

/// Share of all packets above which `lo` makes steering verdicts meaningless: `lo` receives inside
/// the sender's system call, so its work lies where the sender runs, not where an interrupt lands.
pub const LOOPBACK_SHARE: f64 = 0.5;

/// Time that a CPU spends on receive work, as a fraction of wall time.
///
/// Softirq time already contains what runs in ksoftirqd; the thread's own time is exact where
/// softirq time is a tick sample, so the larger of the two is the better estimate. Other vectors
/// (timers, block) are in it too: rules ask for packets beside time.
pub fn receive_time(cpu: &CpuRates) -> f64 {
    cpu.softirq.max(cpu.ksoftirqd)
}

/// Fraction of wall time in which a CPU was not idle; stolen time counts, as it is not to be had.
pub fn busy(cpu: &CpuRates) -> f64 {
    (1.0 - cpu.idle).clamp(0.0, 1.0)
}

/// How softirq time was measured, for the end of an evidence line.
pub fn tier(rates: &Rates) -> &'static str {
    match rates.exact_softirq_time {
        Some(true) => "exact",
        Some(false) => "tick-sampled",
        None => "accuracy unknown",
    }
}

/// The share of packets that came in over `lo`, when it is too large for steering verdicts.
pub fn loopback_share(model: &Model, rates: &Rates) -> Option<f64> {
    let is_loopback = |name: &NicName| model.nic(name).is_some_and(|nic| nic.kind == NicKind::Loopback);
    let seen: f64 = rates.nics.iter().map(|nic| nic.rx_packets).sum();
    let lo: f64 = rates.nics.iter().filter(|nic| is_loopback(&nic.name)).map(|nic| nic.rx_packets).sum();
    // The stack counts packets of every network namespace, the interfaces only those of one.
    let stack: f64 = rates.cpus.iter().map(|cpu| cpu.packets).sum();
    let share = lo / seen.max(stack);
    (lo > 0.0 && share > LOOPBACK_SHARE).then_some(share)
}

/// The CPUs on which the interrupts of a queue are handled, online ones only; empty when that is
/// not known or the queue has none.
///
/// The kernel's choice (`effective_affinity`) when it is one CPU, else the CPUs that counted at
/// least half as many interrupts as the busiest one, else what may be the only choice.
pub fn irq_cpus(queue: &RxQueue, model: &Model, rates: &Rates) -> CpuMask {
    let online = model.online();
    let cpus =
        queue.irqs.iter().map(|irq| irq_cpu(irq, rates)).fold(CpuMask::new(), |all, one| all.union(&one));
    cpus.intersection(&online)
}

fn irq_cpu(irq: &Irq, rates: &Rates) -> CpuMask {
    let one = |mask: Option<&CpuMask>| mask.filter(|mask| mask.len() == 1).cloned();
    let counted = || {
        let irq = rates.irqs.iter().find(|rates| rates.irq == irq.number)?;
        let most = irq.per_cpu.values().copied().fold(0.0, f64::max);
        let busy = irq.per_cpu.iter().filter(|(_, rate)| most > 0.0 && **rate >= most / 2.0);
        Some(busy.map(|(cpu, _)| *cpu).collect::<CpuMask>()).filter(|mask| !mask.is_empty())
    };
    one(irq.effective.known()).or_else(counted).or_else(|| one(irq.affinity.known())).unwrap_or_default()
}

/// Packets a second of one queue: as the kernel counts them, else an equal part of those of the interface
/// that it counts for no queue.
pub fn queue_packets(nic: &Nic, queue: &RxQueue, rates: &Rates) -> f64 {
    let Some(rates) = rates.nic(&nic.name) else { return 0.0 };
    rates.queues.get(&queue.index).copied().unwrap_or_else(|| {
        let counted = |queue: &&RxQueue| rates.queues.contains_key(&queue.index);
        let uncounted = nic.rx.len().saturating_sub(nic.rx.iter().filter(counted).count());
        let rest = (rates.rx_packets - rates.queues.values().sum::<f64>()).max(0.0);
        rest / uncounted.max(1) as f64
    })
}

/// The receive queue that brings a CPU its work: the busiest of those whose interrupt lands there,
/// else the busiest queue of the interface that receives most (`lo` never).
pub fn carrier<'a>(model: &'a Model, rates: &Rates, cpu: CpuId) -> Option<(&'a Nic, &'a RxQueue)> {
    let queues = || {
        let nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
        nics.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)))
            .filter(|(nic, queue)| queue_packets(nic, queue, rates) > 0.0)
    };
    let packets = |(nic, queue): &(&Nic, &RxQueue)| queue_packets(nic, queue, rates);
    let landing = queues().filter(|(_, queue)| irq_cpus(queue, model, rates).contains(cpu));
    // `max_by` keeps the last of equals; reversed, the first queue wins.
    let busiest = |found: Vec<(&'a Nic, &'a RxQueue)>| {
        found.into_iter().rev().max_by(|a, b| packets(a).total_cmp(&packets(b)))
    };
    busiest(landing.collect()).or_else(|| {
        let here = rates.cpu(cpu).map_or(0.0, |cpu| cpu.packets);
        // A tenth leaves room for packets that pass several interfaces (bridge, veth); an
        // interface that carries less is not where this CPU's work comes from.
        busiest(queues().collect()).filter(|found| packets(found) >= here / 10.0)
    })
}

/// How many times today's load fits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Headroom {
    /// 1 / receive time of the CPU with most of it: the scheduler can move everything else away
    /// from that CPU, but not receive work.
    pub hottest: f64,
    /// 1 / mean busy fraction of all CPUs: spreading does not change it.
    pub machine: f64,
}

/// The headroom of the machine as it is; values above 1000 are cut, as an idle machine has no
/// meaningful figure (and JSON no infinity).
pub fn headroom(rates: &Rates) -> Headroom {
    let hottest = rates.cpus.iter().map(receive_time).fold(0.0, f64::max);
    let mean = rates.cpus.iter().map(busy).sum::<f64>() / rates.cpus.len().max(1) as f64;
    Headroom { hottest: room(hottest), machine: room(mean) }
}

/// 1 / `load`, between 1 and 1000.
pub fn room(load: f64) -> f64 {
    (1.0 / load.max(0.001)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::{carrier, headroom, irq_cpus, loopback_share, queue_packets};
    use crate::diagnose::sketch::Sketch;
    use crate::model::Fact;
    use crate::units::CpuId;

    #[test]
    fn interrupts_land_where_the_kernel_says_or_where_they_were_counted() {
        let (mut model, rates) = Sketch::new(4).device("eth0", &[3]).traffic("eth0", 5e3).build();
        let lands = |model: &crate::model::Model| irq_cpus(&model.nics[0].rx[0], model, &rates).to_string();
        assert_eq!(lands(&model), "3");
        model.nics[0].rx[0].irqs[0].effective = Fact::Unsupported;
        model.nics[0].rx[0].irqs[0].affinity = Fact::Known(model.online());
        assert_eq!(lands(&model), "3", "by the counters");
        model.cpus[3].online = false;
        assert_eq!(lands(&model), "", "an offline CPU takes none");
    }

    #[test]
    fn the_busiest_queue_on_the_cpu_brings_its_work() {
        let sketch = Sketch::new(4).device("eth0", &[2, 2]).device("eth1", &[2]);
        let (model, rates) = sketch.traffic("eth0", 9e3).traffic("eth1", 6e3).build();
        let (nic, queue) = carrier(&model, &rates, CpuId(2)).expect("some interface carries it");
        assert_eq!(
            (nic.name.as_str(), queue.index),
            ("eth1", 0),
            "6,000 on one queue beat 4,500 on each of two"
        );
    }

    #[test]
    fn a_queue_without_counts_has_its_part_of_what_is_left() {
        let (model, mut rates) = Sketch::new(4).device("eth0", &[0, 1, 2]).traffic("eth0", 9e3).build();
        let nic = &model.nics[0];
        let packets =
            |rates: &_| nic.rx.iter().map(|queue| queue_packets(nic, queue, rates)).collect::<Vec<_>>();
        assert_eq!(packets(&rates), [3e3, 3e3, 3e3]);
        rates.nics[0].queues.insert(0, 8e3);
        assert_eq!(packets(&rates), [8e3, 500.0, 500.0]);
        rates.nics[0].queues.insert(1, 2e3);
        assert_eq!(packets(&rates), [8e3, 2e3, 0.0], "queues are read a moment later");
    }

    #[test]
    fn work_of_an_unseen_namespace_has_no_carrier() {
        let (model, rates) =
            Sketch::new(2).veth("veth0").traffic("veth0", 50.0).receives(0, 0.5, 2e5).build();
        assert_eq!(carrier(&model, &rates, CpuId(0)), None);
    }

    #[test]
    fn loopback_dominates_only_above_half() {
        let with = |lo: f64| {
            let (model, rates) =
                Sketch::new(2).loopback().veth("veth0").traffic("lo", lo).traffic("veth0", 1e4).build();
            loopback_share(&model, &rates)
        };
        assert_eq!((with(0.0), with(9e3)), (None, None));
        assert_eq!(with(3e4), Some(0.75));
    }

    #[test]
    fn headroom_of_field_case_a() {
        let (_, rates) = Sketch::case_a().build();
        let room = headroom(&rates);
        assert!((room.hottest - 1.02).abs() < 0.01, "{room:?}");
        assert!((1.2..1.3).contains(&room.machine), "{room:?}");
    }
}
