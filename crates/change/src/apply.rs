//! Changes the machine and reverts changes: the only caller of `Knob::write`.
//!
//! Every write goes through a [`Transaction`], whose journal has the old value on disk before the
//! new one is written. Which value to set and how to write it are decided elsewhere.

mod abandoned;
mod backwards;
mod caught;
mod check;
mod commands;
mod deadline;
mod displaced;
mod drift;
mod ending;
mod environment;
mod error;
mod groups;
mod kept;
mod leave;
mod locate;
mod other_names;
mod owners;
mod reapply;
mod rehearse;
mod retire;
mod search;
mod set;
mod status;
mod status_diff;
#[cfg(test)]
mod testbed;
mod transaction;
mod undo;

pub use crate::journal::UndoOutcome;
pub use abandoned::{Abandoned, undo_abandoned};
pub use backwards::covered_by;
pub use backwards::{Backwards, UndoError, Undone, Waiting, Which, rehearse_undo, undo};
pub use check::{awaits, check};
pub use commands::CommandUndo;
pub use deadline::{ConfirmError, confirm, confirm_in_time};
pub use deadline::{Guard, LiveWatchpost, Watchpost, hold_deadline, launch_guard};
pub use drift::{Culprit, Likelihood, Suspect, in_words};
pub use ending::{Ending, ending};
pub use error::ApplyError;
pub use kept::kept;
pub use locate::reach;
pub use locate::{look, object_id};
pub use owners::{OtherOwner, other_owners};
pub use reapply::{Reapplied, Reapply, preview_reapply};
pub use rehearse::{Change, rehearse};
pub use retire::{Again, retire};
pub use status::{Live, State, TransactionStatus, ValueStatus, state, status};
pub use status_diff::{News, StatusDiff};
pub use transaction::{BeginInfo, Failure, Kept, Transaction};
pub use undo::{Undo, UndoOptions};
