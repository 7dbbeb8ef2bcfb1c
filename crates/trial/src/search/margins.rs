//! Margins of a run to its limits: above 0 if a limit was kept.

use std::time::Duration;

use super::slo::{Limit, Limited, Slo};
use rxlab_load::Interval;
use rxlab_stats::log_ratio;

/// Fraction of the requests due that must be answered successfully. Below it a queue grows while the
/// rate continues, whatever the latency within a short run.
const ANSWERED: f64 = 0.99;
/// The log ratio of an unbounded latency: a thousand times the limit.
const ENDLESS: f64 = -6.9;
/// Minimum part of a run before the measured part.
const SETTLING: f64 = 0.25;
/// Longest run at one rate, even with few requests.
const LONGEST: Duration = Duration::from_secs(10);

/// Length of a run at `rate`: `least`, or until there is enough to judge.
pub fn length(slo: &Slo, rate: f64, least: Duration) -> Duration {
    let enough = slo.limits().iter().map(Limit::enough).fold(0.0, f64::max);
    let seconds = (enough / rate.max(f64::MIN_POSITIVE)).min(LONGEST.as_secs_f64());
    least.max(Duration::from_secs_f64(seconds))
}

/// Time at a rate before a run of this `length` is measured: until answers arrive as fast as requests
/// are due, though each takes as long as a limit allows, or as `usual` without a limit (up to the `timeout`).
pub fn settling(slo: &Slo, length: Duration, usual: Duration, timeout: Duration) -> Duration {
    let limits = slo.limits().iter().filter(|limit| limit.on != Limited::Errors);
    let allowed = limits.map(|limit| Duration::from_nanos(limit.below as u64)).max().unwrap_or_default();
    length.mul_f64(SETTLING).max(allowed.max(usual).min(timeout))
}

/// Successful requests: one way, those that arrived.
pub fn good(interval: &Interval) -> f64 {
    interval.received.unwrap_or(interval.requests) as f64
}

/// Failed fraction: one way, this includes losses.
pub fn failed(interval: &Interval) -> f64 {
    let Some(received) = interval.received else { return interval.error_share() };
    let ended = (interval.requests + interval.error_count()) as f64;
    if ended > 0.0 { (1.0 - received as f64 / ended).max(0.0) } else { 0.0 }
}

/// The margins of an open-loop run: the answered fraction minus the required one, then each limit's:
/// the log ratio of limit and latency, or the limit minus the failed fraction.
pub fn margins(slo: &Slo, interval: &Interval) -> Vec<f64> {
    let due = due(interval);
    let answered = if due > 0.0 { good(interval) / due } else { 0.0 };
    let limits = slo.limits().iter().map(|limit| match limit.on {
        Limited::Errors => limit.below - failed(interval),
        Limited::Latency(q) => latency(interval, q, limit.below)
            .and_then(|latency| log_ratio(latency, limit.below))
            .map_or(ENDLESS, |ratio| ratio.max(ENDLESS)),
    });
    std::iter::once(answered - ANSWERED).chain(limits).collect()
}

/// What `slo` says of a load that ran once: each limit, as it is judged at the rates of a search.
pub fn judge(slo: &Slo, interval: &Interval) -> Vec<rxlab_load::Limit> {
    let judged = slo.limits().iter().map(|limit| {
        let value = match limit.on {
            Limited::Errors => Some(failed(interval)),
            Limited::Latency(q) => latency(interval, q, limit.below),
        };
        let is_below = value.is_some_and(|value| value < limit.below);
        // Few requests can show that a limit was missed, not that it is kept. The longest of them is a fact.
        let is_enough = limit.on == Limited::Latency(1.0) || due(interval) + 0.5 >= limit.enough();
        let kept = if is_below && !is_enough { None } else { Some(is_below) };
        let value = value.map(|value| if limit.on == Limited::Errors { value } else { value / 1000.0 });
        rxlab_load::Limit { limit: limit.to_string(), value, kept }
    });
    judged.collect()
}

/// The margins of a rate at which the target did not even accept connections.
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

/// The quantile of the latency in nanoseconds, of all requests that were due: one without a successful answer
/// took longer than any. `None` if there are too many of those. Requests due so late that they may
/// still be in time are not counted against the rate.
pub fn latency(interval: &Interval, q: f64, limit: f64) -> Option<f64> {
    let due = due(interval);
    let may_come =
        (due / interval.seconds.max(f64::MIN_POSITIVE) * limit / 1e9).min(interval.in_flight as f64);
    let all = (due - may_come).max(interval.requests as f64);
    // Half a request is the rounding of the schedule's edges.
    let rank = (q * all - 0.5).max(0.0) / interval.requests.max(1) as f64;
    (interval.requests > 0 && rank <= 1.0).then(|| interval.latency.value_at_quantile(rank) as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Slo, settling};

    fn slo(text: &str) -> Slo {
        text.parse().expect("limits")
    }

    /// A target that takes longer than a quarter of the run to answer once failed at every rate.
    #[test]
    fn a_run_settles_for_as_long_as_an_answer_may_take() {
        let second = Duration::from_secs(1);
        let ms = Duration::from_millis;
        let settled = |text: &str, usual| settling(&slo(text), second, usual, 2 * second);
        assert_eq!(settled("p99<5ms", ms(1)), ms(250));
        assert_eq!(settled("p50<5ms,p99<800ms,errors<1%", ms(1)), ms(800));
        assert_eq!(settled("errors<1%", ms(700)), ms(700));
        assert_eq!(settled("p50<5ms", ms(700)), ms(700), "the others count as well");
        assert_eq!(settled("p99<1m", ms(1)), 2 * second, "a later answer does not count");
    }
}
