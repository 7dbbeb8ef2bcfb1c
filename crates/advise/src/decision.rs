//! What is decided about each plan that a finding names or the gain ranks: it is offered, or there is a reason why not.
//! Each is planned once for a machine and its rates; findings, gain, proposals and commands are views of the outcome.

use std::collections::BTreeMap;

use crate::diagnose::{Finding, crowded_with};
use crate::family::{Family, PlanName};
use crate::plan::{Options, Policed, Policy, Proposal, Spread, Variable, spread};
use rxlab_base::units::{CpuMask, NicName};
use rxlab_path::model::{Model, Rates};
use rxlab_setting::{Plan, Setting, set_of, trial_of, trial_of_plan};

/// Settings of a plan that a command names one by one.
const SETTINGS: usize = 3;

/// A plan that may be offered for an interface.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The interfaces that it is for: the one that it was asked for, and others that are planned with it.
    nics: Vec<NicName>,
    /// Its settings and their predicted effect, or why it is not offered.
    outcome: Result<Plan, String>,
}

impl Candidate {
    pub(crate) fn is_offered(&self) -> bool {
        self.outcome.is_ok()
    }

    /// The CPUs that it hands packets to; `None` if it is not offered.
    pub(crate) fn masks(&self) -> Option<CpuMask> {
        let plan = self.outcome.as_ref().ok()?;
        let masks = plan.settings.iter().filter(|planned| planned.set.knob == "rps");
        let masks = masks.filter_map(|planned| set_of(&planned.set.value));
        Some(masks.fold(CpuMask::new(), |all, one| all.union(&one)))
    }

    /// The reason why it is not offered, in one line.
    pub(crate) fn why_not(&self) -> Option<&str> {
        self.outcome.as_ref().err().map(String::as_str)
    }

    /// The proposal of it, with the command that tries it on the live traffic of the interface; `program` begins the command.
    /// Without a program there is no command.
    pub(crate) fn proposal(&self, program: &str) -> Option<Proposal> {
        let (plan, nic) = (self.outcome.as_ref().ok()?.clone(), self.nics.first()?.clone());
        let settings: Vec<&Setting> = plan.settings.iter().map(|planned| &planned.set).collect();
        let next = (!program.is_empty()).then(|| match settings.len() {
            ..=SETTINGS => trial_of(program, settings, &nic),
            _ => trial_of_plan(program, &plan.name, &self.nics),
        });
        Some(Proposal { nic, plan, next })
    }
}

/// The candidates of a machine, each made when it is first asked for.
pub(crate) struct Decisions<'a> {
    model: &'a Model,
    rates: &'a Rates,
    made: BTreeMap<(NicName, PlanName), Candidate>,
    /// What the spreading planner left alone on an interface, and why.
    unplanned: BTreeMap<NicName, Vec<String>>,
}

impl<'a> Decisions<'a> {
    pub(crate) fn new(model: &'a Model, rates: &'a Rates) -> Self {
        Self { model, rates, made: BTreeMap::new(), unplanned: BTreeMap::new() }
    }

    /// The candidate of this name for an interface.
    pub(crate) fn of(&mut self, nic: &NicName, name: PlanName) -> &Candidate {
        let key = (nic.clone(), name);
        if !self.made.contains_key(&key) {
            match name.policy() {
                Some(policy) => self.decide_by_policy(nic, name, policy),
                None => self.decide_by_spreading(nic),
            }
        }
        &self.made[&key]
    }

    /// The plan for a family of settings on an interface: of several, one that a finding asks for and that is offered, else one
    /// that a finding asks for, else the last.
    pub(crate) fn of_family(
        &mut self,
        findings: &[Finding],
        nic: &NicName,
        family: Family,
    ) -> Option<PlanName> {
        let of_family = PlanName::ALL.into_iter().filter(|name| name.family() == Some(family));
        let all: Vec<PlanName> = of_family.collect();
        let is_asked = |name: &PlanName| findings.iter().any(|finding| finding.asks(nic, *name));
        let asked: Vec<PlanName> = all.iter().copied().filter(is_asked).collect();
        let offered = asked.iter().copied().find(|name| self.of(nic, *name).is_offered());
        offered.or(asked.first().copied()).or(all.last().copied())
    }

    /// What the spreading planner leaves alone on an interface, one line each.
    pub(crate) fn unplanned(&mut self, nic: &NicName) -> &[String] {
        self.of(nic, PlanName::Rps);
        &self.unplanned[nic]
    }

    /// Takes back a plan of an interface, and those that it is a part of.
    pub(crate) fn reject(&mut self, nic: &NicName, name: PlanName, why: &str) {
        for whole in PlanName::ALL.into_iter().filter(|whole| whole.parts().contains(&name)) {
            self.of(nic, whole);
            let made = self.made.get_mut(&(nic.clone(), whole));
            made.into_iter().for_each(|made| made.outcome = Err(why.to_owned()));
        }
    }

    fn decide_by_policy(&mut self, nic: &NicName, name: PlanName, (policy, variable): (Policy, Variable)) {
        // Where queues of several interfaces share a CPU, they are spread together.
        let nics = match policy {
            Policy::Spread => crowded_with(self.model, self.rates, nic),
            _ => vec![nic.clone()],
        };
        let options = Options { nics, ..Options::default() };
        let Policed { plan, reasons, .. } = policy.plan(self.model, self.rates, &options, Some(&[variable]));
        let outcome = match (plan.settings.is_empty(), reasons.is_empty()) {
            (false, _) => Ok(plan),
            (true, false) => Err(reasons.join("; ")),
            (true, true) => Err("nothing to change".to_owned()),
        };
        self.made.insert((nic.clone(), name), Candidate { nics: options.nics, outcome });
    }

    /// Decides on masks, on tables, and on both.
    fn decide_by_spreading(&mut self, nic: &NicName) {
        let Spread { proposals, reasons } = spread(self.model, self.rates, Some(nic));
        for name in [PlanName::Rps, PlanName::Rfs, PlanName::RpsAndRfs] {
            let made = proposals.iter().find(|made| made.name() == Some(name));
            let outcome = made.map(|made| made.plan.clone()).ok_or_else(|| {
                let own = reasons.iter().find(|reason| reason.concerns(name)).or(reasons.first());
                own.map_or_else(String::new, |reason| reason.text().to_owned())
            });
            self.made.insert((nic.clone(), name), Candidate { nics: vec![nic.clone()], outcome });
        }
        let reasons = reasons.iter().map(ToString::to_string).collect();
        self.unplanned.insert(nic.clone(), reasons);
    }
}

#[cfg(test)]
mod tests {
    use super::Decisions;
    use crate::family::PlanName;
    use rxlab_base::units::{Fact, NicName};
    use rxlab_path::sketch::Sketch;

    const SPREADING: [PlanName; 3] = [PlanName::Rps, PlanName::Rfs, PlanName::RpsAndRfs];

    fn eth0() -> NicName {
        "eth0".parse().expect("a name")
    }

    /// RFS was once left alone without a word, because the reason began with the name of RPS.
    #[test]
    fn what_is_not_offered_says_why() {
        let threaded = Sketch::case_a().edit("eth0", |nic| nic.napi.threaded = Fact::Known(true));
        let (model, rates) = threaded.build();
        let mut decisions = Decisions::new(&model, &rates);
        for name in SPREADING {
            let why = decisions.of(&eth0(), name).why_not().expect("threads poll");
            assert!(why.starts_with("eth0 is polled by kernel threads"), "{name}: {why}");
        }
        assert_eq!(decisions.of(&eth0(), PlanName::EvenTable).why_not(), Some("rss: nothing to change"));
    }

    #[test]
    fn a_part_that_is_taken_back_takes_the_whole_along() {
        let (model, rates) = Sketch::case_a().build();
        let mut decisions = Decisions::new(&model, &rates);
        let offered =
            |decisions: &mut Decisions<'_>| SPREADING.map(|name| decisions.of(&eth0(), name).is_offered());
        assert_eq!(offered(&mut decisions), [true; 3]);
        decisions.reject(&eth0(), PlanName::Rfs, "a thread has no time");
        assert_eq!(offered(&mut decisions), [true, false, false]);
        assert_eq!(decisions.of(&eth0(), PlanName::Rfs).why_not(), Some("a thread has no time"));
    }
}
