//! `full`: everything that may help. Published: field case C's advice for the record.
//!
//! Some of it stops traffic for a moment, and some needs upkeep: each setting says so.

use super::{Variable, advise_virtual_functions};
use crate::plan::draft::Draft;
use crate::plan::step;

pub(super) fn draft(draft: &mut Draft<'_>) {
    draft.step(Variable::Channels, step::channels::more);
    draft.step(Variable::Rss, step::rss::even);
    draft.step(Variable::Moderation, step::moderation::adaptive);
    draft.step(Variable::Irq, step::irqs::near);
    draft.step(Variable::Xps, step::xps::near);
    draft.step(Variable::Rps, step::rps::near);
    draft.step(Variable::Rfs, step::rfs::complete);
    draft.step(Variable::Clocksource, step::clocksource::fast);
    advise_virtual_functions(draft);
}
