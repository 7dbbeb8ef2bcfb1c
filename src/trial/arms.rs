//! Settings or commands of each arm of a record, and the probe's cost in it.

use super::record::{Arm, TrialRecord};

/// An arm without settings, in words.
pub const AS_IS: &str = "the machine as it was";

/// Settings or commands of each arm of a record, in words.
pub fn arms(record: &TrialRecord) -> [Vec<String>; 2] {
    [&record.against, &record.change].map(|lines| match lines.as_slice() {
        [] => vec![AS_IS.to_owned()],
        lines => lines.to_vec(),
    })
}

/// CPU time of the probe's programs in the slots of an arm, as a fraction of one CPU.
pub fn probe_cost(record: &TrialRecord, arm: Arm) -> Option<f64> {
    let slots = record.slots.iter().filter(|slot| slot.arm == arm);
    let (mut ns, mut of_ns) = (0, 0);
    for cost in slots.filter_map(|slot| slot.probe_cost) {
        ns += cost.ns;
        of_ns += cost.of_ns;
    }
    (of_ns > 0).then(|| ns as f64 / of_ns as f64)
}
