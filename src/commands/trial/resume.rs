//! `rxlab trial resume`: continues after a kill or an interrupt, with the same seed.

use super::blocks;
use super::conduct::Conduct;
use super::finish::{After, finish};
use super::ready::ready;
use crate::commands::Global;
use crate::commands::machine::{self, Machine};
use crate::commands::{leftovers, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_path::model::Identity;
use rxlab_trial::blocks::End;
use rxlab_trial::perform::Ready;
use rxlab_trial::record::Verdict;
use rxlab_trial::spec::Spec;
use rxlab_trial::store::TrialDir;

/// Continue a trial that was interrupted or killed
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Id of the trial, as `rxlab trial list` shows it
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    after: After,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let dir = TrialDir::open_trusted(&global.state_dir, &args.id)?;
    let spec = dir.spec()?;
    args.after.check(spec.design.kind)?;
    if let Some(record) = dir.blocks()? {
        let is_finished =
            record.conclusion.as_ref().is_some_and(|conclusion| conclusion.end != End::Interrupted);
        unfinished(is_finished, &record.id)?;
        leftovers::clear(global)?;
        let stop = place::stop_flag()?;
        let (machine, ready) = reopen(global, &spec, &record.id, &record.host)?;
        let trial = Conduct { spec: &spec, machine: &machine, ready, dir, keep: false, stop: &stop };
        return blocks::finish(global, trial, Some(record));
    }
    let record = dir.record()?;
    let is_finished = record.verdict().is_some_and(|verdict| *verdict != Verdict::Interrupted);
    unfinished(is_finished, &record.id)?;
    leftovers::clear(global)?;
    let stop = place::stop_flag()?;
    let (machine, ready) = reopen(global, &spec, &record.id, &record.host)?;
    // The plan is a separate file, which may have changed.
    let change: Vec<String> = ready.arms[1].iter().map(ToString::to_string).collect();
    if spec.change.plan.is_some() && change != record.change {
        let message = format!("the plan of trial {} has changed since it began", record.id);
        return Err(CommandError::new(Kind::Changed, message).hint("start another with `rxlab trial run`"));
    }
    let keep = args.after.keep;
    let trial = Conduct { spec: &spec, machine: &machine, ready, dir, keep, stop: &stop };
    finish(global, trial, Some(record), &args.after)
}

/// An error for a trial that has ended.
fn unfinished(is_finished: bool, id: &str) -> Result {
    if is_finished {
        return Err(CommandError::usage(format!("trial {id} is finished"))
            .hint("`rxlab trial show` prints it; `rxlab trial run` starts another"));
    }
    Ok(())
}

/// Returns what trial `id` continues with. Refuses if its slots were measured on another `host` or before this boot.
pub(in crate::commands) fn reopen(
    global: &Global,
    spec: &Spec,
    id: &str,
    host: &Identity,
) -> Result<(Machine, Ready)> {
    let machine = machine::open(global)?;
    if host.boot_id != machine.model.identity.boot_id {
        let message = format!("trial {id} belongs to another boot or another machine");
        return Err(
            CommandError::new(Kind::Changed, message).hint("its slots cannot be compared with new ones")
        );
    }
    let ready = ready(global, &machine, spec)?;
    Ok((machine, ready))
}
