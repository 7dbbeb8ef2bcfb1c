//! Changes left behind by a killed process: the next command reverts them as their guard would have.

use std::time::Duration;

use super::backwards::undo_one;
use super::deadline::{LOCK_TIMEOUT, lapse};
use super::{Transaction, Undo, UndoError, UndoOptions};
use crate::journal::{JournalError, Lapse, LockError, Store};
use rxlab_path::model::Identity;
use rxlab_sys::{Host, ProcessId};

/// A transaction that lapsed.
#[derive(Debug)]
pub struct Abandoned {
    /// Purpose of the transaction, in one line.
    pub what: String,
    /// Reason for the undo.
    pub lapse: Lapse,
    /// Outcome for its values.
    pub undo: Undo,
}

/// Undoes transactions of the machine below `root` whose deadline has passed, or whose process died before
/// setting everything, newest first. Values changed since by another program are left alone. `own` must be the
/// machine seen from our own network namespace.
///
/// `alive` is `None` for a process that cannot be seen, such as one of another PID namespace: a process holds the lock for as
/// long as its transaction is incomplete, so it has died once the lock is free.
pub fn undo_abandoned(
    store: &Store,
    own: &dyn Host,
    (root, identity): (&str, &Identity),
    alive: impl Fn(ProcessId) -> Option<bool>,
) -> Result<Vec<Abandoned>, UndoError> {
    let open = store.open_of(root, &identity.boot_id)?;
    let mut abandoned = Vec::new();
    for (id, history) in open.iter().rev() {
        let is_ours = || store.is_under_lock(id);
        let patience = match lapse(history, own.now_ns(), |applier| applier.and_then(&alive).unwrap_or(true))
        {
            Some(_) => LOCK_TIMEOUT,
            None if history.pending_deadline().is_some() && !history.is_complete() && is_ours() => {
                Duration::ZERO
            }
            None => continue,
        };
        let transaction = match Transaction::resume(store, id, patience) {
            Ok(transaction) => transaction,
            // The guard was faster.
            Err(JournalError::Unknown { .. }) => continue,
            // Its process may be the holder, which is not visible here.
            Err(JournalError::Lock(LockError::Held { .. })) if patience.is_zero() => continue,
            Err(error) => return Err(error.into()),
        };
        // Under the lock the state is stable: it may have been confirmed before.
        let may_live = |applier: Option<ProcessId>| applier.and_then(&alive).unwrap_or_else(|| !is_ours());
        let Some(lapse) = lapse(transaction.journal().history(), own.now_ns(), may_live) else { continue };
        let what = history.begin().map_or_else(String::new, |begin| begin.what.clone());
        let undo = undo_one(transaction, own, UndoOptions::default())?;
        abandoned.push(Abandoned { what, lapse, undo });
    }
    Ok(abandoned)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::undo_abandoned;
    use crate::apply::testbed::{RPS, resume, setting};
    use crate::apply::{BeginInfo, Transaction};
    use crate::journal::{Disk, Lapse, Store};
    use crate::knob::testbed::model;
    use rxlab_sys::{Host, ProcessId, RecordedHost};

    const APPLIER: ProcessId = ProcessId { pid: 7, start: 9, numbering: None };

    struct Scene {
        _state: tempfile::TempDir,
        store: Store,
        host: RecordedHost,
    }

    impl Scene {
        /// Sets `rps eth0/rx-0 = 4` with a deadline 10 s after boot; the process may have set everything.
        fn new(is_complete: bool) -> Self {
            let (state, store) = Store::scratch();
            Self::begun(state, store, is_complete)
        }

        fn begun(state: tempfile::TempDir, store: Store, is_complete: bool) -> Self {
            let host = RecordedHost::new().with(RPS, "3\n");
            let identity = model().identity;
            let (applier, what) = (Some(APPLIER), "trial 0001-rps".to_owned());
            let confirm = Some(Duration::from_secs(10));
            let info = BeginInfo { applier, what, confirm, ..BeginInfo::new(&identity) };
            let mut transaction = Transaction::begin_at(&store, info, 0).expect("begun");
            transaction.set(&host, &mut model(), &setting("rps eth0/rx-0 = 4")).expect("set");
            if is_complete {
                transaction.keep().expect("kept");
            }
            Self { _state: state, store, host }
        }

        /// Transactions reverted `seconds` after boot.
        fn lapsed(&mut self, seconds: u64, alive: impl Into<Option<bool>>) -> Vec<(Lapse, bool)> {
            self.host = std::mem::take(&mut self.host).at_ns(seconds * 1_000_000_000);
            let (machine, alive) = (("/", &model().identity), alive.into());
            let done = undo_abandoned(&self.store, &self.host, machine, |process| {
                assert_eq!(process, APPLIER);
                alive
            });
            done.expect("tried").into_iter().map(|one| (one.lapse, one.undo.closed)).collect()
        }
    }

    #[test]
    fn what_a_killed_process_left_goes_back() {
        assert_eq!(Scene::new(false).lapsed(1, false), [(Lapse::Killed, true)]);
    }

    /// A trial that was killed in another PID namespace, where its number says nothing, once stood until its deadline.
    #[test]
    fn a_process_is_dead_once_the_lock_is_free() {
        let mut scene = Scene::new(false);
        let id = scene.store.open_ids().expect("listed").remove(0);
        let applying = resume(&scene.store, &id);
        assert_eq!(scene.lapsed(1, None), [], "it holds the lock");
        drop(applying);
        assert_eq!(scene.lapsed(1, true), [], "its lock was removed");
        assert_eq!(scene.lapsed(1, None), [(Lapse::Killed, true)]);
    }

    /// Two directories for one lock are two locks, as in a container that shares the state directory only.
    #[test]
    fn another_lock_proves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let [store, other] = ["run", "other"].map(|run| {
            Store::new(Disk::of_this_machine(folder.path().join("state"), folder.path().join(run)))
        });
        let mut scene = Scene::begun(folder, store, false);
        scene.store = other;
        assert_eq!(scene.lapsed(1, None), []);
        assert_eq!(scene.lapsed(1, false), [(Lapse::Killed, true)]);
    }

    #[test]
    fn a_change_that_waits_for_its_confirmation_stands_until_its_deadline() {
        let mut scene = Scene::new(true);
        assert_eq!(scene.lapsed(1, false), []);
        assert_eq!(scene.lapsed(10, false), [(Lapse::NotConfirmed, true)]);
        assert_eq!(scene.lapsed(11, false), []);
    }

    /// A value set since by another program is not overwritten, and does not block the next command.
    #[test]
    fn drift_is_left_alone() {
        let mut scene = Scene::new(false);
        scene.host.write(RPS, b"20\n").expect("written");
        assert_eq!(scene.lapsed(1, false), [(Lapse::Killed, true)]);
        assert_eq!(scene.host.read_text(RPS).as_deref(), Ok("20\n"));
    }
}
