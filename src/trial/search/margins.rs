//! How far from its limits a run at a rate was: numbers above 0 when a limit was kept.

use std::time::Duration;

use super::slo::{Limit, Limited, Slo};
use crate::load::Interval;
use crate::trial::stats::log_ratio;

/// Part of the requests due that has to be answered well. With less a queue grows for as long as the
/// rate holds on, whatever the latency within a short run is.
const ANSWERED: f64 = 0.99;
/// The log ratio of a latency that has no end: a thousand times the limit.
const ENDLESS: f64 = -6.9;
/// Longest run at one rate, however few requests it brings.
const LONGEST: Duration = Duration::from_secs(10);

/// How many margins there are: that of the requests answered, and one for each limit.
pub fn criteria(slo: &Slo) -> usize {
    slo.limits().len() + 1
}

/// How long to run at `rate`: `least`, or until there is enough to judge.
pub fn length(slo: &Slo, rate: f64, least: Duration) -> Duration {
    let enough = slo.limits().iter().map(Limit::enough).fold(0.0, f64::max);
    let seconds = (enough / rate.max(f64::MIN_POSITIVE)).min(LONGEST.as_secs_f64());
    least.max(Duration::from_secs_f64(seconds))
}

/// The margins of a run in the open loop: the part answered less what has to be, then each limit's:
/// the log ratio of limit and latency, or limit less the part that failed.
pub fn margins(slo: &Slo, interval: &Interval) -> Vec<f64> {
    let due = due(interval);
    let answered = if due > 0.0 { interval.requests as f64 / due } else { 0.0 };
    let limits = slo.limits().iter().map(|limit| match limit.on {
        Limited::Errors => limit.below - interval.error_share(),
        Limited::Latency(q) => latency(interval, q, limit.below)
            .and_then(|latency| log_ratio(latency, limit.below))
            .map_or(ENDLESS, |ratio| ratio.max(ENDLESS)),
    });
    std::iter::once(answered - ANSWERED).chain(limits).collect()
}

/// The margins of a rate at which the target did not even take the connections.
pub fn refused(slo: &Slo) -> Vec<f64> {
    let limits = slo.limits().iter().map(|limit| match limit.on {
        Limited::Errors => limit.below - 1.0,
        Limited::Latency(_) => ENDLESS,
    });
    std::iter::once(-ANSWERED).chain(limits).collect()
}

fn due(interval: &Interval) -> f64 {
    interval.offered.map_or(interval.sent as f64, |offered| offered * interval.seconds)
}

/// The quantile of the latency in nanoseconds, of all requests that were due: one without a good answer
/// took longer than any. `None` when there are too many of those. What came due so late that it may
/// still be in time is not counted against the rate.
pub fn latency(interval: &Interval, q: f64, limit: f64) -> Option<f64> {
    let due = due(interval);
    let may_come =
        (due / interval.seconds.max(f64::MIN_POSITIVE) * limit / 1e9).min(interval.in_flight as f64);
    let all = (due - may_come).max(interval.requests as f64);
    // Half a request is the rounding of the schedule's edges.
    let rank = (q * all - 0.5).max(0.0) / interval.requests.max(1) as f64;
    (interval.requests > 0 && rank <= 1.0).then(|| interval.latency.value_at_quantile(rank) as f64)
}
