//! The deadline of an unconfirmed change, held by a separate process, and the confirmation that ends it.
//!
//! The guard is the program itself (`rxlab guard ID`) in its own session. It knows the
//! transaction only from the journal, so it works even if the process that applied was
//! killed.

#![allow(clippy::disallowed_methods)] // Starts the guard; kills stuck lock holders.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use thiserror::Error;

use super::backwards::undo_one;
use super::caught::caught;
use super::{Transaction, UndoOptions, undo};
use crate::journal::{
    History, JournalError, Lapse, LockError, Notice, Open, Outcome, Store, Unreadable, lock_holder,
};
use rxlab_path::model::Identity;
use rxlab_sys::{
    Host, LiveHost, OpenError, OwnNumbering, ProcessId, boottime_ns, inherit_no_files, lift_limits,
};

/// Polling interval of the journal while the guard waits.
const LOOK: Duration = Duration::from_millis(200);

/// First and longest pause between two attempts to revert a change.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// Uninterrupted absence of the journal after the deadline until the guard ends: a deleted journal
/// leaves nothing to restore from. One that is registered as open may come back with its file system.
const ABSENT: Duration = Duration::from_secs(60);

/// Time after the deadline that one process may keep the lock, from when the guard first sees it, before it
/// is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Longest startup time of a guard. On a machine whose CPUs are full of softirqs it takes seconds.
const STAND: Duration = Duration::from_secs(30);

/// Printed by the guard on its standard output once it is ready.
const READY: &str = "ready";

/// A running guard. Dropping this does not stop it.
#[derive(Debug)]
pub struct Guard {
    process: Child,
}

impl Guard {
    /// Waits for the guard to end, soon after its transaction is closed or confirmed.
    pub fn join(mut self) {
        // Fails only for a process that is not our child.
        let _ = self.process.wait();
    }
}

/// Starts this program again with `arguments` as a guard, and returns once it is ready: at most 30 s later.
/// Must be called before the first write of the transaction. After an error no guard is running and nothing
/// may be written.
pub fn launch_guard<A: AsRef<OsStr>>(arguments: &[A]) -> io::Result<Guard> {
    let mut guard = Command::new(std::env::current_exe()?);
    inherit_no_files(&mut guard);
    let mut guard = guard
        .args(arguments)
        .current_dir("/")
        // A panic that has no memory for its backtrace would wait for ever, with the lock of the machine held.
        .env("RUST_BACKTRACE", "0")
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
    // Both fail only if the guard has ended.
    let _ = guard.kill();
    let _ = guard.wait();
    let said = if line.trim().is_empty() { "it did not answer" } else { line.trim() };
    Err(io::Error::other(said.to_owned()))
}

/// The environment of a guard outside the journal. Tests simulate it.
pub trait Watchpost {
    /// Nanoseconds since boot (see [`boottime_ns`]).
    fn now(&self) -> u64;

    fn sleep(&self, pause: Duration);

    /// Lifts limits that stop an attempt to revert, which may be those of a moment ago.
    fn lift_limits(&self) {}

    /// True if the guard was told to end. It must revert the change first, which would be unguarded.
    fn is_told_to_end(&self) -> bool;

    /// True if a process is running or stopped.
    fn is_alive(&self, process: ProcessId) -> bool;

    /// Kills the process that holds the lock `path`. Must check that it still holds it: the PID may belong
    /// to another process by now.
    fn kill_holder(&self, path: &Path, holder: ProcessId);

    /// The machine seen from our own network namespace, opened again.
    fn open(&self) -> Result<Box<dyn Host>, OpenError>;
}

/// Holds the deadline of a transaction: returns once it is confirmed or closed, or once the rest needs a
/// user's decision. `history` is the journal so far.
///
/// The change is reverted at the deadline, when told to end, and as soon as the applier dies before setting
/// everything. Failures are retried, with pauses of up to 5 s, for as long as it takes; a temporarily
/// unreadable journal does not end the guard. A process that keeps the lock for 5 s beyond the deadline is
/// killed: it is stopped or hangs, and undo finishes its work.
///
/// A panic ends one attempt like any other failure.
pub fn hold_deadline(store: &Store, id: &str, history: &History, post: &dyn Watchpost) {
    while caught(|| hold(store, id, history, post)).is_err() {
        post.sleep(PAUSES[1]);
    }
}

fn hold(store: &Store, id: &str, history: &History, post: &dyn Watchpost) {
    let mut known = history.clone();
    let lapse = loop {
        // Before the journal is read: one that ends in between has set everything.
        let applier = known.begin().and_then(|begin| begin.applier);
        let may_live = known.is_complete() || applier.is_none_or(|applier| post.is_alive(applier));
        let is_fresh = match store.load(id) {
            Ok(Some(history)) if history.continues(&known) => {
                known = history;
                true
            }
            Ok(None) if store.is_archived(id) => return,
            // Temporarily unreadable, or without its end. The last known state still holds.
            Ok(_) | Err(_) => false,
        };
        let Some(deadline) = known.pending_deadline() else { return };
        // The last known state says nothing about the applying process.
        if let Some(lapse) = lapse(&known, post.now(), |_| !is_fresh || may_live) {
            break lapse;
        }
        if post.is_told_to_end() {
            break Lapse::Unguarded;
        }
        let left = Duration::from_nanos(deadline.saturating_sub(post.now()));
        post.sleep(left.min(LOOK));
    };
    let [mut pause, longest] = PAUSES;
    let mut absent_since = None;
    let mut held: Option<(ProcessId, u64)> = None;
    loop {
        post.lift_limits();
        let attempt = put_back(store, (id, &known), lapse, post);
        let now = post.now();
        if matches!(attempt, Attempt::Absent) {
            held = None;
        }
        match attempt {
            Attempt::Over => return,
            Attempt::Absent if store.may_be_missing(id) => {}
            Attempt::Absent => {
                // Not since it was last there: a machine may have slept in between.
                if now.saturating_sub(*absent_since.get_or_insert(now)) >= nanoseconds(ABSENT) {
                    return;
                }
                post.sleep(pause);
                continue;
            }
            Attempt::Locked(path, Some(holder)) => {
                let since = match held {
                    Some((known, since)) if known == holder => since,
                    _ => now,
                };
                held = Some((holder, since));
                if now.saturating_sub(since) >= nanoseconds(GRACE) {
                    post.kill_holder(&path, holder);
                }
            }
            Attempt::Locked(_, None) => {}
            Attempt::Failed => held = None,
        }
        absent_since = None;
        post.sleep(pause);
        pause = (2 * pause).min(longest);
    }
}

/// Returns the reason to revert a transaction at `now_ns` since boot: its deadline has passed, or its
/// process died before setting everything. `None` while it may stay. `may_live` gets the process if it is known.
pub(super) fn lapse(
    history: &History,
    now_ns: u64,
    may_live: impl FnOnce(Option<ProcessId>) -> bool,
) -> Option<Lapse> {
    let deadline = history.pending_deadline()?;
    if !history.is_complete() && !may_live(history.begin()?.applier) {
        return Some(Lapse::Killed);
    }
    (deadline <= now_ns).then_some(Lapse::NotConfirmed)
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Result of one attempt to revert a change.
enum Attempt {
    /// Reverted, confirmed in the meantime, or waiting for a user.
    Over,
    /// Another process has the lock.
    Locked(PathBuf, Option<ProcessId>),
    /// The journal is neither open nor archived.
    Absent,
    /// A later attempt may succeed.
    Failed,
}

fn put_back(store: &Store, (id, known): (&str, &History), lapse: Lapse, post: &dyn Watchpost) -> Attempt {
    // Without its file, no process is in its way; and resuming it would cut off a torn line.
    match store.load(id) {
        Ok(None) if store.is_archived(id) => return Attempt::Over,
        Ok(None) => return Attempt::Absent,
        Ok(Some(history)) if history.continues(known) => {}
        Ok(Some(_)) | Err(_) => return Attempt::Failed,
    }
    let transaction = match Transaction::resume(store, id, Duration::ZERO) {
        Ok(transaction) => transaction,
        // It was reverted or given up meanwhile.
        Err(JournalError::Lock(LockError::Held { .. })) if store.is_archived(id) => return Attempt::Over,
        Err(JournalError::Lock(LockError::Held { path, holder })) => return Attempt::Locked(path, holder),
        Err(JournalError::Unknown { .. }) if store.is_archived(id) => return Attempt::Over,
        Err(JournalError::Unknown { .. }) => return Attempt::Absent,
        Err(_) => return Attempt::Failed,
    };
    let history = transaction.journal().history();
    if !history.continues(known) {
        return Attempt::Failed;
    }
    let what = history.begin().map_or_else(String::new, |begin| begin.what.clone());
    if history.pending_deadline().is_none() {
        // The attempt that closed it could not move its file.
        if history.is_closed() && !history.is_confirmed() {
            let values = history.touched().iter().rev().filter_map(undo::settled).collect();
            let _ = store.leave_notice(&Notice { id: id.to_owned(), what, lapse, is_closed: true, values });
        }
        return Attempt::Over;
    }
    let Ok(own) = post.open() else { return Attempt::Failed };
    let Ok(undo) = undo_one(transaction, &*own, UndoOptions::default()) else { return Attempt::Failed };
    // The rest needs a user's decision.
    let is_for_user = |outcome: &Outcome| outcome.settles() || matches!(outcome, Outcome::Drift { .. });
    let is_taken_back = undo.command.as_ref().is_none_or(|command| command.outcome.settles());
    let only_user = is_taken_back
        && undo.journal_error.is_none()
        && undo.outcomes.iter().all(|one| is_for_user(&one.outcome));
    if !undo.closed && !only_user {
        return Attempt::Failed;
    }
    // The values are settled even if the disk rejects the notice.
    let _ = store.leave_notice(&undo.notice(what, lapse));
    Attempt::Over
}

/// This process as a guard.
pub struct LiveWatchpost {
    pub root: PathBuf,
    /// Set when it is told to end.
    pub stop: Arc<AtomicBool>,
}

impl Watchpost for LiveWatchpost {
    fn now(&self) -> u64 {
        boottime_ns()
    }

    fn sleep(&self, pause: Duration) {
        std::thread::sleep(pause);
    }

    fn lift_limits(&self) {
        lift_limits();
    }

    fn is_told_to_end(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn is_alive(&self, process: ProcessId) -> bool {
        process.is_alive()
    }

    fn kill_holder(&self, path: &Path, holder: ProcessId) {
        // A process that cannot be opened or signalled has ended, or the next attempt tries again.
        let _ = kill_holder(path, holder);
    }

    fn open(&self) -> Result<Box<dyn Host>, OpenError> {
        Ok(Box::new(LiveHost::open(&self.root)?))
    }
}

/// Kills the holder if it still has the lock. The process is opened first, so that no other process with the same pid
/// is hit. Nothing is killed by the number of another PID namespace.
fn kill_holder(path: &Path, holder: ProcessId) -> io::Result<()> {
    OwnNumbering::get().map_err(io::Error::other)?;
    let pid = Pid::from_raw(holder.pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    if lock_holder(path) == Some(holder) {
        pidfd_send_signal(process, Signal::KILL)?;
    }
    Ok(())
}

/// Reason why a change was not confirmed.
#[derive(Debug, Error)]
pub enum ConfirmError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error("no change is waiting for confirmation")]
    NothingWaits,
    /// A file that may be the one that waits.
    #[error(transparent)]
    Unreadable(Box<Unreadable>),
    /// Its deadline passed while we waited for the lock.
    #[error("transaction {0} is no longer waiting for confirmation")]
    TooLate(String),
    /// Only part of it was set.
    #[error("transaction {0} was stopped before everything was set")]
    Incomplete(String),
    /// Its deadline passed and nothing has reverted it, as when its guard was killed.
    #[error("the deadline of transaction {id} passed {seconds} s ago, and its journal has no revert")]
    Overdue { id: String, seconds: u64 },
    #[error("transaction {0} is being reverted")]
    GoesBack(String),
}

/// Longest wait for the lock, which a guard or another command may hold.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Confirms the transaction whose id starts with `id`, or the waiting one, and returns its id. Its deadline may have
/// passed without a revert.
pub fn confirm(store: &Store, machine: (&str, &Identity), id: Option<&str>) -> Result<String, ConfirmError> {
    confirm_in_time(store, machine, id, || 0)
}

/// [`confirm`], unless its deadline has passed: `now` is the time since boot in nanoseconds.
pub fn confirm_in_time(
    store: &Store,
    (root, identity): (&str, &Identity),
    id: Option<&str>,
    now: impl Fn() -> u64,
) -> Result<String, ConfirmError> {
    let Open { transactions: mut waiting, mut unreadable } = store.open(root, &identity.boot_id)?;
    waiting.retain(|(_, history)| history.pending_deadline().is_some());
    if let Some(text) = id {
        let id = match store.find(text) {
            Err(JournalError::Unknown { id, .. }) if store.is_archived(&id) => {
                return Err(ConfirmError::TooLate(id));
            }
            found => found?,
        };
        waiting.retain(|(waiting, _)| *waiting == id);
        unreadable.retain(|file| file.id == id);
    }
    let Some((id, _)) = waiting.pop() else {
        return Err(match unreadable.into_iter().find(Unreadable::may_wait) {
            Some(file) => ConfirmError::Unreadable(Box::new(file)),
            None => ConfirmError::NothingWaits,
        });
    };
    let transaction = Transaction::resume(store, &id, LOCK_TIMEOUT)?;
    // Under the lock the guard cannot act; its earlier actions are visible here.
    let history = transaction.journal().history();
    let Some(deadline) = history.pending_deadline() else { return Err(ConfirmError::TooLate(id)) };
    if !history.is_complete() {
        return Err(ConfirmError::Incomplete(id));
    }
    if history.touched().iter().any(|touched| touched.outcome.is_some()) {
        return Err(ConfirmError::GoesBack(id));
    }
    if let Some(late) = now().checked_sub(deadline) {
        return Err(ConfirmError::Overdue { id, seconds: Duration::from_nanos(late).as_secs() });
    }
    transaction.confirm()?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::path::Path;
    use std::time::Duration;

    use super::{Watchpost, hold_deadline, nanoseconds};
    use crate::apply::testbed::{RPS, begin, resume, setting};
    use crate::apply::{BeginInfo, Transaction};
    use crate::journal::{Lapse, Lock, Store};
    use crate::knob::testbed::model;
    use rustix::io::Errno;
    use rxlab_sys::{Cause, Host, OpenError, ProcessId, RecordedHost};

    /// The machine cannot be looked at. Between two attempts a user gives the transaction up, and another command begins.
    struct Post<'a> {
        store: &'a Store,
        id: &'a str,
        now: Cell<u64>,
        later: RefCell<Option<Lock>>,
        has_killed: Cell<bool>,
    }

    impl Watchpost for Post<'_> {
        fn now(&self) -> u64 {
            self.now.get()
        }

        fn sleep(&self, pause: Duration) {
            self.now.set(self.now.get() + nanoseconds(pause));
            self.later.borrow_mut().get_or_insert_with(|| {
                let lock = self.store.lock(Duration::ZERO).expect("free");
                self.store.forget(&lock, self.id).expect("given up");
                lock
            });
        }

        fn is_told_to_end(&self) -> bool {
            true
        }

        fn is_alive(&self, _: ProcessId) -> bool {
            true
        }

        fn kill_holder(&self, _: &Path, _: ProcessId) {
            self.has_killed.set(true);
            self.later.take();
        }

        fn open(&self) -> Result<Box<dyn Host>, OpenError> {
            Err(OpenError::Root { path: "/".into(), errno: Errno::ACCESS })
        }
    }

    /// The applier sets everything and ends while the guard looks at it.
    struct Finishing<'a> {
        store: &'a Store,
        id: &'a str,
        now: Cell<u64>,
    }

    impl Watchpost for Finishing<'_> {
        fn now(&self) -> u64 {
            self.now.get()
        }

        fn sleep(&self, pause: Duration) {
            self.now.set(self.now.get() + nanoseconds(pause));
        }

        fn is_told_to_end(&self) -> bool {
            false
        }

        fn is_alive(&self, _: ProcessId) -> bool {
            let is_complete =
                |store: &Store| store.load(self.id).expect("readable").is_some_and(|h| h.is_complete());
            if !is_complete(self.store) {
                resume(self.store, self.id).keep().expect("kept");
            }
            false
        }

        fn kill_holder(&self, _: &Path, _: ProcessId) {}

        fn open(&self) -> Result<Box<dyn Host>, OpenError> {
            Ok(Box::new(RecordedHost::new().with(RPS, "10\n")))
        }
    }

    /// A guard whose first attempt restores only a part.
    struct Trying {
        now: Cell<u64>,
        attempts: Cell<u32>,
        path: String,
    }

    impl Watchpost for Trying {
        fn now(&self) -> u64 {
            self.now.get()
        }

        fn sleep(&self, pause: Duration) {
            self.now.set(self.now.get() + nanoseconds(pause));
        }

        fn is_told_to_end(&self) -> bool {
            false
        }

        fn is_alive(&self, _: ProcessId) -> bool {
            true
        }

        fn kill_holder(&self, _: &Path, _: ProcessId) {}

        fn open(&self) -> Result<Box<dyn Host>, OpenError> {
            // Another program has set the first value; the second cannot be read at first.
            let link = "../../devices/pci0000:00/0000:00:03.0/net/eth0";
            let host = RecordedHost::new().with(RPS, "20\n").with_link("sys/class/net/eth0", link);
            self.attempts.set(self.attempts.get() + 1);
            Ok(Box::new(match self.attempts.get() {
                1 => host.with_failure(&self.path, Cause::Denied),
                _ => host.with(&self.path, "10\n"),
            }))
        }
    }

    /// The notice once said "was reverted" of all, as the last attempt had restored all that it found.
    #[test]
    fn a_notice_is_of_all_attempts() {
        let (_state, store) = Store::scratch();
        let path = RPS.replace("rx-0", "rx-1");
        let host = RecordedHost::new().with(RPS, "3\n").with(&path, "3\n");
        let mut transaction = begin(&store, Some(Duration::from_secs(1)));
        for text in ["rps eth0/rx-0 = 4", "rps eth0/rx-1 = 4"] {
            transaction.set(&host, &mut model(), &setting(text)).expect("set");
        }
        let id = transaction.id().to_owned();
        transaction.keep().expect("kept");
        let history = store.load(&id).expect("readable").expect("open");
        let post = Trying { now: Cell::new(rxlab_sys::boottime_ns()), attempts: Cell::new(0), path };
        hold_deadline(&store, &id, &history, &post);
        assert_eq!(post.attempts.get(), 2);
        let notice = store.take_notices().remove(0);
        assert!(notice.to_string().ends_with("was reverted in part: 1 of 2 values left"), "{notice}");
    }

    /// The guard had read the journal before, reverted the change at once and said that its process was killed.
    #[test]
    fn a_change_that_is_complete_once_its_process_has_ended_waits_for_its_deadline() {
        let (_state, store) = Store::scratch();
        let host = RecordedHost::new().with(RPS, "3\n");
        let applier = Some(ProcessId { pid: 7, start: 9, numbering: None });
        let identity = model().identity;
        let info = BeginInfo { applier, confirm: Some(Duration::from_secs(60)), ..BeginInfo::new(&identity) };
        let mut transaction = Transaction::begin_at(&store, info, 0).expect("begun");
        transaction.set(&host, &mut model(), &setting("rps eth0/rx-0 = 4")).expect("set");
        let id = transaction.id().to_owned();
        drop(transaction);
        let history = store.load(&id).expect("readable").expect("open");
        hold_deadline(&store, &id, &history, &Finishing { store: &store, id: &id, now: Cell::new(0) });
        let lapses: Vec<Lapse> = store.take_notices().into_iter().map(|notice| notice.lapse).collect();
        assert_eq!(lapses, [Lapse::NotConfirmed]);
    }

    /// A guard that tried again took it for one that was in its way, and killed it.
    #[test]
    fn a_command_that_begins_after_the_change_was_given_up_is_not_killed() {
        let (_state, store) = Store::scratch();
        let mut transaction = begin(&store, Some(Duration::from_secs(60)));
        let host = RecordedHost::new().with(RPS, "3\n");
        transaction.set(&host, &mut model(), &setting("rps eth0/rx-0 = 4")).expect("set");
        let id = transaction.id().to_owned();
        drop(transaction);
        let history = store.load(&id).expect("readable").expect("open");
        let (now, later, has_killed) = Default::default();
        let post = Post { store: &store, id: &id, now, later, has_killed };
        hold_deadline(&store, &id, &history, &post);
        assert!(!post.has_killed.get());
    }
}
