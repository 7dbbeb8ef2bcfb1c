//! Network interfaces and their queues, from /sys/class/net.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Hardware, Irq, hardware, read, vmbus};
use crate::drivers;
use rxlab_base::parse::ethtool::{Channels, Count, QueueStatistics};
use rxlab_base::parse::{Holder, NetdevQueue};
use rxlab_base::units::{CpuId, CpuMask, Direction, Fact, IrqId, NicName, QueueId};
use rxlab_sys::Host;

/// One interface, from sysfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawNic {
    /// Name of the interface.
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
    /// `operstate`, such as `up` or `lowerlayerdown`.
    pub operstate: Fact<String>,
    /// MSI interrupts of its PCI function. Some drivers list interrupts that do not exist.
    pub msi_irqs: Fact<Vec<IrqId>>,
    /// Buses of its USB host, such as `usb1`; empty for other devices, and if they cannot be listed.
    pub usb_buses: Vec<String>,
    /// Receive queues, by index, without interrupts and NAPIs: these have sources of their own.
    pub rx: Vec<RxQueue>,
    /// Transmit queues, by index.
    pub tx: Vec<TxQueue>,
    /// `threaded`, `napi_defer_hard_irqs` and `gro_flush_timeout`; not asked of virtual interfaces without
    /// NAPI, unless in full. Of those that may have NAPI for all that the kernel reports, only `threaded` is asked.
    pub napi: NapiSettings,
    /// Facts from driver and bus.
    pub hardware: Hardware,
    /// Those of the driver's own statistics that are read.
    pub queue_statistics: Fact<QueueStatistics>,
}

impl RawNic {
    /// True for an interface without a device.
    pub(super) fn is_virtual(&self) -> bool {
        is_virtual(&self.device_path)
    }
}

fn is_virtual(device_path: &Fact<String>) -> bool {
    device_path.known().is_some_and(|path| path.contains("/virtual/"))
}

/// Settings of an interface's NAPI instances. `NotAsked` for virtual interfaces that have none, unless
/// everything about one was asked. Before kernel 6.8, which reports NAPIs, only `threaded` is asked of virtual interfaces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RxQueue {
    /// N of `rx-N`.
    pub index: u32,
    /// CPUs that RPS hands packets of this queue to; empty = RPS off. In a model, those of rx-0 if the driver does not
    /// report which queue a packet came from.
    pub rps_cpus: Fact<CpuMask>,
    /// Entries of the RFS table for this queue's packets; 0 = RFS off here. In a model, of rx-0 in the same case.
    pub rps_flow_cnt: Fact<u32>,
    /// The queue's interrupts: one as a rule, none for virtual interfaces.
    pub irqs: Vec<Irq>,
    /// The NAPI instance that polls the queue, if the kernel reports it.
    pub napi: Option<Napi>,
    /// The CPU that the hypervisor signals for this queue's packets, for hv_netvsc: its channels have no
    /// numbered interrupts.
    pub channel_cpu: Option<CpuId>,
    /// Recipient of the queue's packets other than the network stack, if the kernel reports one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Holder>,
}

/// One transmit queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        let mut polled = Polled::new();
        for queue in queues.iter().filter(|queue| queue.napi.is_some()) {
            polled.entry(queue.ifindex).or_default().insert(queue.queue);
        }
        polled
    });
    read::list(host, "sys/class/net").map(|names| {
        let links: BTreeMap<String, String> =
            host.links("sys/class/net").unwrap_or_default().into_iter().collect();
        // Files such as bonding_masters are next to the interfaces; only interfaces are links or directories with
        // a name the kernel allows.
        let nic = |name: &String| {
            let name: NicName = name.parse().ok()?;
            let path = format!("sys/class/net/{name}");
            let target = links.get(name.as_str());
            let device_path =
                target.map_or_else(|| read::link(host, &path), |path| Fact::Known(path.clone()));
            if device_path.known().is_none() {
                host.list(&path).ok()?;
            }
            let in_full = in_full(&name);
            Some(one(host, name, device_path, polled.as_ref(), in_full))
        };
        names.iter().filter_map(nic).collect()
    })
}

/// Interfaces whose names are not UTF-8, escaped: nothing else about them can be read.
pub(super) fn unreadable(host: &dyn Host) -> Vec<String> {
    let mut names = host.list("sys/class/net").unwrap_or_default();
    // The kernel allows a backslash in a name.
    names.retain(|name| name.contains("\\x") && host.link(&format!("sys/class/net/{name}")).is_err());
    names
}

/// Queues that have a NAPI, by interface index.
type Polled = BTreeMap<u32, BTreeSet<QueueId>>;

/// `polled` is `None` if the kernel does not report it.
fn one(
    host: &dyn Host,
    name: NicName,
    device_path: Fact<String>,
    polled: Option<&Polled>,
    in_full: bool,
) -> RawNic {
    let base = format!("sys/class/net/{name}");
    // Virtual interfaces have no device: files that belong to one are not looked for, as there may be thousands.
    let is_virtual = is_virtual(&device_path);
    let device = device_path.known().filter(|path| !path.contains("/virtual/"));
    let function = device.and_then(|path| pci_function(path));
    let pci = |file: &str| function.map(|f| format!("sys/bus/pci/devices/{f}/{file}"));
    let ifindex = read::number(host, &format!("{base}/ifindex"));
    let driver = if is_virtual {
        Fact::Unsupported
    } else {
        read::link(host, &format!("{base}/device/driver")).map(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            if name == "vif" && device.is_some_and(|path| is_xen_backend(path)) {
                "xen-netback"
            } else {
                name
            }
            .to_owned()
        })
    };
    let napi = match (polled, ifindex.known()) {
        _ if in_full || !is_virtual => napi_settings(host, &base),
        (Some(polled), Some(ifindex)) if polled.contains_key(ifindex) => napi_settings(host, &base),
        (Some(_), Some(_)) => NapiSettings::default(),
        _ => NapiSettings { threaded: threaded(host, &base), ..NapiSettings::default() },
    };
    let known_driver = driver.known().map(String::as_str);
    let facts = drivers::facts(known_driver);
    let channel_cpus = if facts.has_vmbus_channels {
        vmbus::channel_cpus(host, &format!("{base}/device"))
    } else {
        BTreeMap::new()
    };
    let hardware = hardware::take(host, &name, known_driver, device.map(|_| function), in_full);
    let mut ids = queue_ids(host, &base);
    if let Some(channels) = hardware.channels.known().filter(|_| facts.has_spare_queues) {
        let known = polled.zip(ifindex.known()).and_then(|(polled, ifindex)| polled.get(ifindex));
        without_surplus(&mut ids, host, &base, channels, known);
    }
    let (rx, tx) = queues(host, &base, ids, &channel_cpus);
    let rx_queues = rx.last().map_or(0, |queue| queue.index.saturating_add(1));
    RawNic {
        dev_port: if is_virtual {
            Fact::Unsupported
        } else {
            read::number(host, &format!("{base}/dev_port"))
        },
        numa_node: match pci("numa_node") {
            _ if is_virtual => Fact::Unsupported,
            path => read::number(host, &format!("{base}/device/numa_node"))
                .or(|| path.map_or(Fact::Unsupported, |path| read::number(host, &path))),
        },
        operstate: read::text(host, &format!("{base}/operstate")).map(|text| text.trim().to_owned()),
        msi_irqs: pci("msi_irqs").map_or(Fact::Unsupported, |path| msi_irqs(host, &path)),
        usb_buses: device.map(|path| usb_buses(host, path)).unwrap_or_default(),
        napi,
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
        threaded: threaded(host, base),
        defer_hard_irqs: read::number(host, &format!("{base}/napi_defer_hard_irqs")),
        gro_flush_timeout_ns: read::number(host, &format!("{base}/gro_flush_timeout")),
    }
}

fn threaded(host: &dyn Host, base: &str) -> Fact<bool> {
    read::number(host, &format!("{base}/threaded")).map(|mode: u32| mode != 0)
}

/// True for the end of a guest's interface on the host of Xen, `vif-DOMAIN-NUMBER`; the guest's is `vif-NUMBER`. sysfs names
/// the drivers of both ends `vif`.
fn is_xen_backend(device_path: &str) -> bool {
    let device = device_path.rsplit_once("/net/").and_then(|(device, _)| device.rsplit('/').next());
    device.and_then(|name| name.strip_prefix("vif-")).is_some_and(|rest| rest.contains('-'))
}

fn msi_irqs(host: &dyn Host, path: &str) -> Fact<Vec<IrqId>> {
    read::list(host, path).map(|names| {
        let mut irqs: Vec<IrqId> = names.iter().filter_map(|name| name.parse().ok().map(IrqId)).collect();
        irqs.sort();
        irqs
    })
}

/// The buses of the USB host on a device path: one for each of its root hubs.
fn usb_buses(host: &dyn Host, device_path: &str) -> Vec<String> {
    let is_bus = |part: &str| {
        let number = part.strip_prefix("usb").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    };
    let device = device_path.rsplit_once("/net/").map_or("", |(device, _)| device);
    let parts: Vec<&str> = device.split('/').collect();
    let Some(bus) = parts.iter().position(|part| is_bus(part)) else { return Vec::new() };
    let folder = parts[..bus].join("/");
    let mut names = host.list(&format!("sys/{}", folder.trim_start_matches("../"))).unwrap_or_default();
    names.retain(|name| is_bus(name));
    names
}

/// The last PCI function on a device path: `0000:00:03.0`.
pub fn pci_function(device_path: &str) -> Option<&str> {
    device_path.rsplit('/').find(|part| {
        let hex =
            |text: &str, digits: usize| text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let mut fields = part.split([':', '.']);
        let fields = [fields.next(), fields.next(), fields.next(), fields.next(), fields.next()];
        matches!(fields, [Some(domain), Some(bus), Some(device), Some(function), None]
            if domain.len() >= 4 && hex(domain, domain.len()) && hex(bus, 2) && hex(device, 2) && hex(function, 1))
    })
}

/// Queues in sysfs, in order; none if they cannot be listed.
fn queue_ids(host: &dyn Host, base: &str) -> Vec<QueueId> {
    let names = host.list(&format!("{base}/queues")).unwrap_or_default();
    let mut ids: Vec<QueueId> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort();
    ids
}

/// Removes queues beyond the number of channels, unless the kernel reports that they have a NAPI: for drivers that show more than
/// may receive. Traffic classes multiply channels, so nothing is removed from an interface that has them.
fn without_surplus(
    ids: &mut Vec<QueueId>,
    host: &dyn Host,
    base: &str,
    channels: &Channels,
    polled: Option<&BTreeSet<QueueId>>,
) {
    let count = |own: Option<Count>| {
        let count = [own, channels.combined].into_iter().flatten().map(|count| count.now);
        Some(count.fold(0, u32::saturating_add)).filter(|count| *count > 0).unwrap_or(u32::MAX)
    };
    let (rx, tx) = (count(channels.rx), count(channels.tx));
    let has_channel = |id: &QueueId| id.index < if id.direction == Direction::Rx { rx } else { tx };
    let is_real = |id: &QueueId| has_channel(id) || polled.is_some_and(|polled| polled.contains(id));
    if ids.iter().all(is_real) {
        return;
    }
    let class = |id: &QueueId| read::text(host, &format!("{base}/queues/{id}/traffic_class"));
    let has_classes = ids
        .iter()
        .filter(|id| id.direction == Direction::Tx)
        .any(|id| class(id).known().is_some_and(|class| class.trim() != "0"));
    if !has_classes {
        ids.retain(is_real);
    }
}

fn queues(
    host: &dyn Host,
    base: &str,
    ids: Vec<QueueId>,
    channel_cpus: &BTreeMap<u32, CpuId>,
) -> (Vec<RxQueue>, Vec<TxQueue>) {
    let (mut rx, mut tx) = (Vec::new(), Vec::new());
    for id in ids {
        let path = |file: &str| format!("{base}/queues/{id}/{file}");
        match id.direction {
            Direction::Rx => rx.push(RxQueue {
                index: id.index,
                rps_cpus: read::cpu_mask(host, &path("rps_cpus")),
                rps_flow_cnt: read::number(host, &path("rps_flow_cnt")),
                channel_cpu: channel_cpus.get(&id.index).copied(),
                ..RxQueue::default()
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
    use crate::sample::Inventory;
    use rxlab_base::parse::{attribute, one_message};
    use rxlab_sys::{Failpoint, FlakyHost, RecordedHost};

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

    /// An interface of 16 receive and 8 transmit queues in sysfs, with 8 combined channels, as an mlx5 of kernel
    /// 5.15; `edit` makes it another.
    fn queues(driver: &str, edit: impl FnOnce(RecordedHost) -> RecordedHost) -> (usize, usize) {
        let base = "sys/class/net/eth0";
        let mut host = RecordedHost::new()
            .with_link(base, "../../devices/pci0000:00/0000:00:03.0/net/eth0")
            .with_link(&format!("{base}/device/driver"), &format!("../../bus/pci/drivers/{driver}"))
            .with(&format!("{base}/ifindex"), "4\n");
        for queue in 0..16 {
            host = host.with(&format!("{base}/queues/rx-{queue}/rps_cpus"), "0\n");
        }
        for queue in 0..8 {
            host = host.with(&format!("{base}/queues/tx-{queue}/traffic_class"), "0\n");
        }
        let message = [(5, 32_u32), (9, 8)].map(|(kind, count)| attribute(kind, count.to_ne_bytes()));
        let host = edit(host.with("netlink/ethtool/channels-get/eth0", one_message(&message.concat())));
        let inventory = Inventory::take(&host, crate::sample::Scope::Path);
        let nic = &inventory.nics.known().expect("listed")[0];
        assert!(nic.hardware.channels.known().is_some(), "{:?}", nic.hardware.channels);
        (nic.rx.len(), nic.tx.len())
    }

    #[test]
    fn queues_without_a_channel_are_not_queues() {
        let base = "sys/class/net/eth0/queues";
        assert_eq!(queues("mlx5_core", |host| host), (8, 8));
        let more = |host: RecordedHost| host.with(&format!("{base}/tx-8/traffic_class"), "0\n");
        assert_eq!(queues("mlx5_core", more), (8, 8), "sends through no channel");
        let classes = |host: RecordedHost| host.with(&format!("{base}/tx-4/traffic_class"), "1\n");
        assert_eq!(queues("mlx5_core", classes), (16, 8), "each traffic class has these channels");
    }

    /// The default queue of be2net is no channel, and had most packets; XDP adds pairs to those of virtio_net.
    #[test]
    fn the_queues_of_other_drivers_are_those_of_sysfs() {
        for driver in ["be2net", "virtio_net", "ixgbe", "no-such-driver"] {
            assert_eq!(queues(driver, |host| host), (16, 8), "{driver}");
        }
    }

    /// A container host has thousands of interfaces: the operations for one more are always the same.
    #[test]
    fn operations_grow_with_the_number_of_interfaces() {
        let operations = |interfaces: u32| {
            let mut host = RecordedHost::new();
            for index in 1..=interfaces {
                let base = format!("sys/class/net/veth{index:04}");
                host = host
                    .with_link(&base, &format!("../../devices/virtual/net/veth{index:04}"))
                    .with(&format!("{base}/ifindex"), format!("{index}\n"))
                    .with(&format!("{base}/iflink"), format!("{}\n", ((index - 1) ^ 1) + 1))
                    .with(&format!("{base}/queues/rx-0/rps_cpus"), "0\n");
            }
            let fuse = Failpoint::new(None, || {});
            let host = FlakyHost::new(host, Vec::new(), fuse.clone());
            let inventory = Inventory::take(&host, crate::sample::Scope::Load);
            let links = inventory.links.known().expect("as sysfs shows them");
            assert!(links.iter().all(|link| link.kind.as_deref() == Some("veth")));
            crate::sample::Counters::take(&host, &inventory);
            fuse.count()
        };
        let [some, more, most] = [20, 120, 220].map(operations);
        assert_eq!(more - some, most - more);
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
