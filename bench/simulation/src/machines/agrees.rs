//! The finding, the gain, the plan and the next command of one report say the same.

use rxlab_advise::diagnose::regime::Regime;
use rxlab_advise::doctor::DoctorReport;
use rxlab_advise::family::{Family, PlanName};
use rxlab_advise::plan::{Options, spread};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::evidence::carrier;
use rxlab_setting::{Plan, set_of};

use super::look::Seen;

pub(crate) fn check(seen: &Seen, report: &DoctorReport) -> Result<(), String> {
    for finding in &report.findings {
        let is_made = |name: &PlanName| {
            report.plans.iter().any(|made| made.addresses(finding) && made.name() == Some(*name))
        };
        if let Some(name) = finding.plans.iter().find(|name| !is_made(name)) {
            return Err(format!(
                "{} names the plan {name}, which is not made: {}",
                finding.id, finding.title
            ));
        }
    }
    for proposal in &report.plans {
        let name =
            proposal.name().ok_or_else(|| format!("{} is not a plan of the doctor", proposal.plan.name))?;
        let is_asked =
            |part: &PlanName| report.findings.iter().any(|finding| finding.asks(&proposal.nic, *part));
        if !name.parts().iter().all(is_asked) {
            return Err(format!("no finding names the plan {name} of {}", proposal.nic));
        }
        if !report.tries(proposal) {
            return Err(format!("`{:?}` does not try the plan {name}", proposal.next));
        }
    }
    report.regime.as_ref().map_or(Ok(()), |regime| gain(seen, report, regime))
}

/// The gain ranks the plans of the interface that keeps the busiest CPU busy, and names one that `rxlab plan` makes.
fn gain(seen: &Seen, report: &DoctorReport, regime: &Regime) -> Result<(), String> {
    let carrier = regime.cpus.first().and_then(|cpu| carrier(&seen.model, &seen.rates, cpu.cpu));
    let Some((nic, _)) = carrier else { return Ok(()) };
    for gain in &regime.knobs {
        let of_family = |name: PlanName| name.family() == Some(gain.knob);
        let mut of_nic = report.plans.iter().filter(|made| made.nic == nic.name);
        let planned = of_nic.find(|made| made.name().is_some_and(of_family));
        if let Some(planned) = planned.filter(|_| !gain.trial) {
            return Err(format!("{} is planned, and the gain says no: {}", planned.plan.name, gain.why));
        }
        if !gain.trial || gain.by_hand {
            continue;
        }
        let name = gain.plan.ok_or_else(|| format!("{} is worth a trial of no plan", gain.knob.name()))?;
        // Queues of several interfaces may move together, and these are not named here.
        if name == PlanName::SeparateIrqs {
            continue;
        }
        let plan =
            made(seen, &nic.name, name).ok_or_else(|| format!("{name} is worth a trial, and empty"))?;
        if let Some(planned) = planned.filter(|planned| planned.plan.settings != plan.settings) {
            return Err(format!("{} is planned, and the gain names {name}", planned.plan.name));
        }
        if gain.knob == Family::Rps && gain.cpus.as_ref().is_some_and(|cpus| *cpus != masks(&plan)) {
            return Err(format!("the gain hands packets to {:?}, the plan to {}", gain.cpus, masks(&plan)));
        }
    }
    Ok(())
}

/// The plan of this name for an interface, if it has settings.
fn made(seen: &Seen, nic: &NicName, name: PlanName) -> Option<Plan> {
    let (model, rates) = (&seen.model, &seen.rates);
    let Some((policy, variable)) = name.policy() else {
        let proposals = spread(model, rates, Some(nic)).proposals;
        return proposals.into_iter().find(|made| made.name() == Some(name)).map(|made| made.plan);
    };
    let options = Options { nics: vec![nic.clone()], ..Options::default() };
    let plan = policy.plan(model, rates, &options, Some(&[variable])).plan;
    (!plan.settings.is_empty()).then_some(plan)
}

/// The CPUs of all masks of a plan.
fn masks(plan: &Plan) -> CpuMask {
    let masks = plan.settings.iter().filter(|planned| planned.set.knob == "rps");
    masks.filter_map(|planned| set_of(&planned.set.value)).fold(CpuMask::new(), |all, one| all.union(&one))
}
