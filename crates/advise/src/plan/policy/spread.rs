//! `spread`: the receive work of one interface on several CPUs.
//!
//! Sound values stay: only interrupts that share a CPU move, and a mask chosen by hand stays until one of its
//! CPUs is drowning.

use super::Variable;
use crate::diagnose::against_rfs;
use crate::plan::draft::Draft;
use crate::plan::expected::hottest;
use crate::plan::spread::{below, busiest, of_hot_cpu, of_nic};
use crate::plan::step;
use rxlab_base::units::NicName;
use rxlab_path::model::{Model, Nic, NicKind, Rates};
use rxlab_setting::{Plan, PlannedSetting};

/// Factor by which more packets must fit before RFS is added to RPS: predictions are no better than that.
const BETTER: f64 = 1.1;

/// Interfaces of which one is planned, where none is named: the one that keeps the hottest CPU busy or receives most, and, should
/// nothing be left to do there, others that bring packets to that CPU.
pub(super) fn nics(model: &Model, rates: &Rates) -> Vec<NicName> {
    let first = busiest(model, rates);
    let own = first.map(|first| below(model, first).unwrap_or_default()).unwrap_or_default();
    let own: Vec<&NicName> = own.into_iter().chain(first).map(|nic| &nic.name).collect();
    let others = of_hot_cpu(model, rates).into_iter().filter(|nic| !own.contains(&&nic.name));
    first.into_iter().chain(others).map(|nic| nic.name.clone()).collect()
}

/// Virtual interfaces get masks too, and reasons say why there are none.
pub(super) fn draft(draft: &mut Draft<'_>) {
    if draft.nics.is_empty() {
        return draft
            .leave("no interface other than lo receives packets in this network namespace".to_owned());
    }
    let is_device = |draft: &Draft<'_>, name: &NicName| {
        draft.model.nic(name).is_some_and(|nic| nic.kind == NicKind::Device)
    };
    let (devices, others): (Vec<NicName>, Vec<NicName>) =
        draft.nics.iter().cloned().partition(|name| is_device(draft, name));
    if !devices.is_empty() {
        draft.for_nics(devices.clone(), |draft| draft.step(Variable::Irq, step::irqs::apart));
    }
    draft.for_nics(devices.clone(), |draft| draft.step(Variable::Rps, step::rps::redundant));
    devices.iter().for_each(|name| spread(draft, name, &devices));
    others.iter().for_each(|name| spread(draft, name, std::slice::from_ref(name)));
}

/// Plans one interface of `names`, which share out the CPUs.
fn spread(draft: &mut Draft<'_>, name: &NicName, names: &[NicName]) {
    let Some(nic) = draft.model.nic(name) else {
        return draft.leave(format!("no interface {name}"));
    };
    if ![Variable::Rps, Variable::Rfs].into_iter().any(|variable| draft.wants(variable)) {
        if nic.kind != NicKind::Device {
            draft.leave(Variable::Irq.because(format!("{name} has no interrupts of its own")));
        }
        return;
    }
    let nics: Vec<&Nic> = names.iter().filter_map(|name| draft.model.nic(name)).collect();
    let found = of_nic(&draft.model, &draft.rates, nic, &nics, draft.width);
    let asked = |plan: &Plan| plan.settings.iter().all(|planned| draft.wants(variable(planned)));
    let mut plans: Vec<Plan> =
        found.proposals.into_iter().map(|proposal| proposal.plan).filter(asked).collect();
    found.reasons.into_iter().for_each(|why| draft.leave(why));
    let hot = hottest(&draft.rates).filter(|_| !draft.is_asked(Variable::Rfs));
    let against = hot.and_then(|(hot, _)| against_rfs(&draft.rates, hot));
    if let Some(why) = against.filter(|_| plans.iter().any(|plan| sets(plan, Variable::Rfs))) {
        plans.retain(|plan| !sets(plan, Variable::Rfs));
        draft.leave(Variable::Rfs.because(why));
    }
    let Some(plan) = chosen(draft, name, plans) else { return };
    for step in [Variable::Rps, Variable::Rfs] {
        let own = plan.settings.iter().filter(|planned| variable(planned) == step);
        let own: Vec<PlannedSetting> = own.cloned().collect();
        if !own.is_empty() {
            draft.step(step, |draft| draft.take(own));
        }
    }
    let notes = plan.notes.into_iter().filter(|note| !draft.notes.contains(note)).collect::<Vec<_>>();
    draft.notes.extend(notes);
}

/// The widest proposal if RFS is requested by name. Otherwise the one with which most packets fit, and of
/// equals the one with fewest settings: RFS is added to RPS only if the model predicts an improvement.
fn chosen(draft: &mut Draft<'_>, name: &NicName, mut plans: Vec<Plan>) -> Option<Plan> {
    if draft.is_asked(Variable::Rfs) {
        return plans.pop();
    }
    let is_on = draft.model.nic(name).is_some_and(step::rfs::is_handed_on);
    let has_rps = is_on || plans.iter().any(|plan| sets(plan, Variable::Rps));
    let fits = |plan: &Plan| plan.prediction.as_ref().map(|prediction| prediction.most_after);
    // No figure is better than none: a plan without a prediction may do more.
    let is_better = |plan: &Plan, best: &Plan| {
        fits(plan).zip(fits(best)).is_some_and(|(fits, most)| fits > most * BETTER)
    };
    // RFS alone would leave RPS to the next plan.
    plans.retain(|plan| !has_rps || sets(plan, Variable::Rps));
    let mut best: Option<Plan> = None;
    for plan in plans {
        if best.as_ref().is_none_or(|best| is_better(&plan, best)) {
            best = Some(plan);
        }
    }
    let without = best.as_ref().is_none_or(|plan| !sets(plan, Variable::Rfs));
    if let Some(nic) = draft.model.nic(name).filter(|_| has_rps && without && draft.wants(Variable::Rfs)) {
        draft.leave(step::rfs::next_to_rps(draft, nic));
    }
    best
}

fn sets(plan: &Plan, of: Variable) -> bool {
    plan.settings.iter().any(|planned| variable(planned) == of)
}

/// The variable of a setting of the spreading planner.
fn variable(planned: &PlannedSetting) -> Variable {
    if planned.set.knob == "rps" { Variable::Rps } else { Variable::Rfs }
}
