//! Effects that a number of pairs can show, and pairs needed for an effect.

use super::interval::t_quantile;

/// Smallest true effect, as a log ratio, that `n` pairs of standard deviation `sd_d` find with
/// 80 % power at 5 %: (t.975 + t.80) s / sqrt n. Infinite below two pairs.
pub fn detectable(sd_d: f64, n: usize) -> f64 {
    if n < 2 {
        return f64::INFINITY;
    }
    let freedom = (n - 1) as f64;
    (t_quantile(0.975, freedom) + t_quantile(0.80, freedom)) * sd_d / (n as f64).sqrt()
}

/// Pairs to plan for an effect of `delta` if single slots vary by `cv`, both in the same unit
/// (0.03 = 3 %): 15.7 (cv / delta)^2 + 2, rounded up. `usize::MAX` if `delta` is not above 0.
pub fn pairs_to_plan(cv: f64, delta: f64) -> usize {
    if delta > 0.0 {
        // A float this large saturates on conversion, which is the wanted result.
        (15.7 * (cv / delta).powi(2) + 2.0).ceil() as usize
    } else {
        usize::MAX
    }
}

/// The same from the standard deviation of a pair, which is sqrt 2 times that of a slot.
pub fn pairs_to_plan_from_sd(sd_d: f64, delta: f64) -> usize {
    pairs_to_plan(sd_d / std::f64::consts::SQRT_2, delta)
}

#[cfg(test)]
mod tests {
    use super::{detectable, pairs_to_plan, pairs_to_plan_from_sd};

    #[test]
    fn detectable_of_known_sizes() {
        // n = 20: (2.0930 + 0.8610) * 0.042 / sqrt 20 = 0.02774.
        assert!((detectable(0.042, 20) - 0.02774).abs() < 0.00002);
        assert_eq!(detectable(0.042, 1), f64::INFINITY);
        assert_eq!(detectable(0.0, 20), 0.0);
    }

    #[test]
    fn plans_of_known_sizes() {
        assert_eq!(pairs_to_plan(0.03, 0.03), 18);
        assert_eq!(pairs_to_plan(0.05, 0.03), 46);
        assert_eq!(pairs_to_plan(0.03, 0.0), usize::MAX);
        assert_eq!(pairs_to_plan_from_sd(0.03 * 2f64.sqrt(), 0.03), 18);
    }

    #[test]
    fn a_plan_makes_its_effect_detectable() {
        for cv in [0.01, 0.03, 0.1] {
            let n = pairs_to_plan(cv, 0.03);
            if n >= 10 {
                let found = detectable(cv * 2f64.sqrt(), n);
                assert!((0.9..1.02).contains(&(found / 0.03)), "{cv}: {n} pairs find {found}");
            }
        }
    }
}
