//! What rules about load ask: which CPUs take interrupts and which have room, and who runs where.

use super::{TRAFFIC, irq_cpus, queue_packets};
use crate::model::{CpuRates, Model, Nic, NicKind, ProcessRates, Rates, RxQueue};
use crate::units::{CpuId, CpuMask, NicName};

/// Fraction of wall time from which a CPU is full.
pub(in crate::diagnose) const FULL: f64 = 0.9;

/// Fraction of wall time from which idle CPUs have room for what another one does.
pub(in crate::diagnose) const ROOM: f64 = 0.5;

/// CPUs that the scheduler gives to anybody: online, not isolated, and of the root control group.
pub(in crate::diagnose) fn usable(model: &Model) -> CpuMask {
    let scheduled = model.online().difference(&model.isolated());
    match model.settings.cpuset.known().filter(|cpuset| !cpuset.is_empty()) {
        Some(cpuset) => scheduled.intersection(cpuset),
        None => scheduled,
    }
}

/// Whether an interface other than `lo` receives enough for anything to matter.
pub(in crate::diagnose) fn carries_traffic(model: &Model, rates: &Rates) -> bool {
    let mut nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    nics.any(|nic| rates.nic(&nic.name).is_some_and(|nic| nic.rx_packets >= TRAFFIC))
}

/// A device's receive queue and the CPUs that take its interrupt.
pub(in crate::diagnose) struct Landing<'a> {
    pub(in crate::diagnose) nic: &'a Nic,
    pub(in crate::diagnose) queue: &'a RxQueue,
    pub(in crate::diagnose) cpus: CpuMask,
}

/// Where the interrupts of all devices' receive queues land.
pub(in crate::diagnose) fn landings<'a>(model: &'a Model, rates: &Rates) -> Vec<Landing<'a>> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    queues.map(|(nic, queue)| Landing { nic, queue, cpus: irq_cpus(queue, model, rates) }).collect()
}

/// The interface of the first queue that takes interrupts on a CPU.
pub(in crate::diagnose) fn nic_on(landings: &[Landing<'_>], cpu: CpuId) -> Option<NicName> {
    landings.iter().find(|landing| landing.cpus.contains(cpu)).map(|landing| landing.nic.name.clone())
}

/// CPUs that take the interrupts of a device's queue with traffic.
pub(in crate::diagnose) fn interrupt_cpus(landings: &[Landing<'_>], rates: &Rates) -> CpuMask {
    let carry = |landing: &&Landing<'_>| queue_packets(landing.nic, landing.queue, rates) >= TRAFFIC;
    landings.iter().filter(carry).fold(CpuMask::new(), |all, landing| all.union(&landing.cpus))
}

/// Interrupts a second of one queue.
pub(in crate::diagnose) fn interrupts(queue: &RxQueue, rates: &Rates) -> f64 {
    let own = rates.irqs.iter().filter(|rates| queue.irqs.iter().any(|irq| irq.number == rates.irq));
    own.flat_map(|irq| irq.per_cpu.values()).sum()
}

/// Time that a CPU spends on processes, as a fraction of wall time.
pub(in crate::diagnose) fn processing(cpu: &CpuRates) -> f64 {
    cpu.user + cpu.system
}

/// The mean of a figure over some CPUs; 0 of none.
pub(in crate::diagnose) fn mean(rates: &Rates, cpus: &CpuMask, value: impl Fn(&CpuRates) -> f64) -> f64 {
    let of: Vec<f64> = rates.cpus.iter().filter(|cpu| cpus.contains(cpu.cpu)).map(value).collect();
    of.iter().sum::<f64>() / of.len().max(1) as f64
}

/// The busiest programs, as far as they are known; most CPU time first.
pub(in crate::diagnose) fn programs(rates: &Rates) -> &[ProcessRates] {
    rates.processes.known().map(Vec::as_slice).unwrap_or_default()
}

/// `nginx (812)`.
pub(in crate::diagnose) fn named(process: &ProcessRates) -> String {
    format!("{} ({})", process.command, process.pid)
}

#[cfg(test)]
mod tests {
    use super::{carries_traffic, interrupt_cpus, interrupts, landings, mean, nic_on, usable};
    use crate::diagnose::sketch::Sketch;
    use crate::units::{CpuId, Fact};

    #[test]
    fn who_takes_interrupts_and_who_may_work() {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).device("eth1", &[5]).isolate("6");
        let (mut model, rates) = sketch.traffic("eth0", 9e3).interrupts("eth0", 700.0).build();
        let landings = landings(&model, &rates);
        assert_eq!(interrupt_cpus(&landings, &rates).to_string(), "2-3", "eth1 has no traffic");
        assert_eq!(nic_on(&landings, CpuId(5)).expect("idle, and there").as_str(), "eth1");
        drop(landings);
        assert_eq!(interrupts(&model.nics[0].rx[1], &rates), 700.0);
        assert_eq!(usable(&model).to_string(), "0-5,7");
        model.settings.cpuset = Fact::Known("0-3".parse().expect("a list"));
        assert_eq!(usable(&model).to_string(), "0-3");
        assert!(carries_traffic(&model, &rates));
        assert!((mean(&rates, &usable(&model), |cpu| cpu.idle) - 0.98).abs() < 1e-9);
    }

    #[test]
    fn lo_is_no_traffic() {
        let (model, rates) = Sketch::new(2).loopback().veth("veth0").traffic("lo", 9e5).build();
        assert!(!carries_traffic(&model, &rates));
    }
}
