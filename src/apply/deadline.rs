//! The deadline of an unconfirmed change, held by another process than the one that applies.
//!
//! The guard is the program itself (`rxlab guard ID`) in a session of its own. It knows the
//! transaction from the journal alone, so it does its work also when the process that applied was
//! killed.

#![allow(clippy::disallowed_methods)] // Starting the guard is this file's purpose.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::journal::{History, Store};

/// How often the guard looks whether the change was confirmed.
const LOOK: Duration = Duration::from_millis(200);

/// How long a guard may take to say that it stands.
const STAND: Duration = Duration::from_secs(10);

/// What the guard says on its standard output once it stands.
const READY: &str = "ready";

/// CLOCK_BOOTTIME in nanoseconds: monotonic, also counting sleep, and the same for every process.
pub fn boottime() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // Neither is negative: the clock starts at boot.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// A standing guard. Dropping this leaves it standing.
#[derive(Debug)]
pub struct Guard {
    process: Child,
}

impl Guard {
    /// Waits for its end, which comes soon after its transaction is closed or confirmed.
    pub fn join(mut self) {
        // Fails only for a process that is no child of ours, which it is.
        let _ = self.process.wait();
    }
}

/// Starts this program again with `arguments` as a guard, and returns once it says that it stands.
/// An error means that no guard stands and nothing may be written.
pub fn launch_guard<A: AsRef<OsStr>>(arguments: &[A]) -> io::Result<Guard> {
    let mut guard = Command::new(std::env::current_exe()?)
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let answer = guard.stdout.take().ok_or_else(|| io::Error::other("no pipe to the guard"))?;
    let mut line = String::new();
    let patience = Timespec { tv_sec: STAND.as_secs().cast_signed(), tv_nsec: 0 };
    if poll(&mut [PollFd::new(&answer, PollFlags::IN)], Some(&patience))? > 0 {
        BufReader::new(answer).read_line(&mut line)?;
    }
    if line.trim_end() == READY {
        return Ok(Guard { process: guard });
    }
    // Both fail only when the guard has ended by itself.
    let _ = guard.kill();
    let _ = guard.wait();
    let said = if line.trim().is_empty() { "it did not answer" } else { line.trim() };
    Err(io::Error::other(said.to_owned()))
}

/// How a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// The transaction was confirmed, closed or never had a deadline: nothing to do.
    Over,
    /// The deadline has passed: undo, after looking again under the lock.
    Due,
}

/// Waits for the deadline of a transaction, of which `history` is what it says by now. `stop` ends the
/// wait as if the deadline had passed: a guard that is told to end must not leave the change unguarded.
/// Nor does a journal that cannot be read for a while end it.
pub fn watch(store: &Store, id: &str, history: &History, stop: &AtomicBool) -> Watch {
    let mut known = history.pending_deadline();
    while let Some(deadline_at) = known {
        let left = Duration::from_nanos(deadline_at.saturating_sub(boottime()));
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Watch::Due;
        }
        std::thread::sleep(left.min(LOOK));
        if let Ok(history) = store.load(id) {
            known = history.and_then(|history| history.pending_deadline());
        }
    }
    Watch::Over
}
