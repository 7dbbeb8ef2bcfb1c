//! The same on the running kernel: an apply on a veth in a namespace is killed at every operation, and the next
//! process restores every value of the interface.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rxlab::lab::Range;
use rxlab_change::apply::{self, BeginInfo, Transaction};
use rxlab_change::journal::{Disk, FlakyStorage, Store};
use rxlab_change::knob::KNOBS;
use rxlab_path::sample::Scope;
use rxlab_setting::Plan;
use rxlab_sys::{Failpoint, FlakyHost, Host, LiveHost, Namespace};

use crate::crash::die;
use crate::lab::range;
use crate::settings::settings;
use crate::tree::look;

const NETNS: &str = "RXLAB_TEST_CRASH_NETNS";
const STATE: &str = "RXLAB_TEST_CRASH_STATE";
const AT: &str = "RXLAB_TEST_CRASH_LIVE_AT";
/// Exit code of a child that was not killed: with fewer processes on the machine there are fewer operations.
const WHOLE: i32 = 42;

/// The kernel drops the values of the second queue together with the queue.
const BEFORE: [&str; 3] = ["rps srv0/rx-1 = 1", "rfs srv0/rx-1 = 64", "xps_cpus srv0/tx-1 = 0"];
const SETTINGS: [&str; 7] = [
    "channels srv0 = rx 1 tx 1",
    "gro srv0 = on",
    "threaded srv0 = on",
    "napi_defer_hard_irqs srv0 = 2",
    "gro_flush_timeout srv0 = 20000",
    "rps srv0/rx-0 = 0-1",
    "rfs srv0/rx-0 = 128",
];

fn open(netns: &Path) -> LiveHost {
    LiveHost::open_in_namespace("/".as_ref(), netns).expect("the namespace exists")
}

fn change(store: &Store, host: &dyn Host, netns: &Path, texts: &[&str]) {
    let model = look(host, Scope::Path);
    let checked = apply::check(host, &model, &Plan::new("test", &settings(texts))).expect("sound");
    let netns = Namespace::open(netns).ok();
    let info =
        BeginInfo { root: "/".as_ref(), netns, what: "a test".into(), ..BeginInfo::new(&model.identity) };
    let transaction = Transaction::begin(store, info).expect("begun");
    transaction.apply(host, &model, &checked, &AtomicBool::new(false)).expect("nothing goes wrong");
}

fn undo(store: &Store, host: &LiveHost) {
    let boot = look(host, Scope::Path).identity.boot_id;
    for (id, _) in store.open_of("/", &boot).expect("never damaged").iter().rev() {
        let transaction = Transaction::resume(store, id, Duration::ZERO).expect("resumed");
        let undo = transaction.undo(host, &look(host, Scope::Path));
        assert!(undo.is_clean() && undo.closed, "{undo:?}");
    }
}

/// Every readable value of the interface.
fn values(host: &LiveHost) -> BTreeMap<String, String> {
    let model = look(host, Scope::Path);
    let mut values = BTreeMap::new();
    for knob in KNOBS {
        for target in knob.targets(&model) {
            if target.nic() == Some(&Range::server_nic())
                && let Ok(value) = knob.read(knob.site(host, &model, &target))
            {
                values.insert(format!("{} {target}", knob.name()), value);
            }
        }
    }
    values
}

fn apply_counted(state: &Path, netns: &Path, fuse: &Arc<Failpoint>) {
    let store = Store::new(FlakyStorage::new(Disk::new(state), fuse.clone(), None));
    change(&store, &FlakyHost::new(open(netns), Vec::new(), fuse.clone()), netns, &SETTINGS);
}

/// Not a test: the process that is killed. Does nothing without its environment variable.
#[test]
fn child() {
    let (Some(netns), Some(state), Ok(at)) =
        (std::env::var_os(NETNS), std::env::var_os(STATE), std::env::var(AT))
    else {
        return;
    };
    let fuse = Failpoint::new(Some(at.parse().expect("a number")), die);
    apply_counted(state.as_ref(), netns.as_ref(), &fuse);
    std::process::exit(WHOLE);
}

#[test]
fn killed_at_every_operation_on_the_running_kernel() {
    let Some(range) = range(2) else { return };
    let netns = range.server.path();
    let host = open(&netns);
    let state = tempfile::tempdir().expect("a temporary directory");
    let setup = Store::new(Disk::new(state.path().join("setup")));
    change(&setup, &host, &netns, &BEFORE);
    let original = values(&host);
    let own = state.path().join("own");
    let store = Store::new(Disk::new(&own));

    let fuse = Failpoint::new(None, || ());
    apply_counted(&own, &netns, &fuse);
    assert_ne!(values(&host), original, "the plan changes something");
    undo(&store, &host);
    assert_eq!(values(&host), original);
    let points = fuse.count();
    let (mut stopped, mut recovered) = (0, 0);
    for at in 1..=points {
        let status = Command::new(std::env::current_exe().expect("this test has a file"))
            .args(["--exact", "crash_live::child", "--nocapture", "--test-threads=1"])
            .envs([(NETNS, netns.as_os_str()), (STATE, own.as_os_str())])
            .env(AT, at.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .expect("the child runs");
        stopped += u32::from(status.signal() == Some(9));
        assert!(status.signal() == Some(9) || status.code() == Some(WHOLE), "operation {at}: {status}");
        undo(&store, &host);
        assert_eq!(values(&host), original, "killed at operation {at} of {points}");
        recovered += u32::from(status.signal() == Some(9));
    }
    assert!(stopped > 100, "only {stopped} of {points} operations were stopped at");
    println!("running kernel: {stopped} stop points, {recovered} recovered, {} lost", stopped - recovered);
}
