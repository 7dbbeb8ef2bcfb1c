//! Cost of programs in the kernel, from the kernel's own count of their run time.
//!
//! To count, the kernel reads a clock twice per run, which takes as long as the shortest of the programs. So
//! it counts for a small part of the time, and the counts are extrapolated. Programs that need not run always
//! run in the same part of the time.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::interference::Cost;

/// Length of one counting phase ...
const ON: Duration = Duration::from_millis(20);
/// ... and of the pause after it. Slots of a trial are longer than both together.
const OFF: Duration = Duration::from_millis(230);

/// A program attached only while the kernel counts, unless it is needed always.
pub(super) struct Rare {
    pub(super) program: OwnedFd,
    /// True if it has to be attached always, judging by the measurements so far.
    pub(super) is_needed: Box<dyn Fn() -> bool + Send>,
}

/// Counts until it is dropped.
#[derive(Debug)]
pub(super) struct RunTime {
    state: Arc<Mutex<State>>,
    /// Dropped to end the thread.
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Time for which the kernel has counted.
#[derive(Debug, Clone, Copy)]
struct State {
    begun: Instant,
    ended: Option<Instant>,
    counted: Duration,
    counts_since: Option<Instant>,
    /// Time for which a rare program was attached while the kernel did not count.
    kept: Duration,
    kept_since: Option<Instant>,
}

impl State {
    /// Counting stops; `keeps`: a rare program stays attached.
    fn pause(&mut self, now: Instant, keeps: bool) {
        self.counted += self.counts_since.take().map_or(Duration::ZERO, |since| now - since);
        self.kept_since = keeps.then_some(now);
    }

    fn end(&mut self, now: Instant) {
        self.counted += self.counts_since.take().map_or(Duration::ZERO, |since| now - since);
        self.kept += self.kept_since.take().map_or(Duration::ZERO, |since| now - since);
        self.ended = Some(now);
    }

    fn resume(&mut self, now: Instant) {
        self.kept += self.kept_since.take().map_or(Duration::ZERO, |since| now - since);
        self.counts_since = Some(now);
    }
}

/// Counts since the programs were attached, and the part of that time in which counting was on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CostSoFar {
    pub(super) ns: u64,
    pub(super) runs: u64,
    pub(super) missed: u64,
    /// Of the rare programs.
    pub(super) rare_ns: u64,
    pub(super) rare_runs: u64,
    /// Time for which any of them was attached.
    rare: Duration,
    counted: Duration,
    elapsed: Duration,
}

impl CostSoFar {
    /// Cost since `earlier`, extrapolated from the time in which counting was on. `None` when
    /// it never was.
    pub fn since(&self, earlier: &Self) -> Option<Cost> {
        let counted = self.counted.saturating_sub(earlier.counted).as_secs_f64();
        let elapsed = self.elapsed.saturating_sub(earlier.elapsed).as_secs_f64();
        let rare = self.rare.saturating_sub(earlier.rare).as_secs_f64();
        let whole =
            |now: u64, before: u64, time: f64| (now.saturating_sub(before) as f64 * time / counted) as u64;
        (counted > 0.0).then(|| Cost {
            ns: whole(self.ns, earlier.ns, elapsed) + whole(self.rare_ns, earlier.rare_ns, rare),
            runs: whole(self.runs, earlier.runs, elapsed) + whole(self.rare_runs, earlier.rare_runs, rare),
            // Counted always.
            missed: self.missed.saturating_sub(earlier.missed),
            of_ns: (elapsed * 1e9) as u64,
        })
    }
}

impl RunTime {
    /// Begins to count, with the rare programs attached; returns these if that is not allowed.
    pub(super) fn start(rare: Vec<Rare>) -> Result<Self, Vec<Rare>> {
        let Some(counts) = enable() else { return Err(rare) };
        let rare = rare.into_iter().map(|program| (attach(&program.program), program)).collect();
        let now = Instant::now();
        let state = State {
            begun: now,
            ended: None,
            counted: Duration::ZERO,
            counts_since: Some(now),
            kept: Duration::ZERO,
            kept_since: None,
        };
        let state = Arc::new(Mutex::new(state));
        let (ends, ended) = channel();
        let of_thread = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("run-time".to_owned());
        let thread = thread.spawn(move || count(&of_thread, counts, rare, &ended));
        // As for any thread of this process: without memory for it nothing else would work.
        Ok(Self { state, ends: Some(ends), thread: Some(thread.expect("the kernel makes a thread")) })
    }

    /// Ends the counting: later runs of the programs are not charged to them.
    pub(super) fn stop(&mut self) {
        self.ends = None;
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and returns nothing.
            let _ = thread.join();
        }
    }

    /// Adds the kernel's counts so far.
    pub(super) fn so_far(&self, counted: CostSoFar) -> CostSoFar {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let since = |moment: Option<Instant>| moment.map_or(Duration::ZERO, |moment| now - moment);
        let on = state.counted + since(state.counts_since);
        CostSoFar {
            counted: on,
            rare: on + state.kept + since(state.kept_since),
            elapsed: state.ended.unwrap_or(now) - state.begun,
            ..counted
        }
    }
}

impl Drop for RunTime {
    fn drop(&mut self) {
        self.stop();
    }
}

fn count(
    state: &Mutex<State>,
    mut counts: OwnedFd,
    mut rare: Vec<(Option<OwnedFd>, Rare)>,
    ended: &Receiver<()>,
) {
    let goes_on = |time| matches!(ended.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    let state = || state.lock().unwrap_or_else(PoisonError::into_inner);
    while goes_on(ON) {
        for (link, program) in &mut rare {
            // Detached while it is None.
            *link = link.take().filter(|_| (program.is_needed)());
        }
        drop(counts);
        let keeps = rare.iter().any(|(link, _)| link.is_some());
        state().pause(Instant::now(), keeps);
        if !goes_on(OFF) {
            break;
        }
        for (link, program) in &mut rare {
            *link = link.take().or_else(|| attach(&program.program));
        }
        // It was allowed once, but no longer: the counts until then have to do.
        let Some(again) = enable() else { break };
        counts = again;
        state().resume(Instant::now());
    }
    state().end(Instant::now());
}

/// Attaches a program to its tracepoint while the result is held; `None` if the kernel refuses.
#[allow(unsafe_code)]
pub(super) fn attach(program: &OwnedFd) -> Option<OwnedFd> {
    // SAFETY: a plain system call; without a name the program determines its tracepoint. It returns a
    // descriptor or a negative errno.
    let fd = unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) };
    // SAFETY: not negative, so it is a descriptor that was just made and has no other owner.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// While the result is held, the kernel counts the run time of all programs.
#[allow(unsafe_code)]
fn enable() -> Option<OwnedFd> {
    // SAFETY: a plain system call; it takes a number and returns a descriptor or a negative errno.
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
        CostSoFar { ns, runs, missed, counted, elapsed, ..CostSoFar::default() }
    }

    #[test]
    fn what_runs_only_while_it_is_counted_is_not_extrapolated() {
        for (rare, ns, runs) in [(20, 25_070, 257), (500, 26_750, 425)] {
            let rare = Duration::from_millis(rare);
            let last = CostSoFar { rare_ns: 70, rare_runs: 7, rare, ..so_far(1_000, 10, 0, 20, 500) };
            let cost = last.since(&CostSoFar::default()).expect("counted");
            assert_eq!((cost.ns, cost.runs), (ns, runs));
        }
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
