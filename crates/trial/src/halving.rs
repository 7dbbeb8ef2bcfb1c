//! A search among candidates by halving, in randomised complete blocks.
//!
//! Each stage runs blocks that hold the baseline and every candidate that is left, and keeps the better half. Candidates
//! that are left have the same blocks behind them, so that what differs between blocks cancels. Early stages are short:
//! they only have to keep the best of many in the better half. The blocks behind a choice favour what they chose, so the
//! winner's effect is measured afterwards, in fresh blocks. (Sequential halving: Karnin, Koren, Somekh, ICML 2013.)

use super::record::Better;
use rxlab_stats::mean;

/// Blocks of the first stage.
const FIRST: f64 = 2.0;
/// Blocks behind the last choice, as a part of those that confirm it.
const LAST: f64 = 0.75;

/// Blocks behind the choice at the end of each stage, for a number of candidates and of blocks that confirm the winner.
pub fn stages(candidates: usize, blocks: usize) -> Vec<usize> {
    let count = candidates.next_power_of_two().ilog2() as usize;
    let last = (LAST * blocks as f64).max(FIRST);
    (0..count)
        .map(|stage| {
            // Each stage has longer than the one before by the same factor; the only stage is the last.
            let part = if count > 1 { stage as f64 / (count - 1) as f64 } else { 1.0 };
            (FIRST * (last / FIRST).powf(part)).round() as usize
        })
        .collect()
}

/// Slots of a search without void ones, including those that confirm the winner.
pub fn slots(candidates: usize, blocks: usize) -> usize {
    let (mut left, mut done, mut slots) = (candidates, 0, 0);
    for behind in stages(candidates, blocks) {
        slots += (left + 1) * (behind - done);
        (left, done) = (left.div_ceil(2), behind);
    }
    slots + 2 * blocks
}

/// The better half of `candidates`, best first. `blocks` holds the values of each block in the order of `candidates`.
pub fn better_half(candidates: &[usize], blocks: &[Vec<f64>], better: Better) -> Vec<usize> {
    let sign = if better == Better::Higher { -1.0 } else { 1.0 };
    let score = |at: usize| {
        let logs: Vec<f64> = blocks.iter().map(|block| sign * block[at].ln()).collect();
        mean(&logs).unwrap_or(f64::INFINITY)
    };
    let mut scored: Vec<(f64, usize)> =
        candidates.iter().enumerate().map(|(at, candidate)| (score(at), *candidate)).collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    scored.into_iter().take(candidates.len().div_ceil(2)).map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::{better_half, slots, stages};
    use crate::record::Better;

    #[test]
    fn stages_grow_by_a_factor() {
        assert_eq!(stages(2, 20), [15]);
        assert_eq!(stages(4, 20), [2, 15]);
        assert_eq!(stages(8, 20), [2, 5, 15]);
        assert_eq!(stages(12, 20), [2, 4, 8, 15]);
        assert_eq!(stages(1, 20), [0usize; 0]);
        // 9 x 2 + 5 x 3 + 3 x 10, and 2 x 20 fresh ones.
        assert_eq!(slots(8, 20), 18 + 15 + 30 + 40);
        assert_eq!(slots(1, 20), 40);
    }

    #[test]
    fn the_better_half_of_known_values() {
        let blocks = vec![vec![10.0, 30.0, 20.0], vec![10.0, 30.0, 20.0]];
        assert_eq!(better_half(&[4, 7, 9], &blocks, Better::Higher), [7, 9]);
        assert_eq!(better_half(&[4, 7, 9], &blocks, Better::Lower), [4, 9]);
    }
}
