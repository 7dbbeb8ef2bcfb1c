//! `rxlab confirm`: keep a change before its deadline.

use serde_json::json;

use super::{Global, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{self, ConfirmError};
use rxlab_faces::report::text::command_lines;
use rxlab_sys::boottime_ns;

/// Keep a change that was applied with --confirm
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The transaction; optional if only one waits
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Keep it even after its deadline, if nothing has reverted it
    #[arg(long)]
    late: bool,
}

pub(crate) fn run(global: &Global, args: Args) -> Result {
    confirm(global, args.id.as_deref(), args.late)
}

/// Confirms the transaction whose id starts with `id`, or the one that waits, and prints it. One whose deadline has
/// passed only if `late`.
pub(super) fn confirm(global: &Global, id: Option<&str>, late: bool) -> Result {
    let identity = machine::open(global)?.model.identity;
    let root = place::root(global)?;
    let machine = (&*root.to_string_lossy(), &identity);
    let now = || if late { 0 } else { boottime_ns() };
    let id = apply::confirm_in_time(&place::store(global), machine, id, now).map_err(|error| {
        if matches!(error, ConfirmError::NothingWaits) {
            place::warn_of_others(global);
        }
        explain(error)
    })?;
    let stays = if late {
        // A guard that could not add to the journal has said nothing.
        format!("transaction {id} is kept; its guard may have reverted values: `rxlab status` shows them")
    } else {
        format!("transaction {id} is kept; `rxlab undo {id}` reverts it")
    };
    let value = json!({ "schema": "rxlab.confirm/1", "transaction": id });
    // It compares with the sample before the change, if the change had a prediction.
    let next = command_lines("next: ", &format!("{} doctor", global.program()));
    let next = if output::is_interactive() { next.as_str() } else { "" };
    output::print(global, &value, || format!("{stays}\n{next}")).map_err(|error| error.hint(&stays))
}

fn explain(error: ConfirmError) -> CommandError {
    let changed = |error: &ConfirmError| CommandError::new(Kind::Changed, error);
    match error {
        ConfirmError::Journal(error) => error.into(),
        ConfirmError::NothingWaits => {
            changed(&error).hint("a change whose deadline has passed was reverted; see `rxlab status`")
        }
        ConfirmError::Unreadable(file) => (&*file).into(),
        ConfirmError::TooLate(_) => changed(&error),
        ConfirmError::Incomplete(ref id) => changed(&error).hint(format!("`rxlab undo {id}` reverts it")),
        ConfirmError::Overdue { ref id, .. } => changed(&error)
            .hint(format!("`rxlab undo {id}` reverts it, `rxlab confirm --late {id}` keeps it")),
        ConfirmError::GoesBack(ref id) => changed(&error).hint(format!("`rxlab undo {id}` finishes it")),
    }
}
