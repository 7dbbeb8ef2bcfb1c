//! Claims that are made together: how often one or more of a table are wrong, and how often an effect that lasts into the next
//! slot is noticed.

use std::collections::BTreeMap;

use super::record;
use super::table::{MARGIN, noises, percent, row, run, seeds};
use crate::analysis::{analyse, primary_decision};
use crate::factorial::{self, Estimate};
use crate::metrics::{describe, name};
use crate::monitor::Monitor;
use crate::record::{Better, Call, Slot, TrialRecord, Verdict};
use crate::sweep;
use rxlab_stats::design::{self, Arm, Phase, order};
use rxlab_stats::looks;
use rxlab_stats::noise::{Noise, by_arm};

/// Metrics of the family next to the primary.
const OTHERS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// Levels of the sweep, of which each is 20 % better than the baseline.
const LEVELS: [f64; 5] = [0.0, 0.2, 0.2, 0.2, 0.2];
/// Two factors of three that act only together.
const TOGETHER: [f64; 8] = [0.0, 0.0, 0.0, 0.16, 0.0, 0.0, 0.0, 0.16];
/// Effect of the knob whose effect lasts, and how long it does, seconds.
const LASTING: (f64, f64) = (0.3, 0.2);

/// Share of the trials in which one or more claims of a table are wrong, by noise, as Markdown.
pub fn wrong(runs: usize) -> String {
    let mut text = String::from(
        "| noise | six other metrics | two factors | three factors | three, two of them together | sweep of four levels |\n\
         |---|---|---|---|---|---|\n",
    );
    for (name, noise) in noises() {
        let share = |is_wrong: &dyn Fn(u64) -> bool| {
            percent(seeds(runs).filter(|seed| is_wrong(*seed)).count(), runs)
        };
        let factors =
            |effects: &[f64]| share(&|seed| is_factorial_wrong(&blocks(&noise, seed, effects), effects));
        let cells = [
            share(&|seed| is_other_wrong(&noise, seed)),
            factors(&[0.0; 4]),
            factors(&[0.0; 8]),
            factors(&TOGETHER),
            share(&|seed| is_sweep_wrong(&blocks(&noise, seed, &LEVELS))),
        ];
        row(&mut text, name, &cells);
    }
    text
}

/// A trial of nothing with six other metrics, which partly move with the primary: one of them shows an effect.
fn is_other_wrong(noise: &Noise, seed: u64) -> bool {
    let values = noise.values(seed, 2 * looks::PAIRS);
    let (a, b): (Vec<f64>, Vec<f64>) = by_arm(&values, seed).unzip();
    let (_, pairs) = run(&a, &b, looks::PAIRS);
    let own: Vec<Vec<f64>> =
        (0..OTHERS.len() as u64).map(|at| noise.values(1_000_000 + seed * 10 + at, 2 * pairs)).collect();
    let mut record = TrialRecord { seed, ..record() };
    record.metrics.extend(OTHERS.map(|name| describe(name, "")));
    record.slots = slots(seed, &values[..2 * pairs], |_, at| {
        OTHERS.iter().zip(&own).map(|(name, own)| ((*name).to_owned(), own[at] * values[at].sqrt())).collect()
    });
    analyse(&record).metrics[1..].iter().any(|result| Call::SHOWN.contains(&result.call))
}

/// Slots of pairs with these values of the throughput, and others by arm and position in time.
fn slots(seed: u64, values: &[f64], others: impl Fn(Arm, usize) -> BTreeMap<String, f64>) -> Vec<Slot> {
    let arms = (0..values.len() / 2).flat_map(|pair| order(seed, Phase::Comparison, pair));
    let slot = |(at, (arm, value)): (usize, (Arm, &f64))| {
        let mut slot =
            Slot::sample((Phase::Comparison, at / 2, (at % 2) as u8, arm), &[(name::THROUGHPUT, *value)]);
        slot.values.extend(others(arm, at));
        slot
    };
    arms.zip(values).enumerate().map(slot).collect()
}

/// Twenty blocks in which cell `c` is `effects[c]` above the baseline (0.03 = 3 %).
pub(crate) fn blocks(noise: &Noise, seed: u64, effects: &[f64]) -> Vec<Vec<f64>> {
    let values = noise.values(seed, 20 * effects.len());
    let one = |(number, slots): (usize, &[f64])| {
        let mut cells = vec![0.0; effects.len()];
        for (cell, value) in design::block(seed, number, effects.len()).into_iter().zip(slots) {
            cells[cell] = value * (1.0 + effects[cell]);
        }
        cells
    };
    values.chunks_exact(effects.len()).enumerate().map(one).collect()
}

/// A row shows an effect that is none: of all factors if none does anything, else of what neither of the first two does alone.
fn is_factorial_wrong(blocks: &[Vec<f64>], effects: &[f64]) -> bool {
    let found = factorial::analyse(blocks, MARGIN, Better::Higher);
    let is_idle = effects.iter().all(|effect| *effect == 0.0);
    let is_none = |row: &&Estimate| {
        let alone = row.given.iter().any(|(other, is_set)| *other < 2 && !is_set);
        is_idle || row.factors.contains(&2) || alone
    };
    let all = found.main.iter().chain(&found.interactions).chain(&found.simple);
    let together = found.together.iter().filter(|_| is_idle);
    all.filter(is_none).chain(together).any(Estimate::is_shown)
}

/// A step between levels that are the same shows an effect.
fn is_sweep_wrong(blocks: &[Vec<f64>]) -> bool {
    sweep::analyse(blocks, MARGIN, Better::Higher).steps.iter().any(Estimate::is_shown)
}

/// Share of the trials with a knob of 30 % whose effect lasts for 200 ms in which that is noticed, and of those with the wrong
/// sign, by the length of slots and the washout, as Markdown. White noise of 3 % in slots of 2 s.
pub fn lasting(runs: usize) -> String {
    let mut text = String::from(
        "| slots | washout | measured in the next slot | noticed | wrong sign |\n|---|---|---|---|---|\n",
    );
    for (slot, washout) in [(0.1, 0.05), (0.2, 0.05), (0.5, 0.05), (0.5, 0.5)] {
        let kept = ((LASTING.1 - washout) / slot).clamp(0.0, 1.0);
        let all: Vec<(bool, bool)> = seeds(runs).map(|seed| carried(slot, washout, kept, seed)).collect();
        let share = |is: fn(&&(bool, bool)) -> bool| percent(all.iter().filter(is).count(), runs);
        let cells = [
            format!("{:.0} ms", 1e3 * washout),
            format!("{:.0} %", 100.0 * kept),
            share(|(noticed, _)| *noticed),
            share(|(_, wrong)| *wrong),
        ];
        row(&mut text, &format!("{:.0} ms", 1e3 * slot), &cells);
    }
    text
}

/// A trial of the lasting knob, of which a part `kept` is measured in the next slot: whether the analysis says so, and whether
/// it ends as harm.
fn carried(slot: f64, washout: f64, kept: f64, seed: u64) -> (bool, bool) {
    let noise = Noise::white(0.03 * (2.0 / slot).sqrt());
    let max_pairs = (looks::PAIRS as f64 * 2.5 / (slot + washout)) as usize;
    let mut record = TrialRecord { seed, max_pairs, measure_s: slot, washout_s: washout, ..record() };
    let mut values = noise.values(seed, 2 * max_pairs);
    let mut before = 0.0;
    let arms = (0..max_pairs).flat_map(|pair| order(seed, Phase::Comparison, pair));
    for (value, arm) in values.iter_mut().zip(arms) {
        let own = if arm == Arm::B { LASTING.0.ln_1p() } else { 0.0 };
        *value *= ((1.0 - kept) * own + kept * before).exp();
        before = own;
    }
    let monitor = Monitor::new(&record);
    for (pairs, _) in looks::planned(record.min_pairs, max_pairs) {
        record.slots = slots(seed, &values[..2 * pairs], |_, _| BTreeMap::new());
        if primary_decision(&record, &monitor).is_some() {
            break;
        }
    }
    let analysis = analyse(&record);
    let is_noted = analysis.notes.iter().any(|note| note.starts_with("The effect lasts into the next slot"));
    (is_noted, analysis.verdict == Verdict::Hurts)
}

#[cfg(test)]
mod tests {
    use super::{carried, lasting, wrong};

    /// A knob that helps, with slots that see nearly all of its effect in the next one: 100 trials.
    #[test]
    fn an_effect_that_lasts_is_noticed_in_short_slots() {
        let all = (10_000..10_100).map(|seed| carried(0.1, 0.05, 1.0, seed));
        let (noticed, wrong) = all.fold((0, 0), |(noticed, wrong), (is_noticed, is_wrong)| {
            (noticed + usize::from(is_noticed), wrong + usize::from(is_wrong))
        });
        assert!(noticed >= 93 && wrong <= 7, "{noticed} noticed, {wrong} wrong of 100");
    }

    #[test]
    fn the_tables_are_rectangular() {
        for table in [wrong(1), lasting(1)] {
            let columns: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
        }
    }
}
