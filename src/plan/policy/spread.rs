//! `spread`: the receive work of one interface on several CPUs.
//!
//! What is sound stays: of the interrupts only those move that share a CPU, and a mask that somebody chose is left
//! alone until a CPU of it drowns.

use super::{Options, Variable};
use crate::model::{Model, NicKind, Rates};
use crate::plan::draft::Draft;
use crate::plan::spread::busiest;
use crate::plan::{PlannedSetting, spread, step};
use crate::units::NicName;

/// The interface that receives most, unless some are named.
pub(super) fn nics(model: &Model, rates: &Rates, options: &Options) -> Vec<NicName> {
    match options.nics.is_empty() {
        true => busiest(model, rates).map(|nic| nic.name.clone()).into_iter().collect(),
        false => options.nics.clone(),
    }
}

/// Masks are for virtual interfaces too, and reasons say why there are none.
pub(super) fn draft(draft: &mut Draft<'_>) {
    if draft.nics.is_empty() {
        return draft.leave("no interface receives packets".to_owned());
    }
    let device = |draft: &Draft<'_>| draft.planned().any(|nic| nic.kind == NicKind::Device);
    if device(draft) {
        draft.step(Variable::Irq, step::irqs::apart);
    }
    if draft.cpus_per_queue.is_some() && device(draft) {
        draft.step(Variable::Rps, step::rps::near);
        draft.step(Variable::Rfs, step::rfs::complete);
        return;
    }
    for name in draft.nics.clone() {
        let mut found = spread(&draft.model, draft.rates, Some(&name));
        let widest = found.proposals.pop().map(|proposal| proposal.plan);
        let settings = widest.as_ref().map(|plan| plan.settings.clone()).unwrap_or_default();
        let of = |variable: Variable| -> Vec<PlannedSetting> {
            let is_rps = |planned: &&PlannedSetting| planned.set.knob == "rps";
            let own = settings.iter().filter(|planned| is_rps(planned) == (variable == Variable::Rps));
            own.cloned().collect()
        };
        for variable in [Variable::Rps, Variable::Rfs] {
            let settings = of(variable);
            if !settings.is_empty() {
                draft.step(variable, |draft| draft.take(settings));
            }
        }
        draft.notes.extend(widest.map(|plan| plan.notes).unwrap_or_default());
        draft.reasons.append(&mut found.reasons);
    }
}
