//! From the slots of a record to its conclusion. A pure function of the record: anyone with the
//! file can check the analysis in it.

mod adjust;
mod halves;
mod notes;

pub use adjust::adjust;
pub use notes::SOUND_REJECTIONS;

use std::collections::BTreeMap;

use super::metrics;
use super::monitor::Monitor;
use super::record::{
    Adjustment, Analysis, Better, Calibration, Call, Effect, Metric, MetricResult, Slot, TrialRecord, Verdict,
};
use super::spec::Kind;
use super::verdict::metric_verdict;
use adjust::{Adjusted, is_moved};
use rxlab_stats::design::{Arm, Phase};
use rxlab_stats::interval::Ratios;
use rxlab_stats::looks::{ERROR, Look, planned};
use rxlab_stats::permutation::{rejection_rate, sign_flip_p};
use rxlab_stats::planning::{MAX_PAIRS, detectable};
use rxlab_stats::pool::Estimate;
use rxlab_stats::{Scale, changes, cv, holm, log_ratio, mean, rms, sd, step};

/// Analyses the comparison pairs: each metric with its interval and call, the primary first, and
/// the verdict of the primary metric alone. `verdict::rank` weighs it against the circumstances.
///
/// The end of the trial is determined by the pairs that have the primary metric. All other
/// metrics share one error, divided among them by Holm's rule.
pub fn analyse(record: &TrialRecord) -> Analysis {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    let samples: Vec<Sample> = record.metrics.iter().map(|metric| Sample::new(metric, &pairs)).collect();
    let monitor = Monitor::new(record);
    let look = monitor.look_at(samples.first().map_or(0, |primary| primary.d.len()));
    let paired = || samples.iter().zip(shares(&samples, look));
    let mut metrics: Vec<MetricResult> = match record.design {
        Kind::BeforeAfter => record.metrics.iter().map(|metric| halves::result(record, metric)).collect(),
        _ => paired().map(|(sample, share)| sample.result(&monitor, look, share)).collect(),
    };
    let primary = samples.first().filter(|_| record.design == Kind::Pairs);
    let carried = primary.and_then(|primary| notes::carry_over(primary, &record.slots));
    if let Some((result, carried)) = metrics.first_mut().zip(carried.as_ref())
        && carried.refutes(result.call)
    {
        result.call = Call::Inconclusive;
    }
    let undecidable = Verdict::Inconclusive { detectable: f64::INFINITY, pairs_needed: record.max_pairs };
    let verdict = metrics.first().map_or(undecidable, |primary| metric_verdict(primary, record.margin));
    Analysis {
        verdict,
        pairs: pairs.len(),
        voids: record.slots.iter().filter(|slot| slot.void.is_some()).count(),
        notes: notes::all(record, pairs.len(), &samples, carried.as_ref()),
        metrics,
    }
}

/// Effect on a metric in the pairs of the first planned look, adjusted as at that look. Each trial gets there whatever it
/// measures, so that this estimate is not larger where a trial ended early, as that of all pairs is. `None` before that look,
/// and without a relative change. A trial whose time was over earlier has all its pairs: the clock decided.
pub fn first_look(record: &TrialRecord, metric: &Metric) -> Option<Estimate> {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    let primary = record.metrics.first()?;
    let counts = |pair: &Pair| [pair.first, pair.second].iter().all(|slot| has(slot, primary).is_some());
    let counted: Vec<Pair> = pairs.into_iter().filter(counts).collect();
    // The numbers come from a file.
    let [fewest, most] = [record.min_pairs, record.max_pairs].map(|pairs| pairs.min(MAX_PAIRS));
    let (planned, _) = *planned(fewest, most).first()?;
    let look = if record.time_is_over { planned.min(counted.len()) } else { planned };
    Sample::new(metric, counted.get(..look)?).ratios().estimate()
}

/// The value of a metric in a slot.
fn has(slot: &Slot, metric: &Metric) -> Option<f64> {
    slot.values.get(&metric.name).copied().filter(|value| value.is_finite())
}

/// Slots below this length are short: an effect may last longer than them.
const SHORT_S: f64 = 0.5;

/// The decision on the primary metric so far; `None` to run another pair.
pub fn primary_decision(record: &TrialRecord, monitor: &Monitor) -> Option<(Call, Effect)> {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    let primary = Sample::new(record.metrics.first()?, &pairs);
    let (call, effect) = monitor.look(primary.ratios())?;
    let is_early = primary.d.len() < record.max_pairs && matches!(call, Call::Helps | Call::Hurts);
    // In short slots, an effect that lasts can show with the other sign. Waiting only takes claims back.
    let waits = is_early && record.measure_s < SHORT_S && {
        notes::carry_over(&primary, &record.slots).is_none_or(|carried| carried.is_suspect())
    };
    (!waits).then_some((call, effect))
}

/// The noise from the calibration slots; `None` with fewer than two pairs that have the primary
/// metric.
///
/// The order of the arms of a comparison is random, so the log ratio of a calibration pair could
/// equally have had the other sign: its mean is known to be 0, and `sd_d` is taken about 0. Taken
/// about their own mean, pairs whose second slot is always slower would look quiet.
pub fn calibrate(record: &TrialRecord) -> Option<Calibration> {
    let metric = record.metrics.first()?;
    let pairs = valid_pairs(&record.slots, Phase::Calibration);
    let value = |slot: &Slot| slot.values.get(&metric.name).copied();
    let usable: Vec<(f64, f64, f64)> = pairs
        .iter()
        .filter_map(|pair| Some((value(pair.first)?, value(pair.second)?)))
        .filter_map(|(first, second)| Some((first, second, log_ratio(first, second)?)))
        .collect();
    let slots: Vec<f64> = usable.iter().flat_map(|(first, second, _)| [*first, *second]).collect();
    let d: Vec<f64> = usable.iter().map(|(_, _, d)| *d).collect();
    Some(Calibration {
        pairs: d.len(),
        rejection_rate: rejection_rate(&d, record.seed)?,
        cv: cv(&slots)?,
        sd_d: rms(&d)?,
    })
}

/// Two valid slots of one pair, in time order.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    /// Number of the pair within its phase.
    pub number: usize,
    pub first: &'a Slot,
    pub second: &'a Slot,
}

impl<'a> Pair<'a> {
    /// The slot of arm A and that of arm B. In a calibration pair, where both are A, the first
    /// is treated as A.
    pub fn arms(&self) -> (&'a Slot, &'a Slot) {
        if self.first.arm == Arm::B { (self.second, self.first) } else { (self.first, self.second) }
    }
}

/// Pairs of `phase` in which both slots are valid, by number.
///
/// A repeated slot replaces the earlier one of its position: the last valid one counts.
/// A comparison pair needs one slot of each arm.
pub fn valid_pairs(slots: &[Slot], phase: Phase) -> Vec<Pair<'_>> {
    let mut by_number: BTreeMap<usize, [Option<&Slot>; 2]> = BTreeMap::new();
    for slot in slots.iter().filter(|slot| slot.phase == phase && slot.void.is_none()) {
        by_number.entry(slot.pair).or_default()[usize::from(slot.position > 0)] = Some(slot);
    }
    by_number
        .into_iter()
        .filter_map(|(number, [first, second])| Some(Pair { number, first: first?, second: second? }))
        .filter(|pair| (pair.first.arm != pair.second.arm) == (phase == Phase::Comparison))
        .collect()
}

/// One metric over the valid pairs that have it in both slots.
struct Sample<'a> {
    metric: &'a Metric,
    /// Numbers of the pairs.
    numbers: Vec<usize>,
    /// Values of arm A.
    a: Vec<f64>,
    /// Values of arm B.
    b: Vec<f64>,
    /// Changes of the pairs; empty if they have no scale.
    d: Vec<f64>,
    /// Their scale; `None` if there is none.
    scale: Option<Scale>,
    /// The changes as measured, if `d` is adjusted.
    adjusted: Option<(Adjusted, Vec<f64>)>,
    /// Covariates that the change moves, so that nothing is adjusted for them.
    moved: Vec<&'static str>,
    /// Valid slots of arm A and of arm B without a value.
    lacks: [usize; 2],
}

impl<'a> Sample<'a> {
    fn new(metric: &'a Metric, pairs: &[Pair]) -> Self {
        let value = |slot: &Slot| has(slot, metric);
        let (mut numbers, mut a, mut b) = (Vec::new(), Vec::new(), Vec::new());
        let mut covariates =
            metrics::covariates(&metric.name).iter().map(|name| (*name, Vec::new())).collect();
        let mut lacks = [0; 2];
        for pair in pairs {
            let (of_a, of_b) = pair.arms();
            lacks[0] += usize::from(value(of_a).is_none());
            lacks[1] += usize::from(value(of_b).is_none());
            if let (Some(value_a), Some(value_b)) = (value(of_a), value(of_b)) {
                numbers.push(pair.number);
                a.push(value_a);
                b.push(value_b);
                differ(&mut covariates, of_a, of_b);
            }
        }
        let (d, scale) = changes(&a, &b).unzip();
        let d: Vec<f64> = d.unwrap_or_default();
        // Covariates that some pair lacks are none.
        covariates.retain(|(_, ratios)| ratios.len() == d.len());
        let moved = covariates.iter().filter(|(_, ratios)| is_moved(ratios)).map(|(name, _)| *name).collect();
        let adjusted = adjust(&d, &covariates).filter(|_| scale == Some(Scale::LogRatio));
        let (d, adjusted) = match adjusted {
            Some(adjusted) => (adjusted.d.clone(), Some((adjusted, d))),
            None => (d, None),
        };
        Self { metric, numbers, a, b, d, scale, adjusted, moved, lacks }
    }

    /// The mean of an arm by which the change is estimated: the geometric one for ratios. Without any value a 0 replaces
    /// NaN, which JSON lacks; the call is `Unmeasured` then.
    fn mean(&self, values: &[f64]) -> f64 {
        if self.scale == Some(Scale::LogRatio) {
            let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
            return mean(&logs).map_or(0.0, f64::exp);
        }
        mean(values).unwrap_or(0.0)
    }

    fn ratios(&self) -> Ratios<'_> {
        let scale = self.scale.unwrap_or(Scale::LogRatio);
        Ratios { d: &self.d, scale, step: step(&self.a, &self.b) }
    }

    /// Slots of arm B above 0, if a metric that is better when it is lower is 0 in each slot of arm A.
    fn rises_from_zero(&self) -> Option<usize> {
        let is_zero = self.metric.better == Better::Lower && self.a.iter().all(|value| *value == 0.0);
        let slots = self.b.iter().filter(|value| **value > 0.0).count();
        (is_zero && self.scale.is_none() && slots > 0).then_some(slots)
    }

    /// On the scale of the whole procedure, as [`Ratios::p_value`]. Of a metric that rises from 0 the coins alone tell:
    /// each slot above 0 would have been one of arm A with the same chance.
    fn p_value(&self, look: Look) -> Option<f64> {
        let Some(slots) = self.rises_from_zero() else { return self.ratios().p_value(look) };
        let p = 2.0 * 0.5_f64.powi(i32::try_from(slots).unwrap_or(i32::MAX));
        Some((p * ERROR / look.error()).min(1.0))
    }

    /// The call of the intervals, as far as the values allow it: values that only one arm lacks may be its worst or its
    /// best, and a rise from 0 has no interval.
    fn call(&self, interval: Option<Call>, look: Look, share: Option<usize>) -> Call {
        let parts = share.unwrap_or(1) as f64;
        match interval {
            Some(_) if self.lacks.contains(&0) && self.lacks != [0; 2] => Call::Inconclusive,
            Some(call) => call,
            None if self.rises_from_zero().is_some() => {
                let is_proven = self.p_value(look).is_some_and(|p| p * parts <= ERROR);
                if is_proven { Call::Hurts } else { Call::Inconclusive }
            }
            None => Call::Unmeasured,
        }
    }

    /// `share`: the number of metrics that share the error; `None` for the primary, which has all of it.
    fn result(&self, monitor: &Monitor, look: Look, share: Option<usize>) -> MetricResult {
        let judge = |ratios| match share {
            None => monitor.primary(ratios, look),
            Some(parts) => monitor.other(ratios, look, parts, self.metric.better),
        };
        let judged = judge(self.ratios());
        let is_end = self.d.len() >= monitor.max_pairs || monitor.time_is_over;
        MetricResult {
            metric: self.metric.clone(),
            pairs: if self.rises_from_zero().is_some() { self.a.len() } else { self.d.len() },
            mean_a: self.mean(&self.a),
            mean_b: self.mean(&self.b),
            effect: judged.map(|(_, interval)| interval.into()),
            p: judged.filter(|_| is_end).and_then(|_| sign_flip_p(&self.d, monitor.seed)),
            call: self.call(judged.map(|(call, _)| call), look, share),
            detectable: sd(&self.d)
                .map(|spread| detectable(spread, self.d.len(), look.error()))
                .map(|smallest| self.ratios().scale.log_ratio(smallest).exp_m1())
                .filter(|smallest| smallest.is_finite()),
            adjustment: self.adjusted.as_ref().and_then(|(adjusted, measured)| {
                let ratios = Ratios { d: measured, ..self.ratios() };
                let (_, unadjusted) = judge(ratios)?;
                Some(Adjustment {
                    covariates: adjusted.covariates.iter().map(ToString::to_string).collect(),
                    explained: adjusted.explained,
                    unadjusted: unadjusted.into(),
                })
            }),
            ratios: self.numbers.iter().copied().zip(self.d.iter().copied()).collect(),
        }
    }
}

/// Adds the log ratios of the covariates in a pair, as far as both slots have them.
fn differ(covariates: &mut Vec<(&'static str, Vec<f64>)>, a: &Slot, b: &Slot) {
    for (name, ratios) in covariates {
        let of = |slot: &Slot| slot.values.get(*name).copied().unwrap_or(0.0);
        ratios.extend(log_ratio(of(a), of(b)));
    }
}

/// The parts into which the error is divided for each metric: none for the primary, Holm's for the others.
/// Metrics without a p-value take no share.
fn shares(samples: &[Sample], look: Look) -> Vec<Option<usize>> {
    let mut shares: Vec<Option<usize>> = (0..samples.len()).map(|index| (index > 0).then_some(1)).collect();
    let judged: Vec<(usize, f64)> = samples
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(index, sample)| Some((index, sample.p_value(look)?)))
        .collect();
    let p: Vec<f64> = judged.iter().map(|(_, p)| *p).collect();
    for ((index, _), divisor) in judged.iter().zip(holm::divisors(&p, ERROR)) {
        shares[*index] = Some(divisor);
    }
    shares
}

#[cfg(test)]
mod tests;
