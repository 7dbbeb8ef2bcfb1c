//! Numbered interrupts: their action names, allowed and effective CPUs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::read;
use rxlab_base::parse::{self, RequestedIrq};
use rxlab_base::units::{CpuMask, Fact, IrqId};
use rxlab_sys::Host;

/// One interrupt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Irq {
    /// Its number in this boot.
    pub number: IrqId,
    /// The action name of `/proc/interrupts`, such as `virtio0-input.0`; several if drivers share it: `a, b`.
    pub action: String,
    /// CPUs it may go to (`smp_affinity_list`). May be pending: not necessarily its placement.
    pub affinity: Fact<CpuMask>,
    /// CPUs it goes to (`effective_affinity_list`). Empty if its controller cannot send it anywhere else, as for an interrupt
    /// that each CPU has for itself (`request_percpu_irq`); unsupported where the controller does not note it.
    pub effective: Fact<CpuMask>,
    /// Source of its assignment to this device and queue.
    pub source: Source,
    /// Node of the PCI function whose address its name has, if the kernel shows it: an interface may have vectors of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// The PCI function whose vector it is, by its chip in `/proc/interrupts`, which names it since Linux 6.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_of: Option<String>,
}

impl Irq {
    /// The name that each driver gave it.
    pub fn actions(&self) -> impl Iterator<Item = &str> {
        self.action.split(", ")
    }

    /// The PCI function in its name: `0000:3b:00.0` of `mlx5_comp2@pci:0000:3b:00.0`.
    pub(crate) fn function(&self) -> Option<&str> {
        self.actions().find_map(address)
    }

    /// True if a new affinity is not effective yet: that takes the next interrupt.
    pub fn is_pending(&self) -> bool {
        let (Some(may), Some(goes)) = (self.affinity.known(), self.effective.known()) else { return false };
        !goes.is_empty() && may.intersection(goes).is_empty()
    }
}

/// Proof that an interrupt is a queue's, strongest first: the kernel's word, or two facts that agree. An interrupt of no
/// queue has the fact by which it is the device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The kernel: netdev netlink, queue -> NAPI -> interrupt.
    Netlink,
    /// The device's MSI list contains it, or its chip has the device's address, and the driver gives such a name to the queue's.
    MsiName,
    /// It has the bare name of the device or of the interface, and the driver requests those in this order.
    Order,
    /// The device has no other interrupt that may receive.
    Only,
    /// Its action name contains the name or the address of the device, and the driver gives such a name to the queue's; the
    /// device has no MSI list.
    #[default]
    Name,
}

/// The PCI function behind an @ of an action name.
pub(crate) fn address(action: &str) -> Option<&str> {
    let (_, address) = action.split_once('@')?;
    Some(address.strip_prefix("pci:").unwrap_or(address))
}

/// The interrupts that at least one driver uses, not assigned to a device yet.
pub(super) fn take(host: &dyn Host) -> Fact<Vec<Irq>> {
    let mut nodes: BTreeMap<String, Option<u32>> = BTreeMap::new();
    let mut node = |irq: &Irq| {
        let function = irq.function()?;
        let read = || {
            let path = format!("sys/bus/pci/devices/{function}/numa_node");
            // -1 is unknown.
            read::number::<i32>(host, &path).known().and_then(|node| u32::try_from(*node).ok())
        };
        *nodes.entry(function.to_owned()).or_insert_with(read)
    };
    // Only there is the clock called so. Its interrupts go to any CPU that is idle, unless the machine directs them
    // (arch/s390/pci/pci_irq.c: zpci_floating_irq_init).
    let clocksource = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let is_s390 = read::text(host, clocksource).known().is_some_and(|clock| clock.trim() == "tod");
    let rp1_moves = || {
        let release = read::text(host, "proc/sys/kernel/osrelease");
        !release.known().is_some_and(|release| is_before_rp1_moves(release))
    };
    read::interrupts(host, parse::interrupt_actions).map(|irqs| {
        let used = irqs.into_iter().filter(|irq| !irq.actions.is_empty());
        let irqs =
            used.map(|RequestedIrq { number, actions, is_of_xen, is_of_rp1, is_fixed, function }| Irq {
                number,
                vector_of: function,
                action: actions.join(", "),
                affinity: read::cpu_list(host, &format!("proc/irq/{number}/smp_affinity_list")),
                effective: match read::cpu_list(host, &format!("proc/irq/{number}/effective_affinity_list")) {
                    // Before Linux 5.12 event channels are moved without a note (drivers/xen/events/events_base.c).
                    Fact::Known(cpus) if cpus.is_empty() && is_of_xen => Fact::Unsupported,
                    Fact::Known(cpus) if cpus.is_empty() && is_of_rp1 && rp1_moves() => Fact::Unsupported,
                    // Kernels that note where interrupts go note nothing for it.
                    Fact::Unsupported if is_fixed || is_s390 => Fact::Known(CpuMask::new()),
                    cpus => cpus,
                },
                ..Irq::default()
            });
        irqs.map(|irq| Irq { node: node(&irq), ..irq }).collect()
    })
}

/// True for a kernel before rp1_irq_set_affinity of April 2024, which moves interrupts without a note (raspberrypi/linux PR 6090);
/// OpenWrt took it into 6.1 as well.
fn is_before_rp1_moves(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    matches!((next(), next(), next()), (Some(6), Some(1), Some(..82)) | (Some(6), Some(6), Some(..23)))
}

#[cfg(test)]
mod tests {
    use super::take;
    use rxlab_base::units::{CpuMask, Fact};
    use rxlab_sys::RecordedHost;

    /// A write to their `smp_affinity` fails, and kernels without `effective_affinity` do not show it.
    #[test]
    fn interrupts_that_no_write_moves() {
        let effective = |chip: &str, clock: &str| {
            let clocksource = "sys/devices/system/clocksource/clocksource0/current_clocksource";
            let host = RecordedHost::new()
                .with("proc/interrupts", format!("  CPU0 CPU1\n 86: 1 0 {chip} 41 Edge eth0\n"))
                .with(clocksource, format!("{clock}\n"));
            take(&host).known().expect("read")[0].effective.clone()
        };
        assert_eq!(effective("GICv3", "arch_sys_counter"), Fact::Unsupported);
        assert_eq!(effective("ARMCTRL-level", "arch_sys_counter"), Fact::Known(CpuMask::new()));
        assert_eq!(effective("PCI-MSI", "tod"), Fact::Known(CpuMask::new()), "s390");
    }

    /// raspberrypi/linux issue 7101: on 6.12 it moves, and the kernel has still no CPU for it.
    #[test]
    fn a_chip_that_moves_interrupts_without_a_note_says_nothing() {
        let is_known = |chip: &str, release: &str| {
            let host = RecordedHost::new()
                .with("proc/interrupts", format!("  CPU0 CPU1\n 106: 1 0 {chip}   6 Level eth0\n"))
                .with("proc/irq/106/effective_affinity_list", "\n")
                .with("proc/sys/kernel/osrelease", format!("{release}\n"));
            take(&host).known().expect("read")[0].effective == Fact::Known(CpuMask::new())
        };
        assert!(!is_known("rp1_irq_chip", "6.12.62+rpt-rpi-2712"));
        assert!(!is_known("rp1_irq_chip", "6.6.31-v8") && !is_known("rp1_irq_chip", "6.1.86"));
        assert!(is_known("rp1_irq_chip", "6.6.20+rpt-rpi-2712") && is_known("rp1_irq_chip", "6.1.0-rpi8"));
        assert!(is_known("GICv2", "6.12.62+rpt-rpi-2712"));
    }
}
