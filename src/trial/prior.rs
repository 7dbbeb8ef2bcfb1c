//! The plan of a trial, from a sample of the machine and its load before anything is changed: how long slots should be,
//! and how many pairs they take.
//!
//! The sample is cut into pieces. Any two runs of pieces, apart by the washout, are what a pair of slots of that length
//! would have been without a change; the spread of their log ratios is the noise of a pair.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::live::{LiveError, rates};
use super::metrics::{self, name};
use super::record::Metric;
use super::spec::{Design, Kind, Spec};
use super::stats::planning::{detectable, pairs_to_plan};
use super::stats::{log_ratio, looks, mean, rms};
use super::workload::Driver;
use crate::host::Host;
use crate::probe::SoftirqTime;
use crate::sample::{Counters, Inventory};
use crate::units::NicName;

/// Length of the sample.
const SAMPLE: Duration = Duration::from_secs(19);
/// Length of a piece of it, if slots can be put together from pieces.
const PIECE: Duration = Duration::from_millis(250);

/// How the sample is cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pieces {
    /// Length of a piece.
    pub length: Duration,
    /// Number of pieces.
    pub count: usize,
    /// Lengths of slots to choose from, in pieces.
    slots: &'static [usize],
}

impl Pieces {
    /// Pieces for a metric, and for slots of the given length if there is no choice.
    pub fn of(metric: &str, slot: Option<Duration>) -> Self {
        match (metric, slot) {
            // Longer slots leave too few pairs in a sample to tell their noise.
            (name::THROUGHPUT | name::MACHINE_CPU, None) => Self::cut(PIECE, &[2, 4, 8]),
            // A quantile of a slot is not the mean of those of its pieces, and time that is measured in windows needs
            // several of them.
            (_, slot) => Self::cut(slot.unwrap_or(Design::MEASURE), &[1]),
        }
    }

    /// A number of slots of the same length.
    pub fn whole(length: Duration, count: usize) -> Self {
        Self { length, count, slots: &[1] }
    }

    fn cut(length: Duration, slots: &'static [usize]) -> Self {
        Self { length, count: SAMPLE.div_duration_f64(length) as usize, slots }
    }
}

/// Slots chosen from a sample, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Planned {
    /// Length of the sample in seconds.
    pub sampled_s: f64,
    /// Standard deviation of a pair's log ratio without a change (0.03 = 3 %).
    pub noise: f64,
    /// Length of a slot in seconds.
    pub measure_s: f64,
    /// Pairs that show an effect as large as the margin with 80 % power; `None` if a million are too few.
    pub pairs: Option<usize>,
    /// Smallest effect that all pairs of the trial show with 80 % power, as a fraction; `None` above 100 %.
    pub detectable: Option<f64>,
}

/// Request of a trial, as far as its plan depends on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// Washout before each slot.
    pub washout: Duration,
    /// Margin of equivalence.
    pub margin: f64,
    /// Fewest pairs at which the trial may decide.
    pub min_pairs: usize,
    /// Pairs at which it ends undecided.
    pub max_pairs: usize,
}

/// Measures a metric in each piece, and fewer of them if `on_piece`, called with the number so far, returns false. A
/// piece in which the metric has no value is `NaN`.
pub fn sample(
    (host, inventory, nic): (&dyn Host, &Inventory, Option<&NicName>),
    driver: &mut Driver,
    metric: &str,
    mut timer: Option<SoftirqTime>,
    pieces: &Pieces,
    on_piece: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<f64>, LiveError> {
    let mut values = Vec::new();
    while values.len() < pieces.count && on_piece(values.len()) {
        driver.begin()?;
        let before = Counters::take(host, inventory);
        let wait = || std::thread::sleep(pieces.length);
        // If it cannot be read, the metric has no value.
        let windows = match &mut timer {
            Some(timer) => timer.during(wait).1.ok(),
            None => {
                wait();
                None
            }
        };
        let after = Counters::take(host, inventory);
        let (work, _) = driver.end(None)?;
        let mut rates = rates(&before, &after)?;
        if let Some(windows) = windows {
            windows.time(&mut rates);
        }
        let all = metrics::values(&rates, &work, nic);
        values.push(all.get(metric).copied().unwrap_or(f64::NAN));
    }
    Ok(values)
}

/// The plan that decides soonest, from the value of each piece. `None` if one has none above 0, or if there are too few.
pub fn plan(values: &[f64], pieces: &Pieces, request: &Request) -> Option<Planned> {
    let plans = pieces.slots.iter().filter_map(|&slot| of_length(values, pieces.length, slot, request));
    // A longer slot wins a tie.
    plans.rev().min_by(|a, b| seconds(a, request).total_cmp(&seconds(b, request)))
}

fn of_length(values: &[f64], piece: Duration, length: usize, request: &Request) -> Option<Planned> {
    let gap = request.washout.div_duration_f64(piece).ceil() as usize;
    let slot = |at: usize| mean(&values[at..at + length]);
    let pair = |at: usize| log_ratio(slot(at)?, slot(at + length + gap)?);
    let pairs = (values.len() + 1).saturating_sub(2 * length + gap);
    let all: Option<Vec<f64>> = (0..pairs).map(pair).collect();
    // Below that the figure would be chance.
    let noise = rms(&all.filter(|all| all.len() >= 2 * length)?)?;
    let error = looks::planned(request.min_pairs, request.max_pairs).last()?.1;
    let wanted = pairs_to_plan(noise, request.margin.ln_1p());
    Some(Planned {
        sampled_s: values.len() as f64 * piece.as_secs_f64(),
        noise,
        measure_s: length as f64 * piece.as_secs_f64(),
        pairs: (wanted < usize::MAX).then_some(wanted.max(request.min_pairs)),
        detectable: Some(detectable(noise, request.max_pairs, error).exp_m1()).filter(|least| *least <= 1.0),
    })
}

/// Time until the trial decides, seconds; infinite if it never does.
fn seconds(planned: &Planned, request: &Request) -> f64 {
    let pairs = planned.pairs.map_or(f64::INFINITY, |pairs| pairs as f64);
    pairs * 2.0 * (request.washout.as_secs_f64() + planned.measure_s)
}

impl Request {
    /// The request of a specification.
    pub fn of(design: &Design) -> Self {
        Self {
            washout: design.washout.0,
            margin: design.margin,
            min_pairs: design.min_pairs,
            max_pairs: design.pairs,
        }
    }
}

/// What a trial would take: printed instead of running it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrialPlan {
    /// `rxlab.trial-plan/1`.
    pub schema: &'static str,
    /// One word for the trial.
    pub name: String,
    /// The metric that decides.
    pub primary: Metric,
    /// Why it does; `None` if it was asked for, or throughput of a closed loop or a command.
    pub why: Option<String>,
    /// Margin of equivalence (0.03 = 3 %).
    pub margin: f64,
    /// Washout before each slot, seconds.
    pub washout_s: f64,
    /// Length of a slot, seconds.
    pub measure_s: f64,
    /// Slots at most, unless some are void.
    pub slots: usize,
    /// Pairs at which the trial may decide; none in blocks, whose number is fixed.
    pub looks: Vec<usize>,
    /// The noise and what follows from it; `None` if nothing could be sampled before the trial.
    pub planned: Option<Planned>,
}

impl TrialPlan {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.trial-plan/1";

    /// The plan of a trial by its specification.
    pub fn new(spec: &Spec, why: Option<String>, planned: Option<Planned>) -> Self {
        let design = &spec.design;
        let primary = design.primary.as_deref().unwrap_or(name::THROUGHPUT);
        let looks = match design.kind {
            Kind::Pairs => looks::planned(design.min_pairs, design.pairs),
            Kind::Factorial | Kind::Search | Kind::Sweep => Vec::new(),
        };
        Self {
            schema: Self::SCHEMA,
            name: spec.name.clone(),
            primary: metrics::describe(primary, Driver::work_unit(&spec.workload)),
            why,
            margin: design.margin,
            washout_s: design.washout.0.as_secs_f64(),
            measure_s: design.measure().as_secs_f64(),
            slots: spec.slots(),
            looks: looks.into_iter().map(|(pairs, _)| pairs).collect(),
            planned,
        }
    }

    /// Time that `slots` slots take, seconds.
    pub fn seconds(&self, slots: usize) -> f64 {
        slots as f64 * (self.washout_s + self.measure_s)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Design, PIECE, Pieces, Planned, Request, of_length, plan};
    use crate::trial::metrics::name;
    use crate::trial::simulate::Noise;

    fn request() -> Request {
        Request::of(&Design::default())
    }

    fn planned(noise: Noise, seed: u64) -> Planned {
        let pieces = Pieces::of(name::THROUGHPUT, None);
        plan(&noise.values(seed, pieces.count), &pieces, &request()).expect("values")
    }

    /// White noise of 3 % in pieces of 250 ms is 1.5 % in slots of 1 s, so 2.1 % in a pair.
    #[test]
    fn the_noise_of_a_pair_follows_from_the_pieces() {
        let noise = |seed| of_length(&Noise::white(0.03).values(seed, 76), PIECE, 4, &request());
        let all: Vec<f64> = (0..200).filter_map(|seed| Some(noise(seed)?.noise)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 0.0212).abs() < 0.0010, "{mean}");
    }

    #[test]
    fn a_quiet_machine_gets_short_slots_and_few_pairs() {
        let planned = planned(Noise::white(0.005), 1);
        assert_eq!((planned.measure_s, planned.pairs, planned.sampled_s), (0.5, Some(9), 19.0));
        assert!(planned.detectable < Some(0.005), "{planned:?}");
    }

    /// The pairs that the noise of short slots needs would take more time than long slots.
    #[test]
    fn a_noisy_machine_gets_long_slots() {
        let long = (0..100).filter(|seed| planned(Noise::white(0.12), *seed).measure_s > 0.5).count();
        assert!(long > 90, "{long} of 100");
    }

    #[test]
    fn too_little_to_tell_is_no_plan() {
        let (pieces, request) = (Pieces::of(name::THROUGHPUT, None), request());
        for values in [&[1.0; 5][..], &[0.0; 76], &[f64::NAN; 76]] {
            assert_eq!(plan(values, &pieces, &request), None, "{values:?}");
        }
        let still = plan(&[1.0; 76], &pieces, &request).expect("values");
        assert_eq!((still.noise, still.pairs), (0.0, Some(9)));
    }

    #[test]
    fn quantiles_and_slots_of_a_given_length_are_sampled_in_whole_slots() {
        let pieces = Pieces::of(name::P99, None);
        let values: Vec<f64> = (0..pieces.count).map(|at| if at % 2 == 0 { 100.0 } else { 110.0 }).collect();
        let planned = plan(&values, &pieces, &request()).expect("values");
        // The washout takes a piece: slots two apart are alike.
        assert_eq!((planned.measure_s, planned.sampled_s, planned.noise), (2.0, 18.0, 0.0));
        let pieces = Pieces::of(name::THROUGHPUT, Some(Duration::from_secs(1)));
        let request = Request { washout: Duration::ZERO, ..request() };
        let planned = plan(&values, &pieces, &request).expect("values");
        assert!(planned.measure_s == 1.0 && (planned.noise - 1.1f64.ln()).abs() < 1e-12, "{planned:?}");
    }
}
