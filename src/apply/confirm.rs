//! Confirmation of a change that has a deadline, so that it stays.

use std::time::Duration;

use thiserror::Error;

use super::Transaction;
use crate::journal::{JournalError, Store};
use crate::model::Identity;

/// Reason why a change was not confirmed.
#[derive(Debug, Error)]
pub enum ConfirmError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No running deadline.
    #[error("no change is waiting for confirmation")]
    NothingWaits,
    /// Its deadline passed while we waited for the lock.
    #[error("transaction {0} is no longer waiting for confirmation")]
    TooLate(String),
    /// Only part of it was set.
    #[error("transaction {0} was stopped before everything was set")]
    Incomplete(String),
    /// Its deadline passed, and part of it could not be reverted yet.
    #[error("transaction {0} is being put back")]
    GoesBack(String),
}

/// Longest wait for the lock, which a guard or another command may hold.
const PATIENCE: Duration = Duration::from_secs(2);

/// Confirms the transaction whose id starts with `id`, or the waiting one, and returns its id.
pub fn confirm(
    store: &Store,
    (root, identity): (&str, &Identity),
    id: Option<&str>,
) -> Result<String, ConfirmError> {
    let mut waiting = store.open_of(root, &identity.boot_id)?;
    waiting.retain(|(_, history)| history.pending_deadline().is_some());
    if let Some(text) = id {
        let id = store.find(text)?;
        waiting.retain(|(waiting, _)| *waiting == id);
    }
    let (id, _) = waiting.pop().ok_or(ConfirmError::NothingWaits)?;
    let transaction = Transaction::resume(store, &id, PATIENCE)?;
    // Under the lock the guard cannot act; its earlier actions are visible here.
    let history = transaction.journal().history();
    if history.pending_deadline().is_none() {
        return Err(ConfirmError::TooLate(id));
    }
    if !history.is_complete() {
        return Err(ConfirmError::Incomplete(id));
    }
    if history.touched().iter().any(|touched| touched.outcome.is_some()) {
        return Err(ConfirmError::GoesBack(id));
    }
    transaction.confirm()?;
    Ok(id)
}
