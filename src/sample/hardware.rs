//! Drivers' reports on their devices, from ethtool, and SR-IOV facts from the bus.
//!
//! A device is asked everything once. A virtual interface that is not of special interest is asked only for
//! its driver and offloads, and a veth only for its driver: a machine may have hundreds, a list of offloads
//! costs as much as everything else read about one, and its NAPI reveals the same fact (`rx-gro`).

use super::read;
use crate::host::{Cause, EthtoolGet, Host, Question};
use crate::parse::WireError;
use crate::parse::ethtool::{
    self, Channels, Coalesce, DriverInfo, Feature, FlowRule, QueueStatistics, Rings, Rss,
};
use crate::units::{Fact, NicName};

/// Facts from one driver and its bus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawHardware {
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
    /// Further RSS contexts.
    pub rss_contexts: Fact<Vec<Rss>>,
    /// Flow rules.
    pub rules: Fact<Vec<FlowRule>>,
    /// Offloads.
    pub features: Fact<Vec<Feature>>,
    /// Those of the driver's own statistics that count packets by queue.
    pub queue_statistics: Fact<QueueStatistics>,
    /// `sriov_numvfs` of the PCI function.
    pub sriov_vfs: Fact<u32>,
    /// `sriov_totalvfs`.
    pub sriov_max: Fact<u32>,
    /// Last part of the link `physfn`: the physical function of a virtual one.
    pub physical: Fact<String>,
    /// `speed`: link speed in Mbit/s. Unsupported if the driver knows none and while the link is down.
    pub speed_mbits: Fact<u32>,
}

/// Queries the interface `nic`, which has `rx_queues` receive queues. `device` is `None` for virtual
/// interfaces, which are asked everything only `in_full`; otherwise it is the device's PCI function, if it is
/// on that bus.
pub(super) fn take(
    host: &dyn Host,
    nic: &NicName,
    rx_queues: u32,
    device: Option<Option<&str>>,
    in_full: bool,
) -> RawHardware {
    let in_full = in_full || device.is_some();
    if nic.as_str() == "lo" && !in_full {
        return RawHardware::default();
    }
    let driver = asked(host, nic, EthtoolGet::Driver, ethtool::driver);
    if !in_full && driver.known().is_some_and(|info| info.driver == "veth") {
        return RawHardware { driver, ..RawHardware::default() };
    }
    let features = asked(host, nic, EthtoolGet::Features, ethtool::features);
    if !in_full {
        return RawHardware { driver, features, ..RawHardware::default() };
    }
    let function = device.flatten();
    let bus = |file: &str| function.map(|function| format!("sys/bus/pci/devices/{function}/{file}"));
    let number = |file: &str| bus(file).map_or(Fact::Unsupported, |path| read::number(host, &path));
    let physical = bus("physfn").map_or(Fact::Unsupported, |path| {
        host.link(&path).map_or_else(|error| read::absence(&error), Fact::Known)
    });
    let name = driver.known().map(|info| info.driver.clone());
    RawHardware {
        channels: asked(host, nic, EthtoolGet::Channels, ethtool::channels),
        rings: asked(host, nic, EthtoolGet::Rings, ethtool::rings),
        coalesce: asked(host, nic, EthtoolGet::Coalesce, ethtool::coalesce),
        rss: asked(host, nic, EthtoolGet::Rss, ethtool::rss)
            .or(|| asked(host, nic, EthtoolGet::RssIoctl, ethtool::rss_ioctl)),
        rss_contexts: asked(host, nic, EthtoolGet::RssContexts, ethtool::rss_contexts),
        rules: asked(host, nic, EthtoolGet::Rules, ethtool::rules),
        queue_statistics: asked(host, nic, EthtoolGet::StatNames, ethtool::stat_names)
            .map(|names| QueueStatistics::new(name.as_deref(), &names, rx_queues)),
        sriov_vfs: number("sriov_numvfs"),
        sriov_max: number("sriov_totalvfs"),
        physical: physical.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()),
        speed_mbits: speed(host, nic),
        driver,
        features,
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
    read::asked(host, &Question::Ethtool(get, nic.clone()), parser)
}

#[cfg(test)]
mod tests {
    use super::{RawHardware, speed};
    use crate::host::{Cause, Host, LiveHost, RecordedHost};
    use crate::sample::{Inventory, Scope};
    use crate::units::Fact;

    /// The error of a fact that was asked and is neither known nor unsupported.
    fn trouble<T>(fact: &Fact<T>) -> Option<String> {
        match fact {
            Fact::Known(_) | Fact::NotAsked | Fact::Unsupported => None,
            Fact::Denied(need) => Some(need.to_string()),
            Fact::Broken(why) => Some(why.clone()),
        }
    }

    fn troubles(hardware: &RawHardware) -> Vec<String> {
        let RawHardware {
            driver,
            channels,
            rings,
            coalesce,
            rss,
            rss_contexts,
            rules,
            features,
            queue_statistics,
            sriov_vfs,
            sriov_max,
            physical,
            speed_mbits,
        } = hardware;
        let asked = [trouble(driver), trouble(channels), trouble(rings), trouble(coalesce), trouble(rss)];
        let more = [trouble(rss_contexts), trouble(rules), trouble(features), trouble(queue_statistics)];
        let bus = [trouble(sriov_vfs), trouble(sriov_max), trouble(physical), trouble(speed_mbits)];
        asked.into_iter().chain(more).chain(bus).flatten().collect()
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
        let of = |host: RecordedHost| speed(&host, &name);
        assert_eq!(of(RecordedHost::new().with(path, "25000\n")), Fact::Known(25_000));
        assert_eq!(of(RecordedHost::new().with(path, "-1\n")), Fact::Unsupported);
        assert_eq!(of(RecordedHost::new().with_failure(path, Cause::Errno(22))), Fact::Unsupported, "down");
        assert_eq!(of(RecordedHost::new()), Fact::Unsupported);
        assert!(matches!(of(RecordedHost::new().with(path, "fast\n")), Fact::Broken(_)));
    }
}
