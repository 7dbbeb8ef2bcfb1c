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

    use super::{Look, PLANNED, look_at, planned};

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

    proptest! {
        #[test]
        fn the_looks_spend_the_error_once(fewest in 0usize..60, most in 0usize..5000) {
            let looks = planned(fewest, most);
            prop_assert!((looks.iter().map(|(_, error)| error).sum::<f64>() - PLANNED).abs() < 1e-9);
            prop_assert!(looks.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
