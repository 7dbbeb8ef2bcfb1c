//! Adjustment of the changes of pairs for what differs between their slots by chance: the mix of live traffic and its
//! rate, which the change does not cause.
//!
//! Within each pair the log ratio d of the metric and the log ratio c of a covariate have the same order of arms. If the
//! change does nothing, a coin could as well have turned both signs. The slope of d on c through the origin,
//! sum(d c) / sum(c^2), stays the same then, and so does the share that it explains: the sign-flip test of d - slope * c
//! is as exact as that of d. Dividing by 1 - (sum c)^2 / (n sum(c^2)) makes its mean that of least squares with an
//! intercept, without which a true effect would be shown too small; it is one positive factor for all pairs, which no sign
//! test sees.

use rxlab_stats::interval::t_quantile;
use rxlab_stats::looks::FIRST;
use rxlab_stats::{mean, sd};

/// Share of the squares of d from which covariates are worth their noise.
const EXPLAINS: f64 = 0.25;
/// Steepest slope that traffic can have: the cost of a packet grows at most with its bytes and the load with the arrivals,
/// near saturation somewhat faster. A steeper one is an effect on the metric next to a covariate that hardly varies.
const STEEPEST: f64 = 2.0;
/// Two-sided error of the test that the change moves a covariate. It adds to the error of the trial in the worst case.
const MOVED: f64 = 0.001;

/// Changes of pairs after the adjustment.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjusted {
    /// Adjusted log ratios of the pairs.
    pub d: Vec<f64>,
    pub covariates: Vec<&'static str>,
    /// Share of the squares of d that they explain.
    pub explained: f64,
}

/// Adjusts `d` for `covariates`, each with its log ratios in the same pairs. `None` with too few pairs, and where the
/// covariates explain little. A covariate that the change itself moves is left out, and one with a slope that traffic cannot
/// have.
pub fn adjust(d: &[f64], covariates: &[(&'static str, Vec<f64>)]) -> Option<Adjusted> {
    if d.len() < FIRST {
        return None;
    }
    let (mut rest, mut kept, mut names) = (d.to_vec(), 1.0, Vec::new());
    // Orthogonal to each other, so that one slope does not change the next.
    let mut used: Vec<Vec<f64>> = Vec::new();
    for (name, c) in covariates.iter().filter(|(_, c)| c.len() == d.len() && !is_moved(c)) {
        let mut c = c.clone();
        used.iter().for_each(|other| remove(&mut c, other));
        let squares = product(&c, &c);
        // NaN if the covariate never varies.
        if (product(&rest, &c) / squares).abs() <= STEEPEST {
            remove(&mut rest, &c);
            kept -= c.iter().sum::<f64>().powi(2) / (d.len() as f64 * squares);
            names.push(*name);
            used.push(c);
        }
    }
    let explained = 1.0 - product(&rest, &rest) / product(d, d);
    // NaN if all are 0: then there is nothing to explain.
    if explained < EXPLAINS || explained.is_nan() || kept <= 0.0 {
        return None;
    }
    Some(Adjusted { d: rest.iter().map(|d| d / kept).collect(), covariates: names, explained })
}

/// True if the change moves a covariate with these log ratios: an adjustment would take a part of its effect away.
pub(super) fn is_moved(c: &[f64]) -> bool {
    let (Some(mid), Some(spread)) = (mean(c), sd(c)) else { return false };
    let t = t_quantile(1.0 - MOVED / 2.0, c.len() as f64 - 1.0);
    mid.abs() * (c.len() as f64).sqrt() > t * spread
}

/// Takes the part of `d` that is proportional to `c` away.
fn remove(d: &mut [f64], c: &[f64]) {
    let slope = product(d, c) / product(c, c);
    d.iter_mut().zip(c).for_each(|(d, c)| *d -= slope * c);
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{adjust, is_moved};
    use crate::simulate::live::{Traffic, is_wrong};
    use crate::simulate::table::noises;
    use rxlab_stats::noise::Noise;

    /// d = 0.1 + c, exactly: least squares with an intercept finds both.
    #[test]
    fn an_effect_is_not_made_smaller() {
        let c: Vec<f64> = [0.3, -0.2, 0.1, -0.4, 0.2, 0.5, -0.3, 0.1, -0.2, 0.4].to_vec();
        let d: Vec<f64> = c.iter().map(|c| 0.1 + c).collect();
        let adjusted = adjust(&d, &[("mix", c)]).expect("explains most");
        let mean = adjusted.d.iter().sum::<f64>() / adjusted.d.len() as f64;
        assert!((mean - 0.1).abs() < 1e-12, "{mean}");
        assert!(adjusted.explained > 0.9 && adjusted.covariates == ["mix"]);
    }

    #[test]
    fn what_explains_little_or_is_moved_is_left_out() {
        let d = Noise::white(0.03).pairs(1, 20, 0.05);
        let other = Noise::white(0.03).pairs(2, 20, 0.0);
        assert_eq!(adjust(&d, &[("mix", other)]), None);
        let moved: Vec<f64> = d.iter().map(|d| d + 0.2).collect();
        assert!(is_moved(&moved) && !is_moved(&Noise::white(0.03).pairs(3, 20, 0.0)));
        assert_eq!(adjust(&d, &[("mix", moved)]), None);
        assert_eq!(adjust(&d[..8], &[("mix", d[..8].to_vec())]), None, "too few pairs");
        assert_eq!(adjust(&[0.0; 12], &[("mix", vec![0.1; 12])]), None);
    }

    /// The share of NET_RX that RPS takes off the hottest CPU falls by the same factor in every pair. Packets that are a
    /// thousandth larger in arm B do not explain that.
    #[test]
    fn a_covariate_that_hardly_varies_explains_no_large_effect() {
        let c: Vec<f64> = Noise::white(0.001).pairs(6, 12, 0.0).iter().map(|c| c + 0.001).collect();
        assert!(!is_moved(&c));
        assert_eq!(adjust(&[-0.7; 12], &[("mix", c)]), None);
    }

    #[test]
    fn two_covariates_that_overlap_are_one() {
        let c = Noise::white(0.05).pairs(4, 20, 0.0);
        let noise = Noise::white(0.001).pairs(5, 20, 0.0);
        let d: Vec<f64> = c.iter().zip(&noise).map(|(c, noise)| 1.5 * c + noise).collect();
        let one = adjust(&d, &[("a", c.clone())]).expect("explains most");
        let both = adjust(&d, &[("a", c.clone()), ("b", c)]).expect("the same");
        let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(&one.d, &both.d), "{one:?} {both:?}");
    }

    proptest! {
        /// The exactness of the sign-flip test: turning a pair turns its adjusted change, but for one factor of all.
        #[test]
        fn a_flipped_pair_is_a_flipped_change(seed in 0u64..500, pattern in 0u32..1 << 12) {
            let c = Noise::white(0.04).pairs(seed, 12, 0.0);
            let d: Vec<f64> = Noise::white(0.02).pairs(seed + 1000, 12, 0.0).iter().zip(&c).map(|(d, c)| d + c).collect();
            let flip = |values: &[f64]| -> Vec<f64> {
                values.iter().enumerate().map(|(at, v)| if pattern >> at & 1 == 1 { -v } else { *v }).collect()
            };
            let (before, after) = (adjust(&d, &[("mix", c.clone())]), adjust(&flip(&d), &[("mix", flip(&c))]));
            let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
            let wanted = flip(&before.d);
            let factor = after.d[0] / wanted[0];
            prop_assert!(factor > 0.0);
            prop_assert!(after.d.iter().zip(wanted).all(|(a, w)| (a - factor * w).abs() < 1e-9));
            prop_assert!((before.explained - after.explained).abs() < 1e-9);
        }
    }

    /// 5 % of 200 trials without an effect are 10; three standard errors are 9.
    #[test]
    fn adjusted_trials_keep_the_promise() {
        // The first is white noise; the others have tails, rhythms, states or steps.
        for (name, noise) in noises().into_iter().step_by(3) {
            let traffic = Traffic { rest: noise, ..Traffic::usual() };
            let wrong = (20_000..20_200).filter(|seed| is_wrong(&traffic, *seed)).count();
            assert!(wrong <= 19, "{name}: {wrong} of 200");
        }
    }
}
