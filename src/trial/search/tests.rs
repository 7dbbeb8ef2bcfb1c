//! The search on a simulated server with a known limit.

use rand_chacha::rand_core::Rng;

use super::{HIGHEST, LOOKS, MOST, STEP, Search, Verdict};
use crate::trial::design::{Purpose, stream};

/// A queue that handles up to `capacity` per second. Its p99 grows as it fills, and varies between
/// runs; in part of them the machine is in its slow state.
struct Server {
    random: rand_chacha::ChaCha8Rng,
    capacity: f64,
    noise: f64,
    /// Mean stay in a state, in runs.
    dwell: f64,
    is_slow: bool,
    /// Part of the time in the slow state.
    slow: f64,
}

impl Server {
    fn new(seed: u64, capacity: f64, noise: f64) -> Self {
        Self { random: stream(seed, Purpose::Noise), capacity, noise, dwell: 1.0, is_slow: false, slow: 0.2 }
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normal: twelve uniform numbers minus their mean.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// The margins of a run: requests answered, and a p99 below 20 times that of an idle server.
    fn run(&mut self, rate: f64) -> Vec<f64> {
        // A stay ends with a chance that gives it its mean length.
        if self.noise > 0.0 && self.uniform() * self.dwell < 1.0 {
            self.is_slow = self.uniform() < self.slow;
        }
        let load = rate / (self.capacity * if self.is_slow { 0.95 } else { 1.0 });
        let answered = (1.0 / load).min(1.0) - 0.99 + self.noise * 0.001 * self.normal();
        let p99 = if load < 0.999 { 1.0 / (1.0 - load) } else { 1000.0 };
        vec![answered, (20.0 / p99).ln() + self.noise * self.normal()]
    }

    /// The rate where the mean of the margins crosses 0, from many runs.
    fn truth(&mut self) -> f64 {
        let holds = |server: &mut Self, rate: f64| {
            let runs: Vec<_> = (0..4000).map(|_| server.run(rate)).collect();
            (0..2).all(|criterion| runs.iter().map(|margins| margins[criterion]).sum::<f64>() > 0.0)
        };
        let (mut low, mut high) = (self.capacity * 0.3, self.capacity * 1.5);
        for _ in 0..20 {
            let middle = (low + high) / 2.0;
            if holds(self, middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// Runs to the end; returns the number of runs.
fn search(server: &mut Server, estimate: f64, seed: u64) -> (Search, usize) {
    let mut search = Search::new(estimate, 2, seed);
    let mut runs = 0;
    while let Some(rate) = search.ask() {
        search.tell(&server.run(rate));
        runs += 1;
    }
    (search, runs)
}

#[test]
fn without_noise_the_answer_is_the_next_two_steps() {
    for estimate in [400.0, 1000.0, 9000.0] {
        let (found, runs) = search(&mut Server::new(1, 1000.0, 0.0), estimate, 1);
        let (holds, fails) = (found.holds().expect("one holds"), found.fails().expect("one fails"));
        // The p99 is 20 times that of the idle server at 95 % of the capacity.
        assert!(holds < 950.0 && fails >= 950.0, "{holds} to {fails}");
        assert!((fails / holds / STEP - 1.0).abs() < 1e-9, "{holds} to {fails}");
        assert!(runs <= 40, "{runs} runs");
    }
}

/// The promise: the truth is between the two rates in 95 of 100 searches. Three standard errors of 300
/// searches are 3.8 %.
#[test]
fn the_truth_is_where_it_is_said_to_be() {
    for noise in [0.1, 0.4] {
        let truth = Server::new(7, 5000.0, noise).truth();
        let (mut wrong, mut widths, mut most) = (0, Vec::new(), 0);
        for seed in 0..300 {
            let (found, runs) = search(&mut Server::new(seed, 5000.0, noise), 4000.0, seed);
            let (low, high) = (found.holds().unwrap_or(0.0), found.fails().unwrap_or(f64::INFINITY));
            wrong += usize::from(truth < low || truth > high);
            widths.push(high / low);
            most = most.max(runs);
        }
        widths.sort_by(f64::total_cmp);
        assert!(wrong <= 26, "{wrong} of 300 searches miss {truth} at noise {noise}");
        assert!(widths[150] < STEP.powi(4), "half of them are wider than {}", widths[150]);
        assert!(most <= 30 + MOST * LOOKS[2], "{most} runs");
    }
}

/// Each limit is another chance to be wrong: six limits that are barely kept fail in no more searches than
/// one. Three standard errors of 200 searches are 4.6 %.
#[test]
fn more_limits_do_not_make_it_wrong_more_often() {
    let mut wrong = 0;
    for seed in 0..200 {
        let (mut server, mut search) = (Server::new(seed, 1000.0, 1.0), Search::new(1000.0, 6, seed));
        while let Some(rate) = search.ask() {
            let decides = search.decides();
            let single = if rate < 1000.0 { 1.0 } else { -1.0 };
            let margins: Vec<f64> = (0..6).map(|_| if decides { server.normal() } else { single }).collect();
            search.tell(&margins);
        }
        wrong += usize::from(search.fails().is_some());
    }
    assert!(wrong <= 15, "{wrong} of 200 searches see a failure where there is none");
}

#[test]
fn a_server_that_never_keeps_the_limits_has_no_rate() {
    let mut search = Search::new(1000.0, 2, 1);
    let mut runs = 0;
    while search.ask().is_some() {
        search.tell(&[0.01, -1.0]);
        runs += 1;
    }
    assert!(search.holds().is_none() && search.fails().is_some_and(|rate| rate < 2.0));
    assert!(runs < 60, "{runs} runs");
    assert!(search.verdicts().all(|(_, verdict)| verdict == Verdict::Fails));
}

#[test]
fn limits_that_no_rate_breaks_have_no_end() {
    let mut search = Search::new(1000.0, 2, 1);
    let mut last = 0.0;
    while let Some(rate) = search.ask() {
        last = rate;
        search.tell(&[0.01, 1.0]);
    }
    assert!(search.fails().is_none());
    assert!(last <= 1000.0 * STEP.powi(HIGHEST) * 1.001);
    assert!(search.holds().is_some_and(|rate| rate > 20_000.0));
}

#[test]
fn the_same_seed_asks_for_the_same_rates() {
    let rates = |seed| {
        let (mut server, mut search) = (Server::new(3, 1000.0, 0.2), Search::new(900.0, 2, seed));
        let mut rates = Vec::new();
        while let Some(rate) = search.ask() {
            search.tell(&server.run(rate));
            rates.push(rate);
        }
        rates
    };
    assert_eq!(rates(5), rates(5));
    assert_ne!(rates(5), rates(6), "the order of the rounds is drawn");
}

/// How often the answer is wrong if the machine stays in one of two states for a while: capacity falls by 5 % in the slow
/// one, and each takes half of the time. A run is taken to last 1.25 s, with what comes before it.
#[test]
fn the_documented_error_by_regime_is_that_of_the_simulation() {
    let page = include_str!("../../../docs/load.md");
    for (seconds, named) in [(0.0, "changes from run to run"), (5.0, "5 s"), (20.0, "20 s"), (60.0, "60 s")] {
        let regime = |seed| Server {
            dwell: f64::max(seconds / 1.25, 1.0),
            slow: 0.5,
            is_slow: seed % 2 == 0,
            ..Server::new(seed, 5000.0, 0.1)
        };
        let truth = regime(7).truth();
        let is_wrong = |seed: &u64| {
            let (found, _) = search(&mut regime(*seed), 4000.0, *seed);
            truth < found.holds().unwrap_or(0.0) || truth > found.fails().unwrap_or(f64::INFINITY)
        };
        let wrong = (0..400).filter(is_wrong).count();
        let row = format!("| {named} | {:.0} % |", wrong as f64 / 4.0);
        assert!(page.contains(&row), "{row}");
    }
}
