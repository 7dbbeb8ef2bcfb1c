//! Connections that wait for a moment, by that moment.
//!
//! Entries are never removed early: the connection in the slot decides if it is due, so an entry has no
//! effect if its connection is gone or waits for something later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Timers {
    /// Schedules a check of the connection in `slot` at `at`.
    pub(super) fn add(&mut self, at: Instant, slot: usize) {
        self.heap.push(Reverse((at, slot)));
    }

    /// Time until the next one; `None` without any.
    pub(super) fn left(&self) -> Option<Duration> {
        // The clock is read only if a connection waits.
        self.heap.peek().map(|Reverse((at, _))| at.saturating_duration_since(Instant::now()))
    }

    /// The slot of a connection whose moment has come.
    pub(super) fn pop(&mut self, now: Instant) -> Option<usize> {
        let Reverse((at, slot)) = *self.heap.peek()?;
        (at <= now).then(|| {
            self.heap.pop();
            slot
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::Timers;

    #[test]
    fn the_earliest_comes_first_and_none_too_early() {
        let (mut timers, now) = (Timers::default(), Instant::now());
        let at = |ms| now + Duration::from_millis(ms);
        assert_eq!((timers.left(), timers.pop(now)), (None, None));
        for (ms, slot) in [(30_000, 3), (10_000, 1), (20_000, 2), (10_000, 9)] {
            timers.add(at(ms), slot);
        }
        assert!(timers.left().is_some_and(|left| left <= Duration::from_secs(10)));
        assert_eq!(timers.pop(at(9_999)), None);
        assert_eq!((timers.pop(at(20_000)), timers.pop(at(20_000))), (Some(1), Some(9)));
        assert_eq!((timers.pop(at(20_000)), timers.pop(at(20_000))), (Some(2), None));
    }
}
