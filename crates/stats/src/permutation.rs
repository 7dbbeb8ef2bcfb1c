//! Tests that take their null distribution from the coins themselves, not from a bell curve.

use rand_chacha::rand_core::Rng;

use super::interval::t_quantile;
use super::{mean, sd};
use crate::design::{Purpose, stream};

/// Up to this many pairs all sign patterns are counted.
const EXACT_UP_TO: usize = 14;
/// Sign patterns drawn above that.
const DRAWS: u32 = 10_000;
/// Relabelled runs of a calibration.
const RELABELLED: u32 = 1000;

/// Two-sided p of the sign-flip permutation test: without an effect, each log ratio
/// could equally have had the other sign. A coin must have chosen the order of each pair. Exact up to 14
/// pairs, 10,000 draws from `seed` above; `None` without pairs.
pub fn sign_flip_p(d: &[f64], seed: u64) -> Option<f64> {
    let observed = d.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order of signs differ by rounding: they count as ties.
    let reached = observed - 1e-12 * d.iter().map(|value| value.abs()).sum::<f64>();
    match d.len() {
        0 => None,
        n @ 1..=EXACT_UP_TO => {
            let all = 1u64 << n;
            let hits = (0..all).filter(|&pattern| flipped_sum(d, pattern).abs() >= reached).count();
            Some(hits as f64 / all as f64)
        }
        _ => {
            let mut rng = stream(seed, Purpose::SignFlip);
            let hits = (0..DRAWS)
                .filter(|_| {
                    let sum: f64 = d.chunks(64).map(|part| flipped_sum(part, rng.next_u64())).sum();
                    sum.abs() >= reached
                })
                .count();
            // The observed pattern is one of the possible ones: p is never 0.
            Some((hits + 1) as f64 / f64::from(DRAWS + 1))
        }
    }
}

/// Ends of the interval of shifts that the two-sided sign-flip test at `error` does not reject; infinite where the
/// pairs are too few to reject any.
///
/// A shift is rejected from below if too few sign patterns make the sum of the shifted log ratios as small, which
/// holds if and only if too few means of subsets lie below it: the ends are order statistics of those means
/// (J. A. Hartigan, JASA 64, 1969). All subsets up to 14 pairs, 10,000 drawn from `seed` above.
pub fn sign_flip_bounds(d: &[f64], error: f64, seed: u64) -> (f64, f64) {
    let sums = SubsetSums::new(d);
    let mut means: Vec<f64> = match d.len() {
        n @ 0..=EXACT_UP_TO => (1..1u64 << n).map(|pattern| sums.mean(&[pattern])).collect(),
        n => {
            let mut rng = stream(seed, Purpose::SignFlip);
            let mut patterns = vec![0; n.div_ceil(64)];
            let last = u64::MAX >> (patterns.len() * 64 - n);
            (0..DRAWS)
                .map(|_| {
                    patterns.iter_mut().for_each(|pattern| *pattern = rng.next_u64());
                    if let Some(pattern) = patterns.last_mut() {
                        *pattern &= last;
                    }
                    sums.mean(&patterns)
                })
                .filter(|mean| !mean.is_nan())
                .collect()
        }
    };
    // The empty subset is the pattern as it was observed.
    let rank = (error / 2.0 * (means.len() + 1) as f64).floor() as usize;
    if rank == 0 || means.is_empty() {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    let last = means.len() - 1;
    // A mean that is 0 but for rounding is a tie, not a sign.
    let tie = 1e-12 * d.iter().map(|value| value.abs()).sum::<f64>();
    let low = *means.select_nth_unstable_by(rank - 1, f64::total_cmp).1;
    let high = *means.select_nth_unstable_by(last + 1 - rank, f64::total_cmp).1;
    (low - tie, high + tie)
}

/// Sums of all subsets of each eight values, so that a subset takes an addition per eight of them.
struct SubsetSums(Vec<[f64; 256]>);

impl SubsetSums {
    fn new(d: &[f64]) -> Self {
        let sums = |part: &[f64]| {
            let mut sums = [0.0; 256];
            for (bit, value) in part.iter().enumerate() {
                for pattern in 0..1 << bit {
                    sums[pattern | 1 << bit] = sums[pattern] + value;
                }
            }
            sums
        };
        Self(d.chunks(8).map(sums).collect())
    }

    /// Mean of the values whose bits are set in `patterns`, 64 in each; NaN of none.
    fn mean(&self, patterns: &[u64]) -> f64 {
        let bytes = patterns.iter().flat_map(|pattern| pattern.to_le_bytes());
        let sum: f64 = self.0.iter().zip(bytes).map(|(sums, byte)| sums[usize::from(byte)]).sum();
        let size: u32 = patterns.iter().map(|pattern| pattern.count_ones()).sum();
        sum / f64::from(size)
    }
}

/// Share of 1000 random relabellings of A/A pairs that a paired 5 % t-test calls different. Near
/// 5 % the t-test can be trusted on this machine's noise; `None` below two pairs.
pub fn rejection_rate(d: &[f64], seed: u64) -> Option<f64> {
    let critical = t_quantile(0.975, d.len().checked_sub(1).filter(|n| *n > 0)? as f64);
    let root = (d.len() as f64).sqrt();
    let mut rng = stream(seed, Purpose::Relabel);
    let mut rejected = 0u32;
    for _ in 0..RELABELLED {
        let labelled: Vec<f64> = d
            .chunks(64)
            .flat_map(|part| {
                let pattern = rng.next_u64();
                part.iter().enumerate().map(move |(bit, value)| signed(*value, pattern, bit))
            })
            .collect();
        let (mid, spread) = (mean(&labelled)?, sd(&labelled)?);
        rejected += u32::from(mid.abs() * root > critical * spread);
    }
    Some(f64::from(rejected) / f64::from(RELABELLED))
}

fn signed(value: f64, pattern: u64, bit: usize) -> f64 {
    if pattern >> bit & 1 == 1 { -value } else { value }
}

fn flipped_sum(d: &[f64], pattern: u64) -> f64 {
    d.iter().enumerate().map(|(bit, value)| signed(*value, pattern, bit)).sum()
}

#[cfg(test)]
mod tests {
    use super::{rejection_rate, sign_flip_bounds, sign_flip_p};
    use crate::noise::Noise;

    #[test]
    fn exact_p_by_counting() {
        assert_eq!(sign_flip_p(&[], 1), None);
        assert_eq!(sign_flip_p(&[0.3], 1), Some(1.0));
        // All of one sign: only the pattern itself and its mirror reach the sum.
        assert_eq!(sign_flip_p(&[0.1, 0.2, 0.3, 0.4, 0.5], 1), Some(2.0 / 32.0));
        // 1 + 2 - 3 = 0: every pattern reaches it.
        assert_eq!(sign_flip_p(&[1.0, 2.0, -3.0], 1), Some(1.0));
        // |sums| of +-1 +-2 +-4: 7, 5, 3, 1, each twice; observed 5.
        assert_eq!(sign_flip_p(&[-1.0, 2.0, 4.0], 1), Some(0.5));
        assert_eq!(sign_flip_p(&[0.0; 6], 1), Some(1.0));
    }

    /// 0.1 + 0.2 + 0.3 depends on the order of summing: its mirror once missed itself.
    #[test]
    fn rounding_does_not_break_ties() {
        assert_eq!(sign_flip_p(&[0.1, 0.2, -0.3, 0.1, 0.2, -0.3], 1), Some(1.0));
    }

    /// Subset means of 1, 2, 4 in order: 1, 1.5, 2, 7/3, 2.5, 3, 4; with the empty one 8 patterns.
    #[test]
    fn bounds_are_subset_means() {
        let d = [1.0, 2.0, 4.0];
        let close = |error: f64, low: f64, high: f64| {
            let bounds = sign_flip_bounds(&d, error, 1);
            assert!((bounds.0 - low).abs() < 1e-9 && (bounds.1 - high).abs() < 1e-9, "{bounds:?}");
        };
        close(0.25, 1.0, 4.0);
        close(0.5, 1.5, 3.0);
        assert_eq!(sign_flip_bounds(&d, 0.2, 1), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(sign_flip_bounds(&[], 0.5, 1), (f64::NEG_INFINITY, f64::INFINITY));
    }

    #[test]
    fn bounds_agree_with_the_test() {
        for seed in 0..40 {
            let d = Noise::white(0.03).pairs(seed, 12, 0.03);
            let p = sign_flip_p(&d, seed).expect("pairs");
            for error in [0.01, 0.04, 0.2] {
                let (low, high) = sign_flip_bounds(&d, error, seed);
                assert_eq!(low > 0.0 || high < 0.0, p <= error, "seed {seed}, {error}: {p} [{low}, {high}]");
            }
        }
    }

    #[test]
    fn drawn_bounds_are_near_the_exact_ones() {
        let d = Noise::white(0.03).pairs(3, 14, 0.02);
        let (exact, drawn) =
            (sign_flip_bounds(&d, 0.04, 3), sign_flip_bounds(&[&d[..], &d].concat(), 0.04, 3));
        // Twice the pairs narrow the interval by about the square root of 2.
        let ratio = (exact.1 - exact.0) / (drawn.1 - drawn.0);
        assert!((1.2..1.7).contains(&ratio), "{exact:?} {drawn:?}");
    }

    #[test]
    fn drawn_p_is_near_the_exact_one_and_repeats() {
        // 14 values are exact; two more zero values make the same test a drawn one.
        let mut d: Vec<f64> = (0..14).map(|i| 0.3 + f64::from(i % 5) - 1.5).collect();
        let exact = sign_flip_p(&d, 5).expect("pairs");
        d.extend([0.0, 0.0]);
        let drawn = sign_flip_p(&d, 5).expect("pairs");
        assert!((exact - drawn).abs() < 0.02, "{exact} {drawn}");
        assert_eq!(sign_flip_p(&d, 5), Some(drawn));
        assert_ne!(sign_flip_p(&d, 6), Some(drawn));
    }

    #[test]
    fn a_drawn_p_is_never_zero() {
        assert_eq!(sign_flip_p(&[1.0; 70], 1), Some(1.0 / 10_001.0));
    }

    #[test]
    fn relabelled_honest_noise_rejects_about_five_percent() {
        let slots = Noise::white(0.03).values(4, 40);
        let d: Vec<f64> = slots.chunks(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
        let rate = rejection_rate(&d, 4).expect("pairs");
        assert!((0.03..=0.07).contains(&rate), "{rate}");
        assert_eq!(rejection_rate(&d, 4), Some(rate));
    }

    /// One extreme pair among quiet ones: the t-test no longer keeps its level.
    #[test]
    fn a_wild_outlier_shows() {
        let mut d = vec![0.001; 20];
        d[7] = 1.0;
        assert!(rejection_rate(&d, 4).expect("pairs") < 0.03);
        assert_eq!(rejection_rate(&[0.1], 4), None);
    }
}
