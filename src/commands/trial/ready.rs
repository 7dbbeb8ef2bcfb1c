//! Prepares a trial from its specification: checks the settings against the machine, attaches the probe,
//! and starts the workload.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::presample::LOOK;
use crate::commands::Global;
use crate::commands::machine::{self, Machine};
use crate::commands::{apply, load, look, output};
use crate::error::{CommandError, Kind, Result};
use rxlab_advise::plan::candidates;
use rxlab_base::units::{CpuMask, format_duration};
use rxlab_change::apply::Change;
use rxlab_faces::report::trial_plan;
use rxlab_load::{Clients, Session};
use rxlab_path::model::{Nic, NicKind};
use rxlab_probe::Missing;
use rxlab_setting::tunable::{Risk, tunable};
use rxlab_setting::{Plan, Setting, trial_of};
use rxlab_trial::check::{Checks, StartError};
use rxlab_trial::meter::{Meter, MeterError};
use rxlab_trial::perform::Ready;
use rxlab_trial::query::Queries;
use rxlab_trial::spec::{self, Design, Spec};
use rxlab_trial::workload::Driver;

/// Returns everything that a trial needs, or why it cannot start. The workload comes last: it makes traffic.
pub(crate) fn ready(global: &Global, machine: &Machine, spec: &Spec) -> Result<Ready> {
    if let Some(nic) = &spec.workload.nic {
        machine::nic(&machine.model, nic)?;
    }
    let (arms, prediction) = match spec.design.kind {
        spec::Kind::Factorial | spec::Kind::Search | spec::Kind::Sweep | spec::Kind::Choice => {
            (cells(machine, spec)?, None)
        }
        spec::Kind::Pairs | spec::Kind::BeforeAfter => {
            let b = arm_b(global, spec)?;
            (settings(machine, spec, &b)?, b.prediction)
        }
    };
    check_short(spec, &arms)?;
    let probe = &spec.probe;
    let cpus: CpuMask = probe.cpus.iter().chain(probe.spin).collect();
    if !cpus.is_empty() {
        machine::cpus(&machine.model, &cpus)?;
    }
    let meter = Meter::start(&machine.host, spec).map_err(explain)?;
    if meter.is_some() && global.root != Path::new("/") {
        return Err(CommandError::usage(
            "the probe measures this machine: its metrics cannot be combined with --root",
        ));
    }
    let checks = Checks::start(&spec.checks).map_err(unchecked)?;
    let queries = Queries::start(&spec.queries)
        .map_err(|error| CommandError::new(Kind::Failed, error).hint("nothing was changed"))?;
    let driver = driver(machine, spec)?;
    Ok(Ready { arms, prediction, planned: None, meter, checks, queries, driver })
}

/// Short slots would measure what a flip stops.
fn check_short(spec: &Spec, arms: &[Vec<Setting>]) -> Result {
    let stops = |setting: &&Setting| tunable(&setting.knob).is_some_and(|knob| knob.risk != Risk::Safe);
    match arms.iter().flatten().find(stops).filter(|_| spec.design.shortest() < Design::SHORTEST) {
        Some(setting) => {
            let least = format_duration(Design::SHORTEST);
            let message =
                format!("a flip of {} stops traffic: slots must last {least} or longer", setting.knob);
            Err(CommandError::usage(message).hint("leave out `shortest`"))
        }
        None => Ok(()),
    }
}

/// Makes the candidates of a search from the machine and its live traffic, if the specification only describes them.
pub(super) fn make_candidates(
    global: &Global,
    machine: &Machine,
    spec: &mut Spec,
    is_shown: bool,
    stop: &AtomicBool,
) -> Result {
    let Some(wanted) = spec.candidates.take() else { return Ok(()) };
    let nic = machine::nic(&machine.model, &wanted.nic)?;
    // A recording has no rates; neither has a load before it starts.
    let sampled = spec.workload.live.then(|| look::for_a_while(&machine.host, LOOK, spec.probe.budget, stop));
    let rates = sampled.and_then(Result::ok).map(|(_, rates)| rates).unwrap_or_default();
    let made = candidates::candidates(&machine.model, &rates, nic, wanted.of)
        .map_err(|why| CommandError::usage(why).hint("[[arm]] tables give candidates by hand"))?;
    let to_try: Vec<_> = made.to_try().cloned().collect();
    if let [only] = &to_try[..] {
        let message = format!(
            "{} has only one other value to try ({}): a search compares two or more",
            nic.name, only.name
        );
        let next = format!("`{}` tries it", trial_of(&global.program(), &only.settings, &nic.name));
        return Err(CommandError::usage(message).hint(next));
    }
    spec.set_candidates(to_try);
    if is_shown {
        let mut out = output::stderr();
        spec.arm.iter().try_for_each(|arm| write!(out, "{}", trial_plan::arm(&arm.into())))?;
    }
    Ok(())
}

/// A check that fails without the change says nothing about the change.
fn unchecked(error: StartError) -> CommandError {
    let kind = match &error {
        StartError::Load(_, error) => load::kind(error),
        StartError::Failed { .. } => Kind::Failed,
    };
    CommandError::new(kind, error).hint("nothing was changed: a check has to pass before the trial begins")
}

fn explain(error: MeterError) -> CommandError {
    match error {
        MeterError::Missing { missing: Missing::Privilege, .. } => CommandError::new(Kind::Denied, error)
            .hint(format!("{}; or choose other metrics", machine::privilege("measuring with eBPF"))),
        MeterError::Missing { .. } => CommandError::new(Kind::Denied, error).hint("choose other metrics"),
        MeterError::Pin(..) => CommandError::usage(error),
        MeterError::Read(_) => CommandError::failed(error),
    }
}

/// Settings of arm B; empty if the factor is a pair of commands.
fn arm_b(global: &Global, spec: &Spec) -> Result<Plan> {
    match &spec.change.plan {
        Some(path) => apply::read_plan(global, path.as_ref()),
        None => Ok(Plan::new(&spec.name, &spec.change.set)),
    }
}

/// Returns the settings of both arms, checked against the machine and in the order of applying; none if the
/// factor is a pair of commands.
fn settings(machine: &Machine, spec: &Spec, b: &Plan) -> Result<Vec<Vec<Setting>>> {
    let a = Plan::new(&spec.name, &spec.change.against);
    if a.settings.is_empty() && b.settings.is_empty() {
        return Ok(vec![Vec::new(), Vec::new()]);
    }
    let (a, b) = (rehearsed(machine, &a)?, rehearsed(machine, b)?);
    if !differ(&a, &b) {
        return Err(same(a.is_empty()));
    }
    Ok(vec![settings_of(a), settings_of(b)])
}

/// Returns the settings of each cell of a trial in blocks, checked likewise. All named settings have to change something.
fn cells(machine: &Machine, spec: &Spec) -> Result<Vec<Vec<Setting>>> {
    for named in spec.named() {
        if !differ(&[], &rehearsed(machine, &Plan::new(&named.name, &named.set))?) {
            let message = format!("the machine already has the values of {}", named.name);
            return Err(CommandError::new(Kind::Changed, message).hint(
                "if rxlab set them (see `rxlab status`), run `rxlab undo` first; else try other values",
            ));
        }
    }
    let cell =
        |settings: &Vec<Setting>| rehearsed(machine, &Plan::new(&spec.name, settings)).map(settings_of);
    spec.cells().iter().map(cell).collect()
}

fn rehearsed(machine: &Machine, plan: &Plan) -> Result<Vec<Change>> {
    Ok(apply::rehearsed(&machine.host, &machine.model, plan)?.1)
}

fn settings_of(changes: Vec<Change>) -> Vec<Setting> {
    changes.into_iter().map(|change| change.setting).collect()
}

/// True if the two arms leave some target with different values.
fn differ(a: &[Change], b: &[Change]) -> bool {
    let of = |changes: &[Change], wanted: &Setting| {
        let is =
            |change: &&Change| change.setting.knob == wanted.knob && change.setting.target == wanted.target;
        changes.iter().find(is).map(|change| change.setting.value.clone())
    };
    let moves = |change: &Change, other: &[Change]| match of(other, &change.setting) {
        Some(value) => value != change.setting.value,
        None => change.needed,
    };
    a.iter().any(|change| moves(change, b)) || b.iter().any(|change| moves(change, a))
}

fn same(as_is: bool) -> CommandError {
    if !as_is {
        return CommandError::usage("both arms would be the same");
    }
    CommandError::new(Kind::Changed, "the machine already has these values: both arms would be the same")
        .hint("if rxlab set it (see `rxlab status`), run `rxlab undo` first; else try another value")
}

/// Returns the driver of the workload; a built-in load is already running.
pub(crate) fn driver(machine: &Machine, spec: &Spec) -> Result<Driver> {
    Ok(match (&spec.workload.load, &spec.workload.command) {
        (Some(load), _) if spec.clients.is_empty() => Driver::Load(Session::start(load)?),
        (Some(load), _) => {
            let runs = spec.clients.iter().map(|client| client.run.as_str());
            Driver::Clients(Clients::start(runs, load)?)
        }
        (None, Some(command)) => Driver::Command(command.clone()),
        (None, None) => {
            let asked = spec.workload.nic.as_ref();
            let counts =
                |nic: &Nic| nic.kind == NicKind::Device && asked.is_none_or(|name| *name == nic.name);
            Driver::Live { drops_counted: machine.model.nics.iter().any(counts) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::differ;
    use rxlab_change::apply::Change;

    fn arm(text: &str, needed: bool) -> Vec<Change> {
        vec![Change { setting: text.parse().expect("a setting"), before: Some("off".to_owned()), needed }]
    }

    #[test]
    fn arms_differ_if_a_target_ends_with_other_values() {
        let (zero, one) = (arm("rps eth0/rx-0 = 0", true), arm("rps eth0/rx-0 = 1", true));
        let off = arm("rps eth0/rx-0 = off", false);
        assert!(differ(&[], &zero) && differ(&zero, &[]) && differ(&zero, &one) && differ(&off, &zero));
        assert!(!differ(&zero, &zero) && !differ(&[], &off) && !differ(&[], &[]));
    }
}
