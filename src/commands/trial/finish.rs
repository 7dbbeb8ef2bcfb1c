//! Runs a trial, prints the outcome, and returns the exit code.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::conduct::{Conduct, conduct, left, trouble_hints};
use super::{blocks, show};
use crate::commands::Global;
use crate::commands::{files, output, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{Undo, UndoOutcome};
use rxlab_change::journal;
use rxlab_faces::report;
use rxlab_trial::perform::Outcome;
use rxlab_trial::recommendation::TrialReport;
use rxlab_trial::record::{TrialRecord, Verdict};
use rxlab_trial::spec;

/// Options for what happens after the last slot.
#[derive(Debug, clap::Args)]
pub(super) struct After {
    /// Leave the change in place if it is proven to help
    #[arg(long)]
    pub(super) keep: bool,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

impl After {
    /// Returns an error for options that a trial of this kind does not have, and for a report that cannot be written,
    /// before anything runs.
    pub(super) fn check(&self, kind: spec::Kind) -> Result {
        if self.keep && kind == spec::Kind::BeforeAfter {
            return Err(CommandError::usage(format!("--keep: {} proves no change", kind.in_words()))
                .hint("`rxlab apply` sets it; `rxlab trial checkpoint` measures again later"));
        }
        if self.keep && !kind.has_two_arms() {
            let message = format!("--keep: {} has no single change to keep", kind.in_words());
            return Err(CommandError::usage(message)
                .hint("try the best settings with `rxlab trial run --set ... --keep`"));
        }
        if self.html.is_some() && !kind.has_two_arms() {
            return Err(blocks::no_html(kind));
        }
        self.html.as_deref().map_or(Ok(()), files::check)
    }
}

/// Runs the trial, prints the outcome, and returns the exit code.
pub(super) fn finish(
    global: &Global,
    trial: Conduct<'_>,
    resumed: Option<TrialRecord>,
    after: &After,
) -> Result {
    let record = trial.dir.path().display().to_string();
    let commands = trial.spec.change.a.is_some();
    let outcome = conduct(global, trial, resumed)?;
    let written = match &after.html {
        Some(path) => show::write_html(global, path, &outcome.record, &[]),
        None => Ok(()),
    };
    let report = after.html.as_deref().filter(|_| written.is_ok());
    let printed = print(global, &outcome, commands, &record, report);
    let ended = put_back(&outcome).and_then(|()| exit(&outcome.record)).and_then(|()| hurts(&outcome.record));
    CommandError::after_output(CommandError::after_output(ended, written), printed)
}

/// `report` is the HTML file that was written.
fn print(global: &Global, outcome: &Outcome, commands: bool, path: &str, report: Option<&Path>) -> Result {
    let Outcome { record, undo, kept } = outcome;
    if global.json {
        return output::json(&TrialReport::new(record.clone(), &global.program()));
    }
    let mut out = output::text_stdout();
    // A kept change needs no further command.
    let program = kept.is_none().then(|| global.program());
    write!(out, "{}", report::trial_text::render(record, program.as_deref()))?;
    match kept {
        Some(id) if commands => writeln!(out, "kept: `rxlab undo {id}` runs the command of arm A")?,
        Some(id) => writeln!(out, "kept: `rxlab undo {id}` reverts it")?,
        None if undo.as_ref().is_none_or(Undo::is_clean) => writeln!(out, "{}", left(commands))?,
        None => {}
    }
    writeln!(out, "record: {path}")?;
    report.map_or(Ok(()), |report| show::say_written(&mut out, report))
}

/// Returns an error unless everything that the trial flipped is as it was before, or was kept as requested.
pub(crate) fn put_back<Record>(outcome: &Outcome<Record>) -> Result {
    let Some(undo) = outcome.undo.as_ref().filter(|undo| !undo.is_clean()) else { return Ok(()) };
    let left = |undone: &UndoOutcome| match &undone.outcome {
        journal::Outcome::Drift { live, .. } => {
            Some(format!("{} (expected {}, found {live})", undo::subject(undone), undone.wanted))
        }
        journal::Outcome::RestoredInPart { left, inherited, .. } if inherited.is_empty() => {
            Some(format!("{} ({})", undo::subject(undone), report::status::parts(left)))
        }
        _ => None,
    };
    let troubled = || undo.outcomes.iter().filter(|undone| undone.trouble);
    let foreign: Vec<String> = troubled().filter_map(left).collect();
    if undo.closed && foreign.len() == troubled().count() {
        let what = foreign.join(", ");
        let message = format!(
            "another program, or the kernel, changed {what}; that was left alone, and everything else restored"
        );
        return Err(CommandError::new(Kind::Changed, message));
    }
    let kind = if undo.has_failed() { Kind::Failed } else { Kind::Changed };
    Err(trouble_hints(CommandError::new(kind, "not everything could be restored"), undo))
}

/// A change that is proven to hurt is a finding.
fn hurts(record: &TrialRecord) -> Result {
    match record.verdict() {
        Some(Verdict::Hurts) => Err(CommandError::silent(Kind::Findings)),
        _ => Ok(()),
    }
}

/// Exit code by verdict: a tripped guard is a finding, and scripts can recognise an interrupt.
pub(crate) fn exit(record: &TrialRecord) -> Result {
    match record.verdict() {
        Some(Verdict::GuardTripped { .. }) => Err(CommandError::silent(Kind::Findings)),
        Some(Verdict::Interrupted) => Err(CommandError::silent(Kind::Interrupted)),
        Some(Verdict::NotApplied { .. } | Verdict::MachineChanged { .. }) => {
            Err(CommandError::silent(Kind::Changed))
        }
        _ => Ok(()),
    }
}
