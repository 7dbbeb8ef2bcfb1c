//! One monotonic clock for all threads of a session, as nanoseconds since its start.

use std::time::Instant;

/// Nanoseconds since the session's start. Every moment in this module is one of these.
pub(super) type Nanos = u64;

pub(super) const MICROSECOND: Nanos = 1_000;
pub(super) const MILLISECOND: Nanos = 1_000_000;
pub(super) const SECOND: Nanos = 1_000_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(super) fn now(&self) -> Nanos {
        // 64 bits of nanoseconds are 584 years.
        self.origin.elapsed().as_nanos() as Nanos
    }
}
