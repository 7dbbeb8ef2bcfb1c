//! The journal of one open transaction: appends records, and permits a write only once the
//! old value is on disk.

use std::io;
use std::sync::Arc;

use super::command::BackCommand;
use super::environment::Environment;
use super::record::{Displaced, GroupId, Intent, Outcome, Record};
use super::recover::{Effect, History};
use super::reserve::Reserve;
use super::storage::{Folder, Lock, Storage};
use super::store::JournalError;

/// The proof that a write may happen: the value to restore is on disk, synced.
///
/// Only [`Journal::arm`] and [`Journal::arm_restore`] create one, so a write without an entry in the
/// journal does not compile.
#[derive(Debug)]
pub struct Armed {
    seq: u64,
    group: Option<GroupId>,
    effect: Effect,
}

impl Armed {
    /// The intent that covers the write.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The control group that the write is for. Its directory is looked for by name, which takes time: the knob compares before
    /// it writes.
    pub fn group(&self) -> Option<GroupId> {
        self.group
    }

    pub(crate) fn effect(&self) -> &Effect {
        &self.effect
    }
}

/// An open transaction. Owns the lock, so no other process changes the machine or this file before it is
/// dropped.
pub struct Journal {
    storage: Arc<dyn Storage>,
    id: String,
    history: History,
    // The file may end in a partial line that could not be cut off. Anything appended after it would
    // turn a torn line into damage.
    torn: bool,
    room: Reserve,
    _lock: Lock,
}

impl Journal {
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        id: String,
        history: History,
        torn: bool,
        lock: Lock,
    ) -> Self {
        let mut room = Reserve::default();
        history.records.iter().for_each(|record| room.count(record));
        Self { storage, id, history, torn, room, _lock: lock }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Everything recorded so far, and outcomes of undo that could not be.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Records `intent` under the next number and syncs it. From then on the records of undo have reserved
    /// space.
    ///
    /// The write must not begin before this returns. After it, the caller must record the result with
    /// [`Journal::done`] or [`Journal::failed`]; without one, undo assumes that the value may have changed.
    /// After an error nothing may be written.
    pub fn arm(&mut self, intent: Intent) -> Result<Armed, JournalError> {
        let (seq, group) = (self.history.last_seq() + 1, intent.group);
        let (knob, target, object) = (intent.knob.clone(), intent.target.clone(), intent.object());
        let record = Record::Intent(Intent { seq, ..intent });
        self.room.count(&record);
        self.set_aside(record.to_line().len() as u64)?;
        self.append(record)?;
        self.sync()?;
        let effect = self.history.effect(|touched| touched.is_of(&knob, &target, &object));
        Ok(Armed { seq, group, effect })
    }

    /// Reserves the space that undo needs, and `bytes` more.
    pub(super) fn set_aside(&self, bytes: u64) -> Result<(), JournalError> {
        let Some(needed) = self.room.needed() else { return Ok(()) };
        let done = self.storage.set_aside(&self.id, needed + bytes);
        done.map_err(|error| self.error("reserve space in", error))
    }

    /// Permits restoring the original value of intent `seq`; `None` if there is no such intent. Appends
    /// nothing, so a full disk cannot prevent it.
    pub fn arm_restore(&self, seq: u64) -> Option<Armed> {
        self.history.records.iter().find_map(|record| match record {
            Record::Intent(intent) if intent.seq == seq => {
                let effect = self.history.effect(|touched| touched.seq == seq);
                Some(Armed { seq, group: intent.group, effect })
            }
            _ => None,
        })
    }

    /// Records and syncs the dependent values set by others. Must be called before the original is
    /// restored: that write may reset them.
    pub fn holding(&mut self, seq: u64, values: &[Displaced]) -> Result<(), JournalError> {
        self.append(Record::Holding { seq, values: values.to_vec() })?;
        self.sync()
    }

    /// Records that the write of `armed` was made and `kept` was read back. Must come last, after dependent
    /// values were set again: until then they may be leftovers of the driver. Not synced: a program crash
    /// does not lose the line, and a machine crash loses the value too.
    pub fn done(&mut self, armed: &Armed, kept: &str) -> Result<(), JournalError> {
        self.append(Record::Done { seq: armed.seq, kept: kept.to_owned() })
    }

    /// Records that the write of `armed` was rejected or that its outcome is unknown. `untried` must be true
    /// only if no write was attempted.
    pub fn failed(&mut self, armed: &Armed, why: &str, untried: bool) -> Result<(), JournalError> {
        self.append(Record::Failed { seq: armed.seq, why: why.to_owned(), untried })
    }

    /// Result of undo for the target first touched by intent `seq`. This process knows it also if it cannot be recorded: what is
    /// restored next depends on it.
    pub fn undone(&mut self, seq: u64, outcome: &Outcome) -> Result<(), JournalError> {
        let record = Record::Undone { seq, outcome: outcome.clone() };
        let recorded = self.append(record.clone());
        if recorded.is_err() {
            self.history.records.push(record);
        }
        recorded
    }

    /// Records and syncs the command that reverts the next one to run. Must return before that one starts;
    /// after an error it must not run.
    pub fn command(&mut self, back: &BackCommand) -> Result<(), JournalError> {
        self.append(Record::Command(back.clone()))?;
        self.sync()
    }

    /// Records the result of the reverting command. Not synced: if the line is lost, the command
    /// runs once more, which does no harm.
    pub fn command_undone(&mut self, outcome: &Outcome) -> Result<(), JournalError> {
        self.append(Record::CommandUndone { outcome: outcome.clone() })
    }

    /// Records the reference for later comparisons. Not synced: it is lost only together with the values.
    pub fn environment(&mut self, around: Environment) -> Result<(), JournalError> {
        self.append(Record::Environment(around))
    }

    /// Records and syncs that everything asked for is set. If the process dies before, the guard of a change
    /// with a deadline reverts it at once.
    pub fn complete(&mut self) -> Result<(), JournalError> {
        self.append(Record::Complete)?;
        self.sync()
    }

    /// Records and syncs that the user wants the change to stay: its deadline no longer holds.
    pub fn confirm(&mut self) -> Result<(), JournalError> {
        self.append(Record::Confirmed)?;
        self.sync()
    }

    /// Archives the file. Must be called only when nothing is left to undo. A file with records of a later
    /// version stays open and is an error: they may describe something to undo.
    pub fn close(&mut self) -> Result<(), JournalError> {
        if self.history.has_unknown() {
            let path = self.storage.path(Folder::Open, &self.id);
            return Err(JournalError::LaterVersion { path });
        }
        self.append(Record::Closed)?;
        self.sync()?;
        self.storage.archive(&self.id).map_err(|error| self.error("archive", error))
    }

    pub(super) fn append(&mut self, record: Record) -> Result<(), JournalError> {
        if self.torn {
            return Err(self.error("append to", io::Error::other("an earlier line is incomplete")));
        }
        let line = record.to_line();
        if let Err(error) = self.storage.append(&self.id, &line) {
            self.torn = self.storage.truncate(&self.id, self.history.valid_bytes).is_err();
            return Err(self.error("append to", error));
        }
        self.history.valid_bytes += line.len() as u64;
        self.history.records.push(record);
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), JournalError> {
        self.storage.sync(&self.id).map_err(|error| self.error("sync", error))
    }

    fn error(&self, verb: &'static str, error: io::Error) -> JournalError {
        JournalError::Io { verb, path: self.storage.path(Folder::Open, &self.id), error }
    }
}
