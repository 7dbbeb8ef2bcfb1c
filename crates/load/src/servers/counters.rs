//! Counts of a target: one set of counters per thread, returned individually or as a sum.

use std::iter::Sum;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::Serialize;

use super::burn::Burn;
use rxlab_base::units::CpuId;

/// Totals since the start, of all threads or of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// TCP connections accepted by the HTTP server.
    pub connections: u64,
    /// HTTP requests answered, whatever the status.
    pub requests: u64,
    /// HTTP requests answered with a status other than 200.
    pub refused: u64,
    /// Datagrams that the UDP echo server sent back.
    pub echoed: u64,
    /// Datagrams that reached the sink, without queries for the totals.
    pub sink_packets: u64,
    /// Payload bytes in them.
    pub sink_bytes: u64,
    /// Datagrams that reached the sink after a later one of the same flow, or twice.
    pub sink_reordered: u64,
    /// Announces and scrapes answered by the tracker.
    pub tracked: u64,
    /// Announces and scrapes answered with an error: their connection id was not that of the tracker.
    pub tracker_refused: u64,
    /// Connection ids that the tracker issued.
    pub tracker_ids: u64,
}

/// One thread and its counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Served {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// CPU it is pinned to.
    pub cpu_pinned: Option<CpuId>,
    /// CPU time, in seconds; `None` once it has ended.
    pub cpu_seconds: Option<f64>,
    /// Counts of the thread since its start.
    #[serde(flatten)]
    pub counters: Counters,
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
    pub(super) sink_reordered: AtomicU64,
    pub(super) tracked: AtomicU64,
    pub(super) tracker_refused: AtomicU64,
    pub(super) tracker_ids: AtomicU64,
}

/// State shared by all server threads.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    pub(super) burn: Burn,
    /// The connection id issued by the tracker.
    pub(super) tracker_id: u64,
    pub(super) threads: Vec<ThreadCounters>,
}

impl ThreadCounters {
    pub(super) fn counters(&self) -> Counters {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            connections: now(&self.connections),
            requests: now(&self.requests),
            refused: now(&self.refused),
            echoed: now(&self.echoed),
            sink_packets: now(&self.sink_packets),
            sink_bytes: now(&self.sink_bytes),
            sink_reordered: now(&self.sink_reordered),
            tracked: now(&self.tracked),
            tracker_refused: now(&self.tracker_refused),
            tracker_ids: now(&self.tracker_ids),
        }
    }
}

impl Shared {
    pub(super) fn totals(&self) -> Counters {
        self.threads.iter().map(ThreadCounters::counters).sum()
    }
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, more| Self {
            connections: sum.connections + more.connections,
            requests: sum.requests + more.requests,
            refused: sum.refused + more.refused,
            echoed: sum.echoed + more.echoed,
            sink_packets: sum.sink_packets + more.sink_packets,
            sink_bytes: sum.sink_bytes + more.sink_bytes,
            sink_reordered: sum.sink_reordered + more.sink_reordered,
            tracked: sum.tracked + more.tracked,
            tracker_refused: sum.tracker_refused + more.tracker_refused,
            tracker_ids: sum.tracker_ids + more.tracker_ids,
        })
    }
}

/// Adds to a counter that only the calling thread writes: no read-modify-write is needed.
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}
