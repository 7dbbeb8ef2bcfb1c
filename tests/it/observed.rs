//! A host that calls a function before each change of the machine.

use rxlab_sys::{Action, Host, HostError, LiveHost};

/// `inner`, with `before` called with the path of each write and action.
pub(crate) struct Observed<F> {
    pub(crate) inner: LiveHost,
    pub(crate) before: F,
}

impl<F: Fn(&str) + Send + Sync> Host for Observed<F> {
    fn write(&self, path: &str, value: &[u8]) -> Result<(), HostError> {
        (self.before)(path);
        self.inner.write(path, value)
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        (self.before)(&action.path());
        self.inner.act(action)
    }

    rxlab_sys::pass_on!([inner] read, list, link, query, now_ns, inode);
}
