//! A machine that records its queries and answers.

use std::sync::{Mutex, MutexGuard};

use super::{Action, Cause, Host, HostError, Operation, Query, RecordedHost};

/// Keeps what a machine answered.
pub trait Notes {
    /// Contents of a file, or the answer to a query.
    fn bytes(&mut self, path: &str, bytes: &[u8]);
    /// Names in a directory.
    fn names(&mut self, path: &str, names: &[String]);
    /// Target of a symbolic link.
    fn target(&mut self, path: &str, target: &str);
    /// Reason for no answer.
    fn failure(&mut self, path: &str, cause: Cause);
    /// Notes the clock, and returns the time that the reader gets.
    fn time(&mut self, now_ns: u64) -> u64;
}

/// Passes every operation on to another host and notes the answer. Writes are rejected: a recording must not change a
/// machine.
pub struct RecordingHost<'a, N = RecordedHost> {
    inner: &'a dyn Host,
    notes: Mutex<N>,
}

impl<'a> RecordingHost<'a> {
    /// Records the answers of `inner`. They can be read again in any order. For a path that was read several times the
    /// last answer is kept.
    pub fn new(inner: &'a dyn Host) -> Self {
        Self::with_notes(inner, RecordedHost::new())
    }
}

impl<'a, N: Notes> RecordingHost<'a, N> {
    /// Notes the answers of `inner`.
    pub fn with_notes(inner: &'a dyn Host, mut notes: N) -> Self {
        notes.time(inner.now_ns());
        Self { inner, notes: Mutex::new(notes) }
    }

    /// The notes of everything read so far.
    pub fn finish(self) -> N {
        self.notes.into_inner().expect("no reader panicked")
    }

    fn notes(&self) -> MutexGuard<'_, N> {
        self.notes.lock().expect("no reader panicked")
    }

    /// Notes an answer with `keep`, or the reason for its absence.
    fn note<T>(
        &self,
        path: &str,
        answer: Result<T, HostError>,
        keep: impl FnOnce(&mut N, &T),
    ) -> Result<T, HostError> {
        match &answer {
            Ok(value) => keep(&mut self.notes(), value),
            Err(error) => self.notes().failure(path, error.cause),
        }
        answer
    }
}

impl Notes for RecordedHost {
    fn bytes(&mut self, path: &str, bytes: &[u8]) {
        *self = std::mem::take(self).with(path, bytes);
    }

    fn names(&mut self, path: &str, names: &[String]) {
        *self = std::mem::take(self).with_list(path, names.to_vec());
    }

    fn target(&mut self, path: &str, target: &str) {
        *self = std::mem::take(self).with_link(path, target);
    }

    fn failure(&mut self, path: &str, cause: Cause) {
        // A path that is not in the recording is missing.
        if cause != Cause::Missing {
            *self = std::mem::take(self).with_failure(path, cause);
        }
    }

    fn time(&mut self, now_ns: u64) -> u64 {
        *self = std::mem::take(self).at_ns(now_ns);
        now_ns
    }
}

impl<N: Notes + Send> Host for RecordingHost<'_, N> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.note(path, self.inner.read(path), |notes, bytes| notes.bytes(path, bytes))
    }

    fn write(&self, path: &str, _: &[u8]) -> Result<(), HostError> {
        Err(HostError::new(Operation::Write, path, Cause::Denied))
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        Err(HostError::new(Operation::Act, &action.path(), Cause::Denied))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.note(path, self.inner.list(path), |notes, names| notes.names(path, names))
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.note(path, self.inner.link(path), |notes, target| notes.target(path, target))
    }

    fn query(&self, query: &Query) -> Result<Vec<u8>, HostError> {
        let path = query.path();
        self.note(&path, self.inner.query(query), |notes, bytes| notes.bytes(&path, bytes))
    }

    fn now_ns(&self) -> u64 {
        let now = self.inner.now_ns();
        self.notes().time(now)
    }
}

#[cfg(test)]
mod tests {
    use super::RecordingHost;
    use crate::{Cause, Host, Query, RecordedHost};

    #[test]
    fn a_recording_answers_as_the_machine_did() {
        let machine = RecordedHost::new()
            .with("proc/stat", "cpu 1")
            .with("proc/12/comm", "init")
            .with(&Query::Queues.path(), [1, 2])
            .with_link("sys/class/net/lo", "../lo")
            .with_failure("proc/12/fd", Cause::Denied)
            .with_failure(&Query::Napis.path(), Cause::Errno(5))
            .at_ns(7);
        let recording = RecordingHost::new(&machine);
        let look = |host: &dyn Host| {
            (
                host.read("proc/stat"),
                host.read("proc/none"),
                host.list("proc"),
                host.list("proc/12/fd"),
                host.link("sys/class/net/lo"),
                host.query(&Query::Queues),
                host.query(&Query::Napis),
                host.now_ns(),
            )
        };
        let live = look(&recording);
        assert!(recording.write("proc/stat", b"x").is_err());
        let replay = recording.finish();
        assert_eq!(look(&replay), live);
        assert_eq!(live.2.expect("listed"), ["12", "stat"], "comm was not read and is not in the recording");
        assert!(replay.read("proc/12/comm").is_err());
    }
}
