//! Simulated live traffic, whose mix and rate move the metric of a slot: what adjusting for them costs and gains.

use super::table::{Tally, noises, percent, row, seeds};
use crate::analysis::adjust;
use crate::monitor::Monitor;
use crate::record::{Better, Call};
use rxlab_stats::interval::Ratios;
use rxlab_stats::looks;
use rxlab_stats::noise::Noise;
use rxlab_stats::noise::by_arm;

/// Traffic of a machine, and how its metric follows it.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Noise of the bytes per packet.
    pub mix: Noise,
    /// Noise of the packets per second.
    pub rate: Noise,
    /// Noise of everything else.
    pub rest: Noise,
    /// Change of the metric in log ratios by one of the mix and of the rate.
    pub slopes: [f64; 2],
}

impl Traffic {
    /// Traffic whose mix varies by 5 % from slot to slot and whose rate by 10 %, both with drift.
    pub fn usual() -> Self {
        Self {
            mix: Noise { drift: 0.05, ..Noise::white(0.05) },
            rate: Noise { drift: 0.10, ..Noise::white(0.10) },
            rest: Noise::white(0.03),
            slopes: [0.5, 0.8],
        }
    }

    /// Log ratios of the metric and of both covariates, of all pairs of a trial.
    fn changes(&self, seed: u64, effect: f64) -> (Vec<f64>, [Vec<f64>; 2]) {
        let covariates = [pairs(&self.mix, seed, 1 << 40), pairs(&self.rate, seed, 1 << 41)];
        let mut d = pairs(&self.rest, seed, 0);
        d.iter_mut().for_each(|d| *d += effect.ln_1p());
        for (slope, c) in self.slopes.iter().zip(&covariates) {
            d.iter_mut().zip(c).for_each(|(d, c)| *d += slope * c);
        }
        (d, covariates)
    }
}

/// Log ratios of the pairs of a trial with the coins of `seed`, and noise of its own.
fn pairs(noise: &Noise, seed: u64, own: u64) -> Vec<f64> {
    let values = noise.values(seed + own, 2 * looks::PAIRS);
    by_arm(&values, seed).map(|(a, b)| (b / a).ln()).collect()
}

/// Call and pairs of a trial that adjusts, or that does not.
fn run(traffic: &Traffic, seed: u64, effect: f64, adjusts: bool) -> (Call, usize) {
    let (d, [mix, rate]) = traffic.changes(seed, effect);
    let monitor = Monitor {
        min_pairs: looks::FIRST,
        max_pairs: looks::PAIRS,
        margin: 0.03,
        better: Better::Higher,
        seed,
        time_is_over: false,
    };
    for (pairs, _) in looks::planned(looks::FIRST, looks::PAIRS) {
        let covariates = [("mix", mix[..pairs].to_vec()), ("rate", rate[..pairs].to_vec())];
        let adjusted = adjust(&d[..pairs], &covariates).filter(|_| adjusts);
        let d = adjusted.as_ref().map_or(&d[..pairs], |adjusted| &adjusted.d);
        if let Some((call, _)) = monitor.look(Ratios::from(d)) {
            return (call, pairs);
        }
    }
    (Call::Inconclusive, looks::PAIRS)
}

/// True if an adjusted trial of a change that does nothing claims an effect.
pub fn is_wrong(traffic: &Traffic, seed: u64) -> bool {
    Call::SHOWN.contains(&run(traffic, seed, 0.0, true).0)
}

/// Trials without an effect and with one of 5 %, each without adjustment and with it, by what else moves the metric.
pub fn table(runs: usize) -> String {
    let mut text = String::from(
        "| other noise | A/A: effect, as measured | A/A: effect, adjusted | 5 %: helps, as measured | pairs | 5 %: helps, adjusted | pairs |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (name, rest) in noises() {
        let traffic = Traffic { rest, ..Traffic::usual() };
        let tally =
            |effect, adjusts| Tally(seeds(runs).map(|seed| run(&traffic, seed, effect, adjusts)).collect());
        let wrong = [false, true].map(|adjusts| percent(tally(0.0, adjusts).count(&Call::SHOWN), runs));
        let found = [false, true].map(|adjusts| tally(0.05, adjusts));
        let found = found.map(|found| [percent(found.count(&[Call::Helps]), runs), found.mean_pairs()]);
        row(&mut text, name, &[&wrong[..], found.as_flattened()].concat());
    }
    text
}
