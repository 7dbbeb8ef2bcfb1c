//! Messages that guards leave for the next command to print.

use std::fmt;

use serde::{Deserialize, Serialize};

use rxlab_base::display_as;

/// Reason for an undo of an unconfirmed change without a user's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lapse {
    /// Its deadline passed without a confirmation.
    NotConfirmed,
    /// The process that applied it ended before everything was set.
    Killed,
    /// Its guard was told to end.
    Unguarded,
}

/// Message of a guard about a transaction that it reverted, for the next command to print.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The transaction that the guard reverted.
    pub id: String,
    /// Purpose of the transaction, as `Begin::what` says.
    pub what: String,
    /// Reason why it was reverted.
    pub lapse: Lapse,
    /// False when a value is left for the user to decide about.
    pub is_closed: bool,
}

display_as! { Lapse:
    NotConfirmed => "was not confirmed in time",
    Killed => "was left behind by a killed process",
    Unguarded => "lost its guard",
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notice { id, what, lapse, is_closed } = self;
        write!(f, "transaction {id} ({what}) {lapse} and was reverted")?;
        if *is_closed { Ok(()) } else { write!(f, " in part: `rxlab status` shows the rest") }
    }
}
