//! What a target has served: one set of counters a thread, added up on demand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;

use super::burn::Burn;

/// Totals over all threads since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// TCP connections accepted.
    pub connections: u64,
    /// HTTP requests answered, whatever the status.
    pub requests: u64,
    /// Those of them answered with a status other than 200.
    pub refused: u64,
    /// Datagrams sent back.
    pub echoed: u64,
    /// Datagrams that reached the sink, without queries for the totals.
    pub sink_packets: u64,
    /// Payload bytes in them.
    pub sink_bytes: u64,
}

/// Counters that one thread writes. Aligned so that two threads never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ThreadCounters {
    pub(super) connections: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) echoed: AtomicU64,
    pub(super) sink_packets: AtomicU64,
    pub(super) sink_bytes: AtomicU64,
}

/// What all server threads see.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) burn: Burn,
    pub(super) threads: Vec<ThreadCounters>,
}

impl Shared {
    pub(super) fn totals(&self) -> Counters {
        let sum = |pick: fn(&ThreadCounters) -> &AtomicU64| {
            self.threads.iter().map(|thread| pick(thread).load(Ordering::Relaxed)).sum()
        };
        Counters {
            connections: sum(|t| &t.connections),
            requests: sum(|t| &t.requests),
            refused: sum(|t| &t.refused),
            echoed: sum(|t| &t.echoed),
            sink_packets: sum(|t| &t.sink_packets),
            sink_bytes: sum(|t| &t.sink_bytes),
        }
    }
}

/// Adds to a counter that only the calling thread writes: no read-modify-write is needed.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}
