//! Who loses time to receive work, measured in windows that keep to the budget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::commands::place;
use crate::host::Host;
use crate::probe::{Budget, Interference, SampleOptions, Tier, look};

/// Length of a measurement.
const WINDOW: Duration = Duration::from_secs(1);

/// What the screen and the measuring thread share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Set while lost time is on the screen.
    pub(super) is_wanted: AtomicBool,
    latest: Mutex<Option<Arc<Interference>>>,
}

impl Shared {
    /// The latest measurement.
    pub(super) fn latest(&self) -> Option<Arc<Interference>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Measures while it is wanted, until `stop` is set; once, if eBPF is missing. The pause after a window is as long as
/// its cost requires: CPU time of loading, reading and removing the programs, and of the programs themselves.
pub(super) fn measure(host: &dyn Host, shared: &Shared, budget: Budget, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        if !shared.is_wanted.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let (begun, cpu_before) = (Instant::now(), cpu_time());
        let sample = look(host, &SampleOptions::default(), || place::sleep(WINDOW, stop), stop);
        let Ok(sample) = sample else { return };
        let programs = sample.cost.known().map_or(0, |cost| cost.ns);
        let spent = cpu_time().saturating_sub(cpu_before) + Duration::from_nanos(programs);
        let is_coarse = sample.tier == Tier::Procfs;
        *shared.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(sample));
        if is_coarse {
            return;
        }
        place::sleep(budget.period(spent).saturating_sub(begun.elapsed()), stop);
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    // It counts from the start of the thread: neither part is negative.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
