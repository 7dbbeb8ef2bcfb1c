//! A clock that is read in nanoseconds.

use crate::diagnose::{FAST_CLOCK, SLOW_CLOCKS};
use crate::plan::draft::Draft;
use rxlab_setting::Target;

/// `tsc` if a slow clock is in use and the kernel offers it, which it does not while `tsc` is unstable.
pub(in crate::plan) fn fast(draft: &mut Draft<'_>) {
    let Some(clock) = draft.model.settings.clocksource.known() else { return };
    if SLOW_CLOCKS.contains(&clock.current.as_str()) && clock.available.iter().any(|name| name == FAST_CLOCK)
    {
        let why = format!("every packet with a timestamp reads the clock, and {} is slow", clock.current);
        draft.set("clocksource", Target::Host, FAST_CLOCK, why);
    }
}
