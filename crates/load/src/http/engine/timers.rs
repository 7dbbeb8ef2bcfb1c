//! Moments at which connections have to be checked again. Only connections whose time has come are
//! visited, however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Nanos;

/// At most one appointment per connection: the earliest that was asked for.
pub(super) struct Timers {
    /// Appointments, and some that an earlier one has replaced.
    times: BinaryHeap<Reverse<(Nanos, usize)>>,
    made: Vec<Option<Nanos>>,
}

impl Timers {
    /// None yet, for `count` connections.
    pub(super) fn new(count: usize) -> Self {
        Self { times: BinaryHeap::new(), made: vec![None; count] }
    }

    /// True if the connection has an appointment.
    pub(super) fn has(&self, index: usize) -> bool {
        self.made[index].is_some()
    }

    /// Schedules a check at `when`, unless the connection has an earlier appointment.
    pub(super) fn make(&mut self, index: usize, when: Nanos) {
        if self.made[index].is_none_or(|made| when < made) {
            self.made[index] = Some(when);
            self.times.push(Reverse((when, index)));
        }
    }

    /// Moment of the first appointment; [`Nanos::MAX`] without any.
    pub(super) fn first(&self) -> Nanos {
        self.times.peek().map_or(Nanos::MAX, |Reverse((when, _))| *when)
    }

    /// Returns a connection whose time has come and removes its appointment.
    pub(super) fn due(&mut self, now: Nanos) -> Option<usize> {
        while self.first() <= now {
            let Reverse((when, index)) = self.times.pop()?;
            if self.made[index] == Some(when) {
                self.made[index] = None;
                return Some(index);
            }
        }
        None
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
        timers.make(2, 25);
        assert!(timers.has(2) && !timers.has(1));
        assert_eq!((timers.first(), timers.due(9)), (10, None));
        assert_eq!(timers.due(20), Some(0));
        timers.make(0, 15);
        assert_eq!([0; 3].map(|_| timers.due(20)), [Some(0), Some(2), None]);
    }

    /// The wait after an idle close once held up a connection that was needed earlier.
    #[test]
    fn an_earlier_appointment_replaces_a_later_one() {
        let mut timers = Timers::new(1);
        timers.make(0, 1_000);
        timers.make(0, 10);
        assert_eq!((timers.due(10), timers.has(0)), (Some(0), false));
        timers.make(0, 2_000);
        assert_eq!((timers.due(1_000), timers.due(2_000)), (None, Some(0)), "once");
    }
}
