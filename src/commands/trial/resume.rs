//! `rxlab trial resume`: continues after a kill or an interrupt, with the same seed.

use super::blocks;
use super::conduct::{Conduct, store_error};
use super::finish::{After, finish};
use super::ready::ready;
use crate::commands::Global;
use crate::commands::machine::{self, Machine};
use crate::commands::{leftovers, place};
use crate::error::{CommandError, Kind};
use crate::model::Identity;
use crate::trial::record::Verdict;
use crate::trial::store::TrialDir;

/// Continue a trial that was interrupted or killed
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its id, as `rxlab trial list` shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    after: After,
}

pub(super) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let dir = TrialDir::open(&global.state_dir, &args.id).map_err(|error| store_error(&error))?;
    let spec = dir.spec().map_err(|error| store_error(&error))?;
    args.after.check(spec.design.kind)?;
    if let Some(record) = dir.blocks().map_err(|error| store_error(&error))? {
        return blocks::resume(global, dir, &spec, record);
    }
    let record = dir.record().map_err(|error| store_error(&error))?;
    if record.analysis.as_ref().is_some_and(|analysis| analysis.verdict != Verdict::Interrupted) {
        return Err(CommandError::usage(format!("trial {} is finished", record.id))
            .hint("`rxlab trial show` prints it; `rxlab trial run` starts another"));
    }
    leftovers::clear(global)?;
    let machine = machine::open(global)?;
    check_boot(&machine, &record.id, &record.host)?;
    let stop = place::stop_flag()?;
    let ready = ready(global, &machine, &spec)?;
    // The plan is a separate file, which may have changed.
    let change: Vec<String> = ready.arms[1].iter().map(ToString::to_string).collect();
    if spec.change.plan.is_some() && change != record.change {
        let message = format!("the plan of trial {} has changed since it began", record.id);
        return Err(CommandError::new(Kind::Changed, message).hint("start another with `rxlab trial run`"));
    }
    let (spec, machine, keep) = (&spec, &machine, args.after.keep);
    let trial = Conduct { spec, machine, ready, dir, resumed: Some(record), keep, stop: &stop };
    finish(global, trial, &args.after)
}

/// Returns an error if the slots of trial `id` were measured on `host` before this boot.
pub(super) fn check_boot(machine: &Machine, id: &str, host: &Identity) -> Result<(), CommandError> {
    if host.boot_id == machine.model.identity.boot_id {
        return Ok(());
    }
    let message = format!("trial {id} belongs to another boot or another machine");
    Err(CommandError::new(Kind::Changed, message).hint("its slots cannot be compared with new ones"))
}
