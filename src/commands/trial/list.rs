//! `rxlab trial list`: the trials on this machine.

use std::io::Write;

use serde_json::json;

use super::conduct::store_error;
use crate::cli::Global;
use crate::commands::output;
use crate::error::CommandError;
use crate::report::text::{Cell, Column, Table};
use crate::report::words;
use crate::trial::store::TrialDir;

/// List the trials that were run here
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(global: &Global, _: &Args) -> Result<(), CommandError> {
    let dirs = TrialDir::all(&global.state_dir).map_err(|error| store_error(&error))?;
    let mut records = Vec::new();
    for dir in dirs {
        records.push(dir.record().map_err(|error| store_error(&error))?);
    }
    let mut out = output::stdout(global);
    if global.json {
        let trials: Vec<_> = records
            .iter()
            .map(|record| {
                let analysis = record.analysis.as_ref();
                json!({ "id": record.id, "name": record.name, "started": record.started,
                        "slots": record.slots.len(), "verdict": analysis.map(|analysis| &analysis.verdict) })
            })
            .collect();
        writeln!(out, "{:#}", json!({ "schema": "rxlab.trials/1", "trials": trials }))?;
        return Ok(());
    }
    if records.is_empty() {
        writeln!(out, "no trial was run yet")?;
        return Ok(());
    }
    let mut table = Table::new([
        Column::left("ID"),
        Column::left("STARTED"),
        Column::right("SLOTS"),
        Column::left("VERDICT").wrapping(),
    ]);
    for record in &records {
        let minute = record.started.get(..16).unwrap_or(&record.started).replace('T', " ");
        table.row([
            Cell::from(record.id.clone()),
            Cell::from(minute),
            Cell::from(record.slots.len().to_string()),
            Cell::from(words::headline(record).to_owned()),
        ]);
    }
    write!(out, "{}", table.render())?;
    Ok(())
}
