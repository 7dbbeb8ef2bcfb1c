//! `rxlab undo`: restores applied values.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Global, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_change::apply::{
    self, Backwards, CommandUndo, Undo, UndoError, UndoOptions, UndoOutcome, Undone, Waiting, Which,
};
use rxlab_change::journal::{BackCommand, History, JournalError, LockError, Outcome, Store, Unreadable};
use rxlab_faces::report::printed::UndoReport;
use rxlab_faces::report::status::parts;
use rxlab_faces::report::text::paragraph;
use rxlab_sys::lift_limits;

/// Revert what was applied: every open transaction, the newest first
///
/// A value that another program has changed since is reported and left alone.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this transaction
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Only the newest transaction
    #[arg(long, conflicts_with = "id")]
    last: bool,
    /// Also overwrite values that another program has changed since, and lose the flow rules and RSS contexts that it has added
    #[arg(long)]
    force: bool,
    /// Give the transaction up: leave its values as they are, and skip it from now on
    #[arg(long, requires = "id", conflicts_with_all = ["force", "last"])]
    forget: bool,
    /// Rehearse on a copy of the machine in memory, print what would be restored, and change nothing
    #[arg(long, conflicts_with = "forget")]
    dry_run: bool,
}

pub(crate) fn run(global: &Global, args: Args) -> Result {
    lift_limits();
    let store = place::store(global);
    if let (true, Some(id)) = (args.forget, &args.id) {
        return forget(global, &store, id);
    }
    let which = match &args.id {
        Some(id) => Which::Id(id),
        None if args.last => Which::Last,
        None => Which::All,
    };
    // Without a journal there is nothing to lock, and no directory is created for a lock.
    if store.is_empty()? {
        if let Some(id) = &args.id {
            store.find(id)?;
        }
        let done = Backwards { undone: Vec::new(), waiting: Vec::new(), error: None };
        let undone = Undone { archived: Vec::new(), unreadable: Vec::new(), done };
        return report(global, &undone, args.dry_run);
    }
    let root = place::root(global)?;
    let (own, identity) = machine::own(global)?;
    let options = UndoOptions { force: args.force };
    let machine = (&*root.to_string_lossy(), &identity);
    let act = if args.dry_run { apply::rehearse_undo } else { apply::undo };
    let begun = Instant::now();
    let undone = loop {
        let undone = act(&store, &own, machine, which, options);
        let is_held = match &undone {
            Ok(undone) => undone.done.undone.is_empty() && undone.done.error.as_ref().is_some_and(is_held),
            Err(error) => is_held(error),
        };
        if !is_held || begun.elapsed() >= GUARD_TIMEOUT {
            break undone?;
        }
        std::thread::sleep(RETRY);
    };
    let printed = report(global, &undone, args.dry_run);
    place::warn(&undone.unreadable);
    CommandError::after_output(exit(undone, args.id.is_some(), args.dry_run), printed)
}

/// Longest wait for a lock that another process holds: a working guard is soon done.
const GUARD_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_millis(50);

fn is_held(error: &UndoError) -> bool {
    matches!(error, UndoError::Journal(JournalError::Lock(LockError::Held { .. })))
}

/// Reverts one transaction and prints the result.
pub(super) fn one(global: &Global, id: &str) -> Result {
    run(global, Args { id: Some(id.to_owned()), last: false, force: false, forget: false, dry_run: false })
}

/// Gives a transaction up: its values stay as they are.
fn forget(global: &Global, store: &Store, id: &str) -> Result {
    let found = match store.find(id) {
        Err(JournalError::Missing { id, .. }) => id,
        found => found?,
    };
    if found != id {
        return Err(CommandError::usage(format!("--forget needs the whole id, such as {found}")));
    }
    let lock = store.lock(Duration::ZERO)?;
    let root = place::root(global)?;
    let is_of_other_root =
        |history: &History| history.begin().is_some_and(|begin| Path::new(&begin.root) != root);
    if store.load(id).is_ok_and(|history| history.as_ref().is_some_and(is_of_other_root)) {
        return Err(of_another_root(id));
    }
    store.forget(&lock, id)?;
    output::print(global, &UndoReport::forgotten(id), || {
        format!("transaction {id} is given up: its values stay as they are, and undo skips them\n")
    })
}

impl From<UndoError> for CommandError {
    fn from(error: UndoError) -> Self {
        let hint = match error {
            UndoError::Journal(error) => return error.into(),
            UndoError::OtherRoot(_) => None,
            UndoError::Unreadable(file) => return (&*file).into(),
            UndoError::Lost { ref id, .. } => {
                Some(format!("if it is gone for good, `rxlab undo --forget {id}` gives its values up"))
            }
            UndoError::Covered { ref newer, .. } => Some(format!("run `rxlab undo {newer}` first")),
        };
        CommandError::new(Kind::Changed, error).hint_all(hint)
    }
}

/// Error for an open transaction that is not of this root and boot.
pub(super) fn of_another_root(id: &str) -> CommandError {
    CommandError::new(Kind::Changed, format!("transaction {id} belongs to another root"))
}

fn report(global: &Global, all: &Undone, is_rehearsal: bool) -> Result {
    let Backwards { undone, waiting, error } = &all.done;
    let archived = place::archived_lines(&all.archived);
    if global.json {
        return output::json(&UndoReport::new(undone, waiting, &archived, is_rehearsal));
    }
    let mut out = output::text_stdout();
    if !is_rehearsal {
        archived.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if undone.is_empty() && waiting.is_empty() && all.unreadable.is_empty() && error.is_none() {
        writeln!(out, "nothing to undo")?;
    }
    for undo in undone {
        writeln!(out, "transaction {}:", undo.id)?;
        for outcome in &undo.outcomes {
            let verdict = if is_rehearsal { prospect(outcome) } else { verdict(outcome) };
            write!(out, "{}", paragraph(&format!("  {}: ", subject(outcome)), &verdict))?;
        }
        if let Some(CommandUndo { command, outcome }) = &undo.command {
            write!(out, "{}", paragraph("  shell command: ", &ran(command, outcome, is_rehearsal)))?;
        }
        if undo.outcomes.iter().any(|one| matches!(one.outcome, Outcome::Drift { fresh: true, .. })) {
            let id = &undo.id;
            writeln!(out, "  next: `rxlab undo --force {id}` or `rxlab undo --forget {id}`")?;
        }
        if undo.outcomes.is_empty() && undo.command.is_none() {
            writeln!(out, "  nothing left to restore")?;
        }
    }
    for Waiting { id, behind } in waiting {
        let is_unread = all.unreadable.iter().any(|file| file.id == *behind);
        let until = if is_unread {
            "may have changed the same values, can be read"
        } else {
            "changed the same values, is reverted"
        };
        write!(
            out,
            "{}",
            paragraph(&format!("transaction {id}: "), &format!("waits until {behind}, which {until}"))
        )?;
    }
    if is_rehearsal && !undone.is_empty() {
        writeln!(out, "nothing was changed")?;
    }
    Ok(())
}

/// Knob and target, such as `rps eth0/rx-0`.
pub(super) fn subject(outcome: &UndoOutcome) -> String {
    format!("{} {}", outcome.knob, outcome.target)
}

/// The outcome for a value, in words.
pub(super) fn verdict(undone: &UndoOutcome) -> String {
    let original = &undone.original;
    match &undone.outcome {
        Outcome::Unchanged => format!("already {original}"),
        Outcome::Restored => format!("back to {original}"),
        Outcome::Altered { kept } => format!("set back to {original}, but the kernel kept {kept}"),
        Outcome::Drift { live, fresh: false } => format!(
            "left alone: it has since been changed to {live} (it was {original} before and {} after the change)",
            undone.wanted
        ),
        Outcome::Drift { live, fresh: true } => {
            format!("left alone: it is {live}, which the kernel gives a new queue, and was {original} before")
        }
        Outcome::RestoredInPart { restored, left, inherited } => {
            let mut text = match (&restored[..], &left[..]) {
                ([], []) => format!("back to {original}"),
                _ => format!("restored in part: {}", parts(restored)),
            };
            if !left.is_empty() {
                text += &format!("; left alone, changed since: {}", parts(left));
            }
            if !inherited.is_empty() {
                text += &format!("; started by it since, and not set back: {}", parts(inherited));
            }
            text
        }
        Outcome::Deferred => {
            format!("the queue does not exist now; another `rxlab undo` sets {original} once it does")
        }
        Outcome::Gone if undone.trouble => format!("the device is gone (the value was {original})"),
        Outcome::Gone => "gone, and its value with it".to_owned(),
        Outcome::Failed { why } => format!("not restored to {original}: {why}"),
    }
}

/// `error` with a hint for each value that is not as it was before.
pub(super) fn hints(error: CommandError, outcomes: &[UndoOutcome]) -> CommandError {
    let troubled = outcomes.iter().filter(|outcome| outcome.trouble);
    troubled.fold(error, |error, outcome| error.hint(format!("{}: {}", subject(outcome), verdict(outcome))))
}

/// The same for a rehearsed undo.
fn prospect(undone: &UndoOutcome) -> String {
    let UndoOutcome { original, wanted, .. } = undone;
    match &undone.outcome {
        Outcome::Unchanged => format!("already {original}"),
        Outcome::Restored => format!("would go back to {original} (rxlab set {wanted})"),
        Outcome::Altered { kept } => format!("would be set back to {original} and read back as {kept}"),
        Outcome::Failed { why } => format!("could not be restored to {original}: {why}"),
        Outcome::Drift { .. } | Outcome::RestoredInPart { .. } => format!("would be {}", verdict(undone)),
        Outcome::Deferred | Outcome::Gone => verdict(undone),
    }
}

/// The outcome for a shell command, in words.
fn ran(command: &BackCommand, outcome: &Outcome, is_rehearsal: bool) -> String {
    match outcome {
        _ if is_rehearsal => format!("would be undone by `{}`", command.back),
        Outcome::Failed { why } => format!("not undone: {why}"),
        _ => format!("undone by `{}`", command.back),
    }
}

/// Returns the error for `all`. Without `by_id`, skipped files count: not everything is back.
fn exit(all: Undone, by_id: bool, is_rehearsal: bool) -> Result {
    let Backwards { undone, waiting, error } = all.done;
    if let Some(error) = error {
        return Err(error.into());
    }
    if let Some(failed) = undone.iter().find(|undo| undo.has_failed()) {
        return Err(if is_rehearsal {
            CommandError::silent(Kind::Failed)
        } else {
            CommandError::failed("not everything could be restored").hint(format!(
                "run `rxlab undo` again once the reasons above are gone, or give the values up: \
                     `rxlab undo --forget {}`",
                failed.id
            ))
        });
    }
    if let Some(error) = undone.iter().find_map(|undo| undo.journal_error.as_ref()) {
        let mut outcomes = undone.iter().flat_map(|undo| &undo.outcomes);
        let is_back = waiting.is_empty() && outcomes.all(|outcome| !outcome.trouble);
        let is_undone = |file: &Unreadable| undone.iter().any(|undo| undo.id == file.id);
        let values = match error {
            JournalError::LaterVersion { .. } if is_back && all.unreadable.iter().all(is_undone) => {
                "what this version understands is back, but"
            }
            _ if is_back && all.unreadable.is_empty() => "the values are back, but",
            _ => "not all values are back, and",
        };
        return Err(CommandError::failed(format!("{values} {error}")));
    }
    if !by_id && !all.unreadable.is_empty() {
        return Err(CommandError::silent(Kind::Failed));
    }
    let is_done = waiting.is_empty() && undone.iter().all(Undo::is_clean);
    if is_done { Ok(()) } else { Err(CommandError::silent(Kind::Changed)) }
}
