//! Simulated fleets: how often the pooled answer is wrong, next to two others over the effects with which the trials ended: the
//! same interval, and the usual random-effects model. The table of `docs/fleet.md`.

use super::record;
use super::table::{MARGIN, percent, row, run, seeds};
use crate::analysis::primary_decision;
use crate::conclude::conclude;
use crate::fleet::exceptions;
use crate::fleet::{FirstLook, Tried};
use crate::monitor::Monitor;
use crate::record::{Slot, TrialRecord};
use crate::runner::Ending;
use rxlab_path::model::Identity;
use rxlab_stats::design::{Arm, Phase, orders};
use rxlab_stats::interval::{Interval, Ratios, t_quantile};
use rxlab_stats::looks::{ERROR, FIRST, Look, PAIRS, planned};
use rxlab_stats::noise::Noise;
use rxlab_stats::pool::{Estimate, spread};

/// The change that the trials of the second half of the columns have on average.
const EFFECT: f64 = 0.05;
/// Runs behind each row of the committed table.
pub const RUNS: usize = 1000;
const HOSTS: [usize; 4] = [3, 5, 10, 40];

/// Simulated hosts.
#[derive(Debug, Clone, Copy)]
pub struct Fleet {
    pub hosts: usize,
    /// Standard deviation of the true effects between hosts, as a log ratio.
    pub between: f64,
    /// Noise of the slots of the quietest and of the noisiest host.
    pub noise: (f64, f64),
}

/// One simulated host: the effect in its first look, and the one with which its trial ended.
struct Host {
    first: Estimate,
    all: Estimate,
}

impl Fleet {
    /// The hosts of `seed` with this mean effect.
    fn draw(&self, seed: u64, effect: f64) -> Vec<Host> {
        (0..self.hosts as u64).map(|host| self.host(seed * 1000 + host, host, effect)).collect()
    }

    fn host(&self, seed: u64, host: u64, effect: f64) -> Host {
        let own = effect.ln_1p() + self.own_effect(seed);
        let (a, b) = self.noise_of(host).arms(seed, PAIRS, own.exp_m1());
        let (_, pairs) = run(&a, &b, PAIRS);
        let d: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (b / a).ln()).collect();
        let estimate = |pairs: usize| Ratios::from(&d[..pairs]).estimate().expect("pairs that vary");
        Host { first: estimate(FIRST.min(pairs)), all: estimate(pairs) }
    }

    /// What the true effect on a host differs from the mean.
    fn own_effect(&self, seed: u64) -> f64 {
        let drawn = Noise::white(self.between).values(seed + (1 << 42), 2);
        (drawn[0] / drawn[1]).ln() / 2f64.sqrt()
    }

    /// Noise of a host: in equal steps of its logarithm from the quietest to the noisiest, every third host alike.
    fn noise_of(&self, host: u64) -> Noise {
        let (low, high) = self.noise;
        Noise::white(low * (high / low).powf((host % 3) as f64 / 2.0))
    }
}

/// The record of a simulated trial that ended by its own rule.
pub fn trial(hostname: &str, noise: &Noise, seed: u64, effect: f64) -> TrialRecord {
    let mut record = TrialRecord {
        id: "0001-simulated".to_owned(),
        host: Identity {
            hostname: hostname.to_owned(),
            kernel: "6.12.1".to_owned(),
            boot_id: hostname.to_owned(),
        },
        started: "2026-03-01T12:00:00Z".to_owned(),
        seed,
        ..record()
    };
    let (a, b) = noise.arms(seed, record.max_pairs, effect);
    let name = record.metrics[0].name.clone();
    let mut pairs = (0..).zip(orders(seed, Phase::Comparison)).zip(a.into_iter().zip(b));
    for (look, _) in planned(record.min_pairs, record.max_pairs) {
        let so_far = record.slots.len() / 2;
        for ((pair, order), (a, b)) in pairs.by_ref().take(look - so_far) {
            for (position, arm) in (0..).zip(order) {
                let value = if arm == Arm::A { a } else { b };
                record.slots.push(Slot::sample((Phase::Comparison, pair, position, arm), &[(&name, value)]));
            }
        }
        if primary_decision(&record, &Monitor::new(&record)).is_some() {
            break;
        }
    }
    record.analysis = Some(conclude(&record, &Ending::default(), false, None));
    record
}

fn pooled(hosts: &[Estimate]) -> Interval {
    let mids: Vec<f64> = hosts.iter().map(|host| host.mid).collect();
    Ratios::from(&mids[..]).interval(Look::Planned(ERROR), 1).expect("hosts")
}

fn firsts(hosts: &[Host]) -> Vec<Estimate> {
    hosts.iter().map(|host| host.first).collect()
}

fn alls(hosts: &[Host]) -> Vec<Estimate> {
    hosts.iter().map(|host| host.all).collect()
}

/// Variance between hosts by Paule and Mandel, with the interval by Hartung, Knapp, Sidik and Jonkman.
fn usual(hosts: &[Estimate]) -> (f64, Interval) {
    let freedom = hosts.len() as f64 - 1.0;
    let weighted = |between: f64| {
        let weights: Vec<f64> = hosts.iter().map(|host| 1.0 / (host.variance + between)).collect();
        let all: f64 = weights.iter().sum();
        let mid = hosts.iter().zip(&weights).map(|(host, weight)| weight * host.mid).sum::<f64>() / all;
        let squares: f64 =
            hosts.iter().zip(&weights).map(|(host, weight)| weight * (host.mid - mid).powi(2)).sum();
        (mid, squares, all)
    };
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if weighted(middle).1 > freedom { low = middle } else { high = middle }
    }
    let (mid, squares, all) = weighted(low);
    let half = t_quantile(1.0 - ERROR / 2.0, freedom) * (squares / freedom / all).sqrt();
    (low, Interval::around(mid, half))
}

/// True if a group of hosts is wrongly said to differ: kernel, driver and CPU mean nothing here, but the noise of every third
/// host, which has a driver of its own.
fn finds_group(hosts: &[Host]) -> bool {
    let tried = |(at, host): (usize, &Host)| Tried {
        host: Identity {
            hostname: at.to_string(),
            kernel: ["5.15.0", "6.1.0"][at / 2 % 2].to_owned(),
            boot_id: String::new(),
        },
        drivers: [["mlx5_core", "ixgbe", "virtio_net"][at % 3].to_owned()].into(),
        cpu_model: Some(["this", "that"][at / 5 % 2].to_owned()),
        trial: String::new(),
        started: String::new(),
        verdict: None,
        effect: None,
        first_look: Some(FirstLook {
            mid: host.first.mid,
            error: host.first.variance.sqrt(),
            pairs: host.first.pairs,
        }),
        left_out: None,
        against: Vec::new(),
        open: Vec::new(),
        repeated: 0,
        boots: 1,
    };
    let tried: Vec<Tried> = hosts.iter().enumerate().map(tried).collect();
    !exceptions::find(&tried).is_empty()
}

/// Wrong answers of simulated fleets, by the noise of the hosts and by their number, as Markdown.
pub fn table(runs: usize) -> String {
    let mut text = String::from(
        "| hosts, noise of slots | effects differ by | no effect: claimed | usual model | group claimed | difference claimed \
         | 5 %: missed by all pairs | by the usual model | helps |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (noise, name) in [((0.03, 0.03), "3 %"), ((0.05, 0.05), "5 %"), ((0.01, 0.1), "1 to 10 %")] {
        for between in [0.0, 0.03] {
            for hosts in HOSTS {
                let cells = cells(&Fleet { hosts, between, noise }, runs);
                row(&mut text, &format!("{hosts}, {name} | {:.0} %", 100.0 * between), &cells);
            }
        }
    }
    text
}

fn cells(fleet: &Fleet, runs: usize) -> [String; 7] {
    let mut counts = [0; 7];
    for seed in seeds(runs) {
        let (none, some) = (fleet.draw(seed, 0.0), fleet.draw(seed, EFFECT));
        let misses = |interval: Interval| {
            let truth = EFFECT.ln_1p();
            interval.low > truth || interval.high < truth
        };
        let found = [
            pooled(&firsts(&none)).excludes_zero(),
            usual(&alls(&none)).1.excludes_zero(),
            finds_group(&none),
            spread(&firsts(&none)).is_some_and(|spread| spread.p <= ERROR),
            misses(pooled(&alls(&some))),
            misses(usual(&alls(&some)).1),
            helps(pooled(&firsts(&some))),
        ];
        counts.iter_mut().zip(found).for_each(|(count, found)| *count += usize::from(found));
    }
    counts.map(|count| percent(count, runs))
}

fn helps(interval: Interval) -> bool {
    interval.low > 0.0 && !interval.inside(MARGIN.ln_1p())
}

#[cfg(test)]
mod tests {
    use super::{Fleet, RUNS, alls, finds_group, firsts, pooled, table, trial, usual};
    use crate::fleet::pools;
    use crate::record::{Call, TrialRecord};
    use rxlab_stats::noise::Noise;
    use rxlab_stats::pool::Estimate;

    /// The thirteen trials of the BCG vaccine (Colditz et al., JAMA 271, 1994), log risk ratios: 0.318 by Paule and Mandel.
    /// metafor's `rma(yi, vi, data = dat.bcg)` has -0.7145 and 0.3132 by REML.
    #[test]
    fn the_usual_model_on_a_published_data_set() {
        let trials = [
            (-0.8893, 0.3256),
            (-1.5854, 0.1946),
            (-1.3481, 0.4154),
            (-1.4416, 0.0200),
            (-0.2175, 0.0512),
            (-0.7861, 0.0069),
            (-1.6209, 0.2230),
            (0.0120, 0.0040),
            (-0.4694, 0.0564),
            (-1.3713, 0.0730),
            (-0.3394, 0.0124),
            (0.4459, 0.5325),
            (-0.0173, 0.0714),
        ];
        let trials = trials.map(|(mid, variance)| Estimate { mid, variance, pairs: 9 });
        let (between, interval) = usual(&trials);
        assert!((0.3175..0.3185).contains(&between), "{between}");
        assert!((interval.mid + 0.7145).abs() < 0.002, "{interval:?}");
        assert!((interval.low + 1.108).abs() < 0.01 && (interval.high + 0.321).abs() < 0.01, "{interval:?}");
    }

    /// The six trials of CLASP, log odds ratios: DerSimonian and Kacker (Contemporary Clinical Trials 28, 2007, tables 3 and 4)
    /// print 0.3681 and -0.3811 by Paule and Mandel.
    #[test]
    fn the_usual_model_is_that_of_the_trials_of_clasp() {
        let trials = [
            (-1.2976, 0.34677),
            (-1.2649, 0.26568),
            (0.1208, 0.19839),
            (-0.3294, 0.02648),
            (-0.2007, 0.22330),
            (-0.1285, 0.00650),
        ];
        let trials = trials.map(|(mid, variance)| Estimate { mid, variance, pairs: 9 });
        let (between, interval) = usual(&trials);
        assert!(
            (between.sqrt() - 0.3681).abs() < 0.0001 && (interval.mid + 0.3811).abs() < 0.0001,
            "{interval:?}"
        );
    }

    /// Records of trials that end by their own rule: without an effect, 5 % of 150 fleets are 7.5; three standard errors are 8.
    #[test]
    fn a_fleet_claims_no_effect_that_is_not_there() {
        let mut claimed = 0;
        for seed in 0..150 {
            let hosts = [3, 5, 7][seed as usize % 3];
            let records: Vec<TrialRecord> = (0..hosts)
                .map(|host| {
                    trial(&format!("web{host}"), &Noise::white(0.03), 70_000 + 100 * seed + host, 0.0)
                })
                .collect();
            let pools = pools(&records.iter().collect::<Vec<_>>());
            let primary = pools[0].primary().expect("three hosts or more");
            claimed += usize::from(Call::SHOWN.contains(&primary.call));
        }
        assert!(claimed <= 15, "{claimed} of 150");
    }

    /// Where stopping matters most: most trials end between the first look and the last one. Three standard errors of 5 % of 100
    /// fleets are 6.5; the effects with which the trials end are too large on average.
    #[test]
    fn stopping_early_does_not_move_the_pooled_effect() {
        let fleet = Fleet { hosts: 40, between: 0.0, noise: (0.05, 0.05) };
        let truth = 0.05f64.ln_1p();
        let is_missed = |hosts: &[Estimate]| {
            let interval = pooled(hosts);
            interval.low > truth || interval.high < truth
        };
        let drawn: Vec<_> = (0..100).map(|seed| fleet.draw(seed, 0.05)).collect();
        let misses = drawn.iter().filter(|hosts| is_missed(&firsts(hosts))).count();
        let missed = drawn.iter().filter(|hosts| is_missed(&alls(hosts))).count();
        assert!(misses <= 11 && missed > 25, "{misses} and {missed} of 100");
    }

    /// 5 % of 200 are 10; three standard errors are 9.
    #[test]
    fn groups_that_mean_nothing_are_not_found() {
        for between in [0.0, 0.05] {
            let fleet = Fleet { hosts: 12, between, noise: (0.01, 0.1) };
            let found = (0..200).filter(|seed| finds_group(&fleet.draw(90_000 + seed, 0.1))).count();
            assert!(found <= 19, "{between}: {found} of 200");
        }
    }

    #[test]
    fn the_page_has_the_rows_of_the_table_and_each_keeps_the_promise() {
        let page = include_str!("../../../../docs/fleet.md");
        let (_, rest) = page.split_once("<!-- fleets -->").expect("a mark");
        let rows: Vec<&str> =
            rest.split("<!-- end fleets -->").next().expect("a part").trim().lines().skip(2).collect();
        let here = table(1);
        assert_eq!(rows.len(), here.lines().count() - 2);
        for (row, here) in rows.iter().zip(here.lines().skip(2)) {
            let cells =
                |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<String>>();
            let (cells, here) = (cells(row), cells(here));
            assert_eq!(cells[..3], here[..3]);
            // No effect, group and difference: 5 %, with three standard errors of 1000 runs.
            for at in [3, 5, 6] {
                let share: f64 = cells[at].trim_end_matches(" %").parse().expect("a percentage");
                assert!(share <= 7.0 || (at == 6 && cells[2] != "0 %"), "{row}");
            }
        }
        let first = super::cells(&Fleet { hosts: 3, between: 0.0, noise: (0.03, 0.03) }, RUNS);
        assert!(
            rows[0].ends_with(&format!("| 0 % | {} |", first.join(" | "))),
            "{first:?}: the page is stale"
        );
    }

    #[test]
    fn the_table_is_rectangular() {
        let columns: Vec<usize> = table(2).lines().map(|line| line.matches('|').count()).collect();
        assert!(columns.windows(2).all(|pair| pair[0] == pair[1]) && columns.len() == 26, "{columns:?}");
    }
}
