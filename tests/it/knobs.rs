//! Knobs that are files or system calls: all of them on a machine made of plain files, and on the running kernel
//! those confined to a separate namespace, a process or a moment.

mod kernel;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use rxlab::apply::{BeginInfo, Transaction};
use rxlab::host::{Cause, FlakyHost, Fuse, Host, Mishap, Rule};
use rxlab::journal::{Outcome, Store};
use rxlab::model::Model;
use rxlab::parse::one_message;
use rxlab::plan::Setting;
use rxlab::sample::{Inventory, Scope};

use crate::tree::{Ended, Tree, numbers, said, values_in};

/// A value for each knob that differs from the current one, and the file that the write changes.
const SETTINGS: [(&str, &str); 28] = [
    ("irqbalance eth0 = banned", "socket/irqbalance/70/setup"),
    ("threaded eth0 = on", "eth0/threaded"),
    ("napi_defer_hard_irqs eth0 = 2", "eth0/napi_defer_hard_irqs"),
    ("gro_flush_timeout eth0 = 20000", "eth0/gro_flush_timeout"),
    ("gro_max_size eth0 = 185000", "route/link-get"),
    ("gro_ipv4_max_size eth0 = 180000", "route/link-get"),
    ("queue_threaded eth0/rx-1 = on", "netdev/napi-get"),
    ("queue_defer_hard_irqs eth0/rx-0 = 5", "netdev/napi-get"),
    ("queue_gro_flush_timeout eth0/rx-0 = 50000", "netdev/napi-get"),
    ("irq_suspend_timeout eth0/rx-1 = 20000000", "netdev/napi-get"),
    ("xps_cpus eth0/tx-0 = 0-1", "tx-0/xps_cpus"),
    ("xps_rxqs eth0/tx-1 = 1", "tx-1/xps_rxqs"),
    ("netdev_budget host = 600", "netdev_budget"),
    ("netdev_budget_usecs host = 12000", "netdev_budget_usecs"),
    ("netdev_max_backlog host = 2000", "netdev_max_backlog"),
    ("dev_weight host = 128", "dev_weight"),
    ("gro_normal_batch host = 16", "gro_normal_batch"),
    ("skb_defer_max host = 128", "skb_defer_max"),
    ("flow_limit_cpus host = 0-1", "flow_limit_cpu_bitmap"),
    ("rps_default_mask host = 2-3", "rps_default_mask"),
    ("default_smp_affinity host = 0-1", "default_smp_affinity"),
    ("busy_poll host = 50", "busy_poll"),
    ("busy_read host = 50", "busy_read"),
    ("clocksource host = hpet", "current_clocksource"),
    ("affinity pid:812 = 4-5", "task/813/status"),
    ("ksoftirqd_priority cpu:2 = fifo:10", "22/stat"),
    ("ksoftirqd_priority cpu:3 = nice:-5", "23/stat"),
    ("napi_priority eth0/rx-1 = rr:3", "501/stat"),
];

fn look(host: &dyn Host) -> Model {
    Model::new(&Inventory::take(host, Scope::All))
}

fn begin(store: &Store, model: &Model, root: &Path) -> Transaction {
    let info = BeginInfo { root, what: "a test".into(), ..BeginInfo::new(&model.identity) };
    Transaction::begin(store, info).expect("begun")
}

fn settings() -> Vec<Setting> {
    SETTINGS.iter().map(|(text, _)| text.parse().expect(text)).collect()
}

#[test]
fn all_knobs_are_set_and_restored() {
    let tree = Tree::new();
    let model = look(&tree.host());
    let original = values_in(&tree.host(), &model);
    let arguments = SETTINGS.iter().flat_map(|(text, _)| ["--setting", text]);
    let arguments: Vec<&str> = ["apply"].into_iter().chain(arguments).collect();
    let text = tree.rxlab(&arguments).exits(0);
    assert!(!text.contains("already set"), "{text}");
    let changed = values_in(&tree.host(), &model);
    for setting in settings() {
        let place = format!("{} {}", setting.knob, setting.target);
        assert_ne!(changed[&place], original[&place], "{place}");
    }
    assert_eq!(changed["affinity pid:812"], "4-5@812-813");
    let text = tree.rxlab(&["status"]).exits(0);
    assert_eq!(text.matches("  kept").count(), SETTINGS.len(), "{text}");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(values_in(&tree.host(), &model), original);
}

#[test]
fn a_refusal_of_any_knob_restores_all_others() {
    for (setting, file) in SETTINGS {
        let tree = Tree::new();
        let model = look(&tree.host());
        let original = values_in(&tree.host(), &model);
        let refuse = Rule { suffix: file.into(), mishap: Mishap::Refuse(Cause::Errno(5)) };
        let host = FlakyHost::new(tree.host(), vec![refuse], Fuse::new(None, || ()));
        let transaction = begin(&tree.store(), &model, &tree.root());
        let result = transaction.apply(&host, &model, &settings(), &AtomicBool::new(false));
        let failure = result.expect_err(setting);
        assert!(failure.error.to_string().contains("the kernel rejected it"), "{setting}: {}", failure.error);
        assert!(failure.undo.is_clean() && failure.undo.closed, "{setting}: {:?}", failure.undo);
        assert_eq!(values_in(&tree.host(), &model), original, "{setting}");
    }
}

/// Success reported by the kernel must be verified: this one does nothing.
#[test]
fn a_write_without_effect_is_noticed() {
    for (setting, file) in SETTINGS {
        let tree = Tree::new();
        let model = look(&tree.host());
        let ignore = Rule { suffix: file.into(), mishap: Mishap::Ignore };
        let host = FlakyHost::new(tree.host(), vec![ignore], Fuse::new(None, || ()));
        let mut transaction = begin(&tree.store(), &model, &tree.root());
        let error = transaction
            .set(&host, &mut model.clone(), &setting.parse().expect("a setting"))
            .expect_err(setting);
        assert!(matches!(error, rxlab::apply::ApplyError::NotKept { .. }), "{setting}: {error}");
        assert!(error.to_string().contains("asked for"), "{error}");
    }
}

/// The PID of the moved process belongs to another process by now.
#[test]
fn another_process_with_the_same_pid_is_left_alone() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "affinity pid:812 = 4-5"]).exits(0);
    tree.process(812, "web", 1, 6000);
    tree.rxlab(&["status"]).says(1, "gone with its device");
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
    let model = look(&tree.host());
    let mut transaction = begin(&tree.store(), &model, &tree.root());
    transaction
        .set(&tree.host(), &mut model.clone(), &"irqbalance eth0 = banned".parse().expect("a setting"))
        .expect("set");
    std::fs::remove_dir_all(tree.root().join("proc/70")).expect("ended");
    std::fs::remove_dir_all(tree.root().join("socket")).expect("ended");
    let undo = transaction.undo(&tree.host(), &look(&tree.host()));
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
    tree.write_bytes("netlink/netdev/napi-get", &[napi(8193), napi(8194)].concat());
    let original = tree.values();
    let (threaded, priority) = ("threaded eth0 = on", "napi_priority eth0/rx-0 = rr:1");
    let both = ["apply", "--setting", priority, "--setting", threaded];
    let (code, text) = said(&tree.rxlab(&[&both[..], &["--dry-run"]].concat()));
    let expected =
        "threaded eth0 = on  (now off)\nnapi_priority eth0/rx-0 = rr:1  (once its target exists)\n";
    assert!(code == 0 && text.starts_with(expected), "{code}: {text}");
    let (code, text) = said(&tree.rxlab(&both));
    assert!(code != 0 && text.contains("its NAPI has no thread"), "{code}: {text}");
    assert!(text.contains("nothing is changed"), "{text}");
    assert_eq!(tree.values(), original);
    tree.rxlab(&["apply", "--setting", priority]).says(2, "`threaded eth0 = on` creates one");
}
