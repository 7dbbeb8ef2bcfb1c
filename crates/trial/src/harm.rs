//! What stands against keeping a change, however much its primary metric gains: one gate for the verdict, the advice and
//! `--keep`.
//!
//! Two kinds of metrics: those that the users of a server feel (throughput, latency, errors, and what commands, checks
//! and queries report) can each stand against a change. CPU time and where it is spent are its price: the advice names
//! it, and only a primary metric decides by it.

use super::analysis::valid_pairs;
use super::metrics::name;
use super::probed::Probed;
use super::record::{Better, Call, Effect, Metric, MetricResult, TrialRecord};
use rxlab_base::number::{self, plural};
use rxlab_stats::design::Phase;

/// A reason not to keep a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Harm<'a> {
    /// Proven worse, and by more than the margin.
    Worse(&'a MetricResult),
    /// Never above 0 without the change, and above 0 in `slots` of `of` slots with it.
    FromZero { metric: &'a Metric, slots: usize, of: usize },
    /// No value in `slots` of `of` slots of one arm, and one in each slot of the other: what has no value may be the harm.
    Missing { metric: &'a Metric, slots: usize, of: usize, with_change: bool },
    /// Throughput is not proven lower, and its interval includes a loss beyond the margin.
    MayFall(&'a MetricResult),
}

impl Harm<'_> {
    pub fn metric(&self) -> &Metric {
        match self {
            Harm::Worse(result) | Harm::MayFall(result) => &result.metric,
            Harm::FromZero { metric, .. } | Harm::Missing { metric, .. } => metric,
        }
    }

    /// The harm with its figures: `latency p99 +205 % [+189, +221]`.
    pub fn in_words(&self) -> String {
        let change = |result: &MetricResult| match &result.effect {
            Some(effect) => format!("{} {}", result.metric.title, effect.in_words()),
            None => format!("{} 0 -> {}", result.metric.title, number::value(result.mean_b)),
        };
        match self {
            Harm::Worse(result) => change(result),
            Harm::FromZero { metric, slots, of } => {
                let of = plural(*of, "slot");
                format!("{} in {slots} of {of} with the change and in none without it", metric.title)
            }
            Harm::Missing { metric, slots, of, with_change } => {
                let (arm, other) = if *with_change { ("with", "without") } else { ("without", "with") };
                let of = plural(*of, "slot");
                format!(
                    "no value of {} in {slots} of {of} {arm} the change, but one in each {other} it",
                    metric.title
                )
            }
            Harm::MayFall(result) => format!("{}, so a loss is not excluded", change(result)),
        }
    }
}

/// All that stands against keeping the change of a concluded record, what is proven first.
pub fn harms(record: &TrialRecord) -> Vec<Harm<'_>> {
    let Some(analysis) = &record.analysis else { return Vec::new() };
    let results = &analysis.metrics[..];
    let mut harms: Vec<Harm> = worse(results, record.margin).into_iter().map(Harm::Worse).collect();
    for (at, result) in results.iter().enumerate() {
        let metric = &result.metric;
        if result.call == Call::Hurts || !(at == 0 || is_felt(metric)) {
            continue;
        }
        harms.extend(from_zero(record, metric).or_else(|| missing(record, metric)));
        let is_open = result.call == Call::Inconclusive;
        if metric.name == name::THROUGHPUT && is_open && may_hurt(result, record.margin) {
            harms.push(Harm::MayFall(result));
        }
    }
    harms
}

/// The metrics that are felt and proven worse: throughput first, and any loss of it; others beyond `margin`.
pub fn worse(results: &[MetricResult], margin: f64) -> Vec<&MetricResult> {
    let mut worse: Vec<&MetricResult> = results
        .iter()
        .filter(|result| is_worse(&result.metric, result.call, result.effect, margin))
        .collect();
    worse.sort_by_key(|result| result.metric.name != name::THROUGHPUT);
    worse
}

/// True for a metric that is felt and proven worse: throughput by any loss, others beyond `margin`.
pub(super) fn is_worse(metric: &Metric, call: Call, effect: Option<Effect>, margin: f64) -> bool {
    let is_beyond = || effect.is_none_or(|effect| effect.mid.abs() >= margin);
    call == Call::Hurts && is_felt(metric) && (metric.name == name::THROUGHPUT || is_beyond())
}

/// True if the interval of a measured metric includes harm beyond the margin.
pub(super) fn may_hurt(result: &MetricResult, margin: f64) -> bool {
    result.effect.is_some_and(|effect| includes_harm(effect, result.metric.better, margin))
}

/// True if an interval includes harm beyond the margin.
pub(super) fn includes_harm(effect: Effect, better: Better, margin: f64) -> bool {
    match better {
        Better::Higher => effect.low.ln_1p() <= -margin.ln_1p(),
        Better::Lower => effect.high >= margin,
    }
}

/// True for what the users of a server feel; false for the price of a change, in CPU time.
pub(super) fn is_felt(metric: &Metric) -> bool {
    let prices = [
        name::HOTTEST_SOFTIRQ,
        name::HOTTEST_SHARE,
        name::SOFTIRQ_PER_PACKET,
        name::MACHINE_CPU,
        name::CLIENT_CPU,
    ];
    !prices.contains(&metric.name.as_str())
        && !metric.name.ends_with("cpu")
        && Probed::parse(&metric.name).is_none()
}

/// A metric that is better when it is lower, 0 in each slot without the change and above 0 in some with it. A relative
/// change does not exist then.
fn from_zero<'a>(record: &TrialRecord, metric: &'a Metric) -> Option<Harm<'a>> {
    if metric.better != Better::Lower {
        return None;
    }
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    let values: Vec<(f64, f64)> = pairs
        .iter()
        .map(|pair| pair.arms())
        .filter_map(|(a, b)| Some((*a.values.get(&metric.name)?, *b.values.get(&metric.name)?)))
        .collect();
    let slots = values.iter().filter(|(_, b)| *b > 0.0).count();
    let is_zero = values.iter().all(|(a, _)| *a == 0.0);
    (is_zero && slots > 0).then_some(Harm::FromZero { metric, slots, of: values.len() })
}

/// A metric that lacks a value in slots of one arm only.
fn missing<'a>(record: &TrialRecord, metric: &'a Metric) -> Option<Harm<'a>> {
    let pairs = valid_pairs(&record.slots, Phase::Comparison);
    let lacks = |is_b: bool| {
        let slots = pairs.iter().map(|pair| if is_b { pair.arms().1 } else { pair.arms().0 });
        slots.filter(|slot| !slot.values.contains_key(&metric.name)).count()
    };
    let (a, b) = (lacks(false), lacks(true));
    let is_one_sided = (a == 0) != (b == 0);
    is_one_sided.then_some(Harm::Missing { metric, slots: a + b, of: pairs.len(), with_change: b > 0 })
}

#[cfg(test)]
mod tests;
