//! A machine that misbehaves by script: fails, changes what is written, or kills the process.
//!
//! For tests only; no command creates one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Action, Cause, Entry, Host, HostError, Operation, Query};

/// Misbehaviour of a write or another change.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The kernel answers with this cause and changes nothing.
    Refuse(Cause),
    /// The kernel keeps this value instead of the one written, and reports success.
    Keep(Vec<u8>),
    /// Nothing changes and the write still succeeds.
    Ignore,
}

/// A fault for every change of paths that end with `suffix`.
#[derive(Debug, Clone)]
pub struct Rule {
    /// End of the path, such as `rps_cpus`.
    pub suffix: String,
    /// Effect on the change.
    pub fault: Fault,
}

/// Wraps a host, counts its operations and applies [`Rule`]s to writes.
pub struct FlakyHost<H> {
    inner: H,
    rules: Vec<Rule>,
    fuse: Arc<Failpoint>,
}

/// Counts operations, and calls a function before each: it may look, kill the process, or panic.
pub struct Failpoint {
    count: AtomicU64,
    before: Box<dyn Fn(u64) + Send + Sync>,
}

impl Failpoint {
    /// Calls `before` with the number of the operation that follows, counted from 1.
    pub fn each(before: impl Fn(u64) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { count: AtomicU64::new(0), before: Box::new(before) })
    }

    /// Blows just before operation `at` (counted from 1); never if `None`.
    pub fn new(at: Option<u64>, blow: fn()) -> Arc<Self> {
        Self::each(move |now| {
            if Some(now) == at {
                blow();
            }
        })
    }

    /// Counts one operation, and blows if it is the chosen one.
    pub fn step(&self) {
        (self.before)(self.count.fetch_add(1, Ordering::SeqCst) + 1);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }
}

impl<H: Host> FlakyHost<H> {
    /// `inner` with `rules`; every operation steps `fuse`.
    pub fn new(inner: H, rules: Vec<Rule>, fuse: Arc<Failpoint>) -> Self {
        Self { inner, rules, fuse }
    }

    fn fault(&self, path: &str) -> Option<&Fault> {
        self.rules.iter().find(|rule| path.ends_with(&rule.suffix)).map(|rule| &rule.fault)
    }
}

impl<H: Host> Host for FlakyHost<H> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.fuse.step();
        self.inner.read(path)
    }

    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        self.fuse.step();
        match self.fault(path) {
            None => self.inner.write(path, value),
            Some(Fault::Refuse(cause)) => Err(HostError::new(Operation::Write, path, *cause)),
            Some(Fault::Keep(kept)) => self.inner.write(path, kept),
            Some(Fault::Ignore) => Ok(()),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.fuse.step();
        self.inner.list(path)
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, HostError> {
        self.fuse.step();
        self.inner.entries(path)
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.fuse.step();
        self.inner.link(path)
    }

    fn links(&self, path: &str) -> Result<Vec<(String, String)>, HostError> {
        self.fuse.step();
        self.inner.links(path)
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        self.fuse.step();
        self.inner.query(query)
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        self.fuse.step();
        let path = action.path();
        match self.fault(&path) {
            None => self.inner.act(action),
            Some(Fault::Refuse(cause)) => Err(HostError::new(Operation::Act, &path, *cause)),
            // The answer to the query that shows the change.
            Some(Fault::Keep(answer)) => self.inner.write(&path, answer),
            Some(Fault::Ignore) => Ok(()),
        }
    }

    fn inode(&self, path: &str) -> Result<u64, HostError> {
        self.fuse.step();
        self.inner.inode(path)
    }

    fn find_group(&self, mount: &str, inode: u64) -> Result<Option<String>, HostError> {
        self.fuse.step();
        self.inner.find_group(mount, inode)
    }

    crate::pass_on!([inner] now_ns, namespaces);
}
