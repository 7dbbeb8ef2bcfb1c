//! A plan that uses every knob, for the machine of plain files.

use std::collections::BTreeSet;

use rxlab::knob::KNOBS;
use rxlab::plan::Setting;

/// One value of each knob, and one queue with two interrupts: a write of two files.
pub(crate) const SETTINGS: [&str; 7] = [
    "irq_affinity eth0/rx-0 = 3",
    "irq_affinity eth0/rx-1 = 4-5",
    "rps eth0/rx-0 = 1-3",
    "rps veth0/rx-0 = 2",
    "rfs_entries host = 32768",
    "rfs eth0/rx-0 = 16384",
    "rfs eth0/rx-1 = 16384",
];

/// The driver makes its queues anew, and one more.
const QUEUES: [&str; 3] = ["channels eth0 = combined 3", "irq_affinity eth0/rx-2 = 5", "rps eth0/rx-2 = 1"];

pub(crate) fn settings(texts: &[&str]) -> Vec<Setting> {
    texts.iter().map(|text| text.parse().expect("a setting")).collect()
}

/// All of them, in the order of applying.
pub(crate) fn everything() -> Vec<Setting> {
    let [channels, irq, rps] = QUEUES;
    let (irqs, rest) = SETTINGS.split_at(2);
    settings(&[&[channels], irqs, &[irq, rps], rest].concat())
}

#[test]
fn every_knob_is_used() {
    let used: BTreeSet<String> = everything().into_iter().map(|setting| setting.knob).collect();
    assert_eq!(used, KNOBS.iter().map(|knob| knob.name().to_owned()).collect());
}
