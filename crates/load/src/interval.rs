//! Measurements of all threads between two cuts.

use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::{Nanos, SECOND};
use super::datagrams::Datagrams;
use super::error_class::ErrorClass;
use super::event::Event;
use super::histogram::{add, is_lower_bound, quantile, together};
use super::pacing::Pacing;
use super::reasons::Reasons;
use super::tally::{Cut, Tally, Unanswered, add_counts, failed};
use rxlab_base::units::CpuId;

/// CPU time of one thread of the generator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadCpu {
    /// Number of the thread, from 0.
    pub thread: usize,
    /// CPU it is pinned to.
    pub cpu_pinned: Option<CpuId>,
    /// CPU time in seconds.
    pub seconds: f64,
    /// Part of it in user mode, to a hundredth of a second.
    #[serde(default)]
    pub user: f64,
    /// Part of it in the kernel, to a hundredth of a second: the thread's own system calls and, where the
    /// kernel does not separate them, interrupts during that time.
    #[serde(default)]
    pub system: f64,
    /// `seconds` as a fraction of the interval (1 = a whole CPU).
    pub share: f64,
    /// Part of `share` spent polling for the next scheduled send: CPU time, but not work.
    pub spinning: f64,
    /// Fraction of the interval in which its event loop worked or was kept from working: all time between
    /// two waits for its sockets, whoever had the CPU.
    #[serde(default)]
    pub busy: f64,
    /// Fraction of the interval in which it was runnable while another ran on its CPU.
    #[serde(default)]
    pub waiting: f64,
    /// Softirq time of the CPU it is pinned to, as a fraction of the interval: the kernel's receive work for
    /// any process. Sampled by timer ticks on most kernels.
    #[serde(default)]
    pub softirq: Option<f64>,
}

/// Arrivals of a one-way load, from all senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrivals {
    /// Datagrams that the receiver counted.
    pub packets: u64,
    /// Datagrams that arrived after a later one of their flow.
    pub reordered: u64,
}

impl Arrivals {
    /// The arrivals after `earlier` ones.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            reordered: self.reordered.saturating_sub(earlier.reordered),
        }
    }
}

/// Open loop: requests due but not sent, by cause. Those that are neither here nor errors were due before
/// the interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NotSent {
    /// Requests given up in the interval and counted as errors: no connection was free within the timeout,
    /// or none could be opened.
    pub blocked: u64,
    /// Requests due at the end of the interval without a free connection.
    pub waiting: u64,
    /// Requests due at the end of the interval that the generator had not sent although a connection was
    /// free.
    pub late: u64,
}

/// Measurements between two cuts.
#[derive(Clone)]
pub struct Interval {
    /// Length: that of the longest thread. With a fixed number of requests some threads end earlier, and a
    /// rate over the mean would never have occurred.
    pub seconds: f64,
    /// Length of the interval in each thread.
    pub(super) spans: Vec<Nanos>,
    /// Requests completed with a good response (HTTP 2xx, an echo). One way: datagrams handed to the
    /// kernel.
    pub requests: u64,
    /// Requests sent, answered or not.
    pub sent: u64,
    /// TCP or unix connections opened, those before the load excluded: without
    /// [`Spec::no_keepalive`](super::Spec::no_keepalive) each replaces one that was lost.
    pub opened: u64,
    /// TLS handshakes that succeeded.
    pub handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub resumed: u64,
    /// Streams that the server allowed on a connection, if fewer than asked for.
    pub streams_allowed: Option<usize>,
    /// Requests sent and unanswered at the end of the interval.
    pub in_flight: u64,
    /// One way: datagrams counted by the sink in the interval, from all senders; `None` without a sink that
    /// reports them, or if it did not respond at the beginning or the end.
    pub received: Option<u64>,
    /// Seconds over which `received` was counted: the query of an overloaded sink has to be repeated, and
    /// then its count covers more than the interval.
    pub received_seconds: f64,
    /// Errors by class. Classes that did not occur are absent.
    pub errors: BTreeMap<ErrorClass, u64>,
    /// Those of `errors` that ended no request in `sent`: failed attempts to connect without one, datagrams that the kernel
    /// refused, and requests given up before they were sent.
    pub errors_not_sent: u64,
    /// Reasons of those errors that have one.
    pub reasons: Reasons,
    /// What ended no request.
    pub events: BTreeMap<Event, u64>,
    /// Latency of completed requests in nanoseconds: from the send in the closed loop, from the
    /// intended send time in the open loop. Empty for one-way loads. See [`Interval::latencies`].
    pub latency: Histogram<u64>,
    /// Age in nanoseconds of each request unanswered at the end of the interval: those in flight and, in the
    /// open loop, those due but not sent. Counts from the same moment as the latency.
    pub unanswered: Histogram<u64>,
    /// Age in nanoseconds of each request given up in the interval: timed out, or due and not sent in time. Counts
    /// from the same moment as the latency.
    pub given_up: Histogram<u64>,
    /// Open loop: requests due but not sent.
    pub not_sent: NotSent,
    /// HTTP: complete responses to requests by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes of responses received: HTTP with heads, TLS without its records; UDP payloads.
    pub bytes: u64,
    /// True if the target could not be reached at the end: in each thread connection attempts have failed
    /// since its last response. Never known one way.
    pub unreachable: bool,
    /// Open loop: delay of sends in nanoseconds caused by the generator itself: from the moment when the
    /// request was due and a connection was free.
    pub send_lag: Histogram<u64>,
    /// Open loop: delay of sends in nanoseconds, whatever the cause.
    pub pacing_error: Histogram<u64>,
    /// By thread: lag of its event loop in nanoseconds: how long it worked between two checks of its
    /// sockets, or by how much a sleep overran.
    pub loop_lag: Vec<Histogram<u64>>,
    /// Way of waiting for the next scheduled request.
    pub pacing: Pacing,
    /// Open loop: requests due per second in the interval.
    pub offered: Option<f64>,
    /// Counts of datagrams, for UDP only.
    pub datagrams: Datagrams,
    /// CPU time of the generator.
    pub client_cpu: Vec<ThreadCpu>,
}

impl ThreadCpu {
    /// Adds `more` of `later` seconds to this one of `earlier` seconds.
    fn add(&mut self, earlier: f64, more: &ThreadCpu, later: f64) {
        let rate = |a, b| mean(a, earlier, b, later);
        self.share = rate(self.share, more.share);
        self.spinning = rate(self.spinning, more.spinning);
        self.busy = rate(self.busy, more.busy);
        self.waiting = rate(self.waiting, more.waiting);
        self.softirq = self.softirq.zip(more.softirq).map(|(a, b)| rate(a, b));
        self.seconds += more.seconds;
        self.user += more.user;
        self.system += more.system;
    }
}

/// Mean of two rates, weighted by their seconds.
fn mean(a: f64, of_a: f64, b: f64, of_b: f64) -> f64 {
    if of_a + of_b > 0.0 { (a * of_a + b * of_b) / (of_a + of_b) } else { 0.0 }
}

fn in_seconds(time: Nanos) -> f64 {
    time as f64 / SECOND as f64
}

/// Longest span, in seconds.
fn longest(spans: &[Nanos]) -> f64 {
    in_seconds(spans.iter().copied().max().unwrap_or(0))
}

/// Omits the thousands of counters in the histograms.
impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("seconds", &self.seconds)
            .field("requests", &self.requests)
            .field("sent", &self.sent)
            .field("in_flight", &self.in_flight)
            .field("not_sent", &self.not_sent)
            .field("received", &self.received)
            .field("errors", &self.errors)
            .field("latency_p99", &quantile(&self.latencies(), 0.99))
            .field("offered", &self.offered)
            .field("client_cpu", &self.client_cpu)
            .finish_non_exhaustive()
    }
}

/// The smaller of two limits, where there are any.
fn fewest(one: Option<usize>, other: Option<usize>) -> Option<usize> {
    one.into_iter().chain(other).min()
}

impl Interval {
    pub(super) fn from_cuts(cuts: &[Cut], pins: &[Option<CpuId>]) -> Self {
        let spans: Vec<Nanos> = cuts.iter().map(|cut| cut.span).collect();
        let seconds = longest(&spans);
        let (mut total, mut unanswered) = (Tally::new(), Unanswered::new());
        let (mut due, mut client_cpu) = (None, Vec::new());
        for (thread, (cut, cpu_pinned)) in cuts.iter().zip(pins).enumerate() {
            total.completed += cut.tally.completed;
            total.sent += cut.tally.sent;
            total.datagrams.add(&cut.tally.datagrams);
            total.blocked += cut.tally.blocked;
            total.bytes += cut.tally.bytes;
            add_counts(&mut total.statuses, &cut.tally.statuses);
            add_counts(&mut total.errors, &cut.tally.errors);
            total.not_sent += cut.tally.not_sent;
            total.reasons.add(&cut.tally.reasons);
            add_counts(&mut total.events, &cut.tally.events);
            total.opened += cut.tally.opened;
            total.handshakes += cut.tally.handshakes;
            total.resumed += cut.tally.resumed;
            total.streams_allowed = fewest(total.streams_allowed, cut.tally.streams_allowed);
            add(&mut total.latency, &cut.tally.latency);
            add(&mut total.given_up, &cut.tally.given_up);
            add(&mut total.lag, &cut.tally.lag);
            add(&mut total.late, &cut.tally.late);
            due = cut.due.map(|fresh| due.unwrap_or(0) + fresh).or(due);
            unanswered.add(&cut.unanswered);
            let share = |time: Nanos| if cut.span == 0 { 0.0 } else { time as f64 / cut.span as f64 };
            client_cpu.push(ThreadCpu {
                thread,
                cpu_pinned: *cpu_pinned,
                seconds: in_seconds(cut.taken.cpu),
                user: in_seconds(cut.taken.user),
                system: in_seconds(cut.taken.system),
                share: share(cut.taken.cpu),
                spinning: share(cut.tally.spun.min(cut.taken.cpu)),
                busy: share(cut.tally.busy),
                waiting: share(cut.taken.waited),
                softirq: None,
            });
        }
        Self {
            seconds,
            spans,
            requests: total.completed,
            sent: total.sent,
            opened: total.opened,
            handshakes: total.handshakes,
            resumed: total.resumed,
            streams_allowed: total.streams_allowed,
            in_flight: unanswered.in_flight,
            received: None,
            received_seconds: 0.0,
            errors: total.errors,
            errors_not_sent: total.not_sent,
            reasons: total.reasons,
            events: total.events,
            latency: total.latency,
            unanswered: unanswered.ages,
            given_up: total.given_up,
            statuses: total.statuses,
            bytes: total.bytes,
            unreachable: !cuts.is_empty() && cuts.iter().all(|cut| cut.unreachable),
            not_sent: NotSent { blocked: total.blocked, waiting: unanswered.waiting, late: unanswered.late },
            send_lag: total.lag,
            pacing_error: total.late,
            loop_lag: cuts.iter().map(|cut| cut.tally.loops.clone()).collect(),
            pacing: Pacing::default(),
            offered: due.map(|due| if seconds > 0.0 { due as f64 / seconds } else { 0.0 }),
            datagrams: total.datagrams,
            client_cpu,
        }
    }

    /// Joins this interval with the `later` one that follows it.
    #[must_use]
    pub fn then(mut self, later: &Interval) -> Interval {
        let spans: Vec<Nanos> = self.spans.iter().zip(&later.spans).map(|(a, b)| a + b).collect();
        let seconds = longest(&spans);
        self.offered = match (self.offered, later.offered) {
            // The due requests do not change.
            (Some(a), Some(b)) if seconds > 0.0 => Some((a * self.seconds + b * later.seconds) / seconds),
            (Some(_), Some(_)) => Some(0.0),
            (one, other) => one.or(other),
        };
        let threads = self.spans.iter().zip(&later.spans);
        for ((cpu, more), (a, b)) in self.client_cpu.iter_mut().zip(&later.client_cpu).zip(threads) {
            cpu.add(in_seconds(*a), more, in_seconds(*b));
        }
        self.in_flight = later.in_flight;
        self.unanswered.clone_from(&later.unanswered);
        self.unreachable = later.unreachable;
        let blocked = self.not_sent.blocked + later.not_sent.blocked;
        self.not_sent = NotSent { blocked, ..later.not_sent };
        let told = [&self, later].map(|interval| interval.received.is_some());
        self.received = self.received.zip(later.received).map(|(a, b)| a + b);
        self.received_seconds += later.received_seconds;
        self.add_counts(later);
        if told[0] != told[1] {
            // The sink's count is known for one part only.
            self.datagrams.reordered = None;
        }
        for (lag, more) in self.loop_lag.iter_mut().zip(&later.loop_lag) {
            add(lag, more);
        }
        (self.seconds, self.spans) = (seconds, spans);
        self
    }

    /// Adds the counts and times of `more` requests, wherever and whenever they were sent.
    pub(super) fn add_counts(&mut self, more: &Interval) {
        self.requests += more.requests;
        self.sent += more.sent;
        self.opened += more.opened;
        self.handshakes += more.handshakes;
        self.resumed += more.resumed;
        self.streams_allowed = fewest(self.streams_allowed, more.streams_allowed);
        self.bytes += more.bytes;
        add_counts(&mut self.statuses, &more.statuses);
        add_counts(&mut self.errors, &more.errors);
        self.errors_not_sent += more.errors_not_sent;
        self.reasons.add(&more.reasons);
        add_counts(&mut self.events, &more.events);
        self.datagrams.add(&more.datagrams);
        add(&mut self.latency, &more.latency);
        add(&mut self.given_up, &more.given_up);
        add(&mut self.send_lag, &more.send_lag);
        add(&mut self.pacing_error, &more.pacing_error);
    }

    /// Adds the arrivals; without them, they are unknown.
    #[must_use]
    pub fn with_arrivals(mut self, arrivals: Option<Arrivals>) -> Interval {
        if let Some(arrivals) = arrivals {
            self.received = Some(arrivals.packets);
            self.received_seconds = self.seconds;
            self.datagrams.reordered = Some(arrivals.reordered);
        }
        self
    }

    /// Completed requests per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 }
    }

    /// One way: datagrams arrived per second; `None` if the sink did not report.
    pub fn arrival_rate(&self) -> Option<f64> {
        self.received
            .filter(|_| self.received_seconds > 0.0)
            .map(|count| count as f64 / self.received_seconds)
    }

    /// Sum of the errors of all classes.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Failed requests. Those discarded behind an announced end of their connection are excluded, and so are
    /// those that the generator was too slow to send: they say nothing about the target.
    pub fn failed(&self) -> u64 {
        failed(&self.errors, self.not_sent.blocked)
    }

    /// [`Interval::failed`] as a fraction of all ended requests.
    pub fn error_share(&self) -> f64 {
        let failed = self.failed();
        let ended = self.requests + failed;
        if ended == 0 { 0.0 } else { failed as f64 / ended as f64 }
    }

    /// Latencies of all requests in nanoseconds, unanswered and given up ones with their age: they took at least that
    /// long. Without them a target that stops responding shows only its earlier responses, and one whose slow responses
    /// are given up only its fast ones.
    pub fn latencies(&self) -> Histogram<u64> {
        together(&self.latency, &self.unfinished())
    }

    /// Ages of the requests without a response, whether they still wait or were given up.
    pub fn unfinished(&self) -> Histogram<u64> {
        together(&self.unanswered, &self.given_up)
    }

    /// True if a quantile of [`Interval::latencies`] is only a lower bound: it lies among unanswered
    /// requests, and would be more than a tenth higher if they were never answered.
    pub fn is_lower_bound(&self, q: f64) -> bool {
        is_lower_bound(&self.latency, &self.unfinished(), q)
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Interval, NotSent, SECOND, Tally, Unanswered};
    use crate::ErrorClass;
    use crate::tally::Taken;
    use rxlab_base::units::CpuId;

    fn cut(latencies: impl IntoIterator<Item = u64>, span: u64, due: Option<u64>) -> Cut {
        let mut tally = Tally::new();
        latencies.into_iter().for_each(|latency| tally.complete(latency));
        tally.sent = tally.completed;
        tally.error(ErrorClass::Reset, 2);
        tally.busy = span / 4;
        let taken = Taken { cpu: span / 2, user: span / 8, system: span * 3 / 8, waited: span / 5 };
        let mut unanswered = Unanswered::new();
        unanswered.add_sent(1, 0, 7_000);
        unanswered.add_due([(0, 1), (3_000, 1)].into_iter(), false, 9_000);
        tally.blocked = 1;
        tally.status(200, 5);
        tally.bytes = 700;
        Cut { tally, span, taken, due, unanswered, unreachable: span == SECOND }
    }

    /// 2 % of the responses took longer than the timeout of a second: p99 once was that of the others.
    #[test]
    fn what_was_given_up_took_at_least_its_age() {
        let mut tally = Tally::new();
        tally.complete_all(9_800, 1_000_000);
        tally.timed_out(200, SECOND);
        let interval = Interval::from_cuts(&[Cut::second(tally)], &[None]);
        assert!(interval.latencies().value_at_quantile(0.99) >= 999_000_000);
        assert!(interval.is_lower_bound(0.99) && !interval.is_lower_bound(0.5));
        assert!(interval.latencies().mean() > 20_000_000.0);
        let later = Interval::from_cuts(&[Cut::second(Tally::new())], &[None]);
        assert_eq!(interval.then(&later).latencies().len(), 10_000, "they stay in the sum");
    }

    /// With a number of requests a thread may end long before the others.
    #[test]
    fn a_thread_that_ended_early_makes_no_rate_higher() {
        let pins = [None, None];
        let early = cut([1_000; 100], SECOND / 10, None);
        let first = Interval::from_cuts(&[early, cut([1_000; 900], SECOND, None)], &pins);
        assert_eq!((first.seconds, first.rate()), (1.0, 1000.0));
        let last = Interval::from_cuts(&[cut([], 0, None), cut([1_000; 800], SECOND, None)], &pins);
        let both = first.then(&last);
        assert_eq!((both.seconds, both.rate()), (2.0, 900.0));
        assert_eq!((both.client_cpu[0].share, both.client_cpu[1].share), (0.5, 0.5), "of its own time");
    }

    /// Threads are cut one after the other: the sum of the longest spans exceeds the total length.
    #[test]
    fn intervals_add_up_to_the_time_that_went_by() {
        let cut = |span| cut([], span, None);
        let first = Interval::from_cuts(&[cut(1_100_000_000), cut(900_000_000)], &[None, None]);
        let both = first.then(&Interval::from_cuts(&[cut(900_000_000), cut(1_100_000_000)], &[None, None]));
        assert_eq!(both.seconds, 2.0);
    }

    #[test]
    fn threads_and_intervals_add_up() {
        let pins = [Some(CpuId(1)), None];
        let first = Interval::from_cuts(
            &[cut([1_000, 2_000], 2 * SECOND, Some(10)), cut([3_000], 2 * SECOND, Some(8))],
            &pins,
        );
        assert_eq!((first.requests, first.sent, first.in_flight, first.unanswered.len()), (3, 3, 2, 6));
        assert_eq!(first.not_sent, NotSent { blocked: 2, waiting: 4, late: 0 });
        assert_eq!((first.statuses[&200], first.bytes, first.unreachable), (10, 1400, false));
        assert_eq!(first.offered, Some(9.0));
        assert_eq!(first.errors[&ErrorClass::Reset], 4);
        assert_eq!(first.client_cpu[0].share, 0.5);
        let second = Interval::from_cuts(&[cut([5_000], SECOND, Some(3)), cut([], SECOND, Some(0))], &pins);
        let both = first.then(&second);
        assert_eq!((both.requests, both.seconds, both.latency.len()), (4, 3.0, 4));
        // Unanswered requests are those of the end, given up ones those of the whole time.
        assert_eq!((both.in_flight, both.unanswered.len(), both.latencies().len()), (2, 6, 10));
        assert_eq!(both.not_sent, NotSent { blocked: 4, waiting: 4, late: 0 });
        assert_eq!((both.statuses[&200], both.bytes, both.unreachable), (20, 2800, true));
        assert_eq!(both.offered, Some(7.0));
        let cpu = &both.client_cpu[0];
        assert_eq!((cpu.seconds, cpu.user, cpu.system), (1.5, 0.375, 1.125));
        assert_eq!((cpu.busy, cpu.softirq), (0.25, None));
        assert!((cpu.waiting - 0.2).abs() < 1e-9, "{}", cpu.waiting);
        assert_eq!(both.errors[&ErrorClass::Reset], 8);
        assert!((both.error_share() - 8.0 / 12.0).abs() < 1e-12);
        let mut polite = both;
        polite.errors = [(ErrorClass::Discarded, 5)].into();
        assert_eq!((polite.error_share(), polite.error_count()), (0.0, 5));

        let mut slow = polite;
        slow.errors = [(ErrorClass::Unsent, 6)].into();
        slow.not_sent.blocked = 0;
        assert_eq!((slow.error_share(), slow.error_count()), (0.0, 6), "the generator was too slow");
        slow.not_sent.blocked = 6;
        assert!(slow.error_share() > 0.5, "the target kept every connection busy");
    }
}
