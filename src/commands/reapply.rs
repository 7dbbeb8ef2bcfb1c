//! `rxlab reapply`: sets values again that another program has changed.

use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::{Global, leftovers, machine, output, place, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{Reapplied, Reapply, Transaction, in_words, preview_reapply};
use rxlab_change::journal::{History, Open, Store};
use rxlab_faces::report::text::{clean, paragraph};
use rxlab_path::model::Model;
use rxlab_sys::Host;

/// Set applied values again where another program has changed them
///
/// Leaves alone a value that a newer transaction has set. `rxlab undo` still restores the value
/// before the first change. `rxlab status` shows who probably changed a value.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this transaction
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Print what would be set, and set nothing
    #[arg(long)]
    dry_run: bool,
}

/// Outcome for one transaction. No values: it was left alone.
#[derive(Serialize)]
struct Done {
    id: String,
    values: Option<Vec<Reapplied>>,
    /// Reason why it was left alone, unless it is unfinished.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result {
    if !args.dry_run {
        leftovers::clear(global)?;
    }
    place::warn_of_others(global);
    let store = place::store(global);
    let mut done = Vec::new();
    let mut ended = Ok(());
    // Without a journal there is nothing to check.
    if !store.is_empty()? {
        let root = place::root(global)?.to_string_lossy().into_owned();
        let boot_id = machine::open(global)?.model.identity.boot_id;
        let open = || {
            let open = store.open(&root, &boot_id)?;
            place::nothing_waits(&open).map(|()| open)
        };
        let open_now = open()?;
        place::warn(&open_now.unreadable);
        let preview = |id: &str| of_one(global, id, &open_now, preview_reapply);
        let set = |id: &str| {
            let mut transaction = Transaction::resume(&store, id, Duration::ZERO)?;
            // Under the lock no process starts a transaction: the open ones stay the same.
            of_one(global, id, &open()?, |_, newer, host, model| transaction.reapply(newer, host, model))
        };
        for id in chosen(&store, args, &open_now)? {
            match if args.dry_run { preview(&id) } else { set(&id) } {
                Ok(values) => done.push(Done { id, values, error: None }),
                // The others are still set, and reported.
                Err(error) => {
                    done.push(Done { id, values: None, error: Some(error.message.clone()) });
                    ended = ended.and(Err(error));
                }
            }
        }
        if args.id.is_none() && !open_now.unreadable.is_empty() {
            ended = ended.and(Err(CommandError::silent(Kind::Changed)));
        }
    } else if let Some(id) = &args.id {
        store.find(id)?;
    }
    // With files that cannot be read, that nothing is applied is not known.
    let is_known = ended.is_ok() || !done.is_empty();
    let printed = if is_known || global.json { report(global, &done) } else { Ok(()) };
    let ended = match (ended, exit(&done)) {
        (Err(error), Err(of_values)) if of_values.kind == Kind::Failed => {
            Err(CommandError { kind: Kind::Failed, ..error })
        }
        (ended, of_values) => ended.and(of_values),
    };
    CommandError::after_output(ended, printed)
}

/// Returns the transactions to check, oldest first: later ones may depend on earlier ones.
fn chosen(store: &Store, args: &Args, open: &Open) -> Result<Vec<String>> {
    let ids = open.transactions.iter().map(|(id, _)| id);
    let Some(text) = &args.id else { return Ok(ids.cloned().collect()) };
    let id = store.find(text)?;
    // Damage of the transaction asked for is an error of its own.
    store.load(&id)?;
    if ids.into_iter().any(|open| *open == id) {
        return Ok(vec![id]);
    }
    match open.unreadable.iter().find(|file| file.id == id) {
        Some(file) => Err(file.into()),
        None => Err(undo::of_another_root(&id)),
    }
}

/// Calls `act` with the transaction, those after it, and the current state of its machine.
fn of_one(
    global: &Global,
    id: &str,
    open: &Open,
    act: impl FnOnce(&History, &[(String, History)], &dyn Host, &Model) -> Option<Vec<Reapplied>>,
) -> Result<Option<Vec<Reapplied>>> {
    let at = open.transactions.iter().position(|(open, _)| open == id);
    let at = at.ok_or_else(|| {
        CommandError::new(Kind::Changed, format!("transaction {id} was reverted in the meantime"))
    })?;
    // It may have set the same values since.
    if let Some(file) = open.unreadable.iter().find(|file| file.is_after(id)) {
        return Err(file.into());
    }
    let history = &open.transactions[at].1;
    let Some(begin) = history.begin() else { return Ok(None) };
    let (host, model) = place::of_transaction(global, begin)?;
    Ok(act(history, &open.transactions[at + 1..], &*host, &model))
}

fn report(global: &Global, done: &[Done]) -> Result {
    if global.json {
        return output::json(&json!({ "schema": "rxlab.reapply/1", "transactions": done }));
    }
    let mut out = output::text_stdout();
    if done.is_empty() {
        writeln!(out, "nothing is applied")?;
    }
    for Done { id, values, error } in done {
        writeln!(out, "transaction {}:", clean(id))?;
        let Some(values) = values else {
            match error {
                Some(error) => write!(out, "{}", paragraph("  left alone: ", &clean(error)))?,
                None => writeln!(out, "  left alone because it is unfinished; `rxlab undo` reverts it")?,
            }
            continue;
        };
        if values.is_empty() {
            writeln!(out, "  nothing to set again: it ran a shell command, which is not repeated")?;
        }
        for value in values {
            let Reapplied { knob, target, wanted, .. } = value;
            let first = format!("  {} ", clean(&format!("{knob} {target} = {wanted}:")));
            write!(out, "{}", paragraph(&first, &in_text(value)))?;
        }
    }
    Ok(())
}

/// The outcome for a value, in words.
fn in_text(value: &Reapplied) -> String {
    let who = in_words(&value.suspects);
    match &value.outcome {
        Reapply::Holds => "holds".to_owned(),
        Reapply::Covered { by } => format!("left to {by}, which has set it since"),
        Reapply::Reapplied { was } => format!("set again, it was {was} ({who})"),
        Reapply::Due { was } => format!("would be set again, it is {was} ({who})"),
        Reapply::Gone => "gone: what it was set on no longer exists".to_owned(),
        Reapply::Failed { why } => format!("not set again: {why}"),
    }
}

fn exit(done: &[Done]) -> Result {
    let outcomes = || done.iter().flat_map(|done| done.values.iter().flatten()).map(|value| &value.outcome);
    let unfinished = done.iter().any(|done| done.values.is_none());
    if outcomes().any(|outcome| matches!(outcome, Reapply::Failed { .. })) {
        Err(CommandError::silent(Kind::Failed))
    } else if unfinished || outcomes().any(|outcome| *outcome == Reapply::Gone) {
        Err(CommandError::silent(Kind::Changed))
    } else {
        Ok(())
    }
}
