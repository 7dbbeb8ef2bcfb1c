//! Whether the generator was the limit: then the result says nothing about the target.

use serde::{Deserialize, Serialize};

use super::interval::Interval;

/// Part of the offered requests that may stay unsent.
const SHORTFALL: f64 = 0.02;
/// CPU share of a thread from which on it is taken for full.
const FULL_THREAD: f64 = 0.90;
/// Part of the offered requests up to which a schedule counts as kept.
const KEPT: f64 = 0.001;
/// Send lag as a part of the latency, both at the 99th percentile.
const LAG_SHARE: f64 = 0.10;

/// The verdict on the generator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Saturation {
    /// The generator, not the target, was (also) the limit.
    pub limited: bool,
    /// The signs for it, in words.
    pub reason: Option<String>,
}

impl Saturation {
    /// Judges an interval.
    pub fn of(interval: &Interval) -> Self {
        let reasons: Vec<String> =
            [shortfall(interval), full_thread(interval), lag(interval)].into_iter().flatten().collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        Self { limited: reason.is_some(), reason }
    }
}

fn shortfall(interval: &Interval) -> Option<String> {
    let missing = missing(interval).filter(|missing| *missing > SHORTFALL)?;
    Some(format!("{:.1} % of the offered requests were not sent in time", 100.0 * missing))
}

/// Part of the offered requests that was not sent; `None` outside the open loop.
fn missing(interval: &Interval) -> Option<f64> {
    let due = interval.offered? * interval.seconds;
    let missing = due - interval.sent as f64;
    // What became due in the very moment of the cut is not missing.
    let slack = interval.client_cpu.len() as f64;
    Some(if missing > slack { missing / due } else { 0.0 })
}

/// In the closed loop a full thread is the limit. A schedule that was kept says that it was not:
/// then the thread's time is that of polling for the next send, or of receive work that the kernel
/// did in its context and billed to it.
fn full_thread(interval: &Interval) -> Option<String> {
    if missing(interval).is_some_and(|missing| missing <= KEPT) {
        return None;
    }
    let work = |share: f64, spinning: f64| share - spinning;
    let busiest = interval
        .client_cpu
        .iter()
        .max_by(|a, b| work(a.share, a.spinning).total_cmp(&work(b.share, b.spinning)))?;
    let share = work(busiest.share, busiest.spinning);
    (share > FULL_THREAD)
        .then(|| format!("load thread {} used {:.0} % of its CPU", busiest.thread, 100.0 * share))
}

fn lag(interval: &Interval) -> Option<String> {
    let (lag, latency) = (interval.send_lag_p99()?, interval.latency_quantile(0.99)?);
    (lag > interval.pacing.own_lag() && lag as f64 > latency as f64 * LAG_SHARE).then(|| {
        format!(
            "sends were late by {:.0} us at p99, {:.0} % of the latency",
            lag as f64 / 1000.0,
            100.0 * lag as f64 / latency.max(1) as f64
        )
    })
}

#[cfg(test)]
mod tests {
    use super::Saturation;
    use crate::load::Pacing;
    use crate::load::interval::{Cut, Interval, Tally};

    fn interval(latency: u64, lag: u64, cpu_percent: u64, spun_percent: u64, due: Option<u64>) -> Interval {
        let mut tally = Tally::new();
        for _ in 0..10_000 {
            tally.complete(latency);
            tally.lag.saturating_record(lag);
        }
        tally.sent = tally.completed;
        tally.spun = spun_percent * 10_000_000;
        let span = 1_000_000_000;
        Interval::from_cuts(&[Cut { tally, span, cpu: cpu_percent * 10_000_000, due, in_flight: 0 }], &[None])
    }

    #[test]
    fn coarse_pacing_is_late_by_design() {
        let mut interval = interval(1_900_000, 1_100_000, 10, 0, Some(10_000));
        assert!(Saturation::of(&interval).limited);
        interval.pacing = Pacing::Coarse;
        assert!(!Saturation::of(&interval).limited);
    }

    #[test]
    fn each_sign_is_seen_and_named() {
        let reason = |interval: Interval| Saturation::of(&interval).reason.unwrap_or_default();
        assert_eq!(reason(interval(100_000, 9_000, 89, 0, Some(10_100))), "");
        assert_eq!(
            reason(interval(100_000, 0, 0, 0, Some(12_500))),
            "20.0 % of the offered requests were not sent in time"
        );
        assert_eq!(reason(interval(100_000, 0, 95, 0, None)), "load thread 0 used 95 % of its CPU");
        assert_eq!(reason(interval(100_000, 0, 95, 0, Some(10_100))), "load thread 0 used 95 % of its CPU");
        assert_eq!(reason(interval(100_000, 0, 95, 0, Some(10_005))), "", "the schedule was kept");
        assert_eq!(reason(interval(100_000, 0, 95, 90, None)), "", "spinning is no work");
        assert_eq!(reason(interval(100_000, 30_000, 0, 0, None)), "", "a wake-up takes that long");
        assert_eq!(
            reason(interval(1_000_000, 200_000, 0, 0, None)),
            "sends were late by 200 us at p99, 20 % of the latency"
        );
    }
}
