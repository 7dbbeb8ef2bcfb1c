//! Journal files that misbehave by script: fail, tear a line, or kill the process.
//!
//! For tests only; no command makes one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::storage::{Folder, Lock, LockError, Storage};
use crate::host::Fuse;

/// From operation `at` of the fuse on, everything that needs room fails with `errno`. An append
/// leaves half of its bytes behind, as a full disk does.
#[derive(Debug, Clone, Copy)]
pub struct Trouble {
    /// The first operation that fails, counted from 1 on the fuse.
    pub at: u64,
    /// What it fails with, such as 28 for ENOSPC.
    pub errno: i32,
}

/// Wraps a storage; every operation steps the fuse, an append twice: a line can be torn.
pub struct FlakyStorage<S> {
    inner: S,
    fuse: Arc<Fuse>,
    trouble: Option<Trouble>,
}

impl<S: Storage> FlakyStorage<S> {
    /// `inner`, counted by `fuse`, with `trouble`.
    pub fn new(inner: S, fuse: Arc<Fuse>, trouble: Option<Trouble>) -> Self {
        Self { inner, fuse, trouble }
    }

    fn room(&self) -> io::Result<()> {
        self.fuse.step();
        match self.trouble {
            Some(trouble) if self.fuse.count() >= trouble.at => {
                Err(io::Error::from_raw_os_error(trouble.errno))
            }
            _ => Ok(()),
        }
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
        self.room()?;
        self.inner.create(id)
    }

    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        self.fuse.step();
        self.inner.append(id, first)?;
        self.room()?;
        self.inner.append(id, rest)
    }

    fn sync(&self, id: &str) -> io::Result<()> {
        self.room()?;
        self.inner.sync(id)
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

    fn path(&self, folder: Folder, id: &str) -> PathBuf {
        self.inner.path(folder, id)
    }
}
