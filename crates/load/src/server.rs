//! CPU time of the server's processes, if it runs on this machine.

use serde::{Deserialize, Serialize};

/// CPU time of the server during the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerCpu {
    /// The listening processes.
    pub processes: Vec<ServerProcess>,
    /// User and system time of all their threads in seconds, to a hundredth. Receive work in softirqs is
    /// included only where it ran in their context.
    pub seconds: f64,
    /// The same as a number of CPUs (0.22 = 22 % of one).
    pub cpus: f64,
    /// Load of their busiest thread, as a fraction of the time: a single-threaded server is full with one
    /// CPU, however many there are. Threads that started or ended during the load are left out.
    #[serde(default)]
    pub busiest: Option<f64>,
}

/// A process of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerProcess {
    /// Process id.
    pub pid: u32,
    /// Command name.
    pub command: String,
}
