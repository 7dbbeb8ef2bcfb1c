//! Network interfaces and their queues, from /sys/class/net.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Hardware, Irq, hardware, read, vmbus};
use crate::host::Host;
use crate::parse::NetdevQueue;
use crate::parse::ethtool::QueueStatistics;
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
    /// Receive queues, by index, without interrupts and NAPIs: these have sources of their own.
    pub rx: Vec<RxQueue>,
    /// Transmit queues, by index.
    pub tx: Vec<TxQueue>,
    /// `threaded`, `napi_defer_hard_irqs` and `gro_flush_timeout`; not asked of virtual interfaces without
    /// NAPI, unless in full.
    pub napi: NapiSettings,
    /// Facts from driver and bus.
    pub hardware: Hardware,
    /// Those of the driver's own statistics that count packets by queue.
    pub queue_statistics: Fact<QueueStatistics>,
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

/// One receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RxQueue {
    /// N of `rx-N`.
    pub index: u32,
    /// CPUs that RPS hands packets of this queue to; empty = RPS off.
    pub rps_cpus: Fact<CpuMask>,
    /// Entries of this queue's RFS table; 0 = RFS off here.
    pub rps_flow_cnt: Fact<u32>,
    /// The queue's interrupts: one as a rule, none for virtual interfaces.
    pub irqs: Vec<Irq>,
    /// The NAPI instance that polls the queue, if the kernel reports it.
    pub napi: Option<Napi>,
    /// The CPU that the hypervisor signals for this queue's packets, for hv_netvsc: its channels have no
    /// numbered interrupts.
    pub channel_cpu: Option<CpuId>,
}

/// One transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TxQueue {
    /// N of `tx-N`.
    pub index: u32,
    /// CPUs that send through this queue; `Unsupported` on one-queue devices (the kernel's ENOENT).
    pub xps_cpus: Fact<CpuMask>,
    /// True if `xps_rxqs` contains receive queues: their flows are sent through this queue, whatever CPU
    /// sends them.
    #[serde(default)]
    pub xps_by_rxq: Fact<bool>,
}

/// The NAPI instance of a queue, from netdev netlink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Napi {
    /// Its number.
    pub id: u32,
    /// Its interrupt, if the driver told the kernel.
    pub irq: Option<IrqId>,
    /// Its kernel thread, if NAPI is threaded.
    pub thread: Option<u32>,
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
    let ifindex = read::number(host, &format!("{base}/ifindex"));
    let driver = link(&format!("{base}/device/driver"))
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned());
    let has_napi = match (polled, ifindex.known()) {
        (Some(polled), Some(ifindex)) => in_full || device.is_some() || polled.contains(ifindex),
        _ => true,
    };
    let channel_cpus = match driver.known().map(String::as_str) {
        Some("hv_netvsc") => vmbus::channel_cpus(host, &format!("{base}/device")),
        _ => BTreeMap::new(),
    };
    let (rx, tx) = queues(host, &base, &channel_cpus);
    let rx_queues = rx.last().map_or(0, |queue| queue.index.saturating_add(1));
    let known_driver = driver.known().map(String::as_str);
    let hardware = hardware::take(host, &name, known_driver, device.map(|_| function), in_full);
    RawNic {
        dev_port: read::number(host, &format!("{base}/dev_port")),
        numa_node: match (read::number(host, &format!("{base}/device/numa_node")), pci("numa_node")) {
            (Fact::Unsupported, Some(path)) => read::number(host, &path),
            (own, _) => own,
        },
        operstate: read::text(host, &format!("{base}/operstate")).map(|text| text.trim().to_owned()),
        msi_irqs: pci("msi_irqs").map_or(Fact::Unsupported, |path| msi_irqs(host, &path)),
        napi: if has_napi { napi_settings(host, &base) } else { NapiSettings::default() },
        queue_statistics: hardware::queue_statistics(host, &name, &hardware, rx_queues),
        hardware,
        driver,
        ifindex,
        rx,
        tx,
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

/// Queues by index; none if they cannot be listed.
fn queues(host: &dyn Host, base: &str, channel_cpus: &BTreeMap<u32, CpuId>) -> (Vec<RxQueue>, Vec<TxQueue>) {
    let names = host.list(&format!("{base}/queues")).unwrap_or_default();
    let mut ids: Vec<QueueId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort();
    let (mut rx, mut tx) = (Vec::new(), Vec::new());
    for id in ids {
        let path = |file: &str| format!("{base}/queues/{id}/{file}");
        match id.direction {
            Direction::Rx => rx.push(RxQueue {
                index: id.index,
                rps_cpus: read::cpu_mask(host, &path("rps_cpus")),
                rps_flow_cnt: read::number(host, &path("rps_flow_cnt")),
                irqs: Vec::new(),
                napi: None,
                channel_cpu: channel_cpus.get(&id.index).copied(),
            }),
            Direction::Tx => tx.push(TxQueue {
                index: id.index,
                xps_cpus: read::cpu_mask(host, &path("xps_cpus")),
                // A mask of receive queues, in the form of a CPU mask.
                xps_by_rxq: read::cpu_mask(host, &path("xps_rxqs")).map(|queues| !queues.is_empty()),
            }),
        }
    }
    (rx, tx)
}

#[cfg(test)]
mod tests {
    use super::pci_function;
    use crate::host::RecordedHost;
    use crate::sample::Inventory;

    /// Synthetic: no kernel has so many queues, but a recorded tree may.
    #[test]
    fn the_last_number_of_all_is_a_queue_like_any_other() {
        let base = "sys/class/net/eth0";
        let host = RecordedHost::new()
            .with_link(base, "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with(&format!("{base}/queues/rx-4294967295/rps_cpus"), "0\n");
        let inventory = Inventory::take(&host, crate::sample::Scope::Path);
        let nic = &inventory.nics.known().expect("listed")[0];
        assert_eq!(nic.rx[0].index, u32::MAX);
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
        let tx = &inventory.nics.known().expect("listed")[0].tx;
        let by_rxq: Vec<_> = tx.iter().map(|queue| queue.xps_by_rxq.known().copied()).collect();
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
