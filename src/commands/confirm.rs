//! `rxlab confirm`: keep a change that has a deadline.

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::{machine, output, place};
use crate::apply::Transaction;
use crate::cli::Global;
use crate::error::{CommandError, Kind};

/// How long to wait for a guard or another command that is just at the journal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keep a change that was applied with --confirm
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The transaction; may be left out when only one waits
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub(crate) fn run(global: &Global, args: Args) -> Result<(), CommandError> {
    let machine = machine::open(global)?;
    let store = place::store(global);
    let root = place::root(global)?;
    let open = store.open_of(&root.to_string_lossy(), &machine.model.identity.boot_id);
    let mut waiting = open.map_err(place::journal_error)?;
    waiting.retain(|(_, history)| history.pending_deadline().is_some());
    if let Some(text) = &args.id {
        let id = store.find(text).map_err(place::journal_error)?;
        waiting.retain(|(waiting, _)| *waiting == id);
    }
    let Some((id, _)) = waiting.pop() else {
        return Err(CommandError::new(Kind::Changed, "nothing waits for a confirmation")
            .hint("a change whose deadline has passed was put back; see `rxlab status`"));
    };
    let transaction = Transaction::resume(&store, &id, PATIENCE).map_err(place::journal_error)?;
    // Under the lock the guard cannot act; what it did before shows here.
    let history = transaction.journal().history();
    if history.pending_deadline().is_none() {
        return Err(CommandError::new(Kind::Changed, format!("transaction {id} waits no longer")));
    }
    if !history.is_complete() {
        let message = format!("transaction {id} was stopped before everything was set");
        return Err(CommandError::new(Kind::Changed, message).hint(format!("`rxlab undo {id}` puts it back")));
    }
    // Past the deadline, of which some could not be put back yet.
    if history.touched().iter().any(|touched| touched.outcome.is_some()) {
        return Err(CommandError::new(Kind::Changed, format!("transaction {id} is being put back"))
            .hint(format!("`rxlab undo {id}` finishes it")));
    }
    transaction.confirm().map_err(place::journal_error)?;
    let stays = format!("transaction {id} stays; `rxlab undo {id}` puts it back");
    print(global, &id, &stays).map_err(|error| error.hint(stays))
}

fn print(global: &Global, id: &str, stays: &str) -> Result<(), CommandError> {
    let mut out = output::stdout(global);
    if global.json {
        let value = json!({ "schema": "rxlab.confirm/1", "transaction": id });
        writeln!(out, "{value:#}")?;
    } else {
        writeln!(out, "{stays}")?;
    }
    Ok(())
}
