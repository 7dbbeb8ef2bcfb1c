//! The search on a simulated server with a known limit.

use rand_chacha::rand_core::Rng;

use super::{HIGHEST, LAST, MAX_RATES, Purpose, ROUNDS, STEP, Search, Verdict};
use rxlab_stats::design::{self, stream};

/// Seconds of a run, with what comes before it.
const RUN: f64 = 1.25;

/// A queue that handles up to `capacity` per second. Its p99 grows as it fills, and varies between
/// runs; in part of the time the machine is in its slow state.
struct Server {
    random: rand_chacha::ChaCha8Rng,
    capacity: f64,
    noise: f64,
    /// Mean stay in a state in seconds; 0 = the state is drawn for each run.
    dwell: f64,
    /// Part of the time in the slow state.
    part: f64,
    is_slow: bool,
    /// Seconds until the state changes.
    left: f64,
    /// Part of the capacity that the slow state has.
    slow: f64,
}

impl Server {
    fn new(seed: u64, capacity: f64, noise: f64) -> Self {
        let random = stream(seed, design::Purpose::Noise);
        Self { random, capacity, noise, dwell: 0.0, part: 0.5, is_slow: false, left: 0.0, slow: 0.95 }
    }

    fn with_states(seed: u64, dwell: f64, part: f64) -> Self {
        let mut server = Self { dwell, part, slow: 0.85, ..Self::new(seed, 5000.0, 0.1) };
        server.is_slow = server.uniform() < part;
        server.left = server.stay();
        server
    }

    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn stay(&mut self) -> f64 {
        let part = if self.is_slow { self.part } else { 1.0 - self.part };
        -2.0 * part * self.dwell * (1.0 - self.uniform()).ln()
    }

    /// Approximately normal, and cheap: three uniform numbers minus their mean.
    fn normal(&mut self) -> f64 {
        2.0 * ((0..3).map(|_| self.uniform()).sum::<f64>() - 1.5)
    }

    fn pass(&mut self, seconds: f64) {
        if self.dwell == 0.0 {
            self.is_slow = self.noise > 0.0 && self.uniform() < self.part;
            return;
        }
        self.left -= seconds;
        while self.left < 0.0 {
            self.is_slow = !self.is_slow;
            self.left += self.stay();
        }
    }

    /// True if a run kept its limits: requests answered, and a p99 below 20 times that of an idle server.
    fn run(&mut self, rate: f64) -> bool {
        self.pass(RUN);
        let load = rate / (self.capacity * if self.is_slow { self.slow } else { 1.0 });
        let answered = (1.0 / load).min(1.0) - 0.99 + self.noise * 0.001 * self.normal();
        let p99 = if load < 0.999 { 1.0 / (1.0 - load) } else { 1000.0 };
        answered > 0.0 && (20.0 / p99).ln() + self.noise * self.normal() > 0.0
    }

    /// The highest rate that keeps its limits in nine of ten runs, from many.
    fn truth(mut self) -> f64 {
        let (mut low, mut high) = (self.capacity * 0.3, self.capacity * 1.5);
        self.dwell = 0.0;
        for _ in 0..20 {
            let middle = (low + high) / 2.0;
            let kept = (0..4000).filter(|_| self.run(middle)).count();
            if kept >= 3600 { low = middle } else { high = middle }
        }
        low
    }
}

/// Runs to the end, with rounds of fresh runs spread over `confirm` seconds; returns the number of runs and the
/// seconds that they took.
fn search(server: &mut Server, estimate: f64, seed: u64, confirm: f64) -> (Search, usize, f64) {
    let mut search = Search::new(estimate, seed);
    let (mut runs, mut seconds, mut attempt) = (0, 0.0, (0, 0.0));
    while let Some(rate) = search.ask() {
        if let Some(due) = search.due() {
            if due.attempt != attempt.0 {
                attempt = (due.attempt, seconds);
            }
            let pause = (attempt.1 + due.after * confirm - seconds).max(0.0);
            server.pass(pause);
            seconds += pause;
        }
        search.tell(server.run(rate));
        runs += 1;
        seconds += RUN;
    }
    (search, runs, seconds)
}

/// The two rates of the answer.
fn answer(search: &Search) -> (f64, f64) {
    (search.holds().unwrap_or(0.0), search.fails().unwrap_or(f64::INFINITY))
}

#[test]
fn without_noise_the_answer_is_the_next_two_steps() {
    for estimate in [400.0, 1000.0, 9000.0] {
        let (found, runs, _) = search(&mut Server::new(1, 1000.0, 0.0), estimate, 1, 0.0);
        let (holds, fails) = answer(&found);
        // The p99 is 20 times that of the idle server at 95 % of the capacity.
        assert!(holds < 950.0 && fails >= 950.0, "{holds} to {fails}");
        assert!((fails / holds / STEP - 1.0).abs() < 1e-9, "{holds} to {fails}");
        assert!(found.is_confirmed() && runs <= 120, "{runs} runs");
    }
}

/// The promise: neither rate of the answer is wrong in 95 of 100 searches. Three standard errors of 300
/// searches are 3.8 %.
#[test]
fn the_truth_is_where_it_is_said_to_be() {
    for noise in [0.1, 0.4] {
        let truth = Server::new(7, 5000.0, noise).truth();
        let (mut wrong, mut widths, mut confirmed) = (0, Vec::new(), 0);
        for seed in 0..300 {
            let (found, ..) = search(&mut Server::new(seed, 5000.0, noise), 4000.0, seed, 0.0);
            let (low, high) = answer(&found);
            wrong += usize::from(truth < low || truth > high);
            widths.push(high / low);
            confirmed += usize::from(found.is_confirmed());
        }
        widths.sort_by(f64::total_cmp);
        assert!(wrong <= 26, "{wrong} of 300 searches miss {truth} at noise {noise}");
        assert!(widths[150] < STEP.powi(4), "half of them are wider than {}", widths[150]);
        assert!(confirmed >= 285, "{confirmed} of 300 at noise {noise}");
    }
}

#[test]
fn a_server_that_never_keeps_the_limits_has_no_rate() {
    let mut search = Search::new(1000.0, 1);
    let mut runs = 0;
    while search.ask().is_some() {
        search.tell(false);
        runs += 1;
    }
    assert!(search.holds().is_none() && search.fails().is_some_and(|rate| rate < 2.0));
    assert!(runs < 60 && !search.is_confirmed(), "{runs} runs");
    assert!(search.verdicts().all(|(_, verdict)| verdict == Verdict::Fails));
}

#[test]
fn limits_that_no_rate_breaks_have_no_end() {
    let mut search = Search::new(1000.0, 1);
    let (mut last, mut confirming) = (0.0, 0);
    while let Some(rate) = search.ask() {
        last = rate;
        confirming += usize::from(search.purpose() == Purpose::Confirms);
        search.tell(true);
    }
    assert!(search.fails().is_none() && search.is_confirmed());
    assert!(last <= 1000.0 * STEP.powi(HIGHEST) * 1.001);
    assert!(search.holds().is_some_and(|rate| rate > 20_000.0));
    assert_eq!(confirming, ROUNDS);
}

/// What a first answer says about a machine that was fast then does not survive runs in its slow state.
#[test]
fn an_answer_that_fresh_runs_contradict_moves_down() {
    let mut search = Search::new(1000.0, 1);
    let mut attempts = 0;
    while let Some(rate) = search.ask() {
        let is_slow = search.purpose() == Purpose::Confirms;
        attempts = search.due().map_or(0, |due| due.attempt);
        search.tell(rate < if is_slow { 900.0 } else { 1100.0 });
    }
    let (holds, fails) = answer(&search);
    assert!(holds < 900.0 && (900.0..1000.0).contains(&fails), "{holds} to {fails}");
    assert!(search.is_confirmed() && attempts > 1, "{attempts}");
    let holding = search.verdicts().filter(|(_, verdict)| *verdict == Verdict::Holds);
    assert!(holding.into_iter().all(|(rate, _)| rate <= holds));
}

#[test]
fn rounds_are_spread_over_the_time() {
    let mut search = Search::new(1000.0, 1);
    let mut due = Vec::new();
    while let Some(rate) = search.ask() {
        due.extend(search.due());
        search.tell(rate < 1020.0);
    }
    assert_eq!(due.len(), 2 * ROUNDS);
    assert!(
        due.iter().enumerate().all(|(at, due)| (due.after - (at / 2) as f64 / ROUNDS as f64).abs() < 1e-9)
    );
}

#[test]
fn the_same_seed_asks_for_the_same_rates() {
    let rates = |seed| {
        let (mut server, mut search) = (Server::new(3, 1000.0, 0.2), Search::new(900.0, seed));
        let mut rates = Vec::new();
        while let Some(rate) = search.ask() {
            search.tell(server.run(rate));
            rates.push(rate);
        }
        rates
    };
    assert_eq!(rates(5), rates(5));
    assert_ne!(rates(5), rates(6), "the order of the rounds is drawn");
    assert!(rates(5).len() <= 30 + MAX_RATES * LAST + 2 * ROUNDS * super::ATTEMPTS);
}

/// How often the answer is wrong if the machine stays in one of two states for a while: capacity is 15 % lower in the
/// slow one.
#[test]
fn the_documented_error_by_regime_is_that_of_the_simulation() {
    let page = include_str!("../../../../docs/load.md");
    let regimes = [
        (0.0, 0.5, "changes from run to run"),
        (5.0, 0.5, "5 s"),
        (20.0, 0.5, "20 s"),
        (60.0, 0.5, "60 s"),
        (60.0, 0.2, "60 s, slow for a fifth of the time"),
    ];
    let rows = regimes.map(|(dwell, part, named)| {
        let truth = Server::with_states(7, dwell, part).truth();
        let cells = [120.0, 300.0, 600.0].map(|confirm| {
            let (mut wrong, mut total) = (0, 0.0);
            for seed in 0..400 {
                let mut server = Server::with_states(seed, dwell, part);
                let (found, _, seconds) = search(&mut server, 4000.0, seed, confirm);
                let (low, high) = answer(&found);
                wrong += usize::from(truth < low || truth > high);
                total += seconds;
            }
            format!("{:.1} %, {:.0} min", wrong as f64 / 4.0, total / 400.0 / 60.0)
        });
        format!("| {named} | {} |\n", cells.join(" | "))
    });
    assert!(page.contains(&rows.concat()), "{}", rows.concat());
}
