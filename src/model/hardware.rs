//! What the driver says of its device, and what the device is to the machine.

use serde::{Deserialize, Serialize};

use crate::parse::ethtool::{Channels, Coalesce, DriverInfo, Feature, FlowRule, Rings, Rss};
use crate::units::Fact;

/// Whether a function of the bus is shared by SR-IOV.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Not told: a device without SR-IOV, or no device at all.
    #[default]
    Plain,
    /// A physical function that can have virtual ones.
    Physical {
        /// `sriov_numvfs`: virtual functions now.
        vfs: u32,
        /// `sriov_totalvfs`: as many may be.
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

/// What one interface's device and driver have and how they are set. Everything `Unsupported` where
/// there is no driver to ask.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Hardware {
    /// What it is on the bus.
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
}
