//! Network interfaces and their queues, from /sys/class/net.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{RawHardware, hardware, read, vmbus};
use crate::host::Host;
use crate::parse::NetdevQueue;
use crate::units::{CpuId, CpuMask, Direction, Fact, IrqId, NicName, QueueId};

/// One interface, from sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawNic {
    /// Its name.
    pub name: NicName,
    /// `ifindex`: its number in netlink answers.
    pub ifindex: Fact<u32>,
    /// `dev_port`: its port number, for devices with several.
    pub dev_port: Fact<u32>,
    /// Target of the link `/sys/class/net/NAME`: shows the bus and the device.
    pub device_path: Fact<String>,
    /// Last part of the link `device/driver`.
    pub driver: Fact<String>,
    /// `device/numa_node` of the nearest device that has one; -1 = unknown.
    pub numa_node: Fact<i32>,
    /// `operstate`.
    pub operstate: Fact<String>,
    /// MSI interrupts of its PCI function. Some drivers list interrupts that do not exist.
    pub msi_irqs: Fact<Vec<IrqId>>,
    /// Queues in the order of `rx-0`, `rx-1`, ..., `tx-0`, ...
    pub queues: Fact<Vec<RawQueue>>,
    /// `threaded`, `napi_defer_hard_irqs` and `gro_flush_timeout`; not asked of virtual interfaces without
    /// NAPI, unless in full.
    pub napi: NapiSettings,
    /// CPU of each VMBus channel, by receive queue: only for hv_netvsc.
    pub vmbus_cpus: BTreeMap<u32, CpuId>,
    /// Facts from driver and bus.
    pub hardware: RawHardware,
}

/// Settings of an interface's NAPI instances. `NotAsked` for virtual interfaces that have none, unless
/// everything about one was asked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NapiSettings {
    /// `threaded`: polled by kernel threads instead of in softirq.
    pub threaded: Fact<bool>,
    /// `napi_defer_hard_irqs`: empty polls before interrupts are re-enabled.
    pub defer_hard_irqs: Fact<u32>,
    /// `gro_flush_timeout`, nanoseconds.
    pub gro_flush_timeout_ns: Fact<u64>,
}

/// One queue. Files of the other direction are `Unsupported`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawQueue {
    /// Its name.
    pub id: QueueId,
    /// `rps_cpus`.
    pub rps_cpus: Fact<CpuMask>,
    /// `rps_flow_cnt`.
    pub rps_flow_cnt: Fact<u32>,
    /// `xps_cpus`.
    pub xps_cpus: Fact<CpuMask>,
    /// True if `xps_rxqs` is set. Recordings made before this was read do not have it.
    pub xps_by_rxq: Fact<bool>,
}

/// `in_full` selects interfaces that are asked everything, whatever their kind.
pub(super) fn take(
    host: &dyn Host,
    told: &Fact<Vec<NetdevQueue>>,
    in_full: impl Fn(&NicName) -> bool,
) -> Fact<Vec<RawNic>> {
    let polled = told.known().map(|queues| {
        queues.iter().filter(|queue| queue.napi.is_some()).map(|queue| queue.ifindex).collect()
    });
    match host.list("sys/class/net") {
        Err(error) => read::absence(&error),
        // Files such as bonding_masters are next to the interfaces; only interfaces are links with a name
        // the kernel allows and a queues directory.
        Ok(names) => Fact::Known(
            names
                .iter()
                .filter_map(|name| name.parse().ok())
                .filter(|name| host.list(&format!("sys/class/net/{name}")).is_ok())
                .map(|name| {
                    let in_full = in_full(&name);
                    one(host, name, polled.as_ref(), in_full)
                })
                .collect(),
        ),
    }
}

/// `polled` has the indices of the interfaces with a NAPI, if the kernel reports them.
fn one(host: &dyn Host, name: NicName, polled: Option<&BTreeSet<u32>>, in_full: bool) -> RawNic {
    let base = format!("sys/class/net/{name}");
    let link = |path: &str| host.link(path).map_or_else(|error| read::absence(&error), Fact::Known);
    let device_path = link(&base);
    let device = device_path.known().filter(|path| !path.contains("/virtual/"));
    let function = device.and_then(|path| pci_function(path));
    let pci = |file: &str| function.map(|f| format!("sys/bus/pci/devices/{f}/{file}"));
    let queues = queues(host, &base);
    let rx = queues.known().into_iter().flatten().filter(|queue| queue.id.direction == Direction::Rx);
    let rx_queues = rx.map(|queue| queue.id.index.saturating_add(1)).max().unwrap_or(0);
    let ifindex = read::number(host, &format!("{base}/ifindex"));
    let driver = link(&format!("{base}/device/driver"))
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    let has_napi = match (polled, ifindex.known()) {
        (Some(polled), Some(ifindex)) => in_full || device.is_some() || polled.contains(ifindex),
        _ => true,
    };
    RawNic {
        dev_port: read::number(host, &format!("{base}/dev_port")),
        vmbus_cpus: match driver.known().map(String::as_str) {
            Some("hv_netvsc") => vmbus::channel_cpus(host, &format!("{base}/device")),
            _ => BTreeMap::new(),
        },
        numa_node: match (read::number(host, &format!("{base}/device/numa_node")), pci("numa_node")) {
            (Fact::Unsupported, Some(path)) => read::number(host, &path),
            (own, _) => own,
        },
        operstate: read::text(host, &format!("{base}/operstate")).map(|text| text.trim().to_owned()),
        msi_irqs: pci("msi_irqs").map_or(Fact::Unsupported, |path| msi_irqs(host, &path)),
        napi: if has_napi { napi_settings(host, &base) } else { NapiSettings::default() },
        hardware: hardware::take(host, &name, rx_queues, device.map(|_| function), in_full),
        driver,
        ifindex,
        queues,
        device_path,
        name,
    }
}

fn napi_settings(host: &dyn Host, base: &str) -> NapiSettings {
    NapiSettings {
        threaded: read::number(host, &format!("{base}/threaded")).map(|mode: u32| mode != 0),
        defer_hard_irqs: read::number(host, &format!("{base}/napi_defer_hard_irqs")),
        gro_flush_timeout_ns: read::number(host, &format!("{base}/gro_flush_timeout")),
    }
}

fn msi_irqs(host: &dyn Host, path: &str) -> Fact<Vec<IrqId>> {
    match host.list(path) {
        Err(error) => read::absence(&error),
        Ok(names) => {
            let mut irqs: Vec<IrqId> = names.iter().filter_map(|name| name.parse().ok().map(IrqId)).collect();
            irqs.sort();
            Fact::Known(irqs)
        }
    }
}

/// The last PCI function on a device path: `0000:00:03.0`.
pub(crate) fn pci_function(device_path: &str) -> Option<&str> {
    let is_function = |part: &&str| {
        let hex =
            |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let mut fields = part.split([':', '.']);
        let fields = [fields.next(), fields.next(), fields.next(), fields.next(), fields.next()];
        matches!(fields, [Some(domain), Some(bus), Some(device), Some(function), None]
            if domain.len() >= 4 && hex(domain, domain.len()) && hex(bus, 2) && hex(device, 2) && hex(function, 1))
    };
    device_path.rsplit('/').find(is_function)
}

fn queues(host: &dyn Host, base: &str) -> Fact<Vec<RawQueue>> {
    let names = match host.list(&format!("{base}/queues")) {
        Ok(names) => names,
        Err(error) => return read::absence(&error),
    };
    let mut ids: Vec<QueueId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort();
    Fact::Known(ids.into_iter().map(|id| queue(host, base, id)).collect())
}

fn queue(host: &dyn Host, base: &str, id: QueueId) -> RawQueue {
    let path = |file: &str| format!("{base}/queues/{id}/{file}");
    match id.direction {
        Direction::Rx => RawQueue {
            id,
            rps_cpus: read::cpu_mask(host, &path("rps_cpus")),
            rps_flow_cnt: read::number(host, &path("rps_flow_cnt")),
            xps_cpus: Fact::Unsupported,
            xps_by_rxq: Fact::Unsupported,
        },
        Direction::Tx => RawQueue {
            id,
            rps_cpus: Fact::Unsupported,
            rps_flow_cnt: Fact::Unsupported,
            xps_cpus: read::cpu_mask(host, &path("xps_cpus")),
            // A mask of receive queues, in the form of a CPU mask.
            xps_by_rxq: read::cpu_mask(host, &path("xps_rxqs")).map(|queues| !queues.is_empty()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::pci_function;
    use crate::host::RecordedHost;
    use crate::sample::Inventory;
    use crate::units::QueueId;

    /// Synthetic: no kernel has so many queues, but a recorded tree may.
    #[test]
    fn the_last_number_of_all_is_a_queue_like_any_other() {
        let base = "sys/class/net/eth0";
        let host = RecordedHost::new()
            .with_link(base, "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with(&format!("{base}/queues/rx-4294967295/rps_cpus"), "0\n");
        let inventory = Inventory::take(&host, crate::sample::Scope::Path);
        let nic = &inventory.nics.known().expect("listed")[0];
        assert_eq!(nic.queues.known().expect("listed")[0].id, QueueId::rx(u32::MAX));
    }

    #[test]
    fn a_queue_that_is_chosen_by_receive_queue() {
        let base = "sys/class/net/eth0";
        let host = RecordedHost::new()
            .with_link(base, "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with(&format!("{base}/queues/tx-0/xps_rxqs"), "0\n")
            .with(&format!("{base}/queues/tx-1/xps_rxqs"), "2\n")
            .with(&format!("{base}/queues/tx-2/xps_cpus"), "2\n");
        let inventory = Inventory::take(&host, crate::sample::Scope::Path);
        let queues = inventory.nics.known().expect("listed")[0].queues.known().expect("listed").clone();
        let by_rxq: Vec<_> = queues.iter().map(|queue| queue.xps_by_rxq.known().copied()).collect();
        assert_eq!(by_rxq, [Some(false), Some(true), None]);
    }

    #[test]
    fn the_function_nearest_to_the_interface() {
        let path = "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0";
        assert_eq!(pci_function(path), Some("0000:00:03.0"));
        let behind_bridge = "../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/enp59s0f1";
        assert_eq!(pci_function(behind_bridge), Some("0000:3b:00.1"));
        assert_eq!(pci_function("../../devices/virtual/net/lo"), None);
    }
}
