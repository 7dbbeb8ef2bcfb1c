//! Search for the highest rate that keeps its limits, by repeated runs.
//!
//! Rates are steps of 5 % on one ladder. A rate *holds* if it keeps all limits in at least nine of ten runs, and *fails* if
//! it keeps them in fewer. Single runs find where limits begin to fail; then a few runs of every rate around it, in rounds
//! of random order, give a first answer. It is the best of several and from one moment of the machine, so both its rates
//! are confirmed by fresh runs, in rounds that are spread over a time that the caller gives: 30 runs without one that
//! missed a limit show that a rate holds, 7 that did show that it fails, each with an error below 5 % if
//! runs are independent. A rate that is not confirmed is replaced by its neighbour, and both are confirmed again. A rate
//! above a failing one is assumed to fail, one below a holding one to hold.
//!
//! A machine that stays in one state for longer than all of this gives the answer for that state, and nothing in the runs
//! shows it: `docs/load.md` has how often simulated searches are wrong.
//!
//! This module runs no load: [`Search`] returns the next rate, and receives whether the run kept its limits.

pub mod found;
pub mod margins;
pub mod slo;

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use rxlab_stats::design::{self, stream};

/// From one rate to the next.
const STEP: f64 = 1.05;
/// Steps from the estimate at which the search gives up: a factor of about 1/1000 and 30.
const LOWEST: i32 = -142;
const HIGHEST: i32 = 70;
/// First distance of the single runs, in steps.
const STRIDE: i32 = 6;
/// The single runs end when met and missed limits are this close.
const CLOSE: i32 = 3;
/// Runs of a rate after which it is judged for the first answer, and after which it is at the latest.
const FIRST: usize = 6;
const LAST: usize = 12;
/// Runs of a rate that may miss a limit: with more it fails, with this many it holds after [`LAST`].
const ALLOWED: usize = 1;
/// Limit on the number of rates judged for the first answer.
const MAX_RATES: usize = 12;
/// Fresh runs that confirm a rate: without one that missed a limit, a rate that keeps them in fewer than nine of ten runs
/// has a chance of 0.9^30 = 4 %.
pub const ROUNDS: usize = 30;
/// Fresh runs that have to miss a limit to confirm that a rate fails: one that keeps them in nine of ten runs has a chance
/// of 2.6 %.
const MISSED: usize = 7;
/// Attempts to confirm an answer.
const ATTEMPTS: usize = 12;

/// Verdict on a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It keeps all limits in at least nine of ten runs.
    Holds,
    /// It keeps them in fewer.
    Fails,
    /// Its runs are inconclusive.
    Undecided,
}

/// Purpose of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Single: where limits begin to be missed.
    Explores,
    /// One of several: the first answer.
    Selects,
    /// Fresh, of a rate of the answer.
    Confirms,
}

#[derive(Debug, Clone, Copy, Default)]
struct Runs {
    kept: usize,
    missed: usize,
}

impl Runs {
    fn add(&mut self, kept: bool) {
        if kept { self.kept += 1 } else { self.missed += 1 }
    }

    fn all(self) -> usize {
        self.kept + self.missed
    }

    fn first(self) -> Verdict {
        match (self.all(), self.missed) {
            (FIRST.., 0) | (LAST.., ..=ALLOWED) => Verdict::Holds,
            (FIRST.., missed) if missed > ALLOWED => Verdict::Fails,
            _ => Verdict::Undecided,
        }
    }

    fn fresh(self) -> Verdict {
        match self {
            Self { missed: MISSED.., .. } => Verdict::Fails,
            Self { missed: 0, kept: ROUNDS.. } => Verdict::Holds,
            _ => Verdict::Undecided,
        }
    }
}

/// Fresh runs of the two rates of an answer.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    number: usize,
    holds: i32,
    fails: i32,
    of_holds: Runs,
    of_fails: Runs,
}

/// Due time of a confirming run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// Number of the attempt to confirm an answer.
    pub attempt: usize,
    /// Part of the attempt's time that has passed by then, from 0.
    pub after: f64,
}

#[derive(Debug)]
pub struct Search {
    estimate: f64,
    random: ChaCha8Rng,
    /// Single runs: the highest that met the limits, the lowest that did not, the next distance.
    met: Option<i32>,
    missed: Option<i32>,
    stride: i32,
    candidates: BTreeMap<i32, Runs>,
    attempt: Option<Attempt>,
    /// True if the attempt is the last one.
    is_over: bool,
    /// Verdicts of fresh runs.
    confirmed: BTreeMap<i32, Verdict>,
    /// The rest of the round.
    round: Vec<i32>,
    asked: Option<i32>,
}

impl Search {
    /// A search around `estimate`, with rounds in the order of `seed`.
    pub fn new(estimate: f64, seed: u64) -> Self {
        Self {
            estimate,
            random: stream(seed, design::Purpose::Rounds),
            met: None,
            missed: None,
            stride: STRIDE,
            candidates: BTreeMap::new(),
            attempt: None,
            is_over: false,
            confirmed: BTreeMap::new(),
            round: Vec::new(),
            asked: None,
        }
    }

    /// The next rate to run; `None` if there is an answer or none can be found.
    pub fn ask(&mut self) -> Option<f64> {
        self.asked = if self.candidates.is_empty() { self.single() } else { None };
        if self.asked.is_none() && self.attempt.is_none() {
            self.asked = self.repeated();
        }
        if self.asked.is_none() {
            self.asked = self.confirming();
        }
        self.asked.map(|step| self.rate(step))
    }

    /// Purpose of the requested run.
    pub fn purpose(&self) -> Purpose {
        match (self.candidates.is_empty(), self.attempt) {
            (true, _) => Purpose::Explores,
            (false, None) => Purpose::Selects,
            (false, Some(_)) => Purpose::Confirms,
        }
    }

    /// Due time of the requested run, if it confirms: rounds are spread evenly, since the runs of one moment agree more
    /// than those of different times.
    pub fn due(&self) -> Option<Due> {
        let attempt = self.attempt?;
        let fails = if attempt.fails > HIGHEST { attempt.of_holds } else { attempt.of_fails };
        let rounds = attempt.of_holds.all().min(fails.all());
        Some(Due { attempt: attempt.number, after: rounds as f64 / ROUNDS as f64 })
    }

    /// Records whether the run at the requested rate kept all limits.
    pub fn tell(&mut self, kept: bool) {
        let Some(step) = self.asked.take() else { return };
        if let Some(attempt) = &mut self.attempt {
            let runs = if step == attempt.holds { &mut attempt.of_holds } else { &mut attempt.of_fails };
            runs.add(kept);
            self.judge();
        } else if let Some(candidate) = self.candidates.get_mut(&step) {
            candidate.add(kept);
        } else if kept {
            self.met = self.met.max(Some(step));
        } else {
            self.missed = Some(self.missed.map_or(step, |missed| missed.min(step)));
        }
    }

    /// The highest rate that holds, below all that fail.
    pub fn holds(&self) -> Option<f64> {
        let step = match self.attempt {
            Some(attempt) => Some(attempt.holds).filter(|step| *step >= LOWEST),
            None => self.highest(),
        };
        step.map(|step| self.rate(step))
    }

    /// The lowest rate that fails.
    pub fn fails(&self) -> Option<f64> {
        let step = match self.attempt {
            Some(attempt) => Some(attempt.fails).filter(|step| *step <= HIGHEST),
            None => self.lowest(),
        };
        step.map(|step| self.rate(step))
    }

    /// True if fresh runs confirmed the answer.
    pub fn is_confirmed(&self) -> bool {
        self.attempt.is_some_and(|attempt| {
            let fails = attempt.fails > HIGHEST || attempt.of_fails.fresh() == Verdict::Fails;
            attempt.of_holds.fresh() == Verdict::Holds && fails
        })
    }

    /// Verdict on each repeatedly run rate, lowest first.
    pub fn verdicts(&self) -> impl Iterator<Item = (f64, Verdict)> {
        let mut all: BTreeMap<i32, Verdict> =
            self.candidates.iter().map(|(step, runs)| (*step, runs.first())).collect();
        all.extend(self.confirmed.iter().map(|(step, verdict)| (*step, *verdict)));
        // Rates between the two were not confirmed, whatever the first answer said.
        let between = self.attempt.map_or(0..0, |attempt| attempt.holds + 1..attempt.fails);
        all.into_iter().map(move |(step, verdict)| {
            let verdict = if between.contains(&step) { Verdict::Undecided } else { verdict };
            (self.rate(step), verdict)
        })
    }

    fn rate(&self, step: i32) -> f64 {
        self.estimate * STEP.powi(step)
    }

    fn lowest(&self) -> Option<i32> {
        self.candidates.iter().find(|(_, runs)| runs.first() == Verdict::Fails).map(|(step, _)| *step)
    }

    fn highest(&self) -> Option<i32> {
        let below = self.candidates.range(..self.lowest().unwrap_or(i32::MAX));
        below.rev().find(|(_, runs)| runs.first() == Verdict::Holds).map(|(step, _)| *step)
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
        if (LOWEST..=HIGHEST).contains(&step) && self.candidates.len() < MAX_RATES {
            self.candidates.entry(step).or_default();
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
            let open: Vec<i32> = self.candidates.keys().copied().filter(|step| self.is_open(*step)).collect();
            if open.is_empty() && !self.extend() {
                return None;
            }
            self.begin_round(open);
        }
    }

    fn begin_round(&mut self, mut steps: Vec<i32>) {
        // Fisher-Yates shuffle; the bias of the remainder is 2^-60.
        for last in (1..steps.len()).rev() {
            let other = (self.random.next_u64() % (last as u64 + 1)) as usize;
            steps.swap(last, other);
        }
        self.round = steps;
    }

    /// True if more runs at a rate can change the first answer.
    fn is_open(&self, step: i32) -> bool {
        let between =
            self.highest().is_none_or(|holds| step > holds) && self.lowest().is_none_or(|fails| step < fails);
        between && self.candidates.get(&step).is_some_and(|runs| runs.first() == Verdict::Undecided)
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

    /// The next confirming run. The first one begins the attempt with the first answer.
    fn confirming(&mut self) -> Option<i32> {
        if self.is_over {
            return None;
        }
        if self.attempt.is_none() {
            let holds = self.highest()?;
            self.attempt(1, holds, self.lowest().unwrap_or(HIGHEST + 1));
        }
        if self.round.is_empty() {
            let attempt = self.attempt?;
            self.begin_round(
                [attempt.holds, attempt.fails].into_iter().filter(|step| *step <= HIGHEST).collect(),
            );
        }
        self.round.pop()
    }

    fn attempt(&mut self, number: usize, holds: i32, fails: i32) {
        let (of_holds, of_fails) = (Runs::default(), Runs::default());
        self.round.clear();
        self.attempt = Some(Attempt { number, holds, fails, of_holds, of_fails });
        self.is_over = holds < LOWEST || number > ATTEMPTS;
    }

    /// Ends the attempt when its runs are decisive, or all done.
    fn judge(&mut self) {
        let Some(Attempt { number, holds, fails, of_holds, of_fails }) = self.attempt else { return };
        let is_done = of_holds.all() >= ROUNDS && (of_fails.all() >= ROUNDS || fails > HIGHEST);
        let (low, high) = (of_holds.fresh(), of_fails.fresh());
        if low != Verdict::Fails && !is_done {
            return;
        }
        self.confirmed.insert(holds, low);
        if is_done && fails <= HIGHEST {
            self.confirmed.insert(fails, high);
        }
        match (low, high) {
            (Verdict::Fails, _) => self.attempt(number + 1, holds - 1, holds),
            (Verdict::Undecided, _) => self.attempt(number + 1, holds - 1, fails),
            (Verdict::Holds, Verdict::Holds) => self.attempt(number + 1, fails, fails + 1),
            (Verdict::Holds, Verdict::Undecided) if fails <= HIGHEST => {
                self.attempt(number + 1, holds, fails + 1)
            }
            (Verdict::Holds, _) => self.is_over = true,
        }
    }
}

#[cfg(test)]
mod tests;
