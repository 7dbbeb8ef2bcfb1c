//! Effects that a number of pairs can show, and pairs needed for an effect.

use statrs::distribution::{ContinuousCDF, Normal};

use super::interval::t_quantile;
use super::looks::{self, planned};

/// Smallest true effect, as a log ratio, that a look at `n` pairs of standard deviation `sd_d` finds with 80 % power at a
/// two-sided `error`: (t(1 - error/2) + t(.80)) s / sqrt n. Infinite below two pairs.
pub fn detectable(sd_d: f64, n: usize, error: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    let freedom = (n - 1) as f64;
    (t_quantile(1.0 - error / 2.0, freedom) + t_quantile(0.80, freedom)) * sd_d / (n as f64).sqrt()
}

/// No trial has more pairs.
const MOST: usize = 1_000_000;

/// Pairs to plan for an effect of `delta` if a pair's log ratio has the standard deviation `sd_d`, both in the same
/// unit: the fewest that make it [`detectable`] at the error of the last look of a usual trial. `usize::MAX` if `delta`
/// is not above 0, or a million pairs are too few.
pub fn pairs_to_plan(sd_d: f64, delta: f64) -> usize {
    if delta.is_nan() || delta <= 0.0 {
        return usize::MAX;
    }
    let error = planned(looks::FIRST, looks::PAIRS).last().map_or(0.0, |(_, error)| *error);
    // With many pairs t is the normal quantile, which falls short by about two pairs.
    let normal = Normal::standard();
    let quantiles = normal.inverse_cdf(1.0 - error / 2.0) + normal.inverse_cdf(0.80);
    let fewest = (quantiles * sd_d / delta).powi(2).ceil();
    if fewest.is_nan() || fewest > MOST as f64 {
        return usize::MAX;
    }
    ((fewest as usize).max(2)..).find(|&n| detectable(sd_d, n, error) <= delta).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::{detectable, pairs_to_plan};

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
            assert!(detectable(sd_d, n, 0.0095) <= delta && detectable(sd_d, n - 1, 0.0095) > delta, "{n}");
        }
    }
}
