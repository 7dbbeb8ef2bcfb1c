//! A machine that records its questions and answers.

use std::sync::Mutex;

use super::{Action, Cause, Host, HostError, Operation, Question, RecordedHost};

/// Passes every operation on to another host and records the answer. Writes are rejected: a
/// recording must not change a machine.
pub struct RecordingHost<'a> {
    inner: &'a dyn Host,
    record: Mutex<RecordedHost>,
}

impl<'a> RecordingHost<'a> {
    /// Records the answers of `inner`.
    pub fn new(inner: &'a dyn Host) -> Self {
        Self { inner, record: Mutex::new(RecordedHost::new().at_ns(inner.now_ns())) }
    }

    /// The recorded answers. They can be read again in any order. For a path that was read several
    /// times the last answer is kept.
    pub fn finish(self) -> RecordedHost {
        self.record.into_inner().expect("no reader panicked")
    }

    /// Stores an answer with `keep`, or the reason for its absence.
    fn record<T>(
        &self,
        path: &str,
        answer: Result<T, HostError>,
        keep: impl FnOnce(RecordedHost, &T) -> RecordedHost,
    ) -> Result<T, HostError> {
        let mut record = self.record.lock().expect("no reader panicked");
        let before = std::mem::take(&mut *record);
        *record = match &answer {
            Ok(value) => keep(before, value),
            // A path that is not in the recording is missing.
            Err(HostError { cause: Cause::Missing, .. }) => before,
            Err(error) => before.with_failure(path, error.cause),
        };
        answer
    }
}

impl Host for RecordingHost<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, HostError> {
        self.record(path, self.inner.read(path), |record, bytes| record.with(path, bytes))
    }

    fn write(&self, path: &str, _: &[u8]) -> Result<(), HostError> {
        Err(HostError::new(Operation::Write, path, Cause::Denied))
    }

    fn act(&self, action: &Action) -> Result<(), HostError> {
        Err(HostError::new(Operation::Act, &action.path(), Cause::Denied))
    }

    fn list(&self, path: &str) -> Result<Vec<String>, HostError> {
        self.record(path, self.inner.list(path), |record, names| record.with_list(path, names.clone()))
    }

    fn link(&self, path: &str) -> Result<String, HostError> {
        self.record(path, self.inner.link(path), |record, target| record.with_link(path, target))
    }

    fn ask(&self, question: &Question) -> Result<Vec<u8>, HostError> {
        let path = question.path();
        self.record(&path, self.inner.ask(question), |record, bytes| record.with(&path, bytes))
    }

    fn now_ns(&self) -> u64 {
        let now = self.inner.now_ns();
        let mut record = self.record.lock().expect("no reader panicked");
        *record = std::mem::take(&mut *record).at_ns(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::RecordingHost;
    use crate::host::{Cause, Host, Question, RecordedHost};

    #[test]
    fn a_recording_answers_as_the_machine_did() {
        let machine = RecordedHost::new()
            .with("proc/stat", "cpu 1")
            .with("proc/12/comm", "init")
            .with(&Question::Queues.path(), [1, 2])
            .with_link("sys/class/net/lo", "../lo")
            .with_failure("proc/12/fd", Cause::Denied)
            .with_failure(&Question::Napis.path(), Cause::Errno(5))
            .at_ns(7);
        let recording = RecordingHost::new(&machine);
        let look = |host: &dyn Host| {
            (
                host.read("proc/stat"),
                host.read("proc/none"),
                host.list("proc"),
                host.list("proc/12/fd"),
                host.link("sys/class/net/lo"),
                host.ask(&Question::Queues),
                host.ask(&Question::Napis),
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
