//! What the commands that change the machine share: where the journal is, which machine a
//! transaction belongs to, and what an error means to the user.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::machine::{self, Machine};
use crate::apply::{ApplyError, without_namespace};
use crate::cli::Global;
use crate::error::CommandError;
use crate::journal::{Archived, Begin, Disk, History, JournalError, LockError, Namespace, Store};

/// The journal.
pub(super) fn store(global: &Global) -> Store {
    Store::new(Disk::new(&global.state_dir))
}

/// The root as the journal spells it.
pub(super) fn root(global: &Global) -> Result<PathBuf, CommandError> {
    let root = global.root.canonicalize();
    root.map_err(|error| {
        CommandError::usage(format!("cannot open the root {}: {error}", global.root.display()))
    })
}

/// The machine that a transaction belongs to, as it is now. When its network namespace is no more,
/// the machine without virtual interfaces.
pub(super) fn of_transaction(global: &Global, begin: &Begin) -> Result<Machine, CommandError> {
    let present = begin.netns.as_ref().map(Namespace::present);
    let gone = matches!(present, Some(None));
    let netns = present.flatten().map(|path| path.to_string_lossy().into_owned());
    let mut machine = machine::open(&Global { netns, ..global.clone() })?;
    if gone {
        machine.model = without_namespace(machine.model);
    }
    Ok(machine)
}

/// The guard runs in `/`: every path is absolute.
pub(super) fn guard_arguments(global: &Global, root: &Path, id: &str) -> Result<Vec<OsString>, CommandError> {
    let state = std::path::absolute(&global.state_dir)?;
    Ok(vec!["--root".into(), root.into(), "--state-dir".into(), state.into(), "guard".into(), id.into()])
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
            Some(format!("archived {id}: the machine was started anew since, its values went with it"))
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
            "put the values of its `before` fields back by hand, then move the file away"
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
        error => CommandError::new(error.kind(), error),
    }
}
