//! Undo of open transactions, newest first: one that found, or reset, values of another goes first. How a value is
//! restored is decided elsewhere.

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;

use super::Transaction;
use super::locate::{is_of_namespace, look, reach};
use super::search::Search;
use super::undo::{Undo, UndoOptions};
use crate::journal::{Archived, History, JournalError, Open, Outcome, Store, Touched, Unreadable};
use rxlab_path::model::{DeviceAddress, Identity};
use rxlab_setting::{discarded_by, tunable};
use rxlab_sys::{Hidden, Host, OverlayHost};

/// A transaction left alone because a newer one with the same values could not be undone, or because the file of a newer one
/// cannot be read, or not completely. The older one would take the newer one's value for a foreign one, and be closed over it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waiting {
    pub id: String,
    /// The newer one that has to go first.
    pub behind: String,
}

/// A transaction could not be undone.
#[derive(Debug, Error)]
pub enum UndoError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The location of its values is unknown. It stays open.
    #[error("cannot reach the network namespace of transaction {id}: {hidden}")]
    Lost { id: String, hidden: Hidden },
    #[error("transaction {0} belongs to another root")]
    OtherRoot(String),
    /// The one asked for, begun by a later version; or a newer one, which may have changed the same values.
    #[error(transparent)]
    Unreadable(Box<Unreadable>),
    #[error("transaction {newer} changed the same values after {id}")]
    Covered {
        /// The transaction asked for.
        id: String,
        newer: String,
    },
}

/// The open transactions to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    All,
    Last,
    /// The one whose id starts with this.
    Id(&'a str),
}

#[derive(Debug)]
pub struct Undone {
    /// Transactions moved to the archive: nothing in them can be undone.
    pub archived: Vec<Archived>,
    /// Files skipped because they cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Results for the chosen transactions.
    pub done: Backwards<UndoError>,
}

/// Undoes open transactions of the machine below `root`. `own` is the machine seen from our own network
/// namespace; the namespace of each transaction is looked up from there again under the lock.
pub fn undo(
    store: &Store,
    own: &dyn Host,
    (root, identity): (&str, &Identity),
    which: Which<'_>,
    options: UndoOptions,
) -> Result<Undone, UndoError> {
    let lock = store.lock(Duration::ZERO)?;
    let archived = store.sweep(&lock, root, &identity.boot_id)?;
    let open = store.open(root, &identity.boot_id)?;
    let known: Vec<String> = open.transactions.iter().map(|(id, _)| id.clone()).collect();
    let (chosen, unreadable) = choose(store, which, open)?;
    drop(lock);
    let search = Search::default();
    let done = backwards(&chosen, &unreadable, |id, history| {
        let transaction = Transaction::resume(store, id, Duration::ZERO)?;
        // One may have begun while the lock was free.
        let mut newer = store.open_besides(id, root, &identity.boot_id)?;
        newer.transactions.retain(|(other, _)| !known.contains(other));
        if let Some(newer) = covered_by(history, &newer.transactions) {
            return Err(UndoError::Covered { id: id.to_owned(), newer: newer.to_owned() });
        }
        newer.unreadable.retain(|file| file.is_after(id) && !known.contains(&file.id));
        if let Some(file) = newer.unreadable.pop() {
            return Err(UndoError::Unreadable(Box::new(file)));
        }
        undo_searching(transaction, own, options, &search)
    });
    Ok(Undone { archived, unreadable, done })
}

/// Runs [`undo`] on in-memory copies of the journal and the machine. Writes nothing and runs no
/// shell command.
pub fn rehearse_undo(
    store: &Store,
    own: &dyn Host,
    machine: (&str, &Identity),
    which: Which<'_>,
    options: UndoOptions,
) -> Result<Undone, UndoError> {
    undo(&store.rehearsal()?, &OverlayHost::new(own), machine, which, options)
}

/// Undoes one transaction on the machine it was made on.
pub(super) fn undo_one(
    transaction: Transaction,
    own: &dyn Host,
    options: UndoOptions,
) -> Result<Undo, UndoError> {
    undo_searching(transaction, own, options, &Search::default())
}

pub(super) fn undo_searching(
    transaction: Transaction,
    own: &dyn Host,
    options: UndoOptions,
    search: &Search,
) -> Result<Undo, UndoError> {
    let reached = match transaction.journal().history().begin() {
        Some(begin) => {
            reach(own, begin).map_err(|hidden| UndoError::Lost { id: transaction.id().to_owned(), hidden })?
        }
        None => None,
    };
    let host = reached.as_deref().unwrap_or(own);
    Ok(transaction.undo_searching(host, &look(host), options, search))
}

type Chosen = (Vec<(String, History)>, Vec<Unreadable>);

fn choose(store: &Store, which: Which<'_>, open: Open) -> Result<Chosen, UndoError> {
    let Open { mut transactions, mut unreadable } = open;
    let text = match which {
        Which::All => return Ok((transactions, unreadable)),
        Which::Last => {
            let last = transactions.pop();
            unreadable.retain(|file| last.as_ref().is_none_or(|(id, _)| file.is_after(id)));
            return Ok((last.into_iter().collect(), unreadable));
        }
        Which::Id(text) => text,
    };
    let id = store.find(text)?;
    let Some(at) = transactions.iter().position(|(open, _)| *open == id) else {
        // Damage of the transaction asked for is an error of its own.
        store.load(&id)?;
        return match unreadable.into_iter().find(|file| file.id == id) {
            Some(file) => Err(UndoError::Unreadable(Box::new(file))),
            None => Err(UndoError::OtherRoot(id)),
        };
    };
    unreadable.retain(|file| file.is_after(&id));
    let newer = transactions.split_off(at + 1);
    let chosen = transactions.split_off(at);
    if let Some(cover) = covered_by(&chosen[0].1, &newer) {
        return Err(UndoError::Covered { newer: cover.to_owned(), id });
    }
    Ok((chosen, unreadable))
}

/// Results for several transactions.
#[derive(Debug)]
pub struct Backwards<E> {
    /// Undone transactions in order, each as far as its result says.
    pub undone: Vec<Undo>,
    pub waiting: Vec<Waiting>,
    /// Reason why the first failed one was not undone; older ones with the same values wait for it.
    pub error: Option<E>,
}

/// The newer transaction that has to be undone before `id`: one that is unreadable, as any value may be in what is not read, or one
/// of `others` that [`covered_by`] returns.
fn behind<'a>(
    id: &str,
    history: &History,
    others: &'a [(String, History)],
    unreadable: &'a [Unreadable],
) -> Option<&'a str> {
    let unread = unreadable.iter().rfind(|file| file.is_after(id));
    unread.map(|file| file.id.as_str()).or_else(|| covered_by(history, others))
}

/// Undoes `open` (must be oldest first, as [`crate::journal::Store::open_of`] returns them) from the newest on
/// with `undo`.
fn backwards<E>(
    open: &[(String, History)],
    unreadable: &[Unreadable],
    mut undo: impl FnMut(&str, &History) -> Result<Undo, E>,
) -> Backwards<E> {
    let mut result = Backwards { undone: Vec::new(), waiting: Vec::new(), error: None };
    // Newer ones that are not undone.
    let mut stuck = Vec::new();
    for (id, history) in open.iter().rev() {
        if let Some(behind) = behind(id, history, &stuck, unreadable) {
            result.waiting.push(Waiting { id: id.clone(), behind: behind.to_owned() });
            stuck.push((id.clone(), history.clone()));
            continue;
        }
        match undo(id, history) {
            Ok(undo) => {
                if !undo.closed {
                    stuck.push((id.clone(), history.clone()));
                }
                result.undone.push(undo);
            }
            Err(error) => {
                result.error.get_or_insert(error);
                stuck.push((id.clone(), history.clone()));
            }
        }
    }
    result
}

/// The newest of `others` that touches a target of `history`, may have reset one, or touches one that a write of `history`
/// replaced. It must be undone first: the value it found, or sets again, is the one that `history` set.
pub fn covered_by<'a>(history: &History, others: &'a [(String, History)]) -> Option<&'a str> {
    let mine = history.touched();
    let meets = |mine: &Touched, theirs: &Touched| {
        mine.is_same(theirs) || throws_away(theirs, mine) || replaces(mine, theirs)
    };
    others.iter().rev().find(|(_, other)| any(&mine, history, other, meets)).map(|(id, _)| id.as_str())
}

/// True if `planned` writes of `history` would touch, reset or replace a value of one of `others`, or write to one that it may
/// have reset.
pub(super) fn would_meet(planned: &[Touched], history: &History, others: &[(String, History)]) -> bool {
    let resets = |mine: &Touched, theirs: &Touched| {
        discarded_by(&mine.knob).contains(&theirs.knob.as_str()) && mine.is_on_same_device(theirs)
    };
    let meets = |mine: &Touched, theirs: &Touched| {
        mine.is_same(theirs) || throws_away(theirs, mine) || replaces(mine, theirs) || resets(mine, theirs)
    };
    others.iter().any(|(_, other)| any(planned, history, other, meets))
}

/// True if `meets` holds for one of `mine`, writes of `history`, and a write of `other` in the same namespace.
fn any(
    mine: &[Touched],
    history: &History,
    other: &History,
    meets: impl Fn(&Touched, &Touched) -> bool,
) -> bool {
    let mut theirs = other.touched();
    theirs.retain(|theirs| in_one_namespace(history, theirs, other));
    theirs.iter().any(|theirs| mine.iter().any(|mine| meets(mine, theirs)))
}

/// The newest of `others` that set a target of `history` and has not reverted it yet.
pub(super) fn covering<'a>(
    mine: &Touched,
    history: &History,
    others: &'a [(String, History)],
) -> Option<&'a str> {
    let covers = |other: &History| {
        let theirs = other.touched();
        theirs.iter().any(|theirs| !is_back(theirs) && is_same_place(mine, history, theirs, other))
    };
    others.iter().rev().find(|(_, other)| covers(other)).map(|(id, _)| id.as_str())
}

/// The newest write of `others` that may have reset a target of `history` and is not reverted, with its transaction.
pub(super) fn resetting<'a>(
    mine: &Touched,
    history: &History,
    others: &'a [(String, History)],
) -> Option<(&'a str, Touched)> {
    let resets = |other: &History| {
        let mut theirs = other.touched();
        theirs.retain(|theirs| {
            !is_back(theirs) && in_one_namespace(history, theirs, other) && throws_away(theirs, mine)
        });
        theirs.pop()
    };
    others.iter().rev().find_map(|(id, other)| Some((id.as_str(), resets(other)?)))
}

/// True if an undo has reverted the write.
pub(super) fn is_back(theirs: &Touched) -> bool {
    theirs.outcome.as_ref().is_some_and(Outcome::settles)
}

/// True if the two share a target.
fn is_same_place(mine: &Touched, history: &History, theirs: &Touched, other: &History) -> bool {
    mine.is_same(theirs) && in_one_namespace(history, theirs, other)
}

/// Virtual interfaces of the same name in two namespaces differ. Their sysfs inodes distinguish them; only
/// journals of earlier versions lack those. Values that each namespace has differ too.
pub(super) fn in_one_namespace(history: &History, theirs: &Touched, other: &History) -> bool {
    if is_of_namespace(theirs) {
        let namespace = |history: &History| Some(history.begin()?.namespace()?.inode);
        return namespace(other) == namespace(history);
    }
    let netns = |history: &History| Some(history.begin()?.netns.as_ref()?.inode);
    let is_virtual = theirs.device.as_ref().is_some_and(DeviceAddress::is_virtual);
    !is_virtual || theirs.ids.is_some() || netns(other) == netns(history)
}

/// True if one is the value of all queues, which replaces the other, that of one queue, whenever it is written.
fn replaces(all: &Touched, one: &Touched) -> bool {
    tunable(&all.knob).is_some_and(|row| row.replaces.contains(&one.knob.as_str()))
        && all.is_on_same_device(one)
}

/// True if writing one target may have reset the other, and undo sets that again.
fn throws_away(writer: &Touched, value: &Touched) -> bool {
    writer.is_on_same_device(value)
        && writer.displaced.iter().any(|displaced| {
            displaced.knob == value.knob && displaced.target.lasting() == value.target.lasting()
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::{Backwards, Undo, UndoError, Waiting, Which, covered_by, rehearse_undo, undo};
    use crate::apply::UndoOptions;
    use crate::apply::testbed::{RPS, flaky, set};
    use crate::journal::{Begin, Disk, History, Intent, Record, Storage, Store};
    use crate::knob::testbed::model;
    use rxlab_sys::{Cause, Fault, Host, RecordedHost};

    const OTHER: &str = "sys/class/net/veth0/queues/rx-0/rps_cpus";

    /// The machine with a mask of its first interface, which is hardware.
    fn machine(mask: &str) -> RecordedHost {
        let host = RecordedHost::new().with(RPS, mask).with(OTHER, "0\n");
        host.with_link("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0")
    }

    fn undo_all(store: &Store, host: &dyn Host) -> Backwards<UndoError> {
        let machine = ("/", &model().identity);
        undo(store, host, machine, Which::All, UndoOptions::default()).expect("tried").done
    }

    #[test]
    fn a_rehearsal_says_what_undo_would_do_and_writes_nothing() {
        let (_state, store) = Store::scratch();
        let host = machine("3\n");
        set(&store, &host, &["rps eth0/rx-0 = 4"]);
        set(&store, &host, &["rps eth0/rx-0 = 5"]);
        let (live, identity) = (host.read_text(RPS), model().identity);
        let rehearsed = rehearse_undo(&store, &host, ("/", &identity), Which::All, UndoOptions::default());
        let rehearsed = rehearsed.expect("gone through").done.undone;
        assert!(rehearsed.iter().all(Undo::is_clean), "the older one finds what the newer one has put back");
        assert_eq!((host.read_text(RPS), store.open_ids().expect("listed").len()), (live, 2));
        let outcomes = |undone: Vec<Undo>| undone.into_iter().map(|undo| undo.outcomes).collect::<Vec<_>>();
        assert_eq!(outcomes(rehearsed), outcomes(undo_all(&store, &host).undone));
    }

    /// The older one's undo once replaced the newer one's value of a queue, whose undo then set that of the older one.
    #[test]
    fn the_value_of_a_queue_is_undone_before_the_older_one_of_all() {
        let history = |knob: &str, target: &str| {
            let intent = Intent::sample(knob, target, "0", "1");
            History { records: vec![Record::Begin(Begin::sample()), Record::Intent(intent)], valid_bytes: 0 }
        };
        for (all, one, covered) in [
            ("napi_defer_hard_irqs", "queue_defer_hard_irqs", true),
            ("threaded", "queue_threaded", true),
            ("threaded", "queue_defer_hard_irqs", false),
            ("queue_threaded", "napi_affinity", false),
        ] {
            let newer = [("newer".to_owned(), history(one, "eth0/rx-1"))];
            let by = covered_by(&history(all, "eth0"), &newer);
            assert_eq!(by.is_some(), covered, "{all}, {one}");
        }
    }

    /// The kernel is busy while the newer of two is undone. The older one once took the newer one's
    /// value for a foreign one and was closed: the very first value was lost.
    #[test]
    fn an_older_transaction_waits_for_a_newer_one_that_is_stuck() {
        let (_state, store) = Store::scratch();
        let host = machine("3\n");
        let older = set(&store, &host, &["rps eth0/rx-0 = 4"]);
        set(&store, &host, &["rps veth0/rx-0 = 5"]);
        let newer = set(&store, &host, &["rps eth0/rx-0 = 5"]);
        let host = flaky(RPS, Fault::Refuse(Cause::Errno(16)), host);
        let first = undo_all(&store, &host);
        assert_eq!(first.waiting, [Waiting { id: older, behind: newer }]);
        assert_eq!(first.undone.iter().map(|undo| undo.closed).collect::<Vec<_>>(), [false, true]);
        let host = machine("20\n");
        let second = undo_all(&store, &host);
        assert!(second.waiting.is_empty() && second.undone.iter().all(|undo| undo.closed));
        assert_eq!(host.read_text(RPS).as_deref(), Ok("3"));
    }

    /// The attempt that found another program's value may have been a guard's, or killed: the next one said nothing of it, and ended
    /// with exit code 0.
    #[test]
    fn what_was_left_to_others_is_said_by_each_undo() {
        for force in [false, true] {
            let (_state, store) = Store::scratch();
            let host = machine("3\n");
            set(&store, &host, &["rps eth0/rx-0 = 4", "rps veth0/rx-0 = 5"]);
            host.write(RPS, b"20\n").expect("written");
            let first = undo_all(&store, &flaky(OTHER, Fault::Refuse(Cause::Errno(16)), host));
            assert!(!first.undone[0].closed);
            let host = machine("20\n");
            let machine = ("/", &model().identity);
            let second = undo(&store, &host, machine, Which::All, UndoOptions { force }).expect("tried").done;
            assert!(second.undone[0].closed);
            assert_eq!(second.undone[0].is_clean(), force);
            assert_eq!(host.read_text(RPS).as_deref(), Ok(if force { "3" } else { "20\n" }));
        }
    }

    /// Nothing of the newer file could be read: the older transaction was closed, as the value was not its own, and the very first
    /// value was lost.
    #[test]
    fn an_older_transaction_waits_for_the_file_of_a_newer_one() {
        let (_state, store) = Store::scratch();
        let host = machine("3\n");
        let older = set(&store, &host, &["rps eth0/rx-0 = 4"]);
        let newer = set(&store, &host, &["rps eth0/rx-0 = 5"]);
        let file = store.path(&newer);
        let allow = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("allowed");
        allow(0o666);
        let live = host.read_text(RPS);
        for which in [Which::All, Which::Last, Which::Id(&older)] {
            let machine = ("/", &model().identity);
            let done = undo(&store, &host, machine, which, UndoOptions::default()).expect("tried").done;
            assert_eq!(done.waiting, [Waiting { id: older.clone(), behind: newer.clone() }], "{which:?}");
            assert_eq!((done.undone.len(), host.read_text(RPS)), (0, live.clone()));
        }
        let rehearse =
            |which| rehearse_undo(&store, &host, ("/", &model().identity), which, UndoOptions::default());
        let rehearsed = rehearse(Which::All).expect("tried");
        assert_eq!((rehearsed.unreadable.len(), rehearsed.done.waiting.len()), (1, 1));
        allow(0o600);
        assert!(undo_all(&store, &host).undone.iter().all(Undo::is_clean));
        assert_eq!(host.read_text(RPS).as_deref(), Ok("3"));
    }

    /// What a later version wrote may name the same value: the older transaction was closed over it.
    #[test]
    fn an_older_transaction_waits_for_one_with_records_of_a_later_version() {
        let (state, store) = Store::scratch();
        let host = machine("3\n");
        let older = set(&store, &host, &["rps eth0/rx-0 = 4"]);
        let newer = set(&store, &host, &["rps veth0/rx-0 = 5"]);
        let json = r#"{"record":"intent","seq":2,"knob":"rps","target":{"port":7},"before":"4","after":"5"}"#;
        let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
        Disk::new(state.path()).append(&newer, line.as_bytes()).expect("appended");
        let done = undo_all(&store, &host);
        assert_eq!(done.waiting, [Waiting { id: older, behind: newer }]);
        assert_eq!(host.read_text(OTHER).as_deref(), Ok("0"), "what is understood of the newer one");
        assert!(!done.undone[0].closed);
    }
}
