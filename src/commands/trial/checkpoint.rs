//! `rxlab trial checkpoint`: later, are the settings of a trial still set, and does its effect hold?

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::ready::driver;
use super::schedule;
use crate::commands::Global;
use crate::commands::apply::rehearsed;
use crate::commands::machine::{self, Machine};
use crate::commands::persist::Etc;
use crate::commands::{output, place, progress};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::parse_duration;
use rxlab_faces::report::words;
use rxlab_setting::{Plan, Setting};
use rxlab_trial::checkpoint::{Checkpoint, State};
use rxlab_trial::prior::{self, Pieces};
use rxlab_trial::record::TrialRecord;
use rxlab_trial::spec::Spec;
use rxlab_trial::store::TrialDir;

/// Measure again under the load of a past trial, and say whether its settings and its effect still hold
///
/// Nothing is changed. `--at` schedules checkpoints for later times, even across reboots; `rxlab trial show` lists all of
/// a trial, and `rxlab status` those that are waiting or failed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Id of the trial, as `rxlab trial list` shows it
    #[arg(value_name = "ID")]
    id: String,
    /// Slots to measure, each as long as those of the trial
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) slots: u32,
    /// Schedule checkpoints at these times from now instead, such as 1h,24h
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = parse_duration)]
    at: Vec<Duration>,
    /// Run a scheduled checkpoint if it is due: the command for a scheduler
    #[arg(long, conflicts_with_all = ["at", "cancel", "slots"])]
    due: bool,
    /// Remove the timer, and all checkpoints that are waiting or failed
    #[arg(long, conflicts_with_all = ["at", "slots"])]
    cancel: bool,
    #[command(flatten)]
    pub(super) etc: Etc,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    let dir = TrialDir::open_trusted(&global.state_dir, &args.id)?;
    if args.cancel {
        return schedule::cancel(global, args, &dir);
    }
    if args.due {
        return schedule::due(global, args, &dir);
    }
    if !args.at.is_empty() {
        measurable(&dir)?;
        return schedule::add(global, args, &dir, &args.at);
    }
    let (record, checkpoint) = take(global, &dir, args.slots)?;
    print(global, &record, &checkpoint)
}

/// Returns the specification and the record of a trial that can be measured again.
fn measurable(dir: &TrialDir) -> Result<(Spec, TrialRecord)> {
    if dir.blocks()?.is_some() {
        let message = format!("trial {} has several changes: a checkpoint measures one", dir.id());
        return Err(CommandError::usage(message));
    }
    let record = dir.record()?;
    if record.analysis.is_none() {
        return Err(CommandError::usage(format!("trial {} is not finished", record.id))
            .hint("`rxlab trial resume` continues it"));
    }
    let spec = dir.spec()?;
    let primary = record.metrics.first().map_or("", |primary| primary.name.as_str());
    if spec.workload.command.is_some() || spec.measures(primary) {
        let message = format!("trial {} was judged by {primary}, which only a trial can measure", record.id);
        return Err(CommandError::usage(message));
    }
    Ok((spec, record))
}

/// Takes a checkpoint of `slots` slots, and adds it to the trial.
pub(super) fn take(global: &Global, dir: &TrialDir, slots: u32) -> Result<(TrialRecord, Checkpoint)> {
    let (spec, record) = measurable(dir)?;
    dir.check_writable()?;
    let machine = machine::open(global)?;
    let drifted = drifted(&machine, &record)?;
    let values = measure(&machine, &spec, &record, slots as usize)?;
    let checkpoint = Checkpoint::new(&record, values, drifted);
    dir.add_checkpoint(&checkpoint)?;
    Ok((record, checkpoint))
}

/// Prints a checkpoint. An effect that is gone, or a change that is not set, is a finding.
pub(super) fn print(global: &Global, record: &TrialRecord, checkpoint: &Checkpoint) -> Result {
    let printed = output::print(global, checkpoint, || words::checkpoint(record, checkpoint));
    let ended = match checkpoint.state {
        State::Holds | State::Weaker | State::StillNone | State::Unclear => Ok(()),
        State::Gone | State::NotSet => Err(CommandError::silent(Kind::Findings)),
    };
    CommandError::after_output(ended, printed)
}

/// Settings of the change that are not set, as found; none if it is a shell command, which nothing can check.
fn drifted(machine: &Machine, record: &TrialRecord) -> Result<Vec<String>> {
    let settings: Option<Vec<Setting>> = record.change.iter().map(|line| line.parse().ok()).collect();
    let Some(settings) = settings else { return Ok(Vec::new()) };
    let plan = Plan::new(&record.name, &settings);
    let (_, changes) = rehearsed(&machine.host, &machine.model, &plan)?;
    let drifted = changes.into_iter().filter(|change| change.needed).map(|change| {
        let Setting { knob, target, .. } = &change.setting;
        format!("{knob} {target} = {}", change.before.as_deref().unwrap_or("missing"))
    });
    Ok(drifted.collect())
}

/// Values of the trial's primary metric.
fn measure(machine: &Machine, spec: &Spec, record: &TrialRecord, slots: usize) -> Result<Vec<f64>> {
    let primary = record.metrics.first().map_or("", |primary| primary.name.as_str());
    let stop = place::stop_flag()?;
    let mut driver = driver(machine, spec)?;
    // The first one warms up.
    let pieces = Pieces::whole(spec.design.measure(), slots + 1);
    let bar = progress::bar(&format!("checkpoint of {}", record.id), pieces.count as u64);
    let mut on_piece = |values: &[f64]| {
        bar.set_position(values.len() as u64);
        !stop.load(Ordering::SeqCst)
    };
    let (host, inventory) = (&machine.host, &machine.inventory);
    let values = prior::sample(host, inventory, spec, &mut driver, primary, &pieces, &mut on_piece);
    bar.finish_and_clear();
    if stop.load(Ordering::SeqCst) {
        return Err(CommandError::silent(Kind::Interrupted));
    }
    Ok(values.map_err(CommandError::failed)?.split_off(1))
}
