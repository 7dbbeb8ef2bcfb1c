//! From a specification to what runs: settings checked against the machine, a workload started.

use crate::apply;
use crate::commands::machine::{self, Machine};
use crate::commands::{files, load, place};
use crate::error::{CommandError, Kind};
use crate::load::Session;
use crate::plan::{Plan, Setting};
use crate::trial::spec::Spec;
use crate::trial::workload::Driver;

/// The settings of arm B, checked against the machine and in the order of applying; none when the
/// factor is a pair of commands.
pub(super) fn settings(machine: &Machine, spec: &Spec) -> Result<Vec<Setting>, CommandError> {
    if let Some(nic) = &spec.workload.nic {
        machine::nic(&machine.model, nic)?;
    }
    let plan = match &spec.change.plan {
        Some(path) => Plan::from_toml(&files::read("plan", path.as_ref())?)
            .map_err(|error| CommandError::usage(format!("{path}: {error}")))?,
        None => Plan::of(&spec.name, &spec.change.set),
    };
    if plan.settings.is_empty() {
        return Ok(Vec::new());
    }
    let settings = apply::check(&machine.host, &machine.model, &plan).map_err(place::apply_error)?;
    let changes = apply::rehearse(&machine.host, &machine.model, &settings).map_err(place::apply_error)?;
    if changes.iter().all(|change| !change.needed) {
        return Err(CommandError::new(
            Kind::Changed,
            "the machine is already set so: both arms would be the same",
        )
        .hint("if rxlab set it (see `rxlab status`), run `rxlab undo` first; else try another value"));
    }
    Ok(settings)
}

/// The workload, running where it runs all through the trial.
pub(super) fn driver(spec: &Spec) -> Result<Driver, CommandError> {
    Ok(match (&spec.workload.load, &spec.workload.command) {
        (Some(load), _) => Driver::Load(Session::start(load).map_err(load::explain)?),
        (None, Some(command)) => Driver::Command(command.clone()),
        (None, None) => Driver::Live,
    })
}
