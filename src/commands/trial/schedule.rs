//! Checkpoints at later times: schedules them, takes those that are due, and cancels them.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::checkpoint::{self, Args};
use crate::commands::persist::{boot, system};
use crate::commands::{Global, output};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::grammar::sh;
use rxlab_base::number;
use rxlab_base::units::rfc3339;
use rxlab_change::persist::{Folder, Restore, timer_files, unit_name};
use rxlab_faces::report::text::paragraph;
use rxlab_faces::report::words;
use rxlab_trial::schedule::{Outcome, Scheduled, Standing};
use rxlab_trial::store::TrialDir;

/// Schedules checkpoints `after` each of these times from now, in addition to those that wait.
pub(super) fn add(global: &Global, args: &Args, dir: &TrialDir, after: &[Duration]) -> Result {
    let now = Timestamp::now();
    let mut all = dir.schedule()?;
    for after in after {
        let scheduled = Scheduled::new(now, *after, args.slots);
        all.push(scheduled.map_err(|error| CommandError::usage(format!("--at: {error}")))?);
    }
    all.sort_by(|a, b| a.due.cmp(&b.due));
    let etc = args.etc.path(global)?;
    let restore = restore(global, &etc)?;
    let has_systemd = system::is_running(global);
    let mut written = Vec::new();
    if has_systemd {
        boot::ready(global, &etc, &restore, "at these times")?;
        let files = timer_files(&dir.id(), &times(&all), &restore);
        written = Folder::new(&etc).install(&files)?;
    }
    // Recorded first: a timer that does not start then shows as missed.
    dir.save_schedule(&all)?;
    if system::is_ours(global) {
        system::ctl(&["daemon-reload"])?;
        system::ctl(&["restart", &format!("{}.timer", unit_name(&dir.id()))])?;
    }
    let line = (!has_systemd).then(|| line(&restore, &dir.id()));
    if global.json {
        return output::json(&json!({ "schema": "rxlab.schedule/1", "trial": dir.id(), "scheduled": all,
            "files": written, "line": line }));
    }
    let mut out = output::text_stdout();
    for scheduled in &all {
        write!(out, "{}", words::scheduled(scheduled, now))?;
    }
    for one in written.iter().filter(|one| one.changed) {
        writeln!(out, "wrote {}", one.path.display())?;
    }
    match line {
        Some(line) => {
            writeln!(
                out,
                "systemd does not run here: have a scheduler run this every few minutes; it runs what is due"
            )?;
            writeln!(out, "{line}")?;
        }
        None if global.root != Path::new("/") => {
            writeln!(out, "`systemctl daemon-reload` makes a running systemd read it")?;
        }
        None => {}
    }
    Ok(())
}

/// Takes the checkpoint of `dir` if one is due; several that are due at once are one. Removes the timer after the last.
pub(super) fn due(global: &Global, args: &Args, dir: &TrialDir) -> Result {
    let now = Timestamp::now();
    let mut all = dir.schedule()?;
    let Some(slots) = all.iter().find(|scheduled| scheduled.is_due(now)).map(|scheduled| scheduled.slots)
    else {
        return Ok(());
    };
    let taken = checkpoint::take(global, dir, slots);
    let outcome = match &taken {
        Ok((_, checkpoint)) => Outcome::Taken { state: checkpoint.state },
        Err(error) => Outcome::Failed { tried: rfc3339(now), why: error.message.clone() },
    };
    all.iter_mut()
        .filter(|scheduled| scheduled.is_due(now))
        .for_each(|scheduled| scheduled.outcome = Some(outcome.clone()));
    dir.save_schedule(&all)?;
    if all.iter().all(|scheduled| scheduled.outcome.is_some()) {
        let etc = args.etc.path(global)?;
        Folder::new(&etc).remove(&timer_files(&dir.id(), &[], &Restore::only_paths(&etc)))?;
    }
    let (record, checkpoint) = taken?;
    checkpoint::print(global, &record, &checkpoint)
}

/// Removes the timer, and forgets all checkpoints that were not taken.
pub(super) fn cancel(global: &Global, args: &Args, dir: &TrialDir) -> Result {
    let now = Timestamp::now();
    let all = dir.schedule()?;
    let is_taken = |scheduled: &Scheduled| matches!(scheduled.standing(now), Standing::Taken(_));
    let (taken, cancelled): (Vec<Scheduled>, Vec<Scheduled>) = all.into_iter().partition(is_taken);
    let etc = args.etc.path(global)?;
    boot::check_links(global, &etc)?;
    let files = timer_files(&dir.id(), &[], &Restore::only_paths(&etc));
    if system::is_ours(global) {
        // A timer that does not run has nothing to stop.
        let _ = system::ctl(&["stop", &format!("{}.timer", unit_name(&dir.id()))]);
    }
    let removed = Folder::new(&etc).remove(&files)?;
    dir.save_schedule(&taken)?;
    if global.json {
        return output::json(&json!({ "schema": "rxlab.schedule/1", "trial": dir.id(), "scheduled": taken,
            "files": removed, "line": null }));
    }
    let mut out = output::text_stdout();
    match cancelled.len() {
        0 => writeln!(out, "no checkpoint of {} waits", dir.id())?,
        count => writeln!(out, "cancelled {}", number::plural(count, "checkpoint"))?,
    }
    Ok(removed.iter().try_for_each(|path| writeln!(out, "removed {}", path.display()))?)
}

/// Checkpoints of all trials that wait, were missed or failed, with the trial's id.
pub(in crate::commands) fn open(global: &Global) -> Result<Vec<(String, Scheduled)>> {
    let now = Timestamp::now();
    let mut open = Vec::new();
    for dir in TrialDir::all(&global.state_dir)? {
        let all = dir.schedule()?;
        let waits = |scheduled: &Scheduled| !matches!(scheduled.standing(now), Standing::Taken(_));
        open.extend(all.into_iter().filter(waits).map(|scheduled| (dir.id(), scheduled)));
    }
    Ok(open)
}

pub(in crate::commands) fn print_open(
    out: &mut impl Write,
    open: &[(String, Scheduled)],
) -> std::io::Result<()> {
    let now = Timestamp::now();
    for (id, scheduled) in open {
        write!(out, "{}", paragraph(&format!("trial {id}: "), words::scheduled(scheduled, now).trim_end()))?;
    }
    Ok(())
}

/// An error if one of `open` was missed or failed.
pub(in crate::commands) fn verdict(open: &[(String, Scheduled)]) -> Result {
    let now = Timestamp::now();
    if open.iter().any(|(_, scheduled)| scheduled.standing(now).is_lost()) {
        Err(CommandError::silent(Kind::Findings))
    } else {
        Ok(())
    }
}

/// Program, paths and options of the unit.
fn restore(global: &Global, etc: &Path) -> Result<Restore> {
    let mut restore = boot::restore(global, etc)?;
    restore.options.extend(global.netns.iter().flat_map(|netns| ["--netns".to_owned(), netns.clone()]));
    Ok(restore)
}

/// Times of the checkpoints that wait.
fn times(all: &[Scheduled]) -> Vec<String> {
    all.iter().filter(|scheduled| scheduled.outcome.is_none()).filter_map(Scheduled::calendar).collect()
}

/// A command line that takes what is due.
fn line(restore: &Restore, id: &str) -> String {
    let words =
        [restore.program.to_string_lossy().into_owned()].into_iter().chain(restore.options.iter().cloned());
    let words: Vec<String> = words.map(|word| sh::word(&word)).collect();
    format!("{} trial checkpoint {} --due", words.join(" "), sh::word(id))
}
