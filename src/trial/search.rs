//! Search for the highest rate that keeps its limits, by repeated runs.
//!
//! Rates are steps of 5 % on one ladder. Single runs find where limits begin to fail; then every rate around
//! it is run repeatedly, in rounds of random order, so that other activity on the machine affects all of
//! them alike. Each run gives margins (above 0: kept). A rate holds if the intervals of all its mean margins
//! are above 0, and fails if one is below. Looks are planned: after 6, 12 and 24 runs of a rate; the 5 % of
//! error are shared by all looks at all rates, and for a failure, which has one chance per margin, by the
//! margins too. So the answer, "holds here, fails there", is wrong in at most one search of twenty if runs are independent. A
//! machine that stays in a slow state for longer than a few runs breaks that, and a search that is over before the state
//! changes cannot notice: `docs/load.md` has how often simulated searches are wrong. A rate above a failing one is assumed to
//! fail, one below a holding one to hold.
//!
//! This module runs no load: [`Search`] returns the next rate, and receives the margins.

pub mod found;
pub mod margins;
pub mod slo;

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::design::{Purpose, stream};
use super::stats::interval::Ratios;

/// From one rate to the next.
const STEP: f64 = 1.05;
/// Steps from the estimate at which the search gives up: a factor of about 1/1000 and 30.
const LOWEST: i32 = -142;
const HIGHEST: i32 = 70;
/// First distance of the single runs, in steps.
const STRIDE: i32 = 6;
/// The single runs end when met and missed limits are this close.
const CLOSE: i32 = 3;
/// Runs of a rate after which it is judged.
const LOOKS: [usize; 3] = [6, 12, 24];
/// Limit on the number of judged rates.
const MOST: usize = 12;
/// Error of the whole search.
const ERROR: f64 = 0.05;
/// Error of one look at one rate, at a planned number of pairs.
const LOOK_ERROR: f64 = ERROR / (LOOKS.len() * MOST) as f64;

/// Verdict on a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It keeps all limits.
    Holds,
    /// It breaks one.
    Fails,
    /// Its runs are inconclusive.
    Undecided,
}

/// A rate that is run repeatedly.
#[derive(Debug, Clone)]
struct Candidate {
    /// The margins of its runs, by criterion.
    margins: Vec<Vec<f64>>,
    verdict: Verdict,
}

/// A search in progress.
#[derive(Debug)]
pub struct Search {
    estimate: f64,
    criteria: usize,
    random: ChaCha8Rng,
    /// Single runs: the highest that met the limits, the lowest that did not, the next distance.
    met: Option<i32>,
    missed: Option<i32>,
    stride: i32,
    candidates: BTreeMap<i32, Candidate>,
    /// The rest of the round.
    round: Vec<i32>,
    asked: Option<i32>,
}

impl Search {
    /// A search around `estimate`, with `criteria` margins per run, and rounds in the order of `seed`.
    pub fn new(estimate: f64, criteria: usize, seed: u64) -> Self {
        Self {
            estimate,
            criteria,
            random: stream(seed, Purpose::Rounds),
            met: None,
            missed: None,
            stride: STRIDE,
            candidates: BTreeMap::new(),
            round: Vec::new(),
            asked: None,
        }
    }

    /// The next rate to run; `None` if there is an answer or none can be found.
    pub fn ask(&mut self) -> Option<f64> {
        self.asked = if self.candidates.is_empty() { self.single() } else { None };
        if self.asked.is_none() {
            self.asked = self.repeated();
        }
        self.asked.map(|step| self.rate(step))
    }

    /// True if the runs are decisive, no longer single.
    pub fn decides(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Records the margins of the run at the requested rate.
    pub fn tell(&mut self, margins: &[f64]) {
        debug_assert_eq!(margins.len(), self.criteria);
        let Some(step) = self.asked.take() else { return };
        if let Some(candidate) = self.candidates.get_mut(&step) {
            candidate.add(margins);
        } else if margins.iter().all(|margin| *margin > 0.0) {
            self.met = self.met.max(Some(step));
        } else {
            self.missed = Some(self.missed.map_or(step, |missed| missed.min(step)));
        }
    }

    /// The highest rate that holds, below all that fail.
    pub fn holds(&self) -> Option<f64> {
        self.highest().map(|step| self.rate(step))
    }

    /// The lowest rate that fails.
    pub fn fails(&self) -> Option<f64> {
        self.lowest().map(|step| self.rate(step))
    }

    /// Verdict on each repeatedly run rate, lowest first.
    pub fn verdicts(&self) -> impl Iterator<Item = (f64, Verdict)> {
        self.candidates.iter().map(|(step, candidate)| (self.rate(*step), candidate.verdict))
    }

    fn rate(&self, step: i32) -> f64 {
        self.estimate * STEP.powi(step)
    }

    fn lowest(&self) -> Option<i32> {
        self.candidates
            .iter()
            .find(|(_, candidate)| candidate.verdict == Verdict::Fails)
            .map(|(step, _)| *step)
    }

    fn highest(&self) -> Option<i32> {
        let below = self.candidates.range(..self.lowest().unwrap_or(i32::MAX));
        below.rev().find(|(_, candidate)| candidate.verdict == Verdict::Holds).map(|(step, _)| *step)
    }

    /// The most informative single run: away from the estimate until limits are met on one side and
    /// missed on the other, then in the middle. Creates the candidates when done.
    fn single(&mut self) -> Option<i32> {
        let next = match (self.met, self.missed) {
            (None, None) => -STRIDE,
            (Some(HIGHEST..), None) | (None, Some(..=LOWEST)) => return self.begin(),
            (Some(met), None) => (met + self.widen()).min(HIGHEST),
            (None, Some(missed)) => (missed - self.widen()).max(LOWEST),
            // A high rate that met its limits by luck must not move the search above it.
            (Some(met), Some(missed)) if missed - met <= CLOSE => return self.begin(),
            (Some(met), Some(missed)) => met + (missed - met) / 2,
        };
        Some(next)
    }

    fn widen(&mut self) -> i32 {
        let stride = self.stride;
        self.stride *= 2;
        stride
    }

    fn begin(&mut self) -> Option<i32> {
        let around = self.missed.or(self.met)?;
        let (low, high) = (self.met.unwrap_or(around), self.missed.unwrap_or(around));
        // If out of order, limits begin to fail at the lower of the two.
        let low = low.min(high - 1).max(high - CLOSE);
        (low..=high).for_each(|step| self.add(step));
        None
    }

    fn add(&mut self, step: i32) {
        if (LOWEST..=HIGHEST).contains(&step) && self.candidates.len() < MOST {
            let margins = vec![Vec::new(); self.criteria];
            self.candidates.entry(step).or_insert(Candidate { margins, verdict: Verdict::Undecided });
        }
    }

    /// The next of the round, or of a new one.
    fn repeated(&mut self) -> Option<i32> {
        loop {
            while let Some(step) = self.round.pop() {
                if self.is_open(step) {
                    return Some(step);
                }
            }
            let mut open: Vec<i32> =
                self.candidates.keys().copied().filter(|step| self.is_open(*step)).collect();
            if open.is_empty() && !self.extend() {
                return None;
            }
            // Fisher-Yates shuffle; the bias of the remainder is 2^-60.
            for last in (1..open.len()).rev() {
                let other = (self.random.next_u64() % (last as u64 + 1)) as usize;
                open.swap(last, other);
            }
            self.round = open;
        }
    }

    /// True if more runs at a rate can change the answer.
    fn is_open(&self, step: i32) -> bool {
        let between =
            self.highest().is_none_or(|holds| step > holds) && self.lowest().is_none_or(|fails| step < fails);
        let most = LOOKS[LOOKS.len() - 1];
        between
            && self
                .candidates
                .get(&step)
                .is_some_and(|candidate| candidate.verdict == Verdict::Undecided && candidate.runs() < most)
    }

    /// Adds rates on the unknown side; `false` if there are none to add.
    fn extend(&mut self) -> bool {
        let before = self.candidates.len();
        let ends = self.candidates.keys().next().copied().zip(self.candidates.keys().next_back().copied());
        let Some((low, high)) = ends else { return false };
        if self.highest().is_none() {
            self.add(low - 1);
            self.add(low - 3);
        }
        if self.lowest().is_none() {
            self.add(high + 1);
            self.add(high + 3);
        }
        self.candidates.len() > before
    }
}

impl Candidate {
    fn runs(&self) -> usize {
        self.margins.first().map_or(0, Vec::len)
    }

    fn add(&mut self, margins: &[f64]) {
        for (all, margin) in self.margins.iter_mut().zip(margins) {
            all.push(*margin);
        }
        if !LOOKS.contains(&self.runs()) {
            return;
        }
        let judged = |error| self.margins.iter().filter_map(move |all| Ratios::from(&all[..]).student(error));
        if judged(LOOK_ERROR / self.margins.len() as f64).any(|margin| margin.high < 0.0) {
            self.verdict = Verdict::Fails;
        } else if judged(LOOK_ERROR).all(|margin| margin.low > 0.0) {
            self.verdict = Verdict::Holds;
        }
    }
}

#[cfg(test)]
mod tests;
