//! `rxlab undo`: put back what was applied.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::{machine, place};
use crate::apply::{self, Backwards, CommandUndo, Transaction, Undo, UndoOutcome, Waiting, covered_by};
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::journal::{BackCommand, History, Outcome, Store};
use crate::report::text::{clean, paragraph};

/// Put back what was applied: every open transaction, the newest first
///
/// A value that somebody else has changed since is reported and left alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this transaction
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Only the newest transaction
    #[arg(long, conflicts_with = "id")]
    last: bool,
}

pub(crate) fn run(global: &Global, args: Args) -> Result<(), CommandError> {
    let store = place::store(global);
    let mut archived = Vec::new();
    let mut chosen = Vec::new();
    // Without any journal there is nothing to lock, and no directory is made for a lock.
    if !store.open_ids().map_err(place::journal_error)?.is_empty() {
        let root = place::root(global)?.to_string_lossy().into_owned();
        let boot_id = machine::open(global)?.model.identity.boot_id;
        let lock = store.lock(Duration::ZERO).map_err(place::journal_error)?;
        let swept = store.sweep(&lock, &root, &boot_id).map_err(place::journal_error)?;
        archived = place::archived_lines(&swept);
        chosen = choose(&store, &args, store.open_of(&root, &boot_id).map_err(place::journal_error)?)?;
    } else if let Some(id) = &args.id {
        store.find(id).map_err(place::journal_error)?;
    }
    let done = apply::backwards(&chosen, |id, history| {
        let begin = history.begin().ok_or_else(|| CommandError::failed("the transaction never began"))?;
        let transaction = Transaction::resume(&store, id, Duration::ZERO).map_err(place::journal_error)?;
        // Under the lock: until it was had, another process may have made queues and interrupts anew.
        let machine = place::of_transaction(global, begin)?;
        Ok(transaction.undo(&machine.host, &machine.model))
    });
    report(global, &archived, &done)?;
    match done.error {
        Some(error) => Err(error),
        None => exit(&done.undone),
    }
}

fn choose(
    store: &Store,
    args: &Args,
    mut open: Vec<(String, History)>,
) -> Result<Vec<(String, History)>, CommandError> {
    if args.last {
        return Ok(open.pop().into_iter().collect());
    }
    let Some(text) = &args.id else { return Ok(open) };
    let id = store.find(text).map_err(place::journal_error)?;
    let Some(at) = open.iter().position(|(open, _)| *open == id) else {
        return Err(of_another_root(&id));
    };
    let newer = open.split_off(at + 1);
    let chosen = open.split_off(at);
    if let Some(cover) = covered_by(&chosen[0].1, &newer) {
        let message = format!("transaction {cover} has changed the same values after {id}");
        return Err(CommandError::new(Kind::Changed, message).hint(format!("run `rxlab undo {cover}` first")));
    }
    Ok(chosen)
}

/// The transaction is open, and not among those of this root and boot.
pub(super) fn of_another_root(id: &str) -> CommandError {
    CommandError::new(Kind::Changed, format!("transaction {id} belongs to another root"))
}

fn report(global: &Global, archived: &[String], done: &Backwards<CommandError>) -> Result<(), CommandError> {
    let Backwards { undone, waiting, error } = done;
    let mut out = std::io::stdout().lock();
    if global.json {
        let one = |undo: &Undo| {
            let mut value = json!({ "id": undo.id, "closed": undo.closed, "outcomes": undo.outcomes });
            if let Some(command) = &undo.command {
                value["command"] = json!(command);
            }
            value
        };
        let all: Vec<_> = undone.iter().map(one).collect();
        let value = json!({
            "schema": "rxlab.undo/1", "transactions": all, "waiting": waiting, "archived": archived,
        });
        writeln!(out, "{value:#}")?;
        return Ok(());
    }
    archived.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    if undone.is_empty() && error.is_none() {
        writeln!(out, "nothing to undo")?;
    }
    for undo in undone {
        writeln!(out, "transaction {}:", undo.id)?;
        for outcome in &undo.outcomes {
            write!(out, "{}", paragraph(&format!("  {}: ", subject(outcome)), &verdict(outcome)))?;
        }
        if let Some(CommandUndo { command, outcome }) = &undo.command {
            write!(out, "{}", paragraph("  shell command: ", &clean(&ran(command, outcome))))?;
        }
        if undo.outcomes.is_empty() && undo.command.is_none() {
            writeln!(out, "  nothing was left to put back")?;
        }
    }
    for Waiting { id, behind } in waiting {
        writeln!(out, "transaction {id}: waits until {behind}, which has the same values, is put back")?;
    }
    Ok(())
}

/// `rps eth0/rx-0`.
pub(super) fn subject(outcome: &UndoOutcome) -> String {
    format!("{} {}", outcome.knob, outcome.target)
}

/// What was found and done, in words.
pub(super) fn verdict(undone: &UndoOutcome) -> String {
    let original = &undone.original;
    match &undone.outcome {
        Outcome::Unchanged => format!("was {original} already"),
        Outcome::Restored => format!("back to {original}"),
        Outcome::Altered { kept } => format!("set back to {original}, but the kernel kept {kept}"),
        Outcome::Drift { live } => format!(
            "left alone: somebody changed it to {live} since (it was {original} before and {} after the change)",
            undone.wanted
        ),
        Outcome::Gone if undone.trouble => format!("the device is gone (the value was {original})"),
        Outcome::Gone => "gone, and its value with it".to_owned(),
        Outcome::Failed { why } => format!("not put back to {original}: {why}"),
    }
}

/// The outcome for a shell command, in words.
fn ran(command: &BackCommand, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed { why } => format!("not taken back: {why}"),
        _ => format!("taken back by `{}`", command.back),
    }
}

fn exit(undone: &[Undo]) -> Result<(), CommandError> {
    if undone.iter().any(Undo::has_failed) {
        return Err(CommandError::failed("not everything could be put back").hint("run `rxlab undo` again"));
    }
    if let Some(error) = undone.iter().find_map(|undo| undo.journal_error.as_ref()) {
        return Err(CommandError::failed(format!("the values are back, but {error}")));
    }
    if undone.iter().all(Undo::is_clean) { Ok(()) } else { Err(CommandError::silent(Kind::Changed)) }
}
