//! A machine held in memory: what tests and replays use. Writes stay in memory and always succeed,
//! which is more than a kernel promises; [`super::FlakyHost`] scripts the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::{Cause, Host, HostError, Operation};

/// Files by path, without directories: those follow from the paths.
#[derive(Debug, Default)]
pub struct RecordedHost {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    links: BTreeMap<String, String>,
}

impl RecordedHost {
    /// A machine without a single file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn with(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let files = self.files.get_mut().expect("no writer panicked");
        files.insert(path.to_owned(), content.as_ref().to_vec());
        self
    }

    /// Adds a symbolic link. Reads do not follow it; only [`Host::link`] shows it.
    #[must_use]
    pub fn with_link(mut self, path: &str, target: &str) -> Self {
        self.links.insert(path.to_owned(), target.to_owned());
        self
    }
}

impl Host for RecordedHost {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let files = self.files.lock().expect("no writer panicked");
        files.get(path).cloned().ok_or_else(|| HostError::new(Operation::Read, path, Cause::Missing))
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        let mut files = self.files.lock().expect("no writer panicked");
        let file =
            files.get_mut(path).ok_or_else(|| HostError::new(Operation::Write, path, Cause::Missing))?;
        *file = value.to_vec();
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let below = format!("{path}/");
        let files = self.files.lock().expect("no writer panicked");
        let names: BTreeSet<String> = files
            .keys()
            .chain(self.links.keys())
            .filter_map(|file| file.strip_prefix(&below))
            .filter_map(|rest| rest.split('/').next())
            .map(str::to_owned)
            .collect();
        if names.is_empty() {
            return Err(HostError::new(Operation::List, path, Cause::Missing));
        }
        Ok(names.into_iter().collect())
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.links.get(path).cloned().ok_or_else(|| HostError::new(Operation::Link, path, Cause::Missing))
    }
}
