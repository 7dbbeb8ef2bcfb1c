//! What an interrupt costs that brings nothing.
//!
//! No program in the kernel sees the way into a handler and out of it, nor what a hypervisor does for that;
//! on a virtual machine that may be longer than all the rest. It can be had by experiment: a second thread
//! asks for memory barriers (membarrier(2), `PRIVATE_EXPEDITED`), each of which is an inter-processor
//! interrupt with next to nothing to do on the CPU where [`Spin`] works. What that misses more, by interrupt,
//! is the cost; as it does in windows that take turns, traffic meanwhile does no harm.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use serde::{Deserialize, Serialize};

use super::Spin;
use super::inference::Seen;
use crate::host::{allowed_cpus, pin_thread};
use crate::units::CpuId;

/// Pairs of windows; the cost is the median of theirs.
const PAIRS: usize = 11;
/// Long enough for some hundred interrupts, short enough for the machine to be the same in both.
const WINDOW: Duration = Duration::from_millis(25);
/// How far apart interrupts are sent: the cost of each falls when they come so densely that the CPU never
/// gets out of them.
const GAPS: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(1));

/// The cost of an interrupt that brings nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bare {
    /// Nanoseconds on the CPU that is interrupted.
    pub ns: u64,
    /// Nanoseconds on the CPU that sends it, which waits until it is handled.
    pub sender_ns: u64,
    /// How many were sent in a second.
    pub rate: u64,
}

/// There is no way to send one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoBare {
    /// Nobody else to send it.
    #[error("there is no second CPU")]
    OneCpu,
    /// A thread cannot run there, or the kernel has no membarrier(2).
    #[error("cannot interrupt CPU {0}: {1}")]
    Kernel(CpuId, Errno),
}

/// One window with interrupts that bring nothing.
struct Poked {
    calls: u64,
    length: Duration,
    inside: Duration,
}

/// Measures it on this CPU, with about `rate` of them in a second. Takes half a second.
///
/// # Errors
/// Where this cannot be done on this machine.
pub fn bare(cpu: CpuId, rate: f64) -> Result<Bare, NoBare> {
    let kernel = |errno| NoBare::Kernel(cpu, errno);
    let from = allowed_cpus().iter().filter(|other| *other != cpu).min_by_key(|other| (*other < cpu, *other));
    let from = from.ok_or(NoBare::OneCpu)?;
    membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(kernel)?;
    let gap =
        Duration::from_secs_f64((1.0 / rate.max(1.0)).clamp(GAPS.0.as_secs_f64(), GAPS.1.as_secs_f64()));
    let (mut costs, mut calls, mut inside, mut length) = (Vec::new(), 0, Duration::ZERO, Duration::ZERO);
    for _ in 0..PAIRS {
        let quiet = window(cpu).map_err(kernel)?;
        let stop = AtomicBool::new(false);
        let (seen, poked) = std::thread::scope(|scope| {
            let poker = scope.spawn(|| poke(from, gap, &stop));
            let seen = window(cpu);
            stop.store(true, Ordering::Relaxed);
            (seen, poker.join().expect("the thread does not panic"))
        });
        let (seen, poked) = (seen.map_err(kernel)?, poked.map_err(kernel)?);
        costs.extend(cost(&quiet, &seen, &poked));
        calls += poked.calls;
        inside += poked.inside;
        length += poked.length;
    }
    costs.sort_by(f64::total_cmp);
    let median = costs.get(costs.len() / 2).ok_or(kernel(Errno::AGAIN))?;
    Ok(Bare {
        ns: median.max(0.0) as u64,
        sender_ns: u64::try_from(inside.as_nanos())
            .unwrap_or(u64::MAX)
            .checked_div(calls)
            .unwrap_or_default(),
        rate: (calls as f64 / length.as_secs_f64()) as u64,
    })
}

fn window(cpu: CpuId) -> Result<Seen, Errno> {
    let spin = Spin::start(cpu)?;
    std::thread::sleep(WINDOW);
    Ok(spin.stop())
}

/// Sends them from this CPU until it is stopped.
fn poke(from: CpuId, gap: Duration, stop: &AtomicBool) -> Result<Poked, Errno> {
    pin_thread(from)?;
    let begun = Instant::now();
    let (mut calls, mut inside, mut last) = (0, Duration::ZERO, begun);
    while !stop.load(Ordering::Relaxed) {
        membarrier(MembarrierCommand::PrivateExpedited)?;
        let now = Instant::now();
        inside += now - last;
        calls += 1;
        last = now;
        while last - now < gap && !stop.load(Ordering::Relaxed) {
            last = Instant::now();
        }
    }
    Ok(Poked { calls, length: begun.elapsed(), inside })
}

/// Nanoseconds of one interrupt: what is missed beside the others, of which each costs what it does in the
/// quiet window. `None` when hardly any came.
fn cost(quiet: &Seen, seen: &Seen, poked: &Poked) -> Option<f64> {
    let lost = |seen: &Seen| {
        let waiting = seen.waiting_ns.known().copied().unwrap_or_default();
        let missing = seen.missing_ns.saturating_sub(waiting) as f64;
        (missing, seen.interruptions.known().copied().unwrap_or_default() as f64)
    };
    let (quiet_ns, others) = lost(quiet);
    let each = if others > 0.0 { quiet_ns / others } else { 0.0 };
    // One that the thread was not there for was not sent to it.
    let present = seen.believed_ns.known().map_or(1.0, |ran| (*ran as f64 / seen.wall_ns as f64).min(1.0));
    let sent = poked.calls as f64 / poked.length.as_nanos() as f64 * seen.wall_ns as f64 * present;
    let (ns, interruptions) = lost(seen);
    (sent >= 10.0).then(|| (ns - each * (interruptions - sent).max(0.0)) / sent)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bare, NoBare, Poked, bare, cost};
    use crate::host::allowed_cpus;
    use crate::probe::Method;
    use crate::probe::inference::Seen;
    use crate::units::{CpuId, Fact};

    fn seen(missing_us: u64, interruptions: u64) -> Seen {
        Seen {
            method: Method::Spin,
            cpu: CpuId(0),
            wall_ns: 20_000_000,
            missing_ns: missing_us * 1_000,
            interruptions: Fact::Known(interruptions),
            waiting_ns: Fact::Known(4_000_000),
            believed_ns: Fact::Known(16_000_000),
        }
    }

    #[test]
    fn other_interrupts_cost_what_they_do_without_ours() {
        // 4 ms are waiting. Quiet: 200 of 10 us. With 250 of ours, a fifth of them to somebody else: 100 of
        // the others are left, and 2.4 ms are those of 200.
        let poked = Poked { calls: 312, length: Duration::from_millis(25), inside: Duration::from_millis(3) };
        let ns = cost(&seen(6_000, 200), &seen(7_400, 300), &poked).expect("enough");
        assert!((ns - 12_000.0).abs() < 100.0, "{ns}");
        let few = Poked { calls: 9, ..poked };
        assert_eq!(cost(&seen(6_000, 200), &seen(7_400, 300), &few), None);
    }

    #[test]
    fn one_is_sent_and_counted() {
        let allowed = allowed_cpus();
        let cpu = allowed.first().expect("it runs somewhere");
        match bare(cpu, 20_000.0) {
            Err(NoBare::OneCpu) => assert_eq!(allowed.iter().count(), 1),
            Ok(Bare { sender_ns, rate, .. }) => assert!(sender_ns > 0 && rate > 0),
            Err(error) => panic!("{error}"),
        }
    }
}
