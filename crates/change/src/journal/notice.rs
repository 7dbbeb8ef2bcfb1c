//! Messages that guards leave for the next command to print.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::record::Outcome;
use rxlab_base::display_as;
use rxlab_base::number::plural;
use rxlab_setting::Target;

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

/// Findings and actions of an undo for one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoOutcome {
    pub knob: String,
    /// Target, by its current name if the device still exists.
    pub target: Target,
    /// The value to restore.
    pub original: String,
    /// The last value that the transaction asked for.
    pub wanted: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The user should check: the value is not the original one and was not expected to go.
    pub trouble: bool,
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
    /// What was done with each value. Empty in notices of earlier versions.
    #[serde(default)]
    pub values: Vec<UndoOutcome>,
}

impl Notice {
    /// Values that are not as they were before.
    pub fn troubles(&self) -> impl Iterator<Item = &UndoOutcome> {
        self.values.iter().filter(|value| value.trouble)
    }

    /// True if every value is as it was before, or went with its device.
    pub fn is_clean(&self) -> bool {
        self.is_closed && self.troubles().next().is_none()
    }
}

display_as! { Lapse:
    NotConfirmed => "was not confirmed in time",
    Killed => "was left behind by a killed process",
    Unguarded => "lost its guard",
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Notice { id, what, lapse, is_closed, values } = self;
        write!(f, "transaction {id} ({what}) {lapse} and ")?;
        let (all, left) = (values.len(), self.troubles().count());
        let gone = values.iter().filter(|value| value.outcome == Outcome::Gone && !value.trouble).count();
        let is_in_part = |value: &UndoOutcome| matches!(value.outcome, Outcome::RestoredInPart { .. });
        match left {
            0 if !is_closed => f.write_str("was reverted in part"),
            0 if gone == 0 => f.write_str("was reverted"),
            0 if gone == all => f.write_str("is over: what it was set on no longer exists"),
            0 => write!(f, "was reverted, except {} that no longer exist", plural(gone, "value")),
            _ if left + gone == all && !values.iter().any(is_in_part) => {
                write!(f, "was not reverted: {} left", plural(left, "value"))
            }
            _ => write!(f, "was reverted in part: {left} of {} left", plural(all, "value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Lapse, Notice, UndoOutcome};
    use crate::journal::Outcome;

    fn value(outcome: Outcome, trouble: bool) -> UndoOutcome {
        let target = "eth0/rx-0".parse().expect("a target");
        let [knob, original, wanted] = ["rps", "0", "1"].map(str::to_owned);
        UndoOutcome { knob, target, original, wanted, outcome, trouble }
    }

    /// A value that another program had set was once "reverted" with the rest.
    #[test]
    fn a_notice_counts_what_was_left() {
        let drift = || value(Outcome::Drift { live: "3".into(), fresh: false }, true);
        let notice = |is_closed, values| {
            let (id, what, lapse) = ("000001-aaaa".to_owned(), "apply x".to_owned(), Lapse::NotConfirmed);
            let notice = Notice { id, what, lapse, is_closed, values };
            let text = serde_json::to_string(&notice).expect("JSON");
            assert_eq!(serde_json::from_str::<Notice>(&text).expect("read back"), notice);
            (notice.is_clean(), notice.to_string().rsplit(" and ").next().expect("a text").to_owned())
        };
        let restored = || value(Outcome::Restored, false);
        assert_eq!(notice(true, vec![restored()]), (true, "was reverted".into()));
        assert_eq!(notice(true, vec![drift()]), (false, "was not reverted: 1 value left".into()));
        let part = value(Outcome::RestoredInPart { restored: vec![], left: vec![], inherited: vec![] }, true);
        assert_eq!(notice(true, vec![part]), (false, "was reverted in part: 1 of 1 value left".into()));
        let mixed = vec![restored(), drift()];
        assert_eq!(notice(true, mixed), (false, "was reverted in part: 1 of 2 values left".into()));
        assert_eq!(notice(false, vec![]), (false, "was reverted in part".into()), "of an earlier version");
        // The interface was deleted, and one of the same name was made with the same value.
        let gone = || value(Outcome::Gone, false);
        let over = "is over: what it was set on no longer exists";
        assert_eq!(notice(true, vec![gone(), gone()]), (true, over.into()));
        let except = "was reverted, except 1 value that no longer exist";
        assert_eq!(notice(true, vec![restored(), gone()]), (true, except.into()));
        assert_eq!(notice(true, vec![gone(), drift()]), (false, "was not reverted: 1 value left".into()));
    }
}
