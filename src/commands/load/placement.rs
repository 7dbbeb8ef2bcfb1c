//! Default placement of load threads: away from the interrupts whose work they cause.

use rxlab_base::units::CpuMask;
use rxlab_path::model::{Irq, Model, NicKind};

/// One CPU per core of those `allowed`, excluding CPUs that take interrupts of an interface that is up, and
/// their hyper-threads. If none are left, hyper-threads are included, and then any CPU.
pub(super) fn quiet_cpus(model: &Model, allowed: &CpuMask) -> CpuMask {
    let ours = model.scheduled().intersection(allowed);
    let up = model.nics.iter().filter(|nic| nic.kind == NicKind::Device && nic.up);
    let irqs = up.flat_map(|nic| &nic.rx).flat_map(|queue| &queue.irqs);
    let busy = irqs.fold(CpuMask::new(), |all, irq| all.union(&lands_on(irq)));
    let choices = [ours.difference(&busy.union(&model.siblings(&busy))), ours.difference(&busy), ours];
    let choice = choices.into_iter().find(|choice| !choice.is_empty()).unwrap_or_else(|| allowed.clone());
    let first_of_its_core = |cpu: &rxlab_base::units::CpuId| {
        let siblings = model.cpu(*cpu).map(|cpu| cpu.siblings.intersection(&choice)).unwrap_or_default();
        siblings.first().is_none_or(|first| first == *cpu)
    };
    choice.iter().filter(first_of_its_core).collect()
}

/// CPUs chosen by the kernel, else the only allowed one.
fn lands_on(irq: &Irq) -> CpuMask {
    let masks = [irq.effective.known(), irq.affinity.known()].into_iter().flatten();
    masks.into_iter().find(|mask| mask.len() == 1).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::quiet_cpus;
    use rxlab_path::model::Model;
    use rxlab_path::sample::{Inventory, Scope};
    use rxlab_sys::RecordedHost;

    /// `cpus` CPUs, of which `n` and `n + cores` form a core; the interrupt of eth0 goes to `irq`.
    fn model(cpus: u32, cores: u32, irq: u32) -> Model {
        let mut host = RecordedHost::new()
            .with("sys/devices/system/cpu/online", format!("0-{}\n", cpus - 1))
            .with("sys/devices/system/cpu/present", format!("0-{}\n", cpus - 1))
            .with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0")
            .with("sys/class/net/eth0/operstate", "up\n")
            .with("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n")
            .with("sys/bus/pci/devices/0000:00:03.0/msi_irqs/38", "msix\n")
            .with("proc/irq/38/smp_affinity_list", format!("0-{}\n", cpus - 1))
            .with("proc/irq/38/effective_affinity_list", format!("{irq}\n"))
            .with("proc/interrupts", "  CPU0\n 38: 7 PCI-MSIX 1-edge virtio2-input.0\n");
        for cpu in 0..cpus {
            let list = [cpu % cores, cpu % cores + cores].map(|n| n.to_string());
            let of_it = if cpus > cores { list.join(",") } else { cpu.to_string() };
            let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            host = host.with(&path, of_it + "\n");
        }
        Model::new(&Inventory::take(&host, Scope::All))
    }

    fn quiet(model: &Model, allowed: &str) -> String {
        quiet_cpus(model, &allowed.parse().expect("a list")).to_string()
    }

    #[test]
    fn threads_have_cores_of_their_own_away_from_interrupts() {
        assert_eq!(quiet(&model(8, 4, 1), "0-7"), "0,2-3", "the core of CPU 1 takes the interrupt");
        assert_eq!(quiet(&model(8, 4, 6), "0-7"), "0-1,3");
        assert_eq!(quiet(&model(4, 4, 0), "0-3"), "1-3");
        assert_eq!(quiet(&model(8, 4, 1), "1-2,6"), "2", "within the allowed CPUs");
    }

    #[test]
    fn where_there_is_no_quiet_core_there_is_still_a_place() {
        assert_eq!(quiet(&model(2, 1, 0), "0-1"), "1", "the other thread of the core");
        assert_eq!(quiet(&model(1, 1, 0), "0"), "0");
    }
}
