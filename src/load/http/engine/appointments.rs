//! When to look at which connection again. However many there are, only those are looked at whose time
//! has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::load::clock::Nanos;

/// At most one appointment for each connection.
pub(super) struct Appointments {
    times: BinaryHeap<Reverse<(Nanos, usize)>>,
    made: Vec<bool>,
}

impl Appointments {
    /// None yet, for `count` connections.
    pub(super) fn new(count: usize) -> Self {
        Self { times: BinaryHeap::new(), made: vec![false; count] }
    }

    /// Whether there is an appointment with a connection.
    pub(super) fn has(&self, index: usize) -> bool {
        self.made[index]
    }

    /// Looks at a connection at `when`, unless there is an appointment with it.
    pub(super) fn make(&mut self, index: usize, when: Nanos) {
        if !std::mem::replace(&mut self.made[index], true) {
            self.times.push(Reverse((when, index)));
        }
    }

    /// When the first of them is; [`Nanos::MAX`] without any.
    pub(super) fn first(&self) -> Nanos {
        self.times.peek().map_or(Nanos::MAX, |Reverse((when, _))| *when)
    }

    /// A connection whose time has come; the appointment is over.
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
    use super::{Appointments, Nanos};

    #[test]
    fn each_connection_comes_once_and_in_time() {
        let mut appointments = Appointments::new(3);
        assert_eq!((appointments.first(), appointments.due(Nanos::MAX)), (Nanos::MAX, None));
        appointments.make(2, 20);
        appointments.make(0, 10);
        appointments.make(2, 5);
        assert!(appointments.has(2) && !appointments.has(1));
        assert_eq!((appointments.first(), appointments.due(9)), (10, None));
        assert_eq!(appointments.due(20), Some(0));
        appointments.make(0, 15);
        assert_eq!([0; 3].map(|_| appointments.due(20)), [Some(0), Some(2), None]);
    }
}
