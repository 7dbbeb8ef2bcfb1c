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

use rxlab_trial::record::TrialRecord;
use rxlab_trial::store::TrialDir;

use crate::tree::Tree;

/// A trial that lasts no longer than its workload.
const QUICK: [&str; 7] = ["trial", "run", "--washout", "0s", "--calibration", "0", "--seed=11"];

/// A shell command that takes `pause` seconds, moves the CPU times of the tree, by which slots are measured, and runs
/// `rest` in its root. Its run number `i`, counted from 1, sets `$n` to 100 i + 1.
fn moving_workload(tree: &Tree, pause: &str, rest: &str) -> String {
    let script = format!(
        "cd '{}' || exit 1\n\
         sleep {pause}\n\
         n=$(cat ../runs 2>/dev/null || echo 1); n=$((n + 100)); echo $n > ../runs\n\
         line=\"$n 0 $n 1 0 0 $n 0 0 0\"\n\
         printf 'cpu  %s\\ncpu0 %s\\ncpu1 %s\\n' \"$line\" \"$line\" \"$line\" > ../stat && mv ../stat proc/stat\n\
         {rest}\n",
        tree.root().display()
    );
    format!("sh '{}'", tree.file("work.sh", &script))
}

/// The record of a trial of pairs, if it exists yet.
pub(crate) fn record(state: &Path, id: &str) -> Option<TrialRecord> {
    TrialDir::open(state, id).ok()?.record().ok()
}

/// The masks of both queues of `eth0`.
fn queues(tree: &Tree) -> [String; 2] {
    [0, 1].map(|queue| tree.rps("eth0", queue))
}
