//! A choice: which of several candidates, the unchanged machine among them, is the best, as soon as the others cannot win.
//!
//! Blocks hold every candidate that is left once, in random order. After each block a candidate leaves if it cannot be
//! better than the leader by half the margin; at planned numbers of blocks the worse half leaves in any case, so that the
//! choice ends in time. Candidates of one scale, such as masks of one more CPU each, have one optimum: the scale is tried
//! coarsely first, then in the middle between the leader and its neighbours.
//!
//! All of it follows from the recorded blocks, so that a choice goes on after a kill. It proves nothing about the winner:
//! the blocks that chose it favour it. A trial in pairs has to follow. (Successive elimination and sequential halving:
//! Even-Dar et al., JMLR 2006; Karnin, Koren, Somekh, ICML 2013.)

use serde::{Deserialize, Serialize};

use super::record::Better;
use rxlab_stats::interval::t_quantile;
use rxlab_stats::residual;

/// Fewest blocks after which a candidate leaves.
const FIRST: usize = 2;
/// Each halving has as many times the blocks of the one before.
const GROWTH: usize = 3;
/// Degrees of freedom from which the scatter of the blocks counts as known.
const FREEDOM: f64 = 6.0;
/// Part of the margin by which a candidate has to be able to win to stay: the chosen one may be behind by as much, and
/// then by what the scatter hides.
const INDIFFERENT: f64 = 0.5;
/// Chance that a candidate leaves at one look although it is better than the leader by the margin.
const ERROR: f64 = 0.01;

/// Blocks of the last two candidates, by default: with slots of half a second, the longest choice among recorded masks of
/// a machine with 16 CPUs takes two minutes.
pub const BLOCKS: usize = 57;

pub const MOST: usize = 64;

/// Slots of a choice among `count` candidates if none leaves before it has to.
pub fn slots(count: usize, blocks: usize) -> usize {
    let (mut left, mut done, mut slots) = (count, 0, 0);
    while left > 1 {
        let behind = last(left, blocks).max(done);
        slots += left * (behind - done);
        (left, done) = (left / 2, behind);
    }
    slots
}

/// Blocks after which the worse half of `count` candidates leaves in any case; the last two have `blocks`.
fn last(count: usize, blocks: usize) -> usize {
    let halvings = count.next_power_of_two().ilog2();
    (blocks / GROWTH.pow(halvings.saturating_sub(1))).max(FIRST)
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Candidate {
    /// A scale with one optimum, and the position on it.
    pub size: Option<(usize, usize)>,
    /// Tried only if its neighbours on the scale lead.
    pub later: bool,
}

/// What is chosen from, and by which rule.
#[derive(Debug)]
pub struct Rule<'a> {
    /// The candidates by cell. Cell 0 is the unchanged machine.
    pub candidates: &'a [Candidate],
    /// Cells that may not be tried again: a guard tripped there, or they did not take hold.
    pub tripped: &'a [usize],
    /// Blocks at which the last two candidates end.
    pub blocks: usize,
    /// Differences below this fraction do not matter (0.03 = 3 %).
    pub margin: f64,
    pub better: Better,
}

/// What a choice found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choice {
    /// The cells that each stage left, best first; 0 = the machine as it was.
    pub left: Vec<Vec<usize>>,
    /// The cell that won; `None` if a guard tripped in each candidate.
    pub winner: Option<usize>,
    /// Cells that left for lack of time: they may be better than the winner by the margin.
    pub open: Vec<usize>,
    /// Cells that left because a guard tripped or they did not take hold.
    pub tripped: Vec<usize>,
    /// Cells that were tried.
    pub tried: Vec<usize>,
}

/// How far a choice is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// The cells that each finished stage left, best first.
    pub left: Vec<Vec<usize>>,
    /// The cells of the next block, in their order; a single one has won.
    pub cells: Vec<usize>,
    /// Cells that left without being shown not to be better than the leader by the margin.
    pub open: Vec<usize>,
    /// Cells of all blocks up to the next.
    pub tried: Vec<usize>,
}

impl Standing {
    /// True if one cell is left, or none.
    pub fn is_over(&self) -> bool {
        self.cells.len() < 2
    }
}

impl Rule<'_> {
    /// Replays the stages. `values` returns, for some cells, their values in each block that has all of them.
    pub fn standing(&self, values: impl Fn(&[usize]) -> Vec<Vec<f64>>) -> Standing {
        let cells = self.begin();
        let mut standing = Standing { tried: cells.clone(), cells, ..Standing::default() };
        let mut from = FIRST;
        while !standing.is_over() {
            let last = last(standing.cells.len(), self.blocks);
            let blocks = values(&standing.cells);
            let looks = from..=blocks.len().min(last.max(from));
            let ended = looks.into_iter().find_map(|count| {
                let mut stay = self.contenders(&standing.cells, &blocks[..count]);
                let most = if count < last { stay.len() } else { standing.cells.len() / 2 };
                let open = stay.split_off(most.min(stay.len()));
                (stay.len() < standing.cells.len()).then_some((count, stay, open))
            });
            let Some((count, stay, open)) = ended else { return standing };
            standing.open.extend(open);
            standing.left.push(stay.clone());
            let between = self.between(stay[0], &standing.tried);
            // New candidates have no blocks yet.
            from = if between.is_empty() { count } else { FIRST };
            standing.tried.extend(&between);
            standing.cells = stay.into_iter().chain(between).collect();
            standing.cells.sort_unstable();
        }
        standing
    }

    /// The cells of the first block.
    fn begin(&self) -> Vec<usize> {
        let is_first = |cell: &usize| !self.candidates[*cell].later && !self.tripped.contains(cell);
        (0..self.candidates.len()).filter(is_first).collect()
    }

    /// The cells of a scale in order.
    fn scale(&self, wanted: usize) -> Vec<usize> {
        let on_scale = |(cell, one): (usize, &Candidate)| match one.size {
            Some((scale, at)) if scale == wanted && !self.tripped.contains(&cell) => Some((at, cell)),
            _ => None,
        };
        let mut scale: Vec<(usize, usize)> =
            self.candidates.iter().enumerate().filter_map(on_scale).collect();
        scale.sort_unstable();
        scale.into_iter().map(|(_, cell)| cell).collect()
    }

    /// Untried cells in the middle between the leader and those next to it on the scale that were tried.
    fn between(&self, leader: usize, tried: &[usize]) -> Vec<usize> {
        let Some((scale, _)) = self.candidates[leader].size else { return Vec::new() };
        let scale = self.scale(scale);
        let Some(own) = scale.iter().position(|cell| *cell == leader) else { return Vec::new() };
        let is_tried = |at: &usize| tried.contains(&scale[*at]);
        let below = (0..own).rev().find(is_tried).map(|below| own - (own - below) / 2);
        let above = (own + 1..scale.len()).find(is_tried).map(|above| own + (above - own) / 2);
        below.into_iter().chain(above).filter(|at| !is_tried(at)).map(|at| scale[at]).collect()
    }

    /// The cells that may be better than the leader by the margin, best first, the leader included. `blocks` holds the values
    /// of each block in the order of `cells`.
    fn contenders(&self, cells: &[usize], blocks: &[Vec<f64>]) -> Vec<usize> {
        let sign = if self.better == Better::Higher { 1.0 } else { -1.0 };
        let count = blocks.len() as f64;
        let logs: Vec<Vec<f64>> =
            blocks.iter().map(|block| block.iter().map(|value| sign * value.ln()).collect()).collect();
        let of_cell = |at: usize| logs.iter().map(|block| block[at]).sum::<f64>() / count;
        let means: Vec<f64> = (0..cells.len()).map(of_cell).collect();
        let (squares, freedom) = residual(&logs);
        let far = t_quantile(1.0 - ERROR, freedom) * (2.0 * squares / freedom / count).sqrt();
        let mut best: Vec<usize> = (0..cells.len()).collect();
        best.sort_by(|a, b| means[*b].total_cmp(&means[*a]));
        let leader = best[0];
        let may_win = |at: &usize| {
            *at == leader
                || freedom < FREEDOM
                || means[*at] - means[leader] + far >= (self.margin * INDIFFERENT).ln_1p()
        };
        best.into_iter().filter(may_win).map(|at| cells[at]).collect()
    }
}

#[cfg(test)]
mod tests;
