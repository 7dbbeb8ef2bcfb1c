//! Moments at which connections have to be checked again. Only connections whose time has come are
//! visited, however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Nanos;

/// At most one appointment per connection.
pub(super) struct Timers {
    times: BinaryHeap<Reverse<(Nanos, usize)>>,
    made: Vec<bool>,
}

impl Timers {
    /// None yet, for `count` connections.
    pub(super) fn new(count: usize) -> Self {
        Self { times: BinaryHeap::new(), made: vec![false; count] }
    }

    /// True if the connection has an appointment.
    pub(super) fn has(&self, index: usize) -> bool {
        self.made[index]
    }

    /// Schedules a check at `when`, unless the connection has an appointment.
    pub(super) fn make(&mut self, index: usize, when: Nanos) {
        if !std::mem::replace(&mut self.made[index], true) {
            self.times.push(Reverse((when, index)));
        }
    }

    /// Moment of the first appointment; [`Nanos::MAX`] without any.
    pub(super) fn first(&self) -> Nanos {
        self.times.peek().map_or(Nanos::MAX, |Reverse((when, _))| *when)
    }

    /// Returns a connection whose time has come and removes its appointment.
    pub(super) fn due(&mut self, now: Nanos) -> Option<usize> {
        if self.first() > now {
            return None;
        }
        let Reverse((_, index)) = self.times.pop()?;
        self.made[index] = false;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::{Nanos, Timers};

    #[test]
    fn each_connection_comes_once_and_in_time() {
        let mut timers = Timers::new(3);
        assert_eq!((timers.first(), timers.due(Nanos::MAX)), (Nanos::MAX, None));
        timers.make(2, 20);
        timers.make(0, 10);
        timers.make(2, 5);
        assert!(timers.has(2) && !timers.has(1));
        assert_eq!((timers.first(), timers.due(9)), (10, None));
        assert_eq!(timers.due(20), Some(0));
        timers.make(0, 15);
        assert_eq!([0; 3].map(|_| timers.due(20)), [Some(0), Some(2), None]);
    }
}
