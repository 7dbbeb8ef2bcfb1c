//! `minimal`: only what is safe to set and needs no upkeep.
//!
//! Published: field case C closes with two such steps for production, SR-IOV and interrupt moderation. The
//! first is not a setting: a note says where it would help.

use super::{Variable, advise_virtual_functions};
use crate::plan::draft::Draft;
use crate::plan::step;

pub(super) fn draft(draft: &mut Draft<'_>) {
    draft.step(Variable::Moderation, step::moderation::safe);
    // A mask needs upkeep; removing one does not.
    draft.step(Variable::Rps, step::rps::redundant);
    advise_virtual_functions(draft);
}
