//! From the bytes of a journal file back to what happened. Pure: files are read elsewhere.

use super::record::{Begin, Beside, Intent, Outcome, Record, SysfsIds};
use super::surroundings::Surroundings;
use crate::model::DeviceAddress;
use crate::plan::Target;

/// What a journal file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every valid line, in order.
    pub records: Vec<Record>,
    /// Length of the whole lines in bytes. What comes after is a torn line: the process was killed
    /// or the disk was full while it was appended, so nothing was done on the strength of it.
    pub valid_bytes: u64,
}

/// A whole line that is wrong: no crash does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The first such line, counted from 1.
    pub line: usize,
    /// What all valid lines say.
    pub readable: History,
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
    /// What sysfs called the interface and the queue at the last intent.
    pub ids: Option<SysfsIds>,
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
        self.is_of(&other.knob, &other.target, (&other.device, other.ids))
    }

    /// Whether both belong to the same interface or process, whatever its name was at the time.
    pub fn is_on_same_device(&self, other: &Self) -> bool {
        is_same_device((&self.device, self.ids), (&other.device, other.ids))
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

    /// Whether it is the tunable `knob` of `target`, which belongs to `device`.
    pub fn is_of(
        &self,
        knob: &str,
        target: &Target,
        device: (&Option<DeviceAddress>, Option<SysfsIds>),
    ) -> bool {
        self.knob == knob
            && self.target.lasting() == target.lasting()
            && is_same_device((&self.device, self.ids), device)
    }
}

/// Hardware keeps its address when its driver makes the interface again; a virtual interface that is made again
/// is another one. Journals of earlier versions have addresses alone.
fn is_same_device(
    (mine, my_ids): (&Option<DeviceAddress>, Option<SysfsIds>),
    (theirs, their_ids): (&Option<DeviceAddress>, Option<SysfsIds>),
) -> bool {
    let by_address = || mine == theirs;
    match (my_ids, their_ids) {
        (Some(my_ids), Some(their_ids)) if my_ids.interface == their_ids.interface => true,
        (Some(_), Some(_)) => by_address() && !mine.as_ref().is_some_and(DeviceAddress::is_virtual),
        _ => by_address(),
    }
}

impl History {
    /// Reads a file. A last line without its line feed was torn by a crash and is left out: nothing was done on the
    /// strength of it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut history = Self::default();
        let mut damaged = None;
        let mut number = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (line, after) = match rest.iter().position(|b| *b == b'\n') {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => {
                    // All is there but the line feed, which is another byte: no crash does that.
                    let flipped =
                        rest.split_last().is_some_and(|(_, line)| Record::from_line(line).is_some());
                    damaged = damaged.or(flipped.then_some(number + 1));
                    break;
                }
            };
            number += 1;
            // Only the first line is a begin, and nothing else is the first line.
            let in_place = |record: &Record| matches!(record, Record::Begin(_)) == (number == 1);
            match Record::from_line(line).filter(in_place) {
                Some(record) => history.records.push(record),
                None => damaged = damaged.or(Some(number)),
            }
            history.valid_bytes += line.len() as u64 + 1;
            rest = after;
        }
        match damaged {
            Some(line) => Err(Damage { line, readable: history }),
            None => Ok(history),
        }
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

    /// Whether it has the schema of this version. Single records may be of a kind that a later version added.
    pub(super) fn is_readable(&self) -> bool {
        self.begin().is_some_and(|begin| begin.schema == Begin::SCHEMA)
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
        let untried = |record: &Record| match record {
            Record::Failed { seq, untried: true, .. } => Some(*seq),
            _ => None,
        };
        let untried: Vec<u64> = self.records.iter().filter_map(untried).collect();
        for record in &self.records {
            match record {
                Record::Intent(intent) if untried.contains(&intent.seq) => {}
                Record::Intent(intent) => {
                    let device = (&intent.device, intent.ids);
                    let is_it = |t: &Touched| t.is_of(&intent.knob, &intent.target, device);
                    let index = all.iter().position(is_it).unwrap_or_else(|| {
                        all.push(Touched {
                            knob: intent.knob.clone(),
                            target: intent.target.clone(),
                            device: intent.device.clone(),
                            ids: intent.ids,
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
                    touched.ids = intent.ids;
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
    let is_on_it = |t: &&Touched| is_same_device((&t.device, t.ids), (&intent.device, intent.ids));
    let on_it = all.iter().filter(is_on_it);
    on_it.map(|touched| (touched.knob.clone(), touched.target.lasting())).collect()
}

fn add(values: &mut Vec<String>, value: &str) {
    if !values.iter().any(|v| v == value) {
        values.push(value.to_owned());
    }
}

#[cfg(test)]
mod tests;
