//! Drivers' reports on their devices, from ethtool, and SR-IOV facts from the bus.
//!
//! A device is asked everything once. A virtual interface that is not of special interest is asked only for
//! its driver and offloads, and a veth only for its driver: a machine may have hundreds, a list of offloads
//! costs as much as everything else read about one, and its NAPI reveals the same fact (`rx-gro`).

use serde::{Deserialize, Serialize};

use super::read;
use crate::drivers::{self, Kind};
use rxlab_base::parse::WireError;
use rxlab_base::parse::ethtool::{
    self, Channels, Coalesce, DriverInfo, Feature, FlowRule, HashFields, QueueStatistics, Rings, Rss,
};
use rxlab_base::units::{Fact, NicName};
use rxlab_sys::{Cause, EthtoolGet, Host, Query};

/// SR-IOV role of a bus function.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Not reported: a device without SR-IOV, or no device at all.
    #[default]
    Plain,
    /// A physical function that can have virtual ones.
    Physical {
        /// `sriov_numvfs`: current virtual functions.
        vfs: u32,
        /// `sriov_totalvfs`: maximum of virtual functions.
        max: u32,
    },
    /// A virtual function.
    Virtual {
        /// Bus address of its physical function; `None` inside a guest, which cannot see it.
        physical: Option<String>,
    },
    /// Made by a hypervisor: virtio, vmxnet3, xen-netfront, hv_netvsc.
    Paravirtual,
}

impl Function {
    /// True for a device that may have flow control: virtual ones have none.
    pub fn may_pause(&self) -> bool {
        matches!(self, Self::Plain | Self::Physical { .. })
    }
}

/// Capabilities and settings of one interface's device and driver. Virtual interfaces are asked only for
/// driver and features, and veths, of which there may be hundreds, only for the driver, unless everything
/// about one was asked: the rest is `NotAsked`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hardware {
    /// Its role on the bus.
    pub function: Function,
    /// Driver, firmware and bus.
    pub driver: Fact<DriverInfo>,
    /// Queues and their maxima.
    pub channels: Fact<Channels>,
    /// Ring sizes and their maxima.
    pub rings: Fact<Rings>,
    /// Interrupt moderation.
    pub coalesce: Fact<Coalesce>,
    /// The default RSS table.
    pub rss: Fact<Rss>,
    /// Header fields that the default hash covers, by kind of flow. Unsupported without an RSS table.
    #[serde(default)]
    pub hash_fields: Fact<Vec<HashFields>>,
    /// Further RSS contexts.
    pub rss_contexts: Fact<Vec<Rss>>,
    /// Flow rules.
    pub rules: Fact<Vec<FlowRule>>,
    /// Offloads, by name.
    pub features: Fact<Vec<Feature>>,
    /// Link speed in Mbit/s, as reported by the driver; a hypervisor's driver may make it up.
    #[serde(default)]
    pub speed_mbits: Fact<u32>,
}

/// Queries the interface `nic`, whose driver sysfs names `driver`. `device` is `None` for virtual interfaces,
/// which are asked everything only `in_full`; otherwise it is the device's PCI function, if it is on that bus.
pub(super) fn take(
    host: &dyn Host,
    nic: &NicName,
    driver: Option<&str>,
    device: Option<Option<&str>>,
    in_full: bool,
) -> Hardware {
    let in_full = in_full || device.is_some();
    if nic.as_str() == "lo" && !in_full {
        return Hardware::default();
    }
    let function = function(host, driver, device.flatten());
    let driver = asked(host, nic, EthtoolGet::Driver, ethtool::driver);
    let named = driver.known().map(|info| info.driver.as_str());
    if !in_full && drivers::facts(named).kind == Kind::Pair {
        return Hardware { function, driver, ..Hardware::default() };
    }
    let features = asked(host, nic, EthtoolGet::Features, ethtool::features);
    if !in_full {
        return Hardware { function, driver, features, ..Hardware::default() };
    }
    let rss = asked(host, nic, EthtoolGet::Rss, ethtool::rss)
        .or(|| asked(host, nic, EthtoolGet::RssIoctl, ethtool::rss_ioctl));
    Hardware {
        function,
        channels: asked(host, nic, EthtoolGet::Channels, ethtool::channels),
        rings: asked(host, nic, EthtoolGet::Rings, ethtool::rings),
        coalesce: asked(host, nic, EthtoolGet::Coalesce, ethtool::coalesce),
        hash_fields: match rss.known() {
            Some(rss) if !rss.table.is_empty() => {
                asked(host, nic, EthtoolGet::HashFields, ethtool::hash_fields)
            }
            _ => Fact::Unsupported,
        },
        rss,
        rss_contexts: asked(host, nic, EthtoolGet::RssContexts, ethtool::rss_contexts),
        rules: asked(host, nic, EthtoolGet::Rules, ethtool::rules),
        speed_mbits: speed(host, nic),
        driver,
        features,
    }
}

/// Those of the driver's own statistics that count packets by queue, losses, and what a limit of the host delayed or dropped, of
/// an interface with `rx_queues` receive queues. Asked if the rest of `hardware` was.
pub(super) fn queue_statistics(
    host: &dyn Host,
    nic: &NicName,
    hardware: &Hardware,
    rx_queues: u32,
) -> Fact<QueueStatistics> {
    if hardware.rules == Fact::NotAsked {
        return Fact::NotAsked;
    }
    let driver = hardware.driver.known().map(|info| info.driver.as_str());
    asked(host, nic, EthtoolGet::StatNames, ethtool::stat_names).map(|names| {
        let counted_as = |name: &str| {
            let limit = drivers::limit(driver, name).map(|_| name.to_owned());
            limit.or_else(|| drivers::loss_counted_as(name))
        };
        QueueStatistics::new(drivers::statistics(driver), &names, rx_queues).with_losses(counted_as, &names)
    })
}

/// `pci` is the device's function on the PCI bus.
fn function(host: &dyn Host, driver: Option<&str>, pci: Option<&str>) -> Function {
    let path = |file: &str| pci.map(|pci| format!("sys/bus/pci/devices/{pci}/{file}"));
    let number = |file: &str| read::number(host, &path(file)?).known().copied();
    if let Some(physical) = path("physfn").and_then(|path| host.link(&path).ok()) {
        let physical = physical.rsplit('/').next().unwrap_or_default().to_owned();
        return Function::Virtual { physical: Some(physical) };
    }
    match (drivers::facts(driver).kind, number("sriov_numvfs"), number("sriov_totalvfs")) {
        (Kind::Paravirtual { .. }, ..) => Function::Paravirtual,
        (Kind::VirtualFunction, ..) => Function::Virtual { physical: None },
        (_, Some(vfs), Some(max)) if max > 0 => Function::Physical { vfs, max },
        _ => Function::Plain,
    }
}

/// For a link that is down, or a driver that cannot tell, the kernel returns EINVAL; for an unknown speed,
/// -1.
fn speed(host: &dyn Host, nic: &NicName) -> Fact<u32> {
    const EINVAL: Cause = Cause::Errno(22);
    let path = format!("sys/class/net/{nic}/speed");
    if host.read(&path).is_err_and(|error| error.cause == EINVAL) {
        return Fact::Unsupported;
    }
    let speed: Fact<i64> = read::number(host, &path);
    let known = |speed: i64| u32::try_from(speed).ok().filter(|speed| *speed > 0);
    speed.and_then(|speed| known(speed).map_or(Fact::Unsupported, Fact::Known))
}

fn asked<T>(
    host: &dyn Host,
    nic: &NicName,
    get: EthtoolGet,
    parser: impl FnOnce(&[u8]) -> Result<T, WireError>,
) -> Fact<T> {
    read::asked(host, &Query::Ethtool(get, nic.clone()), parser)
}

#[cfg(test)]
mod tests {
    use super::{Function, Hardware, speed};
    use crate::sample::{Inventory, Scope};
    use rxlab_base::units::Fact;
    use rxlab_sys::{Cause, Host, LiveHost, RecordedHost};

    /// The error of a fact that was asked and is neither known nor unsupported.
    fn trouble<T>(fact: &Fact<T>) -> Option<String> {
        match fact {
            Fact::Known(_) | Fact::NotAsked | Fact::Unsupported => None,
            Fact::Denied(need) => Some(need.to_string()),
            Fact::Broken(why) => Some(why.clone()),
        }
    }

    fn troubles(hardware: &Hardware) -> Vec<String> {
        let Hardware {
            function: _,
            driver,
            channels,
            rings,
            coalesce,
            rss,
            hash_fields,
            rss_contexts,
            rules,
            features,
            speed_mbits,
        } = hardware;
        let asked = [trouble(driver), trouble(channels), trouble(rings), trouble(coalesce), trouble(rss)];
        let more = [trouble(rss_contexts), trouble(rules), trouble(features), trouble(speed_mbits)];
        asked.into_iter().chain(more).chain([trouble(hash_fields)]).flatten().collect()
    }

    /// On any machine, the answers of its drivers are understood, without privileges.
    #[test]
    fn this_machine_is_understood() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        let inventory = Inventory::take(&host, Scope::All);
        assert_eq!(trouble(&inventory.queues), None);
        assert_eq!(trouble(&inventory.napis), None);
        let indices = |name: &str| host.read_text(&format!("sys/class/net/{name}/ifindex"));
        for nic in inventory.nics.known().expect("listed") {
            assert_eq!(troubles(&nic.hardware), [""; 0], "{}", nic.name);
            assert_eq!(trouble(&nic.queue_statistics), None, "{}", nic.name);
            if let Some(features) = nic.hardware.features.known() {
                assert!(
                    features.iter().any(|feature| feature.name == "rx-gro"),
                    "{}: {features:?}",
                    nic.name
                );
            }
            if let Some(info) = nic.hardware.driver.known() {
                assert_ne!(info.driver, "", "{}", nic.name);
            }
            // The kernel reports the queues of every interface that is up, by sysfs's index.
            let index = indices(nic.name.as_str()).expect("there");
            let told = inventory.queues.known().into_iter().flatten();
            let told = told.filter(|queue| queue.ifindex.to_string() == index.trim()).count();
            let up = nic.operstate.known().is_some_and(|state| state == "up");
            assert!(inventory.queues.known().is_none() || !up || told > 0, "{}", nic.name);
        }
    }

    #[test]
    fn a_speed_that_is_not_known_is_none() {
        let path = "sys/class/net/eth0/speed";
        let name = "eth0".parse().expect("a name");
        let speed_of = |host: RecordedHost| speed(&host, &name);
        assert_eq!(speed_of(RecordedHost::new().with(path, "25000\n")), Fact::Known(25_000));
        assert_eq!(speed_of(RecordedHost::new().with(path, "-1\n")), Fact::Unsupported);
        assert_eq!(
            speed_of(RecordedHost::new().with_failure(path, Cause::Errno(22))),
            Fact::Unsupported,
            "down"
        );
        assert_eq!(speed_of(RecordedHost::new()), Fact::Unsupported);
        assert!(matches!(speed_of(RecordedHost::new().with(path, "fast\n")), Fact::Broken(_)));
    }

    fn function(driver: &str, with: impl FnOnce(RecordedHost, &str) -> RecordedHost) -> Function {
        let host = RecordedHost::new()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:3a/0000:3b:00.1/net/eth0")
            .with_link("sys/class/net/eth0/device/driver", &format!("../../../bus/pci/drivers/{driver}"))
            .with("sys/class/net/eth0/operstate", "up\n");
        let host = with(host, "sys/bus/pci/devices/0000:3b:00.1");
        let nics = Inventory::take(&host, Scope::All).nics;
        nics.known().expect("listed")[0].hardware.function.clone()
    }

    #[test]
    fn physical_virtual_and_neither() {
        let capable = |host: RecordedHost, pci: &str| {
            host.with(&format!("{pci}/sriov_numvfs"), "4\n").with(&format!("{pci}/sriov_totalvfs"), "63\n")
        };
        assert_eq!(function("ixgbe", capable), Function::Physical { vfs: 4, max: 63 });
        assert_eq!(function("ixgbe", |host, _| host), Function::Plain);
        let on_host =
            |host: RecordedHost, pci: &str| host.with_link(&format!("{pci}/physfn"), "../0000:3b:00.0");
        let physical = Some("0000:3b:00.0".to_owned());
        assert_eq!(function("mlx5_core", on_host), Function::Virtual { physical });
        assert_eq!(function("iavf", |host, _| host), Function::Virtual { physical: None });
        // virtio devices can have virtual functions as well, but remain paravirtual.
        assert_eq!(function("virtio_net", capable), Function::Paravirtual);
    }
}
