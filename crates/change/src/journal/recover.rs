//! Reconstructs the history from the bytes of a journal file. Pure: files are read elsewhere.

use super::environment::Environment;
use super::record::{Begin, Displaced, GroupId, Intent, Object, Outcome, Record, SysfsIds};
use rxlab_path::model::DeviceAddress;
use rxlab_setting::{Target, tunable};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Every valid line, in order.
    pub records: Vec<Record>,
    /// Length of the complete lines in bytes. A torn line may follow: the process was killed
    /// or the disk was full during the append, so nothing relied on it.
    pub valid_bytes: u64,
}

/// A complete but invalid line: no crash causes that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The first such line, counted from 1.
    pub line: usize,
    /// The contents of all valid lines.
    pub readable: History,
}

/// One target that a transaction has written to, or was about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    pub knob: String,
    /// Target, by its names in the first intent.
    pub target: Target,
    /// Persistent address of the device.
    pub device: Option<DeviceAddress>,
    /// sysfs inodes of the interface and the queue at the last intent.
    pub ids: Option<SysfsIds>,
    /// The control group; `None` for other targets, and in files of earlier versions.
    pub group: Option<GroupId>,
    /// Number of the first intent for this target.
    pub seq: u64,
    /// The value before the first intent, which undo restores.
    pub original: String,
    /// The last value asked for.
    pub wanted: String,
    /// Every value that this transaction found, wrote or read back, each once; without foreign values that
    /// replaced its own.
    pub ours: Vec<String>,
    /// Foreign values that replaced ours and were overwritten, each once.
    pub foreign: Vec<String>,
    /// Values of intents without a [`Record::Done`]: the machine may have stored them, partly or
    /// modified.
    pub unsettled: Vec<String>,
    /// Dependent values on the same interface that the writes may have reset: each from before the last
    /// write that found it. Values set by the transaction itself are those before its first write.
    pub displaced: Vec<Displaced>,
    /// The same as found by an undo before it wrote the original value.
    pub held: Option<Vec<Displaced>>,
    /// Result of the last undo.
    pub outcome: Option<Outcome>,
}

/// What the writes of a transaction to one target may have given to others, and since when.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effect {
    pub(crate) knob: String,
    /// Every value that was found, written or asked for.
    pub(crate) values: Vec<String>,
    /// Nanoseconds since boot at which the transaction began.
    pub(crate) began: Option<u64>,
}

impl Touched {
    /// The target of its first intent.
    pub(crate) fn new(intent: &Intent) -> Self {
        Self {
            knob: intent.knob.clone(),
            target: intent.target.clone(),
            device: intent.device.clone(),
            ids: intent.ids,
            group: intent.group,
            seq: intent.seq,
            original: intent.before.clone(),
            wanted: intent.after.clone(),
            ours: Vec::new(),
            foreign: Vec::new(),
            unsettled: Vec::new(),
            displaced: Vec::new(),
            held: None,
            outcome: None,
        }
    }

    /// True if both are the same knob of the same target.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_of(&other.knob, &other.target, &other.object())
    }

    pub fn object(&self) -> Object {
        Object { device: self.device.clone(), ids: self.ids, group: self.group }
    }

    /// True if both belong to the same interface or process, whatever its name was at the time.
    pub fn is_on_same_device(&self, other: &Self) -> bool {
        self.object().is_same(&other.object())
    }

    /// Adds the findings of another write. A queue removed by an earlier one keeps the values from
    /// before that; `own` are the transaction's own values, which return to the first.
    fn found_displaced(&mut self, found: &[Displaced], own: &[(String, String)]) {
        for one in found {
            let place = (one.knob.clone(), one.target.lasting());
            let known = |b: &&mut Displaced| b.knob == place.0 && b.target.lasting() == place.1;
            match self.displaced.iter_mut().find(known) {
                Some(known) if !own.contains(&place) => known.value.clone_from(&one.value),
                Some(_) => {}
                None => self.displaced.push(one.clone()),
            }
        }
    }

    /// True if it is the knob `knob` of `target`, whose object is `object`. A control group has several names.
    pub fn is_of(&self, knob: &str, target: &Target, object: &Object) -> bool {
        let is_named =
            self.target.lasting() == target.lasting() || self.group.is_some() && object.group.is_some();
        self.knob == knob && is_named && self.object().is_same(object)
    }
}

impl History {
    /// Parses a file. A last line without a line feed was torn by a crash and is ignored: nothing relied
    /// on it. What a process wrote of it before it was killed has no control characters: those are damage.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut history = Self::default();
        let mut damaged = None;
        let mut number = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (line, after) = match rest.iter().position(|b| *b == b'\n') {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => {
                    // Only the line feed is wrong, replaced by another byte: no crash does that.
                    let flipped =
                        rest.split_last().is_some_and(|(_, line)| Record::from_line(line).is_some());
                    let is_damaged = flipped || rest.iter().any(|byte| *byte < b' ');
                    damaged = damaged.or(is_damaged.then_some(number + 1));
                    break;
                }
            };
            number += 1;
            // The first line, and only it, must be a begin.
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

    /// The first line; `None` if the process was killed before completing it, so before
    /// doing anything.
    pub fn begin(&self) -> Option<&Begin> {
        match self.records.first() {
            Some(Record::Begin(begin)) => Some(begin),
            _ => None,
        }
    }

    /// True if everything asked for was set.
    pub fn is_complete(&self) -> bool {
        self.records.contains(&Record::Complete)
    }

    pub fn is_confirmed(&self) -> bool {
        self.records.contains(&Record::Confirmed)
    }

    /// Times that a value was set again after another program had changed it.
    pub fn reapplied(&self) -> usize {
        self.records
            .iter()
            .filter(|record| matches!(record, Record::Intent(intent) if intent.foreign))
            .count()
    }

    /// True for the schema of this version. Single records may be of a kind that a later version added.
    pub(super) fn is_readable(&self) -> bool {
        self.begin().is_some_and(|begin| begin.schema == Begin::SCHEMA)
    }

    /// True if a later version wrote records that are not understood here: any value may be in them.
    pub(super) fn has_unknown(&self) -> bool {
        self.records.contains(&Record::Unknown)
    }

    /// True if it has every record of `earlier` that was synced, in the same order: a file only grows. Others may be lost with a
    /// disk that fails.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        let synced = |record: &&Record| match record {
            Record::Done { .. } | Record::Failed { .. } | Record::Environment(_) => false,
            record => !matches!(record, Record::Undone { .. } | Record::CommandUndone { .. }),
        };
        let mut now = self.records.iter().filter(synced);
        earlier.records.iter().filter(synced).all(|record| now.next() == Some(record))
    }

    /// True if nothing is left to undo.
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

    /// Environment of the values when last set; `None` in files of earlier versions, and
    /// if the process was killed before.
    pub fn environment(&self) -> Option<&Environment> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Environment(around) => Some(around),
            _ => None,
        })
    }

    /// When it began; `None` in files of earlier versions.
    pub fn began(&self) -> Option<u64> {
        self.begin().and_then(|begin| begin.began)
    }

    /// What the writes to one target may have done: none, if there was no write.
    pub(crate) fn effect(&self, is_it: impl Fn(&Touched) -> bool) -> Effect {
        let touched = self.touched().into_iter().find(|touched| is_it(touched));
        let of = |Touched { knob, ours, unsettled, .. }: Touched| Effect {
            knob,
            values: [ours, unsettled].concat(),
            began: self.began(),
        };
        touched.map(of).unwrap_or_default()
    }

    /// The targets in the order of first touch.
    pub fn touched(&self) -> Vec<Touched> {
        let mut all: Vec<Touched> = Vec::new();
        // Target of each intent, by `seq - 1`.
        let mut owner: Vec<(u64, usize)> = Vec::new();
        let owner_of =
            |owner: &[(u64, usize)], seq| owner.iter().rev().find(|(s, _)| *s == seq).map(|(_, i)| *i);
        let untried = |record: &Record| match record {
            Record::Failed { seq, untried: true, .. } => Some(*seq),
            _ => None,
        };
        let untried: Vec<u64> = self.records.iter().filter_map(untried).collect();
        for record in &self.records {
            match record {
                Record::Intent(intent) if untried.contains(&intent.seq) => {}
                Record::Intent(intent) => {
                    let object = intent.object();
                    let is_it = |t: &Touched| t.is_of(&intent.knob, &intent.target, &object);
                    let index = all.iter().position(is_it).unwrap_or_else(|| {
                        let original = replaced(&all, intent).unwrap_or(&intent.before).to_owned();
                        all.push(Touched { original, ..Touched::new(intent) });
                        all.len() - 1
                    });
                    owner.push((intent.seq, index));
                    let own = own(&all, intent);
                    let touched = &mut all[index];
                    touched.wanted.clone_from(&intent.after);
                    touched.ids = intent.ids;
                    touched.outcome = None;
                    touched.held = None;
                    touched.found_displaced(&intent.displaced, &own);
                    // A value that we once set is ours, even if others set it again.
                    let known = touched.ours.contains(&intent.before);
                    let found =
                        if intent.foreign && !known { &mut touched.foreign } else { &mut touched.ours };
                    add(found, &intent.before);
                    add(&mut touched.ours, &intent.after);
                    add(&mut touched.unsettled, &intent.after);
                }
                Record::Done { seq, kept } => {
                    if let Some(index) = owner_of(&owner, *seq) {
                        add(&mut all[index].ours, kept);
                        // A complete write supersedes any earlier partial one.
                        all[index].unsettled.clear();
                    }
                }
                Record::Holding { seq, values } => {
                    if let Some(index) = owner_of(&owner, *seq) {
                        all[index].held = Some(values.clone());
                    }
                }
                Record::Undone { seq, outcome } => {
                    if let Some(index) = owner_of(&owner, *seq) {
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

/// The value of one queue before the transaction, if it found the one that its own write for all queues had given it: undo of
/// that write sets the first one again.
fn replaced<'a>(all: &'a [Touched], intent: &Intent) -> Option<&'a String> {
    let object = intent.object();
    let gave_it = |for_all: &&Touched| {
        let replaces = tunable(&for_all.knob).map_or(&[][..], |row| row.replaces);
        replaces.contains(&intent.knob.as_str())
            && for_all.object().is_same(&object)
            && for_all.wanted == intent.before
    };
    let for_all = all.iter().find(gave_it)?;
    let is_it = |one: &&Displaced| one.knob == intent.knob && one.target.lasting() == intent.target.lasting();
    for_all.displaced.iter().find(is_it).map(|one| &one.value)
}

/// Values that the transaction set on the device of `intent`, which may reset them.
fn own(all: &[Touched], intent: &Intent) -> Vec<(String, String)> {
    if intent.displaced.is_empty() {
        return Vec::new();
    }
    let object = intent.object();
    let on_it = all.iter().filter(|t| t.object().is_same(&object));
    on_it.map(|touched| (touched.knob.clone(), touched.target.lasting())).collect()
}

fn add(values: &mut Vec<String>, value: &str) {
    if !values.iter().any(|v| v == value) {
        values.push(value.to_owned());
    }
}

#[cfg(test)]
mod tests;
