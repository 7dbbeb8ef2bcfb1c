//! `spread`: the receive work of one interface on several CPUs.
//!
//! What is sound stays: of the interrupts only those move that share a CPU, and a mask that somebody chose is left
//! alone until a CPU of it drowns.

use super::{Options, Variable};
use crate::model::{Model, NicKind, Rates};
use crate::plan::draft::Draft;
use crate::plan::spread::busiest;
use crate::plan::{Plan, PlannedSetting, spread, step};
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
        let found = spread(&draft.model, draft.rates, Some(&name));
        let asked = |plan: &Plan| plan.settings.iter().all(|planned| draft.wants(variable(planned)));
        // The last is the widest.
        let widest = found.proposals.into_iter().map(|proposal| proposal.plan).rfind(asked);
        draft.reasons.extend(found.reasons);
        let Some(plan) = widest else { continue };
        for step in [Variable::Rps, Variable::Rfs] {
            let own = plan.settings.iter().filter(|planned| variable(planned) == step);
            let own: Vec<PlannedSetting> = own.cloned().collect();
            if !own.is_empty() {
                draft.step(step, |draft| draft.take(own));
            }
        }
        draft.notes.extend(plan.notes);
        // Of a plan that moves interrupts too, or of several interfaces, it would be a part.
        if draft.nics.len() == 1 && !draft.variables.contains(&Variable::Irq) {
            draft.prediction = plan.prediction;
        }
    }
}

/// Of the two that the spreading planner sets.
fn variable(planned: &PlannedSetting) -> Variable {
    if planned.set.knob == "rps" { Variable::Rps } else { Variable::Rfs }
}
