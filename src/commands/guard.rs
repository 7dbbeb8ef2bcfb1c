//! `rxlab guard`: the process that holds the deadline of an unconfirmed change. Started by
//! `rxlab apply --confirm`, never by people.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::place;
use crate::apply::{Transaction, Watch, watch};
use crate::cli::Global;
use crate::error::CommandError;
use crate::journal::{History, JournalError};

/// How often an undo that could not put everything back is tried.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Put a transaction back at its deadline unless it is confirmed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The transaction
    #[arg(value_name = "ID")]
    id: String,
}

pub(crate) fn run(global: &Global, args: Args) -> Result<(), CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    let stood = stand(global, &args.id, &stop);
    // The applier waits for this line, and takes any other for the reason why there is no guard.
    // Who reads it is gone later on: nothing else is ever printed.
    let mut out = std::io::stdout().lock();
    match &stood {
        Ok(_) => writeln!(out, "ready")?,
        Err(error) => writeln!(out, "{}", error.message)?,
    }
    out.flush()?;
    drop(out);
    let history = stood?;
    let store = place::store(global);
    if watch(&store, &args.id, &history, &stop) == Watch::Over {
        return Ok(());
    }
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        // An error may pass, such as a machine that is short of memory just now.
        if let Ok(true) = undo(global, &args.id) {
            return Ok(());
        }
    }
    Err(CommandError::failed(format!("transaction {} could not be put back", args.id)))
}

/// Makes this process independent of the terminal and of whoever started it, and makes sure that
/// the transaction can be found. Gives what it says.
fn stand(global: &Global, id: &str, stop: &Arc<AtomicBool>) -> Result<History, CommandError> {
    // Fails only for the leader of a process group, which then is independent already.
    let _ = rustix::process::setsid();
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, ignored)?;
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(stop))?;
    let history = place::store(global).load(id).map_err(place::journal_error)?;
    let history =
        history.ok_or_else(|| CommandError::usage(format!("there is no open transaction `{id}`")))?;
    let begin = history.begin().ok_or_else(|| CommandError::usage("the transaction never began"))?;
    place::of_transaction(global, begin)?;
    Ok(history)
}

/// Undoes unless it was confirmed meanwhile; waits for whoever has the lock. `false`: not
/// everything could be put back.
fn undo(global: &Global, id: &str) -> Result<bool, CommandError> {
    let store = place::store(global);
    let transaction = match Transaction::resume(&store, id, Duration::MAX) {
        Ok(transaction) => transaction,
        Err(JournalError::Unknown { .. }) => return Ok(true),
        Err(error) => return Err(place::journal_error(error)),
    };
    let history = transaction.journal().history();
    let Some(begin) = history.begin().filter(|_| history.pending_deadline().is_some()) else {
        return Ok(true);
    };
    let machine = place::of_transaction(global, begin)?;
    let undo = transaction.undo(&machine.host, &machine.model);
    Ok(undo.closed || !undo.has_failed())
}
