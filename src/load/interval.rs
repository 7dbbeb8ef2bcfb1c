//! What was measured between two cuts: by one thread ([`Tally`]), and by all ([`Interval`]).

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::{Nanos, SECOND};
use super::datagrams::Datagrams;
use super::error_class::ErrorClass;
use super::histogram::{add, new_histogram, quantile};
use super::pacing::Pacing;
use crate::units::CpuId;

/// What one thread counts. Only that thread touches it, until it hands it over whole.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) sent: u64,
    /// TLS connections that were opened.
    pub(super) handshakes: u64,
    pub(super) errors: [u64; ErrorClass::ALL.len()],
    pub(super) latency: Histogram<u64>,
    pub(super) lag: Histogram<u64>,
    pub(super) late: Histogram<u64>,
    /// How late the event loop came back to its sockets.
    pub(super) loops: Histogram<u64>,
    /// Time spent polling for a moment to come; see [`Pacing::Precise`].
    pub(super) spun: Nanos,
    pub(super) datagrams: Datagrams,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            completed: 0,
            sent: 0,
            handshakes: 0,
            errors: [0; ErrorClass::ALL.len()],
            latency: new_histogram(),
            lag: new_histogram(),
            late: new_histogram(),
            loops: new_histogram(),
            spun: 0,
            datagrams: Datagrams::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn complete(&mut self, latency: Nanos) {
        self.complete_all(1, latency);
    }

    /// `count` requests with the same latency.
    pub(super) fn complete_all(&mut self, count: usize, latency: Nanos) {
        self.completed += count as u64;
        self.latency.saturating_record_n(latency, count as u64);
    }

    /// A scheduled request was sent at `now`; it could have been since `possible`.
    pub(super) fn scheduled(&mut self, intended: Nanos, possible: Nanos, now: Nanos) {
        self.lag.saturating_record(now.saturating_sub(intended.max(possible)));
        self.late.saturating_record(now.saturating_sub(intended));
    }

    pub(super) fn error(&mut self, class: ErrorClass, count: usize) {
        self.errors[class as usize] += count as u64;
    }
}

/// A thread's tally with the span of time and the CPU time it covers.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) tally: Tally,
    pub(super) span: Nanos,
    pub(super) cpu: Nanos,
    pub(super) due: Option<u64>,
    pub(super) in_flight: u64,
}

/// CPU time of one thread of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ThreadCpu {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// The CPU to which it is pinned.
    pub cpu_pinned: Option<CpuId>,
    /// CPU time in seconds.
    pub seconds: f64,
    /// The same as a fraction of the interval (1 = a whole CPU).
    pub share: f64,
    /// The part of `share` spent spinning for the next scheduled send: time, but no work.
    pub spinning: f64,
}

/// What happened between two cuts.
#[derive(Clone)]
pub struct Interval {
    /// Length, the mean over the threads.
    pub seconds: f64,
    /// Requests completed with a good answer (HTTP 2xx, an echo). One way: datagrams handed to the
    /// kernel.
    pub requests: u64,
    /// Requests sent.
    pub sent: u64,
    /// TLS handshakes that ended well.
    pub handshakes: u64,
    /// Requests sent and not answered at the end of the interval.
    pub in_flight: u64,
    /// One way: datagrams that the sink counted in the interval, from all senders; `None` when
    /// there is no sink that tells, or when it did not answer at the beginning or at the end.
    pub received: Option<u64>,
    /// Seconds over which `received` was counted: a query of a drowning sink has to be repeated, and
    /// then its count covers more than the interval.
    pub received_seconds: f64,
    /// What went wrong. Classes that did not occur are absent.
    pub errors: BTreeMap<ErrorClass, u64>,
    /// Latency of completed requests in nanoseconds: from the send in the closed loop, from the
    /// intended send time in the open loop. Empty for one-way loads.
    pub latency: Histogram<u64>,
    /// Open loop: how late requests were sent, in nanoseconds, by the generator's own fault: from
    /// the moment when the request was due and a connection was free.
    pub send_lag: Histogram<u64>,
    /// Open loop: how late requests were sent, in nanoseconds, whosever fault it was.
    pub pacing_error: Histogram<u64>,
    /// By thread: how late its event loop came back to its sockets, in nanoseconds. That is how long it
    /// worked between two looks at them, or by how much a sleep was longer than asked.
    pub loop_lag: Vec<Histogram<u64>>,
    /// How the load waited for its next scheduled request.
    pub pacing: Pacing,
    /// Open loop: requests a second that were due in the interval.
    pub offered: Option<f64>,
    /// UDP: how datagrams went.
    pub datagrams: Datagrams,
    /// CPU time of the generator.
    pub client_cpu: Vec<ThreadCpu>,
}

/// Without the thousands of counters in the histograms.
impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("seconds", &self.seconds)
            .field("requests", &self.requests)
            .field("sent", &self.sent)
            .field("in_flight", &self.in_flight)
            .field("received", &self.received)
            .field("errors", &self.errors)
            .field("latency_p99", &self.latency_quantile(0.99))
            .field("offered", &self.offered)
            .field("client_cpu", &self.client_cpu)
            .finish_non_exhaustive()
    }
}

impl Interval {
    pub(super) fn from_cuts(cuts: &[Cut], pins: &[Option<CpuId>]) -> Self {
        let seconds =
            cuts.iter().map(|cut| cut.span as f64).sum::<f64>() / cuts.len().max(1) as f64 / SECOND as f64;
        let mut total = Tally::new();
        let (mut due, mut in_flight, mut client_cpu) = (None, 0, Vec::new());
        for (thread, (cut, cpu_pinned)) in cuts.iter().zip(pins).enumerate() {
            total.completed += cut.tally.completed;
            total.sent += cut.tally.sent;
            total.datagrams.add(&cut.tally.datagrams);
            total.handshakes += cut.tally.handshakes;
            for (sum, errors) in total.errors.iter_mut().zip(&cut.tally.errors) {
                *sum += errors;
            }
            add(&mut total.latency, &cut.tally.latency);
            add(&mut total.lag, &cut.tally.lag);
            add(&mut total.late, &cut.tally.late);
            due = cut.due.map(|fresh| due.unwrap_or(0) + fresh).or(due);
            in_flight += cut.in_flight;
            let share = |time: Nanos| if cut.span == 0 { 0.0 } else { time as f64 / cut.span as f64 };
            client_cpu.push(ThreadCpu {
                thread,
                cpu_pinned: *cpu_pinned,
                seconds: cut.cpu as f64 / SECOND as f64,
                share: share(cut.cpu),
                spinning: share(cut.tally.spun.min(cut.cpu)),
            });
        }
        Self {
            seconds,
            requests: total.completed,
            sent: total.sent,
            handshakes: total.handshakes,
            in_flight,
            received: None,
            received_seconds: 0.0,
            errors: ErrorClass::ALL.into_iter().zip(total.errors).filter(|(_, count)| *count > 0).collect(),
            latency: total.latency,
            send_lag: total.lag,
            pacing_error: total.late,
            loop_lag: cuts.iter().map(|cut| cut.tally.loops.clone()).collect(),
            pacing: Pacing::default(),
            offered: due.map(|due| if seconds > 0.0 { due as f64 / seconds } else { 0.0 }),
            datagrams: total.datagrams,
            client_cpu,
        }
    }

    /// This interval and the `later` one that follows it, as one.
    #[must_use]
    pub fn then(mut self, later: &Interval) -> Interval {
        let seconds = self.seconds + later.seconds;
        let rate = |a: f64, b: f64| {
            if seconds > 0.0 { (a * self.seconds + b * later.seconds) / seconds } else { 0.0 }
        };
        self.offered = match (self.offered, later.offered) {
            (Some(a), Some(b)) => Some(rate(a, b)),
            (one, other) => one.or(other),
        };
        for (cpu, more) in self.client_cpu.iter_mut().zip(&later.client_cpu) {
            cpu.share = rate(cpu.share, more.share);
            cpu.spinning = rate(cpu.spinning, more.spinning);
            cpu.seconds += more.seconds;
        }
        self.requests += later.requests;
        self.sent += later.sent;
        self.handshakes += later.handshakes;
        self.in_flight = later.in_flight;
        let told = [&self, later].map(|interval| interval.received.is_some());
        self.received = self.received.zip(later.received).map(|(a, b)| a + b);
        self.received_seconds += later.received_seconds;
        self.datagrams.add(&later.datagrams);
        if told[0] != told[1] {
            // What the sink counted is known of one part only.
            self.datagrams.reordered = None;
        }
        for (class, count) in &later.errors {
            *self.errors.entry(*class).or_default() += count;
        }
        add(&mut self.latency, &later.latency);
        add(&mut self.send_lag, &later.send_lag);
        add(&mut self.pacing_error, &later.pacing_error);
        for (lag, more) in self.loop_lag.iter_mut().zip(&later.loop_lag) {
            add(lag, more);
        }
        self.seconds = seconds;
        self
    }

    /// Completed requests a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 }
    }

    /// One way: datagrams a second that arrived; `None` when the sink did not say.
    pub fn arrival_rate(&self) -> Option<f64> {
        self.received
            .filter(|_| self.received_seconds > 0.0)
            .map(|count| count as f64 / self.received_seconds)
    }

    /// All errors together.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Errors as a fraction of all that ended, well or not.
    pub fn error_share(&self) -> f64 {
        let ended = self.requests + self.error_count();
        if ended == 0 { 0.0 } else { self.error_count() as f64 / ended as f64 }
    }

    /// Latency quantile in nanoseconds; see [`quantile`] for when there is none.
    pub fn latency_quantile(&self, q: f64) -> Option<u64> {
        quantile(&self.latency, q)
    }

    /// 99th percentile of the send lag in nanoseconds; `None` with too few requests and outside
    /// the open loop.
    pub fn send_lag_p99(&self) -> Option<u64> {
        quantile(&self.send_lag, 0.99)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, ErrorClass, Interval, SECOND, Tally};
    use crate::units::CpuId;

    fn cut(latencies: impl IntoIterator<Item = u64>, span: u64, due: Option<u64>) -> Cut {
        let mut tally = Tally::new();
        latencies.into_iter().for_each(|latency| tally.complete(latency));
        tally.sent = tally.completed;
        tally.error(ErrorClass::Reset, 2);
        Cut { tally, span, cpu: span / 2, due, in_flight: 1 }
    }

    #[test]
    fn threads_and_intervals_add_up() {
        let pins = [Some(CpuId(1)), None];
        let first = Interval::from_cuts(
            &[cut([1_000, 2_000], 2 * SECOND, Some(10)), cut([3_000], 2 * SECOND, Some(8))],
            &pins,
        );
        assert_eq!((first.requests, first.sent, first.in_flight), (3, 3, 2));
        assert_eq!(first.offered, Some(9.0));
        assert_eq!(first.errors[&ErrorClass::Reset], 4);
        assert_eq!(first.client_cpu[0].share, 0.5);
        let second = Interval::from_cuts(&[cut([5_000], SECOND, Some(3)), cut([], SECOND, Some(0))], &pins);
        let both = first.then(&second);
        assert_eq!((both.requests, both.seconds, both.latency.len()), (4, 3.0, 4));
        assert_eq!(both.offered, Some(7.0));
        assert_eq!(both.client_cpu[0].seconds, 1.5);
        assert_eq!(both.errors[&ErrorClass::Reset], 8);
        assert!((both.error_share() - 8.0 / 12.0).abs() < 1e-12);
    }
}
