//! Cost of an interrupt that does no work.
//!
//! No program in the kernel sees the way into and out of a handler, nor what a hypervisor does for it;
//! on a virtual machine that may be longer than all the rest. An experiment measures it: a second thread
//! requests memory barriers (membarrier(2), `PRIVATE_EXPEDITED`), each of which is an inter-processor
//! interrupt with almost no work on the CPU where [`Spin`] runs. The extra time it misses, per interrupt,
//! is the cost. Windows with and without interrupts alternate, so traffic during the measurement cancels out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, membarrier};
use serde::{Deserialize, Serialize};

use super::Spin;
use super::inference::Seen;
use rxlab_base::units::{CpuId, Fact};
use rxlab_sys::{allowed_cpus, pin_thread};

/// Windows in which interrupts are sent; the cost is the median over them.
const TURNS: usize = 31;
/// Long enough for some hundred interrupts, short enough for the machine not to change between two windows.
const WINDOW: Duration = Duration::from_millis(33);
/// Gaps between the interrupts sent. Denser ones cost less each, because the CPU never leaves the
/// interrupt.
const GAPS: (Duration, Duration) = (Duration::from_micros(10), Duration::from_millis(1));

/// The cost of an interrupt that does no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IrqOverhead {
    /// Nanoseconds on the interrupted CPU.
    pub ns: u64,
    /// Nanoseconds on the sending CPU, which waits until the interrupt is handled.
    pub sender_ns: u64,
    /// Interrupts sent per second.
    pub rate: u64,
}

/// The cost of an interrupt cannot be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoIrqOverhead {
    /// No other CPU to send from.
    #[error("no second CPU is available to this process")]
    OneCpu,
    /// A thread cannot run there, or the kernel has no membarrier(2).
    #[error("cannot interrupt CPU {0}: {1}")]
    Kernel(CpuId, Errno),
}

/// Time lost in one window, and the interrupts sent in it.
#[derive(Debug, Clone, Copy)]
struct Window {
    wall_ns: f64,
    /// Missed, and neither waited for nor measured.
    unseen_ns: f64,
    interruptions: f64,
    /// Fraction of the time that the scheduler gave to the thread.
    present: f64,
    sent: f64,
}

/// State of the sending thread that the others see.
#[derive(Debug, Default)]
struct Poker {
    sends: AtomicBool,
    ends: AtomicBool,
    calls: AtomicU64,
    inside_ns: AtomicU64,
}

/// Measures the cost on this CPU at about `rate` interrupts per second. `measured` returns the nanoseconds
/// that programs in the kernel have seen taken from this process on that CPU so far; 0 without programs, and
/// the cost then includes the handler itself. Takes two seconds.
///
/// # Errors
/// If this machine cannot do it.
pub fn irq_overhead(cpu: CpuId, rate: f64, measured: &dyn Fn() -> u64) -> Result<IrqOverhead, NoIrqOverhead> {
    let kernel = |errno| NoIrqOverhead::Kernel(cpu, errno);
    let from = allowed_cpus().iter().filter(|other| *other != cpu).min_by_key(|other| (*other < cpu, *other));
    let from = from.ok_or(NoIrqOverhead::OneCpu)?;
    membarrier(MembarrierCommand::RegisterPrivateExpedited).map_err(kernel)?;
    let gap = (1.0 / rate.max(1.0)).clamp(GAPS.0.as_secs_f64(), GAPS.1.as_secs_f64());
    let poker = Poker::default();
    let windows = std::thread::scope(|scope| {
        let poking = scope.spawn(|| poker.run(from, Duration::from_secs_f64(gap)));
        let windows = windows(cpu, &poker, measured);
        poker.ends.store(true, Ordering::Relaxed);
        poking.join().expect("the thread does not panic").and(windows)
    });
    let windows = windows.map_err(kernel)?;
    let mut costs: Vec<f64> = windows.iter().filter_map(|(quiet, poked)| cost(quiet, poked)).collect();
    costs.sort_by(f64::total_cmp);
    let median = costs.get(costs.len() / 2).ok_or(kernel(Errno::AGAIN))?;
    let calls = poker.calls.load(Ordering::Relaxed);
    let wall_ns: f64 = windows.iter().map(|(_, poked)| poked.wall_ns).sum();
    Ok(IrqOverhead {
        ns: median.max(0.0) as u64,
        sender_ns: poker.inside_ns.load(Ordering::Relaxed).checked_div(calls).unwrap_or_default(),
        rate: (calls as f64 * 1e9 / wall_ns) as u64,
    })
}

/// Windows with interrupts, each paired with the mean of those without before and after it, to cancel drift.
fn windows(cpu: CpuId, poker: &Poker, measured: &dyn Fn() -> u64) -> Result<Vec<(Window, Window)>, Errno> {
    let spin = Spin::start(cpu)?;
    let look = || (spin.seen(), measured(), poker.calls.load(Ordering::Relaxed));
    let window = || {
        let (seen, taken, calls) = look();
        std::thread::sleep(WINDOW);
        let (now, taken_now, calls_now) = look();
        Window::between(&now.since(&seen), taken_now.saturating_sub(taken), calls_now - calls)
    };
    // Until it has calibrated the length of an undisturbed piece.
    while spin.seen().wall_ns == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut before = window();
    Ok((0..TURNS)
        .map(|_| {
            poker.sends.store(true, Ordering::Relaxed);
            let poked = window();
            poker.sends.store(false, Ordering::Relaxed);
            let after = window();
            (std::mem::replace(&mut before, after).and(&after), poked)
        })
        .collect())
}

impl Window {
    fn and(&self, other: &Self) -> Self {
        Self {
            wall_ns: self.wall_ns + other.wall_ns,
            unseen_ns: self.unseen_ns + other.unseen_ns,
            interruptions: self.interruptions + other.interruptions,
            present: self.present.midpoint(other.present),
            sent: self.sent + other.sent,
        }
    }

    fn between(seen: &Seen, taken_ns: u64, calls: u64) -> Self {
        let known = |fact: &Fact<u64>| fact.known().copied().unwrap_or_default();
        let wall_ns = seen.wall_ns as f64;
        let seen_ns = known(&seen.waiting_ns) + taken_ns;
        Self {
            wall_ns,
            unseen_ns: seen.missing_ns.saturating_sub(seen_ns) as f64,
            interruptions: known(&seen.interruptions) as f64,
            present: seen.believed_ns.known().map_or(1.0, |ran| (*ran as f64 / wall_ns).min(1.0)),
            sent: calls as f64,
        }
    }
}

impl Poker {
    /// Sends from this CPU until told to stop.
    fn run(&self, from: CpuId, gap: Duration) -> Result<(), Errno> {
        pin_thread(from)?;
        while !self.ends.load(Ordering::Relaxed) {
            if !self.sends.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            let begun = Instant::now();
            membarrier(MembarrierCommand::PrivateExpedited)?;
            let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.inside_ns.fetch_add(ns, Ordering::Relaxed);
            self.calls.fetch_add(1, Ordering::Relaxed);
            while begun.elapsed() < gap && self.sends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}

/// Nanoseconds per interrupt: time lost in addition to the other interrupts, each of which costs what it does
/// in the quiet window. `None` when hardly any were sent.
fn cost(quiet: &Window, poked: &Window) -> Option<f64> {
    let each = if quiet.interruptions > 0.0 { quiet.unseen_ns / quiet.interruptions } else { 0.0 };
    // One sent while the thread did not run did not interrupt it.
    let sent = poked.sent * poked.present;
    let others = (poked.interruptions - sent).max(0.0);
    (sent >= 10.0).then(|| (poked.unseen_ns - each * others) / sent)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::{IrqOverhead, NoIrqOverhead, Window, cost, irq_overhead};
    use crate::{Method, Seen};
    use rxlab_base::units::{CpuId, Fact};
    use rxlab_sys::allowed_cpus;

    fn window(missing_us: u64, interruptions: u64, calls: u64) -> Window {
        let seen = Seen {
            method: Method::Spin,
            cpu: CpuId(0),
            wall_ns: 20_000_000,
            missing_ns: missing_us * 1_000,
            interruptions: Fact::Known(interruptions),
            waiting_ns: Fact::Known(4_000_000),
            believed_ns: Fact::Known(16_000_000),
        };
        Window::between(&seen, 1_000_000, calls)
    }

    #[test]
    fn other_interrupts_cost_what_they_do_without_ours() {
        // 4 ms are waiting and 1 ms was measured. Quiet: 200 of 5 us. With 250 of ours, a fifth of them while
        // another task ran: 100 of the others are left, and 1.9 ms are those of 200.
        let quiet = window(6_000, 200, 0);
        let ns = cost(&quiet, &window(7_400, 300, 250)).expect("enough");
        assert!((ns - 9_500.0).abs() < 1.0, "{ns}");
        assert_eq!(cost(&quiet, &window(7_400, 300, 9)), None);
    }

    #[test]
    fn one_is_sent_and_counted() {
        let allowed = allowed_cpus();
        let cpu = allowed.first().expect("it runs somewhere");
        // On a busy machine the sending thread may not have run: then there is no cost.
        let is_told = || match irq_overhead(cpu, 20_000.0, &|| 0) {
            Err(NoIrqOverhead::OneCpu) => allowed.iter().count() == 1,
            Err(NoIrqOverhead::Kernel(_, Errno::AGAIN)) => false,
            Ok(IrqOverhead { sender_ns, rate, .. }) => sender_ns > 0 && rate > 0,
            Err(error) => panic!("{error}"),
        };
        assert!((0..20).any(|_| is_told()));
    }
}
