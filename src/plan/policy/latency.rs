//! `latency`: packets as early as possible.
//!
//! No interrupt is delayed, and packets stay on the CPU that took them while it has time. It costs an
//! interrupt for nearly every packet.

use super::Variable;
use crate::plan::draft::Draft;
use crate::plan::step;

pub(super) fn draft(draft: &mut Draft<'_>) {
    draft.step(Variable::Moderation, step::moderation::none);
    draft.step(Variable::Irq, step::irqs::near);
    draft.step(Variable::Xps, step::xps::near);
    draft.step(Variable::Rps, step::rps::where_needed);
    draft.step(Variable::Clocksource, step::clocksource::fast);
    if !draft.nics.is_empty() {
        draft
            .notes
            .push("more interrupts take more CPU time: use it for services that wait for packets".to_owned());
    }
}
