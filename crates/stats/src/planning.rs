//! Effects that a number of pairs can show, and pairs needed for an effect.

use statrs::distribution::{ContinuousCDF, Normal};

use super::interval::t_quantile;
use super::looks::{self, planned};

/// Smallest true effect, as a log ratio, that a look at `n` pairs of standard deviation `sd_d` finds with 80 % power at a
/// two-sided `error`: (t(1 - error/2) + t(.80)) s / sqrt n. Infinite below two pairs. `error` must lie between 0 and 1,
/// and `sd_d` must not be negative.
pub fn detectable(sd_d: f64, n: usize, error: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    let freedom = (n - 1) as f64;
    (t_quantile(1.0 - error / 2.0, freedom) + t_quantile(0.80, freedom)) * sd_d / (n as f64).sqrt()
}

/// No trial has more pairs.
pub const MAX_PAIRS: usize = 1_000_000;

/// Pairs to plan for an effect of `delta` if a pair's log ratio has the standard deviation `sd_d`, both in the same
/// unit: the fewest that make it [`detectable`] at a look at that many pairs. `usize::MAX` if `delta` is not above 0, or a
/// million pairs are too few.
pub fn pairs_to_plan(sd_d: f64, delta: f64) -> usize {
    // The error depends on the pairs, but they depend only on its logarithm: this settles quickly.
    let next = |pairs: usize| pairs_at(sd_d, delta, error_at(pairs.min(MAX_PAIRS)));
    next(next(next(looks::PAIRS)))
}

/// Error of a look at `pairs` pairs of a usual trial, or of the end of a longer one.
fn error_at(pairs: usize) -> f64 {
    let most = pairs.max(looks::PAIRS);
    let last = planned(looks::FIRST, most).last().map_or(0.0, |(_, error)| *error);
    // Errors of looks are in proportion to the square root of their pairs.
    last * (pairs as f64 / most as f64).sqrt()
}

/// The fewest pairs that make `delta` detectable at `error`.
fn pairs_at(sd_d: f64, delta: f64, error: f64) -> usize {
    if delta.is_nan() || delta <= 0.0 {
        return usize::MAX;
    }
    // With many pairs t is the normal quantile, which falls short by about two pairs.
    let normal = Normal::standard();
    let quantiles = normal.inverse_cdf(1.0 - error / 2.0) + normal.inverse_cdf(0.80);
    let fewest = (quantiles * sd_d / delta).powi(2).ceil();
    if fewest.is_nan() || fewest > MAX_PAIRS as f64 {
        return usize::MAX;
    }
    ((fewest as usize).max(2)..).find(|&n| detectable(sd_d, n, error) <= delta).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{detectable, error_at, pairs_to_plan};
    use crate::interval::Ratios;
    use crate::noise::Noise;

    #[test]
    fn detectable_of_known_sizes() {
        // n = 20: (2.0930 + 0.8610) * 0.042 / sqrt 20 = 0.02774.
        assert!((detectable(0.042, 20, 0.05) - 0.02774).abs() < 0.00002);
        assert_eq!(detectable(0.042, 1, 0.05), f64::INFINITY);
        assert_eq!(detectable(0.0, 20, 0.05), 0.0);
    }

    #[test]
    fn plans_of_known_sizes() {
        for (sd_d, delta) in [(0.03, 0.0), (0.03, 1e-9), (f64::NAN, 0.03), (f64::INFINITY, 0.03)] {
            assert_eq!(pairs_to_plan(sd_d, delta), usize::MAX, "{sd_d} {delta}");
        }
        assert_eq!(pairs_to_plan(0.0, 0.03), 2);
        for (sd_d, delta) in [(0.042, 0.03), (0.07, 0.03), (0.02, 0.05)] {
            let n = pairs_to_plan(sd_d, delta);
            assert!(detectable(sd_d, n, error_at(n)) <= delta, "{n}");
            assert!(detectable(sd_d, n - 1, error_at(n - 1)) > delta, "{n}");
        }
    }

    /// A usual trial looks after 9, 12, 16, 21, 28 and 40 pairs, the last time at 0.0095.
    #[test]
    fn a_look_at_few_pairs_has_little_error() {
        assert!((error_at(16) - 0.006).abs() < 0.0001 && (error_at(40) - 0.0095).abs() < 0.0001);
        assert!(error_at(100) < error_at(40), "a longer trial has more looks");
    }

    /// At the planned number of pairs a look shows the effect in 4 of 5 trials: t alone, 1000 trials, three standard errors.
    #[test]
    fn the_planned_pairs_have_the_power() {
        let (noise, delta) = (0.03 * 2f64.sqrt(), 1.03f64.ln());
        let n = pairs_to_plan(noise, delta);
        let found = |seed: &u64| {
            let d = Noise::white(0.03).pairs(*seed, n, 0.03);
            Ratios::from(&d[..]).student(error_at(n)).is_some_and(|interval| interval.low > 0.0)
        };
        let found = (0..1000).filter(found).count();
        assert!((762..=838).contains(&found), "{found} of 1000 with {n} pairs");
    }
}
