//! An estimate with its interval, as ratios minus one, and its text form.

use serde::{Deserialize, Serialize};

use rxlab_base::number::signed;
use rxlab_stats::interval::Interval;

const MOST_DECIMALS: usize = 6;

/// An estimate with its interval, all as ratios minus one (0.05 = +5 %).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// Point estimate: exp(mean of the log ratios) - 1.
    pub mid: f64,
    /// Lower end; -1 = no lower bound yet.
    pub low: f64,
    /// Upper end; infinite (JSON null) = no upper bound yet.
    #[serde(with = "infinite")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
}

impl From<Interval> for Effect {
    /// The interval of log ratios as ratios minus one.
    fn from(interval: Interval) -> Self {
        Self { mid: interval.mid.exp_m1(), low: interval.low.exp_m1(), high: interval.high.exp_m1() }
    }
}

/// JSON has no infinity: written as null.
pub(super) mod infinite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}

impl Effect {
    /// A change with its interval: `-51 % [-53, -49]`, or `too early` if the interval has none.
    pub fn in_words(&self) -> String {
        if !self.mid.is_finite() {
            return "unknown".to_owned();
        }
        let estimate = self.estimate();
        match self.interval() {
            Some(interval) => format!("{estimate} {interval}"),
            None => format!("{estimate}, too early"),
        }
    }

    /// Only the estimate of an effect, with the decimals that its interval supports: `-51 %`.
    pub fn estimate(&self) -> String {
        if self.mid.is_finite() {
            format!("{} %", signed(self.mid * 100.0, self.decimals()))
        } else {
            "unknown".to_owned()
        }
    }

    /// Only the interval of an effect, in percent: `[-53, -49]`; `None` if neither end has a bound.
    pub fn interval(&self) -> Option<String> {
        let decimals = self.decimals();
        let low = self.has_low().then(|| signed(self.low * 100.0, decimals));
        let high = self.high.is_finite().then(|| signed(self.high * 100.0, decimals));
        match (low, high) {
            (None, None) => None,
            (low, high) => {
                let end = |bound: Option<String>| bound.unwrap_or_else(|| "no bound".to_owned());
                Some(format!("[{}, {}]", end(low), end(high)))
            }
        }
    }

    /// True if an effect has a lower bound; -1 in a record means none.
    pub fn has_low(&self) -> bool {
        self.low.is_finite() && self.low > -1.0
    }

    /// Decimals that the interval supports, and as many more as it takes not to print an end that excludes 0 as 0.
    fn decimals(&self) -> usize {
        let near = if self.low > 0.0 { self.low } else { self.high.min(0.0).abs() };
        let is_zero = |decimals: &usize| (near * 100.0 * 10_f64.powi(*decimals as i32)).round() == 0.0;
        let supported = self.supported_decimals();
        if near == 0.0 {
            supported
        } else {
            (supported..MOST_DECIMALS).find(|decimals| !is_zero(decimals)).unwrap_or(MOST_DECIMALS)
        }
    }

    /// More for a narrow interval, none for a wide one of large values.
    fn supported_decimals(&self) -> usize {
        let bounded = self.has_low() && self.high.is_finite();
        let (low, high) = if bounded { (self.low, self.high) } else { (self.mid, self.mid) };
        let largest = [low, self.mid, high].into_iter().map(|end| (end * 100.0).abs()).fold(0.0, f64::max);
        let width = (high - low) * 100.0;
        if bounded && width < 0.2 && largest < 10.0 {
            2
        } else if bounded && width < 2.5 {
            1
        } else {
            usize::from(largest < 9.95)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Effect, Interval};

    #[test]
    fn an_effect_has_the_decimals_its_interval_supports() {
        let text = |mid, low, high| Effect { mid, low, high }.in_words();
        assert_eq!(text(-0.51, -0.53, -0.49), "-51 % [-53, -49]");
        assert_eq!(text(0.006, -0.002, 0.014), "+0.6 % [-0.2, +1.4]");
        assert_eq!(text(0.123, 0.118, 0.128), "+12.3 % [+11.8, +12.8]");
        assert_eq!(text(0.0004, -0.0001, 0.0009), "+0.04 % [-0.01, +0.09]");
        assert_eq!(text(12.0, 9.0, 15.5), "+1,200 % [+900, +1,550]");
        assert_eq!(text(0.07, 0.0004, 0.14), "+7.00 % [+0.04, +14.00]", "an end that excludes 0 is not 0");
        assert_eq!(text(-0.07, -0.14, -0.0004), "-7.00 % [-14.00, -0.04]");
        assert_eq!(text(-0.07, -0.14, 0.0), "-7 % [-14, 0]");
    }

    #[test]
    fn a_missing_bound_is_named() {
        let text = |mid, low, high| Effect { mid, low, high }.in_words();
        assert_eq!(text(-0.51, -1.0, f64::INFINITY), "-51 %, too early");
        assert_eq!(text(0.05, 0.01, f64::INFINITY), "+5.0 % [+1.0, no bound]");
        assert_eq!(text(f64::NAN, -1.0, f64::INFINITY), "unknown");
    }

    #[test]
    fn an_unbounded_interval_is_every_ratio() {
        let effect = Effect::from(Interval::around(0.0, f64::INFINITY));
        assert_eq!((effect.mid, effect.low, effect.high), (0.0, -1.0, f64::INFINITY));
    }
}
