//! CPUs where packets are processed, according to the settings.

use crate::model::{Fact, Model, NicKind, RxQueue};
use crate::report::receive_path::queues::{Run, runs};
use crate::units::CpuMask;

/// CPUs that process packets of a queue: those of RPS, else of the interrupt; empty if unknown. RFS may choose any
/// other.
pub(super) fn cpus(run: &Run<'_>) -> CpuMask {
    let Some(rx) = run.first().rx else { return CpuMask::new() };
    match &rx.rps_cpus {
        Fact::Known(cpus) if !cpus.is_empty() => cpus.clone(),
        Fact::Known(_) | Fact::Unsupported if run.is_folded() => run.places(),
        Fact::Known(_) | Fact::Unsupported => {
            let places = rx.irqs.iter().filter_map(|irq| irq.effective.known());
            places.fold(CpuMask::new(), |all, one| all.union(one))
        }
        Fact::NotAsked | Fact::Denied(_) | Fact::Broken(_) => CpuMask::new(),
    }
}

/// CPUs that process packets of devices; `None` if RFS may choose any CPU, if those of a queue are unknown, or if there
/// is no device.
pub(super) fn by_all(model: &Model) -> Option<CpuMask> {
    let mut all = CpuMask::new();
    let flows = |rx: &RxQueue| !matches!(rx.rps_flow_cnt, Fact::Known(0) | Fact::Unsupported);
    for nic in &model.nics {
        for run in runs(nic).iter().filter(|run| run.first().rx.is_some()) {
            let cpus = cpus(run);
            let unknown = cpus.is_empty() && nic.kind == NicKind::Device;
            if unknown || run.first().rx.is_some_and(flows) {
                return None;
            }
            all = all.union(&cpus);
        }
    }
    let devices = model.nics.iter().any(|nic| nic.kind == NicKind::Device);
    Some(all).filter(|all| devices && !all.is_empty())
}

#[cfg(test)]
mod tests {
    use super::by_all;
    use crate::model::Fact;
    use crate::report::sample_model::{cpus, device, machine, virtual_nic};
    use crate::units::Need;

    #[test]
    fn rps_takes_packets_from_the_interrupts_cpu() {
        let mut model = machine(8, 1);
        model.nics = vec![device("eth0", "ice", 2, 24, 0), virtual_nic("veth0", "veth")];
        assert_eq!(by_all(&model), Some(cpus("0-1")));
        model.nics[0].rx[1].rps_cpus = Fact::Known(cpus("4-5"));
        model.nics[1].rx[0].rps_cpus = Fact::Known(cpus("7"));
        assert_eq!(by_all(&model), Some(cpus("0,4-5,7")));
    }

    /// Regression: listeners of a container were reported to run "where no device's packets arrive".
    #[test]
    fn none_without_a_device() {
        let mut model = machine(8, 1);
        model.nics = vec![virtual_nic("veth0", "veth")];
        assert_eq!(by_all(&model), None);
        model.nics[0].rx[0].rps_cpus = Fact::Known(cpus("7"));
        assert_eq!(by_all(&model), None);
    }

    #[test]
    fn unknown_facts_are_not_guessed() {
        let with = |change: fn(&mut crate::model::RxQueue)| {
            let mut model = machine(8, 1);
            model.nics = vec![device("eth0", "ice", 2, 24, 0)];
            change(&mut model.nics[0].rx[1]);
            by_all(&model)
        };
        assert_eq!(with(|rx| rx.rps_cpus = Fact::Denied(Need::Root)), None);
        assert_eq!(with(|rx| rx.rps_flow_cnt = Fact::Known(64)), None);
        assert_eq!(with(|rx| rx.irqs.clear()), None);
    }
}
