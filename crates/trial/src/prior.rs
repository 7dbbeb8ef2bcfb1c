//! The plan of a trial, from a sample of the machine and its load before anything is changed: how long slots should be,
//! how many pairs they take, and at how many the trial ends.
//!
//! The sample is cut into pieces. Any two runs of pieces, apart by the washout, are what a pair of slots of that length
//! would have been without a change; the spread of their log ratios is the noise of a pair.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::blocks::NamedSettings;
use super::live::{LiveError, rates};
use super::metrics::{self, name};
use super::record::Metric;
use super::spec::{Design, Kind, Spec};
use super::workload::Driver;
use rxlab_path::sample::{Counters, Inventory};
use rxlab_probe::{SoftirqTime, Windows};
use rxlab_stats::noise::PIECE;
use rxlab_stats::planning::{detectable, pairs_to_plan};
use rxlab_stats::{log_ratio, looks, rms};
use rxlab_sys::Host;

/// Length of the longest sample.
const SAMPLE: Duration = Duration::from_secs(19);
/// Length of the shortest one of which slots can be put together.
const LEAST: Duration = Duration::from_secs(6);
/// Such a sample ends when the trial that it predicts takes at most this many times as long: more of it would cost
/// more than it saves.
const WORTH: f64 = 6.0;
/// Lengths of slots to choose from, in pieces.
const SLOTS: [usize; 6] = [1, 2, 5, 10, 20, 40];

/// How the sample is cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pieces {
    pub length: Duration,
    /// Number of pieces at most.
    pub count: usize,
    /// Lengths of slots to choose from, in pieces.
    slots: &'static [usize],
}

impl Pieces {
    /// Pieces for a metric of `design`, and for slots of the given length if there is no choice.
    pub fn new(metric: &str, slot: Option<Duration>, design: &Design) -> Self {
        let longest = design.time_to_sample().map_or(SAMPLE, |time| time.min(SAMPLE));
        match (metric, slot) {
            (name::THROUGHPUT | name::MACHINE_CPU, None) => {
                let first = SLOTS.partition_point(|slot| PIECE * (*slot as u32) < design.shortest());
                Self::cut(PIECE, longest, &SLOTS[first..])
            }
            // A quantile of a slot is not the mean of those of its pieces, and time that is measured in windows needs
            // several of them.
            (_, slot) => Self::cut(slot.unwrap_or(Design::MEASURE), longest, &[1]),
        }
    }

    /// A number of slots of the same length.
    pub fn whole(length: Duration, count: usize) -> Self {
        Self { length, count, slots: &[1] }
    }

    fn cut(length: Duration, longest: Duration, slots: &'static [usize]) -> Self {
        Self { length, count: longest.div_duration_f64(length) as usize, slots }
    }
}

/// Slots chosen from a sample, and what they cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The lengths of slots that were compared, shortest first; empty if there was no choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<Length>,
}

/// A length of slots, and the time that a decision takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Length {
    /// Length of a slot in seconds.
    pub measure_s: f64,
    /// Standard deviation of a pair's log ratio without a change (0.03 = 3 %).
    pub noise: f64,
    /// Seconds that it takes to show an effect as large as the margin, and one twice as large, on average; `None` if a
    /// trial ends before that.
    pub takes_s: Option<f64>,
}

/// Measures a metric in each piece, and fewer of them if `on_piece`, called with the values so far, returns false. A
/// piece in which the metric has no value is `NaN`.
pub fn sample(
    host: &dyn Host,
    inventory: &Inventory,
    spec: &Spec,
    driver: &mut Driver,
    metric: &str,
    pieces: &Pieces,
    on_piece: &mut dyn FnMut(&[f64]) -> bool,
) -> Result<Vec<f64>, LiveError> {
    let mut timer = match metric {
        name::HOTTEST_SOFTIRQ => SoftirqTime::if_needed(host, inventory, spec.probe.budget),
        _ => None,
    };
    let mut values = Vec::new();
    while values.len() < pieces.count && on_piece(&values) {
        driver.begin()?;
        let before = Counters::take(host, inventory);
        let windows = Windows::during(timer.as_mut(), || std::thread::sleep(pieces.length));
        let after = Counters::take(host, inventory);
        let (work, _) = driver.end(None)?;
        let mut rates = rates(&before, &after)?;
        windows.time(&mut rates);
        let all = metrics::values(&rates, &work, spec.workload.nic.as_ref());
        values.push(all.get(metric).copied().unwrap_or(f64::NAN));
    }
    Ok(values)
}

/// True if a longer sample would cost more time than it saves. Asked every 2 s.
pub fn is_enough(values: &[f64], pieces: &Pieces, design: &Design) -> bool {
    let every = (2.0 / pieces.length.as_secs_f64()) as usize;
    let so_far = pieces.length.mul_f64(values.len() as f64);
    if pieces.slots.len() < 2 || so_far < LEAST || !values.len().is_multiple_of(every.max(1)) {
        return false;
    }
    let planned = plan(values, pieces, design).filter(|planned| fits(planned, design));
    planned.is_some_and(|planned| seconds(&planned, design) <= WORTH * so_far.as_secs_f64())
}

/// The plan that decides soonest, from the value of each piece. `None` if one has none above 0, or if there are too few.
pub fn plan(values: &[f64], pieces: &Pieces, design: &Design) -> Option<Planned> {
    let mut sums = vec![0.0];
    sums.extend(values.iter().scan(0.0, |sum, value| {
        *sum += value;
        Some(*sum)
    }));
    let plans: Vec<Planned> =
        pieces.slots.iter().filter_map(|&slot| of_length(&sums, pieces.length, slot, design)).collect();
    let lengths = plans.iter().map(|plan| Length {
        measure_s: plan.measure_s,
        noise: plan.noise,
        takes_s: fits(plan, design).then(|| seconds(plan, design)),
    });
    let lengths: Vec<Length> = if pieces.slots.len() > 1 { lengths.collect() } else { Vec::new() };
    // A longer slot wins a tie.
    let best = plans.into_iter().rev().min_by(|a, b| cost(a, design).total_cmp(&cost(b, design)))?;
    Some(Planned { lengths, ..best })
}

/// The plan with slots of `length` pieces, from the sums of the first pieces.
fn of_length(sums: &[f64], piece: Duration, length: usize, design: &Design) -> Option<Planned> {
    let gap = design.washout.0.div_duration_f64(piece).ceil() as usize;
    let slot = |at: usize| (sums[at + length] - sums[at]) / length as f64;
    let pair = |at: usize| log_ratio(slot(at), slot(at + length + gap));
    let pairs = sums.len().saturating_sub(2 * length + gap);
    let all: Option<Vec<f64>> = (0..pairs).map(pair).collect();
    // Below that the figure would be chance.
    let noise = rms(&all.filter(|all| all.len() >= 2 * length)?)?;
    let measure = piece.mul_f64(length as f64);
    let most = design.pairs_at(measure);
    let error = looks::planned(design.min_pairs, most).last()?.1;
    let wanted = pairs_to_plan(noise, design.margin.ln_1p());
    Some(Planned {
        sampled_s: (sums.len() - 1) as f64 * piece.as_secs_f64(),
        noise,
        measure_s: measure.as_secs_f64(),
        pairs: (wanted < usize::MAX).then_some(wanted.max(design.min_pairs)),
        detectable: Some(detectable(noise, most, error).exp_m1()).filter(|least| *least <= 1.0),
        lengths: Vec::new(),
    })
}

fn most_pairs(planned: &Planned, design: &Design) -> usize {
    design.pairs_at(Duration::from_secs_f64(planned.measure_s))
}

/// True if the trial ends with as many pairs as it needs, or later.
fn fits(planned: &Planned, design: &Design) -> bool {
    planned.pairs.is_some_and(|pairs| pairs <= most_pairs(planned, design))
}

/// Time to show an effect as large as the margin, and one twice as large, on average, in seconds; infinite if that is
/// never shown. The larger one counts because few pairs show it, and a pair of long slots takes long.
fn seconds(planned: &Planned, design: &Design) -> f64 {
    let Some(pairs) = planned.pairs else { return f64::INFINITY };
    let twice = pairs_to_plan(planned.noise, 2.0 * design.margin.ln_1p()).max(design.min_pairs);
    (pairs + twice) as f64 * design.slot(Duration::from_secs_f64(planned.measure_s)).as_secs_f64()
}

/// The time, more of it where the trial ends before it has its pairs: it decides less often. With a limited time, the
/// standard error at its end.
fn cost(planned: &Planned, design: &Design) -> f64 {
    if design.time.is_some() {
        let pairs = most_pairs(planned, design);
        return if pairs < design.min_pairs { f64::INFINITY } else { planned.noise / (pairs as f64).sqrt() };
    }
    let pairs = planned.pairs.map_or(f64::INFINITY, |pairs| pairs as f64);
    seconds(planned, design) * (pairs / most_pairs(planned, design) as f64).max(1.0)
}

/// What a trial would take: printed instead of running it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrialPlan {
    /// `rxlab.trial-plan/1`.
    pub schema: &'static str,
    /// One word for the trial.
    pub name: String,
    /// The design.
    pub design: Kind,
    /// The factors, candidates or levels of a trial in blocks.
    pub arms: Vec<NamedSettings>,
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
    /// Steering cannot matter: upper bound on its gain in throughput, below the margin (0.01 = 1 %). `None` if it can,
    /// if throughput does not decide, or if nothing could be sampled.
    pub ceiling: Option<f64>,
}

impl TrialPlan {
    pub const SCHEMA: &'static str = "rxlab.trial-plan/1";

    /// The plan of a trial by its specification.
    pub fn new(spec: &Spec, why: Option<String>, ceiling: Option<f64>, planned: Option<Planned>) -> Self {
        let design = &spec.design;
        let primary = design.primary.as_deref().unwrap_or(name::THROUGHPUT);
        let looks = match design.kind {
            Kind::Pairs => looks::planned(design.min_pairs, design.pairs()),
            Kind::BeforeAfter | Kind::Factorial | Kind::Search | Kind::Sweep | Kind::Choice => Vec::new(),
        };
        Self {
            schema: Self::SCHEMA,
            name: spec.name.clone(),
            design: design.kind,
            arms: spec.named().iter().map(NamedSettings::from).collect(),
            primary: metrics::describe(primary, Driver::work_unit(&spec.workload)),
            why,
            margin: design.margin,
            washout_s: design.washout.0.as_secs_f64(),
            measure_s: design.measure().as_secs_f64(),
            slots: spec.slots(),
            looks: looks.into_iter().map(|(pairs, _)| pairs).collect(),
            planned,
            ceiling,
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

    use super::{Design, Pieces, Planned, is_enough, plan};
    use crate::metrics::name;
    use crate::spec::Seconds;
    use rxlab_stats::noise::Noise;

    fn pieces() -> Pieces {
        Pieces::new(name::THROUGHPUT, None, &Design::default())
    }

    fn planned(noise: Noise, seed: u64) -> Planned {
        plan(&noise.pieces(seed, pieces().count), &pieces(), &Design::default()).expect("values")
    }

    /// White noise of 3 % in slots of 2 s is 4.2 % in slots of 1 s, so 6 % in a pair.
    #[test]
    fn the_noise_of_a_pair_follows_from_the_pieces() {
        let noise = |seed| planned(Noise::white(0.03), seed).lengths[1];
        let all: Vec<_> = (0..200).map(noise).collect();
        let square = all.iter().map(|length| length.noise.powi(2)).sum::<f64>() / all.len() as f64;
        assert!((square.sqrt() - 0.06).abs() < 0.005 && all[0].measure_s == 1.0, "{square}");
    }

    #[test]
    fn a_quiet_machine_gets_short_slots_and_few_pairs() {
        let planned = planned(Noise::white(0.005), 1);
        assert_eq!((planned.measure_s, planned.pairs, planned.sampled_s), (0.5, Some(9), 19.0));
        assert!(planned.detectable < Some(0.01), "{planned:?}");
        let takes = planned.lengths.iter().map(|length| length.takes_s.map(|takes| (takes * 100.0).round()));
        assert_eq!(takes.collect::<Vec<_>>(), [1809.0, 2709.0, 4509.0, 8109.0].map(Some));
    }

    #[test]
    fn shorter_slots_have_to_be_asked_for() {
        let design = Design {
            shortest: Some(Seconds(Duration::from_millis(100))),
            washout: Seconds(Duration::from_millis(50)),
            ..Design::default()
        };
        let pieces = Pieces::new(name::THROUGHPUT, None, &design);
        let plan = |noise: Noise| plan(&noise.pieces(1, pieces.count), &pieces, &design).expect("values");
        let quiet = plan(Noise::white(0.001));
        assert_eq!((quiet.measure_s, quiet.lengths.len()), (0.1, 6));
        // A rhythm of 5 s is the same in neighbouring slots that are much shorter.
        let rhythm = Noise { rhythm: 0.04, rhythm_slots: 2.0, ..Noise::white(0.002) };
        assert!(plan(rhythm).measure_s <= 0.2, "{:?}", plan(rhythm));
    }

    /// With a limited time, the slots are those with the smallest standard error at its end.
    #[test]
    fn a_limited_time_is_spent_on_the_smallest_error() {
        let limited = |time, measure: Option<Duration>| Design {
            time: Some(Seconds(Duration::from_secs(time))),
            measure: measure.map(Seconds),
            ..Design::default()
        };
        let design = limited(60, None);
        let pieces = Pieces::new(name::THROUGHPUT, None, &design);
        assert_eq!((pieces.count, Pieces::new(name::THROUGHPUT, None, &Design::default()).count), (120, 190));
        // White noise: long slots lose less to the washout, but 4 s leave too few pairs.
        let values = Noise::white(0.03).pieces(1, pieces.count);
        let planned = plan(&values, &pieces, &design).expect("values");
        assert_eq!(planned.measure_s, 2.0, "{planned:?}");
        let states = Noise { states: 0.05, dwell_slots: 1.0, ..Noise::white(0.005) };
        let planned = plan(&states.pieces(1, pieces.count), &pieces, &design).expect("values");
        assert_eq!(planned.measure_s, 0.5, "{planned:?}");
    }

    /// Short slots of a noisy machine need more pairs than the trial has.
    #[test]
    fn a_noisy_machine_gets_long_slots() {
        let long = (0..100).filter(|seed| planned(Noise::white(0.05), *seed).measure_s >= 2.0).count();
        assert!(long >= 80, "{long} of 100");
        let hopeless = planned(Noise::white(0.3), 1);
        assert!(hopeless.lengths.iter().all(|length| length.takes_s.is_none()), "{hopeless:?}");
    }

    /// Slots of 4 s have most of a period of 4.75 s in them, and each about the same.
    #[test]
    fn slots_are_about_as_long_as_a_rhythm_or_much_shorter() {
        let rhythm = Noise { rhythm: 0.04, rhythm_slots: 1.9, ..Noise::white(0.01) };
        let near = (0..100).filter(|seed| [1.0, 2.0].contains(&planned(rhythm, *seed).measure_s)).count();
        assert!(near <= 5, "{near} of 100");
    }

    #[test]
    fn shorter_slots_may_have_more_pairs_unless_their_number_is_given() {
        let most =
            |design: Design| [500, 1000, 2000, 4000].map(|ms| design.pairs_at(Duration::from_millis(ms)));
        assert_eq!(most(Design::default()), [100, 67, 40, 40]);
        assert_eq!(most(Design { pairs: Some(12), ..Design::default() }), [12; 4]);
    }

    #[test]
    fn a_sample_is_as_long_as_it_is_worth() {
        let taken = |noise: Noise| {
            let values = noise.pieces(1, pieces().count);
            (0..values.len()).find(|&n| is_enough(&values[..n], &pieces(), &Design::default()))
        };
        assert_eq!(taken(Noise::white(0.005)), Some(60), "6 s are the least");
        assert_eq!(taken(Noise::white(0.05)), None);
        let whole = Pieces::whole(Duration::from_secs(2), 9);
        assert!(!is_enough(&[1.0; 8], &whole, &Design::default()));
    }

    #[test]
    fn too_little_to_tell_is_no_plan() {
        for values in [&[1.0; 14][..], &[0.0; 190], &[f64::NAN; 190]] {
            assert_eq!(plan(values, &pieces(), &Design::default()), None, "{values:?}");
        }
        let still = plan(&[1.0; 190], &pieces(), &Design::default()).expect("values");
        assert_eq!((still.noise, still.pairs), (0.0, Some(9)));
    }

    #[test]
    fn quantiles_and_slots_of_a_given_length_are_sampled_in_whole_slots() {
        let pieces = Pieces::new(name::P99, None, &Design::default());
        let values: Vec<f64> = (0..pieces.count).map(|at| if at % 2 == 0 { 100.0 } else { 110.0 }).collect();
        let planned = plan(&values, &pieces, &Design::default()).expect("values");
        // The washout takes a piece: slots two apart are alike.
        assert_eq!((planned.measure_s, planned.sampled_s, planned.noise), (2.0, 18.0, 0.0));
        assert!(planned.lengths.is_empty());
        let pieces = Pieces::new(name::THROUGHPUT, Some(Duration::from_secs(1)), &Design::default());
        let design = Design { washout: Seconds(Duration::ZERO), ..Design::default() };
        let planned = plan(&values, &pieces, &design).expect("values");
        assert!(planned.measure_s == 1.0 && (planned.noise - 1.1f64.ln()).abs() < 1e-12, "{planned:?}");
    }
}
