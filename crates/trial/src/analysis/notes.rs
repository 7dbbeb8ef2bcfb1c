//! Remarks for a careful reader: violated assumptions and omissions.

use std::collections::BTreeMap;

use super::Sample;
use crate::metrics;
use crate::record::{Calibration, Call, Slot, TrialRecord};
use crate::spec::Kind;
use rxlab_stats::design::{Arm, Phase};
use rxlab_stats::interval::t_quantile;
use rxlab_stats::{Scale, lag1, mean, sd};

/// Effects of neighbouring pairs that correlate more than this are worth a remark.
const LAG1_LIMIT: f64 = 0.3;
/// Range of rejection rates of a sound 5 % test.
pub const SOUND_REJECTIONS: std::ops::RangeInclusive<f64> = 0.03..=0.07;
/// An autocorrelation of independent pairs exceeds this many standard errors 1 / sqrt n in one
/// trial of a hundred.
const LAG1_ERRORS: f64 = 2.6;

/// Fewest pairs on each side of a comparison by the arm that ran before them.
const ENOUGH_EACH: usize = 2;

/// With fewer pairs, a calibration's shape figures are chance.
const ENOUGH_PAIRS: usize = 10;

/// All remarks on a record and its samples, primary first.
pub(super) fn all(
    record: &TrialRecord,
    pairs: usize,
    samples: &[Sample],
    carried: Option<&CarryOver>,
) -> Vec<String> {
    let mut notes: Vec<String> = record.calibration.as_ref().and_then(calibration_note).into_iter().collect();
    let primary = samples.first().filter(|_| record.design == Kind::Pairs);
    notes.extend(primary.and_then(drifting_effect));
    let scale = primary.map_or(Scale::LogRatio, |primary| primary.ratios().scale);
    notes.extend(carried.filter(|carried| carried.is_shown()).map(|carried| carried.note(scale)));
    notes.extend(samples.iter().flat_map(|sample| gaps(sample, pairs, record.margin)));
    notes.extend(samples.iter().filter_map(|sample| bounds(sample, record)));
    notes.extend(samples.first().and_then(moved));
    notes.extend(voids(record));
    notes
}

fn calibration_note(calibration: &Calibration) -> Option<String> {
    let is_chance = calibration.pairs < ENOUGH_PAIRS;
    if is_chance || SOUND_REJECTIONS.contains(&calibration.rejection_rate) {
        return None;
    }
    Some(format!(
        "Calibration: a 5 % test rejects {:.1} % of relabelled A/A runs (3 to 7 % is sound); outliers or ties distort the intervals.",
        100.0 * calibration.rejection_rate
    ))
}

/// The coins make the machine's own rhythm independent from pair to pair; any remaining correlation
/// is the effect itself.
fn drifting_effect(primary: &Sample) -> Option<String> {
    let limit = LAG1_LIMIT.max(LAG1_ERRORS / (primary.d.len() as f64).sqrt());
    let lag1 = lag1(&primary.d).filter(|lag1| lag1.abs() > limit)?;
    Some(format!(
        "The effect changes over the trial (lag-1 autocorrelation of the pairs {lag1:.2}, limit {limit:.2}): \
         its interval describes the average."
    ))
}

/// What the coins say about an effect that lasts into the next slot.
pub(super) struct CarryOver {
    /// Mean change of pairs that begin with the arm that ran before them.
    same: f64,
    /// The same of the others.
    other: f64,
    /// Mean change of all.
    mean: f64,
    /// Standard error of the difference of `same` and `other`.
    error: f64,
    /// Degrees of freedom of the error.
    freedom: f64,
}

impl CarryOver {
    fn difference(&self) -> f64 {
        self.same - self.other
    }

    /// True if the two kinds of pairs differ: a t-test at 1 %.
    pub(super) fn is_shown(&self) -> bool {
        // Means of equal values differ by their rounding.
        self.difference().abs() > (t_quantile(0.995, self.freedom) * self.error).max(1e-9)
    }

    /// True if the mean may have the other sign than the effect, of which half or more comes in the next slot.
    fn is_turned(&self) -> bool {
        self.difference() * self.mean < 0.0 || self.same * self.other <= 0.0
    }

    /// True if `call` does not follow from the pairs: they lack a part of the effect, or show it with the other sign.
    pub(super) fn refutes(&self, call: Call) -> bool {
        self.is_shown() && (self.is_turned() || matches!(call, Call::NoEffect | Call::Negligible))
    }

    /// True if more pairs are needed to tell whether the effect has the sign of the mean: against it by a t-test at 15 %.
    pub(super) fn is_suspect(&self) -> bool {
        let against = -self.difference() * self.mean.signum();
        !self.is_shown() && against > t_quantile(0.85, self.freedom) * self.error
    }

    fn note(&self, scale: Scale) -> String {
        let percent = |mean: f64| 100.0 * scale.log_ratio(mean).exp_m1();
        let follows = if self.is_turned() {
            "Its sign is uncertain, so nothing is concluded"
        } else {
            "It is larger than shown"
        };
        format!(
            "The effect lasts into the next slot: {:+.1} % in pairs that begin with the arm that ran before, {:+.1} % in \
             the others. {follows}; make the washout longer.",
            percent(self.same),
            percent(self.other)
        )
    }
}

/// An effect that lasts into the next slot makes the other arm's slots look like it. The second slot of a pair always
/// follows the other arm. The coins decide whether the first one does too: if a part c of the effect lasts, such pairs show
/// 1 - 2 c of it, and those that begin with the arm that ran last 1 - c. `None` with too few of either kind.
pub(super) fn carry_over(primary: &Sample, slots: &[Slot]) -> Option<CarryOver> {
    let (mut same, mut other) = (Vec::new(), Vec::new());
    for (number, d) in primary.numbers.iter().zip(&primary.d) {
        let is_first = |slot: &Slot| {
            (slot.phase, slot.pair, slot.position) == (Phase::Comparison, *number, 0) && slot.void.is_none()
        };
        let at = slots.iter().rposition(is_first)?;
        let before = at.checked_sub(1).map_or(Arm::A, |before| slots[before].arm);
        if before == slots[at].arm { same.push(*d) } else { other.push(*d) }
    }
    let (n, m) = (same.len(), other.len());
    if n.min(m) < ENOUGH_EACH {
        return None;
    }
    let squares = (n - 1) as f64 * sd(&same)?.powi(2) + (m - 1) as f64 * sd(&other)?.powi(2);
    let freedom = (n + m - 2) as f64;
    // Rounding is noise too, which equal values do not show.
    let variance = squares / freedom + primary.ratios().step.powi(2) / 6.0;
    let error = (variance * (1.0 / n as f64 + 1.0 / m as f64)).sqrt();
    let [same, other] = [mean(&same)?, mean(&other)?];
    Some(CarryOver { same, other, mean: mean(&primary.d)?, error, freedom })
}

fn gaps(sample: &Sample, pairs: usize, margin: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let (title, had, step) = (&sample.metric.title, sample.a.len(), sample.ratios().step);
    match sample.lacks {
        [0, 0] => {}
        [0, b] => notes.push(lacking(title, b, pairs, "with", "without")),
        [a, 0] => notes.push(lacking(title, a, pairs, "without", "with")),
        _ => notes.push(format!("{title}: measured in {had} of {pairs} valid pairs.")),
    }
    match sample.scale {
        Some(Scale::LogRatio) => {}
        Some(Scale::Difference) => notes.push(format!(
            "{title}: some values are 0 and have no ratio, so the differences of the pairs were judged."
        )),
        None if sample.rises_from_zero().is_some() => {
            let slots = sample.rises_from_zero().unwrap_or_default();
            notes.push(format!("{title}: 0 in every slot of arm A, above 0 in {slots} of {had} of arm B."));
        }
        None => {
            notes.push(format!("{title}: not judged, since it is never above 0 in arm A, or falls below 0."))
        }
    }
    if step > margin && sample.scale.is_some() {
        notes.push(format!(
            "{title}: measured in steps of {:.0} %, more than the margin, so the absence of an effect cannot be shown.",
            100.0 * step
        ));
    }
    notes
}

/// `lacks` of `of` slots of one arm have no value, and each of the other has one.
fn lacking(title: &str, lacks: usize, of: usize, arm: &str, other: &str) -> String {
    format!(
        "{title}: no value in {lacks} of {of} slots {arm} the change, but one in each {other} it; the slots that \
         have one do not represent the others, so nothing is concluded from them."
    )
}

/// Unanswered requests at the end of a slot count with their age.
fn bounds(sample: &Sample, record: &TrialRecord) -> Option<String> {
    let (b, a): (Vec<&Slot>, Vec<&Slot>) = record.compared().partition(|slot| slot.arm == Arm::B);
    let bounded =
        |slots: &[&Slot]| slots.iter().filter(|slot| slot.at_least.contains(&sample.metric.name)).count();
    (bounded(&a) + bounded(&b) > 0).then(|| {
        format!(
            "{}: a lower bound in {} of {} slots of arm A and {} of {} of arm B, \
             where requests were unanswered at the end.",
            sample.metric.title,
            bounded(&a),
            a.len(),
            bounded(&b),
            b.len()
        )
    })
}

/// A covariate that the change itself moves is part of its effect.
fn moved(primary: &Sample) -> Option<String> {
    let names: Vec<&str> = primary.moved.iter().map(|name| metrics::covariate(name)).collect();
    (!names.is_empty()).then(|| {
        format!("The change itself moves {}: the effect is not adjusted for that.", names.join(" and "))
    })
}

fn voids(record: &TrialRecord) -> Vec<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in record.slots.iter().filter_map(|slot| slot.void.as_deref()) {
        *reasons.entry(reason).or_default() += 1;
    }
    let line = |(reason, count): (&str, usize)| match count {
        1 => format!("1 slot is void: {reason}."),
        _ => format!("{count} slots are void: {reason}."),
    };
    reasons.into_iter().map(line).collect()
}
