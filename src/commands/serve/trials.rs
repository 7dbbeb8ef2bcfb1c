//! The newest trials of the machine, read again when their records change.

use std::path::Path;
use std::time::SystemTime;

use crate::commands::trial::list::Record;
use rxlab_faces::report::live_trials::TrialRow;
use rxlab_trial::store::{StoreError, TrialDir};

/// Trials on the page, the newest first.
const SHOWN: usize = 5;

/// Id of a trial, and when its record was written last, with its length in bytes.
type Seen = (String, Option<(SystemTime, u64)>);

/// Result of the last read.
#[derive(Debug, Default)]
pub(super) struct Trials {
    seen: Option<Vec<Seen>>,
}

impl Trials {
    /// The newest trials below `state`, if they changed since the last call. A record that cannot be read is a row
    /// that says why.
    pub(super) fn changed(&mut self, state: &Path) -> Option<Vec<TrialRow>> {
        let dirs = TrialDir::all(state).unwrap_or_default();
        let newest: Vec<TrialDir> = dirs.into_iter().rev().take(SHOWN).collect();
        let seen: Vec<Seen> = newest.iter().map(|dir| (dir.id(), dir.modified().ok())).collect();
        if self.seen.as_ref() == Some(&seen) {
            return None;
        }
        self.seen = Some(seen);
        Some(newest.iter().map(|dir| row(dir).unwrap_or_else(|error| unreadable(dir, &error))).collect())
    }
}

fn row(dir: &TrialDir) -> Result<TrialRow, StoreError> {
    Ok(match Record::load(dir)? {
        Record::Blocks(record) => TrialRow::of_blocks(&record),
        Record::Pairs(record) => TrialRow::of_pairs(&record),
    })
}

fn unreadable(dir: &TrialDir, error: &StoreError) -> TrialRow {
    TrialRow {
        id: dir.id(),
        headline: "cannot be read",
        progress: error.to_string(),
        margin: 0.0,
        metrics: Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // Writes a record of its own.
mod tests {
    use super::Trials;

    #[test]
    fn records_that_cannot_be_read_are_named_once() {
        let state = tempfile::tempdir().expect("a directory");
        let mut trials = Trials::default();
        assert_eq!(trials.changed(state.path()), Some(Vec::new()));
        assert_eq!(trials.changed(state.path()), None);
        let dir = state.path().join("trials/0001-rps");
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join("record.json"), "{").expect("written");
        let rows = trials.changed(state.path()).expect("changed");
        assert_eq!((rows[0].id.as_str(), rows[0].headline), ("0001-rps", "cannot be read"));
        assert!(rows[0].progress.contains("record.json"), "{}", rows[0].progress);
        assert_eq!(trials.changed(state.path()), None);
    }
}
