//! The curve of one factor over its levels, from complete blocks.

use serde::{Deserialize, Serialize};

use super::factorial::{Contrast, Estimate, estimates, means};
use super::record::{Better, Call};

/// The curve of a sweep on its primary metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// Valid blocks.
    pub blocks: usize,
    /// Mean of the baseline, then of each level, in the metric's unit.
    pub cells: Vec<f64>,
    /// Change from the baseline to each level.
    pub levels: Vec<Estimate>,
    /// Change from each level to the next.
    pub steps: Vec<Estimate>,
    /// The level at which the curve bends, by its position: the last one that is shown to be better than the one
    /// before it (the baseline, for the first) and than the baseline. `None` if none is.
    pub bend: Option<usize>,
}

/// The curve over `blocks`, each with the value of the baseline and of every level. All estimates share the error of
/// 5 % by Holm's rule.
pub fn analyse(blocks: &[Vec<f64>], margin: f64, better: Better) -> Sweep {
    let cells = blocks.first().map_or(0, Vec::len);
    let levels = (1..cells).map(|level| (vec![level - 1], Contrast::between(0, level, cells)));
    let steps =
        (2..cells).map(|level| (vec![level - 2, level - 1], Contrast::between(level - 1, level, cells)));
    let estimates = estimates(blocks, levels.chain(steps).collect(), margin, better);
    let (levels, steps): (Vec<Estimate>, Vec<Estimate>) =
        estimates.into_iter().partition(|estimate| estimate.factors.len() == 1);
    let rises = |estimate: &Estimate| estimate.call == Call::Helps;
    // Less harm than at the level before is no gain.
    let bend = (0..levels.len())
        .rev()
        .find(|level| rises(&levels[*level]) && level.checked_sub(1).is_none_or(|step| rises(&steps[step])));
    Sweep { blocks: blocks.len(), cells: means(blocks), levels, steps, bend }
}

#[cfg(test)]
mod tests {
    use super::{Sweep, analyse};
    use crate::record::{Better, Call};
    use crate::simulate::families::blocks;
    use rxlab_stats::noise::Noise;

    fn swept(seed: u64, effects: &[f64]) -> Sweep {
        analyse(&blocks(&Noise::drifting(), seed, effects), 0.03, Better::Higher)
    }

    /// Two cores add 60 %, four 40 % more, eight nothing: the curve bends at the second level.
    #[test]
    fn the_bend_of_a_curve_is_found() {
        let effects = [0.0, 0.6, 1.24, 1.24];
        let right = (0..400).filter(|seed| swept(*seed, &effects).bend == Some(1)).count();
        // The last step is wrong in at most 5 %.
        assert!(right >= 367, "{right} of 400");
    }

    /// Levels of -40, -40 and -20 % were once "better up to a level".
    #[test]
    fn less_harm_is_no_bend() {
        assert!((0..100).all(|seed| swept(seed, &[0.0, -0.4, -0.4, -0.2]).bend.is_none()));
        let peak = (0..100).filter(|seed| swept(*seed, &[0.0, 0.3, -0.1, -0.02]).bend == Some(0)).count();
        assert!(peak >= 95, "{peak} of 100");
    }

    #[test]
    fn a_flat_curve_has_no_bend_and_no_level_that_helps() {
        let wrong = (0..400).filter(|seed| {
            let sweep = swept(*seed, &[0.0; 5]);
            let all = sweep.levels.iter().chain(&sweep.steps);
            sweep.bend.is_some() || all.into_iter().any(|one| matches!(one.call, Call::Helps | Call::Hurts))
        });
        // 20 of 400, and three standard deviations.
        assert!(wrong.count() <= 33);
    }

    #[test]
    fn contrasts_of_known_cells() {
        let cells = vec![100.0, 110.0, 121.0];
        let sweep = analyse(&[cells.clone(), cells], 0.03, Better::Higher);
        let change = |estimate: &super::Estimate| (estimate.effect.mid * 1000.0).round();
        assert_eq!(sweep.levels.iter().map(change).collect::<Vec<_>>(), [100.0, 210.0]);
        assert_eq!(sweep.steps.iter().map(change).collect::<Vec<_>>(), [100.0]);
        assert_eq!((sweep.cells.len(), sweep.blocks), (3, 2));
    }
}
