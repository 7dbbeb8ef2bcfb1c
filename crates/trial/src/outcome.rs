//! The outcome of a trial in figures: what it gains, and its price.

use super::metrics::name;
use super::record::{Call, MetricResult, TrialRecord};
use rxlab_base::number;

/// Smallest change that is told in whole percent.
const WHOLE: f64 = 0.01;

/// The change of the deciding metric: `53 % more packets get through [33 to 76]`.
pub fn gain(record: &TrialRecord) -> Option<String> {
    let primary = record.analysis.as_ref()?.metrics.first()?;
    let effect = primary.effect.as_ref()?;
    let is_whole = effect.low >= WHOLE && effect.mid.is_finite();
    if primary.metric.name != name::THROUGHPUT || !is_whole {
        return Some(format!("{} {}", number::capitalized(&primary.metric.title), effect.in_words()));
    }
    let what = if primary.metric.unit == "pkt/s" { "packets get through" } else { "requests get through" };
    let percent = |part: f64| format!("{:.0}", part * 100.0);
    let to = if effect.high.is_finite() {
        format!("{} to {}", percent(effect.low), percent(effect.high))
    } else {
        format!("{} or more", percent(effect.low))
    };
    Some(format!("{} % more {what} [{to}]", percent(effect.mid)))
}

/// What the change was shown to cost: metrics that are worse.
pub fn price(record: &TrialRecord) -> String {
    let metrics = record.analysis.as_ref().map_or(&[][..], |analysis| &analysis.metrics);
    let is_more =
        metrics.iter().any(|result| result.metric.name == name::THROUGHPUT && result.call == Call::Helps);
    let cost = |result: &MetricResult| match (&result.effect, result.call) {
        (Some(_), Call::Hurts) if result.metric.name == name::HOTTEST_SOFTIRQ => {
            let (a, b) = (result.mean_a, result.mean_b);
            let why = if is_more { " (it does more work)" } else { "" };
            Some(format!("hottest CPU {a:.0} -> {b:.0} % in softirq{why}"))
        }
        (Some(effect), Call::Hurts) => Some(format!("{} {}", result.metric.title, effect.estimate())),
        _ => None,
    };
    let costs: Vec<String> = metrics.iter().filter_map(cost).collect();
    if costs.is_empty() { "none was shown".to_owned() } else { costs.join(", ") }
}

/// Means of a metric in A and in B by the estimator of its change: where that is adjusted, B is what A becomes by it.
pub fn means(result: &MetricResult) -> (f64, f64) {
    let adjusted = result.effect.as_ref().filter(|_| result.adjustment.is_some());
    (result.mean_a, adjusted.map_or(result.mean_b, |effect| result.mean_a * (1.0 + effect.mid)))
}

#[cfg(test)]
mod tests {
    use super::{gain, means, price};
    use crate::metrics::{describe, name};
    use crate::record::{Adjustment, Call, Effect};
    use crate::sample_record;

    #[test]
    fn the_gain_is_that_of_the_deciding_metric_and_the_price_what_is_worse() {
        let mut record = sample_record::rps();
        let analysis = record.analysis.as_mut().expect("analysed");
        analysis.metrics.truncate(2);
        analysis.metrics[0].metric = describe(name::THROUGHPUT, "pkt/s");
        analysis.metrics[0].effect = Some(Effect { mid: 0.53, low: 0.33, high: 0.76 });
        analysis.metrics[1].metric = describe(name::MACHINE_CPU, "pkt/s");
        analysis.metrics[1].effect = Some(Effect { mid: 0.06, low: 0.04, high: 0.08 });
        analysis.metrics[1].call = Call::Hurts;
        assert_eq!(gain(&record).as_deref(), Some("53 % more packets get through [33 to 76]"));
        let title = describe(name::MACHINE_CPU, "pkt/s").title;
        assert_eq!(price(&record), format!("{title} +6.0 %"));
        let metrics = &mut record.analysis.as_mut().expect("analysed").metrics;
        metrics[1].call = Call::Inconclusive;
        let open = Effect { mid: 0.01, low: -0.04, high: 0.06 };
        metrics[0].effect = Some(open);
        let words = format!("Throughput {}", open.in_words());
        assert_eq!(gain(&record), Some(words), "not more than was shown");
        assert_eq!(price(&record), "none was shown");
    }

    /// `431 -> 244  +71 %` was once printed.
    #[test]
    fn the_means_of_an_adjusted_change_agree_with_it() {
        let record = sample_record::rps();
        let mut result = record.analysis.expect("analysed").metrics.remove(1);
        let (a, b) = means(&result);
        assert_eq!((a, b), (result.mean_a, result.mean_b));
        let effect = Effect { mid: 0.71, low: 0.6, high: 0.8 };
        (result.mean_a, result.mean_b, result.effect) = (431.0, 244.0, Some(effect));
        result.adjustment = Some(Adjustment {
            covariates: vec!["arrivals".to_owned()],
            explained: 0.9,
            unadjusted: Effect { mid: -0.43, low: -0.6, high: -0.2 },
        });
        let (a, b) = means(&result);
        assert!(a == 431.0 && (b / a - 1.71).abs() < 1e-9, "{a} {b}");
    }

    #[test]
    fn a_hotter_cpu_that_does_more_is_said_to() {
        let mut record = sample_record::rps();
        let metrics = &mut record.analysis.as_mut().expect("analysed").metrics;
        metrics.truncate(2);
        metrics[0].metric = describe(name::HOTTEST_SOFTIRQ, "pkt/s");
        (metrics[0].mean_a, metrics[0].mean_b, metrics[0].call) = (59.0, 84.0, Call::Hurts);
        (metrics[1].metric, metrics[1].call) = (describe(name::THROUGHPUT, "pkt/s"), Call::Helps);
        assert_eq!(price(&record), "hottest CPU 59 -> 84 % in softirq (it does more work)");
        record.analysis.as_mut().expect("analysed").metrics[1].call = Call::NoEffect;
        assert_eq!(price(&record), "hottest CPU 59 -> 84 % in softirq");
    }
}
