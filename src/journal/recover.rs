//! From the bytes of a journal file back to what happened. Pure: files are read elsewhere.

use super::record::{Begin, Beside, Intent, Outcome, Record};
use super::surroundings::Surroundings;
use crate::model::DeviceAddress;
use crate::plan::Target;

/// What a journal file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every valid line, in order.
    pub records: Vec<Record>,
    /// Length of the valid lines in bytes. What comes after is a torn line: the process was killed
    /// or the disk was full while it was appended, so nothing was done on the strength of it.
    pub valid_bytes: u64,
}

/// A line that is wrong and is not the last one: no crash does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Counted from 1.
    pub line: usize,
    /// What the lines before it say.
    pub before: History,
}

/// One target that a transaction has written to, or was about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Name of the knob.
    pub knob: String,
    /// What it acts on, by the names of the first intent.
    pub target: Target,
    /// The device by its lasting address.
    pub device: Option<DeviceAddress>,
    /// The first intent.
    pub seq: u64,
    /// The value before the first intent: what undo goes back to.
    pub original: String,
    /// The last value asked for.
    pub wanted: String,
    /// Every value that this transaction found, wrote or read back, each once; not those of somebody else
    /// that it found in the place of its own.
    pub ours: Vec<String>,
    /// Values of somebody else that were found in the place of ours and written over, each once.
    pub foreign: Vec<String>,
    /// Values of intents without a [`Record::Done`]: the machine may have taken them, in part or
    /// in its own way.
    pub unsettled: Vec<String>,
    /// Values of the same interface that the writes may have thrown away: of each the one from before the last
    /// write that found it there. What the transaction sets itself is as it was before the first.
    pub beside: Vec<Beside>,
    /// The same as an undo found them before it wrote the original value.
    pub held: Option<Vec<Beside>>,
    /// What the last undo did about it.
    pub outcome: Option<Outcome>,
}

impl Touched {
    /// Whether both are the same tunable of the same thing.
    pub fn is_same(&self, other: &Self) -> bool {
        self.place() == other.place()
    }

    /// Takes in what a further write found. A queue that an earlier one took away still has the values from
    /// before that; `own` are values of the transaction's own, which go back to the first.
    fn found_beside(&mut self, found: &[Beside], own: &[(String, String)]) {
        for one in found {
            let place = (one.knob.clone(), one.target.lasting());
            let known = |b: &&mut Beside| b.knob == place.0 && b.target.lasting() == place.1;
            match self.beside.iter_mut().find(known) {
                Some(known) if !own.contains(&place) => known.value.clone_from(&one.value),
                Some(_) => {}
                None => self.beside.push(one.clone()),
            }
        }
    }

    fn place(&self) -> (&String, &Option<DeviceAddress>, String) {
        (&self.knob, &self.device, self.target.lasting())
    }
}

impl History {
    /// Reads a file. A wrong last line is a torn one and is left out.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut history = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (line, after) = match rest.iter().position(|b| *b == b'\n') {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => return Ok(history),
            };
            // Only the first line is a begin, and nothing else is the first line.
            let in_place = |record: &Record| matches!(record, Record::Begin(_)) == history.records.is_empty();
            match Record::from_line(line).filter(in_place) {
                Some(record) => history.records.push(record),
                None if after.is_empty() => return Ok(history),
                None => return Err(Damage { line: history.records.len() + 1, before: history }),
            }
            history.valid_bytes += line.len() as u64 + 1;
            rest = after;
        }
        Ok(history)
    }

    /// The first line; `None` when the process was killed before it was whole, and so before
    /// anything was done.
    pub fn begin(&self) -> Option<&Begin> {
        match self.records.first() {
            Some(Record::Begin(begin)) => Some(begin),
            _ => None,
        }
    }

    /// Whether everything asked for was set.
    pub fn is_complete(&self) -> bool {
        self.records.contains(&Record::Complete)
    }

    /// Whether the user confirmed.
    pub fn is_confirmed(&self) -> bool {
        self.records.contains(&Record::Confirmed)
    }

    /// Whether nothing is left to undo.
    pub fn is_closed(&self) -> bool {
        self.records.contains(&Record::Closed)
    }

    /// The deadline, while it holds.
    pub fn pending_deadline(&self) -> Option<u64> {
        let deadline = self.begin()?.deadline?;
        (!self.is_confirmed() && !self.is_closed()).then_some(deadline)
    }

    /// The number of the last intent; 0 before the first.
    pub fn last_seq(&self) -> u64 {
        let seq = |record: &Record| match record {
            Record::Intent(intent) => intent.seq,
            _ => 0,
        };
        self.records.iter().map(seq).max().unwrap_or(0)
    }

    /// The machine around the values when they were last set; `None` in files of earlier versions, and
    /// when the process was killed before.
    pub fn surroundings(&self) -> Option<&Surroundings> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Surroundings(around) => Some(around),
            _ => None,
        })
    }

    /// The targets in the order in which they were first touched.
    pub fn touched(&self) -> Vec<Touched> {
        let mut all: Vec<Touched> = Vec::new();
        // Which target an intent belongs to, by `seq - 1`.
        let mut owner: Vec<(u64, usize)> = Vec::new();
        let of = |owner: &[(u64, usize)], seq| owner.iter().rev().find(|(s, _)| *s == seq).map(|(_, i)| *i);
        for record in &self.records {
            match record {
                Record::Intent(intent) => {
                    let place = (&intent.knob, &intent.device, intent.target.lasting());
                    let index = all.iter().position(|t| t.place() == place).unwrap_or_else(|| {
                        all.push(Touched {
                            knob: intent.knob.clone(),
                            target: intent.target.clone(),
                            device: intent.device.clone(),
                            seq: intent.seq,
                            original: intent.before.clone(),
                            wanted: String::new(),
                            ours: Vec::new(),
                            foreign: Vec::new(),
                            unsettled: Vec::new(),
                            beside: Vec::new(),
                            held: None,
                            outcome: None,
                        });
                        all.len() - 1
                    });
                    owner.push((intent.seq, index));
                    let own = own(&all, intent);
                    let touched = &mut all[index];
                    touched.wanted.clone_from(&intent.after);
                    touched.outcome = None;
                    touched.held = None;
                    touched.found_beside(&intent.beside, &own);
                    // What we had set ourselves at some time is ours, also when somebody set it again.
                    let known = touched.ours.contains(&intent.before);
                    let found =
                        if intent.foreign && !known { &mut touched.foreign } else { &mut touched.ours };
                    add(found, &intent.before);
                    add(&mut touched.ours, &intent.after);
                    add(&mut touched.unsettled, &intent.after);
                }
                Record::Done { seq, kept } => {
                    if let Some(index) = of(&owner, *seq) {
                        add(&mut all[index].ours, kept);
                        // A whole write covers whatever an earlier one left half done.
                        all[index].unsettled.clear();
                    }
                }
                Record::Holding { seq, values } => {
                    if let Some(index) = of(&owner, *seq) {
                        all[index].held = Some(values.clone());
                    }
                }
                Record::Undone { seq, outcome } => {
                    if let Some(index) = of(&owner, *seq) {
                        if let Outcome::Altered { kept } = outcome {
                            add(&mut all[index].ours, kept);
                        }
                        all[index].outcome = Some(outcome.clone());
                    }
                }
                _ => {}
            }
        }
        all
    }
}

/// What the transaction has set on the device of `intent`, where that may throw values away.
fn own(all: &[Touched], intent: &Intent) -> Vec<(String, String)> {
    if intent.beside.is_empty() {
        return Vec::new();
    }
    let on_it = all.iter().filter(|touched| touched.device == intent.device);
    on_it.map(|touched| (touched.knob.clone(), touched.target.lasting())).collect()
}

fn add(values: &mut Vec<String>, value: &str) {
    if !values.iter().any(|v| v == value) {
        values.push(value.to_owned());
    }
}

#[cfg(test)]
mod tests;
