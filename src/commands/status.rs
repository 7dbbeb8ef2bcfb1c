//! `rxlab status`: applied values, and those that another program has changed.

mod watch;

use std::io::Write;
use std::time::Duration;

use serde_json::json;

use super::machine::{From, Source};
use super::{Global, machine, output, place};
use crate::apply::{Live, State, Suspect, TransactionStatus, ValueStatus, in_words, status};
use crate::error::{CommandError, Kind};
use crate::journal::{BackCommand, History, Open, Unreadable};
use crate::model::Model;
use crate::report::text::{clean, paragraph};
use crate::sample::{Identity, Inventory, Scope};
use crate::snapshot::Snapshot;
use crate::units::parse_duration;

/// Show what is applied, what drifted and who probably did it, and the time left to a deadline
///
/// Exit code 1 when a value is no longer what was set, or a transaction is unfinished or overdue.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    from: From,
    /// Keep sampling, and print a line only when something changes, until Ctrl-C
    #[arg(long, conflicts_with = "snapshot")]
    watch: bool,
    /// Time between two samples of --watch
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "watch", value_parser = parse_duration)]
    every: Duration,
    /// End --watch after this time
    #[arg(long = "for", value_name = "TIME", requires = "watch", value_parser = parse_duration)]
    length: Option<Duration>,
}

pub(crate) fn run(global: &Global, args: &Args) -> Result<(), CommandError> {
    if args.watch {
        return watch::run(global, args.every, args.length);
    }
    let (all, unreadable) = transactions(global, &Source::open(global, &args.from)?)?;
    let printed = report(global, &all, &unreadable);
    CommandError::after_output(verdict(&all, &unreadable), printed)
}

fn report(global: &Global, all: &[TransactionStatus], unreadable: &[Unreadable]) -> Result<(), CommandError> {
    let mut out = output::stdout(global);
    if global.json {
        let unreadable: Vec<_> =
            unreadable.iter().map(|u| json!({ "id": u.id, "file": u.path, "why": u.why })).collect();
        let value = json!({ "schema": "rxlab.status/1", "transactions": all, "unreadable": unreadable });
        writeln!(out, "{value:#}")?;
    } else if all.is_empty() && unreadable.is_empty() {
        writeln!(out, "nothing is applied")?;
    } else {
        all.iter().try_for_each(|transaction| print(&mut out, transaction))?;
    }
    drop(out);
    if !global.json {
        place::warn(unreadable);
    }
    Ok(())
}

/// Transactions compared with the machine, and files that cannot be read.
pub(super) type Standing = (Vec<TransactionStatus>, Vec<Unreadable>);

/// Returns the transactions that are applied to `source`.
pub(super) fn transactions(global: &Global, source: &Source) -> Result<Standing, CommandError> {
    match source {
        Source::Live(_) => of_machine(global),
        Source::Snapshot(snapshot) => Ok((of_snapshot(snapshot)?, Vec::new())),
    }
}

/// Returns the exit code for `all`, which have been printed.
fn verdict(all: &[TransactionStatus], unreadable: &[Unreadable]) -> Result<(), CommandError> {
    if unreadable.is_empty() && all.iter().all(TransactionStatus::is_fine) {
        Ok(())
    } else {
        Err(CommandError::silent(Kind::Findings))
    }
}

/// Returns the transactions of the journal, each compared with its own namespace.
fn of_machine(global: &Global) -> Result<Standing, CommandError> {
    let root = place::root(global)?.to_string_lossy().into_owned();
    // The journal needs no more of the machine, which may have thousands of interfaces.
    let boot_id = match Identity::take(&machine::host(global)?.0).boot_id {
        empty if empty.is_empty() => machine::open(global)?.model.identity.boot_id,
        boot_id => boot_id,
    };
    let Open { transactions: open, mut unreadable } =
        place::store(global).open(&root, &boot_id).map_err(place::journal_error)?;
    let mut all = Vec::new();
    for (index, (id, history)) in open.iter().enumerate() {
        let Some(begin) = history.begin() else { continue };
        match place::of_transaction(global, begin) {
            Ok((host, model)) => all.extend(status(history, &open[index + 1..], &*host, &model)),
            // The others are still shown.
            Err(error) => unreadable.push(Unreadable {
                id: id.clone(),
                path: place::store(global).path(id),
                why: error.message,
                readable: None,
            }),
        }
    }
    Ok((all, unreadable))
}

/// Returns the transactions that were open when the snapshot was taken, compared with the machine at that time.
fn of_snapshot(snapshot: &Snapshot) -> Result<Vec<TransactionStatus>, CommandError> {
    let model = Model::new(&Inventory::take(snapshot.last(), Scope::Path));
    let mut open = Vec::new();
    for (id, bytes) in &snapshot.journal {
        let history = History::parse(bytes).map_err(|damage| {
            CommandError::usage(format!("the snapshot's journal {id} is damaged in line {}", damage.line))
        })?;
        open.push((id.clone(), history));
    }
    Ok(open
        .iter()
        .enumerate()
        .filter_map(|(index, (_, history))| status(history, &open[index + 1..], snapshot.last(), &model))
        .collect())
}

/// Prints one transaction. Names in a journal come from other users, and a snapshot's journal may come from anyone.
fn print(out: &mut impl Write, transaction: &TransactionStatus) -> std::io::Result<()> {
    let TransactionStatus { id, started, what, netns, state, values, command, seen: _ } = transaction;
    writeln!(out, "transaction {}  {}", clean(id), standing(state))?;
    writeln!(out, "  {}, {}", clean(what), clean(started))?;
    if let Some(netns) = netns {
        writeln!(out, "  in the network namespace {}", clean(&netns.path.to_string_lossy()))?;
    }
    for ValueStatus { knob, target, original, wanted, live, suspects } in values {
        let line = format!("{knob} {target} = {wanted}  (was {original})  {}", now(live));
        writeln!(out, "  {}", clean(&line))?;
        if *state != State::Unfinished && asks_who(live, suspects) {
            write!(out, "{}", paragraph("    ", &in_words(suspects)))?;
        }
    }
    if let Some(BackCommand { back, directory }) = command {
        let inside = directory.as_ref().map_or_else(String::new, |directory| format!(" in {directory}"));
        writeln!(out, "  {}", clean(&format!("a shell command ran; `rxlab undo` runs{inside}: {back}")))?;
    }
    Ok(())
}

/// State of a transaction, in words.
pub(super) fn standing(state: &State) -> String {
    match state {
        State::Applied => "applied".to_owned(),
        State::Unconfirmed { seconds_left } if *seconds_left < 0.0 => {
            "not confirmed in time and not put back: its guard is gone, run `rxlab undo`".to_owned()
        }
        State::Unconfirmed { seconds_left } => {
            format!("goes back in {seconds_left:.0} s unless you run `rxlab confirm`")
        }
        State::Unfinished => {
            "unfinished: being applied or put back, or stopped; `rxlab undo` continues".to_owned()
        }
    }
}

/// The current value, in words.
fn now(live: &Live) -> String {
    match live {
        Live::Kept => "kept".to_owned(),
        Live::Covered { by } => format!("left to {by}, which has set it since"),
        Live::Original => "DRIFTED: it is back at its original value".to_owned(),
        Live::Drifted { value } => format!("DRIFTED: it is {value} now"),
        Live::Gone => "gone with its device".to_owned(),
        Live::Unreadable { why } => format!("unknown: {why}"),
    }
}

/// True if the suspects are worth printing. For a device that is gone the reason is known without any.
fn asks_who(live: &Live, suspects: &[Suspect]) -> bool {
    match live {
        Live::Original | Live::Drifted { .. } => true,
        Live::Gone => !suspects.is_empty(),
        Live::Kept | Live::Covered { .. } | Live::Unreadable { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::print;
    use crate::apply::{Culprit, Likelihood, Live, State, Suspect, TransactionStatus, ValueStatus};
    use crate::journal::BackCommand;
    use crate::plan::Target;

    /// A journal from a stranger's snapshot once wrote its escape sequences to the terminal.
    #[test]
    fn a_journal_does_not_control_the_terminal() {
        let evil = || "\u{1b}]0;x\u{7}".to_owned();
        let transaction = TransactionStatus {
            id: evil(),
            started: evil(),
            what: evil(),
            netns: None,
            seen: None,
            state: State::Applied,
            values: vec![ValueStatus {
                knob: evil(),
                target: Target::Host,
                original: evil(),
                wanted: evil(),
                live: Live::Drifted { value: evil() },
                suspects: vec![Suspect {
                    who: Culprit::NewQueues,
                    likelihood: Likelihood::Probable,
                    evidence: vec![evil()],
                }],
            }],
            command: Some(BackCommand { back: evil(), directory: Some(evil()) }),
        };
        let mut out = Vec::new();
        print(&mut out, &transaction).expect("written");
        let text = String::from_utf8(out).expect("text");
        assert!(text.lines().count() == 5 && text.contains("DRIFTED"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
