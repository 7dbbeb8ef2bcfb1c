//! What `rxlab tune` sees before it tries anything: what limits the machine, and what could be tried.

use super::Goal;
use crate::commands::apply::rehearsed;
use crate::commands::machine::{self, Machine};
use crate::error::{CommandError, Result};
use rxlab_advise::diagnose::regime::Regime;
use rxlab_advise::doctor::{DoctorReport, doctor};
use rxlab_advise::family::Family;
use rxlab_advise::plan::candidates::{Candidate, Searched, candidates};
use rxlab_advise::plan::default_nic;
use rxlab_base::units::NicName;
use rxlab_path::evidence::TRAFFIC;
use rxlab_path::model::{Model, Nic, NicKind, Rates};
use rxlab_setting::{Plan, PlannedSetting, Risk, in_words};
use rxlab_trial::spec::Named;
use rxlab_trial::tuning::LeftOut;

/// Result of the first sample.
pub(super) struct Survey {
    pub(super) report: DoctorReport,
    pub(super) nic: NicName,
    pub(super) limit: String,
    pub(super) way: Way,
    /// What to try, the likeliest first; those that are tried later last.
    pub(super) candidates: Vec<Named>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Where a sample leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Candidates can be compared.
    Open,
    /// No setting lifts the limit.
    Limited,
    /// There is nothing to measure.
    Unmeasurable,
}

/// Judges a sample, and finds what to try on `nic`, or on the busiest interface.
pub(super) fn survey(
    machine: &Machine,
    (model, rates): (&Model, &Rates),
    nic: Option<&NicName>,
    goal: Option<Goal>,
    allow_reset: bool,
) -> Result<Survey> {
    let report = doctor(model, rates, "");
    let nic = match nic {
        Some(name) => machine::nic(model, name)?,
        None => busiest(model, rates)?,
    };
    let (way, limit) = limit(&report, nic, rates, goal);
    let mut survey =
        Survey { nic: nic.name.clone(), limit, way, candidates: Vec::new(), left_out: Vec::new(), report };
    if way == Way::Open {
        survey.find(machine, (model, rates), nic, goal, allow_reset);
    }
    Ok(survey)
}

/// The interface that `rxlab plan` takes, or without traffic one that could have some.
fn busiest<'a>(model: &'a Model, rates: &Rates) -> Result<&'a Nic> {
    let open = || model.nics.iter().filter(|nic| nic.up && nic.kind != NicKind::Loopback);
    let device = || open().find(|nic| nic.kind == NicKind::Device);
    default_nic(model, rates)
        .or_else(device)
        .or_else(|| open().next())
        .ok_or_else(|| CommandError::usage("no interface to tune: none but lo is up"))
}

/// Where the sample leads, and the sentence that says why.
fn limit(report: &DoctorReport, nic: &Nic, rates: &Rates, goal: Option<Goal>) -> (Way, String) {
    if let Some(why) = &report.refused {
        return (Way::Unmeasurable, why.clone());
    }
    let packets = rates.nic(&nic.name).map_or(0.0, |rates| rates.rx_packets);
    if packets < TRAFFIC {
        let why = format!(
            "{} receives {packets:.0} packets/s, too few to compare anything; run it again under traffic, or give --load URL",
            nic.name
        );
        return (Way::Unmeasurable, why);
    }
    match &report.regime {
        None => (Way::Unmeasurable, "what limits the machine is unknown".to_owned()),
        // The bound is on throughput and on the load of CPUs.
        Some(regime) if regime.has_trial() || goal.is_some_and(|goal| goal != Goal::Throughput) => {
            (Way::Open, regime.summary.clone())
        }
        Some(regime) => (Way::Limited, regime.summary.clone()),
    }
}

/// Kinds of settings worth trying, in order.
fn kinds(regime: Option<&Regime>, goal: Option<Goal>) -> (Vec<Searched>, Vec<LeftOut>) {
    let (mut kinds, mut left_out) = (Vec::new(), Vec::new());
    for gain in regime.iter().flat_map(|regime| &regime.knobs).filter(|gain| gain.trial) {
        match searched(gain.knob) {
            Some(kind) => kinds.push(kind),
            None => {
                let why = "the search does not cover it; `rxlab doctor -v` says more".to_owned();
                left_out.push(LeftOut { what: gain.knob.name().to_owned(), why });
            }
        }
    }
    let usual: &[Searched] = match goal {
        Some(Goal::Latency) => &[Searched::Moderation, Searched::Rps, Searched::Rfs],
        Some(Goal::Cpu) => &[Searched::Rps, Searched::Rfs, Searched::Moderation],
        Some(Goal::Throughput) | None => &[],
    };
    kinds.extend(usual.iter().filter(|kind| !kinds.contains(kind)).copied().collect::<Vec<_>>());
    (kinds, left_out)
}

fn searched(family: Family) -> Option<Searched> {
    match family {
        Family::Moderation => Some(Searched::Moderation),
        Family::Queues => Some(Searched::Queues),
        Family::IrqPlacement => Some(Searched::IrqPlacement),
        Family::Rps => Some(Searched::Rps),
        Family::Rfs => Some(Searched::Rfs),
        Family::Rss | Family::VirtualFunction => None,
    }
}

/// One word for a kind of setting, before the name of its candidate.
fn word(kind: Searched) -> &'static str {
    match kind {
        Searched::Rps => "rps",
        Searched::Rfs => "rfs",
        Searched::IrqPlacement => "irq",
        Searched::Moderation => "moderation",
        Searched::Queues => "queues",
        Searched::ThreadedNapi => "threaded",
    }
}

impl Survey {
    fn find(
        &mut self,
        machine: &Machine,
        (model, rates): (&Model, &Rates),
        nic: &Nic,
        goal: Option<Goal>,
        allow_reset: bool,
    ) {
        let (kinds, left_out) = kinds(self.report.regime.as_ref(), goal);
        self.left_out = left_out;
        let (mut later, mut scales) = (Vec::new(), 0);
        for kind in kinds {
            let found = match candidates(model, rates, nic, kind) {
                Ok(found) => found,
                Err(why) => {
                    self.left_out.push(LeftOut { what: word(kind).to_owned(), why });
                    continue;
                }
            };
            let listed: Vec<Candidate> = found.to_try().cloned().collect();
            for candidate in &listed {
                let named = named(kind, candidate, scales, false);
                match why_not(machine, nic, &named, allow_reset) {
                    Some(why) => self.left_out.push(LeftOut { what: in_words(&named.set), why }),
                    None => self.candidates.push(named),
                }
            }
            for (group, most) in found.groups.iter().map(|group| group.most).enumerate() {
                let between = sizes(most).filter_map(|size| found.sized(group, size));
                let is_new = |one: &Candidate| {
                    !one.is_current() && listed.iter().all(|other| other.settings != one.settings)
                };
                let between = between.filter(is_new).map(|one| named(kind, &one, scales, true));
                later.extend(between.filter(|named| why_not(machine, nic, named, allow_reset).is_none()));
            }
            scales += found.groups.len();
        }
        self.candidates.extend(later);
    }
}

/// Sizes of masks: all up to eight, then about each fourth part more.
fn sizes(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |size| Some(size + (size / 4).max(1)))
        .take_while(move |size| *size <= most)
}

fn named(kind: Searched, candidate: &Candidate, scales: usize, later: bool) -> Named {
    Named {
        name: format!("{}-{}", word(kind), candidate.name),
        set: candidate.settings.clone(),
        size: candidate.size.map(|(group, size)| (scales + group, size)),
        later,
    }
}

/// The reason not to try a candidate, if there is one.
fn why_not(machine: &Machine, nic: &Nic, named: &Named, allow_reset: bool) -> Option<String> {
    let risk = |set: &rxlab_setting::Setting| {
        PlannedSetting::new(set.clone(), "", None).with_driver(nic.driver.as_deref()).risk
    };
    let risk = named.set.iter().filter_map(risk).max().filter(|risk| *risk > Risk::Safe);
    if let Some(risk) = risk.filter(|_| !allow_reset) {
        return Some(format!("{risk}: --allow-reset tries it"));
    }
    match rehearsed(&machine.host, &machine.model, &Plan::new(&named.name, &named.set)) {
        Ok((_, changes)) if changes.iter().any(|change| change.needed) => None,
        Ok(_) => Some("it is set already".to_owned()),
        Err(error) => Some(error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::{busiest, sizes};
    use rxlab_path::sketch::Sketch;

    #[test]
    fn an_interface_that_is_down_is_never_the_default() {
        let machine = || {
            let idle = Sketch::new(2).veth("ifb0").device("eth0", &[0]).veth("ifb1");
            let idle = ["ifb0", "eth0", "ifb1"].into_iter().fold(idle, |all, name| all.traffic(name, 0.0));
            let idle = idle.edit("ifb0", |nic| nic.up = false);
            idle.edit("ifb1", |nic| nic.up = false)
        };
        let chosen = |sketch: Sketch| {
            let (model, rates) = sketch.build();
            busiest(&model, &rates).map(|nic| nic.name.to_string())
        };
        assert_eq!(chosen(machine()).as_deref(), Ok("eth0"));
        assert_eq!(chosen(machine().veth("srv0").traffic("srv0", 5000.0)).as_deref(), Ok("srv0"));
        assert!(chosen(machine().edit("eth0", |nic| nic.up = false)).is_err());
    }

    #[test]
    fn sizes_are_dense_where_the_optimum_usually_is() {
        assert_eq!(sizes(16).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15]);
        assert_eq!(sizes(1).collect::<Vec<_>>(), [1]);
        assert!(sizes(127).count() < 25);
    }
}
