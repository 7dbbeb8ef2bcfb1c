//! An even distribution of the device's hash to all of its queues.

use crate::plan::draft::Draft;
use crate::plan::policy::Variable;
use rxlab_base::units::Fact;
use rxlab_setting::{Target, simulation};

/// Sets the default table if the table is uneven and nothing depends on it.
pub(in crate::plan) fn even(draft: &mut Draft<'_>) {
    for name in draft.nics.clone() {
        let Some(nic) = draft.model.nic(&name) else { continue };
        let Fact::Known(rss) = &nic.hardware.rss else { continue };
        if rss.table.is_empty() || nic.rx.len() < 2 || simulation::is_even(nic) {
            continue;
        }
        // Queues used by contexts and rules are left out of the table on purpose.
        let some = |count: Option<usize>| count.is_some_and(|count| count > 0);
        if some(nic.hardware.rss_contexts.known().map(Vec::len))
            || some(nic.hardware.rules.known().map(Vec::len))
        {
            draft.leave(
                Variable::Rss.because(format!(
                    "the table of {name} is left alone: contexts or flow rules depend on it"
                )),
            );
            continue;
        }
        let why = "the table gives some queues more of the flows than others";
        draft.set("rss", Target::Nic(name), "default", why);
    }
}
