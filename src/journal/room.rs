//! How much of the disk the way back needs: for a disk that is full by the time of the undo.

use std::collections::BTreeMap;

use super::record::Record;

/// The lines behind the intents: done, surroundings, complete, closed.
const ENDS: u64 = 16 << 10;
/// What undo says of one target, with a reason of some length.
const OUTCOME: u64 = 512;

/// The room that a transaction needs beside its intents.
#[derive(Debug, Default)]
pub(super) struct Room {
    intents: u64,
    /// By knob and target: values beside, in bytes.
    beside: BTreeMap<(String, String), u64>,
}

impl Room {
    pub(super) fn count(&mut self, record: &Record) {
        let Record::Intent(intent) = record else { return };
        self.intents += 1;
        if !intent.beside.is_empty() {
            let place = (intent.knob.clone(), intent.target.lasting());
            let bytes = self.beside.entry(place).or_default();
            *bytes = (*bytes).max(record.to_line().len() as u64);
        }
    }

    /// `None` where undo does without a full account: nothing is thrown away by a write. The values that undo
    /// finds beside may be twice as long as those that were there before.
    pub(super) fn needed(&self) -> Option<u64> {
        let values: u64 = self.beside.values().sum();
        (values > 0).then_some(2 * values + OUTCOME * self.intents + ENDS)
    }
}

#[cfg(test)]
mod tests {
    use super::Room;
    use crate::journal::{Beside, Intent, Record};

    fn intent(knob: &str, beside: usize) -> Record {
        let target: crate::plan::Target = "eth0".parse().expect("a target");
        let one = Beside { knob: "rps".into(), target: target.clone(), value: "0-3".into() };
        Record::Intent(Intent {
            seq: 1,
            knob: knob.into(),
            target,
            device: None,
            ids: None,
            before: "4".into(),
            after: "2".into(),
            beside: vec![one; beside],
            foreign: false,
        })
    }

    #[test]
    fn only_values_that_may_be_thrown_away_need_room_and_each_target_once() {
        let mut room = Room::default();
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
