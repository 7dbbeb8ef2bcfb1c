//! Output of `rxlab apply`: what would change, what was changed, and what failed.

use std::io::Write;
use std::time::Duration;

use crate::commands::{Global, output, undo};
use crate::error::{CommandError, Result};
use rxlab_change::apply::{Change, Failure, Kept, OtherOwner};
use rxlab_faces::report::printed::ApplyReport;
use rxlab_setting::Setting;

pub(in crate::commands) struct Done<'a> {
    pub(in crate::commands) id: &'a str,
    pub(in crate::commands) kept: &'a [Kept],
    /// Lines about archived transactions.
    pub(in crate::commands) archived: &'a [String],
    /// Configuration of other programs that sets the same values.
    pub(in crate::commands) owners: &'a [OtherOwner],
    pub(in crate::commands) confirm: Option<Duration>,
}

pub(in crate::commands) fn rolled_back(failure: Failure) -> CommandError {
    let error = CommandError::from(failure.error);
    if failure.undo.is_clean() {
        return error.hint("nothing is changed: the values set before the failure were restored");
    }
    let id = failure.undo.id.clone();
    let mut error = undo::hints(error, &failure.undo.outcomes);
    if let Some(journal) = failure.undo.journal_error {
        error = error.hint(format!("{journal}; restoring the values went on"));
    }
    error.hint(format!("see `rxlab status`; try again with `rxlab undo {id}`"))
}

/// Names the configuration that sets the same values, before any is written; JSON has it with the result.
pub(in crate::commands) fn owners(global: &Global, owners: &[OtherOwner]) -> Result {
    if global.json || owners.is_empty() {
        return Ok(());
    }
    let mut err = output::stderr();
    owner_notes(owners).iter().try_for_each(|note| writeln!(err, "{note}"))?;
    Ok(())
}

/// A line for each of them, and their effect; none without owners.
pub(in crate::commands) fn owner_notes(owners: &[OtherOwner]) -> Vec<String> {
    const EFFECT: &str = "note: they set their own values again at boot, when the interface appears, or while their program runs: change the value there too";
    let notes = owners.iter().map(|owner| format!("note: {owner}"));
    notes.chain((!owners.is_empty()).then(|| EFFECT.to_owned())).collect()
}

pub(in crate::commands) fn changes(
    global: &Global,
    changes: &[Change],
    owners: &[OtherOwner],
    diff: bool,
) -> Result {
    if global.json {
        return output::json(&ApplyReport::rehearsed(changes, owners));
    }
    let mut out = output::plain_stdout();
    for Change { setting, before, needed } in changes {
        let note = match before {
            _ if diff => {
                if *needed {
                    write!(out, "{}", self::diff(setting, before.as_deref()))?;
                }
                continue;
            }
            None => "(once its target exists)".to_owned(),
            Some(before) if *needed => format!("(now {before})"),
            Some(_) => "(already set)".to_owned(),
        };
        writeln!(out, "{setting}  {note}")?;
    }
    writeln!(out, "nothing was changed")?;
    Ok(())
}

/// Lines as in a unified diff; each ends with a line break.
pub(in crate::commands) fn diff(setting: &Setting, before: Option<&str>) -> String {
    let before = before.map(|before| format!("- {} {} = {before}\n", setting.knob, setting.target));
    format!("{}+ {setting}\n", before.unwrap_or_default())
}

pub(in crate::commands) fn kept(global: &Global, done: &Done<'_>, diff: bool) -> Result {
    let is_set = format!("the values are set; `rxlab undo {}` restores them", done.id);
    print_kept(global, done, diff).map_err(|error| error.hint(is_set))
}

fn print_kept(global: &Global, done: &Done<'_>, diff: bool) -> Result {
    let Done { id, kept, archived, owners, confirm } = done;
    if global.json {
        let seconds = confirm.map(|wait| wait.as_secs_f64());
        return output::json(&ApplyReport::set(id, kept, seconds, archived, owners));
    }
    let mut out = output::plain_stdout();
    archived.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    for one in *kept {
        match (diff, one.changed) {
            (true, true) => write!(out, "{}", self::diff(&one.setting, Some(&one.before)))?,
            (true, false) => continue,
            (false, true) => writeln!(out, "{}  (was {})", one.setting, one.before)?,
            (false, false) => writeln!(out, "{}  (already set)", one.setting)?,
        }
        if one.kept != one.setting.value {
            writeln!(out, "  the kernel shows it as {}", one.kept)?;
        }
        one.remark.iter().try_for_each(|remark| writeln!(out, "  {remark}"))?;
        for setting in &one.replayed {
            writeln!(out, "  set again, because the driver had discarded it: {setting}")?;
        }
    }
    match confirm {
        Some(wait) => writeln!(
            out,
            "transaction {id}: reverts in {} s unless you run `rxlab confirm`",
            wait.as_secs_f64()
        )?,
        None => writeln!(out, "transaction {id}: `rxlab undo {id}` reverts it")?,
    }
    Ok(())
}
