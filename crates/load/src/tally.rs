//! Counts and times of one thread between two cuts.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::clock::Nanos;
#[cfg(test)]
use super::clock::SECOND;
use super::datagrams::Datagrams;
use super::error_class::{ErrorClass, lack};
use super::event::Event;
use super::histogram::{add, new_histogram};
use super::reasons::{Failure, Reasons, text};

/// Counts of one thread. Only that thread touches them until it hands them over.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) sent: u64,
    /// TCP or Unix connections opened.
    pub(super) opened: u64,
    /// TLS handshakes that succeeded.
    pub(super) handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub(super) resumed: u64,
    /// Streams that the server allows on a connection, if fewer than asked for.
    pub(super) streams_allowed: Option<usize>,
    pub(super) errors: BTreeMap<ErrorClass, u64>,
    /// Those of `errors` that ended no request in `sent`: failed attempts to connect without one, datagrams that the kernel
    /// refused, and requests given up before they were sent.
    pub(super) not_sent: u64,
    /// Reasons of those errors that have one.
    pub(super) reasons: Reasons,
    /// What ended no request.
    pub(super) events: BTreeMap<Event, u64>,
    /// HTTP: complete responses by status.
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Bytes of responses read.
    pub(super) bytes: u64,
    /// Errors of class [`ErrorClass::Connect`] since the target's last response, over all cuts.
    pub(super) unreached: u64,
    /// Scheduled requests given up because no connection was free, or none could be opened.
    pub(super) blocked: u64,
    pub(super) latency: Histogram<u64>,
    /// Age of each request that was given up: timed out, or due and not sent in time.
    pub(super) given_up: Histogram<u64>,
    pub(super) lag: Histogram<u64>,
    pub(super) late: Histogram<u64>,
    /// Lag of the event loop.
    pub(super) loops: Histogram<u64>,
    /// Time spent polling for the next send; see [`Pacing::Precise`](super::pacing::Pacing::Precise).
    pub(super) spun: Nanos,
    /// Time between the end of a wait for sockets and the start of the next, without `spun`: the event loop
    /// worked, or was runnable while another thread ran.
    pub(super) busy: Nanos,
    pub(super) datagrams: Datagrams,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            completed: 0,
            sent: 0,
            opened: 0,
            handshakes: 0,
            resumed: 0,
            streams_allowed: None,
            errors: BTreeMap::new(),
            not_sent: 0,
            reasons: Reasons::default(),
            events: BTreeMap::new(),
            statuses: BTreeMap::new(),
            bytes: 0,
            unreached: 0,
            blocked: 0,
            latency: new_histogram(),
            given_up: new_histogram(),
            lag: new_histogram(),
            late: new_histogram(),
            loops: new_histogram(),
            spun: 0,
            busy: 0,
            datagrams: Datagrams::default(),
        }
    }

    /// Counts so far, without latencies.
    pub(super) fn so_far(&self) -> SoFar {
        SoFar {
            requests: self.completed,
            failed: failed(&self.errors, self.blocked),
            class: self.errors.iter().max_by_key(|(_, count)| **count).map(|(class, _)| *class),
            ..SoFar::default()
        }
    }

    #[cfg(test)]
    pub(super) fn complete(&mut self, latency: Nanos) {
        self.complete_all(1, latency);
    }

    /// Completes `count` requests with the same latency.
    pub(super) fn complete_all(&mut self, count: usize, latency: Nanos) {
        if count == 0 {
            // The histogram would take a value with a count of 0 for its maximum.
            return;
        }
        self.completed += count as u64;
        self.latency.saturating_record_n(latency, count as u64);
    }

    /// A scheduled request was sent at `now`; it could have been sent since `possible`.
    pub(super) fn scheduled(&mut self, intended: Nanos, possible: Nanos, now: Nanos) {
        self.lag.saturating_record(now.saturating_sub(intended.max(possible)));
        self.late.saturating_record(now.saturating_sub(intended));
    }

    /// `count` requests of the same `age` are given up without a response: they took at least that long.
    pub(super) fn timed_out(&mut self, count: usize, age: Nanos) {
        self.error(ErrorClass::Timeout, count);
        self.given_up.saturating_record_n(age, count as u64);
    }

    /// A scheduled request of this `age` is given up before being sent; `blocked`: no connection was free for it.
    pub(super) fn unsent(&mut self, blocked: bool, age: Nanos) {
        self.error(ErrorClass::Unsent, 1);
        self.not_sent += 1;
        self.given_up.saturating_record(age);
        self.blocked += u64::from(blocked);
    }

    /// Counts `count` complete responses with this status.
    pub(super) fn status(&mut self, status: u16, count: u64) {
        *self.statuses.entry(status).or_default() += count;
    }

    /// Counts `count` > 0 complete HTTP responses, as good unless there is a `failure`.
    pub(super) fn answered(&mut self, status: u16, failure: Option<Failure>, count: usize, latency: Nanos) {
        self.status(status, count as u64);
        match failure {
            None => self.complete_all(count, latency),
            Some(failure) => self.failed_for(failure, count),
        }
    }

    /// Counts `count` errors, possibly none.
    pub(super) fn error(&mut self, class: ErrorClass, count: usize) {
        if count == 0 {
            return;
        }
        if class == ErrorClass::Connect {
            self.unreached += count as u64;
        }
        *self.errors.entry(class).or_default() += count as u64;
    }

    pub(super) fn event(&mut self, event: Event) {
        *self.events.entry(event).or_default() += 1;
    }

    /// Counts `count` errors of the system, possibly none.
    pub(super) fn failed(&mut self, class: ErrorClass, error: &std::io::Error, count: usize) {
        let lack = lack(error.raw_os_error()).filter(|_| class == ErrorClass::Local);
        let reason = lack.map_or_else(|| text(error), str::to_owned);
        self.failed_for(Failure::new(class, reason), count);
    }

    /// Counts a flow that was not admitted.
    pub(super) fn refused_flow(&mut self, reason: String) {
        self.failed_for(Failure::new(ErrorClass::Connect, reason), 1);
        self.not_sent += 1;
    }

    /// Counts `count` errors, possibly none.
    pub(super) fn failed_for(&mut self, Failure { class, reason }: Failure, count: usize) {
        self.error(class, count);
        if let Some(reason) = reason.filter(|_| count > 0) {
            self.reasons.count(class, reason, count as u64);
        }
    }

    /// Counts `count` datagrams that the kernel did not take.
    pub(super) fn unsendable(&mut self, errno: Option<Errno>, count: usize) {
        self.not_sent += count as u64;
        match errno {
            Some(errno) => self.failed(ErrorClass::of_send(errno), &errno.into(), count),
            None => self.error(ErrorClass::Send, count),
        }
    }

    #[cfg(test)]
    pub(super) fn errors_of(&self, class: ErrorClass) -> u64 {
        self.errors.get(&class).copied().unwrap_or(0)
    }
}

/// Failed requests of `errors`. Those discarded behind an announced end of their connection are excluded, and so are
/// those that the generator was too slow to send, all unsent ones but `blocked`, and attempts that failed on this machine:
/// they say nothing about the target.
pub(super) fn failed(errors: &BTreeMap<ErrorClass, u64>, blocked: u64) -> u64 {
    let count = |class| errors.get(&class).copied().unwrap_or(0);
    let own = count(ErrorClass::Unsent).saturating_sub(blocked);
    errors.values().sum::<u64>() - count(ErrorClass::Discarded) - count(ErrorClass::Local) - own
}

/// Adds the counts of `more`.
pub(super) fn add_counts<K: Ord + Copy>(sum: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, count) in more {
        *sum.entry(*key).or_default() += count;
    }
}

/// Counts of an interval that continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoFar {
    /// Requests completed with a good response.
    pub requests: u64,
    /// Failed requests, as in [`Interval::failed`](super::Interval::failed).
    pub failed: u64,
    /// Class of most failures, in the thread that reported some last.
    pub class: Option<ErrorClass>,
    /// Completed and unanswered requests above the limit of latency; 0 without one.
    pub slow: u64,
    /// Completed and unanswered requests; 0 without a limit.
    pub timed: u64,
}

impl SoFar {
    /// Adds the counts of another thread.
    pub(super) fn and(self, more: Self) -> Self {
        Self {
            requests: self.requests + more.requests,
            failed: self.failed + more.failed,
            class: more.class.or(self.class),
            slow: self.slow + more.slow,
            timed: self.timed + more.timed,
        }
    }
}

/// Resources used by a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// CPU time of the thread.
    pub(super) cpu: Nanos,
    /// CPU time by mode, to a hundredth of a second.
    pub(super) user: Nanos,
    pub(super) system: Nanos,
    /// Time in which it was runnable while another ran on its CPU.
    pub(super) waited: Nanos,
}

impl Taken {
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }
}

/// Requests of one thread that are unanswered at a cut.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// Requests that were sent.
    pub(super) in_flight: u64,
    /// Requests due but not sent because no connection is free for them.
    pub(super) waiting: u64,
    /// Requests due but not sent although a connection is free.
    pub(super) late: u64,
    /// Age of each: time since it was sent or due.
    pub(super) ages: Histogram<u64>,
}

impl Unanswered {
    pub(super) fn new() -> Self {
        Self { in_flight: 0, waiting: 0, late: 0, ages: new_histogram() }
    }

    /// Adds `count` requests in flight whose latency counts from `from`.
    pub(super) fn add_sent(&mut self, count: usize, from: Nanos, now: Nanos) {
        self.in_flight += count as u64;
        self.ages.saturating_record_n(now.saturating_sub(from), count as u64);
    }

    /// Adds those of another thread.
    pub(super) fn add(&mut self, more: &Self) {
        self.in_flight += more.in_flight;
        self.waiting += more.waiting;
        self.late += more.late;
        add(&mut self.ages, &more.ages);
    }

    /// Adds requests that are `due` but not sent, by moment and count; `is_free`: a connection could take one.
    pub(super) fn add_due(&mut self, due: impl Iterator<Item = (Nanos, u64)>, is_free: bool, now: Nanos) {
        let kind = if is_free { &mut self.late } else { &mut self.waiting };
        for (intended, count) in due {
            *kind += count;
            self.ages.saturating_record_n(now.saturating_sub(intended), count);
        }
    }
}

/// A thread's tally with the time span that it covers, and the resources used in it.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) tally: Tally,
    pub(super) span: Nanos,
    pub(super) taken: Taken,
    pub(super) due: Option<u64>,
    pub(super) unanswered: Unanswered,
    /// Connection attempts have failed since the target's last response.
    pub(super) unreachable: bool,
}

#[cfg(test)]
impl Cut {
    /// A second of `tally` without unanswered requests.
    pub(super) fn second(tally: Tally) -> Self {
        let (taken, unanswered) = (Taken::default(), Unanswered::new());
        Self { tally, span: SECOND, taken, due: None, unanswered, unreachable: false }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    /// The highest latency of datagrams was once the time since the load began.
    #[test]
    fn no_request_has_no_latency() {
        let mut tally = Tally::new();
        tally.complete_all(0, 5_000_000);
        assert_eq!((tally.completed, tally.latency.max()), (0, 0));
        tally.complete_all(2, 1_000);
        assert_eq!(
            (tally.completed, tally.latency.max(), tally.latency.len()),
            (2, 1_023, 2),
            "as exact as the histogram is"
        );
    }
}
