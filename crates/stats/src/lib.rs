//! Statistics of paired trials with planned looks, and the designs that they judge.
//!
//! Functions of numbers: [`design`] draws the order of the arms from a seed, [`interval`] judges the changes of pairs at a
//! [look](looks), [`permutation`] needs only the coins, [`planning`] says what a number of pairs can find, [`pool`]
//! makes one answer of several hosts', and [`noise`]
//! makes the noise of real machines for tests of all of them. The method is in `docs/statistics.md`.
//!
//! Never: does I/O, reads a clock, or draws a random number that no seed determines.
//!
//! ```
//! use rxlab_stats::interval::Ratios;
//! use rxlab_stats::looks::{ERROR, Look};
//!
//! // ln(B / A) of eight pairs: B is about 10 % better.
//! let changes = [0.10, 0.08, 0.11, 0.09, 0.12, 0.07, 0.10, 0.09];
//! let interval = Ratios::from(&changes[..]).interval(Look::Planned(ERROR), 1).expect("two pairs or more");
//! assert!(interval.low > 0.08 && interval.high < 0.11);
//! ```

#![warn(missing_docs)]

pub mod design;
pub mod holm;
pub mod interval;
pub mod looks;
pub mod noise;
pub mod permutation;
pub mod planning;
pub mod pool;

/// Scale of the changes of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// ln(B/A); both means must be above 0.
    LogRatio,
    /// B - A as a fraction of the mean of both arms.
    Difference,
}

impl Scale {
    /// A mean change as a log ratio. With the difference x of the means as a fraction of their mean, B/A is
    /// (2 + x) / (2 - x). A difference of 2 or more in either direction has an infinite ratio.
    pub fn log_ratio(self, change: f64) -> f64 {
        match self {
            Scale::LogRatio => change,
            Scale::Difference => 2.0 * (change / 2.0).clamp(-1.0, 1.0).atanh(),
        }
    }
}

/// The log ratio ln(b / a); `None` unless both are finite and above 0.
pub fn log_ratio(a: f64, b: f64) -> Option<f64> {
    let usable = |y: f64| y.is_finite() && y > 0.0;
    (usable(a) && usable(b)).then(|| b.ln() - a.ln())
}

/// Arithmetic mean; `None` if empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation (n - 1); `None` below two values.
pub fn sd(values: &[f64]) -> Option<f64> {
    let (first, rest) = values.split_first()?;
    if rest.is_empty() {
        return None;
    }
    // Equal values have no spread; rounding of their mean would create one.
    if rest.iter().all(|value| value == first) {
        return Some(0.0);
    }
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Root mean square: the standard deviation of values whose true mean is known to be 0; `None` if
/// empty.
pub fn rms(values: &[f64]) -> Option<f64> {
    mean(&values.iter().map(|value| value * value).collect::<Vec<_>>()).map(f64::sqrt)
}

/// Coefficient of variation, standard deviation over mean (0.03 = 3 %); `None` below two values or
/// with a mean that is not above 0.
pub fn cv(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|mean| *mean > 0.0)?;
    Some(sd(values)? / mean)
}

/// Changes of pairs from `a` to `b`, and their scale. Log ratios if all values are above 0; differences if some are 0: a
/// pair with a 0 has no ratio, and leaving it out would make the result depend on the outcome. `None` with a value
/// below 0, or without any above it in `a`: then a relative change has no meaning. Both slices must have one value per
/// pair, in the same order.
pub fn changes(a: &[f64], b: &[f64]) -> Option<(Vec<f64>, Scale)> {
    let ratios: Option<Vec<f64>> = a.iter().zip(b).map(|(a, b)| log_ratio(*a, *b)).collect();
    if let Some(ratios) = ratios {
        return Some((ratios, Scale::LogRatio));
    }
    let usable = a.iter().chain(b).all(|value| value.is_finite() && *value >= 0.0);
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    // The mean of both arms: it is the same whichever slot ran which arm, so the sign-flip test stays exact.
    let both = (mean_a + mean_b) / 2.0;
    (usable && mean_a > 0.0)
        .then(|| (a.iter().zip(b).map(|(a, b)| (b - a) / both).collect(), Scale::Difference))
}

/// Step in which the values of two arms are measured, as a fraction of their mean; 0 if they do not look rounded.
///
/// Values that repeat are rounded: if less than half of them differ, the smallest difference of two is taken for
/// the step. If all are the same whole number, they are taken for counts, whose step is 1.
pub fn step(a: &[f64], b: &[f64]) -> f64 {
    let mut values: Vec<f64> = a.iter().chain(b).copied().collect();
    let all = values.len();
    let Some(mean) = mean(&values).filter(|mean| *mean > 0.0) else { return 0.0 };
    values.sort_by(f64::total_cmp);
    values.dedup();
    let step = match &values[..] {
        [_] if all == 1 => None,
        [value] => (value.fract() == 0.0).then_some(1.0),
        _ if 2 * values.len() >= all => None,
        _ => values.windows(2).map(|pair| pair[1] - pair[0]).reduce(f64::min),
    };
    step.map_or(0.0, |step| step / mean)
}

/// Lag-1 autocorrelation; `None` below three values. 0 for values without spread.
pub fn lag1(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    if sd(values)? == 0.0 {
        return Some(0.0);
    }
    let mean = mean(values)?;
    let all: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let neighbours: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    Some(neighbours / all)
}

/// Sum of the squares that the means of rows and columns leave, and its degrees of freedom: the scatter of blocks in which
/// each candidate has a value, without what a block has in common. All rows must have the same length.
pub fn residual(blocks: &[Vec<f64>]) -> (f64, f64) {
    let columns = blocks.first().map_or(0, Vec::len);
    let of_column =
        |at: usize| mean(&blocks.iter().map(|block| block[at]).collect::<Vec<_>>()).unwrap_or(0.0);
    let means: Vec<f64> = (0..columns).map(of_column).collect();
    let all = mean(&means).unwrap_or(0.0);
    let squares = blocks.iter().map(|block| {
        let of_block = mean(block).unwrap_or(0.0);
        block
            .iter()
            .zip(&means)
            .map(|(value, of_column)| (value - of_block - of_column + all).powi(2))
            .sum::<f64>()
    });
    (squares.sum(), (blocks.len().saturating_sub(1) * columns.saturating_sub(1)) as f64)
}

#[cfg(test)]
mod tests {
    use super::{Scale, changes, cv, lag1, log_ratio, mean, residual, rms, sd, step};

    #[test]
    fn summaries_of_a_known_sample() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&values), Some(5.0));
        assert!((sd(&values).expect("two values") - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!((cv(&values).expect("two values") - (32.0f64 / 7.0).sqrt() / 5.0).abs() < 1e-12);
        assert!((rms(&[3.0, -4.0]).expect("values") - 12.5f64.sqrt()).abs() < 1e-12);
    }

    /// By hand: rows 1 2 6 and 3 4 2 have means 3 3, columns 2 3 4, all 3; the residuals are -1 -1 2 and 1 1 -2.
    #[test]
    fn the_scatter_is_what_rows_and_columns_leave() {
        assert_eq!(residual(&[vec![1.0, 2.0, 6.0], vec![3.0, 4.0, 2.0]]), (12.0, 2.0));
        assert_eq!(residual(&[vec![1.0, 2.0]]), (0.0, 0.0));
        assert_eq!(residual(&[]), (0.0, 0.0));
    }

    #[test]
    fn too_few_values_say_nothing() {
        assert_eq!(mean(&[]), None);
        assert_eq!(sd(&[1.0]), None);
        assert_eq!(cv(&[1.0]), None);
        assert_eq!(cv(&[-1.0, 1.0]), None);
        assert_eq!(lag1(&[1.0, 2.0]), None);
    }

    /// Ten times 0.1 has a mean that is not 0.1, and so once had a spread of 1e-17.
    #[test]
    fn equal_values_have_no_spread_at_all() {
        assert_eq!(sd(&[0.1; 10]), Some(0.0));
        assert_eq!(lag1(&[0.1; 10]), Some(0.0));
    }

    #[test]
    fn lag1_knows_trends_from_alternation() {
        assert!(lag1(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("enough") > 0.4);
        assert!(lag1(&[1.0, -1.0, 1.0, -1.0, 1.0, -1.0]).expect("enough") < -0.7);
        // By hand: mean 2.5, (-1.5*0.5 + 0.5*-0.5 + -0.5*1.5) / 5 = -0.35.
        assert!((lag1(&[1.0, 3.0, 2.0, 4.0]).expect("enough") + 0.35).abs() < 1e-12);
    }

    #[test]
    fn repeated_values_are_rounded() {
        let near = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-12, "{got}");
        near(step(&[99.0, 100.0, 101.0, 100.0], &[100.0, 100.0, 99.0, 101.0]), 0.01);
        near(step(&[99.1, 100.2, 101.3], &[98.9, 99.9, 100.1]), 0.0);
        near(step(&[5.0; 4], &[5.0; 4]), 0.2);
        near(step(&[0.25; 4], &[0.25; 4]), 0.0);
        near(step(&[], &[]), 0.0);
        near(step(&[0.0; 4], &[0.0; 4]), 0.0);
    }

    /// Pairs with a 0 were once left out, which made a metric look better the more often it was 0.
    #[test]
    fn a_zero_turns_all_pairs_into_differences() {
        let (ratios, scale) = changes(&[1.0, 2.0], &[2.0, 2.0]).expect("positive");
        assert_eq!((ratios, scale), (vec![2.0f64.ln(), 0.0], Scale::LogRatio));
        let (differences, scale) = changes(&[1.0, 2.0], &[0.0, 1.0]).expect("zeros");
        assert_eq!((differences, scale), (vec![-1.0, -1.0], Scale::Difference));
        assert!((scale.log_ratio(-1.0) - (1.0f64 / 3.0).ln()).abs() < 1e-12, "0.5 of 1.5");
        assert_eq!(scale.log_ratio(-2.5), f64::NEG_INFINITY);
        // All gone is a change of -100 %; from nothing there is none.
        let (gone, scale) = changes(&[1.0, 2.0], &[0.0, 0.0]).expect("zeros");
        assert_eq!(scale.log_ratio(mean(&gone).expect("two")).exp_m1(), -1.0);
        for (a, b) in [
            ([0.0, 0.0], [0.0, 0.0]),
            ([0.0, 0.0], [0.0, 1.0]),
            ([1.0, -1.0], [1.0, 1.0]),
            ([1.0, f64::NAN], [1.0, 1.0]),
        ] {
            assert_eq!(changes(&a, &b), None, "{a:?} {b:?}");
        }
        assert_eq!(changes(&[], &[]), Some((Vec::new(), Scale::LogRatio)));
    }

    #[test]
    fn a_ratio_needs_two_positive_values() {
        assert!((log_ratio(100.0, 110.0).expect("positive") - 1.1f64.ln()).abs() < 1e-12);
        for (a, b) in [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert_eq!(log_ratio(a, b), None, "{a} {b}");
        }
    }
}
