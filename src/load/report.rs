//! The result of a load as a value: what JSON shows and what the text is made from.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::datagrams::Datagrams;
use super::error_class::ErrorClass;
use super::histogram::{encode, quantile};
use super::interval::{Interval, ThreadCpu};
use super::pacing::Pacing;
use super::promql::Promql;
use super::saturation::Saturation;
use super::series::Second;
use super::server::ServerCpu;
use super::spec::Spec;
use super::url::Protocol;

/// Latency in microseconds. A quantile is absent when there were fewer than `100 / (1 - q)`
/// requests to tell it from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyReport {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// The longest; absent when there was none.
    pub max: Option<f64>,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl LatencyReport {
    /// The quantiles of a histogram of nanoseconds.
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |q: f64| quantile(histogram, q).map(us);
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: (!histogram.is_empty()).then(|| us(histogram.max())),
        }
    }
}

/// How a schedule was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PacingReport {
    /// How the load waited for its next request.
    pub mode: Pacing,
    /// Requests sent as against requests due, less 1: -0.01 is one in a hundred too few.
    pub rate_error: f64,
    /// How late requests were sent, whosever fault it was, in microseconds.
    pub error_us: LatencyReport,
    /// How late they were by the generator's own fault, in microseconds.
    pub send_lag_us: LatencyReport,
}

/// How late a thread's event loop came back to its sockets: how long it worked between two looks at
/// them, or by how much a sleep was longer than asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoopReport {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// The lag of each turn of the loop.
    pub lag_us: LatencyReport,
}

/// Histograms of nanoseconds, each as the tools of HdrHistogram exchange it: version 2, compressed,
/// in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Histograms {
    /// Latency of completed requests.
    pub latency: String,
    /// Open loop: how late requests were sent by the generator's own fault.
    pub send_lag: String,
    /// Open loop: how late they were sent.
    pub pacing_error: String,
    /// By thread: how late its event loop came back to its sockets.
    #[serde(default)]
    pub loop_lag: Vec<String>,
}

/// The result of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// `rxlab.load/1`.
    pub schema: String,
    /// What was offered.
    pub spec: Spec,
    /// How long, in seconds.
    pub seconds: f64,
    /// Requests completed with a good answer; one way: datagrams sent.
    pub requests: u64,
    /// Requests sent.
    pub sent: u64,
    /// HTTP: connections that were opened while this was measured, those of the beginning not included. With
    /// keep-alive each stands for one that was lost.
    #[serde(default)]
    pub opened: Option<u64>,
    /// HTTPS: handshakes that ended well while this was measured, those of the first connections not
    /// included.
    #[serde(default)]
    pub handshakes: Option<u64>,
    /// Requests still unanswered at the end.
    pub in_flight: u64,
    /// One way: datagrams that the sink counted.
    pub received: Option<u64>,
    /// UDP: how datagrams went.
    #[serde(default)]
    pub datagrams: Option<Datagrams>,
    /// What went wrong, by class.
    pub errors: BTreeMap<ErrorClass, u64>,
    /// Completed requests a second.
    pub rate: f64,
    /// Open loop: requests a second that were due.
    pub offered: Option<f64>,
    /// Requests a second that were sent.
    pub achieved: f64,
    /// Latency, from the intended send in the open loop.
    pub latency_us: LatencyReport,
    /// Open loop: how the schedule was kept.
    pub pacing: Option<PacingReport>,
    /// Open loop: how late sends were by the generator's own fault, 99th percentile.
    pub send_lag_p99_us: Option<f64>,
    /// CPU time of the generator, by thread.
    pub client_cpu: Vec<ThreadCpu>,
    /// The event loop of each thread.
    #[serde(default)]
    pub event_loop: Vec<LoopReport>,
    /// Client CPU time for each completed request, in microseconds.
    pub client_us_per_request: Option<f64>,
    /// CPU time of the server, where it runs on this machine and its processes are ours to look at.
    #[serde(default)]
    pub server_cpu: Option<ServerCpu>,
    /// What a Prometheus said of the time of the load, where one was asked.
    #[serde(default)]
    pub prometheus: Option<Promql>,
    /// Whether the generator was the limit.
    pub saturation: Saturation,
    /// All latencies, to add up with those of other results.
    pub histograms: Histograms,
    /// The load second by second, in the order of time; empty when nobody took it.
    pub series: Vec<Second>,
}

impl Report {
    /// The schema of this version.
    pub const SCHEMA: &'static str = "rxlab.load/1";

    /// Reads what was written as JSON.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The same with what the server took meanwhile, where that is known.
    #[must_use]
    pub fn with_server(mut self, server: Option<ServerCpu>) -> Self {
        if let Some(server) = &server {
            self.saturation = self.saturation.beside(server);
        }
        Self { server_cpu: server, ..self }
    }

    /// The report on what `spec` did in `interval`.
    pub fn new(spec: &Spec, interval: &Interval) -> Self {
        let cpu: f64 = interval.client_cpu.iter().map(|thread| thread.seconds).sum();
        Self {
            schema: Self::SCHEMA.to_owned(),
            spec: spec.clone(),
            seconds: interval.seconds,
            requests: interval.requests,
            sent: interval.sent,
            opened: (spec.url.protocol == Protocol::Http).then_some(interval.opened),
            handshakes: spec.url.tls.then_some(interval.handshakes),
            in_flight: interval.in_flight,
            received: interval.received,
            datagrams: (spec.url.protocol != Protocol::Http).then(|| interval.datagrams.clone()),
            errors: interval.errors.clone(),
            rate: interval.rate(),
            offered: interval.offered,
            achieved: if interval.seconds > 0.0 { interval.sent as f64 / interval.seconds } else { 0.0 },
            latency_us: LatencyReport::of(&interval.latency),
            pacing: interval.offered.map(|offered| PacingReport {
                mode: interval.pacing,
                rate_error: match offered * interval.seconds {
                    due if due > 0.0 => interval.sent as f64 / due - 1.0,
                    _ => 0.0,
                },
                error_us: LatencyReport::of(&interval.pacing_error),
                send_lag_us: LatencyReport::of(&interval.send_lag),
            }),
            send_lag_p99_us: interval.send_lag_p99().map(us),
            client_cpu: interval.client_cpu.clone(),
            event_loop: interval
                .loop_lag
                .iter()
                .enumerate()
                .map(|(thread, lag)| LoopReport { thread, lag_us: LatencyReport::of(lag) })
                .collect(),
            client_us_per_request: (interval.requests > 0).then(|| cpu * 1e6 / interval.requests as f64),
            server_cpu: None,
            prometheus: None,
            saturation: Saturation::of(interval),
            histograms: Histograms {
                latency: encode(&interval.latency),
                send_lag: encode(&interval.send_lag),
                pacing_error: encode(&interval.pacing_error),
                loop_lag: interval.loop_lag.iter().map(encode).collect(),
            },
            series: Vec::new(),
        }
    }
}
