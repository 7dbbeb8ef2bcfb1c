//! `rxlab trial show`: the report of a trial that was run.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::conduct::store_error;
use crate::cli::Global;
use crate::commands::{files, output};
use crate::error::CommandError;
use crate::report;
use crate::trial::record::TrialRecord;
use crate::trial::store::TrialDir;

/// Print the verdict of a trial that was run, or write its report
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its id, as `rxlab trial list` shows it, or its directory
    #[arg(value_name = "ID")]
    id: String,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let dir = TrialDir::open(&global.state_dir, &args.id).map_err(|error| store_error(&error))?;
    let record = dir.record().map_err(|error| store_error(&error))?;
    let mut out = output::stdout(global);
    if global.json {
        writeln!(out, "{}", super::super::json(&record)?)?;
    } else {
        write!(out, "{}", report::trial_text::render(std::slice::from_ref(&record)))?;
    }
    match &args.html {
        Some(path) => write_html(path, &[record]),
        None => Ok(()),
    }
}

/// Writes the HTML report of `records`.
pub(super) fn write_html(path: &Path, records: &[TrialRecord]) -> Result<(), CommandError> {
    let title = records.first().map_or("trial", |record| record.name.as_str());
    let page = report::html::Page { title: &format!("Trial: {title}"), observations: &[], trials: records };
    files::write(path, report::html::render(&page).as_bytes())
}
