//! The journal of one open transaction: appends records, and lets a value be written only after
//! what it was is on disk.

use std::io;
use std::sync::Arc;

use super::command::BackCommand;
use super::record::{Beside, Intent, Outcome, Record};
use super::recover::History;
use super::room::Room;
use super::storage::{Folder, Lock, Storage};
use super::store::JournalError;
use super::surroundings::Surroundings;

/// The proof that a write may happen: the value to go back to is on disk, synced.
///
/// Only [`Journal::arm`] and [`Journal::arm_restore`] make one, so a write without an entry in the
/// journal does not compile.
#[derive(Debug)]
pub struct Armed {
    seq: u64,
}

impl Armed {
    /// The intent that covers the write.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// An open transaction, held under the lock.
pub struct Journal {
    storage: Arc<dyn Storage>,
    id: String,
    history: History,
    // A line may be half there that could not be cut off again. Anything appended after it would
    // turn a torn line into damage.
    torn: bool,
    room: Room,
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
        let mut room = Room::default();
        history.records.iter().for_each(|record| room.count(record));
        Self { storage, id, history, torn, room, _lock: lock }
    }

    /// The transaction.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Everything recorded so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Records `intent` under the next number and syncs it; then the write may happen. What undo will have to
    /// write down has its room from now on.
    pub fn arm(&mut self, intent: Intent) -> Result<Armed, JournalError> {
        let seq = self.history.last_seq() + 1;
        let record = Record::Intent(Intent { seq, ..intent });
        self.room.count(&record);
        self.set_aside(record.to_line().len() as u64)?;
        self.append(record)?;
        self.sync()?;
        Ok(Armed { seq })
    }

    /// Sets aside what the way back needs, and `bytes` more.
    pub(super) fn set_aside(&self, bytes: u64) -> Result<(), JournalError> {
        let Some(needed) = self.room.needed() else { return Ok(()) };
        let done = self.storage.set_aside(&self.id, needed + bytes);
        done.map_err(|error| self.error("reserve space in", error))
    }

    /// Lets the original value of intent `seq` be written back. Needs nothing on disk but what is
    /// there already, so that a full disk cannot keep a machine from being restored. `None` when
    /// there is no such intent.
    pub fn arm_restore(&self, seq: u64) -> Option<Armed> {
        let known = |record: &Record| matches!(record, Record::Intent(intent) if intent.seq == seq);
        self.history.records.iter().any(known).then_some(Armed { seq })
    }

    /// Writes down, and syncs, what others had set beside the value that is about to go back.
    pub fn holding(&mut self, seq: u64, values: &[Beside]) -> Result<(), JournalError> {
        self.append(Record::Holding { seq, values: values.to_vec() })?;
        self.sync()
    }

    /// The write was made; `kept` was read back. Not synced: a crash of the program does not lose
    /// it, and a crash of the machine loses the value with it.
    pub fn done(&mut self, armed: &Armed, kept: &str) -> Result<(), JournalError> {
        self.append(Record::Done { seq: armed.seq, kept: kept.to_owned() })
    }

    /// The write was refused, or its outcome is not known; or it was not even tried.
    pub fn failed(&mut self, armed: &Armed, why: &str, untried: bool) -> Result<(), JournalError> {
        self.append(Record::Failed { seq: armed.seq, why: why.to_owned(), untried })
    }

    /// What undo did about the target first touched by intent `seq`.
    pub fn undone(&mut self, seq: u64, outcome: &Outcome) -> Result<(), JournalError> {
        self.append(Record::Undone { seq, outcome: outcome.clone() })
    }

    /// Records, and syncs, the command that takes back the one that runs next. After an error that one must not run.
    pub fn command(&mut self, back: &BackCommand) -> Result<(), JournalError> {
        self.append(Record::Command(back.clone()))?;
        self.sync()
    }

    /// Records the result of the command that takes the last one back. Not synced: if the line is lost, that command
    /// runs once more, which does no harm.
    pub fn command_undone(&mut self, outcome: &Outcome) -> Result<(), JournalError> {
        self.append(Record::CommandUndone { outcome: outcome.clone() })
    }

    /// What a later look compares with. Not synced: it is lost only with the values themselves.
    pub fn surroundings(&mut self, around: Surroundings) -> Result<(), JournalError> {
        self.append(Record::Surroundings(around))
    }

    /// Everything that was asked for is set.
    pub fn complete(&mut self) -> Result<(), JournalError> {
        self.append(Record::Complete)?;
        self.sync()
    }

    /// The user wants it to stay.
    pub fn confirm(&mut self) -> Result<(), JournalError> {
        self.append(Record::Confirmed)?;
        self.sync()
    }

    /// Nothing is left to undo: the file goes to the archive. One that a later version has written to stays.
    pub fn close(&mut self) -> Result<(), JournalError> {
        if self.history.records.contains(&Record::Unknown) {
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
