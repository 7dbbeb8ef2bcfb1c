//! Requests per second over time: steady, in steps, or along a ramp.
//!
//! Everything follows from the number of requests due up to a moment, and its inverse: the moment at
//! which request `n` is due. Both are computed for each request, so no error accumulates.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::clock::{Nanos, SECOND};
use rxlab_base::units::{format_duration, parse_count, parse_duration};

const MAX_RATE: f64 = 1e9;
/// More steps than anyone writes, few enough to walk through for every request.
const MAX_PHASES: usize = 64;

/// A rate over time: `1000`, `0.5`, `100..5000/10s` (from 100 to 5000 per second within ten
/// seconds), or several in turn: `1000/5s,2000/5s,4000`. The last rate continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Written", into = "Written")]
pub struct Rate {
    phases: Vec<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Phase {
    from: f64,
    to: f64,
    /// `None`: unlimited, only valid for the last.
    length: Option<Duration>,
}

/// A rate in a file: a number or text.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Written {
    Number(f64),
    Text(String),
}

/// A text that is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "invalid rate `{0}`: must be above 0 and at most {MAX_RATE} requests per second, such as 1000, 10k, 0.5, \
     100..5000/10s or 1000/5s,2000/5s"
)]
pub struct RateError(String);

impl Rate {
    /// A constant rate. [`super::Spec::check`] validates it.
    pub fn steady(rate: f64) -> Self {
        Self { phases: vec![Phase { from: rate, to: rate, length: None }] }
    }

    /// The rate, if it is constant.
    pub fn is_steady(&self) -> Option<f64> {
        match self.phases[..] {
            [Phase { from, to, length: None }] if from == to => Some(from),
            _ => None,
        }
    }

    /// The same rate, preceded by `time` at its initial value.
    #[must_use]
    pub fn held_for(mut self, time: Duration) -> Self {
        if self.is_steady().is_none()
            && let Some(first) = self.phases.first().map(|phase| phase.from)
        {
            self.phases.insert(0, Phase { from: first, to: first, length: Some(time) });
        }
        self
    }

    /// Length of its steps and ramps; `None` if the last has no end.
    pub fn length(&self) -> Option<Duration> {
        self.phases.iter().map(|phase| phase.length).sum()
    }

    /// True if the rate can be kept.
    pub(super) fn is_valid(&self) -> bool {
        let Some((last, others)) = self.phases.split_last() else { return false };
        let rates = || self.phases.iter().flat_map(|phase| [phase.from, phase.to]);
        // One more than may be written: see `held_for`.
        self.phases.len() <= MAX_PHASES + 1
            && others.iter().all(|phase| phase.length.is_some())
            && self.phases.iter().all(|phase| phase.length.is_none_or(|length| !length.is_zero()))
            && (last.from == last.to || last.length.is_some())
            && rates().all(|rate| (0.0..=MAX_RATE).contains(&rate))
            && rates().any(|rate| rate > 0.0)
    }

    /// Nanoseconds from the start to request `n`, counted from 0; `None` if it never becomes due. Random
    /// arrivals use fractions of a request.
    pub(super) fn moment(&self, n: f64) -> Option<Nanos> {
        let (mut begin, mut left) = (0, n);
        for phase in &self.phases {
            let Some(length) = phase.length else { return phase.within(left).map(|at| begin + at) };
            let whole = phase.requests(length.as_secs_f64());
            if left < whole {
                let at = phase.within(left)?;
                return Some(begin + at.min(length.as_nanos() as Nanos));
            }
            left -= whole;
            begin += length.as_nanos() as Nanos;
        }
        let last = self.phases.last()?.to;
        Phase { from: last, to: last, length: None }.within(left).map(|at| begin + at)
    }

    /// Requests due within the first `time`, with the fraction of the next.
    pub(super) fn due(&self, time: Nanos) -> f64 {
        let (mut left, mut requests) = (time as f64 / SECOND as f64, 0.0);
        for phase in &self.phases {
            let Some(length) =
                phase.length.map(|length| length.as_secs_f64()).filter(|length| left > *length)
            else {
                return requests + phase.requests(left);
            };
            requests += phase.requests(length);
            left -= length;
        }
        requests + left * self.phases.last().map_or(0.0, |last| last.to)
    }
}

impl Phase {
    /// Slope of the rate, in requests per second per second.
    fn slope(&self) -> f64 {
        self.length.map_or(0.0, |length| (self.to - self.from) / length.as_secs_f64())
    }

    /// Requests within the first `seconds` of this phase.
    fn requests(&self, seconds: f64) -> f64 {
        self.from * seconds + self.slope() * seconds * seconds / 2.0
    }

    /// Nanoseconds from the start of this phase to its request `n`; `None` if it never comes.
    fn within(&self, n: f64) -> Option<Nanos> {
        if self.from == self.to {
            // As written, not via seconds: a constant rate has no further rounding.
            return (self.from != 0.0).then(|| (n * SECOND as f64 / self.from) as Nanos);
        }
        if n == 0.0 {
            return Some(0);
        }
        // The form of the quadratic formula that does not cancel.
        let root = (self.from * self.from + 2.0 * self.slope() * n).max(0.0).sqrt();
        Some((2.0 * n / (self.from + root) * SECOND as f64) as Nanos)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let phase = |text: &str| {
            let (rates, length) = match text.split_once('/') {
                Some((rates, length)) => (rates, Some(parse_duration(length).ok()?)),
                None => (text, None),
            };
            let (from, to) = rates.split_once("..").unwrap_or((rates, rates));
            let (from, to) = (parse_count(from)?, parse_count(to)?);
            Some(Phase { from, to, length })
        };
        let rate = text.split(',').map(phase).collect::<Option<_>>().map(|phases| Self { phases });
        rate.filter(Self::is_valid).ok_or_else(|| RateError(text.to_owned()))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Phase { from, to, length }) in self.phases.iter().enumerate() {
            write!(f, "{}{from}", if index > 0 { "," } else { "" })?;
            if from != to {
                write!(f, "..{to}")?;
            }
            if let Some(length) = length {
                write!(f, "/{}", format_duration(*length))?;
            }
        }
        Ok(())
    }
}

impl TryFrom<Written> for Rate {
    type Error = RateError;

    fn try_from(written: Written) -> Result<Self, RateError> {
        match written {
            Written::Number(rate) => Ok(Self::steady(rate)),
            Written::Text(text) => text.parse(),
        }
    }
}

impl From<Rate> for Written {
    fn from(rate: Rate) -> Self {
        rate.is_steady().map_or_else(|| Written::Text(rate.to_string()), Written::Number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Rate, SECOND};

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    fn moments(text: &str, requests: &[u64]) -> Vec<Option<f64>> {
        requests.iter().map(|n| rate(text).moment(*n as f64).map(|at| at as f64 / SECOND as f64)).collect()
    }

    #[test]
    fn rates_read_as_they_are_written() {
        for text in ["1000", "0.5", "100..5000/10s", "1000/5s,2000/500ms,4000", "0/1s,10..0/2s"] {
            assert_eq!(rate(text).to_string(), text);
        }
        assert_eq!(rate("10k..1.5M/10s").to_string(), "10000..1500000/10s");
        assert_eq!(rate("1000").is_steady(), Some(1000.0));
        assert_eq!(rate("1000/1s").is_steady(), None);
        assert_eq!(rate("1/5s,2..3/5s").length(), Some(std::time::Duration::from_secs(10)));
        assert_eq!(rate("1/5s,2").length(), None);
    }

    /// A warm-up precedes the ramp and does not shorten it.
    #[test]
    fn a_rate_is_held_before_it_begins() {
        let second = std::time::Duration::from_secs(1);
        assert_eq!(rate("100..5000/10s").held_for(second).to_string(), "100/1s,100..5000/10s");
        assert_eq!(rate("0..5/10s,2").held_for(second).to_string(), "0/1s,0..5/10s,2");
        assert_eq!(rate("1000").held_for(second), rate("1000"));
    }

    #[test]
    fn nonsense_is_no_rate() {
        for bad in [
            "",
            "0",
            "-1",
            "1e3",
            "inf",
            "nan",
            "1..2",
            "1/0s",
            "1,2",
            "1/5",
            "2000000000",
            "1/5s,",
            "0..0/1s",
        ] {
            assert!(bad.parse::<Rate>().is_err(), "{bad:?} gives {:?}", bad.parse::<Rate>());
        }
    }

    #[test]
    fn steps_follow_each_other_exactly() {
        // Two at 2/s, then four per second from the first second on.
        assert_eq!(moments("2/1s,4", &[0, 1, 2, 3, 6]), [0.0, 0.5, 1.0, 1.25, 2.0].map(Some));
        // The last rate holds; a pause is a rate of 0.
        assert_eq!(moments("1/1s,0/2s,1/1s", &[0, 1, 2]), [0.0, 3.0, 4.0].map(Some));
        assert_eq!(moments("1/1s,0/2s", &[0, 1]), [Some(0.0), None]);
    }

    #[test]
    fn a_ramp_is_the_area_under_its_line() {
        // From 0 to 10 per second within ten seconds: 50 requests, half of the way after a quarter of them.
        assert_eq!(moments("0..10/10s", &[0]), [Some(0.0)]);
        assert!((rate("0..10/10s").due(10 * SECOND) - 50.0).abs() < 1e-9);
        let half = moments("0..50/10s", &[0, 62, 63])[1].expect("due");
        assert!((half - (62.0f64 / 2.5).sqrt()).abs() < 1e-6, "{half}");
        assert!((rate("10..0/10s").due(20 * SECOND) - 50.0).abs() < 1e-9, "and nothing more");
        assert_eq!(rate("10..0/10s").moment(51.0), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_errs(text in "[0-9.,/ms]{0,20}|.{0,20}") {
            if let Ok(rate) = text.parse::<Rate>() {
                prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
            }
        }

        /// A moment and the requests due by it are consistent across all phases.
        #[test]
        fn moments_are_the_inverse_of_what_is_due(
            phases in proptest::collection::vec((1u32..5000, 1u32..5000, 1u32..5000), 1..5),
            n in 0u32..20_000,
        ) {
            let text: Vec<_> = phases.iter().map(|(from, to, ms)| format!("{from}..{to}/{ms}ms")).collect();
            let rate = rate(&text.join(","));
            let at = rate.moment(f64::from(n)).expect("no phase ends at 0");
            prop_assert!((rate.due(at) - f64::from(n)).abs() < 0.001, "{} {}", rate.due(at), n);
            prop_assert!(rate.moment(f64::from(n) + 1.0).expect("due") >= at);
        }
    }
}
