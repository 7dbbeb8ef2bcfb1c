//! Shared by the commands that change the machine: the journal's location, the machine of a
//! transaction, and errors with hints for the user.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Global, machine, output};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::grammar::sh;
use rxlab_change::apply::{self, ApplyError, UndoError};
use rxlab_change::journal::{Archived, Begin, Disk, JournalError, LockError, Open, Store, Unreadable};
use rxlab_faces::report::text::clean;
use rxlab_path::model::Model;
use rxlab_path::sample::{Inventory, Scope};
use rxlab_sys::{Host, OtherView, ProcessId, is_in_group_namespace, is_in_pid_namespace};

/// Returns the journal. Below another root it has its own lock: those files are not a machine.
pub(super) fn store(global: &Global) -> Store {
    let is_this_machine = global.root == Path::new("/");
    Store::new(if is_this_machine {
        Disk::of_this_machine(&global.state_dir, &global.run_dir)
    } else {
        Disk::new(&global.state_dir)
    })
}

/// Returns an error if the lock of the machine is held or denied. It is released at once: this is for what comes before a
/// change and would be in vain, such as a question or a long sample.
pub(super) fn check_lock(global: &Global) -> Result {
    Ok(store(global).lock(Duration::ZERO).map(drop)?)
}

/// Root directory as the journal spells it.
pub(super) fn root(global: &Global) -> Result<PathBuf> {
    let root = global.root.canonicalize();
    root.map_err(|error| {
        CommandError::new(
            Kind::from(&error),
            format!("cannot open the root {}: {error}", global.root.display()),
        )
    })
}

/// Returns the machine of a transaction, and its current receive path.
pub(super) fn of_transaction(global: &Global, begin: &Begin) -> Result<(Box<dyn Host>, Model)> {
    let own = machine::host(&Global { netns: None, ..global.clone() })?;
    let host = apply::reach(&own, begin)
        .map_err(|hidden| UndoError::Lost { id: begin.id.clone(), hidden })?
        .unwrap_or_else(|| Box::new(own));
    let model = machine::describe(&Inventory::take(&*host, Scope::Path))?;
    Ok((host, model))
}

/// The path of an existing directory without symbolic links; `None` if there is no such path, as of one that is reached
/// through `/proc/PID/root`.
pub(super) fn without_links(directory: &Path) -> Option<PathBuf> {
    let resolved = directory.canonicalize().ok()?;
    let identity = |path: &Path| path.metadata().map(|about| (about.dev(), about.ino())).ok();
    (identity(&resolved)? == identity(directory)?).then_some(resolved)
}

/// Arguments of the guard. It runs in `/`: every path is absolute.
pub(super) fn guard_arguments(global: &Global, root: &Path, id: &str) -> Result<Vec<OsString>> {
    let state = std::path::absolute(&global.state_dir)?;
    let run = std::path::absolute(&global.run_dir)?;
    let places = [("--root", root.to_owned()), ("--state-dir", state), ("--run-dir", run)];
    let mut arguments: Vec<OsString> = Vec::new();
    places.into_iter().for_each(|(flag, path)| arguments.extend([flag.into(), path.into()]));
    arguments.extend(["guard".into(), id.into()]);
    Ok(arguments)
}

/// Reports that the guard ends with the container, which has to run `until`. True if that may end with this process: it must
/// wait for the guard.
pub(super) fn warn_of_container(until: &str) -> Result<bool> {
    let is_first = std::process::id() == 1;
    let (container, waits) = match (is_in_pid_namespace(), is_in_group_namespace()) {
        (true, _) => ("this PID namespace (container)", is_first),
        // Nothing says whether this process is the one that the engine started.
        (false, true) => ("this container", true),
        (false, false) => return Ok(is_first),
    };
    let mut err = output::stderr();
    if is_first {
        let said = "this process is the first of its PID namespace, which ends with it";
        writeln!(err, "rxlab: {said}: it waits for the guard")?;
    } else {
        writeln!(err, "rxlab: the guard ends with {container}: keep that running {until}")?;
    }
    Ok(waits)
}

/// Sets the flag when it is dropped: the end of one part of a server, also by a panic, ends the others.
pub(super) struct Ends<'a>(pub(super) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Starts a thread of a server; without it the server must end, or it would listen and not answer.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    part: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new().spawn_scoped(scope, part).map_err(|error| {
        CommandError::failed(format!("cannot start a thread: {error}"))
            .hint("raise TasksMax= of the unit, or the limit of processes (ulimit -u)")
    })
}

/// Returns a flag that SIGINT, SIGTERM and SIGHUP set, so that work stops between two steps and puts
/// the machine back.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    flag(&[SIGINT, SIGTERM, SIGHUP])
}

/// Returns a flag that each of `signals` sets.
pub(super) fn flag(signals: &[i32]) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&flag))
            .map_err(|error| CommandError::failed(format!("cannot listen for signals: {error}")))?;
    }
    Ok(flag)
}

/// Longest time until a signal is noticed.
const NAP: Duration = Duration::from_millis(100);

/// Sleeps for `time`, or less when `stop` is set.
pub(super) fn sleep(time: Duration, stop: &AtomicBool) {
    let start = Instant::now();
    while start.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(NAP.min(time.saturating_sub(start.elapsed())));
    }
}

/// One line for each archived transaction: its id and the reason.
pub(super) fn archived_lines(archived: &[Archived]) -> Vec<String> {
    let line = |archived: &Archived| match archived {
        Archived::OtherBoot(id) => {
            Some(format!("archived {id}: the machine was rebooted since, so its values are gone"))
        }
        Archived::Leftover(_) => None,
    };
    archived.iter().filter_map(line).collect()
}

/// Returns an error if one of the open transactions waits for its confirmation.
pub(super) fn nothing_waits(open: &Open) -> Result {
    if let Some((id, _)) = open.transactions.iter().find(|(_, history)| history.pending_deadline().is_some())
    {
        return Err(ApplyError::Pending { id: id.clone() }.into());
    }
    match open.unreadable.iter().find(|file| file.may_wait()) {
        Some(file) => Err(file.into()),
        None => Ok(()),
    }
}

/// A journal error with a hint.
impl From<JournalError> for CommandError {
    fn from(error: JournalError) -> Self {
        let kind = error.kind();
        let hint = match &error {
            JournalError::Lock(LockError::Held { holder, .. }) => {
                let who = holder.and_then(ProcessId::command_and_user);
                let who = who.map(|(command, user)| format!("it is `{command}`, run by user {user}"));
                let advice =
                    "one process changes the machine at a time: wait for it, or end it and run `rxlab undo`";
                return CommandError::new(kind, error).hint_all(who).hint(advice);
            }
            JournalError::Missing { .. } => "mount its file system, or give it up with `rxlab undo --forget`",
            JournalError::Damaged { .. } => {
                "restore the values of its `before` fields by hand, then run `rxlab undo --forget` with its id"
            }
            JournalError::LaterVersion { .. } => "install that version",
            JournalError::Registry(_) => {
                "restore the file, or move `journals` out of the run directory: rxlab then knows of no other state directory"
            }
            JournalError::Lock(LockError::Untrusted { .. }) => {
                "make root its owner and only writer, or name another directory with --state-dir"
            }
            JournalError::Unknown { .. } => "see `rxlab status`",
            _ if kind == Kind::Denied && !geteuid().is_root() => "changing values needs root",
            JournalError::Io { verb: "read" | "list", .. } => {
                "what it holds stays as it is; run the command again once it can be read"
            }
            JournalError::Io { .. } | JournalError::Lock(LockError::Io { .. }) => {
                "--state-dir DIR or RXLAB_STATE_DIR puts the journal elsewhere"
            }
        };
        CommandError::new(kind, error).hint(hint)
    }
}

impl From<ApplyError> for CommandError {
    fn from(error: ApplyError) -> Self {
        let hint = match error {
            ApplyError::Journal(error) => return error.into(),
            ApplyError::Pending { ref id } => {
                Some(format!("`rxlab confirm {id}` keeps it, `rxlab undo {id}` reverts it"))
            }
            ApplyError::OtherJournal { ref state, ref id } => {
                let state = sh::word(&state.to_string_lossy());
                Some(format!("run `rxlab --state-dir {state} undo {id}` first, or use that journal"))
            }
            ApplyError::Unreadable { ref file, .. } => Some(file.remedy()),
            ApplyError::Hidden { .. } => Some("try again".to_owned()),
            ApplyError::View(OtherView::Namespace(_)) => Some(machine::privilege("a sysfs of its own")),
            ApplyError::OtherHost { .. } | ApplyError::OtherDevice { .. } => {
                Some("make a plan on this machine: `rxlab plan`".to_owned())
            }
            _ => None,
        };
        CommandError::new(error.kind(), error).hint_all(hint)
    }
}

impl From<&Unreadable> for CommandError {
    fn from(file: &Unreadable) -> Self {
        CommandError::new(Kind::Changed, file).hint(file.remedy())
    }
}

/// Names the other journals of this machine that have open changes: what this one says is not all.
pub(super) fn warn_of_others(global: &Global) {
    for (state, other) in store(global).others().unwrap_or_default() {
        if other.open_ids().map_or(true, |open| open.is_empty()) {
            continue;
        }
        let state = sh::word(&state.to_string_lossy());
        // If even standard error is closed, nothing can be reported.
        let _ = writeln!(
            output::stderr(),
            "rxlab: another journal has open changes: `rxlab --state-dir {state} status`"
        );
    }
}

/// Reports on standard error what cannot be read.
pub(super) fn warn(unreadable: &[Unreadable]) {
    for file in unreadable {
        // If even standard error is closed, nothing can be reported.
        let _ = writeln!(output::stderr(), "rxlab: {}", clean(&file.to_string()));
        let _ = writeln!(output::stderr(), "  hint: {}", file.remedy());
    }
}
