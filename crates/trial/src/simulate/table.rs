//! The tables of `docs/statistics.md`: how often each comparison method is wrong, and what ours finds.

use std::fmt::Write;

use crate::monitor::Monitor;
use crate::record::{Better, Call};
use rxlab_stats::interval::{Interval, Ratios, t_quantile, welch};
use rxlab_stats::looks::{self, planned};
use rxlab_stats::noise::Noise;
use rxlab_stats::noise::by_arm;
use rxlab_stats::{mean, sd, step};

/// Runs behind each row of the committed tables.
pub const RUNS: usize = 2000;
/// Pairs of the comparison of methods: 20 + 20 slots.
const PAIRS: usize = 20;
/// Default margin of a trial.
pub(super) const MARGIN: f64 = 0.03;
/// Fewest pairs at which the peeking tester starts to look.
const FIRST_PEEK: usize = 5;

/// False positives of an A/A comparison of 20 + 20 slots, by noise and by method, as Markdown.
pub fn false_positives(runs: usize) -> String {
    let white = Noise::white(0.03);
    let rows = [
        ("white 3 %", white),
        ("+ AR(1) drift 3 %", Noise { drift: 0.03, ..white }),
        ("+ linear 5 % warm-up", Noise { warm_up: 0.05, ..white }),
        ("+ two-slot periodic 3 %", Noise { periodic: 0.03, ..white }),
    ];
    let mut text = String::from(
        "| noise | all A then all B, Welch | strict ABAB, paired t | random pairs, paired t | t-test with peeking | rxlab |\n\
         |---|---|---|---|---|---|\n",
    );
    let critical: Vec<f64> = (0..=2 * PAIRS).map(|freedom| t_quantile(0.975, freedom as f64)).collect();
    for (name, noise) in rows {
        let mut wrong = [0usize; 5];
        for seed in seeds(runs) {
            let slots = noise.values(seed, 2 * PAIRS);
            let strict: Vec<f64> = slots.chunks_exact(2).map(|pair| (pair[1] / pair[0]).ln()).collect();
            let random = noise.pairs(seed, PAIRS, 0.0);
            let (a, b) = noise.arms(seed, PAIRS, 0.0);
            // As in a before-and-after comparison.
            let (before, after) = slots.split_at(PAIRS);
            let verdicts = [
                welch(before, after, 0.05).is_some_and(Interval::excludes_zero),
                t_rejects(&strict, &critical),
                t_rejects(&random, &critical),
                (FIRST_PEEK..=PAIRS).any(|n| t_rejects(&random[..n], &critical)),
                Call::SHOWN.contains(&run(&a, &b, PAIRS).0),
            ];
            for (count, verdict) in wrong.iter_mut().zip(verdicts) {
                *count += usize::from(verdict);
            }
        }
        let cells: Vec<String> = wrong.iter().map(|&count| percent(count, runs)).collect();
        row(&mut text, name, &cells);
    }
    text
}

/// Calls of the procedure with its defaults (40 pairs at most, margin 3 %) for no effect, 3 %, 5 %
/// and 10 %, by the noise of single slots, as Markdown: the first `rows` rows.
pub fn operating(runs: usize, rows: usize) -> String {
    let mut text = operating_header("noise of single slots");
    for (name, noise) in noises().into_iter().take(rows) {
        let arms = |seed, effect| noise.arms(seed, looks::PAIRS, effect);
        row(&mut text, name, &operating_cells(runs, &arms).1);
    }
    text
}

/// The same for slots of a real machine on which nothing was changed: one row for each series of values in time order.
/// Each run takes the slots of a trial in a row from it, with its own coins, and multiplies those of arm B by the
/// effect. `None` if a series is too short for a trial.
pub fn redrawn(runs: usize, series: &[(String, Vec<f64>)]) -> Option<String> {
    let mut text = operating_header("recorded slots");
    for (name, slots) in series {
        let starts = (slots.len() + 1).checked_sub(2 * looks::PAIRS).filter(|starts| *starts > 0)?;
        let arms = |seed: u64, effect| {
            let from = (seed % starts as u64) as usize;
            by_arm(&slots[from..], seed).take(looks::PAIRS).map(|(a, b)| (a, b * (1.0 + effect))).unzip()
        };
        let (wrong, mut cells) = operating_cells(runs, &arms);
        cells[0] = share_interval(wrong, runs);
        row(&mut text, name, &cells);
    }
    Some(text)
}

fn operating_header(first: &str) -> String {
    format!(
        "| {first} | A/A: effect | A/A: no effect | A/A: pairs | 3 %: inside | 3 %: wrong sign | 3 %: helps | 3 %: pairs \
         | 5 %: helps | 5 %: pairs | 10 %: helps | 10 %: pairs |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n"
    )
}

/// Wrong effects without one, and the cells of a row after its name. `arms` has the values of both arms for a seed and an effect.
fn operating_cells(runs: usize, arms: &dyn Fn(u64, f64) -> (Vec<f64>, Vec<f64>)) -> (usize, [String; 11]) {
    let [none, small, medium, large] = [0.0, 0.03, 0.05, 0.10].map(|effect| Tally::new(arms, runs, effect));
    let wrong = none.count(&Call::SHOWN);
    let cells = [
        percent(wrong, runs),
        percent(none.count(&[Call::NoEffect]), runs),
        none.mean_pairs(),
        percent(small.count(&[Call::NoEffect, Call::Negligible]), runs),
        percent(small.count(&[Call::Hurts]), runs),
        percent(small.count(&[Call::Helps]), runs),
        small.mean_pairs(),
        percent(medium.count(&[Call::Helps]), runs),
        medium.mean_pairs(),
        percent(large.count(&[Call::Helps]), runs),
        large.mean_pairs(),
    ];
    (wrong, cells)
}

/// `2.1 % [1.8, 2.4]`: a share and its 95 % interval (Wilson, JASA 22, 1927).
pub fn share_interval(count: usize, of: usize) -> String {
    let (n, z) = (of.max(1) as f64, 1.959_964);
    let share = count as f64 / n;
    let middle = share + z * z / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let [low, high] = [middle - half, middle + half].map(|end| 100.0 * end / (1.0 + z * z / n));
    format!("{:.1} % [{:.1}, {:.1}]", 100.0 * share, low.max(0.0), high)
}

/// The noises of the table. Slots of 2.5 s make 2, 8 and 24 of them from 5, 20 and 60 s.
pub(crate) fn noises() -> [(&'static str, Noise); 14] {
    let white = Noise::white;
    let base = white(0.03);
    let states = |dwell_slots| Noise { states: 0.03, dwell_slots, ..white(0.01) };
    [
        ("white 2 %", white(0.02)),
        ("white 3 %", base),
        ("white 5 %", white(0.05)),
        ("white 3 %, drift 3 %", Noise { drift: 0.03, ..base }),
        ("white 3 %, warm-up 5 %", Noise { warm_up: 0.05, ..base }),
        ("white 3 %, two-slot rhythm 3 %", Noise { periodic: 0.03, ..base }),
        ("white 1 %, rhythm of 1.9 slots 4 %", Noise { rhythm: 0.04, rhythm_slots: 1.9, ..white(0.01) }),
        ("white 1 %, rhythm of 4 slots 4 %", Noise { rhythm: 0.04, rhythm_slots: 4.0, ..white(0.01) }),
        ("white 1 %, two states 5 s", states(2.0)),
        ("white 1 %, two states 20 s", states(8.0)),
        ("white 1 %, two states 60 s", states(24.0)),
        ("heavy tails 3 %", Noise { heavy: 0.03, ..Noise::default() }),
        ("white 1 %, 1 % of slots stall by 40 %", Noise { stall: 0.5, ..white(0.01) }),
        ("white 1 %, rounded to 2 %", Noise { step: 0.02, ..white(0.01) }),
    ]
}

/// Call and number of pairs of each run.
pub(super) struct Tally(pub(super) Vec<(Call, usize)>);

impl Tally {
    fn new(arms: &dyn Fn(u64, f64) -> (Vec<f64>, Vec<f64>), runs: usize, effect: f64) -> Self {
        let one = |seed| {
            let (a, b) = arms(seed, effect);
            run(&a, &b, looks::PAIRS)
        };
        Self(seeds(runs).map(one).collect())
    }

    pub(super) fn count(&self, calls: &[Call]) -> usize {
        self.0.iter().filter(|(call, _)| calls.contains(call)).count()
    }

    pub(super) fn mean_pairs(&self) -> String {
        let pairs: usize = self.0.iter().map(|(_, pairs)| pairs).sum();
        format!("{:.1}", pairs as f64 / self.0.len().max(1) as f64)
    }
}

/// Runs the stopping rule over the values of both arms of existing pairs.
pub(super) fn run(a: &[f64], b: &[f64], max_pairs: usize) -> (Call, usize) {
    let monitor = Monitor {
        min_pairs: 0,
        max_pairs,
        margin: MARGIN,
        better: Better::Higher,
        seed: 1,
        time_is_over: false,
    };
    let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
    let stop = planned(0, max_pairs).into_iter().find_map(|(n, _)| {
        let ratios = Ratios { step: step(&a[..n], &b[..n]), ..Ratios::from(&d[..n]) };
        monitor.look(ratios).map(|(call, _)| (call, n))
    });
    stop.unwrap_or((Call::Inconclusive, d.len()))
}

fn t_rejects(d: &[f64], critical: &[f64]) -> bool {
    let (Some(mid), Some(spread)) = (mean(d), sd(d)) else { return false };
    mid.abs() * (d.len() as f64).sqrt() > critical[d.len() - 1] * spread
}

pub(super) fn seeds(runs: usize) -> impl Iterator<Item = u64> {
    1..=runs as u64
}

pub(super) fn percent(count: usize, runs: usize) -> String {
    format!("{:.1} %", 100.0 * count as f64 / runs.max(1) as f64)
}

pub(super) fn row(text: &mut String, name: &str, cells: &[String]) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::{Tally, false_positives, looks, noises, operating, redrawn, run, share_interval};
    use crate::record::Call;
    use rxlab_stats::noise::Noise;

    /// 5 % of 200 trials without an effect are 10; three standard errors are 9.
    #[test]
    fn the_procedure_keeps_its_promise_under_every_noise() {
        for (name, noise) in noises() {
            for pairs in [12, looks::PAIRS] {
                let claims = |seed: &u64| {
                    let (a, b) = noise.arms(*seed, pairs, 0.0);
                    Call::SHOWN.contains(&run(&a, &b, pairs).0)
                };
                let wrong = (10_000..10_200).filter(claims).count();
                assert!(wrong <= 19, "{name}, {pairs} pairs: {wrong} of 200");
            }
        }
    }

    #[test]
    fn a_clear_effect_ends_the_trial_early() {
        let arms = |seed, effect| Noise::white(0.03).arms(seed, looks::PAIRS, effect);
        let tally = Tally::new(&arms, 100, 0.10);
        assert!(tally.count(&[Call::Helps]) >= 99);
        assert!(tally.0.iter().all(|(_, pairs)| *pairs < looks::PAIRS));
    }

    /// Slots of which every other one is slower: the coins make that noise, and never an effect.
    #[test]
    fn recorded_slots_are_flipped_by_the_coins() {
        let slots: Vec<f64> = (0..90).map(|slot| if slot % 2 == 0 { 100.0 } else { 90.0 }).collect();
        let table = redrawn(40, &[("rhythm".to_owned(), slots.clone())]).expect("enough");
        let row = table.lines().last().expect("a row");
        assert!(row.starts_with("| rhythm | 0.0 % [0.0, 8.8] | 0.0 % | 40.0 |"), "{row}");
        assert_eq!(redrawn(40, &[("short".to_owned(), slots[..79].to_vec())]), None);
    }

    /// 2 of 20: the interval of R's `prop.test(2, 20, correct = FALSE)`.
    #[test]
    fn wilson_by_another_program() {
        assert_eq!(share_interval(2, 20), "10.0 % [2.8, 30.1]");
        assert_eq!(share_interval(20, 20), "100.0 % [83.9, 100.0]");
    }

    #[test]
    fn the_tables_are_rectangular() {
        let slots = vec![("noise".to_owned(), Noise::white(0.03).values(1, 100))];
        for table in [false_positives(2), operating(2, usize::MAX), redrawn(2, &slots).expect("enough")] {
            let columns: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
        }
    }
}
