//! Countdown while a change waits for its confirmation: on a terminal, Enter on an empty line confirms.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::commands::answer::{Event, discard_earlier, next_event};
use crate::commands::history::ended as ended_in_words;
use crate::commands::{Global, confirm, leftovers, output, place, progress, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::ending;
use rxlab_change::journal::Store;
use rxlab_sys::boottime_ns;

/// Interval between updates of the bar and reads of the journal.
const TICK: Duration = Duration::from_millis(250);

/// Longest wait for the guard after the deadline before the command returns.
const GUARD_GRACE: Duration = Duration::from_secs(10);

/// Counts down to the deadline of transaction `id`, which is `wait` away. Enter confirms it if there is a terminal to
/// listen to, Ctrl-C or SIGTERM reverts it at once, and its guard reverts it at the deadline.
pub(super) fn run(
    global: &Global,
    id: &str,
    wait: Duration,
    stop: &AtomicBool,
    mut is_listening: bool,
) -> Result {
    let store = place::store(global);
    let bar = progress::clock("Enter keeps it, Ctrl-C reverts it", wait);
    if is_listening {
        discard_earlier();
    }
    let kept = loop {
        let Some(left) = left(&store, id)? else { break false };
        if stop.load(Ordering::SeqCst) {
            bar.finish_and_clear();
            undo::one(global, id)?;
            return Err(CommandError::silent(Kind::Interrupted));
        }
        bar.set_elapsed(wait.saturating_sub(left));
        if !is_listening {
            std::thread::sleep(TICK.min(left));
            continue;
        }
        match next_event(io::stdin(), TICK.min(left)) {
            Event::Line(line) if line.is_empty() => break true,
            Event::Line(_) | Event::Paste => {
                let said = "typed or pasted text does not keep it: press Enter on an empty line";
                bar.set_message(said);
                if !progress::is_watched() {
                    writeln!(output::stderr(), "rxlab: {said}")?;
                }
            }
            Event::Ended => is_listening = false,
            Event::Nothing => {}
        }
    };
    bar.finish_and_clear();
    if kept { confirm::confirm(global, Some(id), false) } else { ended(global, &store, id) }
}

/// Time until the deadline; `None` once it has passed or no longer holds.
fn left(store: &Store, id: &str) -> Result<Option<Duration>> {
    let history = store.load(id)?;
    let deadline = history.and_then(|history| history.pending_deadline());
    let left = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(boottime_ns())));
    Ok(left.filter(|left| !left.is_zero()))
}

/// Waits until the guard has reverted the change, or does that in place of one that has ended. An error unless another command has
/// confirmed the change.
fn ended(global: &Global, store: &Store, id: &str) -> Result {
    let tries = GUARD_GRACE.as_millis() / TICK.as_millis();
    for _ in 0..tries {
        match store.load(id)? {
            Some(history) if history.is_confirmed() => {
                writeln!(output::stderr(), "rxlab: transaction {id} was confirmed by another command")?;
                return Ok(());
            }
            Some(history) if history.pending_deadline().is_some() && store.has_lost_guard(id) => {
                // One that has left a value for the user has said so.
                if leftovers::pass_on_notices(global).is_empty() {
                    leftovers::clear(global)?;
                }
                return Err(CommandError::silent(Kind::Changed));
            }
            Some(_) => std::thread::sleep(TICK),
            None => {
                // The guard leaves its notice last. There is none if another command has ended the transaction.
                std::thread::sleep(TICK);
                return Err(if leftovers::pass_on_notices(global).is_empty() {
                    changed(outcome(store, id)?)
                } else {
                    CommandError::silent(Kind::Changed)
                });
            }
        }
    }
    Err(changed(format!("transaction {id} is still being reverted")).hint("see `rxlab status`"))
}

/// How a transaction has ended that is no longer open, in a sentence.
fn outcome(store: &Store, id: &str) -> Result<String> {
    let archived = store.all()?.into_iter().find(|entry| entry.id == id && !entry.is_open);
    Ok(match archived.map(|entry| entry.history) {
        // Of this boot.
        Some(Ok(history)) => format!("transaction {id}: {}", ended_in_words(ending(&history, ""))),
        Some(Err(why)) => format!("the journal of transaction {id} cannot be read: {why}"),
        None => format!("the journal of transaction {id} is missing"),
    })
}

/// Waits until a line is entered, input ends or `stop` is set.
pub(in crate::commands) fn wait_for_line(stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) && next_event(io::stdin(), TICK) == Event::Nothing {}
}

fn changed(message: String) -> CommandError {
    CommandError::new(Kind::Changed, message)
}
