//! Trials through the program: on the practice range, and on a machine made of plain files whose counters the
//! workload moves.

mod changed_outside;
pub(crate) mod checks;
mod clients;
mod guards_inside;
mod in_blocks;
mod on_files;
mod on_the_range;
mod probed;
mod queries;
mod scheduled;
mod winning;
mod with_commands;

use std::path::Path;

use rxlab::trial::record::TrialRecord;

/// The record of a trial, if it exists yet.
fn record(state: &Path, id: &str) -> Option<TrialRecord> {
    let file = state.join("trials").join(id).join("record.json");
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}
