//! `rxlab status`: applied values, and those that another program has changed.

mod watch;

use std::io::Write;
use std::time::Duration;

use super::machine::{SnapshotFile, Source};
use super::trial::schedule;
use super::{Global, machine, output, place};
use crate::error::{CommandError, Kind, Result};
use rxlab_base::units::{parse_duration, rfc3339};
use rxlab_change::apply::{self, TransactionStatus};
use rxlab_change::journal::{History, Open, Unread, Unreadable};
use rxlab_faces::report::printed::StatusReport;
use rxlab_faces::report::status;
use rxlab_path::model::Model;
use rxlab_path::sample::{Identity, Inventory, Scope};
use rxlab_record::snapshot::Snapshot;
use rxlab_trial::schedule::Scheduled;

/// Show what is applied, what drifted and who probably did it, and the time left to a deadline
///
/// Exit code 1 when a value is no longer what was set, a transaction is unfinished, overdue, without its guard or unreadable,
/// or a scheduled checkpoint was missed or failed.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    from: SnapshotFile,
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

pub(crate) fn run(global: &Global, args: &Args) -> Result {
    if args.watch {
        return watch::run(global, args.every, args.length);
    }
    let source = Source::open_file(global, &args.from)?;
    let (all, unreadable) = transactions(global, &source)?;
    let is_live = matches!(source, Source::Live(_));
    let checkpoints = match source {
        Source::Live(_) => schedule::open(global)?,
        Source::Snapshot(_) => Vec::new(),
    };
    let place = (identity(global, &source)?, taken(&source));
    let printed = report(global, place, &all, &unreadable, &checkpoints);
    if is_live {
        place::warn_of_others(global);
    }
    let ended = verdict(&all, &unreadable).and_then(|()| schedule::verdict(&checkpoints));
    CommandError::after_output(ended, printed)
}

/// The machine whose journal it is.
fn identity(global: &Global, source: &Source) -> Result<Identity> {
    Ok(match source {
        Source::Live(_) => Identity::take(&machine::host(global)?),
        Source::Snapshot(snapshot) => Identity::take(snapshot.last()),
    })
}

fn taken(source: &Source) -> Option<String> {
    matches!(source, Source::Live(_)).then(|| rfc3339(jiff::Timestamp::now()))
}

fn report(
    global: &Global,
    place: (Identity, Option<String>),
    all: &[TransactionStatus],
    unreadable: &[Unreadable],
    checkpoints: &[(String, Scheduled)],
) -> Result {
    if global.json {
        return output::json(&StatusReport::new(place, all.to_vec(), unreadable, checkpoints.to_vec()));
    }
    let mut out = output::text_stdout();
    if !all.is_empty() || unreadable.is_empty() {
        write!(out, "{}", status::all(all))?;
    }
    schedule::print_open(&mut out, checkpoints)?;
    drop(out);
    place::warn(unreadable);
    Ok(())
}

/// Transactions compared with the machine, and files that cannot be read.
pub(super) type Standing = (Vec<TransactionStatus>, Vec<Unreadable>);

/// Returns the transactions that are applied to `source`.
pub(super) fn transactions(global: &Global, source: &Source) -> Result<Standing> {
    match source {
        Source::Live(_) => of_machine(global),
        Source::Snapshot(snapshot) => of_snapshot(snapshot),
    }
}

/// Returns the exit code for `all`, which have been printed.
fn verdict(all: &[TransactionStatus], unreadable: &[Unreadable]) -> Result {
    if unreadable.is_empty() && all.iter().all(TransactionStatus::is_fine) {
        Ok(())
    } else {
        Err(CommandError::silent(Kind::Findings))
    }
}

/// Returns the transactions of the journal, each compared with its own namespace.
pub(super) fn of_machine(global: &Global) -> Result<Standing> {
    let root = place::root(global)?.to_string_lossy().into_owned();
    // The journal needs no more of the machine, which may have thousands of interfaces.
    let boot_id = match Identity::take(&machine::host(global)?).boot_id {
        empty if empty.is_empty() => machine::open(global)?.model.identity.boot_id,
        boot_id => boot_id,
    };
    let store = place::store(global);
    let Open { transactions: open, mut unreadable } = store.open(&root, &boot_id)?;
    let mut all = Vec::new();
    for (index, (id, history)) in open.iter().enumerate() {
        let Some(begin) = history.begin() else { continue };
        match place::of_transaction(global, begin) {
            Ok((host, model)) => {
                let status = apply::status(history, &open[index + 1..], &*host, &model);
                all.extend(status.map(|mut status| {
                    if store.has_lost_guard(id) {
                        status.state = status.state.without_guard();
                    }
                    status
                }));
            }
            // The others are still shown.
            Err(_) if unreadable.iter().any(|file| file.id == *id) => {}
            Err(error) => unreadable.push(Unreadable {
                id: id.clone(),
                path: store.path(id),
                why: Unread::Other(error.message),
                readable: None,
            }),
        }
    }
    Ok((all, unreadable))
}

/// Returns the transactions that were open when the snapshot was taken, compared with the machine at that time.
pub(super) fn of_snapshot(snapshot: &Snapshot) -> Result<Standing> {
    let model = Model::new(&Inventory::take(snapshot.last(), Scope::Path));
    let mut open = Vec::new();
    for (id, bytes) in &snapshot.journal {
        let history = History::parse(bytes).map_err(|damage| {
            CommandError::usage(format!("the snapshot's journal {id} is damaged in line {}", damage.line))
        })?;
        open.push((id.clone(), history));
    }
    let all = open.iter().enumerate().filter_map(|(index, (_, history))| {
        apply::status(history, &open[index + 1..], snapshot.last(), &model)
    });
    Ok((all.collect(), Vec::new()))
}
