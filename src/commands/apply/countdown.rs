//! Countdown on a terminal while a change waits for its confirmation: Enter confirms.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::commands::{Global, confirm, leftovers, place, progress, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::boottime;
use rxlab_change::journal::Store;

/// Interval between updates of the bar and reads of the journal.
const TICK: Duration = Duration::from_millis(250);

/// Longest wait for the guard after the deadline before the command returns.
const GUARD_GRACE: Duration = Duration::from_secs(10);

/// Event on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A line was entered.
    Entered,
    /// It has ended: no more lines will come.
    Ended,
    /// Nothing within a tick.
    Nothing,
}

/// Counts down to the deadline of transaction `id`, which is `wait` away. Enter confirms it, Ctrl-C reverts it at
/// once, and its guard reverts it at the deadline.
pub(super) fn run(global: &Global, id: &str, wait: Duration, stop: &AtomicBool) -> Result {
    let store = place::store(global);
    let bar = progress::clock("Enter keeps it, Ctrl-C reverts it", wait);
    let mut is_listening = true;
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
            Event::Entered => break true,
            Event::Ended => is_listening = false,
            Event::Nothing => {}
        }
    };
    bar.finish_and_clear();
    if kept { confirm::confirm(global, Some(id)) } else { ended(global, &store, id) }
}

/// Time until the deadline; `None` once it has passed or no longer holds.
fn left(store: &Store, id: &str) -> Result<Option<Duration>> {
    let history = store.load(id)?;
    let deadline = history.and_then(|history| history.pending_deadline());
    let left = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(boottime())));
    Ok(left.filter(|left| !left.is_zero()))
}

/// Waits until the guard has reverted the change, or reports that another command has confirmed it or reverted it.
fn ended(global: &Global, store: &Store, id: &str) -> Result {
    let tries = GUARD_GRACE.as_millis() / TICK.as_millis();
    for _ in 0..tries {
        match store.load(id)? {
            Some(history) if history.pending_deadline().is_some() => std::thread::sleep(TICK),
            Some(_) => return Err(changed(format!("transaction {id} was confirmed by another command"))),
            None => {
                // The guard leaves its notice last. There is none if another command has reverted the change.
                std::thread::sleep(TICK);
                return Err(match leftovers::pass_on_notices(global) {
                    0 => changed(format!("transaction {id} was reverted")),
                    _ => CommandError::silent(Kind::Changed),
                });
            }
        }
    }
    Err(changed(format!("transaction {id} is still being reverted")).hint("see `rxlab status`"))
}

/// Waits until a line is entered, input ends or `stop` is set.
pub(in crate::commands) fn wait_for_line(stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) && next_event(io::stdin(), TICK) == Event::Nothing {}
}

fn changed(message: String) -> CommandError {
    CommandError::new(Kind::Changed, message)
}

/// Waits at most `patience` for a line. A signal ends the wait.
fn next_event(input: impl AsFd, patience: Duration) -> Event {
    let patience = Timespec::try_from(patience).ok();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut polled, patience.as_ref()) {
        Ok(0) | Err(Errno::INTR) => Event::Nothing,
        Ok(_) => match rustix::io::read(&input, &mut [0; 256]) {
            Ok(0) | Err(_) => Event::Ended,
            Ok(_) => Event::Entered,
        },
        Err(_) => Event::Ended,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use super::{Event, next_event};

    #[test]
    fn a_line_differs_from_the_end_and_from_no_input() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        assert_eq!(next_event(&reader, Duration::from_millis(1)), Event::Nothing);
        writer.write_all(b"\n").expect("written");
        assert_eq!(next_event(&reader, Duration::from_secs(60)), Event::Entered);
        drop(writer);
        assert_eq!(next_event(&reader, Duration::from_secs(60)), Event::Ended);
    }
}
