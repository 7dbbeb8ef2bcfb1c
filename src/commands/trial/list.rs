//! `rxlab trial list`: the trials on this machine.

use crate::commands::{Global, output};
use crate::error::Result;
use rxlab_faces::report::printed::{TrialRow, TrialsReport};
use rxlab_faces::report::text::{Cell, Table, left, right, wrapping};
use rxlab_faces::report::{blocks_text, words};
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::store::{StoreError, TrialDir};

/// List the trials that were run here
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(global: &Global, _: &Args) -> Result {
    let trials = listed(global)?;
    output::print(global, &TrialsReport::new(&rows(&trials)), || {
        if trials.is_empty() { "no trials yet\n".to_owned() } else { table(&trials).render() }
    })
}

/// The record of a trial of either design.
pub(in crate::commands) enum Record {
    /// Two arms in pairs.
    Pairs(Box<TrialRecord>),
    /// More than two arms in blocks.
    Blocks(Box<BlocksRecord>),
}

impl Record {
    /// Reads the record in a directory.
    pub(in crate::commands) fn load(dir: &TrialDir) -> Result<Self, StoreError> {
        Ok(match dir.blocks()? {
            Some(record) => Self::Blocks(Box::new(record)),
            None => Self::Pairs(Box::new(dir.record()?)),
        })
    }
}

pub(in crate::commands) struct Listed {
    record: Record,
    /// True while a process runs it.
    running: bool,
}

/// Returns all trials, by number.
pub(in crate::commands) fn listed(global: &Global) -> Result<Vec<Listed>> {
    // In this order: a record that is read afterwards has the verdict of a trial that ended meanwhile.
    let one = |dir: &TrialDir| {
        let running = dir.is_running();
        Ok(Listed { record: Record::load(dir)?, running })
    };
    TrialDir::all(&global.state_dir)?.iter().map(one).collect()
}

/// One object of JSON for each trial.
pub(in crate::commands) fn rows(trials: &[Listed]) -> Vec<TrialRow> {
    let one = |trial: &Listed| match &trial.record {
        Record::Pairs(record) => TrialRow::of_pairs(record, trial.running),
        Record::Blocks(record) => TrialRow::of_blocks(record, trial.running),
    };
    trials.iter().map(one).collect()
}

pub(in crate::commands) fn table(trials: &[Listed]) -> Table {
    let mut table = Table::new([left("ID"), left("STARTED"), right("SLOTS"), wrapping("VERDICT")]);
    for Listed { record, running } in trials {
        let (id, started, slots, headline) = match record {
            Record::Pairs(of) => (&of.id, &of.started, of.slots.len(), words::headline(of)),
            Record::Blocks(of) => (&of.id, &of.started, of.slots.len(), blocks_text::headline(of)),
        };
        let state = match headline {
            words::UNFINISHED if *running => "running",
            words::UNFINISHED => "ended early, without a verdict",
            headline => headline,
        };
        table.row([
            Cell::from(id.clone()),
            Cell::from(minute(started)),
            Cell::from(slots.to_string()),
            Cell::from(state.to_owned()),
        ]);
    }
    table
}

/// `2026-11-22 22:13` from an RFC 3339 time.
pub(in crate::commands) fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}
