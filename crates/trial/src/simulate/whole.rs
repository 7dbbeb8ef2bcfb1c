//! The whole procedure on a machine in time: the sample, the choice of slots, and the trial; and a fixed design of the
//! same power next to it. The third table of `docs/statistics.md`.

use super::table::{MARGIN, noises, percent, row, run, seeds};
use crate::metrics::name::THROUGHPUT;
use crate::prior::{Pieces, is_enough, plan};
use crate::record::Call;
use crate::spec::Design;
use rxlab_stats::interval::t_quantile;
use rxlab_stats::mean;
use rxlab_stats::noise::Noise;
use rxlab_stats::noise::PIECE;
use rxlab_stats::noise::by_arm;

/// True effects of the simulated trials.
const EFFECTS: [f64; 3] = [0.0, 0.03, 0.05];
/// Pairs of the fixed design: fewest, because the sign-flip test shows nothing with less at 5 %, and most.
const FIXED: (usize, usize) = (6, 100);
/// Pieces of the longest trial: 100 pairs of 0.5 s or 40 of 4 s, after the sample.
const LONGEST: usize = 190 + 2 * 40 * 45;

/// One simulated trial: its call, and its seconds with the sample.
struct Trial {
    call: Call,
    seconds: f64,
}

/// Calls and times of the whole procedure, and the time of a fixed design that is right as often, by noise, as Markdown:
/// the first `rows` rows.
pub fn whole(runs: usize, rows: usize) -> String {
    let mut text = String::from(
        "| noise of slots of 2 s | sample | A/A: effect | A/A: no effect | A/A: time | fixed | ratio | 3 %: inside \
         | 3 %: wrong sign | 5 %: helps | 5 %: time | fixed | ratio |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, noise) in noises().into_iter().take(rows) {
        row(&mut text, name, &cells(&noise, runs));
    }
    text
}

fn cells(noise: &Noise, runs: usize) -> [String; 12] {
    let mut trials: [Vec<Trial>; 3] = Default::default();
    let mut sampled = 0.0;
    for seed in seeds(runs) {
        let (seconds, of_seed) = one(noise, seed);
        sampled += seconds;
        trials.iter_mut().zip(of_seed).for_each(|(all, trial)| all.push(trial));
    }
    let [none, small, medium] = &trials;
    let (none_fixed, none_ratio) = against(noise, none, Call::NoEffect, EFFECTS[0]);
    let (medium_fixed, medium_ratio) = against(noise, medium, Call::Helps, EFFECTS[2]);
    [
        format!("{:.0} s", sampled / runs.max(1) as f64),
        percent(count(none, &Call::SHOWN), runs),
        percent(count(none, &[Call::NoEffect]), runs),
        format!("{:.0} s", time(none)),
        none_fixed,
        none_ratio,
        percent(count(small, &[Call::NoEffect, Call::Negligible]), runs),
        percent(count(small, &[Call::Hurts]), runs),
        percent(count(medium, &[Call::Helps]), runs),
        format!("{:.0} s", time(medium)),
        medium_fixed,
        medium_ratio,
    ]
}

fn count(trials: &[Trial], calls: &[Call]) -> usize {
    trials.iter().filter(|trial| calls.contains(&trial.call)).count()
}

/// Mean time in seconds.
fn time(trials: &[Trial]) -> f64 {
    trials.iter().map(|trial| trial.seconds).sum::<f64>() / trials.len().max(1) as f64
}

/// Time of the fixed design that makes the right `call` as often, and that of the trials divided by it.
fn against(noise: &Noise, trials: &[Trial], call: Call, effect: f64) -> (String, String) {
    match fixed(noise, trials.len(), effect, count(trials, &[call])) {
        Some(fixed) => (format!("{fixed:.0} s"), format!("{:.2}", time(trials) / fixed)),
        None => {
            let longest = FIXED.1 as f64 * pair_seconds();
            (format!("> {longest:.0} s"), format!("< {:.2}", time(trials) / longest))
        }
    }
}

/// Length of the sample, and a trial for each effect, on the machine of `seed`.
fn one(noise: &Noise, seed: u64) -> (f64, [Trial; 3]) {
    let values = noise.pieces(seed, LONGEST);
    let (design, pieces) = (Design::default(), Pieces::new(THROUGHPUT, None, &Design::default()));
    let sampled =
        (0..pieces.count).find(|&n| is_enough(&values[..n], &pieces, &design)).unwrap_or(pieces.count);
    let sample_s = sampled as f64 * PIECE.as_secs_f64();
    let measure = plan(&values[..sampled], &pieces, &design)
        .map_or(Design::MEASURE, |planned| std::time::Duration::from_secs_f64(planned.measure_s));
    let most = design.pairs_at(measure);
    let washout = design.washout.0.as_secs_f64();
    let slots = slots(&values[sampled..], design.washout.0, measure);
    let trial = |effect: f64| {
        let (a, b) = arms(noise, &slots, seed, most, effect);
        let (call, pairs) = run(&a, &b, most);
        Trial { call, seconds: sample_s + 2.0 * pairs as f64 * (washout + measure.as_secs_f64()) }
    };
    (sample_s, EFFECTS.map(trial))
}

/// Means of slots of `measure`, each after a washout.
fn slots(values: &[f64], washout: std::time::Duration, measure: std::time::Duration) -> Vec<f64> {
    let count = |time: std::time::Duration| time.div_duration_f64(PIECE).round() as usize;
    let (skip, length) = (count(washout), count(measure));
    values.chunks_exact(skip + length).filter_map(|slot| mean(&slot[skip..])).collect()
}

/// Values of both arms of `pairs` pairs of the slots.
fn arms(noise: &Noise, slots: &[f64], seed: u64, pairs: usize, effect: f64) -> (Vec<f64>, Vec<f64>) {
    by_arm(slots, seed).take(pairs).map(|(a, b)| (noise.round(a), noise.round(b * (1.0 + effect)))).unzip()
}

fn pair_seconds() -> f64 {
    2.0 * (Design::default().washout.0 + Design::MEASURE).as_secs_f64()
}

/// Seconds of the shortest design with a fixed number of pairs of slots of 2 s that is right in at least `right` of the
/// runs: a t-test at 5 %, and TOST at 5 %. `None` if the longest is right less often.
fn fixed(noise: &Noise, runs: usize, effect: f64, right: usize) -> Option<f64> {
    let (fewest, most) = FIXED;
    let quantile =
        |p: f64| -> Vec<f64> { (0..=most).map(|n| t_quantile(p, n.saturating_sub(1) as f64)).collect() };
    let (two_sided, one_sided) = (quantile(0.975), quantile(0.95));
    let margin = MARGIN.ln_1p();
    let mut hits = vec![0; most + 1];
    for seed in seeds(runs) {
        let values = noise.pieces(seed, most * 2 * 25);
        let slots = slots(&values, Design::default().washout.0, Design::MEASURE);
        let (a, b) = arms(noise, &slots, seed, most, effect);
        let (mut sum, mut squares) = (0.0, 0.0);
        for (n, d) in (1..).zip(a.iter().zip(&b).map(|(a, b)| (b / a).ln())) {
            sum += d;
            squares += d * d;
            let (count, mean) = (n as f64, sum / n as f64);
            let variance =
                ((squares - count * mean * mean) / (count - 1.0)).max(0.0) + noise.step.powi(2) / 6.0;
            let error = (variance / count).sqrt();
            let is_inside = mean.abs() + one_sided[n] * error < margin;
            let is_right = if effect == 0.0 { is_inside } else { !is_inside && mean > two_sided[n] * error };
            hits[n] += usize::from(n >= fewest && is_right);
        }
    }
    (fewest..=most).find(|&n| hits[n] >= right).map(|pairs| pairs as f64 * pair_seconds())
}

#[cfg(test)]
mod tests {
    use super::{cells, fixed, one, whole};
    use crate::record::Call;
    use crate::simulate::table::noises;
    use rxlab_stats::noise::Noise;

    /// The promise holds with the choice of slots: at most 5 % of 350 trials of each kind.
    #[test]
    fn the_choice_of_slots_makes_no_effect() {
        let (mut wrong, mut inside) = (0, 0);
        for (_, noise) in noises() {
            for seed in 20_000..20_025 {
                let [none, small, _] = one(&noise, seed).1;
                wrong += usize::from(Call::SHOWN.contains(&none.call));
                inside += usize::from(matches!(small.call, Call::NoEffect | Call::Negligible));
            }
        }
        assert!(wrong <= 17 && inside <= 17, "{wrong} and {inside} of 350");
    }

    #[test]
    fn the_page_has_a_row_for_each_noise_that_keeps_the_promise() {
        let page = include_str!("../../../../docs/statistics.md");
        let (_, rest) = page.split_once("<!-- whole -->").expect("a mark");
        let rows: Vec<&str> =
            rest.split("<!-- end whole -->").next().expect("a part").trim().lines().skip(2).collect();
        assert_eq!(rows.len(), noises().len());
        for (row, (name, _)) in rows.iter().zip(noises()) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let percent = |cell: &str| cell.trim_end_matches(" %").parse::<f64>().expect("a percentage");
            assert_eq!(cells[1], name);
            assert!(percent(cells[3]) <= 5.0 && percent(cells[8]) <= 5.0, "the promise: {row}");
        }
    }

    /// A fixed design that finds 5 % in 90 % of trials with a noise of 4.24 % in a pair takes 10 pairs: t with 9 degrees of
    /// freedom.
    #[test]
    fn the_fixed_design_by_hand() {
        let seconds = fixed(&Noise::white(0.03), 400, 0.05, 360).expect("enough");
        assert!((45.0..=60.0).contains(&seconds), "{seconds}");
        assert_eq!(fixed(&Noise::white(0.3), 20, 0.05, 20), None);
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let table = whole(2, usize::MAX);
        let columns: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
        assert!(columns.windows(2).all(|pair| pair[0] == pair[1]) && columns.len() == 16, "{table}");
        assert_eq!(cells(&Noise::white(0.01), 3)[2], "100.0 %");
    }
}
