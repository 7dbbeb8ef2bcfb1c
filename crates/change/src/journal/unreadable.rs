//! Files of transactions that cannot be read completely.

use std::path::PathBuf;

use thiserror::Error;

use super::recover::History;
use super::store::age;

/// The file of a transaction that cannot be read completely.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("transaction {id} cannot be read{}: {why} ({})", if readable.is_some() { " completely" } else { "" }, path.display())]
pub struct Unreadable {
    pub id: String,
    pub path: PathBuf,
    pub why: Unread,
    /// The contents of valid lines; `None` if the file is temporarily unreadable.
    pub readable: Option<History>,
}

/// Reason why the file of a transaction cannot be read completely.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unread {
    /// It has records that this version does not understand.
    #[error("a later version of rxlab wrote to it")]
    LaterVersion,
    /// The first invalid line.
    #[error("line {0} is damaged")]
    Damaged(usize),
    #[error("its journal is missing")]
    Missing,
    /// An error of the file or of the machine that the transaction was made on.
    #[error("{0}")]
    Other(String),
}

impl Unreadable {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        let forget = format!("`rxlab undo --forget {}`", self.id);
        match self.why {
            Unread::LaterVersion => format!("install that version, or give its values up: {forget}"),
            Unread::Damaged(_) => {
                format!("restore the values of its `before` fields by hand, then run {forget}")
            }
            Unread::Missing | Unread::Other(_) => {
                format!("bring back what is missing, or give its values up: {forget}")
            }
        }
    }

    /// True if it began after the transaction `id`: it may have changed the same values since.
    pub fn is_after(&self, id: &str) -> bool {
        age(&self.id) > age(id)
    }

    /// True if it may be waiting for its confirmation: the first line, with the deadline, is unreadable, or has one.
    pub fn may_wait(&self) -> bool {
        self.readable
            .as_ref()
            .is_none_or(|history| history.begin().is_none() || history.pending_deadline().is_some())
    }
}
