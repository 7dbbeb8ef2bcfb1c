//! `rxlab apply`: set values, journalled.

pub(super) mod consent;
pub(super) mod countdown;
pub(super) mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use self::report::Done;
use super::machine::Machine;
use super::typed::some_time;
use super::{Global, files, leftovers, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::grammar::sh;
use rxlab_change::apply::{self, BeginInfo, Change, Kept, Transaction, launch_guard};
use rxlab_change::journal::Seen;
use rxlab_faces::report::text::command_lines;
use rxlab_path::model::Model;
use rxlab_setting::{Plan, Prediction, Setting, set_flags};
use rxlab_sys::{Host, Namespace, ProcessId, netns_path};

/// Set values on the machine: journalled first, read back after, undone by `rxlab undo`
///
/// Everything is checked before the first write; if a value cannot be set, those set before it are restored.
/// On a terminal it first prints risk and upkeep of each setting, asks before anything riskier than safe, and
/// with --confirm counts down until Enter.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["plan", "setting"]).required(true))]
pub struct Args {
    /// A plan file (TOML)
    #[arg(value_name = "PLAN")]
    plan: Option<PathBuf>,
    /// A value, such as 'rps eth0/rx-0 = 2-7'; may be given several times
    #[arg(long = "set", alias = "setting", value_name = "SETTING")]
    setting: Vec<Setting>,
    #[command(flatten)]
    how: How,
}

/// How a plan is applied.
#[derive(Debug, Default, clap::Args)]
pub(super) struct How {
    /// Restore everything after this time unless `rxlab confirm` comes first
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(super) confirm: Option<Duration>,
    /// Rehearse on a copy of the machine in memory, print what would change, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask on a terminal
    #[arg(short, long)]
    pub(super) yes: bool,
    /// Show each changed value as a line before and a line after
    #[arg(long, conflicts_with = "json")]
    pub(super) diff: bool,
}

pub(crate) fn run(global: &Global, args: Args) -> Result {
    let plan = match &args.plan {
        Some(path) => read_plan(global, path)?,
        None => {
            let name = args.setting.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Plan::new(&name, &args.setting)
        }
    };
    let is_needed = apply(global, &plan, &args.how)?;
    if args.how.dry_run && is_needed && !global.json && output::is_interactive() {
        let what = match &args.plan {
            Some(path) => sh::word(&path.to_string_lossy()),
            None => set_flags(&args.setting),
        };
        let next = format!("{} apply {what} --confirm 60s", global.program());
        write!(output::text_stdout(), "{}", command_lines("next: ", &next))?;
    }
    Ok(())
}

/// True if there is, or was, a value to set.
pub(super) fn apply(global: &Global, plan: &Plan, how: &How) -> Result<bool> {
    if !how.dry_run {
        leftovers::clear(global)?;
    }
    let machine = machine::open(global)?;
    let host = &machine.host;
    let (settings, changes) = rehearsed(host, &machine.model, plan)?;
    let owners = apply::other_owners(host, &machine.model, &settings);
    report::owners(global, &owners)?;
    let is_needed = changes.iter().any(|change| change.needed);
    if how.dry_run || !is_needed {
        report::changes(global, &changes, &owners, how.diff)?;
        return Ok(is_needed);
    }
    let is_interactive = !global.json && output::is_interactive();
    if is_interactive {
        place::check_lock(global)?;
        consent::obtain(&changes, plan, &machine.model, how.yes)?;
    }
    // Registered before the first write: an interrupt stops the apply between two values and puts
    // those already set back.
    let stop = place::stop_flag()?;
    let Applied { id, kept, archived } = set(global, &machine, plan, how.confirm, &stop)?;
    let done = Done { id: &id, kept: &kept, archived: &archived, owners: &owners, confirm: how.confirm };
    report::kept(global, &done, how.diff)?;
    wait(global, &id, how.confirm, &stop)?;
    Ok(true)
}

pub(super) struct Applied {
    /// The transaction that undoes them.
    pub(super) id: String,
    pub(super) kept: Vec<Kept>,
    /// Lines about archived transactions.
    pub(super) archived: Vec<String>,
}

/// Sets the values of a plan on `machine`, with a guard if they have to be confirmed. After an error nothing is changed.
pub(super) fn set(
    global: &Global,
    machine: &Machine,
    plan: &Plan,
    confirm: Option<Duration>,
    stop: &AtomicBool,
) -> Result<Applied> {
    let root = place::root(global)?;
    let store = place::store(global);
    let info = BeginInfo {
        identity: &machine.model.identity,
        root: &root,
        netns: machine.netns.clone(),
        home: Namespace::home(&root),
        applier: ProcessId::own(),
        what: format!("apply {}", plan.name),
        confirm,
        seen: plan.prediction.as_ref().map(seen),
        continues: None,
    };
    let transaction = Transaction::begin(&store, info)?;
    let id = transaction.id().to_owned();
    let archived = place::archived_lines(transaction.archived());
    if confirm.is_some()
        && let Err(error) = launch_guard(&place::guard_arguments(global, &root, &id)?)
    {
        transaction.keep()?;
        return Err(CommandError::failed(format!("nothing was changed: the guard did not start: {error}")));
    }
    let (transaction, machine, settings) = look_again(global, transaction, plan)?;
    match transaction.apply(&machine.host, &machine.model, &settings, stop) {
        Ok(kept) => Ok(Applied { id, kept, archived }),
        Err(failure) => Err(report::rolled_back(*failure)),
    }
}

/// On a terminal, waits until transaction `id` is confirmed or goes back; not without a deadline.
pub(super) fn wait(global: &Global, id: &str, confirm: Option<Duration>, stop: &AtomicBool) -> Result {
    let Some(wait) = confirm else { return Ok(()) };
    let is_interactive = !global.json && output::is_interactive();
    let must_wait = place::warn_of_container("until the deadline")?;
    if is_interactive || must_wait { countdown::run(global, id, wait, stop, is_interactive) } else { Ok(()) }
}

/// The checked settings of a plan, and the changes that they would make, tried on a copy of the machine in memory.
pub(super) fn rehearsed(host: &dyn Host, model: &Model, plan: &Plan) -> Result<(Vec<Setting>, Vec<Change>)> {
    let settings = apply::check(host, model, plan)?;
    let changes = apply::rehearse(host, model, &settings)?;
    Ok((settings, changes))
}

/// Reads the machine again under the lock, and checks the settings of `plan` against it: before the lock was held,
/// another process may have recreated queues, with other interrupt numbers. An error closes the transaction.
pub(super) fn look_again(
    global: &Global,
    transaction: Transaction,
    plan: &Plan,
) -> Result<(Transaction, Machine, Vec<Setting>)> {
    let looked = machine::open(global).and_then(|machine| {
        let settings = apply::check(&machine.host, &machine.model, plan)?;
        Ok((machine, settings))
    });
    match looked {
        Ok((machine, settings)) => Ok((transaction, machine, settings)),
        Err(error) => {
            transaction.keep()?;
            Err(error)
        }
    }
}

/// Figures that the plan was predicted from.
fn seen(prediction: &Prediction) -> Seen {
    Seen {
        cpu: prediction.cpu,
        receive_percent: (prediction.before * 100.0).round() as u32,
        packets: prediction.packets.round() as u64,
    }
}

/// Reads a plan from a file. One for another network namespace than the selected one is an error.
pub(super) fn read_plan(global: &Global, path: &Path) -> Result<Plan> {
    let plan = Plan::from_toml(&files::read("plan", path)?)
        .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))?;
    let Some(meant) = &plan.netns else { return Ok(plan) };
    if global.netns.as_deref().map(netns_path) == Some(netns_path(meant)) {
        return Ok(plan);
    }
    let message = format!("{}: the plan is for the network namespace {meant}", path.display());
    Err(CommandError::new(Kind::Changed, message).hint(format!("add --netns {}", sh::word(meant))))
}
