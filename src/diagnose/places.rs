//! CPUs by place, and the receive queues with traffic by the CPU that takes their interrupt. No verdicts here.

use super::evidence::{TRAFFIC, irq_cpus, queue_packets, receive_time, tier};
use super::figures::{count, percent};
use crate::model::{Model, Nic, NicKind, Rates, RxQueue};
use crate::units::{CpuId, CpuMask};

/// The most that one packet can cost, in seconds: a tenth of it on real machines, this much on emulated ones. What
/// a CPU spends in softirq beyond it is for timers or disks.
const DEAREST: f64 = 100e-6;

/// A receive queue of a device that carries traffic, and where its interrupt lands. Queues of which that is not
/// known are left out: no rule about places can judge them.
pub(super) struct Loaded<'a> {
    /// The interface.
    pub(super) nic: &'a Nic,
    /// The queue.
    pub(super) queue: &'a RxQueue,
    /// Its packets a second.
    pub(super) packets: f64,
    /// The CPU of its interrupt; of several the one with most receive time.
    pub(super) cpu: CpuId,
    /// Receive time of that CPU, as a fraction of wall time, as far as its packets can account for it.
    pub(super) load: f64,
    /// All of its receive time.
    time: f64,
}

impl Loaded<'_> {
    /// The queue's name, such as `eth0/rx-0`.
    pub(super) fn name(&self) -> String {
        format!("{}/rx-{}", self.nic.name, self.queue.index)
    }

    /// The queue's RPS mask, when it has one.
    pub(super) fn mask(&self) -> Option<&CpuMask> {
        self.queue.rps_cpus.known().filter(|mask| !mask.is_empty())
    }

    /// A line of evidence: traffic, place and load.
    pub(super) fn line(&self, rates: &Rates) -> String {
        format!(
            "{}: {} packets/s, interrupt on CPU {}, {} of its time in softirq ({})",
            self.name(),
            count(self.packets),
            self.cpu,
            percent(self.time),
            tier(rates)
        )
    }
}

/// The queues with traffic of one device.
pub(super) fn loaded_of<'a>(model: &Model, rates: &Rates, nic: &'a Nic) -> Vec<Loaded<'a>> {
    if nic.kind != NicKind::Device {
        return Vec::new();
    }
    let queue = |queue: &'a RxQueue| {
        let packets = queue_packets(nic, queue, rates);
        let (cpu, time) = busiest(rates, &irq_cpus(queue, model, rates))?;
        let load = receive_work(rates, cpu, packets);
        (packets >= TRAFFIC).then_some(Loaded { nic, queue, packets, cpu, load, time })
    };
    nic.rx.iter().filter_map(queue).collect()
}

/// The queues with traffic of all devices.
pub(super) fn loaded<'a>(model: &'a Model, rates: &Rates) -> Vec<Loaded<'a>> {
    model.nics.iter().flat_map(|nic| loaded_of(model, rates, nic)).collect()
}

/// Receive time of a CPU that takes a queue of so many packets a second, as far as packets can account for it.
pub(super) fn receive_work(rates: &Rates, cpu: CpuId, packets: f64) -> f64 {
    let Some(cpu) = rates.cpu(cpu) else { return 0.0 };
    // Behind RPS a CPU counts the packets that it is handed, and not those that it takes off a queue.
    receive_time(cpu).min((packets + cpu.packets) * DEAREST)
}

/// The CPU with most receive time of these, the first of equals, and that time.
pub(super) fn busiest(rates: &Rates, cpus: &CpuMask) -> Option<(CpuId, f64)> {
    let times = cpus.iter().filter_map(|cpu| Some((cpu, receive_time(rates.cpu(cpu)?))));
    times.fold(None, |most: Option<(CpuId, f64)>, next| match most {
        Some(most) if most.1 >= next.1 => Some(most),
        _ => Some(next),
    })
}

/// Part of the time that a CPU spends in processes from which they count as running there.
const RUNS: f64 = 0.25;

/// CPUs that run processes a good part of the time: where sockets are likely read.
pub(super) fn readers(rates: &Rates) -> CpuMask {
    let runs = rates.cpus.iter().filter(|cpu| cpu.user + cpu.system >= RUNS);
    runs.map(|cpu| cpu.cpu).collect()
}

/// CPUs taken from the scheduler, at boot or by a partition of the control groups.
pub(super) fn isolated(model: &Model) -> CpuMask {
    let partitions = model.settings.cpuset_isolated.known().cloned().unwrap_or_default();
    model.isolated().union(&partitions)
}

/// CPUs that may take receive work: online and not isolated.
pub(super) fn usable(model: &Model) -> CpuMask {
    model.online().difference(&isolated(model))
}

/// The node of a CPU, when the kernel shows it.
pub(super) fn node(model: &Model, cpu: CpuId) -> Option<u32> {
    model.cpu(cpu)?.node
}

/// The CPUs of a node.
pub(super) fn of_node(model: &Model, node: u32) -> CpuMask {
    model.cpus.iter().filter(|cpu| cpu.node == Some(node)).map(|cpu| cpu.id).collect()
}

/// The hyper-threads of the cores that these CPUs are of, themselves included where they are known.
pub(super) fn siblings(model: &Model, cpus: &CpuMask) -> CpuMask {
    let of = cpus.iter().filter_map(|cpu| model.cpu(cpu));
    of.fold(CpuMask::new(), |all, cpu| all.union(&cpu.siblings))
}

/// How many cores these CPUs are of; where siblings are not known each CPU is one.
pub(super) fn cores(model: &Model, cpus: &CpuMask) -> usize {
    let first = |cpu: &CpuId| {
        let siblings = model.cpu(*cpu).map(|cpu| cpu.siblings.intersection(cpus)).unwrap_or_default();
        siblings.first().is_none_or(|first| first == *cpu)
    };
    cpus.iter().filter(first).count()
}

/// The mean over these CPUs; 0 when the rates have none of them.
pub(super) fn mean(rates: &Rates, cpus: &CpuMask, value: impl Fn(&crate::model::CpuRates) -> f64) -> f64 {
    let values: Vec<f64> = cpus.iter().filter_map(|cpu| rates.cpu(cpu)).map(value).collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{busiest, cores, loaded, usable};
    use crate::diagnose::sketch::{Sketch, cpus};
    use crate::units::{CpuId, Fact};

    #[test]
    fn cores_and_usable_cpus() {
        let (mut model, rates) = Sketch::new(8).smt().receives(3, 0.2, 9.0).receives(5, 0.2, 9.0).build();
        assert_eq!(cores(&model, &cpus("0-7")), 4);
        assert_eq!(cores(&model, &cpus("0-4")), 4, "CPU 4 is the other thread of CPU 0");
        model.cpus[1].siblings = cpus("");
        assert_eq!(cores(&model, &cpus("1")), 1, "not known");
        assert_eq!(busiest(&rates, &cpus("2-7")), Some((CpuId(3), 0.2)));
        assert_eq!(busiest(&rates, &cpus("")), None);
        model.cpus[7].online = false;
        model.cpus[6].isolated = true;
        model.settings.cpuset_isolated = Fact::Known(cpus("2"));
        assert_eq!(usable(&model), cpus("0-1,3-5"));
    }

    #[test]
    fn what_packets_cannot_cost_is_not_receive_work() {
        let host =
            |packets| Sketch::new(4).device("eth0", &[1]).traffic("eth0", packets).receives(1, 0.8, packets);
        let load = |packets| {
            let (model, rates) = host(packets).build();
            loaded(&model, &rates)[0].load
        };
        assert_eq!(load(9e4), 0.8);
        assert!((load(1e3) - 0.2).abs() < 1e-9, "the rest is for a disk");
    }

    #[test]
    fn only_queues_with_traffic_and_a_known_place() {
        let host = || Sketch::new(4).device("eth0", &[1, 2]).veth("veth0").traffic("veth0", 9e4);
        let (mut model, rates) = host().queue_traffic("eth0", &[5e3, 10.0]).build();
        let names = |model: &_| loaded(model, &rates).iter().map(super::Loaded::name).collect::<Vec<_>>();
        assert_eq!(names(&model), ["eth0/rx-0"]);
        model.nics[0].rx[0].irqs.clear();
        assert_eq!(names(&model), [""; 0]);
    }
}
