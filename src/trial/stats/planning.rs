//! Effects that a number of pairs can show, and pairs needed for an effect.

use super::interval::t_quantile;

/// Smallest true effect, as a log ratio, that a look at `n` pairs of standard deviation `sd_d` finds with 80 % power at a
/// two-sided `error`: (t(1 - error/2) + t(.80)) s / sqrt n. Infinite below two pairs.
pub fn detectable(sd_d: f64, n: usize, error: f64) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    let freedom = (n - 1) as f64;
    (t_quantile(1.0 - error / 2.0, freedom) + t_quantile(0.80, freedom)) * sd_d / (n as f64).sqrt()
}

/// Two-sided error of the last look of a trial of 40 pairs, by which trials are planned.
const LAST_LOOK: f64 = 0.0095;

/// Pairs to plan for an effect of `delta` if a pair's log ratio has the standard deviation `sd_d`, both in the same
/// unit: the fewest that make it [`detectable`]. `usize::MAX` if `delta` is not above 0.
pub fn pairs_to_plan(sd_d: f64, delta: f64) -> usize {
    if delta.is_nan() || delta <= 0.0 {
        return usize::MAX;
    }
    // With many pairs t is the normal quantile: (2.59 + 0.84)^2. It falls short by about two pairs.
    let normal = (11.8 * (sd_d / delta).powi(2)).ceil().min(1e9) as usize;
    (normal.max(2)..)
        .find(|&n| n > 1_000_000 || detectable(sd_d, n, LAST_LOOK) <= delta)
        .unwrap_or(usize::MAX)
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
        assert_eq!(pairs_to_plan(0.03, 0.0), usize::MAX);
        assert_eq!(pairs_to_plan(0.0, 0.03), 2);
        for (sd_d, delta) in [(0.042, 0.03), (0.07, 0.03), (0.02, 0.05)] {
            let n = pairs_to_plan(sd_d, delta);
            assert!(detectable(sd_d, n, 0.0095) <= delta && detectable(sd_d, n - 1, 0.0095) > delta, "{n}");
        }
    }
}
