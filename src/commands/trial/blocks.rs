//! Trials in blocks: runs, resumes and prints them.

use std::io::Write;

use super::conduct::{Conduct, Conducted, conduct, left};
use super::finish::put_back;
use crate::commands::Global;
use crate::commands::output;
use crate::error::{self, CommandError, Result};
use rxlab_change::apply::Undo;
use rxlab_faces::report::blocks_text;
use rxlab_faces::report::text::command_lines;
use rxlab_trial::blocks::{BlocksRecord, End};
use rxlab_trial::spec::Kind;

/// The error for a report that does not exist.
pub(super) fn no_html(kind: Kind) -> CommandError {
    CommandError::usage(format!("--html: {} has no HTML report", kind.in_words()))
        .hint("`rxlab report ID` writes its text and its record as a page")
}

impl Conducted for BlocksRecord {
    fn progress(&self) -> (usize, String) {
        let block = self.slots.last().map_or(0, |slot| slot.block + 1);
        (self.slots.len(), format!("trial {}: block {block}", self.name))
    }

    fn lines(&self) -> Vec<String> {
        if self.kind == Kind::Choice { blocks_text::standing(self) } else { Vec::new() }
    }
}

/// Runs the trial with a progress bar, prints it, and returns the exit code.
pub(super) fn finish(global: &Global, trial: Conduct<'_>, resumed: Option<BlocksRecord>) -> Result {
    let path = trial.dir.path().to_owned();
    let outcome = conduct(global, trial, resumed)?;
    let printed = print(global, &outcome.record).and_then(|()| {
        if global.json {
            return Ok(());
        }
        let mut out = output::stdout(global);
        if outcome.undo.as_ref().is_none_or(Undo::is_clean) {
            writeln!(out, "{}", left(false))?;
        }
        writeln!(out, "record: {}", path.display())?;
        let next = blocks_text::next(&outcome.record, &global.program());
        Ok(next.map_or(Ok(()), |command| write!(out, "{}", command_lines("next: ", &command)))?)
    });
    CommandError::after_output(put_back(&outcome).and_then(|()| exit(&outcome.record)), printed)
}

/// Prints the trial, as text or JSON.
pub(super) fn print(global: &Global, record: &BlocksRecord) -> Result {
    output::print(global, record, || blocks_text::render(record))
}

/// Exit code by end, as for other trials.
pub(in crate::commands) fn exit(record: &BlocksRecord) -> Result {
    match record.conclusion.as_ref().map(|conclusion| &conclusion.end) {
        Some(End::GuardTripped { .. }) => Err(CommandError::silent(error::Kind::Findings)),
        Some(End::Interrupted) => Err(CommandError::silent(error::Kind::Interrupted)),
        Some(End::NotApplied { .. } | End::MachineChanged { .. }) => {
            Err(CommandError::silent(error::Kind::Changed))
        }
        _ => Ok(()),
    }
}
