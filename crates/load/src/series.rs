//! A load second by second: as values, and as a log for the tools of HdrHistogram.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::histogram::{encode, is_told};
use super::interval::Interval;
use super::report::{LatencyReport, Percentile};

/// Measurements of one second, or of the rest at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Second {
    /// Start, in seconds from the start of the measurement.
    pub at: f64,
    /// Length in seconds.
    pub seconds: f64,
    /// Requests completed with a good response; one way: datagrams sent.
    pub requests: u64,
    /// Requests sent.
    pub sent: u64,
    /// All errors.
    pub errors: u64,
    /// Completed requests per second.
    pub rate: f64,
    /// Latency of this second; requests unanswered at its end count with their age.
    pub latency_us: LatencyReport,
}

impl Second {
    /// The `interval` that began `at` seconds after the start.
    pub fn new(at: f64, interval: &Interval) -> Self {
        Self {
            at,
            seconds: interval.seconds,
            requests: interval.requests,
            sent: interval.sent,
            errors: interval.error_count(),
            rate: interval.rate(),
            latency_us: LatencyReport::of_interval(interval),
        }
    }

    /// Adds the same second of another load. Of the latency only the maximum is kept: percentiles cannot be
    /// combined.
    fn add(&mut self, more: &Second) {
        self.at = self.at.min(more.at);
        self.seconds = self.seconds.max(more.seconds);
        self.requests += more.requests;
        self.sent += more.sent;
        self.errors += more.errors;
        self.rate = if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 };
        let longer =
            if self.latency_us.max >= more.latency_us.max { &*self } else { more }.latency_us.clone();
        let at_least = longer.at_least.into_iter().filter(|bound| *bound == Percentile::Max).collect();
        self.latency_us = LatencyReport { max: longer.max, at_least, ..LatencyReport::default() };
    }
}

/// Adds the seconds of a load that ran at the same time.
pub(super) fn add(sum: &mut Vec<Second>, more: &[Second]) {
    let (both, longer) = more.split_at(sum.len().min(more.len()));
    sum.iter_mut().zip(both).for_each(|(second, more)| second.add(more));
    sum.extend_from_slice(longer);
}

/// Columns of [`csv`]; latency in microseconds, empty where it is unknown.
const COLUMNS: &str = "at_s,seconds,requests,sent,errors,rate,p50_us,p90_us,p99_us,p99_9_us,max_us,mean_us\n";

/// The seconds as comma-separated values, with a head.
pub fn csv(series: &[Second]) -> String {
    let mut text = COLUMNS.to_owned();
    for Second { at, seconds, requests, sent, errors, rate, latency_us } in series {
        text += &format!("{at:.3},{seconds:.3},{requests},{sent},{errors},{rate:.3}");
        // A column has no room for a mark.
        let is_shown = |percentile: Percentile| {
            percentile == Percentile::Max || is_told(*requests, percentile.quantile())
        };
        let value = |percentile: Percentile| latency_us.get(percentile).filter(|_| is_shown(percentile));
        for value in Percentile::ALL.map(value).into_iter().chain([latency_us.mean]) {
            text += &value.map_or_else(|| ",".to_owned(), |us| format!(",{us:.3}"));
        }
        text.push('\n');
    }
    text
}

/// Head of an HDR log of a measurement that began at `start`.
pub fn hdr_log_head(start: SystemTime) -> String {
    let start = start.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
    format!(
        "#[Latency in nanoseconds, by rxlab {}]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {start:.3} (seconds since epoch)]\n\
         #[BaseTime: {start:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Line of an HDR log for `latencies` of an interval that began `at` seconds after the start and lasted
/// `seconds`. Its maximum is in milliseconds, as those tools expect.
pub fn hdr_log_line(at: f64, seconds: f64, latencies: &Histogram<u64>) -> String {
    let max = latencies.max() as f64 / 1e6;
    format!("{at:.3},{seconds:.3},{max:.3},{}\n", encode(latencies))
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Second, csv, hdr_log_head, hdr_log_line};
    use crate::interval::Interval;
    use crate::tally::{Cut, Tally};

    fn interval(latencies: std::ops::Range<u64>) -> Interval {
        let mut tally = Tally::new();
        latencies.for_each(|latency| tally.complete(latency * 1000));
        Interval::from_cuts(&[Cut::second(tally)], &[None])
    }

    #[test]
    fn a_second_is_a_row() {
        let text = csv(&[Second::new(0.0, &interval(1..1000))]);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!((rows.len(), rows[0].len(), rows[1].len()), (2, 12, 12));
        assert_eq!(rows[1][..6], ["0.000", "1.000", "999", "0", "0", "999.000"]);
        assert_eq!((rows[0][8], rows[1][8], rows[1][10]), ("p99_us", "", "999.423"), "{text}");
    }

    /// Read back by the reader of the format's own library.
    #[test]
    fn the_log_is_read_as_it_was_meant() {
        let start = UNIX_EPOCH + Duration::from_millis(1_500_000_000_250);
        let seconds = [interval(1..1000), interval(500..5000)];
        let mut log = hdr_log_head(start);
        for (at, second) in seconds.iter().enumerate() {
            log += &hdr_log_line(at as f64, second.seconds, &second.latency);
        }
        let mut found = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            match entry.expect("a log") {
                LogEntry::StartTime(time) | LogEntry::BaseTime(time) => {
                    assert_eq!(time, Duration::from_millis(1_500_000_000_250));
                }
                LogEntry::Interval(interval) => found.push(interval),
            }
        }
        assert_eq!(found.len(), 2);
        for (at, (entry, second)) in found.iter().zip(&seconds).enumerate() {
            assert_eq!(entry.start_timestamp(), Duration::from_secs(at as u64));
            assert_eq!(entry.duration(), Duration::from_secs(1));
            assert_eq!(entry.max(), (second.latency.max() as f64 / 1e3).round() / 1e3);
            let bytes =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, entry.encoded_histogram());
            let histogram: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut &bytes.expect("base64")[..]).expect("a histogram");
            assert_eq!(histogram, second.latency);
        }
    }
}
