//! Settings or commands of each arm of a record, and the probe's cost in it.

use super::record::{Arm, TrialRecord};
use crate::plan::Setting;

/// An arm without settings, in words. Stored in records.
pub const AS_IS: &str = "the machine as it was";

/// Two lists of settings in the words of the record.
pub fn in_words(against: &[Setting], settings: &[Setting]) -> Vec<String> {
    if against.is_empty() {
        return settings.iter().map(ToString::to_string).collect();
    }
    let of = |arm: &str, settings: &[Setting]| -> Vec<String> {
        match settings {
            [] => vec![format!("{arm}: {AS_IS}")],
            settings => settings.iter().map(|setting| format!("{arm}: {setting}")).collect(),
        }
    };
    [of("A", against), of("B", settings)].concat()
}

/// Settings or commands of each arm of a record, in words.
pub fn arms(record: &TrialRecord) -> [Vec<String>; 2] {
    let of = |arm: &str| -> Vec<String> {
        record.change.iter().filter_map(|line| line.strip_prefix(arm)).map(str::to_owned).collect()
    };
    match [of("A: "), of("B: ")] {
        [a, b] if a.is_empty() && b.is_empty() => [vec![AS_IS.to_owned()], record.change.clone()],
        arms => arms,
    }
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

#[cfg(test)]
mod tests {
    use super::{AS_IS, in_words};
    use crate::plan::Setting;

    fn settings(texts: &[&str]) -> Vec<Setting> {
        texts.iter().map(|text| text.parse().expect("a setting")).collect()
    }

    #[test]
    fn an_arm_is_named_where_both_set_something() {
        let (zero, one) = (settings(&["rps a/rx-0 = 0"]), settings(&["rps a/rx-0 = 1"]));
        assert_eq!(in_words(&[], &one), ["rps a/rx-0 = 1"]);
        assert_eq!(in_words(&zero, &one), ["A: rps a/rx-0 = 0", "B: rps a/rx-0 = 1"]);
        assert_eq!(in_words(&zero, &[]), ["A: rps a/rx-0 = 0".to_owned(), format!("B: {AS_IS}")]);
    }
}
