//! `rxlab guard`: the process that enforces the deadline of an unconfirmed change. Started by
//! `rxlab apply --confirm`, not by users.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Global, output, place};
use crate::error::{CommandError, Result};
use rxlab_change::apply::{LiveWatchpost, hold_deadline};
use rxlab_change::journal::{History, Store};
use rxlab_sys::{lift_limits, outlast_others, outlast_signals};

/// Revert a transaction at its deadline unless it is confirmed
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The transaction
    #[arg(value_name = "ID")]
    id: String,
}

pub(crate) fn run(global: &Global, args: Args) -> Result {
    // The limits of the shell that started it may be those that the change is reverted for.
    lift_limits();
    outlast_others();
    outlast_signals();
    let stop = Arc::new(AtomicBool::new(false));
    let root = place::root(global)?;
    let store = place::store(global);
    let stood = stand(global, &store, &args.id, &stop);
    // Without it, `status` does not know whether a guard is running.
    let _shown = stood.as_ref().ok().and_then(|_| store.stand_guard(&args.id).ok());
    // The applier waits for this line, and takes any other as the reason why there is no guard.
    // It stops reading then: nothing else is ever printed.
    let mut out = output::text_stdout();
    match &stood {
        Ok(_) => writeln!(out, "ready")?,
        Err(error) => writeln!(out, "{}", error.message)?,
    }
    out.flush()?;
    let history = stood?;
    // An applier that has not read the line applies nothing.
    if out.is_closed() {
        return Ok(());
    }
    drop(out);
    let post = LiveWatchpost { root, stop };
    hold_deadline(&store, &args.id, &history, &post);
    Ok(())
}

/// Detaches this process from the terminal and from the process that started it, and checks that the
/// transaction can be found. Returns its history.
fn stand(global: &Global, store: &Store, id: &str, stop: &Arc<AtomicBool>) -> Result<History> {
    // Fails only for the leader of a process group, which is independent already.
    let _ = rustix::process::setsid();
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(stop))?;
    let history = store.load(id)?;
    let history =
        history.ok_or_else(|| CommandError::usage(format!("there is no open transaction `{id}`")))?;
    let begin = history.begin().ok_or_else(|| CommandError::usage("the transaction never began"))?;
    place::of_transaction(global, begin)?;
    Ok(history)
}
