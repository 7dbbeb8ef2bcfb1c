//! `rxlab restore`: set the values of the persisted plan; what the units run.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::apply::report::{self, Done};
use super::machine::{self, Machine};
use super::persist::{Etc, mac};
use super::{apply as apply_command, place};
use crate::apply::{self, ApplyError, BeginInfo, Transaction};
use crate::cli::Global;
use crate::error::{CommandError, Kind};
use crate::journal::{JournalError, LockError};
use crate::knob::KnobError;
use crate::persist::{PLAN, found};
use crate::plan::{Plan, PlannedSetting, Setting};
use crate::units::{NicName, parse_duration};

/// How often to look whether something is there by now.
const LOOK: Duration = Duration::from_millis(250);

/// Set the persisted values again, each NIC's as soon as it is there with its queues and interrupts
///
/// The units of `rxlab persist` run this. What it sets is journalled as by apply.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those of this interface
    #[arg(long, value_name = "NIC")]
    nic: Option<NicName>,
    /// Wait so long for what is not there yet
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    wait: Duration,
    #[command(flatten)]
    etc: Etc,
}

/// What one look at the machine has led to.
#[derive(Default)]
struct Round {
    /// Set, set already, or refused: not to be tried again.
    done: Vec<PlannedSetting>,
    /// Why some were refused.
    refused: Vec<CommandError>,
    /// What is waited for, and why, in one line each.
    waiting: Vec<String>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    let path: PathBuf = args.etc.path(global)?.join(PLAN);
    let mut plan = apply_command::read_plan(&path)?;
    let stop = place::stop_flag()?;
    let end = Instant::now().checked_add(args.wait);
    let mut said = false;
    let mut refused = Vec::new();
    loop {
        let machine = machine::open(global)?;
        let round = look(global, &machine, &plan, args.nic.as_ref(), &stop, &mut said);
        refused.extend(round.refused);
        plan.settings.retain(|planned| !round.done.contains(planned));
        if round.waiting.is_empty() {
            return ended(said, refused);
        }
        if stop.load(Ordering::Relaxed) || end.is_none_or(|end| Instant::now() >= end) {
            let mut error = CommandError::new(Kind::Changed, "not everything that is persisted is there");
            for why in round.waiting {
                error = error.hint(why);
            }
            refused.push(error);
            return ended(said, refused);
        }
        std::thread::sleep(LOOK);
    }
}

/// The first reason why something is not set, with the others as its hints.
fn ended(said: bool, refused: Vec<CommandError>) -> Result<(), CommandError> {
    let mut refused = refused.into_iter();
    let Some(mut first) = refused.next() else {
        if !said {
            writeln!(std::io::stdout(), "everything is so already")?;
        }
        return Ok(());
    };
    for other in refused {
        first = other.hints.into_iter().fold(first.hint(other.message), CommandError::hint);
    }
    Err(first)
}

/// Sets what is there by now.
fn look(
    global: &Global,
    machine: &Machine,
    plan: &Plan,
    only: Option<&NicName>,
    stop: &AtomicBool,
    said: &mut bool,
) -> Round {
    let mut round = Round::default();
    let found = found(plan, &machine.model, |nic| mac(&machine.host, nic), only);
    round.waiting.extend(found.absent.iter().map(|setting| format!("{setting}: the interface is not there")));
    if let Some(nic) = only.filter(|nic| machine.model.nic(nic).is_none()) {
        round.waiting.push(format!("there is no interface {nic}"));
    }
    // The whole machine first, then one interface after another: one that is not ready keeps no other.
    let mut groups: BTreeMap<Option<NicName>, Vec<(PlannedSetting, PlannedSetting)>> = BTreeMap::new();
    for (of_plan, here) in found.here {
        groups.entry(here.set.target.nic().cloned()).or_default().push((of_plan, here));
    }
    for group in groups.into_values() {
        let (of_plan, here): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let part = Plan { settings: here, ..Plan::of(&plan.name, &[]) };
        match apply::check(&machine.host, &machine.model, &part) {
            Ok(settings) => {
                match set(global, machine, &part, &settings, stop) {
                    Ok(Attempt::Busy(why)) => {
                        round.waiting.push(why);
                        continue;
                    }
                    Ok(Attempt::Made(wrote)) => *said |= wrote,
                    Err(error) => round.refused.push(error),
                }
                round.done.extend(of_plan);
            }
            Err(ApplyError::Knob(
                error @ (KnobError::UnknownNic { .. }
                | KnobError::UnknownQueue { .. }
                | KnobError::NoIrq { .. }),
            )) => round.waiting.push(error.to_string()),
            Err(error) => {
                round.refused.push(place::apply_error(error));
                round.done.extend(of_plan);
            }
        }
    }
    round
}

/// What became of an attempt.
enum Attempt {
    /// Whether anything had to be written.
    Made(bool),
    /// Another process changes the machine, which one has to look at anew after that.
    Busy(String),
}

/// Applies settings, and says so.
fn set(
    global: &Global,
    machine: &Machine,
    part: &Plan,
    settings: &[Setting],
    stop: &AtomicBool,
) -> Result<Attempt, CommandError> {
    let changes = apply::rehearse(&machine.host, &machine.model, settings).map_err(place::apply_error)?;
    if changes.iter().all(|change| !change.needed) {
        return Ok(Attempt::Made(false));
    }
    let root = place::root(global)?;
    let store = place::store(global);
    let info = BeginInfo {
        identity: &machine.model.identity,
        root: &root,
        netns: machine.netns.clone(),
        what: "restore".to_owned(),
        confirm: None,
    };
    let transaction = match Transaction::begin(&store, info) {
        // The unit of the boot and that of an interface may run at one time.
        Err(ApplyError::Journal(JournalError::Lock(error @ LockError::Held { .. }))) => {
            return Ok(Attempt::Busy(error.to_string()));
        }
        begun => begun.map_err(place::apply_error)?,
    };
    let id = transaction.id().to_owned();
    let archived = place::archived_lines(transaction.archived());
    let (transaction, machine, settings) = apply_command::look_again(global, transaction, part)?;
    match transaction.apply(&machine.host, &machine.model, &settings, stop) {
        Ok(kept) => {
            let done = Done { id: &id, kept: &kept, archived: &archived, confirm: None };
            report::kept(global, &done, false).map(|()| Attempt::Made(true))
        }
        Err(failure) => Err(report::rolled_back(*failure)),
    }
}
