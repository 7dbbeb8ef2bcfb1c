//! Groups slots into pairs.

use std::collections::BTreeMap;

use crate::trial::record::{Arm, Phase, Slot};

/// Two valid slots of one pair, in time order.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Number of the pair within its phase.
    pub number: usize,
    /// The slot that ran first.
    pub first: &'a Slot,
    /// The slot that ran second.
    pub second: &'a Slot,
}

impl<'a> Pair<'a> {
    /// The slot of arm A and that of arm B. In a calibration pair, where both are A, the first
    /// is treated as A.
    pub fn arms(&self) -> (&'a Slot, &'a Slot) {
        if self.first.arm == Arm::B { (self.second, self.first) } else { (self.first, self.second) }
    }
}

/// Pairs of `phase` in which both slots are valid, by number.
///
/// A repeated slot replaces the earlier one of its position: the last valid one counts.
/// A comparison pair needs one slot of each arm.
pub fn valid_pairs(slots: &[Slot], phase: Phase) -> Vec<Pair<'_>> {
    let mut by_number: BTreeMap<usize, [Option<&Slot>; 2]> = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.phase == phase && slot.void.is_none()) {
        by_number.entry(slot.pair).or_default()[usize::from(slot.position > 0)] = Some(slot);
    }
    by_number
        .into_iter()
        .filter_map(|(number, [first, second])| Some(Pair { number, first: first?, second: second? }))
        .filter(|pair| (pair.first.arm != pair.second.arm) == (phase == Phase::Comparison))
        .collect()
}
