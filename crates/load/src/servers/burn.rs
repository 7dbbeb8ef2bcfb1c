//! A fixed amount of computation for `/compute?us=N`.
//!
//! The work is counted in rounds, not in time: when softirqs or other tasks take the CPU away, the
//! response comes later, which is the effect to measure. Burning until a deadline would hide it. The
//! rounds per microsecond are calibrated once, at start.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rxlab_base::compute::compute;

/// A loop that takes a requested time, calibrated at the start.
#[derive(Debug)]
pub(super) struct Burn {
    rounds_per_us: f64,
}

/// Longest piece of work between two checks of the stop flag.
const SLICE_US: u64 = 1_000;

impl Burn {
    /// Takes about 5 ms. The fastest of many short runs counts: it was disturbed least.
    pub(super) fn calibrate() -> Self {
        const ROUNDS: u64 = 4_000;
        let fastest_ns = (0..200)
            .map(|_| {
                let start = Instant::now();
                compute(ROUNDS);
                start.elapsed().as_nanos()
            })
            .min()
            .map_or(1, |ns| ns.max(1));
        Self { rounds_per_us: ROUNDS as f64 * 1000.0 / fastest_ns as f64 }
    }

    /// Computes for as long as `us` microseconds take on an undisturbed CPU; less when `stop` is set.
    pub(super) fn run(&self, us: u64, stop: &AtomicBool) {
        let mut left = us;
        while left > 0 && !stop.load(Ordering::Relaxed) {
            let slice = left.min(SLICE_US);
            compute((slice as f64 * self.rounds_per_us) as u64);
            left -= slice;
        }
    }
}
