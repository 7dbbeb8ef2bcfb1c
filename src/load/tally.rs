//! What one thread counts and takes between two cuts.

use hdrhistogram::Histogram;

use super::clock::Nanos;
use super::datagrams::Datagrams;
use super::error_class::ErrorClass;
use super::histogram::new_histogram;

/// What one thread counts. Only that thread touches it, until it hands it over whole.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) sent: u64,
    /// Connections that were opened.
    pub(super) opened: u64,
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
    /// Time between the end of a wait for sockets and the begin of the next, but for `spun`: the event loop
    /// worked, or was to work and another ran.
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
            latency: new_histogram(),
            lag: new_histogram(),
            late: new_histogram(),
            loops: new_histogram(),
            spun: 0,
            busy: 0,
            datagrams: Datagrams::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn complete(&mut self, latency: Nanos) {
        self.complete_all(1, latency);
    }

    /// `count` requests with the same latency.
    pub(super) fn complete_all(&mut self, count: usize, latency: Nanos) {
        if count == 0 {
            // The histogram takes a value for its highest although there is none of it.
            return;
        }
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

/// What a thread took of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    /// CPU time.
    pub(super) cpu: Nanos,
    /// The same by mode, to a hundredth of a second.
    pub(super) user: Nanos,
    pub(super) system: Nanos,
    /// Time for which it could have run and another ran on its CPU.
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

/// A thread's tally with the span of time that it covers, and what the thread took in it.
#[derive(Debug)]
pub(super) struct Cut {
    pub(super) tally: Tally,
    pub(super) span: Nanos,
    pub(super) taken: Taken,
    pub(super) due: Option<u64>,
    pub(super) in_flight: u64,
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
