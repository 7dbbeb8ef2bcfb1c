//! `rxlab merge`: adds up the results of loads that ran at the same time.

use std::path::PathBuf;

use super::{Global, files, output};
use crate::error::{CommandError, Result};
use rxlab_load::{MergeError, Report, merge, render};

/// Add up results of `rxlab load --json` that ran at the same time.
///
/// Counts and histograms are added exactly, so the percentiles are those of all requests together,
/// not a mean of percentiles; seconds are added without percentiles. Results of different requests, and a run that is in two
/// of the results, are refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Output of `rxlab load --json`, one result per file
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub fn run(global: &Global, args: &Args) -> Result {
    let reports = args.files.iter().map(|path| {
        let text = files::read("result", path)?;
        Report::from_json(&text).map_err(|error| {
            CommandError::usage(format!("{} is not a result of `rxlab load`: {error}", path.display()))
        })
    });
    let reports: Vec<Report> = reports.collect::<Result<_, _>>()?;
    let merged = merge(&reports).map_err(|(index, error): (usize, MergeError)| {
        let path = args.files.get(index).map(|path| path.display().to_string()).unwrap_or_default();
        CommandError::usage(format!("cannot add up {path}: {error}"))
    })?;
    output::print(global, &merged, || render(&merged))
}
