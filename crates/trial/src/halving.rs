//! A search among candidates by halving, in randomised complete blocks.
//!
//! Each stage runs blocks that hold the baseline and every candidate that is left, and keeps the better half. Candidates
//! that are left have the same blocks behind them, so that what differs between blocks cancels. Early stages are short:
//! they only have to keep the best of many in the better half. The blocks behind a choice favour what they chose, so the
//! winner's effect is measured afterwards, in fresh blocks. (Sequential halving: Karnin, Koren, Somekh, ICML 2013.)

use super::record::Better;
use rxlab_stats::interval::{Interval, t_quantile};
use rxlab_stats::looks::ERROR;
use rxlab_stats::{mean, residual};

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

/// A stage of a search: the candidates that it ran, their logarithms in its own blocks, and those that it kept.
pub struct Stage {
    /// The candidates, in the order of the values.
    pub ran: Vec<usize>,
    /// Logarithms of the values in each block.
    pub blocks: Vec<Vec<f64>>,
    /// The candidates that it kept, best first.
    pub kept: Vec<usize>,
}

/// Change from each other candidate to the winner as a log ratio, over the blocks that both ran in.
///
/// The blocks that chose the winner favour it. So the error is shared by every comparison that the choice could have led
/// to, those of any two candidates at the end of any stage, and all the intervals together miss a truth in at most 5 % of
/// searches. The noise is that of all stages: two blocks of a stage say nothing about their own.
pub fn leads(stages: &[Stage]) -> Vec<(usize, Interval)> {
    let Some(winner) = stages.last().and_then(|stage| stage.kept.first().copied()) else { return Vec::new() };
    let (squares, freedom) = stages
        .iter()
        .map(|stage| residual(&stage.blocks))
        .fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    let candidates = stages[0].ran.len();
    let comparisons = (candidates * (candidates - 1) / 2 * stages.len()) as f64;
    let quantile = t_quantile(1.0 - ERROR / 2.0 / comparisons, freedom);
    let mut changes: Vec<Vec<f64>> = vec![Vec::new(); candidates];
    let mut leads = Vec::new();
    for stage in stages {
        let of_winner = stage.ran.iter().position(|ran| *ran == winner);
        for (at, other) in stage.ran.iter().enumerate().filter(|(_, other)| **other != winner) {
            let Some(of_winner) = of_winner else { continue };
            changes[*other].extend(stage.blocks.iter().map(|block| block[of_winner] - block[at]));
            if let Some(mid) = mean(&changes[*other]).filter(|_| !stage.kept.contains(other)) {
                let variance = 2.0 * squares / freedom / changes[*other].len() as f64;
                // Without a degree of freedom the quantile is infinite, and the variance NaN.
                let half = if freedom > 0.0 { quantile * variance.sqrt() } else { f64::INFINITY };
                leads.push((*other, Interval::around(mid, half)));
            }
        }
    }
    leads
}

#[cfg(test)]
mod tests {
    use super::{Stage, better_half, leads, slots, stages};
    use crate::record::Better;

    /// The lead over a candidate rests on the blocks that both ran in.
    #[test]
    fn leads_of_known_stages() {
        let first = Stage {
            ran: vec![0, 1, 2],
            blocks: vec![vec![1.0, 5.0, 3.0], vec![1.1, 5.0, 3.0]],
            kept: vec![1, 2],
        };
        let last = Stage { ran: vec![1, 2], blocks: vec![vec![6.0, 3.0], vec![6.0, 3.1]], kept: vec![1] };
        let leads = leads(&[first, last]);
        let mids: Vec<_> =
            leads.iter().map(|(other, lead)| (*other, (lead.mid * 1e6).round() / 1e6)).collect();
        assert_eq!(mids, [(0, 3.95), (2, 2.475)]);
        let half = |at: usize| leads[at].1.high - leads[at].1.mid;
        assert!((half(0) / half(1) - 2f64.sqrt()).abs() < 1e-9, "two blocks against four");
    }

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
