//! Findings, plans that address them, and the figures behind a clean result, as one value.

mod alerts;
mod left_out;
mod load;
mod path;
mod queues;
mod report;
#[cfg(test)]
mod tests;

pub use alerts::{Alert, Alerts, Change};
pub use left_out::CpusLeftOut;
pub use path::{ReceivePath, busiest_paths};
pub use queues::{NicQueues, QueuePath};
pub(crate) use report::place_of;
pub use report::{CpuUse, DoctorReport, Elsewhere, Load, Since};

use crate::decision::Decisions;
use crate::diagnose::regime::{Regime, regime};
use crate::diagnose::{Finding, Severity, diagnose, is_about_a_hot_cpu};
use crate::family::{Family, PlanName};
use crate::plan::Proposal;
use load::{elsewhere, load, refused};
use rxlab_base::units::{CpuId, NicName};
use rxlab_path::model::{Model, Rates};
use rxlab_setting::{Plan, Risk};

/// Diagnoses a machine and plans changes, only for interfaces with a finding that needs a plan. `program` begins the
/// commands that try them: `rxlab` with its global options; empty = no commands.
pub fn doctor(model: &Model, rates: &Rates, program: &str) -> DoctorReport {
    let (mut findings, mut decisions) = (diagnose(model, rates), Decisions::new(model, rates));
    let regime = regime(model, rates, &findings, &mut decisions);
    regime.iter().for_each(|regime| rank(&mut findings, regime));
    let (mut plans, mut notes): (Vec<Proposal>, Vec<String>) = (Vec::new(), Vec::new());
    for nic in concerned(&findings) {
        let is_asked = |name: &PlanName| findings.iter().any(|finding| finding.asks(nic, *name));
        let asked = PlanName::ALL.into_iter().filter(|name| name.parts().iter().all(is_asked));
        let asked: Vec<PlanName> = asked.collect();
        if !asked.is_empty() {
            plans.extend(asked.iter().filter_map(|name| decisions.of(nic, *name).proposal(program)));
            notes.extend(decisions.unplanned(nic).iter().map(|reason| format!("not planned: {reason}")));
        }
    }
    plans.sort_by_key(|proposal| resets_link(&proposal.plan));
    for finding in &mut findings {
        settle(finding, &plans, &mut decisions);
    }
    // A plan that helps no finding is none.
    plans.retain(|made| {
        let is_asked = |part: &PlanName| findings.iter().any(|finding| finding.asks(&made.nic, *part));
        made.name().is_some_and(|name| name.parts().iter().all(is_asked))
    });
    let paths = concerned(&findings).into_iter().filter_map(|name| model.nic(name));
    let refused = refused(model, rates);
    let mut report = DoctorReport {
        schema: DoctorReport::SCHEMA.to_owned(),
        identity: model.identity.clone(),
        seconds: rates.seconds,
        taken: None,
        recorded: false,
        load: load(model, rates),
        since: None,
        regime,
        paths: paths.map(|nic| ReceivePath::new(nic, model, rates)).collect(),
        findings,
        left_out: left_out::of_plans(model, rates, &plans),
        plans,
        tune: None,
        elsewhere: elsewhere(model, rates, refused.is_some()),
        refused,
        notes,
        gaps: rates.gaps.clone(),
    };
    report.prefer_search(program);
    report
}

/// True if a plan resets a link: of several, it is tried last.
fn resets_link(plan: &Plan) -> bool {
    plan.settings.iter().any(|planned| planned.risk == Some(Risk::LinkReset))
}

/// Keeps the plans of a finding that are proposed, in the order of the proposals, without those that leave its hot CPU as hot
/// by their own prediction. A note that is left without plans asks for nothing, and says why.
fn settle(finding: &mut Finding, proposals: &[Proposal], decisions: &mut Decisions<'_>) {
    let Some(nic) = &finding.nic else { return };
    let hot = finding.cpu.filter(|_| is_about_a_hot_cpu(finding));
    let own = proposals.iter().filter(|made| made.addresses(finding));
    let helps = own.filter(|made| hot.is_none_or(|cpu| cools(&made.plan, cpu)));
    let plans: Vec<PlanName> = helps.filter_map(Proposal::name).collect();
    if plans.is_empty() && finding.severity == Severity::Note {
        let mut asked = finding.plans.iter();
        let why_not = asked.find_map(|name| decisions.of(nic, *name).why_not().map(str::to_owned));
        finding.remedy +=
            &why_not.map(|why| format!("; rxlab has no plan for it ({why})")).unwrap_or_default();
    }
    finding.plans = plans;
}

/// Receive time of a CPU that a prediction has to take away to count.
const COOLER: f64 = 0.01;

/// True if a plan may make a CPU cooler, or does not say.
fn cools(plan: &Plan, cpu: CpuId) -> bool {
    let predicted =
        plan.prediction.as_ref().and_then(|prediction| prediction.cpus.iter().find(|load| load.cpu == cpu));
    predicted.is_none_or(|load| load.range.map_or(load.after, |[least, _]| least) <= load.before - COOLER)
}

/// Findings that RPS would remedy on the hottest CPU get the plans that are worth a trial before it.
fn rank(findings: &mut [Finding], regime: &Regime) {
    let hot = regime.cpus.first().map(|cpu| cpu.cpu);
    let ranked = regime.knobs.iter().filter_map(|gain| gain.plan);
    let first: Vec<PlanName> =
        ranked.filter(|name| !matches!(name.family(), Some(Family::Rps | Family::Rfs))).collect();
    for finding in findings.iter_mut().filter(|finding| finding.cpu == hot) {
        if finding.plans.contains(&PlanName::Rps) {
            finding.plans.retain(|plan| !first.contains(plan));
            finding.plans.splice(0..0, first.iter().copied());
        }
    }
}

/// The interfaces that findings name, in order of appearance.
fn concerned(findings: &[Finding]) -> Vec<&NicName> {
    let mut names: Vec<&NicName> = Vec::new();
    for name in findings.iter().filter_map(|finding| finding.nic.as_ref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(any(test, feature = "testing"))]
pub fn diagnosed(sketch: rxlab_path::sketch::Sketch) -> DoctorReport {
    let (model, rates) = sketch.build();
    doctor(&model, &rates, "rxlab")
}
