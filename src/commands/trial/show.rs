//! `rxlab trial show`: prints or writes the report of a trial.

use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::blocks;
use crate::commands::Global;
use crate::commands::{files, output};
use crate::error::Result;
use rxlab_faces::report;
use rxlab_faces::report::document::{Document, Part, Trial};
use rxlab_trial::checkpoint::Checkpoint;
use rxlab_trial::recommendation::TrialReport;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::schedule::Standing;
use rxlab_trial::store::TrialDir;

/// Print the verdict of a past trial, or write its report
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Id of the trial, as `rxlab trial list` shows it, or its directory
    #[arg(value_name = "ID")]
    id: String,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let dir = TrialDir::open(&global.state_dir, &args.id)?;
    if let Some(record) = dir.blocks()? {
        if args.html.is_some() {
            return Err(blocks::no_html(record.kind));
        }
        return blocks::print(global, &record);
    }
    let record = dir.record()?;
    let checkpoints = dir.checkpoints()?;
    let scheduled = dir.schedule()?;
    if let Some(path) = &args.html {
        write_html(global, path, &record, &checkpoints)?;
    }
    if global.json {
        let report = TrialReport { checkpoints, scheduled, ..TrialReport::new(record, &global.program()) };
        return output::json(&report);
    }
    let mut out = output::text_stdout();
    write!(out, "{}", report::trial_text::render(&record, Some(&global.program())))?;
    for checkpoint in &checkpoints {
        write!(out, "{}", report::words::checkpoint(&record, checkpoint))?;
    }
    let now = Timestamp::now();
    for scheduled in scheduled.iter().filter(|one| !matches!(one.standing(now), Standing::Taken(_))) {
        write!(out, "{}", report::words::scheduled(scheduled, now))?;
    }
    args.html.as_ref().map_or(Ok(()), |path| say_written(&mut out, path))
}

/// Prints the path of the written report, absolute.
pub(in crate::commands) fn say_written(out: &mut impl Write, path: &Path) -> Result {
    Ok(writeln!(out, "report: {}", std::path::absolute(path)?.display())?)
}

/// Writes the HTML report of a trial and its checkpoints.
pub(super) fn write_html(
    global: &Global,
    path: &Path,
    record: &TrialRecord,
    checkpoints: &[Checkpoint],
) -> Result {
    let trial = Trial { record: record.clone(), checkpoints: checkpoints.to_vec() };
    let document = Document::new(vec![Part::Trial(Box::new(trial))]);
    files::write(path, report::html::render(&document, Some(&global.program())).as_bytes())
}
