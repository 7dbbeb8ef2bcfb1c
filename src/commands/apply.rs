//! `rxlab apply`: set values, journalled.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::{files, machine, place};
use crate::apply::{self, BeginInfo, Change, Failure, Kept, Transaction, launch_guard};
use crate::cli::Global;
use crate::error::CommandError;
use crate::plan::{Plan, Setting};
use crate::units::parse_duration;

/// Set values on the machine: journalled first, read back after, undone by `rxlab undo`
///
/// Everything is checked before the first write; when one value cannot be set, those set before it
/// go back.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A plan file (TOML)
    #[arg(value_name = "PLAN", required_unless_present = "setting", conflicts_with = "setting")]
    plan: Option<PathBuf>,
    /// One value, such as 'rps eth0/rx-0 = 2-7'; may be given several times
    #[arg(long, value_name = "SETTING")]
    setting: Vec<Setting>,
    /// Put everything back after this time unless `rxlab confirm` comes first
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    confirm: Option<Duration>,
    /// Say what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(global: &Global, args: Args) -> Result<(), CommandError> {
    if args.confirm.is_some_and(|wait| wait.is_zero()) {
        return Err(CommandError::usage("--confirm needs a time above 0"));
    }
    let plan = match &args.plan {
        Some(path) => read_plan(path)?,
        None => plan_of(&args.setting),
    };
    let machine = machine::open(global)?;
    let host = &machine.host;
    let settings = apply::check(host, &machine.model, &plan).map_err(place::apply_error)?;
    let changes = apply::preview(host, &machine.model, &settings).map_err(place::apply_error)?;
    if args.dry_run || changes.iter().all(|change| !change.needed) {
        return report_changes(global, &changes);
    }
    let root = place::root(global)?;
    let store = place::store(global);
    let info = BeginInfo {
        identity: &machine.model.identity,
        root: &root,
        netns: machine.netns.clone(),
        what: format!("apply {}", plan.name),
        confirm: args.confirm,
    };
    // Registered before the first write: an interrupt ends the apply between two values and puts
    // the first ones back.
    let stop = place::stop_flag()?;
    let transaction = Transaction::begin(&store, info).map_err(place::apply_error)?;
    let id = transaction.id().to_owned();
    let archived = place::archived_lines(transaction.archived());
    if args.confirm.is_some()
        && let Err(error) = launch_guard(&place::guard_arguments(global, &root, &id)?)
    {
        transaction.keep().map_err(place::journal_error)?;
        return Err(CommandError::failed(format!("nothing was changed, because no guard stands: {error}")));
    }
    match transaction.apply(host, &machine.model, &settings, &stop) {
        Ok(kept) => report_kept(global, &id, &kept, &archived, args.confirm),
        Err(failure) => Err(rolled_back(*failure)),
    }
}

/// The plan in a file.
pub(super) fn read_plan(path: &Path) -> Result<Plan, CommandError> {
    Plan::from_toml(&files::read("plan", path)?)
        .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))
}

fn plan_of(settings: &[Setting]) -> Plan {
    let name = settings.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Plan::of(&name, settings)
}

/// Why nothing stays, with what could not be put back.
pub(super) fn rolled_back(failure: Failure) -> CommandError {
    let error = place::apply_error(failure.error);
    if failure.undo.is_clean() {
        return error.hint("nothing is changed: what had been set before was put back");
    }
    let id = failure.undo.id.clone();
    let mut error = error;
    for outcome in failure.undo.outcomes.iter().filter(|outcome| outcome.trouble) {
        error = error.hint(format!("{}: {}", super::undo::subject(outcome), super::undo::verdict(outcome)));
    }
    if let Some(journal) = failure.undo.journal_error {
        error = error.hint(format!("{journal}; the values were dealt with all the same"));
    }
    error.hint(format!("look with `rxlab status`, try again with `rxlab undo {id}`"))
}

fn report_changes(global: &Global, changes: &[Change]) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    if global.json {
        let value = json!({ "schema": "rxlab.apply/1", "transaction": null, "changes": changes });
        writeln!(out, "{value:#}")?;
        return Ok(());
    }
    for change in changes {
        let Change { setting, before, needed } = change;
        let note = if *needed { format!("(now {before})") } else { "(it is so already)".to_owned() };
        writeln!(out, "{setting}  {note}")?;
    }
    writeln!(out, "nothing was changed")?;
    Ok(())
}

/// What was set.
pub(super) fn report_kept(
    global: &Global,
    id: &str,
    kept: &[Kept],
    archived: &[String],
    confirm: Option<Duration>,
) -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    if global.json {
        let seconds = confirm.map(|wait| wait.as_secs_f64());
        let value = json!({
            "schema": "rxlab.apply/1", "transaction": id, "settings": kept,
            "confirm_within_s": seconds, "archived": archived,
        });
        writeln!(out, "{value:#}")?;
        return Ok(());
    }
    archived.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    for one in kept {
        let was = if one.changed { format!("(was {})", one.before) } else { "(it is so already)".to_owned() };
        writeln!(out, "{}  {was}", one.setting)?;
        if one.kept != one.setting.value {
            writeln!(out, "  the kernel shows it as {}", one.kept)?;
        }
        one.remark.iter().try_for_each(|remark| writeln!(out, "  {remark}"))?;
    }
    match confirm {
        Some(wait) => writeln!(
            out,
            "transaction {id}: goes back in {} s unless you run `rxlab confirm`",
            wait.as_secs_f64()
        )?,
        None => writeln!(out, "transaction {id}: `rxlab undo {id}` puts it back")?,
    }
    Ok(())
}
