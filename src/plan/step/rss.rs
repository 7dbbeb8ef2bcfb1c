//! That the device's hash leads to all of its queues alike.

use crate::plan::draft::{Draft, What};
use crate::plan::paper;
use crate::units::Fact;

/// The default table where the table is uneven and nobody depends on it.
pub(in crate::plan) fn even(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let Fact::Known(rss) = &nic.hardware.rss else { continue };
        if rss.table.is_empty() || nic.rx.len() < 2 || paper::is_even(nic) {
            continue;
        }
        // Queues that contexts and rules lead to are left out of the table on purpose.
        let some = |count: Option<usize>| count.is_some_and(|count| count > 0);
        if some(nic.hardware.rss_contexts.known().map(Vec::len))
            || some(nic.hardware.rules.known().map(Vec::len))
        {
            draft.leave(format!("rss: the table of {name} stays: contexts or flow rules go with it"));
            continue;
        }
        let why = "the table gives some queues more of the flows than others".to_owned();
        draft.set("rss", &name, What::Whole, "default".to_owned(), why);
    }
}
