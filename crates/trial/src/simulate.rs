//! A simulated machine: slot values with the kinds of noise of real machines, to
//! test the method against a known truth.
//!
//! A real trial uses none of this.

#[cfg(test)]
mod bench;
pub mod families;
pub mod fleet;
pub mod live;
pub mod table;
pub mod whole;

#[cfg(test)]
pub(super) use bench::Simulated;

use super::metrics;
use super::record::TrialRecord;

/// A trial in pairs of simulated noise, before its first slot: nothing is changed, throughput is the only metric.
pub fn record() -> TrialRecord {
    TrialRecord {
        schema: TrialRecord::SCHEMA.to_owned(),
        id: "0001-simulated".to_owned(),
        name: "simulated".to_owned(),
        workload: "simulated".to_owned(),
        cpus: 2,
        seed: 1,
        margin: 0.03,
        min_pairs: 9,
        max_pairs: 40,
        measure_s: 1.0,
        metrics: vec![metrics::describe(metrics::name::THROUGHPUT, "req/s")],
        ..TrialRecord::default()
    }
}
