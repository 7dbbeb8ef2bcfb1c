//! In-memory journal files: for a rehearsal, which has nothing to undo.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use super::storage::{Folder, Lock, LockError, Storage};

/// Files in memory, all open.
#[derive(Debug, Default)]
pub struct Memory {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    // Errors of files that cannot be read.
    unreadable: BTreeMap<String, io::Error>,
    // Paths of the copied files.
    paths: BTreeMap<String, PathBuf>,
    // Transactions whose files were not there.
    missing: Vec<(String, PathBuf)>,
}

impl Memory {
    pub(super) fn without(missing: Vec<(String, PathBuf)>) -> Self {
        Self { missing, ..Self::default() }
    }

    /// Adds a copy of the file `path`.
    pub(super) fn add(&mut self, id: String, path: PathBuf, bytes: Vec<u8>) {
        self.paths.insert(id.clone(), path);
        self.files.get_mut().expect("no writer panicked").insert(id, bytes);
    }

    /// Adds the file `path`, which cannot be read.
    pub(super) fn add_unreadable(&mut self, id: String, path: PathBuf, error: io::Error) {
        self.unreadable.insert(id.clone(), error);
        self.add(id, path, Vec::new());
    }

    fn with<T>(&self, id: &str, act: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut files = self.files.lock().expect("no writer panicked");
        files.get_mut(id).map(act).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for Memory {
    fn list(&self, folder: Folder) -> io::Result<Vec<String>> {
        let files = self.files.lock().expect("no writer panicked");
        Ok(if folder == Folder::Open { files.keys().cloned().collect() } else { Vec::new() })
    }

    fn read(&self, folder: Folder, id: &str) -> io::Result<Vec<u8>> {
        match self.unreadable.get(id) {
            Some(error) if folder == Folder::Open => Err(io::Error::new(error.kind(), error.to_string())),
            _ => self.with(id, |bytes| bytes.clone()),
        }
    }

    fn create(&self, id: &str) -> io::Result<()> {
        self.files.lock().expect("no writer panicked").insert(id.to_owned(), Vec::new());
        Ok(())
    }

    fn set_aside(&self, _: &str, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn append(&self, id: &str, bytes: &[u8]) -> io::Result<()> {
        self.with(id, |file| file.extend_from_slice(bytes))
    }

    fn sync(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, id: &str, length: u64) -> io::Result<()> {
        self.with(id, |file| file.truncate(usize::try_from(length).unwrap_or(usize::MAX)))
    }

    fn archive(&self, id: &str) -> io::Result<()> {
        self.files.lock().expect("no writer panicked").remove(id);
        Ok(())
    }

    fn lock(&self) -> Result<Lock, LockError> {
        Ok(Lock::unshared())
    }

    fn missing(&self) -> io::Result<Vec<(String, PathBuf)>> {
        Ok(self.missing.clone())
    }

    fn path(&self, _: Folder, id: &str) -> PathBuf {
        self.paths.get(id).cloned().unwrap_or_else(|| PathBuf::from(format!("(in memory)/{id}")))
    }
}
