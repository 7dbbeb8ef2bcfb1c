//! Journal files that misbehave by script: fail, tear a line, or kill the process.
//!
//! For tests only; no command makes one.

#![allow(clippy::disallowed_methods)] // Reads the allocated size of a file.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::storage::{Folder, Lock, LockError, Storage};
use rxlab_sys::Failpoint;

/// From operation `at` of the fuse on, everything that needs space fails with `errno`. An append
/// writes half of its bytes, as on a full disk.
///
/// A full disk (ENOSPC) still has the blocks already given to a file, if `holds` is set.
#[derive(Debug, Clone, Copy)]
pub struct Trouble {
    /// The first operation that fails; the fuse counts from 1.
    pub at: u64,
    /// The error, such as 28 for ENOSPC.
    pub errno: i32,
    /// The file system can reserve space.
    pub holds: bool,
}

const ENOSPC: i32 = 28;

/// Wraps a storage; every operation steps the fuse, an append twice: a line can be torn.
pub struct FlakyStorage<S> {
    inner: S,
    fuse: Arc<Failpoint>,
    trouble: Option<Trouble>,
    synced: Arc<AtomicBool>,
    needed_space: Arc<Mutex<Vec<u64>>>,
}

impl<S: Storage> FlakyStorage<S> {
    /// `inner`, counted by `fuse`, with `trouble`.
    pub fn new(inner: S, fuse: Arc<Failpoint>, trouble: Option<Trouble>) -> Self {
        Self { inner, fuse, trouble, synced: Arc::default(), needed_space: Arc::default() }
    }

    /// True while everything appended is synced.
    pub fn synced(&self) -> Arc<AtomicBool> {
        self.synced.clone()
    }

    /// The operations of the fuse that needed space.
    pub fn needed_space(&self) -> Arc<Mutex<Vec<u64>>> {
        self.needed_space.clone()
    }

    /// Fails without space for `bytes` more, counting blocks of the file `id` if it exists.
    fn room(&self, id: &str, bytes: u64) -> io::Result<()> {
        self.fuse.step();
        self.needed_space.lock().unwrap_or_else(PoisonError::into_inner).push(self.fuse.count());
        match self.trouble {
            Some(trouble) if self.fuse.count() >= trouble.at => {
                let has = trouble.holds && trouble.errno == ENOSPC && self.has(id, bytes);
                if has { Ok(()) } else { Err(io::Error::from_raw_os_error(trouble.errno)) }
            }
            _ => Ok(()),
        }
    }

    /// True if the file already has the blocks.
    fn has(&self, id: &str, bytes: u64) -> bool {
        let path = self.inner.path(Folder::Open, id);
        std::fs::metadata(path).is_ok_and(|file| file.len() + bytes <= file.blocks() * 512)
    }
}

impl<S: Storage> Storage for FlakyStorage<S> {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        self.fuse.step();
        self.inner.list(folder)
    }

    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>> {
        self.fuse.step();
        self.inner.read(folder, id)
    }

    fn create(&self, id: &str) -> io::Result<()> {
        self.room(id, 0)?;
        self.inner.create(id)
    }

    fn set_aside(&self, id: &str, bytes: u64) -> io::Result<()> {
        self.room(id, bytes)?;
        if self.trouble.is_none_or(|trouble| trouble.holds) {
            self.inner.set_aside(id, bytes)
        } else {
            Ok(())
        }
    }

    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.synced.store(false, Ordering::SeqCst);
        self.fuse.step();
        self.inner.append(id, first)?;
        self.room(id, rest.len() as u64)?;
        self.inner.append(id, rest)
    }

    fn sync(&self, id: &str) -> io::Result<()> {
        self.room(id, 0)?;
        self.inner.sync(id)?;
        self.synced.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn truncate(&self, id: &str, length: u64) -> io::Result<()> {
        self.fuse.step();
        self.inner.truncate(id, length)
    }

    fn archive(&self, id: &str) -> io::Result<()> {
        self.fuse.step();
        self.inner.archive(id)
    }

    fn lock(&self) -> Result<Lock, LockError> {
        self.fuse.step();
        self.inner.lock()
    }

    fn sweep(&self) -> io::Result<()> {
        self.fuse.step();
        self.inner.sweep()
    }

    fn is_under_lock(&self, id: &str) -> io::Result<bool> {
        self.inner.is_under_lock(id)
    }

    fn others(&self) -> io::Result<Vec<(PathBuf, Box<dyn Storage>)>> {
        self.fuse.step();
        self.inner.others()
    }

    fn missing(&self) -> io::Result<Vec<(String, PathBuf)>> {
        self.inner.missing()
    }

    fn forget_missing(&self, id: &str) -> io::Result<bool> {
        self.inner.forget_missing(id)
    }

    fn path(&self, folder: Folder, id: &str) -> PathBuf {
        self.inner.path(folder, id)
    }
}
