//! State of each trial, read again only if its record has changed.

#![allow(clippy::disallowed_methods)] // The records' own files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::store::{StoreError, TrialDir};

#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub id: String,
    /// Its verdict, or how it ended, as in JSON; `None` while it runs or after it was killed.
    pub verdict: Option<String>,
    /// Slots measured so far.
    pub slots: usize,
    /// Time of the last write of its record, in seconds since 1970.
    pub updated: f64,
}

impl Summary {
    /// Its verdict; `none` while there is none.
    pub fn verdict(&self) -> &str {
        self.verdict.as_deref().unwrap_or("none")
    }
}

/// The trials of a state directory.
#[derive(Debug, Default)]
pub struct Summaries {
    /// By directory, each with the time and length of the record it was read from.
    known: BTreeMap<PathBuf, (SystemTime, u64, Summary)>,
}

/// The fields of a record of any design and version that are summarised.
#[derive(Deserialize)]
struct Record {
    slots: Vec<IgnoredAny>,
    #[serde(default)]
    analysis: Option<Analysis>,
    #[serde(default)]
    conclusion: Option<Conclusion>,
}

#[derive(Deserialize)]
struct Analysis {
    verdict: Verdict,
}

#[derive(Deserialize)]
struct Verdict {
    verdict: String,
}

#[derive(Deserialize)]
struct Conclusion {
    end: String,
}

impl Summaries {
    /// Reads the trials below `state`, and returns them by number. A record that cannot be read is left out.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn refresh(&mut self, state: &Path) -> Result<Vec<Summary>, StoreError> {
        let mut known = std::mem::take(&mut self.known);
        let mut all = Vec::new();
        for dir in TrialDir::all(state)? {
            let Ok((modified, length)) = dir.modified() else { continue };
            let kept =
                known.remove(dir.path()).filter(|(time, bytes, _)| (*time, *bytes) == (modified, length));
            let Some(summary) = kept.map(|(_, _, summary)| summary).or_else(|| summary(&dir, modified))
            else {
                continue;
            };
            all.push(summary.clone());
            self.known.insert(dir.path().to_owned(), (modified, length, summary));
        }
        Ok(all)
    }
}

fn summary(dir: &TrialDir, modified: SystemTime) -> Option<Summary> {
    let record: Record = dir.load_record().ok()?;
    let verdict = record.analysis.map(|analysis| analysis.verdict.verdict);
    Some(Summary {
        id: dir.id(),
        verdict: verdict.or(record.conclusion.map(|conclusion| conclusion.end)),
        slots: record.slots.len(),
        updated: modified.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Summaries;
    use crate::store::TrialDir;

    #[test]
    fn records_of_both_designs_and_unfinished_ones() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let mut summaries = Summaries::default();
        assert_eq!(summaries.refresh(state.path()).expect("no trials yet"), []);
        let save = |name: &str, record: serde_json::Value| {
            let dir = TrialDir::create(state.path(), name).expect("created");
            dir.save(&record).expect("saved");
            dir
        };
        let first = save("rps", json!({ "schema": "rxlab.trial/3", "slots": [1, 2], "analysis": null }));
        save("sweep", json!({ "slots": [1], "conclusion": { "end": "complete", "found": null } }));
        save("broken", json!({ "slots": 5 }));
        let mut seen = || -> Vec<(String, String, usize)> {
            let all = summaries.refresh(state.path()).expect("listed");
            all.iter().map(|one| (one.id.clone(), one.verdict().to_owned(), one.slots)).collect()
        };
        let row = |id: &str, verdict: &str, slots| (id.to_owned(), verdict.to_owned(), slots);
        assert_eq!(seen(), [row("0001-rps", "none", 2), row("0002-sweep", "complete", 1)]);
        first
            .save(
                &json!({ "slots": [1, 2, 3], "analysis": { "verdict": { "verdict": "helps" }, "pairs": 1 } }),
            )
            .expect("saved");
        assert_eq!(seen(), [row("0001-rps", "helps", 3), row("0002-sweep", "complete", 1)]);
        std::fs::remove_dir_all(first.path()).expect("removed");
        assert_eq!(seen(), [row("0002-sweep", "complete", 1)]);
    }
}
