//! Clocks of the kernel.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on a clock that counts up from zero, such as the time since boot, or the CPU time of the calling thread.
pub fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    // It starts at zero: neither part is negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
