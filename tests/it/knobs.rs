//! Knobs that are files or system calls: all of them on a machine made of plain files, and on the running kernel
//! those confined to a separate namespace, a process or a moment.

mod kernel;

use std::sync::atomic::AtomicBool;

use rxlab_base::parse::one_message;
use rxlab_change::journal::Outcome;
use rxlab_path::sample::Scope;
use rxlab_setting::Setting;
use rxlab_sys::{Cause, Failpoint, Fault, FlakyHost, Rule};

use crate::process::Ended;
use crate::settings::{SETTINGS, setting};
use crate::tree::{Tree, look, model, numbers};

/// A value for each knob that differs from the current one, and the file that the write changes.
fn changes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lengths = ["gro_max_size eth0 = 185000", "gro_ipv4_max_size eth0 = 180000"];
    SETTINGS.into_iter().chain(lengths.map(|setting| (setting, "route/link-get")))
}

fn all() -> Vec<Setting> {
    changes().map(|(text, _)| setting(text)).collect()
}

#[test]
fn all_knobs_are_set_and_restored() {
    let tree = Tree::new();
    let original = tree.values();
    let arguments = changes().flat_map(|(text, _)| ["--setting", text]);
    let arguments: Vec<&str> = ["apply"].into_iter().chain(arguments).collect();
    let text = tree.rxlab(&arguments).exits(0);
    assert!(!text.contains("already set"), "{text}");
    let changed = tree.values();
    for setting in all() {
        let place = format!("{} {}", setting.knob, setting.target);
        assert_ne!(changed[&place], original[&place], "{place}");
    }
    assert_eq!(changed["affinity pid:812"], "4-5@812-813");
    let text = tree.rxlab(&["status"]).exits(0);
    assert_eq!(text.matches("  kept").count(), changes().count(), "{text}");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(tree.values(), original);
}

/// As the kernel refuses a managed interrupt; one queue has two.
#[test]
fn a_refusal_of_any_knob_restores_all_others() {
    for (setting, file) in changes().chain([("irq_affinity eth0/rx-1 = 4-5", "irq/26/smp_affinity")]) {
        let tree = Tree::new();
        let original = tree.values();
        let refuse = Rule { suffix: file.into(), fault: Fault::Refuse(Cause::Errno(5)) };
        let host = FlakyHost::new(tree.host(), vec![refuse], Failpoint::new(None, || ()));
        let result = tree.begin().apply(&host, &model(), &all(), &AtomicBool::new(false));
        let failure = result.expect_err(file);
        assert!(failure.error.to_string().contains("the kernel rejected it"), "{setting}: {}", failure.error);
        assert!(failure.undo.is_clean() && failure.undo.closed, "{setting}: {:?}", failure.undo);
        assert_eq!(tree.values(), original, "{setting}");
        assert_eq!(tree.store().open_ids().expect("listed"), [""; 0], "{setting}");
    }
}

/// Success reported by the kernel must be verified: this one does nothing.
#[test]
fn a_write_without_effect_is_noticed() {
    for (text, file) in changes() {
        let tree = Tree::new();
        let ignore = Rule { suffix: file.into(), fault: Fault::Ignore };
        let host = FlakyHost::new(tree.host(), vec![ignore], Failpoint::new(None, || ()));
        let error = tree.begin().set(&host, &mut model(), &setting(text)).expect_err(text);
        assert!(matches!(error, rxlab_change::apply::ApplyError::NotKept { .. }), "{text}: {error}");
        assert!(error.to_string().contains("asked for"), "{error}");
    }
}

/// The PID of the moved process belongs to another process by now.
#[test]
fn another_process_with_the_same_pid_is_left_alone() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "affinity pid:812 = 4-5"]).exits(0);
    tree.process(812, "web", 1, 6000);
    tree.rxlab(&["status"]).says(1, "no longer exists");
    tree.rxlab(&["undo"]).says(0, "affinity pid:812: gone, and its value with it");
    assert!(tree.read("proc/812/task/812/status").ends_with("4-5"), "left alone");
}

/// Threads start and end between apply and undo.
#[test]
fn later_threads_follow_the_main_thread() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "affinity pid:812 = 4-5"]).exits(0);
    std::fs::remove_dir_all(tree.root().join("proc/812/task/813")).expect("ended");
    tree.write("proc/812/task/814/status", "Name:\tweb\nCpus_allowed_list:\t4-5\n");
    tree.rxlab(&["undo"]).says(0, "affinity pid:812: back to all@812;2@813");
    for thread in [812, 814] {
        assert!(tree.read(&format!("proc/812/task/{thread}/status")).ends_with("0-1023"), "{thread}");
    }
}

#[test]
fn values_of_an_ended_process_need_no_undo() {
    let tree = Tree::new();
    // If kernel threads are visible, all processes are, so a missing one has really ended.
    tree.process(2, "kthreadd", 0, 30);
    let mut transaction = tree.begin();
    transaction.set(&tree.host(), &mut model(), &setting("irqbalance eth0 = banned")).expect("set");
    std::fs::remove_dir_all(tree.root().join("proc/70")).expect("ended");
    std::fs::remove_dir_all(tree.root().join("socket")).expect("ended");
    let undo = transaction.undo(&tree.host(), &look(&tree.host(), Scope::All));
    assert!(undo.is_clean() && undo.closed, "{undo:?}");
    assert_eq!(undo.outcomes[0].outcome, Outcome::Gone);
}

/// A thread that `threaded` creates in the same plan cannot be tested beforehand; a kernel that creates none is
/// detected.
#[test]
fn a_future_thread_is_expected_only_with_threaded() {
    let tree = Tree::new();
    // Their settings, but no threads.
    let napi = |id| one_message(&numbers(&[(1, 4), (2, id), (5, 0), (6, 0), (7, 0), (8, 0)]));
    tree.write("netlink/netdev/napi-get", [napi(8193), napi(8194)].concat());
    let original = tree.values();
    let (threaded, priority) = ("threaded eth0 = on", "napi_priority eth0/rx-0 = rr:1");
    let both = ["apply", "--setting", priority, "--setting", threaded];
    let (code, text) = tree.rxlab(&[&both[..], &["--dry-run"]].concat()).said();
    let expected =
        "threaded eth0 = on  (now off)\nnapi_priority eth0/rx-0 = rr:1  (once its target exists)\n";
    assert!(code == 0 && text.starts_with(expected), "{code}: {text}");
    let (code, text) = tree.rxlab(&both).said();
    assert!(code != 0 && text.contains("its NAPI has no thread"), "{code}: {text}");
    assert!(text.contains("nothing is changed"), "{text}");
    assert_eq!(tree.values(), original);
    tree.rxlab(&["apply", "--setting", priority]).says(2, "`threaded eth0 = on` creates one");
}
