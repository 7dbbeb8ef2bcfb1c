//! Checkpoints of a trial at later times: when each is due, and its outcome.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::checkpoint::State;
use rxlab_base::units::rfc3339;

/// Time after which a checkpoint that was due counts as missed: schedulers may be late, and slots take time.
const GRACE: SignedDuration = SignedDuration::from_mins(15);

/// A checkpoint at a later time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scheduled {
    /// When it is due, RFC 3339 in UTC.
    pub due: String,
    /// Slots to measure.
    pub slots: u32,
    /// Its outcome; `None` before it was tried.
    pub outcome: Option<Outcome>,
}

/// Outcome of a scheduled checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Outcome {
    /// It was taken.
    Taken {
        /// What it showed.
        state: State,
    },
    /// It could not be taken.
    Failed {
        /// When it was tried, RFC 3339 in UTC.
        tried: String,
        /// The reason.
        why: String,
    },
}

/// Standing of a scheduled checkpoint at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<'a> {
    /// It is due later, or now.
    Waiting,
    /// It was due, and nothing tried it.
    Missed,
    Taken(State),
    /// Taking it failed, for this reason.
    Failed(&'a str),
}

impl Scheduled {
    /// A checkpoint of `slots` slots, due `after` from `now`.
    ///
    /// # Errors
    /// A time that no calendar has.
    pub fn new(now: Timestamp, after: Duration, slots: u32) -> Result<Self, jiff::Error> {
        let due = now.checked_add(SignedDuration::try_from(after)?)?;
        Ok(Self { due: rfc3339(due), slots, outcome: None })
    }

    /// True if it is due at `now` and was not tried. A time that cannot be read is due.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.outcome.is_none() && self.due_at().is_none_or(|due| due <= now)
    }

    pub fn standing(&self, now: Timestamp) -> Standing<'_> {
        let is_late = self.due_at().is_none_or(|due| now.duration_since(due) > GRACE);
        match &self.outcome {
            Some(Outcome::Taken { state }) => Standing::Taken(*state),
            Some(Outcome::Failed { why, .. }) => Standing::Failed(why),
            None if is_late => Standing::Missed,
            None => Standing::Waiting,
        }
    }

    /// Due time in the form of systemd.time(7); `None` for a time that cannot be parsed.
    pub fn calendar(&self) -> Option<String> {
        Some(self.due_at()?.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
    }

    fn due_at(&self) -> Option<Timestamp> {
        self.due.parse().ok()
    }
}

impl Standing<'_> {
    /// True if it was due and gave no answer.
    pub fn is_lost(self) -> bool {
        matches!(self, Standing::Missed | Standing::Failed(_))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::{SignedDuration, Timestamp};

    use super::{Outcome, Scheduled, Standing};
    use crate::checkpoint::State;

    #[test]
    fn a_checkpoint_waits_then_is_due_then_missed() {
        let now: Timestamp = "2026-11-24T10:00:00Z".parse().expect("a time");
        let later = |minutes: i64| now + SignedDuration::from_mins(minutes);
        let mut scheduled = Scheduled::new(now, Duration::from_secs(3600), 10).expect("a time");
        assert_eq!(scheduled.due, "2026-11-24T11:00:00Z");
        assert_eq!(scheduled.calendar().as_deref(), Some("2026-11-24 11:00:00 UTC"));
        assert!(!scheduled.is_due(later(59)) && scheduled.is_due(later(60)));
        let standings = [0, 74, 76].map(|minutes| scheduled.standing(later(minutes)));
        assert_eq!(standings, [Standing::Waiting, Standing::Waiting, Standing::Missed]);
        scheduled.outcome = Some(Outcome::Failed { tried: String::new(), why: "no eth0".to_owned() });
        assert_eq!(scheduled.standing(later(76)), Standing::Failed("no eth0"));
        assert!(scheduled.standing(now).is_lost() && !scheduled.is_due(later(76)), "it is not tried again");
        scheduled.outcome = Some(Outcome::Taken { state: State::Holds });
        assert_eq!(scheduled.standing(later(76)), Standing::Taken(State::Holds));
    }

    #[test]
    fn a_damaged_time_is_due_and_missed() {
        let damaged = Scheduled { due: "soon".to_owned(), slots: 2, outcome: None };
        let now = Timestamp::now();
        assert!(damaged.is_due(now) && damaged.standing(now) == Standing::Missed);
        assert_eq!(damaged.calendar(), None);
    }
}
