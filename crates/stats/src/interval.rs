//! Intervals for the mean of log ratios, and the matching p-values.
//!
//! At a planned look Student's t interval counts, at that look's share of the error; for the primary metric
//! together with the interval of the sign-flip test, which needs only the coins. Between planned looks the
//! anytime-valid one counts: the Gaussian-mixture t-test of Wang and Ramdas (arXiv 2310.03722).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::looks::{ERROR, Look};
use super::permutation::sign_flip_bounds;
use super::pool::Estimate;
use super::{Scale, lag1, mean, sd};

/// Width of the mixture over effect sizes, in squared standard deviations of a pair.
pub const MIXTURE: f64 = 0.25;

/// An interval of log ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Mean of the log ratios.
    pub mid: f64,
    /// Lower end; negative infinity while the data give no bound.
    pub low: f64,
    /// Upper end; infinite while the data give no bound.
    pub high: f64,
}

impl Interval {
    /// `half` on either side of `mid`; `half` must not be negative, and may be infinite.
    pub fn around(mid: f64, half: f64) -> Self {
        Self { mid, low: mid - half, high: mid + half }
    }

    /// True if the interval shows an effect.
    pub fn excludes_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// True if all of it lies within `bound` of 0.
    pub fn inside(self, bound: f64) -> bool {
        self.low > -bound && self.high < bound
    }
}

/// Welch's interval of the difference of the means of `before` and `after`, with a two-sided `error`; `None` below two
/// values on either side.
pub fn welch(before: &[f64], after: &[f64], error: f64) -> Option<Interval> {
    let part = |values: &[f64]| Some((mean(values)?, sd(values)?.powi(2) / values.len() as f64));
    let ((from, a), (to, b)) = (part(before)?, part(after)?);
    let freedom = |part: f64, values: &[f64]| part.powi(2) / (values.len() - 1) as f64;
    // Without any spread the quantile does not matter.
    let freedom = (a + b).powi(2) / (freedom(a, before) + freedom(b, after)).max(f64::MIN_POSITIVE);
    Some(Interval::around(to - from, t_quantile(1.0 - error / 2.0, freedom.max(1.0)) * (a + b).sqrt()))
}

/// [`welch`] for values in time order that depend on the ones before them, as AR(1): each side counts as the fewer
/// independent values that its lag-1 autocorrelation leaves. `None` below [`SERIAL`] values on either side. What differs
/// between the sides is in the difference, whatever its cause.
pub fn welch_serial(before: &[f64], after: &[f64], error: f64) -> Option<Interval> {
    if before.len().min(after.len()) < SERIAL {
        return None;
    }
    // The estimate from a short series is too low by (1 + 4 r) / n (Marriott and Pope, Biometrika 41, 1954). Both sides are
    // of one machine, so they share it.
    let memory = |values: &[f64]| {
        let n = values.len() as f64;
        Some((n * lag1(values)? + 1.0) / (n - 4.0))
    };
    let memory = ((memory(before)? + memory(after)?) / 2.0).clamp(0.0, 0.95);
    // Variance of the mean over that of a value; the spread about a mean that wanders along is too small as well.
    let part = |values: &[f64]| {
        let n = values.len() as f64;
        let lags = (1..values.len()).map(|lag| (1.0 - lag as f64 / n) * memory.powi(lag as i32)).sum::<f64>();
        let share = (1.0 + 2.0 * lags) / n;
        let variance = sd(values)?.powi(2) * (n - 1.0) / n / (1.0 - share);
        Some((mean(values)?, variance * share, (1.0 / share - 1.0).max(1.0)))
    };
    let ((from, a, of_a), (to, b, of_b)) = (part(before)?, part(after)?);
    let freedom = (a + b).powi(2) / (a.powi(2) / of_a + b.powi(2) / of_b).max(f64::MIN_POSITIVE);
    Some(Interval::around(to - from, t_quantile(1.0 - error / 2.0, freedom.max(1.0)) * (a + b).sqrt()))
}

/// Fewest values of which an autocorrelation is estimated.
pub const SERIAL: usize = 6;

/// Changes of pairs, in time order.
#[derive(Debug, Clone, Copy)]
pub struct Ratios<'a> {
    /// The changes, such as ln(B/A).
    pub d: &'a [f64],
    /// Their scale; intervals are on that of log ratios.
    pub scale: Scale,
    /// Step in which the values are measured, as a fraction of their mean; the spread of equal values does not
    /// show it.
    pub step: f64,
}

impl<'a> From<&'a [f64]> for Ratios<'a> {
    /// Log ratios of values without steps.
    fn from(d: &'a [f64]) -> Self {
        Self { d, scale: Scale::LogRatio, step: 0.0 }
    }
}

impl Ratios<'_> {
    /// The effect with the variance of its mean on the scale of log ratios; `None` below two values.
    pub fn estimate(self) -> Option<Estimate> {
        let (mid, spread, n) = self.summary()?;
        // The derivative of the log ratio at the mean.
        let slope = match self.scale {
            Scale::LogRatio => 1.0,
            Scale::Difference => 1.0 / (1.0 - (mid / 2.0).powi(2)),
        };
        let estimate = Estimate {
            mid: self.scale.log_ratio(mid),
            variance: (slope * spread).powi(2) / n,
            pairs: self.d.len(),
        };
        (estimate.mid.is_finite() && estimate.variance.is_finite()).then_some(estimate)
    }

    /// Rounding to a step is uniformly distributed noise of a twelfth of its square in each value.
    fn summary(self) -> Option<(f64, f64, f64)> {
        let spread = sd(self.d)?.hypot(self.step / 6.0f64.sqrt());
        Some((mean(self.d)?, spread, self.d.len() as f64))
    }

    /// `interval` of the changes on the scale of log ratios.
    fn on_log_scale(self, interval: Interval) -> Interval {
        let Interval { mid, low, high } = interval;
        Interval {
            mid: self.scale.log_ratio(mid),
            low: self.scale.log_ratio(low),
            high: self.scale.log_ratio(high),
        }
    }

    /// Student's interval with a two-sided `error`; `None` below two values.
    pub fn student(self, error: f64) -> Option<Interval> {
        let (mid, spread, n) = self.summary()?;
        Some(Interval::around(mid, t_quantile(1.0 - error / 2.0, n - 1.0) * spread / n.sqrt()))
    }

    /// The anytime-valid interval with a two-sided `error` over all looks; `None` below two values.
    fn anytime(self, error: f64) -> Option<Interval> {
        let (mid, spread, n) = self.summary()?;
        let scale = anytime_scale(self.d.len(), error);
        // Not a product: zero spread times an infinite scale would be NaN.
        let half = if scale.is_infinite() { f64::INFINITY } else { scale * spread / n.sqrt() };
        Some(Interval::around(mid, half))
    }

    /// Interval that shows an effect if it excludes 0, at one of `parts` equal shares of the error; `None`
    /// below two values. `parts` must be at least the number of intervals that are judged together, or their
    /// divisor by [`crate::holm::divisors`]; 0 counts as 1.
    pub fn interval(self, look: Look, parts: usize) -> Option<Interval> {
        let interval = match look {
            Look::Planned(error) => self.student(error / parts.max(1) as f64),
            Look::Between(error) => self.anytime(error / parts.max(1) as f64),
        };
        interval.map(|interval| self.on_log_scale(interval))
    }

    /// The same for the primary metric: at a planned look the sign-flip test has to agree. Its draws come
    /// from `seed`.
    pub fn primary_interval(self, look: Look, seed: u64) -> Option<Interval> {
        let interval = self.interval(look, 1)?;
        let Look::Planned(error) = look else { return Some(interval) };
        let (low, high) = sign_flip_bounds(self.d, error, seed);
        let coins = self.on_log_scale(Interval { mid: interval.mid, low, high });
        Some(Interval { low: interval.low.min(coins.low), high: interval.high.max(coins.high), ..interval })
    }

    /// Interval that shows the lack of an effect if it lies inside the margin: two one-sided tests (TOST), each at
    /// the whole share.
    pub fn equivalence(self, look: Look, parts: usize) -> Option<Interval> {
        match look {
            Look::Planned(error) => Some(self.on_log_scale(self.student(2.0 * error / parts.max(1) as f64)?)),
            Look::Between(_) => self.interval(look, parts),
        }
    }

    /// A two-sided p-value on the scale of the whole procedure: it is at most [`ERROR`] if and only if the
    /// [`Ratios::interval`] of all the error excludes 0. `None` below two values.
    pub fn p_value(self, look: Look) -> Option<f64> {
        let (mid, spread, n) = self.summary()?;
        let t = match (mid == 0.0, spread == 0.0) {
            (true, _) => return Some(1.0),
            (false, true) => f64::INFINITY,
            (false, false) => mid.abs() * n.sqrt() / spread,
        };
        let (p, error) = match look {
            Look::Planned(error) => (t_two_sided(t, n - 1.0), error),
            Look::Between(error) => (anytime_p(t, n), error),
        };
        Some((p * ERROR / error).min(1.0))
    }
}

/// Half width of the anytime-valid interval in standard errors; infinite while `n` pairs cannot
/// reach the error `alpha` at all. `alpha` must lie between 0 and 1.
///
/// K = (sqrt(1 + n g) / alpha)^(2/n); scale = sqrt((n - 1)(K - 1) / (1 - K / (1 + n g))).
pub fn anytime_scale(n: usize, alpha: f64) -> f64 {
    let n = n as f64;
    let top = 1.0 + n * MIXTURE;
    let k = (top.sqrt() / alpha).powf(2.0 / n);
    if k >= top { f64::INFINITY } else { ((n - 1.0) * (k - 1.0) / (1.0 - k / top)).sqrt() }
}

/// One over the mixture likelihood ratio of a t statistic: by Ville's inequality its minimum over
/// all n is below alpha with a probability of at most alpha.
fn anytime_p(t: f64, n: f64) -> f64 {
    let top = 1.0 + n * MIXTURE;
    let x = t * t / (n - 1.0);
    let ratio = if x.is_infinite() { top } else { (1.0 + x) / (1.0 + x / top) };
    (top.sqrt() * ratio.powf(-n / 2.0)).min(1.0)
}

/// Quantile of Student's t; infinite if `freedom` is not above 0. `p` must lie between 0 and 1.
pub fn t_quantile(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

/// Two-sided p-value of Student's t; 1 if `freedom` is not above 0.
pub(crate) fn t_two_sided(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(t))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::{Interval, Ratios, anytime_scale, t_quantile, welch, welch_serial};
    use crate::Scale;
    use crate::looks::{ERROR, Look};
    use crate::noise::Noise;

    const BETWEEN: Look = Look::Between(0.01);

    /// Table of Student's t as printed in textbooks.
    #[test]
    fn t_quantiles_match_the_table() {
        let table = [
            (0.975, 1.0, 12.706),
            (0.975, 2.0, 4.303),
            (0.975, 4.0, 2.776),
            (0.975, 9.0, 2.262),
            (0.975, 19.0, 2.093),
            (0.975, 39.0, 2.023),
            (0.975, 120.0, 1.980),
            (0.98, 1.0, 15.895),
            (0.98, 4.0, 2.999),
            (0.98, 9.0, 2.398),
            (0.98, 19.0, 2.205),
            (0.98, 30.0, 2.147),
            (0.995, 9.0, 3.250),
            (0.9995, 19.0, 3.883),
            (0.80, 9.0, 0.883),
            (0.80, 19.0, 0.861),
        ];
        for (p, freedom, expected) in table {
            let got = t_quantile(p, freedom);
            assert!((got - expected).abs() < 0.00051, "t({p}, {freedom}) = {got}, not {expected}");
        }
        assert_eq!(t_quantile(0.975, 0.0), f64::INFINITY);
    }

    /// Means 2 and 4, variances 1 and 4 of three values each: the error is sqrt(5/3), with 2.94 degrees of freedom, whose
    /// t quantile is 3.223. The halves 1 2 3 and 2 4 9: t = 3 / sqrt(1/3 + 13/3) = 1.389 at 2.30 degrees of freedom.
    #[test]
    fn welch_by_hand() {
        let interval = welch(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0], 0.05).expect("enough");
        assert!((interval.mid - 2.0).abs() < 1e-12);
        assert!((interval.high - 2.0 - 3.223 * (5.0f64 / 3.0).sqrt()).abs() < 0.02, "{interval:?}");
        assert_eq!(welch(&[1.0], &[1.0, 2.0], 0.05), None);
        let rejects = |after: [f64; 3]| welch(&[1.0, 2.0, 3.0], &after, 0.05).map(Interval::excludes_zero);
        assert_eq!((rejects([2.0, 4.0, 9.0]), rejects([21.0, 22.0, 23.0])), (Some(false), Some(true)));
    }

    /// Without an effect, in 1000 series of 20 + 20 slots each: Welch's interval excludes 0 in 42 % of those that drift.
    #[test]
    fn slots_that_depend_on_each_other_count_as_fewer() {
        let wrong = |noise: Noise, interval: fn(&[f64], &[f64], f64) -> Option<Interval>| {
            let excludes = |seed: &u64| {
                let logs: Vec<f64> = noise.values(*seed, 40).iter().map(|value| value.ln()).collect();
                interval(&logs[..20], &logs[20..], 0.05).is_some_and(Interval::excludes_zero)
            };
            (0..1000).filter(excludes).count()
        };
        let white = wrong(Noise::white(0.03), welch_serial);
        assert!((15..=55).contains(&white), "{white} of 1000");
        let drifts = Noise { drift: 0.03, ..Noise::white(0.01) };
        let (plain, serial) = (wrong(drifts, welch), wrong(drifts, welch_serial));
        assert!(plain > 400 && serial < plain / 3, "{plain} and {serial} of 1000");
        assert_eq!(welch_serial(&[1.0; 5], &[1.0; 20], 0.05), None);
    }

    /// K by hand for n = 20: (100 sqrt 6)^(1/10) = 1.73329...; scale = sqrt(19 K' / (1 - K/6)).
    #[test]
    fn the_anytime_scale_follows_its_formula() {
        let k = (100.0 * 6.0f64.sqrt()).powf(0.1);
        let expected = (19.0 * (k - 1.0) / (1.0 - k / 6.0)).sqrt();
        assert!((anytime_scale(20, 0.01) - expected).abs() < 1e-12);
        assert!((4.0..4.5).contains(&expected), "{expected}");
    }

    #[test]
    fn nothing_can_be_said_between_looks_before_nine_pairs() {
        assert!((1..9).all(|n| anytime_scale(n, 0.01).is_infinite()));
        assert!((9..500).all(|n| anytime_scale(n, 0.01).is_finite()));
    }

    #[test]
    fn equal_values_give_a_point_or_nothing() {
        let interval = |d: &[f64], look| Ratios::from(d).interval(look, 1);
        let none = interval(&[0.0; 5], BETWEEN).expect("two values");
        assert_eq!(none, Interval::around(0.0, f64::INFINITY));
        assert_eq!(interval(&[0.5; 12], BETWEEN), Some(Interval::around(0.5, 0.0)));
        assert_eq!(interval(&[0.5], Look::Planned(0.04)), None);
        assert_eq!(Ratios::from(&[0.0; 12][..]).p_value(Look::Planned(0.04)), Some(1.0));
        assert_eq!(Ratios::from(&[0.5; 12][..]).p_value(Look::Planned(0.04)), Some(0.0));
    }

    /// Equal values do not say how far the next step is.
    #[test]
    fn rounding_widens_the_interval_of_equal_values() {
        let rounded = Ratios { step: 0.05, ..Ratios::from(&[0.01; 12][..]) };
        let interval = rounded.student(0.05).expect("values");
        assert!((interval.high - 0.01 - t_quantile(0.975, 11.0) * 0.05 / 72f64.sqrt()).abs() < 1e-12);
        assert!(!interval.excludes_zero());
    }

    /// 1..=5: mean 3, sd 1.5811, t(.98, 4) = 2.9985, so 3 +- 2.1202.
    #[test]
    fn the_planned_interval_of_a_known_sample() {
        let ratios = Ratios::from(&[1.0, 2.0, 3.0, 4.0, 5.0][..]);
        let got = ratios.interval(Look::Planned(0.04), 1).expect("two values");
        assert!((got.mid - 3.0).abs() < 1e-12);
        assert!((got.high - 3.0 - 2.1203).abs() < 0.0002, "{got:?}");
        let narrower = ratios.equivalence(Look::Planned(0.02), 1).expect("two values");
        assert_eq!(narrower, got, "one-sided at the whole share");
    }

    /// The sign-flip test cannot show an effect at 4 % with five pairs: 2 of 32 patterns are as extreme.
    #[test]
    fn the_primary_interval_needs_both_tests() {
        let (d, look) = ([0.10, 0.11, 0.12, 0.13, 0.14, 0.15], Look::Planned(0.04));
        let interval_of = |n: usize| Ratios::from(&d[..n]).primary_interval(look, 1).expect("values");
        assert_eq!((interval_of(5).low, interval_of(5).high), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(interval_of(6).excludes_zero(), "{:?}", interval_of(6));
    }

    /// The promise of the anytime-valid interval: over all looks together it misses the truth in 1 % of the
    /// trials. Three standard errors of 1000 trials are 0.9 %.
    #[test]
    fn looking_after_every_pair_costs_what_it_says() {
        let misses = |noise: Noise| {
            let misses = |d: &Vec<f64>| {
                (5..=d.len())
                    .any(|n| Ratios::from(&d[..n]).interval(BETWEEN, 1).is_some_and(Interval::excludes_zero))
            };
            (0..1000).map(|seed| noise.pairs(seed, 60, 0.0)).filter(misses).count()
        };
        let white = misses(Noise::white(0.03));
        assert!(white <= 19, "{white} of 1000");
        assert!(white > 0, "an interval that never misses is wider than it needs to be");
        let rough = misses(Noise::rough());
        assert!(rough <= 19, "{rough} of 1000");
    }

    /// 2 % of spread over four pairs; a difference of 1 has the ratio 3, and 4/3 of the slope.
    #[test]
    fn an_estimate_has_the_error_of_its_mean() {
        let d = [0.1, 0.1, 0.1, 0.14];
        let ratios = Ratios::from(&d[..]);
        let estimate = ratios.estimate().expect("four");
        assert!((estimate.mid - 0.11).abs() < 1e-12 && (estimate.variance - 0.0001).abs() < 1e-12);
        let d = d.map(|d| d + 0.89);
        let estimate = Ratios { d: &d, scale: Scale::Difference, step: 0.0 }.estimate().expect("four");
        assert!((estimate.mid - 3.0f64.ln()).abs() < 1e-12, "{estimate:?}");
        assert!((estimate.variance - 0.0001 * 16.0 / 9.0).abs() < 1e-12, "{estimate:?}");
        assert_eq!(Ratios { d: &[2.0, 2.0], scale: Scale::Difference, step: 0.0 }.estimate(), None, "no end");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn p_and_interval_agree(d in proptest::collection::vec(-1.0f64..1.5, 2..60), parts in 1usize..6) {
            let ratios = Ratios::from(&d[..]);
            for look in [BETWEEN, Look::Planned(0.007)] {
                let excludes = ratios.interval(look, parts).expect("two values").excludes_zero();
                let p = ratios.p_value(look).expect("two values");
                let level = ERROR / parts as f64;
                // At the exact boundary rounding may decide either way.
                if (p / level - 1.0).abs() > 1e-6 {
                    prop_assert_eq!(excludes, p < level);
                }
            }
        }

        #[test]
        fn the_sign_flip_test_only_widens(d in proptest::collection::vec(-1.0f64..1.5, 6..30)) {
            let (ratios, look) = (Ratios::from(&d[..]), Look::Planned(0.04));
            let (t, both) = (ratios.interval(look, 1), ratios.primary_interval(look, 1));
            let (t, both) = (t.expect("values"), both.expect("values"));
            prop_assert!(both.low <= t.low && both.high >= t.high);
        }
    }
}
