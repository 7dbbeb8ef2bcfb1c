//! Intervals for the mean of log ratios, and the matching p-values.
//!
//! Two kinds. The anytime-valid one may be evaluated after every pair: it is the Gaussian-mixture
//! t-test of Wang and Ramdas (arXiv 2310.03722), which holds at all n at once. The fixed one is
//! Student's t interval, for the single look at the planned end. Each has its share of the error.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{mean, sd};
use crate::trial::record::Effect;

/// Width of the mixture over effect sizes, in squared standard deviations of a pair.
pub const MIXTURE: f64 = 0.25;

/// Two-sided error spent on looking early and at the end. The sum is the
/// error of the whole procedure by the union bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Error of all looks before the planned end.
    pub live: f64,
    /// Error of the look at the planned end.
    pub end: f64,
}

impl Level {
    /// The level of the primary metric: 1 % + 4 % = 5 %.
    pub const PRIMARY: Level = Level { live: 0.01, end: 0.04 };

    /// Both shares divided by `parts`, for one of several metrics.
    pub fn divided(self, parts: usize) -> Self {
        let parts = parts.max(1) as f64;
        Self { live: self.live / parts, end: self.end / parts }
    }

    /// Error of the whole procedure.
    pub fn total(self) -> f64 {
        self.live + self.end
    }
}

/// Kind of look at the data: decides the kind of interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Before the planned end, at a time that may depend on the data.
    Live,
    /// At the planned number of pairs.
    End,
}

/// An interval of log ratios, symmetric about its middle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Mean of the log ratios.
    pub mid: f64,
    /// Half width; infinite while the data give no bound.
    pub half: f64,
}

impl Interval {
    /// Lower end.
    pub fn low(self) -> f64 {
        self.mid - self.half
    }

    /// Upper end.
    pub fn high(self) -> f64 {
        self.mid + self.half
    }

    /// True if the interval shows an effect.
    pub fn excludes_zero(self) -> bool {
        self.low() > 0.0 || self.high() < 0.0
    }

    /// True if all of it lies within `bound` of 0.
    pub fn inside(self, bound: f64) -> bool {
        self.low() > -bound && self.high() < bound
    }

    /// As ratios minus one.
    pub fn effect(self) -> Effect {
        Effect { mid: self.mid.exp_m1(), low: self.low().exp_m1(), high: self.high().exp_m1() }
    }
}

/// The interval of `d` at `level`; `None` below two values.
pub fn interval(d: &[f64], look: Look, level: Level) -> Option<Interval> {
    let (mid, spread) = (mean(d)?, sd(d)?);
    let n = d.len() as f64;
    let scale = match look {
        Look::Live => anytime_scale(d.len(), level.live),
        Look::End => t_quantile(1.0 - level.end / 2.0, n - 1.0),
    };
    // Not a product: zero spread times an infinite scale would be NaN.
    let half = if scale.is_infinite() { f64::INFINITY } else { scale * spread / n.sqrt() };
    Some(Interval { mid, half })
}

/// Half width of the anytime-valid interval in standard errors; infinite while `n` pairs cannot
/// reach the error `alpha` at all.
///
/// K = (sqrt(1 + n g) / alpha)^(2/n); scale = sqrt((n - 1)(K - 1) / (1 - K / (1 + n g))).
pub fn anytime_scale(n: usize, alpha: f64) -> f64 {
    let n = n as f64;
    let top = 1.0 + n * MIXTURE;
    let k = (top.sqrt() / alpha).powf(2.0 / n);
    if k >= top { f64::INFINITY } else { ((n - 1.0) * (k - 1.0) / (1.0 - k / top)).sqrt() }
}

/// A two-sided p-value that stays valid however the time of the look was chosen, on the scale of
/// the whole procedure: it is at most [`Level::total`] of a level if and only if that level's
/// interval excludes 0. `None` below two values.
pub fn p_value(d: &[f64], look: Look) -> Option<f64> {
    let (mid, spread) = (mean(d)?, sd(d)?);
    let n = d.len() as f64;
    let t = match (mid == 0.0, spread == 0.0) {
        (true, _) => return Some(1.0),
        (false, true) => f64::INFINITY,
        (false, false) => mid.abs() * n.sqrt() / spread,
    };
    let (p, share) = match look {
        Look::Live => (anytime_p(t, n), Level::PRIMARY.live),
        Look::End => (t_two_sided(t, n - 1.0), Level::PRIMARY.end),
    };
    Some((p * Level::PRIMARY.total() / share).min(1.0))
}

/// One over the mixture likelihood ratio of a t statistic: by Ville's inequality its minimum over
/// all n is below alpha with a probability of at most alpha.
fn anytime_p(t: f64, n: f64) -> f64 {
    let top = 1.0 + n * MIXTURE;
    let x = t * t / (n - 1.0);
    let ratio = if x.is_infinite() { top } else { (1.0 + x) / (1.0 + x / top) };
    (top.sqrt() * ratio.powf(-n / 2.0)).min(1.0)
}

/// Quantile of Student's t; infinite if `freedom` is not above 0.
pub fn t_quantile(p: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

fn t_two_sided(t: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(1.0, |student| 2.0 * student.sf(t))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

    use super::{Interval, Level, Look, anytime_scale, interval, p_value, t_quantile};
    use crate::trial::simulate::Noise;

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

    /// K by hand for n = 20: (100 sqrt 6)^(1/10) = 1.73329...; scale = sqrt(19 K' / (1 - K/6)).
    #[test]
    fn the_anytime_scale_follows_its_formula() {
        let k = (100.0 * 6.0f64.sqrt()).powf(0.1);
        let expected = (19.0 * (k - 1.0) / (1.0 - k / 6.0)).sqrt();
        assert!((anytime_scale(20, 0.01) - expected).abs() < 1e-12);
        assert!((4.0..4.5).contains(&expected), "{expected}");
    }

    #[test]
    fn nothing_can_be_said_live_before_nine_pairs() {
        assert!((1..9).all(|n| anytime_scale(n, 0.01).is_infinite()));
        assert!((9..500).all(|n| anytime_scale(n, 0.01).is_finite()));
    }

    #[test]
    fn equal_values_give_a_point_or_nothing() {
        let none = interval(&[0.0; 5], Look::Live, Level::PRIMARY).expect("two values");
        assert_eq!(none, Interval { mid: 0.0, half: f64::INFINITY });
        let point = interval(&[0.5; 12], Look::Live, Level::PRIMARY).expect("two values");
        assert_eq!(point, Interval { mid: 0.5, half: 0.0 });
        assert_eq!(interval(&[0.5], Look::End, Level::PRIMARY), None);
        assert_eq!(p_value(&[0.0; 12], Look::End), Some(1.0));
        assert_eq!(p_value(&[0.5; 12], Look::End), Some(0.0));
    }

    /// 1..=5: mean 3, sd 1.5811, t(.98, 4) = 2.9985, so 3 +- 2.1202.
    #[test]
    fn the_end_interval_of_a_known_sample() {
        let got = interval(&[1.0, 2.0, 3.0, 4.0, 5.0], Look::End, Level::PRIMARY).expect("two values");
        assert!((got.mid - 3.0).abs() < 1e-12);
        assert!((got.half - 2.1203).abs() < 0.0002, "{}", got.half);
    }

    /// The promise of the live interval: over all looks together it misses the truth in 1 % of the
    /// trials. Three standard errors of 1000 trials are 0.9 %.
    #[test]
    fn looking_after_every_pair_costs_what_it_says() {
        let misses = |noise: Noise| {
            let misses = |d: &Vec<f64>| {
                let excludes =
                    |n| interval(&d[..n], Look::Live, Level::PRIMARY).is_some_and(Interval::excludes_zero);
                (5..=d.len()).any(excludes)
            };
            (0..1000).map(|seed| noise.pairs(seed, 60, 0.0)).filter(misses).count()
        };
        let white = misses(Noise::white(0.03));
        assert!(white <= 19, "{white} of 1000");
        assert!(white > 0, "an interval that never misses is wider than it needs to be");
        let rough = misses(Noise { drift: 0.03, periodic: 0.03, ..Noise::white(0.03) });
        assert!(rough <= 19, "{rough} of 1000");
    }

    #[test]
    fn an_unbounded_interval_is_every_ratio() {
        let effect = Interval { mid: 0.0, half: f64::INFINITY }.effect();
        assert_eq!((effect.mid, effect.low, effect.high), (0.0, -1.0, f64::INFINITY));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn p_and_interval_agree(d in proptest::collection::vec(-1.0f64..1.5, 2..60), parts in 1usize..6) {
            for look in [Look::Live, Look::End] {
                let level = Level::PRIMARY.divided(parts);
                let excludes = interval(&d, look, level).expect("two values").excludes_zero();
                let p = p_value(&d, look).expect("two values");
                // At the exact boundary rounding may decide either way.
                if (p / level.total() - 1.0).abs() > 1e-6 {
                    prop_assert_eq!(excludes, p < level.total());
                }
            }
        }
    }
}
