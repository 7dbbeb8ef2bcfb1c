//! A host that calls a function before each change of the machine.

use rxlab::host::{Action, Host, HostError, LiveHost, Question};

/// `inner`, with `before` called with the path of each write and action.
pub(crate) struct Observed<F> {
    pub(crate) inner: LiveHost,
    pub(crate) before: F,
}

impl<F: Fn(&str) + Send + Sync> Host for Observed<F> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.inner.read(path)
    }
    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        (self.before)(path);
        self.inner.write(path, value)
    }
    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.inner.list(path)
    }
    fn link(&self, path: &str) -> Result<String, HostError> {
        self.inner.link(path)
    }
    fn ask(&self, question: &Question) -> Result<Vec<u8>, HostError> {
        self.inner.ask(question)
    }
    fn act(&self, action: &Action) -> Result<(), HostError> {
        (self.before)(&action.path());
        self.inner.act(action)
    }
    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }
    fn inode(&self, path: &str) -> Result<u64, HostError> {
        self.inner.inode(path)
    }
}
