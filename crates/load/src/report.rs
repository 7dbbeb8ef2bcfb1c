//! Result of a load as a value: JSON and the text report are made from it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::datagrams::Datagrams;
use super::error_class::ErrorClass;
use super::event::Event;
use super::histogram::{decode, encode, is_lower_bound, is_told, new_histogram, quantile_of_few, together};
use super::interval::{Interval, NotSent, ThreadCpu};
use super::pacing::Pacing;
use super::promql::Promql;
use super::reasons::Reasons;
use super::saturation::Saturation;
use super::series::Second;
use super::server::ServerCpu;
use super::spec::Spec;
use rxlab_base::display_as;

/// A value of a [`LatencyReport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Percentile {
    /// Median.
    #[serde(rename = "p50")]
    P50,
    /// 90th percentile.
    #[serde(rename = "p90")]
    P90,
    /// 99th percentile.
    #[serde(rename = "p99")]
    P99,
    /// 99.9th percentile.
    #[serde(rename = "p99_9")]
    P999,
    /// Maximum.
    #[serde(rename = "max")]
    Max,
}

impl Percentile {
    /// All of them, from the lowest.
    pub(super) const ALL: [Self; 5] = [Self::P50, Self::P90, Self::P99, Self::P999, Self::Max];

    /// As a quantile, 0 to 1.
    pub(super) fn quantile(self) -> f64 {
        match self {
            Self::P50 => 0.5,
            Self::P90 => 0.9,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
            Self::Max => 1.0,
        }
    }
}

display_as! { Percentile:
    P50 => "p50",
    P90 => "p90",
    P99 => "p99",
    P999 => "p99.9",
    Max => "max",
}

/// Latency in microseconds. A quantile is absent without values; `few` names those that another run may not confirm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyReport {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// Maximum; absent without values.
    pub max: Option<f64>,
    /// Mean; absent without values. A lower bound if any of the other values is.
    #[serde(default)]
    pub mean: Option<f64>,
    /// Quantiles with fewer than a hundred requests beyond them: another run may differ a lot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub few: Vec<Percentile>,
    /// Values that are lower bounds: they lie among requests unanswered at the end, which count with their
    /// age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<Percentile>,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl LatencyReport {
    /// Quantiles of a histogram of nanoseconds.
    pub(super) fn new(histogram: &Histogram<u64>) -> Self {
        let mut few = Vec::new();
        let mut at = |percentile: Percentile| {
            let (value, is_exact) = quantile_of_few(histogram, percentile.quantile())?;
            few.extend((!is_exact).then_some(percentile));
            Some(us(value))
        };
        Self {
            p50: at(Percentile::P50),
            p90: at(Percentile::P90),
            p99: at(Percentile::P99),
            p99_9: at(Percentile::P999),
            max: (!histogram.is_empty()).then(|| us(histogram.max())),
            mean: (!histogram.is_empty()).then(|| histogram.mean() / 1000.0),
            few,
            at_least: Vec::new(),
        }
    }

    /// Latency quantiles of an interval. Unanswered requests are included with their age, as they took at
    /// least that long.
    pub(super) fn of_interval(interval: &Interval) -> Self {
        let all = Self::new(&interval.latencies());
        let (answered, unanswered) = (&interval.latency, &interval.unfinished());
        let is_bound = |percentile: &Percentile| match percentile {
            Percentile::Max => !unanswered.is_empty() && unanswered.max() >= answered.max(),
            other => all.get(*other).is_some() && interval.is_lower_bound(other.quantile()),
        };
        Self { at_least: Percentile::ALL.into_iter().filter(is_bound).collect(), ..all }
    }

    /// The value of a percentile.
    pub(super) fn get(&self, percentile: Percentile) -> Option<f64> {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P90 => self.p90,
            Percentile::P99 => self.p99,
            Percentile::P999 => self.p99_9,
            Percentile::Max => self.max,
        }
    }
}

/// A point of the distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Part of the requests that took no longer, 0 to 1.
    pub quantile: f64,
    /// Latency in microseconds.
    pub us: f64,
    /// The latency is a lower bound, as in [`LatencyReport::at_least`].
    pub at_least: bool,
}

/// Quantiles of [`Report::latency_curve`].
const CURVE: [f64; 14] =
    [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 0.99999, 0.999999];

/// Adherence to the schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacingReport {
    /// Way of waiting for the next request.
    pub mode: Pacing,
    /// Requests sent divided by requests due, less 1: -0.01 means 1 % too few.
    pub rate_error: f64,
    /// Delay of sends, whatever the cause, in microseconds.
    pub error_us: LatencyReport,
    /// Delay of sends caused by the generator itself, in microseconds.
    pub send_lag_us: LatencyReport,
}

/// Lag of a thread's event loop: how long it worked between two checks of its sockets, or by how much
/// a sleep overran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoopReport {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// Lag of each turn of the loop.
    pub lag_us: LatencyReport,
}

/// Histograms of nanoseconds in the exchange format of HdrHistogram: version 2, compressed, base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histograms {
    /// Latency of completed requests.
    pub latency: String,
    /// Ages of requests unanswered at the end.
    #[serde(default = "empty")]
    pub unanswered: String,
    /// Ages of requests that were given up.
    #[serde(default = "empty")]
    pub given_up: String,
    /// Open loop: delay of sends caused by the generator itself.
    pub send_lag: String,
    /// Open loop: delay of sends.
    pub pacing_error: String,
    /// Lag of the event loop, by thread.
    #[serde(default)]
    pub loop_lag: Vec<String>,
}

/// An empty histogram, for results that have none.
fn empty() -> String {
    encode(&new_histogram())
}

/// A limit that was set, and what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// As given: `p99<5ms`.
    pub limit: String,
    /// Latency in microseconds of all requests that were due, or the failed fraction; absent if the latency is unknown
    /// because too many requests had no good response.
    pub value: Option<f64>,
    /// Absent if too few requests were measured to tell.
    pub kept: Option<bool>,
}

/// The result of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Schema and its version, [`Report::SCHEMA`].
    pub schema: String,
    /// Version of rxlab; empty in results of versions that did not say it.
    #[serde(default)]
    pub version: String,
    /// When the measurement began (RFC 3339); of a merged result the earliest.
    #[serde(default)]
    pub begun: Option<String>,
    /// Ended early by Ctrl-C or SIGTERM; of a merged result: any of the loads.
    #[serde(default)]
    pub interrupted: bool,
    /// Checksums of the results that were merged; empty if this is the result of one load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<String>,
    /// The load that was offered.
    pub spec: Spec,
    /// Length in seconds.
    pub seconds: f64,
    /// Requests completed with a good response; one way: datagrams sent.
    pub requests: u64,
    /// Requests sent.
    pub sent: u64,
    /// HTTP: connections opened during the measurement, initial ones excluded. With keep-alive each replaces
    /// one that was lost.
    #[serde(default)]
    pub opened: Option<u64>,
    /// HTTPS: successful handshakes during the measurement, those of the initial connections excluded.
    #[serde(default)]
    pub handshakes: Option<u64>,
    /// With resumption: those of the handshakes that resumed an earlier session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<u64>,
    /// HTTP/2 and HTTP/3: streams that the server allowed on a connection, if fewer than `pipeline` of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_allowed: Option<usize>,
    /// Requests sent and unanswered at the end.
    pub in_flight: u64,
    /// Requests unanswered at the end: those in flight and, in the open loop, those due but not sent. They
    /// are not errors. `latency_us` counts each with its age.
    #[serde(default)]
    pub unanswered: u64,
    /// Requests given up: timed out, or due and not sent in time. They are errors, and `latency_us` counts each with its
    /// age.
    #[serde(default)]
    pub given_up: u64,
    /// Open loop: requests due but not sent, by cause.
    #[serde(default)]
    pub not_sent: Option<NotSent>,
    /// One way: datagrams counted by the sink.
    pub received: Option<u64>,
    /// UDP: datagram counts.
    #[serde(default)]
    pub datagrams: Option<Datagrams>,
    /// HTTP: complete responses by status, good ones and others.
    #[serde(default)]
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of responses received: HTTP with heads, TLS without its records; UDP payloads.
    #[serde(default)]
    pub bytes_received: u64,
    /// Bytes of responses received per second.
    #[serde(default)]
    pub bytes_per_second: f64,
    /// The target could not be reached at the end: connection attempts have failed since its last response.
    /// In a merged result: true for any of the loads.
    #[serde(default)]
    pub unreachable: bool,
    /// Errors by class.
    pub errors: BTreeMap<ErrorClass, u64>,
    /// Those of `errors` that ended no request in `sent`: failed attempts to connect without one, datagrams that the kernel
    /// refused, and requests given up before they were sent. `sent` is `requests` + `in_flight` + all other errors.
    #[serde(default)]
    pub errors_not_sent: u64,
    /// Reasons of those errors that have one, with counts, by class.
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    pub reasons: Reasons,
    /// What ended no request: unsolicited responses, stray datagrams.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<Event, u64>,
    /// Completed requests per second.
    pub rate: f64,
    /// Open loop: requests due per second.
    pub offered: Option<f64>,
    /// Requests sent per second.
    pub achieved: f64,
    /// Latency of requests with a good response, of those unanswered at the end, and of those given up; in the open loop
    /// from the intended send.
    pub latency_us: LatencyReport,
    /// Open loop: adherence to the schedule.
    pub pacing: Option<PacingReport>,
    /// CPU time of the generator, by thread.
    pub client_cpu: Vec<ThreadCpu>,
    /// Event loop of each thread.
    #[serde(default)]
    pub event_loop: Vec<LoopReport>,
    /// Client CPU time per completed request, in microseconds.
    pub client_us_per_request: Option<f64>,
    /// CPU time of the server, if it runs on this machine and its processes are readable.
    #[serde(default)]
    pub server_cpu: Option<ServerCpu>,
    /// Answer of Prometheus for the time of the load, if one was queried.
    #[serde(default)]
    pub prometheus: Option<Promql>,
    /// Limits that were set, and if they were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Limit>,
    /// Verdict on whether the generator was the limit.
    pub saturation: Saturation,
    /// All latencies, for merging with other results.
    pub histograms: Histograms,
    /// The load second by second, in order; empty if not recorded.
    pub series: Vec<Second>,
}

impl Report {
    /// This result of a load that began at `begun`.
    #[must_use]
    pub fn of_run(self, begun: SystemTime, interrupted: bool) -> Self {
        let begun = jiff::Timestamp::try_from(begun).ok().map(|time| time.to_string());
        Self { begun, interrupted, ..self }
    }

    /// Checksums of the loads that this result is of.
    pub(super) fn runs(&self) -> Vec<String> {
        if !self.merged.is_empty() {
            return self.merged.clone();
        }
        let json = serde_json::to_vec(self).expect("a report is JSON");
        vec![format!("{:08x}", crc32fast::hash(&json))]
    }

    /// Latencies of the requests with a good response, and ages of those without one; empty if they are not those of a
    /// load.
    pub(super) fn times(&self) -> [Histogram<u64>; 2] {
        let decoded = |text: &str| decode(text).unwrap_or_else(new_histogram);
        let Histograms { latency, unanswered, given_up, .. } = &self.histograms;
        [decoded(latency), together(&decoded(unanswered), &decoded(given_up))]
    }

    /// Latencies of all requests as in [`Self::latency_us`], at quantiles closer and closer to 1, while ten requests lie
    /// beyond them.
    pub fn latency_curve(&self) -> Vec<CurvePoint> {
        let [answered, unfinished] = self.times();
        let all = together(&answered, &unfinished);
        let point = |quantile: f64| {
            let us = us(quantile_of_few(&all, quantile).filter(|_| is_told(all.len(), quantile))?.0);
            Some(CurvePoint { quantile, us, at_least: is_lower_bound(&answered, &unfinished, quantile) })
        };
        CURVE.into_iter().map_while(point).collect()
    }

    /// Schema of this version.
    pub const SCHEMA: &'static str = "rxlab.load/2";

    /// Parses a report from JSON.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Adds the CPU time of the server, if known.
    #[must_use]
    pub fn with_server(mut self, server: Option<ServerCpu>) -> Self {
        if let Some(server) = &server {
            self.saturation = self.saturation.merged_with(server);
        }
        Self { server_cpu: server, ..self }
    }

    /// Adds the sign that a client of several was the limit, which names it.
    #[must_use]
    pub fn with_limit(self, limit: Option<String>) -> Self {
        let Some(limit) = limit else { return self };
        let saturation = Saturation { limited: true, reason: Some(limit), ..self.saturation };
        Self { saturation, ..self }
    }

    /// Builds the report of what `spec` did in `interval`.
    pub fn new(spec: &Spec, interval: &Interval) -> Self {
        let per_second =
            |count: u64| if interval.seconds > 0.0 { count as f64 / interval.seconds } else { 0.0 };
        let cpu: f64 = interval.client_cpu.iter().map(|thread| thread.seconds).sum();
        Self {
            schema: Self::SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            begun: None,
            interrupted: false,
            merged: Vec::new(),
            limits: Vec::new(),
            spec: spec.clone(),
            seconds: interval.seconds,
            requests: interval.requests,
            sent: interval.sent,
            opened: spec.url.protocol.is_stream().then_some(interval.opened),
            handshakes: spec.url.tls.then_some(interval.handshakes),
            resumed: spec.tls_resume.then_some(interval.resumed),
            streams_allowed: interval.streams_allowed,
            in_flight: interval.in_flight,
            unanswered: interval.unanswered.len(),
            given_up: interval.given_up.len(),
            not_sent: interval.offered.map(|_| interval.not_sent),
            received: interval.received,
            datagrams: (!spec.url.protocol.is_stream()).then(|| interval.datagrams.clone()),
            statuses: interval.statuses.clone(),
            bytes_received: interval.bytes,
            bytes_per_second: per_second(interval.bytes),
            unreachable: interval.unreachable,
            errors: interval.errors.clone(),
            errors_not_sent: interval.errors_not_sent,
            reasons: interval.reasons.clone(),
            events: interval.events.clone(),
            rate: interval.rate(),
            offered: interval.offered,
            achieved: per_second(interval.sent),
            latency_us: LatencyReport::of_interval(interval),
            pacing: interval.offered.map(|offered| PacingReport {
                mode: interval.pacing,
                rate_error: match offered * interval.seconds {
                    due if due > 0.0 => interval.sent as f64 / due - 1.0,
                    _ => 0.0,
                },
                error_us: LatencyReport::new(&interval.pacing_error),
                send_lag_us: LatencyReport::new(&interval.send_lag),
            }),
            client_cpu: interval.client_cpu.clone(),
            event_loop: interval
                .loop_lag
                .iter()
                .enumerate()
                .map(|(thread, lag)| LoopReport { thread, lag_us: LatencyReport::new(lag) })
                .collect(),
            client_us_per_request: (interval.requests > 0).then(|| cpu * 1e6 / interval.requests as f64),
            server_cpu: None,
            prometheus: None,
            saturation: Saturation::judge(interval),
            histograms: Histograms {
                latency: encode(&interval.latency),
                unanswered: encode(&interval.unanswered),
                given_up: encode(&interval.given_up),
                send_lag: encode(&interval.send_lag),
                pacing_error: encode(&interval.pacing_error),
                loop_lag: interval.loop_lag.iter().map(encode).collect(),
            },
            series: Vec::new(),
        }
    }
}
