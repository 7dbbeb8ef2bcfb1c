//! Values in ethtool's answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A number and its maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Count {
    /// Current number.
    pub now: u32,
    /// The driver's maximum.
    pub max: u32,
}

/// Queues by kind; a driver has combined ones, or separate ones, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Channels {
    /// Receive only.
    pub rx: Option<Count>,
    /// Transmit only.
    pub tx: Option<Count>,
    /// Link events and the like.
    pub other: Option<Count>,
    /// Receive and transmit on one interrupt.
    pub combined: Option<Count>,
}

/// A kind of queues whose number a driver can change, by the attribute of that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelKind {
    Rx = 6,
    Tx = 7,
    /// Receive and transmit on one interrupt.
    Combined = 9,
}

impl ChannelKind {
    /// Its name in `ethtool -L`.
    pub fn word(self) -> &'static str {
        match self {
            ChannelKind::Rx => "rx",
            ChannelKind::Tx => "tx",
            ChannelKind::Combined => "combined",
        }
    }
}

impl Channels {
    /// Those of one kind; `None` when the device cannot have any.
    pub fn count(&self, kind: ChannelKind) -> Option<Count> {
        match kind {
            ChannelKind::Rx => self.rx,
            ChannelKind::Tx => self.tx,
            ChannelKind::Combined => self.combined,
        }
    }
}

/// Descriptors in each queue's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rings {
    /// Receive.
    pub rx: Option<Count>,
    /// Receive, for small buffers.
    pub rx_mini: Option<Count>,
    /// Receive, for jumbo frames.
    pub rx_jumbo: Option<Count>,
    /// Transmit.
    pub tx: Option<Count>,
}

/// Interrupt moderation of the device's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Coalesce {
    /// Microseconds that a receive interrupt is held back.
    pub rx_usecs: Option<u32>,
    /// Packets after which it is raised at the latest.
    pub rx_frames: Option<u32>,
    /// Microseconds that a transmit completion interrupt is held back.
    pub tx_usecs: Option<u32>,
    /// Packets after which it is raised at the latest.
    pub tx_frames: Option<u32>,
    /// The driver adapts the receive values to the load.
    pub adaptive_rx: Option<bool>,
    /// The driver adapts the transmit values to the load.
    pub adaptive_tx: Option<bool>,
}

/// One RSS context: the map from a packet's hash to a queue. Context 0 is the default one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rss {
    /// Its number.
    pub context: u32,
    /// Receive queue by position in the indirection table.
    pub table: Vec<u32>,
    /// The hash key as hexadecimal digits, two per byte; `None` if the driver does not report it.
    pub key: Option<String>,
    /// The hash function, such as `toeplitz`.
    pub function: Option<String>,
    /// What the device does to the hashed fields first, such as `symmetric-xor`; `None` = nothing, or not
    /// reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<String>,
}

/// Header fields that the device hashes in packets of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HashFields {
    /// The kind of packet: `tcp4`, `udp4`, `tcp6` or `udp6`.
    pub kind: String,
    /// The kernel's names of the fields: `ip-src`, `ip-dst`, `l4-b-0-1` (source port), `l4-b-2-3` (destination
    /// port), and others; `unknown(N)` for bit N. Empty = such packets are not hashed.
    pub fields: Vec<String>,
}

impl Rss {
    /// Number of table positions that lead to each queue.
    pub fn weights(&self) -> BTreeMap<u32, usize> {
        let mut weights = BTreeMap::new();
        for queue in &self.table {
            *weights.entry(*queue).or_default() += 1;
        }
        weights
    }
}

/// One offload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Feature {
    /// The kernel's name, such as `rx-gro`.
    pub name: String,
    /// Currently on.
    pub on: bool,
    /// May be changed: the device supports it and the kernel does not fix it.
    pub changeable: bool,
}

/// Driver, firmware and bus.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DriverInfo {
    /// The driver's name; virtual interfaces have one too (`veth`, `bridge`, `802.1Q VLAN Support`).
    pub driver: String,
    /// Its version; in-tree drivers report the kernel's.
    pub version: String,
    /// The device's firmware; empty when there is none.
    pub firmware: String,
    /// The bus address, such as `0000:00:03.0`; empty for virtual interfaces.
    pub bus: String,
}

/// Action on packets that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FlowAction {
    /// Dropped by the device.
    Drop,
    /// To this receive queue.
    Queue(u32),
    /// To the queue from this RSS context's table, plus an offset.
    Context {
        /// The RSS context.
        context: u32,
        /// Offset added to the table's queue.
        queue: u32,
    },
    /// To a virtual function's queue.
    VirtualFunction {
        /// Its number, from 0.
        vf: u32,
        /// Its receive queue.
        queue: u32,
    },
    /// Kept from sleep: wake-on-LAN filters.
    WakeOnLan,
}

/// Match of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowSpec {
    /// The kind of packet, such as `tcp4`, `udp6`, `ether`; `unknown(N)` for unknown kinds.
    pub kind: String,
    /// `name value` or `name value/mask` of every compared field, as `ethtool -N` names them.
    pub fields: Vec<String>,
}

/// One flow rule of the device ("ntuple").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowRule {
    /// Its place in the device's table, which identifies it.
    pub location: u32,
    /// Its match.
    pub spec: FlowSpec,
    /// Its action.
    pub action: FlowAction,
}
