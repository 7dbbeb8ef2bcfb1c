//! When a trial may decide, and the error that each look may spend.

/// Error of the whole procedure: planned looks, and looks between them when a trial is stopped.
pub const ERROR: f64 = PLANNED + BETWEEN;
/// Share of the planned looks together.
const PLANNED: f64 = 0.04;
/// Share of all looks between them.
const BETWEEN: f64 = 0.01;
/// Fewest pairs at which a trial decides before its end: the sign-flip test has 512 patterns then.
pub const FIRST: usize = 9;

/// Pairs at which a trial ends unless told otherwise.
pub const PAIRS: usize = 40;

/// A look at the pairs so far, with its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Look {
    /// At a number of pairs fixed beforehand; the error of this look alone.
    Planned(f64),
    /// At a time that may depend on the data; the error of all such looks together.
    Between(f64),
}

impl Look {
    /// The two-sided error that the look may spend.
    pub fn error(self) -> f64 {
        let (Look::Planned(error) | Look::Between(error)) = self;
        error
    }
}

/// The look that `pairs` valid pairs are, in a trial that decides at `fewest` pairs or later and ends at `most`. Both
/// must stay the same throughout the trial: they fix the planned looks and with them the errors.
pub fn look_at(pairs: usize, fewest: usize, most: usize) -> Look {
    let looks = planned(fewest, most);
    let last = looks.last().map_or(0, |(last, _)| *last);
    let planned = looks.iter().find(|(at, _)| *at == pairs.min(last));
    planned.map_or(Look::Between(BETWEEN), |(_, error)| Look::Planned(*error))
}

/// The last look of a trial whose time is over after `pairs` valid pairs: it may spend what the looks before it have left.
/// When the time is over must not depend on the values.
pub fn last(pairs: usize, fewest: usize, most: usize) -> Look {
    let before = planned(fewest, most).into_iter().filter(|(at, _)| *at < pairs.min(most));
    Look::Planned(PLANNED - before.map(|(_, error)| error).sum::<f64>())
}

/// Error of each side of the test that there is no effect, at a planned look that has `error` for effects.
///
/// Looks at the same pairs agree too much for their errors to add up, and only one side can be wrong. Effects are proven by
/// the coins, which needs the sum; this test relies on normal means anyway, for which all looks together have an error below
/// 5 % with these factors (a test integrates it). `is_last`: the look of [`last`].
pub fn lack_error(error: f64, fewest: usize, most: usize, is_last: bool) -> f64 {
    let factor = match planned(fewest, most).len() {
        1 => 1.25,
        2 => 1.5,
        3 => 1.75,
        _ => 2.0,
    };
    // Its error for effects depends on how early the time was over: this is the plain sum.
    if is_last { (ERROR - factor * (PLANNED - error)).max(error) } else { factor * error }
}

/// Numbers of pairs of the planned looks, each a third above the one before it up to `most`, and their errors,
/// which grow with the square root of the number: early looks cost little, and most of it is left for the end. Fewer
/// than [`FIRST`] for `fewest` count as that many, and fewer than 2 for `most` as 2.
pub fn planned(fewest: usize, most: usize) -> Vec<(usize, f64)> {
    let most = most.max(2);
    let mut at = Vec::new();
    let mut next = fewest.max(FIRST);
    // A look just before the last would spend its error on nothing.
    while 6 * next <= 5 * most {
        at.push(next);
        next = next * 4 / 3;
    }
    at.push(most);
    let all: f64 = at.iter().map(|&pairs| (pairs as f64).sqrt()).sum();
    at.into_iter().map(|pairs| (pairs, PLANNED * (pairs as f64).sqrt() / all)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Look, PLANNED, lack_error, last, look_at, planned};
    use statrs::distribution::{ContinuousCDF, Normal};

    fn numbers(fewest: usize, most: usize) -> Vec<usize> {
        planned(fewest, most).into_iter().map(|(pairs, _)| pairs).collect()
    }

    #[test]
    fn looks_of_usual_trials() {
        assert_eq!(numbers(9, 40), [9, 12, 16, 21, 28, 40]);
        assert_eq!(numbers(12, 12), [12]);
        assert_eq!(numbers(2, 12), [9, 12]);
        assert_eq!(numbers(2, 10), [10]);
        assert_eq!(numbers(2, 5), [5]);
        assert_eq!(numbers(25, 40), [25, 33, 40]);
        assert_eq!(numbers(0, 1), [2]);
    }

    #[test]
    fn a_look_knows_its_error() {
        let errors: Vec<f64> =
            planned(9, 40).into_iter().map(|(_, error)| (error * 1e4).round() / 1e4).collect();
        assert_eq!(errors, [0.0045, 0.0052, 0.006, 0.0069, 0.0079, 0.0095]);
        assert_eq!(look_at(10, 9, 40), Look::Between(0.01));
        assert!(matches!(look_at(9, 9, 40), Look::Planned(error) if error < 0.005));
        assert_eq!(look_at(40, 9, 40), look_at(41, 9, 40), "the end stays the end");
        assert_eq!(look_at(6, 2, 6), Look::Planned(PLANNED));
    }

    #[test]
    fn the_look_at_the_end_of_the_time_spends_what_is_left() {
        let error = |look: Look| (look.error() * 1e4).round() / 1e4;
        assert_eq!(last(7, 9, 40), Look::Planned(PLANNED));
        assert_eq!(error(last(9, 9, 40)), 0.04, "a look there would have spent 0.0045 of it");
        assert_eq!(error(last(30, 9, 40)), 0.0095);
        assert_eq!(error(last(40, 9, 40)), error(look_at(40, 9, 40)));
        assert_eq!(error(last(41, 9, 40)), error(look_at(41, 9, 40)));
    }

    /// Probability that a sum of normal steps crosses the bounds of the looks on one side, by numerical integration over what
    /// has not crossed yet (Armitage, McPherson and Rowe, JRSS A 132, 1969).
    fn crosses(looks: &[(usize, f64)]) -> f64 {
        const POINTS: usize = 120;
        let density = |x: f64, variance: f64| {
            (-x * x / 2.0 / variance).exp() / (std::f64::consts::TAU * variance).sqrt()
        };
        let normal = Normal::standard();
        // One point before the first look.
        let (mut points, mut before, mut crossed) = (vec![(0.0, 1.0)], 0, 0.0);
        for (at, error) in looks {
            let (pairs, step) = (*at as f64, (*at - before) as f64);
            let bound = normal.inverse_cdf(1.0 - error) * pairs.sqrt();
            crossed += points.iter().map(|(x, p)| p * normal.sf((bound - x) / step.sqrt())).sum::<f64>();
            let lowest = -7.0 * pairs.sqrt();
            let width = (bound - lowest) / POINTS as f64;
            let next = (0..POINTS).map(|point| lowest + (point as f64 + 0.5) * width);
            points = next
                .map(|y| (y, width * points.iter().map(|(x, p)| p * density(y - x, step)).sum::<f64>()))
                .collect();
            before = *at;
        }
        crossed
    }

    #[test]
    fn a_lack_of_an_effect_is_claimed_wrongly_in_less_than_five_percent() {
        assert!((crosses(&[(10, 0.04)]) - 0.04).abs() < 1e-6);
        for (fewest, most) in
            [(9, 5), (9, 9), (9, 12), (9, 15), (9, 20), (9, 25), (9, 40), (9, 100), (20, 40), (25, 40)]
        {
            let looks = planned(fewest, most);
            let doubled: Vec<_> =
                looks.into_iter().map(|(at, error)| (at, lack_error(error, fewest, most, false))).collect();
            let error = crosses(&doubled);
            assert!((0.04..0.0501).contains(&error), "{fewest} to {most}: {error}");
        }
        // The time is over at 13 pairs, after the looks at 9 and 12.
        let looks = planned(9, 40);
        let last = last(13, 9, 40).error();
        let mut taken: Vec<_> =
            looks[..2].iter().map(|(at, error)| (*at, lack_error(*error, 9, 40, false))).collect();
        taken.push((13, lack_error(last, 9, 40, true)));
        assert!(crosses(&taken) < 0.05, "{}", crosses(&taken));
    }

    proptest! {
        #[test]
        fn the_looks_spend_the_error_once(fewest in 0usize..60, most in 0usize..5000) {
            let looks = planned(fewest, most);
            prop_assert!((looks.iter().map(|(_, error)| error).sum::<f64>() - PLANNED).abs() < 1e-9);
            prop_assert!(looks.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
