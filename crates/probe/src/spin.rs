//! A thread that should have its CPU to itself, and measures the time it misses.
//!
//! It works in pieces of about a microsecond and reads the clock after each. A piece that took much
//! longer than an undisturbed one was interrupted, and the extra time was taken away. It makes
//! no system calls and touches almost no memory: an interruption shows as time alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Pid;

use super::inference::{Method, Seen};
use rxlab_base::compute::compute;
use rxlab_base::units::{CpuId, Fact};
use rxlab_sys::{pin_thread, thread_ran_and_waited_ns};

/// Target length of a piece, in nanoseconds.
const PIECE_NS: u128 = 1_000;
/// Extra time a piece may take for other reasons: a busy hyper-thread sibling, a lower clock. The shortest
/// interruption takes about as long.
const SLACK_NS: u64 = 1_000;
/// Pieces of which the shortest is taken as undisturbed.
const CALIBRATION: u32 = 2_000;

/// A thread that works until it is stopped or dropped.
#[derive(Debug)]
pub struct Spin {
    cpu: CpuId,
    shared: Arc<Shared>,
    number: Pid,
    thread: Option<JoinHandle<Seen>>,
}

/// State shared with the thread, which alone writes the counts.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    wall_ns: AtomicU64,
    missing_ns: AtomicU64,
    interruptions: AtomicU64,
}

impl Shared {
    /// The counts, with the scheduler's figures for the thread since it started.
    fn seen(&self, cpu: CpuId, thread: Pid) -> Seen {
        let spent = thread_ran_and_waited_ns(thread);
        let fact = |ns: Option<u64>| ns.map_or(Fact::Unsupported, Fact::Known);
        Seen {
            method: Method::Spin,
            cpu,
            wall_ns: self.wall_ns.load(Ordering::Relaxed),
            missing_ns: self.missing_ns.load(Ordering::Relaxed),
            interruptions: Fact::Known(self.interruptions.load(Ordering::Relaxed)),
            waiting_ns: fact(spent.map(|(_, waited)| waited)),
            believed_ns: fact(spent.map(|(ran, _)| ran)),
        }
    }
}

impl Spin {
    /// Starts on this CPU; returns when the thread runs and has begun.
    ///
    /// # Errors
    /// EINVAL when the CPU is offline, absent or not allowed; EAGAIN when no thread can be started.
    pub fn start(cpu: CpuId) -> Result<Self, Errno> {
        let shared = Arc::new(Shared::default());
        let (ready, started) = channel();
        let told = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("spin".to_owned()).spawn(move || {
            let number = rustix::thread::gettid();
            let pinned = pin_thread(cpu).map(|()| number);
            // The other end waits for exactly this message.
            let _ = ready.send(pinned);
            if pinned.is_ok() { work(&told, cpu, number) } else { told.seen(cpu, number) }
        });
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        let number = started.recv().expect("the thread reports before it works")?;
        Ok(Self { cpu, shared, number, thread: Some(thread) })
    }

    /// Time missed so far.
    pub fn seen(&self) -> Seen {
        self.shared.seen(self.cpu, self.number)
    }

    /// Stops, and returns the time missed.
    pub(super) fn stop(mut self) -> Seen {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken here alone");
        thread.join().expect("the thread does not panic")
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Nothing left to report.
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, cpu: CpuId, thread: Pid) -> Seen {
    let piece = |rounds: u32| {
        let begun = Instant::now();
        compute(u64::from(rounds));
        begun.elapsed().as_nanos()
    };
    let shortest = |rounds| (0..CALIBRATION).map(|_| piece(rounds)).min().expect("some pieces").max(1);
    let first = shortest(100);
    let rounds = u32::try_from(PIECE_NS * 100 / first).unwrap_or(100).clamp(1, 10_000);
    let undisturbed = u64::try_from(shortest(rounds)).unwrap_or(u64::MAX);
    let before = shared.seen(cpu, thread);
    let begun = Instant::now();
    let (mut last, mut missing, mut interruptions) = (0, 0, 0);
    while !shared.stop.load(Ordering::Relaxed) {
        compute(u64::from(rounds));
        let now = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let took = now - last;
        if took > undisturbed + SLACK_NS {
            missing += took - undisturbed;
            interruptions += 1;
            shared.missing_ns.store(missing, Ordering::Relaxed);
            shared.interruptions.store(interruptions, Ordering::Relaxed);
        }
        last = now;
        shared.wall_ns.store(now, Ordering::Relaxed);
    }
    shared.seen(cpu, thread).since(&before)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::io::Errno;

    use super::Spin;
    use rxlab_base::units::CpuId;
    use rxlab_sys::allowed_cpus;

    /// Lets it work for so long; other tests may have its CPU for a while.
    fn works_for(spin: &Spin, length: Duration) {
        let (wanted, begun) = (spin.seen().wall_ns + length.as_nanos() as u64, Instant::now());
        while spin.seen().wall_ns < wanted && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_is_missed_is_part_of_the_time() {
        let cpu = allowed_cpus().first().expect("it runs somewhere");
        // Time that others ran meanwhile can only be missed time. The scheduler's sum and ours are not read
        // at the same moment, and on a busy machine others may run in between.
        let is_part = || {
            let spin = Spin::start(cpu).expect("started");
            works_for(&spin, Duration::from_millis(50));
            let seen = spin.stop();
            assert!(seen.wall_ns >= 50_000_000 && seen.missing_ns <= seen.wall_ns, "{seen:?}");
            let waited = *seen.waiting_ns.known().expect("readable");
            waited < seen.missing_ns + seen.wall_ns / 5 + 5_000_000
        };
        assert!((0..20).any(|_| is_part()));
    }

    /// A long trial reads one witness at the ends of each slot.
    #[test]
    fn two_looks_have_the_time_between_them() {
        let cpu = allowed_cpus().first().expect("it runs somewhere");
        let spin = Spin::start(cpu).expect("started");
        works_for(&spin, Duration::from_millis(20));
        let first = spin.seen();
        works_for(&spin, Duration::from_millis(20));
        let between = spin.seen().since(&first);
        assert!(between.wall_ns >= 20_000_000 && between.missing_ns <= between.wall_ns, "{between:?}");
        assert!(spin.stop().wall_ns >= first.wall_ns + between.wall_ns);
    }

    #[test]
    fn an_absent_cpu_is_refused() {
        assert_eq!(Spin::start(CpuId(60_000)).err(), Some(Errno::INVAL));
    }
}
