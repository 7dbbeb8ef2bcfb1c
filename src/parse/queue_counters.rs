//! Counters of one receive queue, from any source.

/// Counters of one receive queue since the interface was created or its driver reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounters {
    /// Packets.
    pub packets: u64,
    /// Bytes, if counted.
    pub bytes: Option<u64>,
    /// Packets that the device or the driver dropped, if counted.
    pub drops: Option<u64>,
}
