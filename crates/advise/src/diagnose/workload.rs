//! Helpers of rules about load: CPUs that take interrupts, CPUs with room, and programs by CPU.

use rxlab_base::units::{CpuId, CpuMask, NicName};
use rxlab_path::evidence::{TRAFFIC, irq_cpus, queue_packets};
use rxlab_path::model::{CpuRates, Model, Nic, NicKind, ProcessRates, Rates, RxQueue};

/// Idle fraction of wall time from which CPUs have room for another one's work.
pub(super) const ROOM: f64 = 0.5;

/// CPUs that any program may run on: online, not isolated, and left to the root control group.
pub(super) fn common(model: &Model) -> CpuMask {
    let scheduled = model.scheduled();
    match model.settings.cpuset.known().filter(|cpuset| !cpuset.is_empty()) {
        Some(cpuset) => scheduled.intersection(cpuset),
        None => scheduled,
    }
}

/// True if an interface other than `lo` receives enough traffic to matter.
pub(super) fn carries_traffic(model: &Model, rates: &Rates) -> bool {
    let mut nics = model.nics.iter().filter(|nic| nic.kind != NicKind::Loopback);
    nics.any(|nic| rates.rx_packets(&nic.name) >= TRAFFIC)
}

/// A device's receive queue and the CPUs that take its interrupt.
pub(super) struct Landing<'a> {
    pub(super) nic: &'a Nic,
    pub(super) queue: &'a RxQueue,
    pub(super) cpus: CpuMask,
}

/// The CPUs of the interrupts of all devices' receive queues.
pub(super) fn landings<'a>(model: &'a Model, rates: &Rates) -> Vec<Landing<'a>> {
    let devices = model.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let queues = devices.flat_map(|nic| nic.rx.iter().map(move |queue| (nic, queue)));
    queues.map(|(nic, queue)| Landing { nic, queue, cpus: irq_cpus(queue, model, rates) }).collect()
}

/// The interface of the first queue that takes interrupts on a CPU.
pub(super) fn nic_on(landings: &[Landing<'_>], cpu: CpuId) -> Option<NicName> {
    landings.iter().find(|landing| landing.cpus.contains(cpu)).map(|landing| landing.nic.name.clone())
}

/// CPUs that take the interrupts of device queues with traffic.
pub(super) fn interrupt_cpus(landings: &[Landing<'_>], rates: &Rates) -> CpuMask {
    let carry = |landing: &&Landing<'_>| queue_packets(landing.nic, landing.queue, rates) >= TRAFFIC;
    landings.iter().filter(carry).fold(CpuMask::new(), |all, landing| all.union(&landing.cpus))
}

/// Interrupts/s of one queue.
pub(super) fn interrupts(queue: &RxQueue, rates: &Rates) -> f64 {
    let own = rates.irqs.iter().filter(|rates| queue.irqs.iter().any(|irq| irq.number == rates.irq));
    own.flat_map(|irq| irq.per_cpu.values()).sum()
}

/// Time a CPU spends on processes, as a fraction of wall time; excludes threads that poll queues.
pub(crate) fn processing(cpu: &CpuRates) -> f64 {
    cpu.user + (cpu.system - cpu.napi).max(0.0)
}

/// The busiest programs, as far as known; most CPU time first.
pub(super) fn programs(rates: &Rates) -> &[ProcessRates] {
    rates.processes.known().map(Vec::as_slice).unwrap_or_default()
}

/// Name and PID, such as `nginx (812)`.
pub(super) fn named(process: &ProcessRates) -> String {
    format!("{} ({})", process.command, process.pid)
}

#[cfg(test)]
mod tests {
    use super::{carries_traffic, common, interrupt_cpus, interrupts, landings, nic_on};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_path::sketch::Sketch;

    #[test]
    fn who_takes_interrupts_and_who_may_work() {
        let sketch = Sketch::new(8).device("eth0", &[2, 3]).device("eth1", &[5]).isolate("6");
        let (mut model, rates) = sketch.traffic("eth0", 9e3).interrupts("eth0", 700.0).build();
        let landings = landings(&model, &rates);
        assert_eq!(interrupt_cpus(&landings, &rates).to_string(), "2-3", "eth1 has no traffic");
        assert_eq!(nic_on(&landings, CpuId(5)).expect("idle, and there").as_str(), "eth1");
        drop(landings);
        assert_eq!(interrupts(&model.nics[0].rx[1], &rates), 700.0);
        assert_eq!(common(&model).to_string(), "0-5,7");
        model.settings.cpuset = Fact::Known("0-3".parse().expect("a list"));
        assert_eq!(common(&model).to_string(), "0-3");
        assert!(carries_traffic(&model, &rates));
    }

    #[test]
    fn lo_is_no_traffic() {
        let (model, rates) = Sketch::new(2).loopback().veth("veth0").traffic("lo", 9e5).build();
        assert!(!carries_traffic(&model, &rates));
    }
}
