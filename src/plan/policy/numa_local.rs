//! `numa-local`: every interrupt, and the CPUs that its packets are handed to, in one memory domain.
//!
//! Published: field case C, where the masks stayed in the node of the interrupt and without its CPU.

use super::Variable;
use crate::plan::draft::Draft;
use crate::plan::step;

pub(super) fn draft(draft: &mut Draft<'_>) {
    draft.step(Variable::Irq, step::irqs::near);
    draft.step(Variable::Xps, step::xps::near);
    draft.step(Variable::Rps, step::rps::near);
    draft.step(Variable::Rfs, step::rfs::complete);
}
