//! A clock that is read in nanoseconds.

use crate::plan::draft::Draft;
use crate::plan::{PlannedSetting, Setting, Target};

/// Clocks that take a microsecond or a call to the hypervisor.
const SLOW: [&str; 6] = ["hpet", "acpi_pm", "xen", "pit", "jiffies", "refined-jiffies"];
const FAST: &str = "tsc";

/// `tsc` where a slow clock is in use and the kernel offers it, which it does not while it finds it unstable.
pub(in crate::plan) fn fast(draft: &mut Draft<'_>) {
    let Some(clock) = draft.model.settings.clocksource.known() else { return };
    if SLOW.contains(&clock.current.as_str()) && clock.available.iter().any(|name| name == FAST) {
        let why = format!("every packet with a timestamp reads the clock, and {} is slow", clock.current);
        let set = Setting { knob: "clocksource".to_owned(), target: Target::Host, value: FAST.to_owned() };
        draft.take(vec![PlannedSetting::new(set, why, None)]);
    }
}
