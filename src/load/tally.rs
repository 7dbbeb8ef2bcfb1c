//! Counts and times of one thread between two cuts.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::clock::Nanos;
use super::datagrams::Datagrams;
use super::error_class::ErrorClass;
use super::histogram::{add, new_histogram};

/// Counts of one thread. Only that thread touches them until it hands them over.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) sent: u64,
    /// Connections opened.
    pub(super) opened: u64,
    /// TLS connections opened.
    pub(super) handshakes: u64,
    pub(super) errors: [u64; ErrorClass::ALL.len()],
    /// HTTP: complete responses by status.
    pub(super) statuses: Vec<(u16, u64)>,
    /// Bytes of responses read.
    pub(super) bytes: u64,
    /// Errors of class [`ErrorClass::Connect`] since the target's last response, over all cuts.
    pub(super) unreached: u64,
    /// Scheduled requests given up because no connection was free, or none could be opened.
    pub(super) blocked: u64,
    pub(super) latency: Histogram<u64>,
    pub(super) lag: Histogram<u64>,
    pub(super) late: Histogram<u64>,
    /// Lag of the event loop.
    pub(super) loops: Histogram<u64>,
    /// Time spent polling for the next send; see [`Pacing::Precise`].
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
            errors: [0; ErrorClass::ALL.len()],
            statuses: Vec::new(),
            bytes: 0,
            unreached: 0,
            blocked: 0,
            latency: new_histogram(),
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
        let count = |class: ErrorClass| self.errors[class as usize];
        let own = count(ErrorClass::Unsent).saturating_sub(self.blocked);
        let all: u64 = self.errors.iter().sum();
        let most = ErrorClass::ALL.into_iter().max_by_key(|class| count(*class));
        SoFar {
            requests: self.completed,
            failed: all - count(ErrorClass::Discarded) - own,
            class: most.filter(|class| count(*class) > 0),
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

    /// A scheduled request is given up before being sent; `blocked`: no connection was free for it.
    pub(super) fn unsent(&mut self, blocked: bool) {
        self.error(ErrorClass::Unsent, 1);
        self.blocked += u64::from(blocked);
    }

    /// Counts `count` complete responses with this status.
    pub(super) fn status(&mut self, status: u16, count: u64) {
        match self.statuses.iter_mut().find(|(known, _)| *known == status) {
            Some((_, sum)) => *sum += count,
            None => self.statuses.push((status, count)),
        }
    }

    pub(super) fn error(&mut self, class: ErrorClass, count: usize) {
        if class == ErrorClass::Connect {
            self.unreached += count as u64;
        }
        self.errors[class as usize] += count as u64;
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
    /// CPU time.
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

    /// Adds requests that are `due` but not sent; `is_free`: a connection could take one.
    pub(super) fn add_due(&mut self, due: impl Iterator<Item = Nanos>, is_free: bool, now: Nanos) {
        let kind = if is_free { &mut self.late } else { &mut self.waiting };
        for intended in due {
            *kind += 1;
            self.ages.saturating_record(now.saturating_sub(intended));
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
