//! A machine whose answers are noted, including that something is missing: a later sample may still have had it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::tick::CLOCK_NS;
use crate::host::{Action, Cause, Host, HostError, Operation, Question};

/// Kind of an entry: the first byte of its key. The path follows.
pub(super) const FILE: char = 'f';
/// Target of a symbolic link.
pub(super) const LINK: char = 'l';
/// Names in a directory, each with a NUL after it.
pub(super) const LIST: char = 'd';
/// Cause of a failure, as JSON.
pub(super) const FAILURE: char = 'x';

/// Contents of what was read, by key; `None` for what is missing.
pub(super) type Observed = BTreeMap<String, Option<Vec<u8>>>;

/// Passes every operation on and notes its answer. Writes are rejected: a recorder must not change a machine.
pub(super) struct Observer<'a> {
    inner: &'a dyn Host,
    seen: Mutex<Observed>,
    now_ns: Mutex<u64>,
}

impl<'a> Observer<'a> {
    pub(super) fn new(inner: &'a dyn Host) -> Self {
        Self { inner, seen: Mutex::default(), now_ns: Mutex::new(rounded(inner.now_ns())) }
    }

    /// What was seen, and the clock at the last time it was read.
    pub(super) fn finish(self) -> (Observed, u64) {
        let seen = self.seen.into_inner().expect("no reader panicked");
        (seen, self.now_ns.into_inner().expect("no reader panicked"))
    }

    fn note<T>(
        &self,
        kind: char,
        path: &str,
        answer: Result<T, HostError>,
        bytes: impl FnOnce(&T) -> Vec<u8>,
    ) -> Result<T, HostError> {
        let mut seen = self.seen.lock().expect("no reader panicked");
        match &answer {
            Ok(value) => _ = seen.insert(format!("{kind}{path}"), Some(bytes(value))),
            Err(HostError { cause: Cause::Missing, .. }) => _ = seen.insert(format!("{kind}{path}"), None),
            Err(error) => {
                let cause = serde_json::to_vec(&error.cause).expect("a cause is plain JSON");
                seen.insert(format!("{FAILURE}{path}"), Some(cause));
            }
        }
        answer
    }
}

fn rounded(ns: u64) -> u64 {
    ns / CLOCK_NS * CLOCK_NS
}

/// The lines of a file that samples use. The others have counters of their own, which would take up space.
fn used(path: &str, bytes: &[u8]) -> Vec<u8> {
    let keeps: fn(&[u8]) -> bool = match path {
        "proc/stat" => |line| line.starts_with(b"cpu") && line.get(3).is_some_and(u8::is_ascii_digit),
        // Numbered interrupts, and the header.
        "proc/interrupts" => |line| {
            let name = line.trim_ascii_start();
            name.starts_with(b"CPU") || name.first().is_some_and(u8::is_ascii_digit)
        },
        _ => return bytes.to_vec(),
    };
    bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| keeps(line)).flatten().copied().collect()
}

impl Host for Observer<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.note(FILE, path, self.inner.read(path), |bytes| used(path, bytes))
    }

    fn write(&self, path: &str, _: &[u8]) -> Result<(), HostError> {
        Err(HostError::new(Operation::Write, path, Cause::Denied))
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        Err(HostError::new(Operation::Act, &action.path(), Cause::Denied))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        let bytes = |names: &Vec<String>| names.iter().flat_map(|name| name.bytes().chain([0])).collect();
        self.note(LIST, path, self.inner.list(path), bytes)
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.note(LINK, path, self.inner.link(path), |target| target.clone().into_bytes())
    }

    fn ask(&self, question: &Question) -> Result<Vec<u8>, HostError> {
        self.note(FILE, &question.path(), self.inner.ask(question), Vec::clone)
    }

    fn now_ns(&self) -> u64 {
        let now = rounded(self.inner.now_ns());
        *self.now_ns.lock().expect("no reader panicked") = now;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::used;
    use crate::parse::{interrupts, stat};

    #[test]
    fn lines_that_samples_use_are_kept() {
        let text = "cpu  9 0 0 9\ncpu0 4 0 0 4\ncpu1 5 0 0 5\nintr 7 7\nctxt 5\n";
        let kept = String::from_utf8(used("proc/stat", text.as_bytes())).expect("text");
        assert_eq!(kept, "cpu0 4 0 0 4\ncpu1 5 0 0 5\n");
        assert_eq!(stat(&kept), stat(text));
        let text = "           CPU0       CPU1\n 25:  1  2  PCI-MSI 1-edge  eth0\nLOC:  8  9  Local timer interrupts\n";
        let kept = String::from_utf8(used("proc/interrupts", text.as_bytes())).expect("text");
        assert!(!kept.contains("LOC") && kept.ends_with("eth0\n"));
        assert_eq!(interrupts(&kept), interrupts(text));
        assert_eq!(used("proc/net/dev", b"cpu\n"), b"cpu\n");
    }
}
