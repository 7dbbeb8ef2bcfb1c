//! Effects of a factorial design, from complete blocks.
//!
//! Each effect is a contrast of the logarithms within a block, so that what differs between blocks cancels; its
//! interval is Student's t over the blocks' contrasts. The number of blocks is fixed beforehand. All effects share the
//! error of 5 % by Holm's rule. If an interaction is shown, the factors in it have no main effect to report: their
//! simple effects are judged in one family with all others.

use serde::{Deserialize, Serialize};

use super::monitor::judge;
use super::record::{Better, Call, Effect};
use rxlab_stats::holm::divisors;
use rxlab_stats::interval::Ratios;
use rxlab_stats::looks::{ERROR, Look};
use rxlab_stats::{Scale, mean, step};

/// The effects of a factorial trial on its primary metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Factorial {
    /// Valid blocks.
    pub blocks: usize,
    /// Mean of each cell in the metric's unit: bit `i` of its position says whether factor `i` was set.
    pub cells: Vec<f64>,
    /// Main effects of the factors that are in no interaction shown.
    pub main: Vec<Estimate>,
    /// Simple effects of the others.
    pub simple: Vec<Estimate>,
    /// Interactions; their calls say how the factors act together: more (`helps`) or less than each on its own.
    pub interactions: Vec<Estimate>,
    /// Change from none of the factors to all of them: what a trial that sets them in one step would find, without
    /// saying which of them did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Estimate>,
}

/// One effect with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The factors whose effect it is, by number; several for an interaction.
    pub factors: Vec<usize>,
    /// For a simple effect the other factors that it depends on, and whether each was set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<(usize, bool)>,
    /// The change; for an interaction of two factors half the difference of the simple effects.
    pub effect: Effect,
    /// The call against the margin.
    pub call: Call,
}

impl Factorial {
    /// Interactions whose interval excludes 0.
    pub fn shown(&self) -> impl Iterator<Item = &Estimate> {
        self.interactions.iter().filter(|estimate| estimate.is_shown())
    }
}

impl Estimate {
    /// True if its interval excludes 0.
    pub fn is_shown(&self) -> bool {
        Call::SHOWN.contains(&self.call)
    }
}

/// Effects over `blocks`, each with the value of every cell, of which there are 4 or 8.
pub fn analyse(blocks: &[Vec<f64>], margin: f64, better: Better) -> Factorial {
    let cells = blocks.first().map_or(0, Vec::len);
    let factors = cells.checked_ilog2().unwrap_or(0) as usize;
    let bits = |subset: usize| (0..factors).filter(|bit| subset & (1 << bit) != 0).collect();
    let mut all: Vec<(Vec<usize>, Contrast)> =
        (1..cells).map(|subset| (bits(subset), Contrast::new(subset, cells))).collect();
    let last = cells.saturating_sub(1);
    all.push((bits(last), Contrast::between(0, last, cells)));
    let mut p: Vec<f64> = all.iter().map(|(_, contrast)| contrast.p_value(blocks)).collect();
    let mut estimates = estimates(blocks, all, margin, better);
    let together = estimates.pop();
    let (mut main, interactions): (Vec<Estimate>, Vec<Estimate>) =
        estimates.into_iter().partition(|estimate| estimate.factors.len() == 1);
    let shown: Vec<&Estimate> = interactions.iter().filter(|estimate| estimate.is_shown()).collect();
    let partners = |factor: usize| -> Vec<usize> {
        let together = |other: &usize| {
            *other != factor && shown.iter().any(|i| i.factors.contains(&factor) && i.factors.contains(other))
        };
        (0..factors).filter(together).collect()
    };
    let mut conditions = Vec::new();
    for factor in 0..factors {
        let others = partners(factor);
        for levels in (0..1usize << others.len()).filter(|_| !others.is_empty()) {
            let level = |(bit, other): (usize, &usize)| (*other, levels & (1 << bit) != 0);
            let given: Vec<(usize, bool)> = others.iter().enumerate().map(level).collect();
            let contrast = Contrast::simple(factor, &given, cells);
            conditions.push((factor, given, contrast));
        }
    }
    // In one family with the others: an error of their own would add to that of the interactions.
    p.extend(conditions.iter().map(|(_, _, contrast)| contrast.p_value(blocks)));
    let parts = divisors(&p, ERROR).split_off(p.len() - conditions.len());
    let simple = conditions
        .into_iter()
        .zip(parts)
        .filter_map(|((factor, given, contrast), parts)| {
            contrast.estimate(blocks, (margin, better, parts), vec![factor], given)
        })
        .collect();
    main.retain(|estimate| partners(estimate.factors[0]).is_empty());
    Factorial { blocks: blocks.len(), cells: means(blocks), main, simple, interactions, together }
}

/// The estimates of `all` contrasts, each with the numbers of the factors that it is of: they share the error of 5 % by
/// Holm's rule. None below two blocks.
pub(super) fn estimates(
    blocks: &[Vec<f64>],
    all: Vec<(Vec<usize>, Contrast)>,
    margin: f64,
    better: Better,
) -> Vec<Estimate> {
    let p: Vec<f64> = all.iter().map(|(_, contrast)| contrast.p_value(blocks)).collect();
    let estimate = |((of, contrast), parts): ((Vec<usize>, Contrast), usize)| {
        contrast.estimate(blocks, (margin, better, parts), of, Vec::new())
    };
    all.into_iter().zip(divisors(&p, ERROR)).filter_map(estimate).collect()
}

/// Mean of each cell over the blocks.
pub(super) fn means(blocks: &[Vec<f64>]) -> Vec<f64> {
    let mean_of = |cell: usize| mean(&blocks.iter().map(|block| block[cell]).collect::<Vec<_>>());
    (0..blocks.first().map_or(0, Vec::len)).filter_map(mean_of).collect()
}

/// Weights of the cells' logarithms.
pub(super) struct Contrast(Vec<f64>);

impl Contrast {
    /// Contrast of the factors whose bits `subset` has: for one of them the mean of the cells with it minus the mean
    /// without, for two half the difference of the simple effects.
    fn new(subset: usize, cells: usize) -> Self {
        let weight = |cell: usize| {
            let missing = (subset & !cell).count_ones();
            let sign = if missing.is_multiple_of(2) { 1.0 } else { -1.0 };
            sign * 2.0 / cells as f64
        };
        Self((0..cells).map(weight).collect())
    }

    /// Change from one cell to another.
    pub(super) fn between(from: usize, to: usize, cells: usize) -> Self {
        Self((0..cells).map(|cell| f64::from(cell == to) - f64::from(cell == from)).collect())
    }

    /// Effect of `factor` in the cells in which the others are as `given`.
    fn simple(factor: usize, given: &[(usize, bool)], cells: usize) -> Self {
        let is_in = |cell: usize| given.iter().all(|(bit, set)| (cell & (1 << bit) != 0) == *set);
        let size = (0..cells).filter(|cell| is_in(*cell)).count() as f64;
        let weight = |cell: usize| match (is_in(cell), cell & (1 << factor) != 0) {
            (false, _) => 0.0,
            (true, true) => 2.0 / size,
            (true, false) => -2.0 / size,
        };
        Self((0..cells).map(weight).collect())
    }

    fn values(&self, blocks: &[Vec<f64>]) -> Vec<f64> {
        let one = |block: &Vec<f64>| block.iter().zip(&self.0).map(|(y, weight)| weight * y.ln()).sum();
        blocks.iter().map(one).collect()
    }

    /// The changes of the blocks, and the step in which their values are measured.
    fn ratios<'a>(&self, blocks: &[Vec<f64>], d: &'a [f64]) -> Ratios<'a> {
        let side = |is_on: fn(f64) -> bool| -> Vec<f64> {
            let of = |block: &Vec<f64>| {
                let used = block.iter().zip(&self.0).filter(|(_, weight)| is_on(**weight));
                used.map(|(y, _)| *y).collect::<Vec<_>>()
            };
            blocks.iter().flat_map(of).collect()
        };
        let step = step(&side(|weight| weight < 0.0), &side(|weight| weight > 0.0));
        Ratios { d, scale: Scale::LogRatio, step }
    }

    fn p_value(&self, blocks: &[Vec<f64>]) -> f64 {
        self.ratios(blocks, &self.values(blocks)).p_value(Look::Planned(ERROR)).unwrap_or(1.0)
    }

    /// The effect at one of `parts` equal shares of the error; `None` below two blocks.
    fn estimate(
        &self,
        blocks: &[Vec<f64>],
        (margin, better, parts): (f64, Better, usize),
        factors: Vec<usize>,
        given: Vec<(usize, bool)>,
    ) -> Option<Estimate> {
        let values = self.values(blocks);
        let ratios = self.ratios(blocks, &values);
        let look = Look::Planned(ERROR);
        let (effect, equivalence) = (ratios.interval(look, parts)?, ratios.equivalence(look, parts)?);
        let (call, shown) = judge(effect, equivalence, margin, better);
        Some(Estimate { factors, given, effect: shown.into(), call })
    }
}

#[cfg(test)]
mod tests {
    use super::{Factorial, analyse};
    use crate::record::{Better, Call};
    use crate::simulate::families::blocks;
    use rxlab_stats::noise::Noise;

    fn simulated(seed: u64, effects: &[f64]) -> Factorial {
        analyse(&blocks(&Noise::drifting(), seed, effects), 0.03, Better::Higher)
    }

    fn count(effects: &[f64], is: impl Fn(&Factorial) -> bool) -> usize {
        (0..400).filter(|seed| is(&simulated(*seed, effects))).count()
    }

    #[test]
    fn contrasts_of_known_cells() {
        // Logarithms 0, 1, 2, 7: a adds 1 without b and 5 with it.
        let cells: Vec<f64> = [0.0f64, 1.0, 2.0, 7.0].map(f64::exp).to_vec();
        let factorial = analyse(&[cells.clone(), cells], 0.03, Better::Higher);
        let ln = |effect: f64| effect.ln_1p();
        assert!(factorial.main.is_empty(), "an interaction is shown");
        assert!((ln(factorial.interactions[0].effect.mid) - 2.0).abs() < 1e-9);
        let simple: Vec<_> = factorial.simple.iter().map(|s| (s.factors[0], s.given[0])).collect();
        assert_eq!(simple, [(0, (1, false)), (0, (1, true)), (1, (0, false)), (1, (0, true))]);
        for (estimate, wanted) in factorial.simple.iter().zip([1.0, 5.0, 2.0, 6.0]) {
            assert!((ln(estimate.effect.mid) - wanted).abs() < 1e-9, "{estimate:?}");
        }
        let together = factorial.together.expect("two blocks");
        assert!((ln(together.effect.mid) - 7.0).abs() < 1e-9, "{together:?}");
    }

    #[test]
    fn an_interaction_that_is_built_in_is_found() {
        // a adds 10 % without b and takes 10 % with it.
        let effects = [0.0, 0.10, 0.0, -0.10];
        let right = count(&effects, |factorial| {
            let interacts = factorial.interactions[0].call == Call::Hurts && factorial.main.is_empty();
            interacts && factorial.simple[0].call == Call::Helps && factorial.simple[1].call == Call::Hurts
        });
        assert!(right >= 390, "{right} of 400");
        // b does nothing as long as a is not set. 5 % of 400 and three standard deviations are 33.
        let wrong = count(&effects, |factorial| {
            factorial.simple.get(2).is_some_and(|simple| matches!(simple.call, Call::Helps | Call::Hurts))
        });
        assert!(wrong <= 33, "{wrong} of 400");
    }

    #[test]
    fn main_effects_are_reported_where_there_is_no_interaction() {
        let effects = [0.0, 0.08, -0.08, 1.08 * 0.92 - 1.0];
        let right = count(&effects, |factorial| {
            factorial.main.len() == 2
                && factorial.main[0].call == Call::Helps
                && factorial.main[1].call == Call::Hurts
                && factorial.simple.is_empty()
        });
        assert!(right >= 367, "{right} of 400");
        let wrong = count(&effects, |factorial| factorial.shown().count() > 0);
        assert!(wrong <= 33, "{wrong} of 400");
    }

    /// At most 5 % of the trials show any effect of factors that have none: 20 of 400, and three standard deviations.
    #[test]
    fn factors_that_do_nothing_show_no_effect() {
        for cells in [4, 8] {
            let wrong = count(&vec![0.0; cells], |factorial| {
                let all = factorial.main.iter().chain(&factorial.simple).chain(&factorial.interactions);
                all.chain(&factorial.together).any(super::Estimate::is_shown)
            });
            assert!(wrong <= 33, "{wrong} of 400 with {cells} cells");
        }
    }

    /// With an interaction of two of three factors: no effect that does not exist is shown in more than 5 % of trials,
    /// in whatever row. 60 of 1,200, and three standard deviations.
    #[test]
    fn all_rows_of_a_table_share_one_error() {
        let truth = |cell: usize| if cell & 3 == 3 { 0.16 } else { 0.0 };
        let effects: Vec<f64> = (0..8).map(truth).collect();
        let is_wrong = |factorial: &Factorial| {
            let is_third = |row: &&super::Estimate| row.factors.contains(&2);
            let third = factorial.main.iter().chain(&factorial.interactions).filter(is_third);
            // Without the other, neither of the two does anything; given the third, simple effects of it do not either.
            let idle = factorial.simple.iter().filter(|row| {
                row.factors == [2] || row.given.iter().any(|(other, is_set)| *other < 2 && !is_set)
            });
            third.chain(idle).any(super::Estimate::is_shown)
        };
        let wrong = (0..1_200).filter(|seed| is_wrong(&simulated(*seed, &effects))).count();
        assert!(wrong <= 82, "{wrong} of 1,200");
    }

    /// Field case B: one factor does nothing, the other takes a quarter of the CPUs. Set in one step, the harm is seen and
    /// cannot be attributed; the main effects attribute it.
    #[test]
    fn factors_set_in_one_step_are_told_apart() {
        let effects = [0.0, 0.0, -0.25, -0.25];
        let harm_is_attributed = |factorial: &Factorial| {
            let calls: Vec<Call> = factorial.main.iter().map(|main| main.call).collect();
            let together = factorial.together.as_ref().map(|together| together.call);
            matches!(calls[..], [Call::NoEffect | Call::Inconclusive, Call::Hurts])
                && together == Some(Call::Hurts)
        };
        let right = count(&effects, harm_is_attributed);
        assert!(right >= 367, "{right} of 400");
        let no_effect =
            |factorial: &Factorial| factorial.main.first().is_some_and(|main| main.call == Call::NoEffect);
        let shown = count(&effects, no_effect);
        assert!(shown >= 300, "{shown} of 400");
    }

    #[test]
    fn with_three_factors_the_one_outside_the_interaction_keeps_its_main_effect() {
        let effect = |cell: usize| {
            let together: f64 = if cell & 3 == 3 { 1.2 } else { 1.0 };
            together * if cell & 4 == 4 { 1.1 } else { 1.0 } - 1.0
        };
        let factorial = simulated(3, &(0..8).map(effect).collect::<Vec<_>>());
        let main: Vec<_> = factorial.main.iter().map(|main| (main.factors.clone(), main.call)).collect();
        assert_eq!(main, [(vec![2], Call::Helps)]);
        assert_eq!(factorial.simple.len(), 4);
    }
}
