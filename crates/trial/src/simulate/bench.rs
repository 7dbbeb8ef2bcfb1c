//! A bench of simulated noise, for the tests of both loops.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::runner::{Bench, Measured};
use rxlab_stats::noise::Noise;

/// A machine whose slots are `noise`, times the part of the arm.
pub(crate) struct Simulated {
    pub(crate) noise: Vec<f64>,
    /// Throughput of each arm, as a part of the baseline's.
    pub(crate) work: Vec<f64>,
    /// Slots measured so far.
    pub(crate) slots: usize,
    pub(crate) saves: usize,
    pub(crate) stop_after: usize,
    /// Slots after which it is late.
    pub(crate) late_after: usize,
    /// True for the arm and the number of a slot that does not count.
    pub(crate) void: fn(usize, usize) -> bool,
    pub(crate) guard_at: Option<usize>,
    pub(crate) changed_at: Option<usize>,
    /// True for the number of a slot in which the client was the limit.
    pub(crate) limited: fn(usize) -> bool,
}

impl Simulated {
    pub(crate) fn new(noise: Noise, seed: u64, work: &[f64]) -> Self {
        Self {
            noise: noise.values(seed, 400),
            work: work.to_vec(),
            slots: 0,
            saves: 0,
            stop_after: usize::MAX,
            late_after: usize::MAX,
            void: |_, _| false,
            guard_at: None,
            changed_at: None,
            limited: |_| false,
        }
    }
}

impl<Record> Bench<Record> for Simulated {
    type Error = Infallible;

    fn slot(&mut self, arm: usize) -> Result<Measured, Infallible> {
        let slot = self.slots;
        self.slots += 1;
        Ok(Measured {
            start_s: slot as f64,
            seconds: 1.0,
            values: BTreeMap::from([("throughput".to_owned(), self.noise[slot] * self.work[arm])]),
            void: (self.void)(arm, slot).then(|| "nothing moved".to_owned()),
            guard: (self.guard_at == Some(slot)).then(|| "too many errors".to_owned()),
            changed: (self.changed_at == Some(slot)).then(|| "rps eth0/rx-0".to_owned()),
            client_limited: (self.limited)(slot).then(|| "a full thread".to_owned()),
            ..Measured::default()
        })
    }

    fn save(&mut self, _: &Record) -> Result<(), Infallible> {
        self.saves += 1;
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.slots >= self.stop_after
    }

    fn is_late(&self) -> bool {
        self.slots >= self.late_after
    }
}
