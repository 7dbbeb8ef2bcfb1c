//! Limit on the cost of measuring softirq time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rxlab_base::serde_as_text;
use rxlab_base::units::parse_share;

/// Nanoseconds that the two programs add to a run (docs/adr/0018).
const RUN_NS: f64 = 250.0;
/// CPU time of attaching and detaching them, on all CPUs together (docs/adr/0018).
const WINDOW_NS: f64 = 1e6;
/// One window per period, unless that is too often ...
const PERIOD: Duration = Duration::from_millis(250);
/// ... even for the shortest window.
pub(super) const SHORTEST: Duration = Duration::from_millis(5);
/// The first window, before the rate of runs is known.
const FIRST: Duration = Duration::from_millis(10);

/// Smallest budget: less would measure nothing in an hour.
const LEAST: f64 = 1e-5;

/// Fraction of its time that measuring may take from the CPU with the most softirqs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Budget(f64);

/// A text that is not a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid budget `{0}`: must be a percentage from 0.001 to 100, such as 1% or 0.5%")]
pub struct BudgetError(String);

/// Time for which the programs are attached in each period; all the time if both are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rhythm {
    pub(super) window: Duration,
    pub(super) period: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self(0.01)
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        // A number alone is a percentage too: a whole CPU is never meant.
        let percentage = if text.contains('%') { text.to_owned() } else { format!("{text}%") };
        let share = parse_share(&percentage).ok().filter(|share| *share >= LEAST);
        share.map(Self).ok_or_else(|| BudgetError(text.to_owned()))
    }
}

serde_as_text!(Budget);

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As written: 0.07 % is 0.0007 of the time, which does not convert back exactly.
        write!(f, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

impl Budget {
    /// Time over which `spent` CPU time is this part of one CPU.
    pub fn period(self, spent: Duration) -> Duration {
        spent.div_f64(self.0)
    }

    /// The rhythm that keeps to the budget on a CPU with `rate` softirq runs per second; `None` = not known
    /// yet.
    pub(super) fn rhythm(self, rate: Option<f64>) -> Rhythm {
        let Some(rate) = rate else { return Rhythm { window: FIRST, period: PERIOD } };
        let attached = rate * RUN_NS / 1e9;
        if attached <= self.0 {
            return Rhythm { window: PERIOD, period: PERIOD };
        }
        let once = WINDOW_NS / 1e9;
        let window = ((self.0 * PERIOD.as_secs_f64() - once) / attached).max(SHORTEST.as_secs_f64());
        let period = PERIOD.max(Duration::from_secs_f64((once + window * attached) / self.0));
        Rhythm { window: Duration::from_secs_f64(window), period }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Budget, PERIOD, RUN_NS, SHORTEST, WINDOW_NS};

    #[test]
    fn what_is_written_reads_the_same() {
        for text in ["1%", "0.5%", "0.07%", "100%"] {
            let budget: Budget = text.parse().expect("a percentage");
            assert_eq!(budget.to_string(), text);
        }
        assert_eq!("1".parse(), Ok(Budget::default()));
        assert_eq!("1 %".parse(), Ok(Budget::default()));
        for text in ["0", "-1%", "101%", "NaN", "much", "", "%"] {
            let error = text.parse::<Budget>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("invalid budget `{text}`")), "{error}");
        }
    }

    #[test]
    fn measuring_keeps_to_its_budget() {
        let of = |budget: &str, rate| budget.parse::<Budget>().expect("a percentage").rhythm(rate);
        for budget in ["0.1%", "1%", "5%"] {
            let part = budget.trim_end_matches('%').parse::<f64>().expect("a number") / 100.0;
            for rate in [1.0, 1e4, 4.1e4, 2e5, 1e6, 1e7] {
                let rhythm = of(budget, Some(rate));
                let (window, period) = (rhythm.window.as_secs_f64(), rhythm.period.as_secs_f64());
                let once = if window < period { WINDOW_NS } else { 0.0 };
                let spent = (window * rate * RUN_NS + once) / 1e9;
                assert!(spent <= part * period * 1.000_1, "{budget} {rate} {rhythm:?}");
                assert!(rhythm.window >= SHORTEST && rhythm.period >= PERIOD, "{budget} {rate} {rhythm:?}");
            }
        }
        assert_eq!(of("1%", Some(10_000.0)).window, PERIOD, "all the time");
        assert_eq!(of("1%", Some(200_000.0)).window, Duration::from_millis(30));
        assert!(of("1%", None).window < of("1%", None).period, "nothing is known");
    }
}
