//! A dry run takes the same path as a real run, and writes nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use rxlab_change::apply::{check, rehearse};
use rxlab_change::knob::KNOBS;
use rxlab_setting::Plan;
use rxlab_sys::Host;

use crate::observed::Observed;
use crate::process::Ended;
use crate::settings::everything;
use crate::tree::{Tree, model};

#[test]
fn every_knob_is_rehearsed_without_a_write() {
    let tree = Tree::new();
    let original = tree.values();
    let changed = AtomicU64::new(0);
    let before = |_: &str| {
        changed.fetch_add(1, Ordering::SeqCst);
    };
    let host = Observed { inner: tree.host(), before };
    let settings = check(&host, &model(), &Plan::new("all", &everything())).expect("sound");
    let changes = rehearse(&host, &model(), &settings).expect("nothing goes wrong");
    assert_eq!(changed.load(Ordering::SeqCst), 0);
    assert_eq!(tree.values(), original);
    // Verifies that the host counts.
    for knob in KNOBS {
        let change = changes.iter().find(|change| change.setting.knob == knob.name());
        assert!(change.is_some_and(|change| change.needed), "{}", knob.name());
    }
    host.write("proc/sys/net/core/rps_sock_flow_entries", b"1").expect("written");
    assert_eq!(changed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_dry_run_prints_the_changes_and_leaves_no_trace() {
    let tree = Tree::new();
    let prints = |options: &[&str], settings: &[&str], expected: &str| {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--setting", setting]).collect();
        let said = tree.rxlab(&[&["apply", "--dry-run"], options, &settings].concat()).said();
        assert_eq!(said, (0, format!("{expected}nothing was changed\n")));
    };
    let rps = ["rps eth0/rx-0 = 2-3", "rps veth0/rx-0 = off"];
    prints(&[], &rps, "rps eth0/rx-0 = 2-3  (now off)\nrps veth0/rx-0 = off  (already set)\n");
    prints(&["--diff"], &rps, "- rps eth0/rx-0 = off\n+ rps eth0/rx-0 = 2-3\n");
    prints(
        &[],
        &["channels eth0 = 3", "rps eth0/rx-2 = 1"],
        "channels eth0 = combined 3  (now combined 2)\nrps eth0/rx-2 = 1  (once its target exists)\n",
    );
    // Settings that refer to a future queue were once checked against the current queues.
    let settings = [
        "channels eth0 = 4",
        "rss eth0 = equal 4",
        "ntuple_rule eth0/rule-3 = tcp4 action 3",
        "xps_rxqs eth0/tx-0 = 2-3",
    ];
    let mut expected = "channels eth0 = combined 4  (now combined 2)\n".to_owned();
    settings[1..].iter().for_each(|setting| expected += &format!("{setting}  (once its target exists)\n"));
    prints(&[], &settings, &expected);
    tree.rxlab(&["apply", "--dry-run", "--setting", "rss eth0 = equal 4"])
        .says(2, "eth0 has 2 receive queues, and no rx-2");
    assert!(!tree.state().exists(), "not even a state directory");
    assert_eq!(tree.values(), Tree::new().values());
}
