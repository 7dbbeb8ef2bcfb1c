//! Ways to wait for the next request in the open loop: precise or cheap.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::clock::{MICROSECOND, Nanos};
use rxlab_base::display_as;

/// Way to wait for the next scheduled request. The result shows its cost: the client's CPU time, and how
/// late requests were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// Sleeps, and polls for the last 60 microseconds: precise to a microsecond, costs CPU time.
    Precise,
    /// Sleeps until the request is due: the wake-up delays it by some tens of microseconds.
    #[default]
    Timer,
    /// Wakes up once per millisecond, sends what is due and reads what has arrived: the least CPU time, but
    /// latency has a resolution of a millisecond.
    Coarse,
}

impl Pacing {
    /// Delay caused by this way of waiting, in nanoseconds: it does not indicate a client at its limit.
    pub(super) fn own_lag(self) -> Nanos {
        match self {
            Pacing::Precise | Pacing::Timer => 100 * MICROSECOND,
            Pacing::Coarse => 1_500 * MICROSECOND,
        }
    }
}

display_as! { Pacing:
    Precise => "precise",
    Timer => "timer",
    Coarse => "coarse",
}

/// A text that is not a pacing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid pacing `{0}`: must be precise, timer or coarse")]
pub struct PacingError(String);

impl FromStr for Pacing {
    type Err = PacingError;

    fn from_str(text: &str) -> Result<Self, PacingError> {
        [Pacing::Precise, Pacing::Timer, Pacing::Coarse]
            .into_iter()
            .find(|pacing| pacing.to_string() == text)
            .ok_or_else(|| PacingError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::Pacing;

    #[test]
    fn the_command_line_and_files_use_the_same_names() {
        for pacing in [Pacing::Precise, Pacing::Timer, Pacing::Coarse] {
            assert_eq!(pacing.to_string().parse(), Ok(pacing));
            assert_eq!(serde_json::to_value(pacing).expect("written"), pacing.to_string());
        }
        assert!("exact".parse::<Pacing>().is_err());
    }
}
