//! What surrounded the values of a transaction once they were set: what a later look compares with to
//! say who may have changed one. How it is read, and what it means, is not decided here.

use serde::{Deserialize, Serialize};

use crate::model::DeviceAddress;
use crate::units::CpuMask;

/// The machine around a transaction's values at one moment. What could not be read is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// CPUs that were online.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub online: Option<CpuMask>,
    /// Each device that the transaction touched, once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceThen>,
}

/// One interface at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceThen {
    /// Its lasting address.
    pub device: DeviceAddress,
    /// `ifindex`; another one means that the interface was made anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ifindex: Option<u32>,
    /// `carrier_down_count`: how often it has lost its link. Begins anew with the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier_downs: Option<u64>,
    /// How many receive queues it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_queues: Option<u32>,
    /// How many transmit queues it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_queues: Option<u32>,
}

impl Surroundings {
    /// One device at that moment.
    pub fn device(&self, address: &DeviceAddress) -> Option<&DeviceThen> {
        self.devices.iter().find(|then| then.device == *address)
    }
}
