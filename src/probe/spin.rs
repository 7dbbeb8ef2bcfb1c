//! A thread that should have its CPU to itself, and sees what it misses.
//!
//! It works in pieces of about a microsecond and looks at the clock after each. A piece that took much
//! longer than an undisturbed one was interrupted, and what it took longer is what was taken away. Nothing
//! in it is a system call, and it touches next to no memory: what steals from it shows as time alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::io::Errno;

use super::compute;
use super::inference::{Method, Seen};
use crate::host::{pin_thread, thread_ran_and_waited_ns};
use crate::units::{CpuId, Fact};

/// How long a piece should take, in nanoseconds.
const PIECE_NS: u128 = 1_000;
/// What a piece may take longer for other reasons: a hyper-thread beside it, a lower clock. The shortest
/// interruption takes about as long.
const SLACK_NS: u128 = 1_000;
/// Pieces of which the shortest is an undisturbed one.
const CALIBRATION: u32 = 2_000;

/// A thread that works until it is stopped or dropped.
#[derive(Debug)]
pub struct Spin {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

impl Spin {
    /// Starts on this CPU; returns when the thread is there and has begun.
    ///
    /// # Errors
    /// EINVAL when the CPU is offline, absent or not allowed; EAGAIN when there is no thread to be had.
    pub fn start(cpu: CpuId) -> Result<Self, Errno> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = channel();
        let flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("spin".to_owned()).spawn(move || {
            let pinned = pin_thread(cpu);
            // The other end waits for exactly this message.
            let _ = ready.send(pinned);
            work(cpu, &flag)
        });
        let thread = thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        let spin = Self { stop, thread: Some(thread) };
        // On an error the drop ends the thread.
        started.recv().expect("the thread reports before it works")?;
        Ok(spin)
    }

    /// Stops, and says what was missed.
    pub(super) fn stop(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken here alone");
        thread.join().expect("the thread does not panic")
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Nothing is left to be said.
            let _ = thread.join();
        }
    }
}

fn work(cpu: CpuId, stop: &AtomicBool) -> Seen {
    let thread = rustix::thread::gettid();
    let piece = |rounds: u32| {
        let begun = Instant::now();
        compute(u64::from(rounds));
        begun.elapsed().as_nanos()
    };
    let shortest = |rounds| (0..CALIBRATION).map(|_| piece(rounds)).min().expect("some pieces").max(1);
    let first = shortest(100);
    let rounds = u32::try_from(PIECE_NS * 100 / first).unwrap_or(100).clamp(1, 10_000);
    let undisturbed = shortest(rounds);
    let before = thread_ran_and_waited_ns(thread);
    let begun = Instant::now();
    let (mut last, mut missing, mut interruptions) = (0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        compute(u64::from(rounds));
        let now = begun.elapsed().as_nanos();
        let took = now - last;
        if took > undisturbed + SLACK_NS {
            missing += took - undisturbed;
            interruptions += 1;
        }
        last = now;
    }
    let spent = thread_ran_and_waited_ns(thread).zip(before);
    let fact = |ns: Option<u64>| ns.map_or(Fact::Unsupported, Fact::Known);
    let whole = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
    Seen {
        method: Method::Spin,
        cpu,
        wall_ns: whole(last).max(1),
        missing_ns: whole(missing),
        interruptions: Fact::Known(interruptions),
        waiting_ns: fact(spent.map(|(now, before)| now.1.saturating_sub(before.1))),
        believed_ns: fact(spent.map(|(now, before)| now.0.saturating_sub(before.0))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::io::Errno;

    use super::Spin;
    use crate::host::allowed_cpus;
    use crate::units::CpuId;

    #[test]
    fn what_is_missed_is_part_of_the_time() {
        let cpu = allowed_cpus().first().expect("it runs somewhere");
        let spin = Spin::start(cpu).expect("started");
        std::thread::sleep(Duration::from_millis(50));
        let seen = spin.stop();
        assert!(seen.wall_ns > 20_000_000 && seen.missing_ns <= seen.wall_ns, "{seen:?}");
        // What others ran meanwhile it can only have missed; the scheduler's sum and ours differ a little.
        let waited = *seen.waiting_ns.known().expect("readable");
        assert!(waited < seen.missing_ns + seen.wall_ns / 5 + 5_000_000, "{seen:?}");
    }

    #[test]
    fn an_absent_cpu_is_refused() {
        assert_eq!(Spin::start(CpuId(60_000)).err(), Some(Errno::INVAL));
    }
}
