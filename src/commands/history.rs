//! `rxlab history`: all changes and trials on this machine.

use std::io::Write;

use super::trial::list;
use super::{Global, machine, output, place};
use crate::error::Result;
use rxlab_change::apply::{self, Ending, State};
use rxlab_change::journal::{Entry, Store};
use rxlab_faces::report::printed::{HistoryReport, Standing, TransactionRow};
use rxlab_faces::report::status;
use rxlab_faces::report::text::{Cell, Table, left, wrapping};
use rxlab_sys::Host;

/// List past and present transactions and trials, oldest first
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) fn run(global: &Global, _: &Args) -> Result {
    let (own, identity) = machine::own(global)?;
    let store = place::store(global);
    let entries = store.all()?.into_iter();
    let rows: Vec<TransactionRow> =
        entries.map(|entry| row(&store, entry, own.now_ns(), &identity.boot_id)).collect();
    let trials = list::listed(global)?;
    // Files that are out of sight have no row.
    let root = place::root(global)?.to_string_lossy().into_owned();
    let open = store.open(&root, &identity.boot_id);
    let mut missing = open.as_ref().map(|open| open.unreadable.clone()).unwrap_or_default();
    missing.retain(|file| rows.iter().all(|row| row.id != file.id));
    place::warn(&missing);
    if global.json {
        output::json(&HistoryReport::new(&rows, &list::rows(&trials)))?;
        open?;
        return Ok(());
    }
    let mut out = output::text_stdout();
    if rows.is_empty() && trials.is_empty() && missing.is_empty() {
        writeln!(out, "no changes or trials yet")?;
    }
    if !rows.is_empty() {
        writeln!(out, "transactions")?;
        write!(out, "{}", table(&rows).render())?;
    }
    if !trials.is_empty() {
        let gap = if rows.is_empty() { "" } else { "\n" };
        writeln!(out, "{gap}trials")?;
        write!(out, "{}", list::table(&trials).indented(2).render())?;
    }
    open?;
    Ok(())
}

fn row(store: &Store, entry: Entry, now_ns: u64, boot_id: &str) -> TransactionRow {
    let Entry { id, is_open, history } = entry;
    let begin = history.as_ref().ok().and_then(|history| history.begin());
    let (started, what) =
        begin.map_or_else(Default::default, |begin| (begin.started.clone(), begin.what.clone()));
    let is_present = begin.is_some_and(|begin| !begin.is_of_other_boot(boot_id));
    let standing = match &history {
        Err(why) => Standing::Unreadable(why.to_string()),
        // The next change archives transactions of an earlier boot.
        Ok(history) if is_open && is_present && !history.is_closed() => {
            let state = apply::state(history, now_ns);
            Standing::Open(if store.has_lost_guard(&id) { state.without_guard() } else { state })
        }
        Ok(history) => Standing::Ended(apply::ending(history, boot_id)),
    };
    TransactionRow { id, started, what, standing }
}

fn table(rows: &[TransactionRow]) -> Table {
    let mut table =
        Table::new([left("ID"), left("STARTED"), wrapping("STATE"), wrapping("WHAT")]).indented(2);
    for row in rows {
        table.row([
            Cell::from(row.id.clone()),
            Cell::from(list::minute(&row.started)),
            Cell::from(in_words(&row.standing)),
            Cell::from(row.what.clone()),
        ]);
    }
    table
}

fn in_words(standing: &Standing) -> String {
    match standing {
        Standing::Open(State::Unfinished) => "unfinished".to_owned(),
        Standing::Open(state) => status::standing(state),
        Standing::Ended(ending) => ended(*ending).to_owned(),
        Standing::Unreadable(why) => format!("unreadable: {why}"),
    }
}

pub(super) fn ended(ending: Ending) -> &'static str {
    match ending {
        Ending::Empty => "changed nothing",
        Ending::PutBack => "reverted",
        Ending::NotConfirmed => "reverted, not confirmed",
        Ending::LeftAlone => "left as others set it",
        Ending::PutBackInPart => "reverted in part, the rest was left",
        Ending::GivenUp => "given up, values left as they were",
        Ending::Rebooted => "ended by a reboot",
    }
}
