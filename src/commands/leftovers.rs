//! Leftovers of killed processes and guards for the next command: changes to revert, and notices to print.

use std::io::Write;

use super::{Global, machine, output, place, undo};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{self, Abandoned};
use rxlab_change::journal::Notice;
use rxlab_sys::ProcessId;

/// Prints what guards have reverted since the last command, each once. A user who may not remove a notice leaves it to
/// one who may. Returns the number of notices.
pub(super) fn pass_on_notices(global: &Global) -> usize {
    let notices = place::store(global).take_notices();
    for notice in &notices {
        // If even standard error is closed, nothing can be reported.
        let _ = writeln!(output::stderr(), "rxlab: {notice}");
    }
    notices.len()
}

/// Reverts and reports what killed processes have left behind; then returns an error if a change still waits for its
/// confirmation. Commands that change the machine start with this.
pub(super) fn clear(global: &Global) -> Result {
    let store = place::store(global);
    // Without a journal there is nothing to lock, and no directory is created for a lock.
    if store.open_ids()?.is_empty() {
        return Ok(());
    }
    let (own, identity) = machine::own(global)?;
    let root = place::root(global)?.to_string_lossy().into_owned();
    let machine = (&*root, &identity);
    let abandoned = apply::undo_abandoned(&store, &own, machine, ProcessId::is_alive)?;
    for Abandoned { what, lapse, undo } in abandoned {
        let id = &undo.id;
        if !undo.closed {
            let message = format!("transaction {id} ({what}) {lapse} and cannot be reverted");
            let hint =
                format!("`rxlab undo {id}` tries again, `rxlab undo --forget {id}` gives its values up");
            return Err(undo::hints(CommandError::new(Kind::Changed, message), &undo).hint(hint));
        }
        let notice = Notice { id: id.clone(), what, lapse, is_closed: true };
        let said = undo::hints(CommandError::new(Kind::Changed, notice), &undo);
        // Done, whether or not standard error accepts this.
        let _ = writeln!(output::stderr(), "rxlab: {said}");
    }
    place::nothing_waits(&store.open_of(&root, &identity.boot_id)?)
}
