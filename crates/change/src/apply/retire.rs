//! Open transactions of the same values: one to continue, and those whose values are gone for good.

use std::time::Duration;

use super::backwards::{covered_by, undo_searching};
use super::locate::{Place, is_of_namespace, locate, look, object_of, reach};
use super::search::Search;
use super::{Transaction, UndoOptions};
use crate::journal::{Begin, History, Outcome, Store, Touched};
use crate::knob;
use rxlab_path::model::{DeviceAddress, Identity, Model};
use rxlab_setting::Plan;
use rxlab_sys::{Host, Namespace};

/// The id of the open transaction of purpose `what` that has set values of `plan` on this machine, and that no newer
/// transaction covers. Setting them again continues it: otherwise, each time that an interface comes back would leave
/// another transaction.
pub fn continued(
    store: &Store,
    (host, model): (&dyn Host, &Model),
    root: &str,
    what: &str,
    plan: &Plan,
) -> Option<String> {
    let open = store.open_of(root, &model.identity.boot_id).ok()?;
    let is_here = |begin: &Begin| match (begin.namespace(), host.namespace()) {
        (Some(then), Some(now)) => Namespace::is_same(then, now),
        (then, now) => then.is_none() && now.is_none(),
    };
    let sets = |history: &History| {
        let touched = history.touched();
        plan.settings.iter().any(|planned| {
            let (knob, target) = (&planned.set.knob, &planned.set.target);
            touched.iter().any(|t| t.is_of(knob, target, &object_of(host, model, target)))
        })
    };
    let at = open.iter().rposition(|(_, history)| {
        is_kept(history, what) && history.begin().is_some_and(is_here) && sets(history)
    })?;
    let (id, history) = &open[at];
    covered_by(history, &open[at + 1..]).is_none().then(|| id.clone())
}

/// Closes the open transactions of purpose `what` that have nothing left to undo: every value went with a virtual
/// interface, a process or a control group, none of which comes back. `own` must be the machine seen from our own network
/// namespace. What cannot be proven stays open.
pub fn retire(store: &Store, own: &dyn Host, (root, identity): (&str, &Identity), what: &str) {
    let search = Search::default();
    let open = store.open_of(root, &identity.boot_id).unwrap_or_default();
    for (id, history) in open.iter().filter(|(_, history)| is_kept(history, what)) {
        let Some(Ok(reached)) = history.begin().map(|begin| reach(own, begin)) else { continue };
        let host = reached.as_deref().unwrap_or(own);
        let touched = history.touched();
        if !touched.iter().all(ends_with_its_object) {
            continue;
        }
        let model = look(host);
        let is_gone = |t: &Touched| matches!(locate(host, &model, history, t, &search), Place::Gone);
        if touched.iter().filter(|t| !t.outcome.as_ref().is_some_and(Outcome::settles)).all(is_gone)
            && let Ok(transaction) = Transaction::resume(store, id, Duration::ZERO)
        {
            // If it fails, the transaction stays open.
            let _ = undo_searching(transaction, own, UndoOptions::default(), &search);
        }
    }
}

/// True for a transaction of this purpose that is complete and stays.
fn is_kept(history: &History, what: &str) -> bool {
    let is_it = history.begin().is_some_and(|begin| begin.what == what);
    is_it
        && history.is_complete()
        && history.pending_deadline().is_none()
        && history.pending_command().is_none()
}

/// True for a value whose object never comes back once it is gone. Hardware does.
fn ends_with_its_object(touched: &Touched) -> bool {
    let is_fleeting = || knob::find(&touched.knob).is_some_and(|knob| knob.is_fleeting());
    is_of_namespace(touched) || touched.device.as_ref().map_or_else(is_fleeting, DeviceAddress::is_virtual)
}

#[cfg(test)]
mod tests {
    use super::continued;
    use crate::apply::testbed::{RPS, setting};
    use crate::apply::{BeginInfo, Transaction};
    use crate::journal::Store;
    use crate::knob::testbed::model;
    use rxlab_setting::Plan;
    use rxlab_sys::{Host, RecordedHost};

    fn apply(store: &Store, host: &RecordedHost, what: &str, text: &str) -> Option<String> {
        let setting = setting(text);
        let plan = Plan::new("persisted", std::slice::from_ref(&setting));
        let continues =
            continued(store, (host, &model()), "/", "restore", &plan).filter(|_| what == "restore");
        let identity = &model().identity;
        let info =
            BeginInfo { what: what.to_owned(), continues: continues.clone(), ..BeginInfo::new(identity) };
        let transaction = Transaction::begin(store, info).expect("begun");
        transaction.apply(host, &model(), &[setting], &false.into()).expect("set");
        continues
    }

    /// The driver makes the queues of an interface again and again, and each time the persisted value is set.
    #[test]
    fn values_that_come_back_over_and_over_are_one_transaction() {
        let (_state, store) = Store::scratch();
        let device = ("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
        let host = RecordedHost::new().with(RPS, "3\n").with_link(device.0, device.1);
        for _ in 0..200 {
            apply(&store, &host, "restore", "rps eth0/rx-0 = 4");
            host.write(RPS, b"0\n").expect("reset");
        }
        let open = store.open_of("/", "boot-1").expect("listed");
        assert_eq!(open.len(), 1);
        let touched = open[0].1.touched();
        assert_eq!((touched.len(), &touched[0].original[..], touched[0].ours.len()), (1, "0-1", 2));
        assert_eq!(touched[0].foreign, ["off"], "what the driver left is not ours");
        // A change in between is undone before what it replaced, so it is not continued over.
        apply(&store, &host, "by hand", "rps eth0/rx-0 = 5");
        host.write(RPS, b"0\n").expect("reset");
        assert_eq!(apply(&store, &host, "restore", "rps eth0/rx-0 = 4"), None);
        host.write(RPS, b"0\n").expect("reset");
        assert!(apply(&store, &host, "restore", "rps eth0/rx-0 = 4").is_some());
        assert_eq!(store.open_ids().expect("listed").len(), 3);
        let other = Plan::new("persisted", &[setting("rps veth0/rx-0 = 4")]);
        assert_eq!(continued(&store, (&host, &model()), "/", "restore", &other), None);
    }
}
