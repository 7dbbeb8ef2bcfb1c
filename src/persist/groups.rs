//! Groups the settings of a persisted plan that are applied together. Pure.

use std::collections::BTreeMap;

use crate::knob;
use crate::plan::{PlannedSetting, Setting, Target};
use crate::units::NicName;

/// A setting as in the plan, and with current names.
type Pair = (PlannedSetting, PlannedSetting);

/// The whole machine first, then one interface after another: one that is not ready blocks no other.
/// Settings of processes come last, one by one: they are independent, and may start late.
pub fn groups(here: Vec<Pair>) -> Vec<Vec<Pair>> {
    let mut groups: BTreeMap<Group, Vec<Pair>> = BTreeMap::new();
    for pair in here {
        let Setting { knob, target, .. } = &pair.1.set;
        let group = match target.nic() {
            Some(nic) => Group::Nic(nic.clone()),
            None if knob::find(knob).is_some_and(|knob| knob.is_fleeting()) => Group::Alone(target.clone()),
            None => Group::Machine,
        };
        groups.entry(group).or_default().push(pair);
    }
    groups.into_values().collect()
}

/// In the order of applying.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Machine,
    Nic(NicName),
    Alone(Target),
}

#[cfg(test)]
mod tests {
    use super::groups;
    use crate::plan::{PlannedSetting, Setting};

    #[test]
    fn a_process_keeps_nothing_else_waiting() {
        let settings = [
            "affinity unit:nginx.service = 1",
            "rps eth1/rx-0 = 1",
            "irqbalance eth0 = banned",
            "affinity unit:web.service = 2",
            "netdev_budget host = 600",
            "irq_affinity eth0/rx-0 = 1",
            "ksoftirqd_priority cpu:2 = fifo:10",
        ];
        let pair = |text: &str| {
            let set: Setting = text.parse().expect("a setting");
            let planned = PlannedSetting::new(set, "", None);
            (planned.clone(), planned)
        };
        let groups: Vec<Vec<String>> = groups(settings.map(pair).to_vec())
            .iter()
            .map(|group| group.iter().map(|(_, here)| here.set.to_string()).collect())
            .collect();
        assert_eq!(
            groups,
            [
                &["netdev_budget host = 600", "ksoftirqd_priority cpu:2 = fifo:10"][..],
                &["irqbalance eth0 = banned", "irq_affinity eth0/rx-0 = 1"],
                &["rps eth1/rx-0 = 1"],
                &["affinity unit:nginx.service = 1"],
                &["affinity unit:web.service = 2"],
            ]
        );
    }
}
