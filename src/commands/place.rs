//! What the commands that change the machine share: where the journal is, which machine a
//! transaction belongs to, and what an error means to the user.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{machine, output};
use crate::apply::{self, ApplyError};
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::host::{Hidden, Host, Namespace};
use crate::journal::{Archived, Begin, Disk, History, JournalError, LockError, Store, Unreadable};
use crate::model::Model;
use crate::sample::{Inventory, Scope};

/// The journal. Below another root it has a lock of its own: those files are no machine.
pub(super) fn store(global: &Global) -> Store {
    let is_this_machine = global.root == Path::new("/");
    Store::new(match is_this_machine {
        true => Disk::of_this_machine(&global.state_dir, &global.run_dir),
        false => Disk::new(&global.state_dir),
    })
}

/// The network namespace of this process, where `root` is this machine.
pub(super) fn home(root: &Path) -> Option<Namespace> {
    Namespace::own().ok().filter(|_| root == Path::new("/"))
}

/// The root as the journal spells it.
pub(super) fn root(global: &Global) -> Result<PathBuf, CommandError> {
    let root = global.root.canonicalize();
    root.map_err(|error| {
        CommandError::usage(format!("cannot open the root {}: {error}", global.root.display()))
    })
}

/// The machine that a transaction belongs to, and its receive path as it is now.
pub(super) fn of_transaction(global: &Global, begin: &Begin) -> Result<(Box<dyn Host>, Model), CommandError> {
    let (own, _) = machine::host(&Global { netns: None, ..global.clone() })?;
    let lost = |hidden: Hidden| {
        CommandError::new(
            Kind::Changed,
            format!("the network namespace of {} was not found: {hidden}", begin.id),
        )
        .hint(format!("`rxlab undo --forget {}` gives its values up", begin.id))
    };
    let host = apply::reach(&own, begin).map_err(lost)?.unwrap_or_else(|| Box::new(own));
    let model = machine::describe(&Inventory::take(&*host, Scope::Path))?;
    Ok((host, model))
}

/// The guard runs in `/`: every path is absolute.
pub(super) fn guard_arguments(global: &Global, root: &Path, id: &str) -> Result<Vec<OsString>, CommandError> {
    let state = std::path::absolute(&global.state_dir)?;
    let run = std::path::absolute(&global.run_dir)?;
    let places = [("--root", root.to_owned()), ("--state-dir", state), ("--run-dir", run)];
    let mut arguments: Vec<OsString> = Vec::new();
    places.into_iter().for_each(|(flag, path)| arguments.extend([flag.into(), path.into()]));
    arguments.extend(["guard".into(), id.into()]);
    Ok(arguments)
}

/// Set by the first SIGINT, SIGTERM or SIGHUP, so that work ends between two steps and puts the
/// machine back.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, CommandError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| CommandError::failed(format!("cannot listen for signals: {error}")))?;
    }
    Ok(stop)
}

/// The identities of what was put into the archive, with the reason, one line each.
pub(super) fn archived_lines(archived: &[Archived]) -> Vec<String> {
    let line = |archived: &Archived| match archived {
        Archived::OtherBoot(id) => {
            Some(format!("archived {id}: the machine has been rebooted since, and its values are gone"))
        }
        Archived::Leftover(_) => None,
    };
    archived.iter().filter_map(line).collect()
}

/// An error while one of the open transactions waits for its confirmation.
pub(super) fn nothing_waits(open: &[(String, History)]) -> Result<(), CommandError> {
    match open.iter().find(|(_, history)| history.pending_deadline().is_some()) {
        Some((id, _)) => Err(apply_error(ApplyError::Pending { id: id.clone() })),
        None => Ok(()),
    }
}

/// A journal error with what to do about it.
pub(super) fn journal_error(error: JournalError) -> CommandError {
    let kind = error.kind();
    let hint = match &error {
        JournalError::Lock(LockError::Held { .. }) => {
            "one process changes the machine at a time; wait for it, or end it and run `rxlab undo`"
        }
        JournalError::Damaged { .. } => {
            "put the values of its `before` fields back by hand, then run `rxlab undo --forget` with its id"
        }
        JournalError::LaterVersion { .. } => "install that version",
        JournalError::Lock(LockError::Untrusted { .. }) => {
            "let only root own it and write to it, or name another one with --state-dir"
        }
        JournalError::Unknown { .. } => "see `rxlab status`",
        JournalError::Io { .. } | JournalError::Lock(LockError::Io { .. }) => {
            "--state-dir DIR or RXLAB_STATE_DIR puts the journal elsewhere"
        }
    };
    CommandError::new(kind, error).hint(hint)
}

/// An error of applying with what to do about it.
pub(super) fn apply_error(error: ApplyError) -> CommandError {
    match error {
        ApplyError::Journal(error) => journal_error(error),
        ApplyError::Pending { ref id } => {
            let hint = format!("`rxlab confirm {id}` keeps it, `rxlab undo {id}` puts it back");
            CommandError::new(error.kind(), &error).hint(hint)
        }
        ApplyError::OtherJournal { ref state, ref id } => {
            let hint =
                format!("run `rxlab --state-dir {} undo {id}` first, or use that journal", state.display());
            CommandError::new(error.kind(), &error).hint(hint)
        }
        ApplyError::Unreadable { ref id, .. } => {
            let hint = format!("put it back by hand, then run `rxlab undo --forget {id}`");
            CommandError::new(error.kind(), &error).hint(hint)
        }
        error => CommandError::new(error.kind(), error),
    }
}

/// Says on standard error which files cannot be read: what they hold is neither shown nor put back.
pub(super) fn warn(unreadable: &[Unreadable]) {
    for Unreadable { id, path, why, .. } in unreadable {
        let path = path.display();
        // When even standard error is closed there is no way left to tell.
        let _ = writeln!(output::stderr(), "rxlab: passed over transaction {id}: {why} ({path})");
        let hint = format!(
            "put the values of its `before` fields back by hand, then run `rxlab undo --forget {id}`"
        );
        let _ = writeln!(output::stderr(), "  hint: {hint}");
    }
}
