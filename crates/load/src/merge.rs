//! Merges the results of loads that ran side by side, e.g. on several machines.

use thiserror::Error;

use super::clock::{Nanos, SECOND};
use super::histogram::{add, decode};
use super::interval::Interval;
use super::rate::Rate;
use super::report::Report;
use super::series;
use super::spec::Spec;

/// Results that cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MergeError {
    /// The result is of another schema version.
    #[error("schema is `{0}`, not `{expected}`", expected = Report::SCHEMA)]
    Schema(String),
    /// A histogram is unreadable.
    #[error("unreadable histogram `{0}`")]
    Histogram(&'static str),
    /// A count is larger than any load can make, so that sums would not be counts.
    #[error("`{0}` is larger than 2^53")]
    Impossible(String),
    /// The result has another target.
    #[error("its target is {found}, not {expected}")]
    Url {
        /// Target of the first result.
        expected: String,
        /// Target of this one.
        found: String,
    },
    /// The result is of other requests: the sum would describe a load that never ran.
    #[error("its {0} differs from the first result's")]
    Differs(&'static str),
    /// Two results have the same random arrivals: their requests came at the same moments.
    #[error("same random arrivals as another result (seed {0}): run each generator with its own --seed")]
    SameArrivals(u32),
    /// A result is, or has in it, one that came before.
    #[error("the same run as in another result: each run counts once")]
    Twice,
    /// There must be at least one result.
    #[error("no results given")]
    Nothing,
}

/// Merges `reports` that ran at the same time: counts and histograms add up exactly, the longest time
/// counts, and threads are renumbered. An error comes with the index of the report that it is about.
pub fn merge(reports: &[Report]) -> Result<Report, (usize, MergeError)> {
    let (spec, interval) = sum(reports)?;
    let mut merged: Vec<String> = Vec::new();
    for (index, report) in reports.iter().enumerate() {
        for run in report.runs() {
            if merged.contains(&run) {
                return Err((index, MergeError::Twice));
            }
            merged.push(run);
        }
    }
    let begun = reports.iter().filter_map(|report| report.begun.clone()).min();
    let interrupted = reports.iter().any(|report| report.interrupted);
    let mut series = Vec::new();
    reports.iter().for_each(|report| series::add(&mut series, &report.series));
    Ok(Report { series, begun, interrupted, merged, ..Report::new(&spec, &interval) })
}

/// The load and the interval that the reports describe together.
pub(super) fn sum(reports: &[Report]) -> Result<(Spec, Interval), (usize, MergeError)> {
    let mut sum: Option<(Spec, Interval)> = None;
    for (index, report) in reports.iter().enumerate() {
        let interval = interval(report).map_err(|error| (index, error))?;
        let seed = |report: &Report| report.spec.poisson.then_some(report.spec.seed);
        if let Some(seed) = seed(report).filter(|own| reports[..index].iter().any(|r| seed(r) == Some(*own)))
        {
            return Err((index, MergeError::SameArrivals(seed)));
        }
        sum = Some(match sum {
            None => (report.spec.clone(), interval),
            Some((spec, _)) if spec.url != report.spec.url => {
                let (expected, found) = (spec.url.to_string(), report.spec.url.to_string());
                return Err((index, MergeError::Url { expected, found }));
            }
            Some((spec, sum)) => {
                if let Some(what) = difference(&spec, &report.spec) {
                    return Err((index, MergeError::Differs(what)));
                }
                (both(spec, &report.spec), combine(sum, interval))
            }
        });
    }
    sum.ok_or((0, MergeError::Nothing))
}

/// First option in which two loads differ, as on the command line. The amount and source of the load may
/// differ.
fn difference(one: &Spec, other: &Spec) -> Option<&'static str> {
    let same = [
        ("--method", one.method == other.method),
        ("--header", one.headers == other.headers),
        ("--body", one.body == other.body),
        ("list of --urls", one.paths == other.paths),
        ("list of --targets", one.targets == other.targets),
        ("--expect-status", one.expect_status == other.expect_status),
        ("--expect-body", one.expect_body == other.expect_body),
        ("--expect-match", one.expect_match == other.expect_match),
        ("--expect-json", one.expect_json == other.expect_json),
        ("--announce", one.announce == other.announce),
        ("--expect-rcode", one.expect_rcode == other.expect_rcode),
        ("--edns", one.edns == other.edns),
        ("--tls-resume", one.tls_resume == other.tls_resume),
        ("HTTP version", one.http_version == other.http_version),
        ("--no-keepalive", one.no_keepalive == other.no_keepalive),
        ("--pipeline", one.pipeline == other.pipeline),
        ("--size", one.size == other.size),
        ("--batch", one.batch == other.batch),
        ("--timeout", one.timeout == other.timeout),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

/// Rebuilds the interval that a report was made from.
fn interval(report: &Report) -> Result<Interval, MergeError> {
    if report.schema != Report::SCHEMA {
        return Err(MergeError::Schema(report.schema.clone()));
    }
    let json = serde_json::to_value(report).unwrap_or_default();
    if let Some(name) = impossible("report", &json) {
        return Err(MergeError::Impossible(name));
    }
    let read =
        |name, text: &str| decode(text).filter(|read| read.len() <= MOST).ok_or(MergeError::Histogram(name));
    let loops = report.histograms.loop_lag.iter().map(|text| read("loop_lag", text));
    Ok(Interval {
        seconds: report.seconds,
        spans: report.client_cpu.iter().map(|_| (report.seconds * SECOND as f64) as Nanos).collect(),
        requests: report.requests,
        sent: report.sent,
        opened: report.opened.unwrap_or(0),
        handshakes: report.handshakes.unwrap_or(0),
        resumed: report.resumed.unwrap_or(0),
        streams_allowed: report.streams_allowed,
        in_flight: report.in_flight,
        received: report.received,
        received_seconds: report.seconds,
        errors: report.errors.clone(),
        errors_not_sent: report.errors_not_sent,
        reasons: report.reasons.clone(),
        events: report.events.clone(),
        latency: read("latency", &report.histograms.latency)?,
        unanswered: read("unanswered", &report.histograms.unanswered)?,
        given_up: read("given_up", &report.histograms.given_up)?,
        not_sent: report.not_sent.unwrap_or_default(),
        statuses: report.statuses.clone(),
        bytes: report.bytes_received,
        unreachable: report.unreachable,
        send_lag: read("send_lag", &report.histograms.send_lag)?,
        pacing_error: read("pacing_error", &report.histograms.pacing_error)?,
        loop_lag: loops.collect::<Result<_, _>>()?,
        pacing: report.spec.pacing,
        offered: report.offered,
        datagrams: report.datagrams.clone().unwrap_or_default(),
        client_cpu: report.client_cpu.clone(),
    })
}

/// Largest number of a report: the sum of a thousand is still a number of 64 bits.
const MOST: u64 = 1 << 53;

/// The first field, by its name, with a number that no report has.
pub(super) fn impossible(name: &str, value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Number(number) => {
            let is_possible =
                number.as_f64().is_some_and(|number| number.is_finite() && number.abs() <= MOST as f64);
            (!is_possible).then(|| name.to_owned())
        }
        serde_json::Value::Array(values) => values.iter().find_map(|value| impossible(name, value)),
        serde_json::Value::Object(fields) => fields.iter().find_map(|(name, value)| impossible(name, value)),
        _ => None,
    }
}

/// Adds two intervals of the same time.
fn combine(mut one: Interval, other: Interval) -> Interval {
    let seconds = one.seconds.max(other.seconds);
    let due = |interval: &Interval| interval.offered.map(|offered| offered * interval.seconds);
    one.offered = match (due(&one), due(&other)) {
        (None, None) => None,
        (a, b) => Some((a.unwrap_or(0.0) + b.unwrap_or(0.0)) / seconds.max(f64::MIN_POSITIVE)),
    };
    one.add_counts(&other);
    one.seconds = seconds;
    one.spans.extend(other.spans);
    one.received_seconds = seconds;
    one.in_flight += other.in_flight;
    // Two senders to one sink share its count of arrivals, and each took it for its own.
    let shared = one.received.is_some() || other.received.is_some();
    one.received = None;
    if shared {
        one.datagrams.reordered = None;
    }
    add(&mut one.unanswered, &other.unanswered);
    one.not_sent.blocked += other.not_sent.blocked;
    one.not_sent.waiting += other.not_sent.waiting;
    one.not_sent.late += other.not_sent.late;
    one.unreachable |= other.unreachable;
    one.loop_lag.extend(other.loop_lag);
    for mut thread in other.client_cpu {
        thread.thread = one.client_cpu.len();
        one.client_cpu.push(thread);
    }
    one
}

/// The combined offer of two loads.
fn both(mut one: Spec, other: &Spec) -> Spec {
    one.connections += other.connections;
    one.threads += other.threads;
    one.requests = one.requests.zip(other.requests).map(|(a, b)| a + b);
    let steady = |spec: &Spec| spec.rate.as_ref().and_then(Rate::is_steady);
    one.rate = steady(&one).zip(steady(other)).map(|(a, b)| Rate::steady(a + b));
    // The same numbers on another machine are other CPUs.
    one.cpus = Default::default();
    one
}

#[cfg(test)]
mod tests {
    use super::{MergeError, Report, SECOND, Spec, merge};
    use crate::histogram::new_histogram;
    use crate::interval::Interval;
    use crate::tally::{Cut, Taken, Tally, Unanswered};
    use crate::{ErrorClass, LatencyReport, Rate, Second};

    fn spec() -> Spec {
        Spec { rate: Some(Rate::steady(500.0)), ..Spec::new("http://h:1/".parse().expect("a URL")) }
    }

    fn cut(latencies: std::ops::Range<u64>, due: u64) -> Cut {
        let mut tally = Tally::new();
        for latency in latencies {
            tally.sent += 1;
            tally.complete(latency * 1000);
            tally.scheduled(0, 0, latency);
        }
        tally.error(ErrorClass::Timeout, 2);
        tally.status(200, tally.completed);
        tally.bytes = 100 * tally.completed;
        let taken = Taken { cpu: 500_000_000, ..Taken::default() };
        let mut unanswered = Unanswered::new();
        unanswered.add_sent(1, 0, 5_000_000);
        unanswered.add_due([(1_000, 1)].into_iter(), false, 5_000_000);
        Cut { span: 2 * SECOND, taken, due: Some(due), unanswered, ..Cut::second(tally) }
    }

    fn report(latencies: std::ops::Range<u64>, due: u64) -> Report {
        let report = Report::new(&spec(), &Interval::from_cuts(&[cut(latencies, due)], &[None]));
        let json = serde_json::to_string(&report).expect("written");
        Report::from_json(&json).expect("read")
    }

    /// Two results, merged after a round trip through JSON, equal one with two threads.
    #[test]
    fn what_ran_apart_adds_up_exactly() {
        let merged = merge(&[report(1..900, 1000), report(500..50_000, 60_000)]).expect("merged");
        let whole = Interval::from_cuts(&[cut(1..900, 1000), cut(500..50_000, 60_000)], &[None, None]);
        let spec = Spec { connections: 128, threads: 2, rate: Some(Rate::steady(1000.0)), ..spec() };
        let whole = Report { merged: merged.merged.clone(), ..Report::new(&spec, &whole) };
        assert_eq!((merged.merged.len(), merged), (2, whole));
    }

    /// Counts of seconds add up; percentiles of a second are not kept, as two cannot be combined.
    #[test]
    fn seconds_stand_side_by_side() {
        let second = |at, requests: u64, max| Second {
            at,
            seconds: 1.0,
            requests,
            sent: requests + 1,
            errors: 1,
            rate: requests as f64,
            latency_us: LatencyReport { max: Some(max), ..LatencyReport::new(&new_histogram()) },
        };
        let with = |series| Report { series, ..report(1..10, 10) };
        let long = with(vec![second(0.0, 100, 5.0), second(1.0, 200, 6.0)]);
        let merged = merge(&[with(vec![second(0.001, 50, 9.0)]), long]).expect("merged");
        let first = Second { sent: 152, errors: 2, ..second(0.0, 150, 9.0) };
        assert_eq!(merged.series, [first, second(1.0, 200, 6.0)]);
    }

    /// Each was once added as if it had run twice.
    #[test]
    fn a_run_counts_once() {
        let [a, b, c] = [1..9, 1..90, 1..900].map(|latencies| report(latencies, 1000));
        let twice = |index| Err((index, MergeError::Twice));
        assert_eq!(merge(&[a.clone(), b.clone(), a.clone()]), twice(2));
        let both = merge(&[a.clone(), b]).expect("merged");
        let both = Report::from_json(&serde_json::to_string(&both).expect("written")).expect("read");
        assert_eq!(merge(&[both.clone(), a]), twice(1), "it is part of the first");
        let early = Report { interrupted: true, begun: Some("2026-01-02T00:00:00Z".to_owned()), ..c };
        let all = merge(&[both, early]).expect("merged");
        assert_eq!((all.merged.len(), all.interrupted), (3, true));
        assert_eq!(all.begun.as_deref(), Some("2026-01-02T00:00:00Z"));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        assert_eq!(merge(&[]), Err((0, MergeError::Nothing)));
        let good = report(1..10, 10);
        let other = Spec::new("http://other:1/".parse().expect("a URL"));
        let elsewhere = Report { spec: other, ..good.clone() };
        assert!(matches!(merge(&[good.clone(), elsewhere]), Err((1, MergeError::Url { .. }))));
        let deep = Report { spec: Spec { pipeline: 2, ..spec() }, ..good.clone() };
        assert_eq!(merge(&[good.clone(), deep]), Err((1, MergeError::Differs("--pipeline"))));
        let random = |seed| Report { spec: Spec { poisson: true, seed, ..spec() }, ..good.clone() };
        assert_eq!(merge(&[random(3), random(4), random(3)]), Err((2, MergeError::SameArrivals(3))));
        assert!(merge(&[random(3), random(4), good.clone()]).is_ok());
        let old = Report { schema: "rxlab.load/0".to_owned(), ..good.clone() };
        assert!(matches!(merge(&[old]), Err((0, MergeError::Schema(_)))));
        let huge = Report { requests: u64::MAX, ..good.clone() };
        assert_eq!(merge(&[good.clone(), huge]), Err((1, MergeError::Impossible("requests".to_owned()))));
        let mut broken = good;
        broken.histograms.latency = "x".to_owned();
        assert_eq!(merge(&[broken]), Err((0, MergeError::Histogram("latency"))));
    }
}
