//! Open transactions of the same values: one to continue, and those whose values are gone for good.

use std::time::Duration;

use super::backwards::{covered_by, undo_searching, would_meet};
use super::locate::{Place, is_of_namespace, locate, look, object_of, reach};
use super::search::Search;
use super::{Transaction, UndoOptions};
use crate::journal::{Begin, History, Intent, Object, Outcome, Store, Touched};
use crate::knob;
use rxlab_path::model::{DeviceAddress, Identity, Model};
use rxlab_setting::{Plan, Setting};
use rxlab_sys::{Host, Namespace};

/// Values that are set again and again. Setting them continues the open transaction of the same purpose that has set some of
/// them: otherwise, each time that an interface comes back would leave another transaction.
#[derive(Clone, Copy)]
pub struct Again<'a> {
    pub host: &'a dyn Host,
    /// The current machine.
    pub model: &'a Model,
    pub plan: &'a Plan,
}

impl Again<'_> {
    /// The id of the transaction to continue among the `open` ones, which must be oldest first. `None` if a newer one has to be
    /// undone before it, be it because of what it has set or because of what it would set now.
    pub(super) fn continued<'a>(&self, open: &'a [(String, History)], what: &str) -> Option<&'a str> {
        let planned = self.plan.settings.iter().map(|planned| Touched::new(&self.intent(&planned.set)));
        let planned: Vec<Touched> = planned.collect();
        let is_here = |begin: &Begin| match (begin.namespace(), self.host.namespace()) {
            (Some(then), Some(now)) => Namespace::is_same(then, now),
            (then, now) => then.is_none() && now.is_none(),
        };
        let sets = |history: &History| {
            history.touched().iter().any(|touched| planned.iter().any(|planned| touched.is_same(planned)))
        };
        let at = open.iter().rposition(|(_, history)| {
            is_kept(history, what) && history.begin().is_some_and(is_here) && sets(history)
        })?;
        let ((id, history), newer) = (&open[at], &open[at + 1..]);
        let is_last = covered_by(history, newer).is_none() && !would_meet(&planned, history, newer);
        is_last.then_some(id)
    }

    /// A setting as it would be in the journal, without the current values.
    fn intent(&self, Setting { knob, target, value }: &Setting) -> Intent {
        let Object { device, ids, group } = object_of(self.host, self.model, target);
        Intent {
            seq: 0,
            knob: knob.clone(),
            target: target.clone(),
            device,
            ids,
            group,
            before: String::new(),
            after: value.clone(),
            displaced: Vec::new(),
            foreign: false,
        }
    }
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
    use super::Again;
    use crate::apply::testbed::{RPS, setting};
    use crate::apply::{BeginInfo, Transaction};
    use crate::journal::{Disk, Storage, Store};
    use crate::knob::testbed::model;
    use rxlab_setting::{Plan, Setting};
    use rxlab_sys::{Host, RecordedHost};

    const SECOND: &str = "sys/class/net/eth0/queues/rx-1/rps_cpus";

    fn host() -> RecordedHost {
        let device = ("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/net/eth0");
        RecordedHost::new().with(RPS, "3\n").with(SECOND, "0\n").with_link(device.0, device.1)
    }

    fn settings(texts: &[&str]) -> Vec<Setting> {
        texts.iter().map(|text| setting(text)).collect()
    }

    /// Sets values, and returns the id of the transaction; only `restore` continues one.
    fn apply(store: &Store, host: &RecordedHost, what: &str, texts: &[&str]) -> String {
        let (settings, model) = (settings(texts), model());
        let plan = Plan::new("persisted", &settings);
        let again = Again { host, model: &model, plan: &plan };
        let continues = Some(again).filter(|_| what == "restore");
        let info = BeginInfo { what: what.to_owned(), continues, ..BeginInfo::new(&model.identity) };
        let transaction = Transaction::begin(store, info).expect("begun");
        let id = transaction.id().to_owned();
        transaction.apply(host, &model, &settings, &false.into()).expect("set");
        id
    }

    /// The driver makes the queues of an interface again and again, and each time the persisted value is set.
    #[test]
    fn values_that_come_back_over_and_over_are_one_transaction() {
        let (_state, store) = Store::scratch();
        let host = host();
        let restore = || apply(&store, &host, "restore", &["rps eth0/rx-0 = 4"]);
        let first = restore();
        for _ in 0..200 {
            host.write(RPS, b"0\n").expect("reset");
            assert_eq!(restore(), first);
        }
        let open = store.open_of("/", "boot-1").expect("listed");
        assert_eq!(open.len(), 1);
        let touched = open[0].1.touched();
        assert_eq!((touched.len(), &touched[0].original[..], touched[0].ours.len()), (1, "0-1", 2));
        assert_eq!(touched[0].foreign, ["off"], "what the driver left is not ours");
        // A change in between is undone before what it replaced, so it is not continued over.
        apply(&store, &host, "by hand", &["rps eth0/rx-0 = 5"]);
        host.write(RPS, b"0\n").expect("reset");
        let second = restore();
        assert_ne!(second, first);
        host.write(RPS, b"0\n").expect("reset");
        assert_eq!(restore(), second);
        assert_eq!(store.open_ids().expect("listed").len(), 3);
        let (model, other) = (model(), Plan::new("persisted", &settings(&["rps veth0/rx-0 = 4"])));
        let other = Again { host: &host, model: &model, plan: &other };
        assert_eq!(other.continued(&store.open_of("/", "boot-1").expect("listed"), "restore"), None);
    }

    /// The file of a newer change of the value is damaged. The older transaction was once continued, could not set the value, and was
    /// undone: it was closed, as the value was the newer one's.
    #[test]
    fn no_transaction_is_continued_below_a_damaged_one() {
        let (state, store) = Store::scratch();
        let host = host();
        let first = apply(&store, &host, "restore", &["rps eth0/rx-0 = 4"]);
        let newer = apply(&store, &host, "by hand", &["rps eth0/rx-0 = 5"]);
        Disk::new(state.path()).append(&newer, b"what is this\nand this\n").expect("appended");
        let (settings, model) = (settings(&["rps eth0/rx-0 = 4"]), model());
        let plan = Plan::new("persisted", &settings);
        let continues = Some(Again { host: &host, model: &model, plan: &plan });
        let info = BeginInfo { what: "restore".to_owned(), continues, ..BeginInfo::new(&model.identity) };
        let transaction = Transaction::begin(&store, info).expect("begun");
        assert_ne!(transaction.id(), first);
        transaction
            .apply(&host, &model, &settings, &false.into())
            .expect_err("only its file has the original");
        assert_eq!(store.open_ids().expect("listed"), [first, newer]);
    }

    /// The plan got a value that a newer change held. Its undo once took the plan's value for another program's, and the value
    /// before both was lost.
    #[test]
    fn a_plan_that_grows_over_a_newer_change_begins_another_transaction() {
        for (by_hand, grown) in [
            ("rps eth0/rx-1 = 5", "rps eth0/rx-1 = 4"),
            ("rps eth0/rx-1 = 5", "channels eth0 = combined 2"),
            ("queue_defer_hard_irqs eth0/rx-1 = 1", "napi_defer_hard_irqs eth0 = 2"),
        ] {
            let (_state, store) = Store::scratch();
            let host = host();
            let first = apply(&store, &host, "restore", &["rps eth0/rx-0 = 4"]);
            let model = model();
            let mut newer = Transaction::begin(&store, BeginInfo::new(&model.identity)).expect("begun");
            let plans = [vec![by_hand], vec!["rps eth0/rx-0 = 4"], vec!["rps eth0/rx-0 = 4", grown]];
            let [by_hand, before, after] = plans.map(|plan| Plan::new("plan", &settings(&plan)));
            let again = |plan| Again { host: &host, model: &model, plan };
            newer.journal.arm(again(&by_hand).intent(&by_hand.settings[0].set)).expect("armed");
            drop(newer);
            let open = store.open_of("/", "boot-1").expect("listed");
            assert_eq!(again(&before).continued(&open, "restore"), Some(first.as_str()), "{grown}");
            assert_eq!(again(&after).continued(&open, "restore"), None, "{grown}");
        }
    }
}
