//! Slots before a change and after it: nothing pairs slot i with slot i, and slots in a row depend on each other.

use crate::monitor::judge;
use crate::record::{Call, Effect, Metric, MetricResult, TrialRecord};
use rxlab_stats::design::Arm;
use rxlab_stats::interval::{Interval, welch_serial};
use rxlab_stats::looks::ERROR;
use rxlab_stats::{Scale, mean};

/// The change of a metric from the slots of arm A to those of arm B.
pub(super) fn result(record: &TrialRecord, metric: &Metric) -> MetricResult {
    let of = |arm| record.values(&metric.name, arm).filter(|value| value.is_finite()).collect::<Vec<f64>>();
    let (a, b) = (of(Arm::A), of(Arm::B));
    let interval = change(&a, &b);
    let judged = interval.map(|interval| judge(interval, interval, record.margin, metric.better));
    MetricResult {
        metric: metric.clone(),
        pairs: a.len().min(b.len()),
        mean_a: typical(&a),
        mean_b: typical(&b),
        effect: judged.map(|(_, interval)| Effect::from(interval)),
        p: None,
        call: match judged {
            Some((call, _)) => call,
            None if a.is_empty() || b.is_empty() => Call::Unmeasured,
            None => Call::Inconclusive,
        },
        detectable: None,
        adjustment: None,
        ratios: Vec::new(),
    }
}

/// Logarithms if all values have one.
fn logs(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
}

/// Log ratio of the halves; with zeros from the difference of their means as a fraction of the mean of both.
fn change(a: &[f64], b: &[f64]) -> Option<Interval> {
    if let Some((a, b)) = logs(a).zip(logs(b)) {
        return welch_serial(&a, &b, ERROR);
    }
    let both = (mean(a)? + mean(b)?) / 2.0;
    if a.iter().chain(b).any(|value| *value < 0.0) || mean(a)? <= 0.0 {
        return None;
    }
    let Interval { mid, low, high } = welch_serial(a, b, ERROR)?;
    let log = |difference: f64| Scale::Difference.log_ratio(difference / both);
    Some(Interval { mid: log(mid), low: log(low), high: log(high) })
}

/// The mean by which the change is estimated: the geometric one for ratios.
fn typical(values: &[f64]) -> f64 {
    let geometric = logs(values).and_then(|logs| mean(&logs)).map(f64::exp);
    geometric.or_else(|| mean(values)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::change;

    #[test]
    fn the_order_of_slots_within_a_half_pairs_nothing() {
        let a = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0];
        let b = [110.0, 111.0, 109.0, 110.5, 109.5, 110.0];
        let turned: Vec<f64> = b.iter().rev().copied().collect();
        let (there, back) = (change(&a, &b).expect("enough"), change(&a, &turned).expect("enough"));
        assert!((there.mid - back.mid).abs() < 1e-12 && (there.low - back.low).abs() < 1e-12);
        assert!((there.mid.exp_m1() - 0.1).abs() < 0.001 && there.low > 0.08, "{there:?}");
    }

    #[test]
    fn zeros_are_judged_by_differences() {
        let gone = change(&[2.0, 1.0, 0.0, 2.0, 1.0, 3.0], &[0.0; 6]).expect("enough");
        assert!((gone.mid.exp_m1() + 1.0).abs() < 1e-12, "{gone:?}");
        assert_eq!(change(&[0.0; 6], &[1.0; 6]), None, "from nothing there is no ratio");
        assert_eq!(change(&[1.0; 5], &[1.0; 6]), None);
    }
}
