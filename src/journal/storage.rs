//! Where journal files are kept, as an interface: every operation on one is a point at which a
//! test may stop the process.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::host::ProcessId;

/// Open transactions and finished ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Transactions of which something may be left to undo.
    Open,
    /// Transactions that are closed, or of another boot.
    Archive,
}

/// Files by transaction id.
pub trait Storage: Send + Sync {
    /// The ids in a folder, sorted; none when nothing was ever kept.
    fn list(&self, folder: Folder) -> io::Result<Vec<String>>;

    /// The whole file.
    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>>;

    /// Makes a new, empty, open file whose existence survives a crash.
    fn create(&self, id: &str) -> io::Result<()>;

    /// Sets room aside for so many bytes behind what an open file holds, so that a disk which is full by then
    /// does not refuse them. The file gets no longer. Cutting it gives the room back, and so does the archive.
    fn set_aside(&self, id: &str, bytes: u64) -> io::Result<()>;

    /// Adds bytes at the end of an open file; they survive a crash only after [`Storage::sync`].
    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was appended survive a crash.
    fn sync(&self, id: &str) -> io::Result<()>;

    /// Cuts an open file to `length` bytes.
    fn truncate(&self, id: &str, length: u64) -> io::Result<()>;

    /// Moves an open file into the archive.
    fn archive(&self, id: &str) -> io::Result<()>;

    /// Takes the one lock under which files are changed, or says who has it. Does not wait.
    fn lock(&self) -> Result<Lock, LockError>;

    /// Waits before the lock is tried again. A simulated disk lets its own time pass.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Makes these files known as a journal of the machine, and gives the state directories of the others. Call
    /// it under the lock.
    fn claim(&self) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    /// Leaves a notice about a transaction for the next command; replaces an earlier one about it. A storage that no
    /// command reads later keeps none.
    fn leave_notice(&self, _id: &str, _text: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Takes the notices away, each for one caller only, sorted by transaction.
    fn take_notices(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    /// The path of a file, for messages.
    fn path(&self, folder: Folder, id: &str) -> PathBuf;
}

/// Held by the one process that may change the machine and the journal; given back when dropped.
#[derive(Debug)]
pub struct Lock {
    // None where no other process can see what it guards.
    file: Option<File>,
    _guard: Option<Box<dyn Any + Send>>,
}

impl Lock {
    /// A lock that lasts as long as `file` is open. The file must be locked.
    pub(super) fn new(file: File) -> Self {
        Self { file: Some(file), _guard: None }
    }

    /// A lock that lasts until `guard` is dropped: for a simulated disk.
    pub fn held_by(guard: impl Any + Send) -> Self {
        Self { file: None, _guard: Some(Box::new(guard)) }
    }

    /// The lock of files that only this process has.
    pub(super) fn nobody_elses() -> Self {
        Self { file: None, _guard: None }
    }
}

// Closing the file is not enough: a child that another thread has just forked has it open too, until
// it runs its program.
impl Drop for Lock {
    fn drop(&mut self) {
        // Fails for no file that was locked.
        let _ = self.file.as_ref().map(File::unlock);
    }
}

/// The lock was not had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process has it.
    #[error("process {} holds the lock {}", holder.map_or("?".to_owned(), |holder| holder.pid.to_string()), path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who, when the file says it.
        holder: Option<ProcessId>,
    },
    /// Others than we could write to the journal.
    #[error("{} cannot be trusted with the journal: {why}", path.display())]
    Untrusted {
        /// The directory.
        path: PathBuf,
        /// Who could write to it.
        why: String,
    },
    /// It cannot be had.
    #[error("cannot take the lock {}: {error}", path.display())]
    Io {
        /// The lock file or a directory above it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}
