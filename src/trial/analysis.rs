//! From the slots of a record to its conclusion. A pure function of the record: anyone with the
//! file can check the analysis in it.

mod notes;
mod pairs;

pub use pairs::{Pair, valid_pairs};

use super::monitor::{judge, look_at};
use super::record::{Analysis, Calibration, Call, Metric, MetricResult, Phase, Slot, TrialRecord, Verdict};
use super::stats::interval::{Level, Look, interval, p_value};
use super::stats::permutation::{rejection_rate, sign_flip_p};
use super::stats::planning::detectable;
use super::stats::{cv, holm, lag1, log_ratio, mean, rms, sd};
use super::verdict::metric_verdict;

/// Analyses the comparison pairs: each metric with its interval and call, the primary first, and
/// the verdict of the primary metric alone. `verdict::rank` weighs it against the circumstances.
///
/// The end of the trial is determined by the pairs that have the primary metric. All other
/// metrics share one error, divided among them by Holm's rule.
pub fn analyse(record: &TrialRecord) -> Analysis {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    let samples: Vec<Sample> = record.metrics.iter().map(|metric| Sample::of(metric, &pairs)).collect();
    let look = look_at(samples.first().map_or(0, |primary| primary.d.len()), record.max_pairs);
    let levels = levels(&samples, look);
    let metrics: Vec<MetricResult> = samples
        .iter()
        .zip(&levels)
        .map(|(sample, level)| sample.result(record.margin, record.seed, look, *level))
        .collect();
    let undecidable = Verdict::Inconclusive { detectable: f64::INFINITY, pairs_needed: record.max_pairs };
    let verdict = metrics.first().map_or(undecidable, |primary| metric_verdict(primary, record.margin));
    Analysis {
        verdict,
        pairs: pairs.len(),
        voids: record.slots.iter().filter(|slot| slot.void.is_some()).count(),
        notes: notes::of(record, pairs.len(), &samples),
        metrics,
    }
}

/// Log ratios ln(B/A) of the primary metric so far, in time order, for `Monitor::look`.
pub fn primary_ratios(record: &TrialRecord) -> Vec<f64> {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    record.metrics.first().map_or_else(Vec::new, |metric| Sample::of(metric, &pairs).d)
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
        lag1: lag1(&d).unwrap_or(0.0),
    })
}

/// One metric over the valid pairs.
struct Sample<'a> {
    metric: &'a Metric,
    /// Numbers of the pairs that have a log ratio.
    numbers: Vec<usize>,
    /// Their log ratios ln(B/A).
    d: Vec<f64>,
    /// Values of arm A in the pairs that have the metric in both slots, zeros too.
    a: Vec<f64>,
    /// The same for arm B.
    b: Vec<f64>,
}

impl<'a> Sample<'a> {
    fn of(metric: &'a Metric, pairs: &[Pair]) -> Self {
        let mut sample = Self { metric, numbers: Vec::new(), d: Vec::new(), a: Vec::new(), b: Vec::new() };
        for pair in pairs {
            let (a, b) = pair.arms();
            let value =
                |slot: &Slot| slot.values.get(&metric.name).copied().filter(|value| value.is_finite());
            let (Some(a), Some(b)) = (value(a), value(b)) else { continue };
            sample.a.push(a);
            sample.b.push(b);
            if let Some(d) = log_ratio(a, b) {
                sample.numbers.push(pair.number);
                sample.d.push(d);
            }
        }
        sample
    }

    fn result(&self, margin: f64, seed: u64, look: Look, level: Level) -> MetricResult {
        let interval = interval(&self.d, look, level);
        MetricResult {
            metric: self.metric.clone(),
            pairs: self.d.len(),
            // Without any value the call is `Unmeasured`, and a 0 replaces NaN, which JSON lacks.
            mean_a: mean(&self.a).unwrap_or(0.0),
            mean_b: mean(&self.b).unwrap_or(0.0),
            effect: interval.map(|interval| interval.effect()),
            p: interval.filter(|_| look == Look::End).and_then(|_| sign_flip_p(&self.d, seed)),
            call: interval.map_or(Call::Unmeasured, |interval| judge(interval, margin, self.metric.better)),
            detectable: sd(&self.d)
                .map(|spread| detectable(spread, self.d.len()).exp_m1())
                .filter(|smallest| smallest.is_finite()),
            ratios: self.numbers.iter().copied().zip(self.d.iter().copied()).collect(),
        }
    }
}

/// The level of each metric: all of it for the primary, Holm's shares for the others. Metrics without
/// a p-value take no share.
fn levels(samples: &[Sample], look: Look) -> Vec<Level> {
    let mut levels = vec![Level::PRIMARY; samples.len()];
    let judged: Vec<(usize, f64)> = samples
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(index, sample)| Some((index, p_value(&sample.d, look)?)))
        .collect();
    let p: Vec<f64> = judged.iter().map(|(_, p)| *p).collect();
    for ((index, _), divisor) in judged.iter().zip(holm::divisors(&p, Level::PRIMARY.total())) {
        levels[*index] = Level::PRIMARY.divided(divisor);
    }
    levels
}

#[cfg(test)]
mod tests;
