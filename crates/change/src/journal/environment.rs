//! Environment of a transaction's values once they were set: a reference for finding possible causes of
//! later changes. Reading and interpreting them happens elsewhere.

use serde::{Deserialize, Serialize};

use rxlab_base::units::CpuMask;
use rxlab_path::model::DeviceAddress;

/// Environment of a transaction's values at one moment. Unreadable parts are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<CpuMask>,
    /// Each device that the transaction touched, once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceThen>,
}

/// One interface at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceThen {
    pub device: DeviceAddress,
    /// `ifindex`; a different one means that the interface was recreated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
    /// `carrier_down_count`: number of link losses. Restarts with the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier_downs: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_queues: Option<u32>,
}

impl Environment {
    pub fn device(&self, address: &DeviceAddress) -> Option<&DeviceThen> {
        self.devices.iter().find(|then| then.device == *address)
    }
}
