//! What killed processes and guards have left for the next command: changes to put back, and notices to pass on.

use std::io::Write;

use super::{machine, output, place, undo};
use crate::apply::{self, Abandoned};
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::host::ProcessId;
use crate::journal::Notice;

/// Says what guards have put back since the last command, each once. A reader that may not take a notice away leaves
/// it to one that may. Returns how many there were.
pub(super) fn pass_on_notices(global: &Global) -> usize {
    let notices = place::store(global).take_notices();
    for notice in &notices {
        // When even standard error is closed there is no way left to tell.
        let _ = writeln!(output::stderr(), "rxlab: {notice}");
    }
    notices.len()
}

/// Puts back what a killed process has left behind, and says so; then an error while a change still waits for its
/// confirmation. Commands that are going to change the machine begin with this.
pub(super) fn clear(global: &Global) -> Result<(), CommandError> {
    let store = place::store(global);
    // Without any journal there is nothing to lock, and no directory is made for a lock.
    if store.open_ids().map_err(place::journal_error)?.is_empty() {
        return Ok(());
    }
    let (own, identity) = machine::own(global)?;
    let root = place::root(global)?.to_string_lossy().into_owned();
    let machine = (&*root, &identity);
    let abandoned =
        apply::undo_abandoned(&store, &own, machine, ProcessId::is_alive).map_err(undo::explain)?;
    for Abandoned { what, lapse, undo } in abandoned {
        let id = &undo.id;
        if !undo.closed {
            let message = format!("transaction {id} ({what}) {lapse} and cannot be put back");
            let hint =
                format!("`rxlab undo {id}` tries again, `rxlab undo --forget {id}` gives its values up");
            return Err(undo::hints(CommandError::new(Kind::Changed, message), &undo).hint(hint));
        }
        let notice = Notice { id: id.clone(), what, lapse, is_closed: true };
        let said = undo::hints(CommandError::new(Kind::Changed, notice), &undo);
        // The way is clear whether or not standard error takes this.
        let _ = writeln!(output::stderr(), "rxlab: {said}");
    }
    place::nothing_waits(&store.open_of(&root, &identity.boot_id).map_err(place::journal_error)?)
}
