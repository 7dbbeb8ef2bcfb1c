//! Several transactions back, the newest first. How one goes back is not decided here.

use serde::Serialize;

use super::covered::covered_by;
use super::undo::Undo;
use crate::journal::History;

/// A transaction that was left alone: a newer one with the same values could not be put back. To the
/// older one the newer one's value would be somebody else's, and it would be closed over it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Which transaction.
    pub id: String,
    /// The newer one that has to go first.
    pub behind: String,
}

/// What became of several transactions.
#[derive(Debug)]
pub struct Backwards<E> {
    /// Those that were undone, in order, each as far as it says.
    pub undone: Vec<Undo>,
    /// Those that were left alone.
    pub waiting: Vec<Waiting>,
    /// Why one could not be tried; the older ones were not tried either.
    pub error: Option<E>,
}

/// Undoes `open` (the oldest first, as [`crate::journal::Store::open_of`] gives them) from the newest on
/// with `undo`.
pub fn backwards<E>(
    open: &[(String, History)],
    mut undo: impl FnMut(&str, &History) -> Result<Undo, E>,
) -> Backwards<E> {
    let mut result = Backwards { undone: Vec::new(), waiting: Vec::new(), error: None };
    let mut stuck: Vec<(String, History)> = Vec::new();
    for (id, history) in open.iter().rev() {
        if let Some(behind) = covered_by(history, &stuck) {
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
                result.error = Some(error);
                break;
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Backwards, Waiting, backwards};
    use crate::apply::{ApplyError, BeginInfo, Transaction};
    use crate::host::{Cause, FlakyHost, Fuse, Host, Mishap, RecordedHost, Rule};
    use crate::journal::{Disk, Store};
    use crate::knob::testbed::model;

    const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";

    fn set(store: &Store, host: &dyn Host, setting: &str) -> String {
        let identity = model().identity;
        let root = Path::new("/");
        let info = BeginInfo { identity: &identity, root, netns: None, what: String::new(), confirm: None };
        let mut transaction = Transaction::begin(store, info).expect("begun");
        transaction.set(host, &mut model(), &setting.parse().expect("a setting")).expect("set");
        let id = transaction.id().to_owned();
        transaction.keep().expect("kept");
        id
    }

    fn undo(store: &Store, host: &dyn Host) -> Backwards<ApplyError> {
        let open = store.open_of("/", "boot-1").expect("listed");
        backwards(&open, |id, _| {
            let transaction = Transaction::resume(store, id, Duration::ZERO)?;
            Ok(transaction.undo(host, &model()))
        })
    }

    /// The kernel is busy while the newer of two goes back. The older one once took the newer one's
    /// value for somebody else's, and was closed: the first value of all was lost.
    #[test]
    fn an_older_transaction_waits_for_a_newer_one_that_is_stuck() {
        let state = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(Disk::new(state.path()));
        let host = RecordedHost::new().with(RPS, "3\n").with("proc/irq/24/smp_affinity", "01\n");
        let older = set(&store, &host, "rps eth0/rx-0 = 4");
        set(&store, &host, "irq_affinity eth0/rx-0 = 5");
        let newer = set(&store, &host, "rps eth0/rx-0 = 5");
        let busy = Rule { suffix: "rps_cpus".into(), mishap: Mishap::Refuse(Cause::Errno(16)) };
        let host = FlakyHost::new(host, vec![busy], Fuse::new(None, || ()));
        let first = undo(&store, &host);
        assert_eq!(first.waiting, [Waiting { id: older, behind: newer }]);
        assert_eq!(first.undone.iter().map(|undo| undo.closed).collect::<Vec<_>>(), [false, true]);
        let host = RecordedHost::new().with(RPS, "20\n").with("proc/irq/24/smp_affinity", "01\n");
        let second = undo(&store, &host);
        assert!(second.waiting.is_empty() && second.undone.iter().all(|undo| undo.closed));
        assert_eq!(host.read_text(RPS).as_deref(), Ok("3"));
    }
}
