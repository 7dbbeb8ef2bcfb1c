//! Leftovers of killed processes and guards for the next command: changes to revert, and notices to print.

use super::{Global, machine, output, place, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{self, Abandoned};
use rxlab_change::journal::Notice;
use rxlab_sys::ProcessId;

/// Prints what guards have reverted since the last command, and what they have left, each once. A user who may not
/// remove a notice leaves it to one who may.
pub(super) fn pass_on_notices(global: &Global) -> Vec<Notice> {
    let store = place::store(global);
    let notices = store.take_notices();
    for notice in &notices {
        if output::try_to_complain(&said(notice)).is_err() {
            // It was not read: the next command tries again.
            let _ = store.leave_notice(notice);
        }
    }
    notices
}

/// Returns an error if a guard has left a value: what it said was printed.
pub(super) fn verdict(notices: &[Notice]) -> Result {
    if notices.iter().all(Notice::is_clean) { Ok(()) } else { Err(CommandError::silent(Kind::Findings)) }
}

fn said(notice: &Notice) -> CommandError {
    let mut said = undo::hints(CommandError::new(Kind::Changed, notice), &notice.values);
    if !notice.is_closed {
        said = said.hint("`rxlab status` shows what is left");
    }
    said
}

/// Reverts and reports what killed processes have left behind; then returns an error if a change still waits for its
/// confirmation. Commands that change the machine start with this.
pub(super) fn clear(global: &Global) -> Result {
    let store = place::store(global);
    // Without a journal there is nothing to lock, and no directory is created for a lock.
    if store.is_empty()? {
        return Ok(());
    }
    let (own, identity) = machine::own(global)?;
    let root = place::root(global)?.to_string_lossy().into_owned();
    let machine = (&*root, &identity);
    let abandoned = apply::undo_abandoned(&store, &own, machine, ProcessId::seen_alive)?;
    for Abandoned { what, lapse, undo } in abandoned {
        let id = &undo.id;
        if !undo.closed {
            let message = format!("transaction {id} ({what}) {lapse} and cannot be reverted");
            let hint =
                format!("`rxlab undo {id}` tries again, `rxlab undo --forget {id}` gives its values up");
            return Err(undo::hints(CommandError::new(Kind::Changed, message), &undo.outcomes).hint(hint));
        }
        output::complain(&said(&undo.notice(what, lapse)));
    }
    place::nothing_waits(&store.open(&root, &identity.boot_id)?)
}
