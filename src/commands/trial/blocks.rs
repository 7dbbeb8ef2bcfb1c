//! Trials in blocks: runs, resumes and prints them.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::conduct::{Ready, explain, fresh_seed, left};
use super::finish::put_back;
use super::ready::ready;
use super::resume::check_boot;
use crate::apply::{Undo, launch_guard};
use crate::commands::Global;
use crate::commands::machine::{self, Machine};
use crate::commands::{leftovers, output, place, progress};
use crate::error::{self, CommandError};
use crate::report::blocks_text;
use crate::report::text::command_lines;
use crate::trial::blocks::{BlocksRecord, End};
use crate::trial::perform::{Setup, perform_blocks};
use crate::trial::spec::{Kind, Spec};
use crate::trial::store::TrialDir;

/// The error for a report that does not exist.
pub(super) fn no_html(kind: Kind) -> CommandError {
    CommandError::usage(format!("--html: {} has no HTML report", kind.in_words()))
        .hint("`rxlab report ID` writes its text and its record as a page")
}

/// Continues a trial in blocks that was interrupted or killed.
pub(super) fn resume(
    global: &Global,
    dir: TrialDir,
    spec: &Spec,
    record: BlocksRecord,
) -> Result<(), CommandError> {
    if record.conclusion.as_ref().is_some_and(|conclusion| conclusion.end != End::Interrupted) {
        return Err(CommandError::usage(format!("trial {} is finished", record.id))
            .hint("`rxlab trial show` prints it; `rxlab trial run` starts another"));
    }
    leftovers::clear(global)?;
    let machine = machine::open(global)?;
    check_boot(&machine, &record.id, &record.host)?;
    let stop = place::stop_flag()?;
    let ready = ready(global, &machine, spec)?;
    finish(global, &machine, spec, ready, dir, Some(record), &stop)
}

/// Runs the trial with a progress bar, prints it, and returns the exit code.
pub(super) fn finish(
    global: &Global,
    machine: &Machine,
    spec: &Spec,
    ready: Ready,
    dir: TrialDir,
    resumed: Option<BlocksRecord>,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let root = place::root(global)?;
    let store = place::store(global);
    let bar = progress::bar(&format!("trial {}", spec.name), spec.slots() as u64);
    bar.tick_every(Duration::from_millis(250));
    let mut progress = |record: &BlocksRecord| {
        let block = record.slots.last().map_or(0, |slot| slot.block + 1);
        bar.set_message(&format!("trial {}: block {block}", record.name));
        bar.set_position(record.slots.len() as u64);
    };
    let seed = resumed.as_ref().map(|record| record.seed).or(spec.design.seed).unwrap_or_else(fresh_seed);
    let setup = Setup {
        host: &machine.host,
        inventory: &machine.inventory,
        root: &root,
        netns: machine.netns.clone(),
        arms: ready.arms,
        prediction: None,
        planned: None,
        meter: ready.meter,
        store: &store,
        dir: &dir,
        seed,
        checks: ready.checks,
        queries: ready.queries,
        driver: ready.driver,
        guard: &|id| {
            let arguments = place::guard_arguments(global, &root, id).map_err(std::io::Error::other)?;
            launch_guard(&arguments)
        },
        keep: false,
        stop,
        progress: &mut progress,
    };
    let outcome = perform_blocks(spec, setup, resumed);
    bar.finish_and_clear();
    let outcome = outcome.map_err(|error| explain(error, false))?;
    let printed = print(global, &outcome.record).and_then(|()| {
        if global.json {
            return Ok(());
        }
        let mut out = output::stdout(global);
        if outcome.undo.as_ref().is_none_or(Undo::is_clean) {
            writeln!(out, "{}", left(false))?;
        }
        writeln!(out, "record: {}", dir.path().display())?;
        let next = blocks_text::next(&outcome.record, &global.program());
        Ok(next.map_or(Ok(()), |command| write!(out, "{}", command_lines("next: ", &command)))?)
    });
    CommandError::after_output(put_back(&outcome).and_then(|()| exit(&outcome.record)), printed)
}

/// Prints the trial, as text or JSON.
pub(super) fn print(global: &Global, record: &BlocksRecord) -> Result<(), CommandError> {
    let mut out = output::stdout(global);
    if global.json {
        return Ok(writeln!(out, "{}", crate::commands::json(record)?)?);
    }
    Ok(write!(out, "{}", blocks_text::render(record))?)
}

/// Exit code by end, as for other trials.
fn exit(record: &BlocksRecord) -> Result<(), CommandError> {
    match record.conclusion.as_ref().map(|conclusion| &conclusion.end) {
        Some(End::GuardTripped { .. }) => Err(CommandError::silent(error::Kind::Findings)),
        Some(End::Interrupted) => Err(CommandError::silent(error::Kind::Interrupted)),
        Some(End::NotApplied { .. } | End::MachineChanged { .. }) => {
            Err(CommandError::silent(error::Kind::Changed))
        }
        _ => Ok(()),
    }
}
