//! A machine held in memory, for tests and replays. Writes stay in memory and always succeed,
//! unlike a kernel's; [`super::FlakyHost`] scripts failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::action::act_on_answer;
use super::{Action, Cause, Host, HostError, Operation, Query};

/// Files and answers by path. Directories follow from the paths, unless a listing was recorded.
#[derive(Debug, Default)]
pub struct RecordedHost {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    rest: Recording,
}

/// Contents of a recorded machine in addition to files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The clock at the end of the recording, nanoseconds since boot.
    pub now_ns: u64,
    /// Symbolic links and their targets.
    pub links: BTreeMap<String, String>,
    /// Directories and the names in them.
    pub lists: BTreeMap<String, Vec<String>>,
    /// Things that existed but could not be read. Anything in none of these maps was missing.
    pub failures: BTreeMap<String, Cause>,
}

impl RecordedHost {
    /// A machine without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// A machine of files and the other contents.
    pub fn from_parts(files: BTreeMap<String, Vec<u8>>, rest: Recording) -> Self {
        Self { files: Mutex::new(files), rest }
    }

    /// A copy of its files, and the other contents.
    pub fn parts(&self) -> (BTreeMap<String, Vec<u8>>, &Recording) {
        (self.files.lock().expect("no writer panicked").clone(), &self.rest)
    }

    /// Its files, and the other contents.
    pub fn into_parts(self) -> (BTreeMap<String, Vec<u8>>, Recording) {
        (self.files.into_inner().expect("no writer panicked"), self.rest)
    }

    /// Adds a file, or an answer by its [`Query::path`].
    #[must_use]
    pub fn with(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let files = self.files.get_mut().expect("no writer panicked");
        files.insert(path.to_owned(), content.as_ref().to_vec());
        self
    }

    /// Adds a symbolic link. Reads do not follow it; only [`Host::link`] shows it.
    #[must_use]
    pub fn with_link(mut self, path: &str, target: &str) -> Self {
        self.rest.links.insert(path.to_owned(), target.to_owned());
        self
    }

    /// Adds a listing: the names in the directory, including those not recorded themselves.
    #[must_use]
    pub fn with_list(mut self, path: &str, names: Vec<String>) -> Self {
        self.rest.lists.insert(path.to_owned(), names);
        self
    }

    /// Makes every operation on this path fail; the path of a query makes the query fail.
    #[must_use]
    pub fn with_failure(mut self, path: &str, cause: Cause) -> Self {
        self.rest.failures.insert(path.to_owned(), cause);
        self
    }

    /// Sets the clock, which stands still.
    #[must_use]
    pub fn at_ns(mut self, now_ns: u64) -> Self {
        self.rest.now_ns = now_ns;
        self
    }

    fn failure(&self, operation: Operation, path: &str) -> Result<(), HostError> {
        self.rest.failures.get(path).map_or(Ok(()), |cause| Err(HostError::new(operation, path, *cause)))
    }

    fn content(&self, operation: Operation, path: &str) -> Result<Vec<u8>, HostError> {
        self.failure(operation, path)?;
        let files = self.files.lock().expect("no writer panicked");
        files.get(path).cloned().ok_or_else(|| HostError::new(operation, path, Cause::Missing))
    }
}

impl Host for RecordedHost {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.content(Operation::Read, path)
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        self.failure(Operation::Write, path)?;
        let mut files = self.files.lock().expect("no writer panicked");
        let file =
            files.get_mut(path).ok_or_else(|| HostError::new(Operation::Write, path, Cause::Missing))?;
        *file = value.to_vec();
        Ok(())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.failure(Operation::List, path)?;
        if let Some(names) = self.rest.lists.get(path) {
            return Ok(names.clone());
        }
        let below = format!("{path}/");
        let after = |map_key: &String| map_key.starts_with(&below);
        let name = |key: &String| key[below.len()..].split('/').next().map(str::to_owned);
        let files = self.files.lock().expect("no writer panicked");
        let files = files.range(below.clone()..).map(|(key, _)| key).take_while(|key| after(key));
        let links = self.rest.links.range(below.clone()..).map(|(key, _)| key).take_while(|key| after(key));
        let names: BTreeSet<String> = files.chain(links).filter_map(name).collect();
        if names.is_empty() {
            return Err(HostError::new(Operation::List, path, Cause::Missing));
        }
        Ok(names.into_iter().collect())
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.failure(Operation::Link, path)?;
        let target = self.rest.links.get(path).cloned();
        target.ok_or_else(|| HostError::new(Operation::Link, path, Cause::Missing))
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        act_on_answer(self, action)
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        self.content(Operation::Ask, &query.path())
    }

    fn now_ns(&self) -> u64 {
        self.rest.now_ns
    }
}
