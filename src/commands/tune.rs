//! `rxlab tune`: finds the best setting of the receive path on live traffic, proves it, and keeps it only then.

mod course;
mod survey;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use self::course::Course;
use super::trial::LoadFlags;
use super::typed::{sample_time, some_time};
use super::{Global, apply, files, leftovers, look, place};
use crate::error::{CommandError, Result};
use rxlab_base::units::{NicName, parse_duration};
use rxlab_load::Url;
use rxlab_trial::store::TrialDir;

/// Find the best setting of the receive path on this machine's traffic, and keep it only if it is proven to help
///
/// Samples the machine, says what limits it, and ends there if no setting can change that. Otherwise it shows what it would
/// try and asks; tries the candidates in turn, for about a second or less each time; compares the best with the unchanged
/// machine in a trial of its own; and sets it, but reverts it unless `rxlab confirm` comes in time. At any other end, even
/// Ctrl-C or a kill, the machine is as it was. docs/tune.md has the details.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interface to tune [default: the one that keeps the hottest CPU busy, or receives most]
    #[arg(long, value_name = "NIC", conflicts_with = "resume")]
    nic: Option<NicName>,
    /// The interface, as with --nic
    #[arg(value_name = "NIC", conflicts_with_all = ["nic", "resume"])]
    interface: Option<NicName>,
    /// What to improve [default: packets that get through if a CPU is full or packets are lost, else CPU time]
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "resume")]
    goal: Option<Goal>,
    /// Time limit for the whole run; a shorter one has room for fewer candidates or comparisons
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Also try what interrupts traffic, such as other numbers of queues
    #[arg(long, conflicts_with = "resume")]
    allow_reset: bool,
    /// Print what would be tried, and stop
    #[arg(long, conflicts_with = "resume")]
    dry_run: bool,
    /// Do not ask before it begins
    #[arg(short, long)]
    yes: bool,
    /// Once the best setting is set: revert it after this time unless `rxlab confirm` comes first
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = some_time)]
    confirm: Duration,
    /// Keep at once what is proven to help, without waiting for `rxlab confirm`
    #[arg(long, conflicts_with = "confirm")]
    keep: bool,
    /// Send requests to this URL throughout: failures stop a candidate, and a higher latency counts against it
    #[arg(long, value_name = "URL", conflicts_with = "resume")]
    check: Option<Url>,
    #[command(flatten)]
    load: LoadFlags,
    /// Length of the first sample
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = sample_time)]
    length: Duration,
    /// Seed of the random order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write a report of the whole run as one HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Continue a run that was interrupted or killed: the id of its last trial, as `rxlab trial list` shows it
    #[arg(long, value_name = "ID")]
    resume: Option<String>,
    #[command(flatten)]
    cost: look::Cost,
}

/// What is to become better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Goal {
    /// Packets or requests that get through
    Throughput,
    /// Latency of requests or of the check
    Latency,
    /// CPU time for each packet
    Cpu,
}

pub(super) fn run(global: &Global, args: &Args) -> Result {
    args.html.as_deref().map_or(Ok(()), files::check)?;
    if !args.dry_run {
        leftovers::clear(global)?;
        TrialDir::check_state(&global.state_dir)?;
        place::check_lock(global)?;
    }
    let stop = place::stop_flag()?;
    let mut course = Course::new(global, args, &stop);
    let ended = match &args.resume {
        Some(id) => course.resume(id),
        None => course.begin(),
    };
    let error = ended.as_ref().err().map(|error| error.message.as_str()).filter(|why| !why.is_empty());
    let printed = course.finish(error);
    let ended = CommandError::after_output(ended, printed);
    match (course.applied(), ended) {
        (Some(id), Ok(())) => apply::wait(global, id, course.deadline(), &stop),
        (_, ended) => ended,
    }
}
