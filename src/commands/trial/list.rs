//! `rxlab trial list`: the trials on this machine.

use std::io::Write;

use serde_json::{Value, json};

use super::conduct::store_error;
use crate::commands::Global;
use crate::commands::output;
use crate::error::CommandError;
use crate::report::text::{Cell, Column, Table};
use crate::report::words;
use crate::trial::record::TrialRecord;
use crate::trial::store::TrialDir;

/// List the trials that were run here
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(global: &Global, _: &Args) -> Result<(), CommandError> {
    let records = records(global)?;
    let mut out = output::stdout(global);
    if global.json {
        writeln!(out, "{:#}", json!({ "schema": "rxlab.trials/1", "trials": as_json(&records) }))?;
    } else if records.is_empty() {
        writeln!(out, "no trial was run yet")?;
    } else {
        write!(out, "{}", table(&records).render())?;
    }
    Ok(())
}

/// Returns the records of all trials, by number.
pub(in crate::commands) fn records(global: &Global) -> Result<Vec<TrialRecord>, CommandError> {
    let dirs = TrialDir::all(&global.state_dir).map_err(|error| store_error(&error))?;
    dirs.iter().map(|dir| dir.record().map_err(|error| store_error(&error))).collect()
}

/// One object for each trial.
pub(in crate::commands) fn as_json(records: &[TrialRecord]) -> Vec<Value> {
    let one = |record: &TrialRecord| {
        let analysis = record.analysis.as_ref();
        json!({ "id": record.id, "name": record.name, "started": record.started,
                "slots": record.slots.len(), "verdict": analysis.map(|analysis| &analysis.verdict) })
    };
    records.iter().map(one).collect()
}

/// One row for each trial.
pub(in crate::commands) fn table(records: &[TrialRecord]) -> Table {
    let mut table = Table::new([
        Column::left("ID"),
        Column::left("STARTED"),
        Column::right("SLOTS"),
        Column::left("VERDICT").wrapping(),
    ]);
    for record in records {
        table.row([
            Cell::from(record.id.clone()),
            Cell::from(minute(&record.started)),
            Cell::from(record.slots.len().to_string()),
            Cell::from(words::headline(record).to_owned()),
        ]);
    }
    table
}

/// `2026-11-22 22:13` from an RFC 3339 time.
pub(in crate::commands) fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}
