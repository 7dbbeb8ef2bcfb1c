//! What programs in the kernel cost, from the kernel's own count of their run time.
//!
//! To count takes the kernel two looks at a clock for each run, which is as long as the shortest of the programs
//! take. So it counts for a small part of the time, and what it counted is extrapolated.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::steal::Cost;

/// How long the kernel counts at a time ...
const ON: Duration = Duration::from_millis(20);
/// ... and how long it then does not. Slots of a trial are longer than both together.
const OFF: Duration = Duration::from_millis(230);

/// Counts until it is dropped.
#[derive(Debug)]
pub(super) struct RunTime {
    state: Arc<Mutex<State>>,
    /// Dropped to end the thread.
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// For how long the kernel has counted.
#[derive(Debug, Clone, Copy)]
struct State {
    begun: Instant,
    ended: Option<Instant>,
    counted: Duration,
    counts_since: Option<Instant>,
}

impl State {
    fn pause(&mut self, now: Instant) {
        self.counted += self.counts_since.take().map_or(Duration::ZERO, |since| now - since);
    }
}

/// What was counted since the programs were attached, and in how much of that time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CostSoFar {
    pub(super) ns: u64,
    pub(super) runs: u64,
    pub(super) missed: u64,
    counted: Duration,
    elapsed: Duration,
}

impl CostSoFar {
    /// What was spent since `earlier`, as far as was counted, as if all of it had been counted. `None` when
    /// nothing of that time was.
    pub fn since(&self, earlier: &Self) -> Option<Cost> {
        let counted = self.counted.saturating_sub(earlier.counted).as_secs_f64();
        let elapsed = self.elapsed.saturating_sub(earlier.elapsed).as_secs_f64();
        let whole = |now: u64, before: u64| (now.saturating_sub(before) as f64 * elapsed / counted) as u64;
        (counted > 0.0).then(|| Cost {
            ns: whole(self.ns, earlier.ns),
            runs: whole(self.runs, earlier.runs),
            // That is counted always.
            missed: self.missed.saturating_sub(earlier.missed),
            of_ns: (elapsed * 1e9) as u64,
        })
    }
}

impl RunTime {
    /// Begins to count; `None` where that is not allowed.
    pub(super) fn start() -> Option<Self> {
        let counts = enable()?;
        let now = Instant::now();
        let state = State { begun: now, ended: None, counted: Duration::ZERO, counts_since: Some(now) };
        let state = Arc::new(Mutex::new(state));
        let (ends, ended) = channel();
        let of_thread = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("run-time".to_owned());
        let thread = thread.spawn(move || count(&of_thread, counts, &ended)).ok()?;
        Some(Self { state, ends: Some(ends), thread: Some(thread) })
    }

    /// Ends the counting: what the programs do from now on is not theirs to be charged with.
    pub(super) fn stop(&mut self) {
        self.ends = None;
        if let Some(thread) = self.thread.take() {
            // It does nothing that can panic, and has nothing to say.
            let _ = thread.join();
        }
    }

    /// `ns`, `runs`, `missed` are what the kernel has counted so far.
    pub(super) fn so_far(&self, ns: u64, runs: u64, missed: u64) -> CostSoFar {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        CostSoFar {
            ns,
            runs,
            missed,
            counted: state.counted + state.counts_since.map_or(Duration::ZERO, |since| now - since),
            elapsed: state.ended.unwrap_or(now) - state.begun,
        }
    }
}

impl Drop for RunTime {
    fn drop(&mut self) {
        self.stop();
    }
}

fn count(state: &Mutex<State>, mut counts: OwnedFd, ended: &Receiver<()>) {
    let goes_on = |time| matches!(ended.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    let state = || state.lock().unwrap_or_else(PoisonError::into_inner);
    while goes_on(ON) {
        drop(counts);
        state().pause(Instant::now());
        if !goes_on(OFF) {
            break;
        }
        // Allowed once, and no longer: what was counted until then has to do.
        let Some(again) = enable() else { break };
        counts = again;
        state().counts_since = Some(Instant::now());
    }
    let now = Instant::now();
    state().pause(now);
    state().ended = Some(now);
}

/// As long as one holds this, the kernel counts the run time of all programs.
#[allow(unsafe_code)]
fn enable() -> Option<OwnedFd> {
    // SAFETY: a plain system call; it takes a number and gives a descriptor or a negative errno.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: not negative, so it is a descriptor that was just made and has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Cost, CostSoFar};

    fn so_far(ns: u64, runs: u64, missed: u64, counted: u64, elapsed: u64) -> CostSoFar {
        let [counted, elapsed] = [counted, elapsed].map(Duration::from_millis);
        CostSoFar { ns, runs, missed, counted, elapsed }
    }

    #[test]
    fn a_part_is_counted_and_all_of_it_is_told() {
        let (first, last) = (so_far(1_000, 10, 1, 20, 500), so_far(3_000, 30, 4, 60, 1_000));
        assert_eq!(last.since(&first), Some(Cost { ns: 25_000, runs: 250, missed: 3, of_ns: 500_000_000 }));
        assert_eq!(
            first.since(&CostSoFar::default()),
            Some(Cost { ns: 25_000, runs: 250, missed: 1, of_ns: 500_000_000 })
        );
        assert_eq!(first.since(&first), None);
    }
}
