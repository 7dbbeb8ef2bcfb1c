//! What an inter-processor interrupt costs: who sends it, and who is hit.
//!
//! As in `bare`, a thread asks for memory barriers (membarrier(2)), each of which interrupts the CPU where another
//! thread of this process works. Here single calls and single gaps are timed, and the medians taken: that
//! takes a fraction of a second and holds on a busy machine, where means hold what the scheduler did meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier};

use super::NoBare;
use crate::host::{allowed_cpus, pin_thread};
use crate::units::CpuId;

/// Calls that count, at most, and how long to try.
const CALLS: usize = 2_000;
const TIME: Duration = Duration::from_millis(300);
/// Fewer say nothing.
const LEAST: usize = 50;
/// Between two calls: long enough for the other thread to be at work again.
const PAUSE: Duration = Duration::from_micros(20);
/// A piece of work that takes so many times the usual was interrupted.
const INTERRUPTED: u64 = 4;

/// The cost of an inter-processor interrupt, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ipi {
    /// From asking for it until it is handled.
    pub send_ns: f64,
    /// What is missing on the CPU that it hits.
    pub take_ns: f64,
}

/// Measures it towards this CPU.
///
/// # Errors
/// Where there is no second CPU, the kernel has no such call, or the CPU was never free for it.
pub fn ipi(cpu: CpuId) -> Result<Ipi, NoBare> {
    let kernel = |errno| NoBare::Kernel(cpu, errno);
    let from = allowed_cpus().iter().find(|other| *other != cpu).ok_or(NoBare::OneCpu)?;
    membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(kernel)?;
    let (pieces, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    let (calls, gaps) = std::thread::scope(|scope| {
        let works = scope.spawn(|| pin_thread(cpu).map(|()| work(&pieces, &ends)));
        let sends = scope.spawn(|| pin_thread(from).map(|()| send(&pieces)));
        let calls = sends.join().expect("the thread does not panic");
        ends.store(true, Ordering::Relaxed);
        (calls, works.join().expect("the thread does not panic"))
    });
    let (calls, gaps) = (calls.map_err(kernel)?, gaps.map_err(kernel)?);
    match (median(calls), median(gaps)) {
        // Who asks waits until it is handled: what it takes there is no more than that.
        (Some(send), Some(take)) => Ok(Ipi { send_ns: send as f64, take_ns: take.min(send) as f64 }),
        _ => Err(kernel(rustix::io::Errno::AGAIN)),
    }
}

/// Works until it is ended; the lengths of the interruptions.
fn work(pieces: &AtomicU64, ends: &AtomicBool) -> Vec<u64> {
    let mut lengths = Vec::with_capacity(1 << 20);
    let mut last = Instant::now();
    while !ends.load(Ordering::Relaxed) && lengths.len() < lengths.capacity() {
        let now = Instant::now();
        lengths.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        pieces.fetch_add(1, Ordering::Relaxed);
        last = now;
    }
    let usual = median(lengths.clone()).unwrap_or(u64::MAX / INTERRUPTED);
    lengths.into_iter().filter(|ns| *ns >= INTERRUPTED * usual.max(1)).map(|ns| ns - usual).collect()
}

/// The lengths of the calls during which the other thread was at work: only then there was somebody to interrupt.
fn send(pieces: &AtomicU64) -> Vec<u64> {
    let begun = Instant::now();
    let mut lengths = Vec::with_capacity(CALLS);
    while lengths.len() < CALLS && begun.elapsed() < TIME {
        let pause = Instant::now();
        let before = pieces.load(Ordering::Relaxed);
        while pause.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        let worked = pieces.load(Ordering::Relaxed);
        let call = Instant::now();
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            break;
        }
        let length = call.elapsed();
        if worked > before && pieces.load(Ordering::Relaxed) > worked {
            lengths.push(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
        }
    }
    lengths
}

/// `None` of too few.
fn median(mut lengths: Vec<u64>) -> Option<u64> {
    let middle = lengths.len() / 2;
    (lengths.len() >= LEAST).then(|| *lengths.select_nth_unstable(middle).1)
}

#[cfg(test)]
mod tests {
    use super::{Ipi, ipi, median};
    use crate::host::allowed_cpus;
    use crate::probe::NoBare;

    #[test]
    fn too_few_have_no_median() {
        assert_eq!(median(vec![1; 49]), None);
        assert_eq!(median((0..101).collect()), Some(50));
    }

    #[test]
    fn one_is_timed_on_both_sides() {
        let allowed = allowed_cpus();
        let cpu = allowed.first().expect("it runs somewhere");
        // On a busy machine the two may have had no turn at the same time.
        let is_told = || match ipi(cpu) {
            Err(NoBare::OneCpu) => allowed.iter().count() == 1,
            Err(NoBare::Kernel(_, rustix::io::Errno::AGAIN)) => false,
            Ok(Ipi { send_ns, take_ns }) => send_ns > 0.0 && take_ns > 0.0 && take_ns <= send_ns,
            Err(error) => panic!("{error}"),
        };
        assert!((0..20).any(|_| is_told()));
    }
}
