//! Metrics for Prometheus, in its two text formats.
//!
//! [`FAMILIES`] is the only list of metrics: what is exported, its table in docs/exporter.md and the tests come from it.
//! Counters are those of the kernel, or sums that only grow; the rest are gauges of the latest sample. Each family is
//! bounded by the size of the machine or by a constant here.

mod families;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub use families::FAMILIES;

use super::live::Applied;
use rxlab_advise::diagnose::Finding;
use rxlab_base::units::CpuId;
use rxlab_path::evidence::Headroom;
use rxlab_path::model::{Model, Totals};
use rxlab_probe::LostTotals;
use rxlab_trial::summary::Summary;

/// Queues that are exported: all of devices first, then of other interfaces that received packets.
pub const QUEUES: usize = 512;
/// Findings that are exported, most severe first.
pub const FINDINGS: usize = 64;
/// Settings that are exported one by one, those that do not hold first.
pub const SETTINGS: usize = 64;

/// Everything that is exported.
#[derive(Debug, Default)]
pub struct Exposition {
    pub model: Arc<Model>,
    /// Counters at this moment.
    pub totals: Totals,
    /// Time lost to receive work, as far as it was measured.
    pub lost: LostTotals,
    /// The latest sample; `None` before the first.
    pub judged: Option<Judged>,
    /// Samples that failed so far.
    pub failures: u64,
    /// Values that rxlab has applied, compared with the machine.
    pub applied: Applied,
    /// The trials of this machine, by number.
    pub trials: Vec<Summary>,
    /// Checkpoints of trials that wait, were missed or failed, by state.
    pub checkpoints: Vec<(&'static str, u64)>,
}

/// Results of a sample of two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Its end, in seconds since 1970.
    pub ended: f64,
    pub seconds: f64,
    /// Receive time of each CPU, as a fraction of wall time.
    pub receive_time: Vec<(CpuId, f64)>,
    /// Capacity as a multiple of the load.
    pub headroom: Option<Headroom>,
    /// Findings as reported: one clears after it was absent from two samples in a row.
    pub findings: Vec<Finding>,
    /// Sources that were missing or broken.
    pub gaps: usize,
}

pub struct Family {
    /// Its full name, which tells its kind: a counter, which only grows, ends in `_total`; an info, which is always 1 and
    /// says something with its labels, in `_info`; any other is a gauge.
    pub name: &'static str,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// Meaning and source, in one or two sentences.
    pub help: &'static str,
    /// Its values at this moment, with a value for each label.
    read: fn(&Exposition) -> Vec<Row>,
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Values of the labels, and the value.
type Row = (Vec<String>, Value);

#[derive(Debug, Clone, Copy)]
enum Value {
    Whole(u64),
    Real(f64),
}

/// Text format of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0, which Prometheus asks for.
    OpenMetrics,
    /// The older format of Prometheus, which every tool reads.
    Classic,
}

impl Format {
    /// The format for an Accept header. Clients that do not ask for OpenMetrics get the older one.
    pub fn of_accept(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Classic }
    }

    /// Value of the Content-Type header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// The metrics as text. A family without values is left out.
pub fn encode(exposition: &Exposition, format: Format) -> String {
    let read = FAMILIES.iter().map(|family| (family, (family.read)(exposition)));
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(read.filter(|(_, rows)| !rows.is_empty()).collect())));
    let mut out = String::new();
    let written = match format {
        Format::OpenMetrics => text::encode(&mut out, &registry),
        Format::Classic => prometheus_text::encode(&mut out, &registry),
    };
    written.expect("writing to a string does not fail");
    out
}

#[derive(Debug)]
struct Families(Vec<(&'static Family, Vec<Row>)>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        self.0.iter().try_for_each(|(family, rows)| family.encode(rows, &mut encoder))
    }
}

impl Family {
    /// Its name without the suffix that the encoder adds, and its kind.
    fn name_and_kind(&self) -> (&str, MetricType) {
        match self.name.rsplit_once('_') {
            Some((name, "total")) => (name, MetricType::Counter),
            Some((name, "info")) => (name, MetricType::Info),
            _ => (self.name, MetricType::Gauge),
        }
    }

    fn encode(&self, rows: &[Row], encoder: &mut DescriptorEncoder) -> Result<(), fmt::Error> {
        let (name, kind) = self.name_and_kind();
        let mut metric = encoder.encode_descriptor(name, self.help, None, kind)?;
        for (values, value) in rows {
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            if kind == MetricType::Info {
                metric.encode_info(&labels)?;
                continue;
            }
            let metric = metric.encode_family(&labels)?;
            match (kind, value) {
                (MetricType::Counter, Value::Whole(count)) => ConstCounter::new(*count).encode(metric)?,
                (MetricType::Counter, Value::Real(sum)) => ConstCounter::new(*sum).encode(metric)?,
                (_, Value::Whole(count)) => ConstGauge::new(*count).encode(metric)?,
                (_, Value::Real(value)) => ConstGauge::new(*value).encode(metric)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
