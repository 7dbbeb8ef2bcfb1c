//! Loss of time to receive work by program, measured in windows that keep to the budget.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::ClockId;

use super::place;
use rxlab_probe::{Budget, Interference, SampleOptions, Tier, look};
use rxlab_sys::{Host, clock_ns};

/// Length of a measurement.
const WINDOW: Duration = Duration::from_secs(1);

/// Measures while it is wanted, until `stop` is set, and passes each measurement on; once, if eBPF is missing. The pause
/// after a window is as long as its cost requires: CPU time of loading, reading and removing the programs, and of the
/// programs themselves.
pub(super) fn measure(
    host: &dyn Host,
    budget: Budget,
    stop: &AtomicBool,
    is_wanted: &dyn Fn() -> bool,
    pass_on: &dyn Fn(Interference),
) {
    while !stop.load(Ordering::SeqCst) {
        if !is_wanted() {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let (begun, cpu_before) = (Instant::now(), cpu_time());
        let sample = look(host, &SampleOptions::default(), || place::sleep(WINDOW, stop), stop);
        let Ok(sample) = sample else { return };
        let programs = sample.cost.known().map_or(0, |cost| cost.ns);
        let spent = cpu_time().saturating_sub(cpu_before) + Duration::from_nanos(programs);
        let is_coarse = sample.tier == Tier::Procfs;
        pass_on(sample);
        if is_coarse {
            return;
        }
        place::sleep(budget.period(spent).saturating_sub(begun.elapsed()), stop);
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    Duration::from_nanos(clock_ns(ClockId::ThreadCPUTime))
}
