//! One answer from the same trial on several hosts.
//!
//! Each host counts once: the pooled effect is the mean of the hosts' effects, and its interval is Student's, as if hosts
//! were pairs ([`crate::interval::Ratios`]). It holds whatever the noise of each host: with independent normal effects of any
//! variances the t-test at 8.3 % or less errs at most as often as it says (Bakirov and Szekely, J. Math. Sci. 139, 2006;
//! Ibragimov and Mueller, JBES 28, 2010). Weights from nine pairs each are too noisy for that.
//!
//! This module has what the pairs of the hosts add: how much of the spread between hosts is noise, what one more host would
//! show, and whether a group of hosts differs from the rest.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::interval::{Interval, t_quantile, t_two_sided};
use super::{mean, sd};

/// Fewest hosts of a pooled statement.
pub const FEWEST: usize = 3;
/// Error of each side of the test that the pooled effect is inside the margin: two sides at 0.04 are below the 8.3 % up to
/// which the t-test holds with any noise.
pub const LACK: f64 = 0.04;

/// The effect on one host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean of the log ratios of its pairs. The number of pairs must not depend on them.
    pub mid: f64,
    /// Variance of that mean, from the spread of the pairs.
    pub variance: f64,
    /// Pairs, at least 2.
    pub pairs: usize,
}

impl Estimate {
    /// Degrees of freedom of the variance.
    fn freedom(&self) -> f64 {
        (self.pairs - 1) as f64
    }
}

/// The spread of the effects of hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Standard deviation of the true effects between hosts, as a log ratio: the variance of the estimates less the mean of
    /// their own variances, 0 if that is negative (Hedges, 1983).
    pub between: f64,
    /// Its share of the variance of the estimates, 0 to 1; the rest is the noise of the pairs.
    pub share: f64,
    /// p-value of the F-test that all of it is noise. Its degrees of freedom allow for hosts whose noise differs (Box, Annals
    /// of Mathematical Statistics 25, 1954).
    pub p: f64,
}

/// The spread of at least two hosts.
pub fn spread(hosts: &[Estimate]) -> Option<Spread> {
    let found = sd(&mids(hosts))?.powi(2);
    let noise = mean_variance(hosts);
    let k = hosts.len() as f64;
    let sum = noise * k;
    let squares: f64 = hosts.iter().map(|host| host.variance.powi(2)).sum();
    let by_freedom: f64 = hosts.iter().map(|host| host.variance.powi(2) / host.freedom()).sum();
    let above = ((k - 1.0) / k * sum).powi(2) / (squares * (1.0 - 2.0 / k) + (sum / k).powi(2));
    let p = match (found > 0.0, noise > 0.0) {
        (false, _) => 1.0,
        (true, false) => 0.0,
        (true, true) => {
            FisherSnedecor::new(above, sum.powi(2) / by_freedom).map_or(1.0, |f| f.sf(found / noise))
        }
    };
    let real = (found - noise).max(0.0);
    Some(Spread { between: real.sqrt(), share: if real > 0.0 { real / found } else { 0.0 }, p })
}

/// Interval in which the trial of one more such host, with as many pairs, shows its effect but for `error`. It is wider than
/// that of the host's true effect. `None` below two hosts.
pub fn next(hosts: &[Estimate], error: f64) -> Option<Interval> {
    let mids = mids(hosts);
    let k = mids.len() as f64;
    let half = t_quantile(1.0 - error / 2.0, k - 1.0) * sd(&mids)? * (1.0 + 1.0 / k).sqrt();
    Some(Interval::around(mean(&mids)?, half))
}

/// A group of hosts next to the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contrast {
    /// Mean effect in the group.
    pub group: f64,
    /// Mean effect on the others.
    pub rest: f64,
    /// Two-sided p-value of their difference.
    pub p: f64,
}

/// Compares the hosts of a group with the others; `None` below two hosts on either side.
///
/// True effects are assumed to vary as much inside the group as outside: a group of two could not show it. The noise of the
/// pairs may differ: what the group's is above the mean noise is added.
pub fn contrast(group: &[Estimate], rest: &[Estimate]) -> Option<Contrast> {
    let freedom = |hosts: &[Estimate]| hosts.len() as f64 - 1.0;
    let (in_group, in_rest) = (sd(&mids(group))?, sd(&mids(rest))?);
    let all = freedom(group) + freedom(rest);
    let within = (freedom(group) * in_group.powi(2) + freedom(rest) * in_rest.powi(2)) / all;
    let noise = (freedom(group) * mean_variance(group) + freedom(rest) * mean_variance(rest)) / all;
    let part = |hosts: &[Estimate]| {
        let above = (mean_variance(hosts) - noise).max(0.0);
        (within.max(noise) + above) / hosts.len() as f64
    };
    // The noise of a group is known from its pairs, however few its hosts.
    let pairs: f64 =
        group.iter().map(Estimate::freedom).sum::<f64>().min(rest.iter().map(Estimate::freedom).sum());
    let (group_mid, rest_mid) = (mean(&mids(group))?, mean(&mids(rest))?);
    let error = (part(group) + part(rest)).sqrt();
    let t = (group_mid - rest_mid).abs() / error;
    let p = if t.is_nan() { 1.0 } else { t_two_sided(t, all.min(pairs)) };
    Some(Contrast { group: group_mid, rest: rest_mid, p })
}

fn mids(hosts: &[Estimate]) -> Vec<f64> {
    hosts.iter().map(|host| host.mid).collect()
}

fn mean_variance(hosts: &[Estimate]) -> f64 {
    mean(&hosts.iter().map(|host| host.variance).collect::<Vec<_>>()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Contrast, Estimate, contrast, next, spread};
    use crate::interval::{Interval, Ratios};
    use crate::looks::{ERROR, Look};
    use crate::mean;

    fn hosts(mids: &[f64], variances: &[f64]) -> Vec<Estimate> {
        let all = mids.iter().zip(variances);
        all.map(|(&mid, &variance)| Estimate { mid, variance, pairs: 9 }).collect()
    }

    /// Two published data sets with the estimate by Hedges' method, 0.1484 and 0: Viechtbauer, Journal of Educational and
    /// Behavioral Statistics 30, 2005, pages 271 and 272.
    #[test]
    fn the_variance_between_hosts_is_that_of_published_examples() {
        let first = hosts(
            &[-0.581, 0.530, 0.771, 1.031, 0.553, 0.295, 0.078, 0.573, -0.176, -0.232],
            &[0.023, 0.052, 0.060, 0.115, 0.095, 0.203, 0.200, 0.211, 0.051, 0.040],
        );
        let found = spread(&first).expect("ten");
        assert!((found.between.powi(2) - 0.1484).abs() < 0.00005, "{found:?}");
        assert!(found.p < 0.05, "{found:?}");
        let second = hosts(
            &[
                0.100, -0.162, -0.090, -0.049, -0.046, -0.010, -0.431, -0.261, 0.134, 0.019, 0.175, 0.056,
                0.045, 0.103, 0.121, -0.482, 0.290, 0.342,
            ],
            &[
                0.016, 0.015, 0.050, 0.050, 0.032, 0.052, 0.036, 0.024, 0.034, 0.033, 0.031, 0.034, 0.039,
                0.167, 0.134, 0.096, 0.016, 0.035,
            ],
        );
        let found = spread(&second).expect("eighteen");
        assert_eq!((found.between, found.share), (0.0, 0.0));
        assert!(found.p > 0.4, "{found:?}");
    }

    /// The six trials of CLASP as log odds ratios: 0.441 as a standard deviation ("CA") in DerSimonian and Kacker,
    /// Contemporary Clinical Trials 28, 2007, tables 3 and 4.
    #[test]
    fn the_trials_of_clasp_differ_as_published() {
        let clasp = hosts(
            &[-1.2976, -1.2649, 0.1208, -0.3294, -0.2007, -0.1285],
            &[0.34677, 0.26568, 0.19839, 0.02648, 0.22330, 0.00650],
        );
        let found = spread(&clasp).expect("six");
        assert!((found.between - 0.4410).abs() < 0.00005, "{found:?}");
    }

    /// Weights of plants in three groups of ten, `PlantGrowth` of R: its analysis of variance prints F = 4.846. The noise of
    /// the groups differs, so p is not quite the 0.01591 for equal noise.
    #[test]
    fn groups_of_plants_differ_as_r_prints_it() {
        let plants = [(5.032, 0.339996), (4.661, 0.629921), (5.526, 0.195871)];
        let plants = plants.map(|(mid, variance)| Estimate { mid, variance: variance / 10.0, pairs: 10 });
        let found = spread(&plants).expect("three");
        assert!((1.0 / (1.0 - found.share) - 4.846).abs() < 0.0005, "{found:?}");
        assert!((0.0159..0.025).contains(&found.p), "{found:?}");
    }

    /// Additional hours of sleep of ten patients, `sleep` of R, after Student (Biometrika 6, 1908): R prints a mean of 1.58,
    /// p = 0.002833 and the interval [0.7001142, 2.4598858].
    #[test]
    fn the_interval_over_hosts_is_that_of_student() {
        let slept = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let slept = Ratios::from(&slept[..]);
        let Interval { mid, low, high } = slept.interval(Look::Planned(ERROR), 1).expect("ten");
        assert!((mid - 1.58).abs() < 1e-9, "{mid}");
        assert!((low - 0.7001142).abs() < 1e-6 && (high - 2.4598858).abs() < 1e-6, "{low} {high}");
        let p = slept.p_value(Look::Planned(ERROR)).expect("ten");
        assert!((p - 0.002833).abs() < 5e-7, "{p}");
    }

    /// With the same noise everywhere it is the F-test of a one-way analysis of variance: three hosts of means 1, 2 and 6, nine
    /// pairs each with a variance of 9, are F(2, 24) = 9 * 7 / 9 = 7.
    #[test]
    fn equal_noise_is_an_analysis_of_variance() {
        let found = spread(&hosts(&[1.0, 2.0, 6.0], &[1.0; 3])).expect("three");
        // Tables: 5.61 at 1 %, 6.66 at 0.5 %, 9.34 at 0.1 %.
        assert!((0.001..0.005).contains(&found.p), "{found:?}");
        assert!((found.between.powi(2) - 6.0).abs() < 1e-12 && (found.share - 6.0 / 7.0).abs() < 1e-12);
        assert_eq!(spread(&hosts(&[1.0], &[1.0])), None);
    }

    /// Means 0.1, 0.2 and 0.3 with s = 0.1: t(0.975, 2) = 4.303, times 0.1 sqrt(4/3).
    #[test]
    fn one_more_host_by_hand() {
        let three = hosts(&[0.1, 0.2, 0.3], &[0.001; 3]);
        let interval = next(&three, 0.05).expect("three");
        assert!((interval.mid - 0.2).abs() < 1e-12);
        assert!((interval.high - 0.2 - 4.303 * 0.1 * (4.0f64 / 3.0).sqrt()).abs() < 0.0001, "{interval:?}");
    }

    /// With the same noise everywhere it is Student's t-test of two samples: 1 2 3 and 4 6 8 have variances 1 and 4, pooled 2.5,
    /// so t = 4 / sqrt(2.5 * 2/3) = 3.098 with 4 degrees of freedom; its table has 2.776 at 5 % and 3.747 at 2 %.
    #[test]
    fn a_group_against_the_rest_by_hand() {
        let (group, rest) = (hosts(&[1.0, 2.0, 3.0], &[0.1; 3]), hosts(&[4.0, 6.0, 8.0], &[0.1; 3]));
        let Contrast { group: in_group, rest: in_rest, p } = contrast(&group, &rest).expect("enough");
        assert_eq!((in_group, in_rest), (2.0, 6.0));
        assert!((0.03..0.04).contains(&p), "{p}");
        assert_eq!(contrast(&group[..1], &rest), None);
    }

    /// Two noisy hosts differ from thirty quiet ones by their noise alone.
    #[test]
    fn a_noisy_group_is_not_different() {
        let quiet: Vec<f64> = (0..30).map(|host| 0.1 + 0.001 * f64::from(host % 5)).collect();
        let rest = hosts(&quiet, &[1e-6; 30]);
        let p = |variance: f64| contrast(&hosts(&[0.02, 0.03], &[variance; 2]), &rest).expect("enough").p;
        assert!(p(1e-6) < 1e-6 && p(0.01) > 0.2, "{} {}", p(1e-6), p(0.01));
    }

    /// The thirteen trials of the BCG vaccine (Colditz et al., JAMA 271, 1994) as log risk ratios. Each counts once, so the mean
    /// is not that of a weighted model, -0.7145 with the interval [-1.108, -0.321] of Hartung and Knapp; it has to lie in that.
    #[test]
    fn a_mean_of_trials_agrees_with_weighted_models() {
        let risks = [
            -0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209, 0.0120, -0.4694, -1.3713, -0.3394,
            0.4459, -0.0173,
        ];
        let interval = Ratios::from(&risks[..]).interval(Look::Planned(ERROR), 1).expect("thirteen");
        assert!((interval.mid + 0.7407).abs() < 0.0001, "{interval:?}");
        assert!(
            (interval.low + 1.160).abs() < 0.002 && (interval.high + 0.321).abs() < 0.002,
            "{interval:?}"
        );
    }

    proptest! {
        #[test]
        fn nothing_is_nan(mids in proptest::collection::vec(-1.0f64..1.0, 4..20), noise in 0.0f64..0.5, equal: bool) {
            let mids: Vec<f64> = if equal { vec![mids[0]; mids.len()] } else { mids };
            let all = hosts(&mids, &vec![noise; mids.len()]);
            let found = spread(&all).expect("four");
            prop_assert!((0.0..=1.0).contains(&found.p) && (0.0..=1.0).contains(&found.share), "{:?}", found);
            let next = next(&all, 0.05).expect("four");
            prop_assert!(next.low <= next.high && (next.mid - mean(&mids).expect("four")).abs() < 1e-9);
            let (group, rest) = all.split_at(2);
            prop_assert!((0.0..=1.0).contains(&contrast(group, rest).expect("two").p));
        }
    }
}
