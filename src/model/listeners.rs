//! Who waits for packets: listening sockets, the processes that own them, and where those run.

use serde::{Deserialize, Serialize};

use super::stack::Container;
use crate::units::{CpuMask, Fact};

/// The transport of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, listening.
    Tcp,
    /// UDP, bound.
    Udp,
}

/// Sockets of one transport, address and port: several with SO_REUSEPORT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listener {
    /// TCP or UDP.
    pub transport: Transport,
    /// The local address, `0.0.0.0` or `::` for any.
    pub address: std::net::IpAddr,
    /// The local port.
    pub port: u16,
    /// How many sockets.
    pub sockets: usize,
    /// The processes that own them, by number.
    pub owners: Fact<Vec<Process>>,
}

/// A process that owns listening sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel keeps it (15 bytes).
    pub command: String,
    /// Its control group: the path in the unified hierarchy, or of the cpuset controller in version 1.
    pub cgroup: Option<String>,
    /// Its systemd unit, such as `nginx.service`.
    pub unit: Option<String>,
    /// Its container.
    pub container: Option<Container>,
    /// CPUs that its main thread may run on (`Cpus_allowed_list`).
    pub allowed: Fact<CpuMask>,
    /// CPUs that its threads last ran on.
    pub ran_on: Fact<CpuMask>,
}
