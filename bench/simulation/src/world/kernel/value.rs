//! A value of the simulated kernel, and its origin.

/// Last writer of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The kernel, for a new queue, interrupt or machine; or the initial state.
    Kernel,
    /// Another program or an administrator.
    Foreign,
    Rxlab,
}

#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) now: u64,
    pub(crate) by: By,
    /// Values that others than rxlab had set, or the kernel had chosen, since the last foreign write: a
    /// transaction may go back to any of them.
    pub(crate) originals: Vec<u64>,
    /// `originals` from before foreign writes.
    older: Vec<u64>,
    /// A value of others that a write of rxlab to another slot discarded, and that has not been set since.
    pub(crate) discarded: Option<u64>,
    /// The operation before which another program set it last.
    pub(crate) set_at: u32,
}

impl Value {
    pub(crate) fn new(now: u64) -> Self {
        Self { now, by: By::Kernel, originals: vec![now], older: Vec::new(), discarded: None, set_at: 0 }
    }

    /// The kernel resets it.
    pub(crate) fn reset(&mut self, fresh: u64) {
        // A foreign value is lost with the queue, and nothing shows it any more.
        if self.by == By::Foreign {
            self.lose();
        }
        self.now = fresh;
        self.by = By::Kernel;
        self.discarded = None;
        if !self.originals.contains(&fresh) {
            self.originals.push(fresh);
        }
    }

    pub(crate) fn foreign(&mut self, value: u64) {
        self.older.append(&mut self.originals);
        self.originals.push(value);
        self.now = value;
        self.by = By::Foreign;
        self.discarded = None;
    }

    /// The value of a thread that one with this value starts; `main` are the originals of the main thread.
    pub(crate) fn inherited(&self, main: &[u64]) -> Self {
        let mut value = self.clone();
        value.originals.extend_from_slice(main);
        if self.by != By::Rxlab {
            value.originals.push(self.now);
        }
        value
    }

    /// A write of rxlab to another slot resets it: the command that began after operation `began` has to set it again.
    /// A value that others set since may be lost: the command has read the values before.
    pub(crate) fn discard(&mut self, fresh: u64, began: u32) {
        let was_there = self.by != By::Rxlab && self.set_at <= began;
        let discarded = if was_there { Some(self.discarded.unwrap_or(self.now)) } else { self.discarded };
        self.lose();
        self.reset(fresh);
        self.discarded = discarded.filter(|value| *value != fresh);
    }

    /// rxlab has the queue recreated. It restores the value from its recorded intent: a foreign value set
    /// after that is lost with the old queue.
    pub(crate) fn lose(&mut self) {
        self.originals.extend_from_slice(&self.older);
    }

    /// rxlab writes. `expected`: the value before may be overwritten and is not one to go back to.
    pub(crate) fn ours(&mut self, value: u64, expected: bool) {
        if expected {
            self.originals.extend_from_slice(&self.older);
        }
        self.now = value;
        self.by = By::Rxlab;
        self.discarded = None;
    }

    /// True if it is rxlab's, and not a value from before.
    pub(crate) fn is_ours(&self) -> bool {
        self.by == By::Rxlab && !self.originals.contains(&self.now)
    }
}
