//! Storage of journal files as an interface: tests may stop the process at every
//! operation.

use std::any::Any;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use rxlab_sys::ProcessId;

/// Open and finished transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Transactions that may have something left to undo.
    Open,
    /// Transactions that are closed, or of another boot.
    Archive,
}

/// Files by transaction id.
///
/// Callers must hold the [`Lock`] for every operation that changes a journal file; notices need none. Nor do
/// readers: a last line without a line feed is being written or was torn, and counts as absent.
pub trait Storage: Send + Sync {
    /// The ids in a folder, sorted; none if nothing was ever stored.
    fn list(&self, folder: Folder) -> io::Result<Vec<String>>;

    /// The whole content of a file.
    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>>;

    /// Creates a new, empty, open file. Its name must survive a crash once this returns; an existing file is
    /// an error.
    fn create(&self, id: &str) -> io::Result<()>;

    /// Reserves this many bytes after the contents of an open file, so that a full disk
    /// does not reject them. The file length is unchanged. Truncating or archiving releases the space.
    fn set_aside(&self, id: &str, bytes: u64) -> io::Result<()>;

    /// Appends bytes to an open file; they survive a crash only after [`Storage::sync`]. After an error some
    /// of them may be in the file: the caller must cut it before appending again.
    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes appended bytes survive a crash.
    fn sync(&self, id: &str) -> io::Result<()>;

    /// Cuts an open file to `length` bytes.
    fn truncate(&self, id: &str, length: u64) -> io::Result<()>;

    /// Moves an open file into the archive.
    fn archive(&self, id: &str) -> io::Result<()>;

    /// Takes the one lock under which files are changed, or reports its holder. Does not wait.
    fn lock(&self) -> Result<Lock, LockError>;

    /// Removes what killed processes have left next to the lock, which the caller must hold.
    fn sweep(&self) -> io::Result<()> {
        Ok(())
    }

    /// True if an open transaction began under this lock, and not one of another run directory.
    fn is_under_lock(&self, _id: &str) -> io::Result<bool> {
        Ok(true)
    }

    /// Waits before the lock is tried again. A simulated disk advances its own time.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Other journals that have changed this machine since boot, with their state directories.
    fn others(&self) -> io::Result<Vec<(PathBuf, Box<dyn Storage>)>> {
        Ok(Vec::new())
    }

    /// Open transactions of this machine, in any state directory, whose files are not there: ids and paths. A file
    /// system that is not mounted is no empty journal.
    fn missing(&self) -> io::Result<Vec<(String, PathBuf)>> {
        Ok(Vec::new())
    }

    /// Gives up a missing transaction. False if there is none with this id. The caller must hold the lock.
    fn forget_missing(&self, _id: &str) -> io::Result<bool> {
        Ok(false)
    }

    /// Shows other processes that this one guards a transaction, until the lock is dropped or the process ends. Storage that
    /// no other process sees shows nothing.
    fn stand_guard(&self, _id: &str) -> io::Result<Lock> {
        Ok(Lock::unshared())
    }

    /// False if the guard of a transaction has ended; `None` if none has shown itself here.
    fn has_guard(&self, _id: &str) -> io::Result<Option<bool>> {
        Ok(None)
    }

    /// Leaves a notice about a transaction for the next command; replaces an earlier one about it. Storage
    /// that no later command reads keeps none.
    fn leave_notice(&self, _id: &str, _text: &[u8]) -> io::Result<()> {
        Ok(())
    }

    /// Removes and returns the notices, each to one caller only, sorted by transaction.
    fn take_notices(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    /// The path of a file, for messages.
    fn path(&self, folder: Folder, id: &str) -> PathBuf;
}

/// Held by the one process that may change the machine and the journal; released when dropped.
#[derive(Debug)]
pub struct Lock {
    // None if no other process can see what it guards.
    file: Option<File>,
    _guard: Option<Box<dyn Any + Send>>,
}

impl Lock {
    /// A lock that lasts until it is dropped. `file` must be locked already.
    pub(super) fn new(file: File) -> Self {
        Self { file: Some(file), _guard: None }
    }

    /// A lock that lasts until `guard` is dropped: for a simulated disk.
    pub fn held_by(guard: impl Any + Send) -> Self {
        Self { file: None, _guard: Some(Box::new(guard)) }
    }

    /// The lock of files visible only to this process.
    pub(super) fn unshared() -> Self {
        Self { file: None, _guard: None }
    }
}

// Closing the file is not enough: a child just forked by another thread has it open too, until
// it runs its program.
impl Drop for Lock {
    fn drop(&mut self) {
        // Never fails for a locked file.
        let _ = self.file.as_ref().map(File::unlock);
    }
}

fn in_words(holder: Option<ProcessId>) -> String {
    let invisible = || "a process that is not visible here".to_owned();
    holder.map_or_else(invisible, |holder| format!("process {}", holder.pid))
}

/// The lock was not obtained.
#[derive(Debug, Error)]
pub enum LockError {
    #[error("{} holds the lock {}", in_words(*holder), path.display())]
    Held {
        path: PathBuf,
        /// The holder according to the kernel; `None` if it is not visible here.
        holder: Option<ProcessId>,
    },
    /// Other users could write to the journal.
    #[error("{} cannot be trusted with the journal: {why}", path.display())]
    Untrusted { path: PathBuf, why: String },
    #[error("cannot take the lock {}: {error}", path.display())]
    Io {
        /// The lock file or a directory above it.
        path: PathBuf,
        error: io::Error,
    },
}
