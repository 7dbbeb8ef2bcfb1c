//! The driver's report on its device, and the device's function on the bus.

use serde::{Deserialize, Serialize};

use crate::parse::ethtool::{Channels, Coalesce, DriverInfo, Feature, FlowRule, Rings, Rss};
use crate::sample::RawNic;
use crate::units::Fact;

/// SR-IOV role of a bus function.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// Capabilities and settings of one interface's device and driver. Virtual interfaces are asked only for
/// driver and features, and veths, of which there may be hundreds, only for the driver, unless everything
/// about one was asked: the rest is `NotAsked`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// Drivers of paravirtual devices.
const PARAVIRTUAL: [&str; 5] = ["virtio_net", "vmxnet3", "xen_netfront", "vif", "hv_netvsc"];
/// Drivers that only drive virtual functions: in a guest nothing else identifies these.
const OF_VIRTUAL_FUNCTIONS: [&str; 4] = ["ixgbevf", "iavf", "i40evf", "igbvf"];

impl Hardware {
    /// From the reports of the driver and the bus.
    pub(super) fn new(raw: &RawNic) -> Self {
        let said = raw.hardware.clone();
        Self {
            function: function(raw),
            driver: said.driver,
            channels: said.channels,
            rings: said.rings,
            coalesce: said.coalesce,
            rss: said.rss,
            rss_contexts: said.rss_contexts,
            rules: said.rules,
            features: said.features,
            speed_mbits: said.speed_mbits,
        }
    }
}

fn function(raw: &RawNic) -> Function {
    let driver = raw.driver.known().map(String::as_str).unwrap_or_default();
    let (vfs, max) = (raw.hardware.sriov_vfs.known(), raw.hardware.sriov_max.known());
    match (raw.hardware.physical.known(), vfs, max) {
        (Some(physical), ..) => Function::Virtual { physical: Some(physical.clone()) },
        _ if PARAVIRTUAL.contains(&driver) => Function::Paravirtual,
        _ if OF_VIRTUAL_FUNCTIONS.contains(&driver) => Function::Virtual { physical: None },
        (None, Some(vfs), Some(max)) if *max > 0 => Function::Physical { vfs: *vfs, max: *max },
        _ => Function::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::Function;
    use crate::host::RecordedHost;
    use crate::model::Model;
    use crate::sample::{Inventory, Scope};

    fn function(driver: &str, with: impl FnOnce(RecordedHost, &str) -> RecordedHost) -> Function {
        let host = RecordedHost::new()
            .with_link("sys/class/net/eth0", "../../devices/pci0000:3a/0000:3b:00.1/net/eth0")
            .with_link("sys/class/net/eth0/device/driver", &format!("../../../bus/pci/drivers/{driver}"))
            .with("sys/class/net/eth0/operstate", "up\n");
        let host = with(host, "sys/bus/pci/devices/0000:3b:00.1");
        Model::new(&Inventory::take(&host, Scope::All)).nics.remove(0).hardware.function
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
