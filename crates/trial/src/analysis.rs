//! From the slots of a record to its conclusion. A pure function of the record: anyone with the
//! file can check the analysis in it.

mod adjust;
mod notes;

pub use adjust::adjust;
pub use notes::SOUND_REJECTIONS;

use std::collections::BTreeMap;

use super::metrics;
use super::monitor::Monitor;
use super::record::{
    Adjustment, Analysis, Calibration, Call, Effect, Metric, MetricResult, Slot, TrialRecord, Verdict,
};
use super::verdict::metric_verdict;
use adjust::{Adjusted, is_moved};
use rxlab_stats::design::{Arm, Phase};
use rxlab_stats::interval::Ratios;
use rxlab_stats::looks::{ERROR, Look};
use rxlab_stats::permutation::{rejection_rate, sign_flip_p};
use rxlab_stats::planning::detectable;
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
    let metrics: Vec<MetricResult> = samples
        .iter()
        .zip(shares(&samples, look))
        .map(|(sample, share)| sample.result(&monitor, look, share))
        .collect();
    let undecidable = Verdict::Inconclusive { detectable: f64::INFINITY, pairs_needed: record.max_pairs };
    let verdict = metrics.first().map_or(undecidable, |primary| metric_verdict(primary, record.margin));
    Analysis {
        verdict,
        pairs: pairs.len(),
        voids: record.slots.iter().filter(|slot| slot.void.is_some()).count(),
        notes: notes::all(record, pairs.len(), &samples),
        metrics,
    }
}

/// The decision on the primary metric so far; `None` to run another pair.
pub fn primary_decision(record: &TrialRecord, monitor: &Monitor) -> Option<(Call, Effect)> {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    monitor.look(Sample::new(record.metrics.first()?, &pairs).ratios())
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
    /// The slot that ran first.
    pub first: &'a Slot,
    /// The slot that ran second.
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
}

impl<'a> Sample<'a> {
    fn new(metric: &'a Metric, pairs: &[Pair]) -> Self {
        let value = |slot: &Slot| slot.values.get(&metric.name).copied().filter(|value| value.is_finite());
        let (mut numbers, mut a, mut b) = (Vec::new(), Vec::new(), Vec::new());
        let mut covariates =
            metrics::covariates(&metric.name).iter().map(|name| (*name, Vec::new())).collect();
        for pair in pairs {
            let (of_a, of_b) = pair.arms();
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
        Self { metric, numbers, a, b, d, scale, adjusted, moved }
    }

    fn ratios(&self) -> Ratios<'_> {
        let scale = self.scale.unwrap_or(Scale::LogRatio);
        Ratios { d: &self.d, scale, step: step(&self.a, &self.b) }
    }

    /// `share`: the number of metrics that share the error; `None` for the primary, which has all of it.
    fn result(&self, monitor: &Monitor, look: Look, share: Option<usize>) -> MetricResult {
        let judge = |ratios| match share {
            None => monitor.primary(ratios, look),
            Some(parts) => monitor.other(ratios, look, parts, self.metric.better),
        };
        let judged = judge(self.ratios());
        let is_end = self.d.len() >= monitor.max_pairs;
        MetricResult {
            metric: self.metric.clone(),
            pairs: self.d.len(),
            // Without any value the call is `Unmeasured`, and a 0 replaces NaN, which JSON lacks.
            mean_a: mean(&self.a).unwrap_or(0.0),
            mean_b: mean(&self.b).unwrap_or(0.0),
            effect: judged.map(|(_, interval)| interval.into()),
            p: judged.filter(|_| is_end).and_then(|_| sign_flip_p(&self.d, monitor.seed)),
            call: judged.map_or(Call::Unmeasured, |(call, _)| call),
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
        .filter_map(|(index, sample)| Some((index, sample.ratios().p_value(look)?)))
        .collect();
    let p: Vec<f64> = judged.iter().map(|(_, p)| *p).collect();
    for ((index, _), divisor) in judged.iter().zip(holm::divisors(&p, ERROR)) {
        shares[*index] = Some(divisor);
    }
    shares
}

#[cfg(test)]
mod tests;
