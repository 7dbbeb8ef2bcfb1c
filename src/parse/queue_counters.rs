//! What one receive queue has counted, whoever counted it.

use serde::{Deserialize, Serialize};

/// Counters of one receive queue since the interface was made or its driver reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueCounters {
    /// Packets.
    pub packets: u64,
    /// Bytes, where they are counted.
    pub bytes: Option<u64>,
    /// Packets that the device or the driver threw away, where they are counted.
    pub drops: Option<u64>,
}
