//! Transactions on the knobs' test machine.

use std::time::Duration;

use super::{BeginInfo, Transaction};
use crate::journal::Store;
use crate::knob::testbed::model;
use rxlab_setting::Setting;
use rxlab_sys::{Failpoint, Fault, FlakyHost, Host, Namespace, RecordedHost, Rule};

/// The RPS mask of the machine's first queue.
pub(super) const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";

pub(super) fn setting(text: &str) -> Setting {
    text.parse().expect("a setting")
}

/// A transaction that is undone after `confirm`.
pub(super) fn begin(store: &Store, confirm: Option<Duration>) -> Transaction {
    let identity = model().identity;
    Transaction::begin(store, BeginInfo { confirm, ..BeginInfo::new(&identity) }).expect("begun")
}

/// Sets values in a transaction of their own, and returns its id.
pub(super) fn set(store: &Store, host: &dyn Host, settings: &[&str]) -> String {
    let mut transaction = begin(store, None);
    for text in settings {
        transaction.set(host, &mut model(), &setting(text)).expect("set");
    }
    let id = transaction.id().to_owned();
    transaction.keep().expect("kept");
    id
}

/// An open transaction, as the next process takes it up.
pub(super) fn resume(store: &Store, id: &str) -> Transaction {
    Transaction::resume(store, id, Duration::ZERO).expect("open")
}

/// `inner` with a fault at the paths that end with `suffix`.
pub(super) fn flaky<H: Host>(suffix: &str, fault: Fault, inner: H) -> FlakyHost<H> {
    FlakyHost::new(inner, vec![Rule { suffix: suffix.into(), fault }], Failpoint::new(None, || ()))
}

/// A recorded machine that counts as a running one.
pub(super) struct RunningHost {
    host: RecordedHost,
    namespace: Namespace,
}

impl RunningHost {
    pub(super) fn new(host: RecordedHost) -> Self {
        let namespace = Namespace { path: "/proc/self/ns/net".into(), inode: 1, cookie: Some(1) };
        Self { host, namespace }
    }
}

impl Host for RunningHost {
    rxlab_sys::pass_on!([host] read, write, list, link, query, act, now_ns);

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.namespace)
    }
}
