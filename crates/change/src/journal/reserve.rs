//! Disk space that undo needs, in case the disk is full by then.

use std::collections::BTreeMap;

use super::record::Record;

/// Records after the intents: done, environment, complete, closed.
const ENDS: u64 = 16 << 10;
/// Undo record of one target, with a reason of moderate length.
const OUTCOME: u64 = 512;

/// The space that a transaction needs in addition to its intents.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    intents: u64,
    /// Dependent values in bytes, by knob and target.
    displaced: BTreeMap<(String, String), u64>,
}

impl Reserve {
    pub(super) fn count(&mut self, record: &Record) {
        let Record::Intent(intent) = record else { return };
        self.intents += 1;
        if !intent.displaced.is_empty() {
            let place = (intent.knob.clone(), intent.target.lasting());
            let bytes = self.displaced.entry(place).or_default();
            *bytes = (*bytes).max(record.to_line().len() as u64);
        }
    }

    /// `None` if undo needs no reservation: no write resets dependent values. The dependent values that undo
    /// finds may be twice as long as the earlier ones.
    pub(super) fn needed(&self) -> Option<u64> {
        let values: u64 = self.displaced.values().sum();
        (values > 0).then_some(2 * values + OUTCOME * self.intents + ENDS)
    }
}

#[cfg(test)]
mod tests {
    use super::Reserve;
    use crate::journal::{Displaced, Intent, Record};

    fn intent(knob: &str, displaced: usize) -> Record {
        let target = "eth0".parse().expect("a target");
        let one = Displaced { knob: "rps".into(), target, value: "0-3".into() };
        Record::Intent(Intent { displaced: vec![one; displaced], ..Intent::sample(knob, "eth0", "4", "2") })
    }

    #[test]
    fn only_values_that_may_be_thrown_away_need_room_and_each_target_once() {
        let mut room = Reserve::default();
        room.count(&intent("gro", 0));
        assert_eq!(room.needed(), None);
        room.count(&intent("channels", 8));
        let first = room.needed().expect("eight values");
        let lines = 2 * intent("channels", 8).to_line().len() as u64;
        assert!(first > lines, "{first}");
        room.count(&intent("channels", 4));
        assert_eq!(room.needed(), Some(first + super::OUTCOME), "flipped back");
        room.count(&intent("ring_rx", 1));
        assert!(room.needed() > Some(first + 2 * super::OUTCOME));
    }
}
