//! Changed numbers of queues: values that the driver resets are restored, including after an undo.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rxlab_base::parse::ethtool::ChannelKind;
use rxlab_change::apply::{self, Failure, Kept, Transaction};
use rxlab_path::model::Model;
use rxlab_path::sample::Scope;
use rxlab_setting::Plan;
use rxlab_sys::{Action, EthtoolGet, Host, LiveHost};

use crate::driver::{Driver, Table};
use crate::settings::settings;
use crate::tree::{Tree, look, model, values_in};

fn tuned() -> Tree {
    let tree = Tree::new();
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "0c\n");
    tree.write("sys/class/net/eth0/queues/rx-1/rps_flow_cnt", "4096\n");
    tree.write("proc/irq/24/smp_affinity", "10\n");
    tree
}

fn driver(tree: &Tree) -> Driver<LiveHost> {
    Driver::new(tree.host(), &tree.root())
}

fn plan(texts: &[&str]) -> Plan {
    Plan::new("test", &settings(texts))
}

fn fresh(host: &dyn Host) -> Model {
    look(host, Scope::Path)
}

fn try_to_apply(tree: &Tree, host: &dyn Host, settings: &[&str]) -> Result<Vec<Kept>, Box<Failure>> {
    let model = fresh(host);
    let settings = apply::check(host, &model, &plan(settings)).expect("sound");
    tree.begin().apply(host, &model, &settings, &AtomicBool::new(false))
}

fn apply(tree: &Tree, host: &dyn Host, settings: &[&str]) -> Vec<Kept> {
    try_to_apply(tree, host, settings).expect("applied")
}

fn undo(tree: &Tree, host: &dyn Host) {
    let store = tree.store();
    let root: &Path = &tree.root();
    let open = store.open_of(&root.to_string_lossy(), "boot-1").expect("listed");
    for (id, _) in open.iter().rev() {
        let transaction = Transaction::resume(&store, id, Duration::ZERO).expect("resumed");
        let undo = transaction.undo(host, &fresh(host));
        assert!(undo.is_clean() && undo.closed, "{:?}", undo.outcomes);
    }
}

#[test]
fn values_reset_by_the_driver_are_set_again_both_ways() {
    let tree = tuned();
    let (original, host) = (tree.values(), driver(&tree));
    let kept = apply(&tree, &host, &["channels eth0 = 1", "rfs eth0/rx-0 = 2048"]);
    let replayed: Vec<String> = kept[0].replayed.iter().map(ToString::to_string).collect();
    let expected = [
        "irq_affinity eth0/rx-0 = 4",
        "irq_affinity eth0/tx-0 = 1",
        "irq_affinity eth0/irq-eth0 = 3",
        "xps_cpus eth0/tx-0 = off",
        "rps eth0/rx-0 = 2-3",
    ];
    assert_eq!(replayed, expected);
    assert_eq!(tree.rps("eth0", 0), "c");
    assert!(!tree.root().join("sys/class/net/eth0/queues/rx-1").exists());
    undo(&tree, &host);
    assert_eq!(tree.values(), original, "including those of the removed queue");
}

/// Interrupts that do not belong to a receive queue once stayed where the driver put them.
#[test]
fn other_interrupts_stay_where_they_were_pinned() {
    let tree = tuned();
    let (original, host) = (tree.values(), driver(&tree));
    let pinned = || ["40", "39"].map(|irq| tree.read(&format!("proc/irq/{irq}/smp_affinity")));
    apply(&tree, &host, &["irq_affinity eth0/tx-0 = 5", "irq_affinity eth0/irq-eth0 = 2"]);
    assert_eq!(pinned(), ["20", "4"]);
    for channels in ["channels eth0 = 1", "channels eth0 = 2"] {
        apply(&tree, &host, &[channels]);
        assert_eq!(pinned(), ["20", "4"], "{channels}");
    }
    undo(&tree, &host);
    assert_eq!(tree.values(), original);
}

#[test]
fn a_future_queue_is_set_once_it_exists() {
    let tree = tuned();
    let (original, host) = (tree.values(), driver(&tree));
    apply(&tree, &host, &["irq_affinity eth0/rx-3 = 5", "rps eth0/rx-2 = 1-2", "channels eth0 = 4"]);
    assert_eq!(tree.read("proc/irq/28/smp_affinity"), "20");
    assert_eq!(tree.rps("eth0", 2), "6");
    assert_eq!(tree.read("proc/irq/24/smp_affinity"), "10", "set again");
    undo(&tree, &host);
    assert_eq!(tree.values(), original);
}

#[test]
fn a_queue_about_to_be_removed_is_refused_beforehand() {
    let tree = tuned();
    let error = apply::check(&tree.host(), &model(), &plan(&["rps eth0/rx-1 = 1", "channels eth0 = 1"]));
    assert_eq!(error.expect_err("refused").to_string(), "eth0 has no queue rx-1 (it has rx-0)");
    let error = apply::check(&tree.host(), &model(), &plan(&["rps eth0/rx-4 = 1", "channels eth0 = 4"]));
    assert!(error.expect_err("refused").to_string().starts_with("eth0 has no queue rx-4"));
}

/// An invalid value for a future queue is found only once the queue exists. The additional queues once remained.
#[test]
fn an_invalid_value_for_a_future_queue_restores_everything() {
    let tree = tuned();
    let (original, host) = (tree.values(), driver(&tree));
    let failure =
        try_to_apply(&tree, &host, &["channels eth0 = 4", "rps eth0/rx-3 = 99"]).expect_err("CPU 99");
    assert!(failure.error.to_string().contains("CPU 99 does not exist"), "{}", failure.error);
    assert!(failure.undo.is_clean());
    assert_eq!(tree.values(), original);
}

/// Other programs set values while there are fewer queues; the undo resets their values too.
#[test]
fn foreign_values_set_meanwhile_survive_the_undo() {
    let tree = tuned();
    let host = driver(&tree);
    apply(&tree, &host, &["channels eth0 = 1"]);
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "02\n");
    undo(&tree, &host);
    assert_eq!(tree.rps("eth0", 0), "2");
    assert_eq!(tree.read("proc/irq/24/smp_affinity"), "10", "all other values are restored");
    assert_eq!(tree.read("sys/class/net/eth0/queues/rx-1/rps_flow_cnt"), "4096");
}

/// Arm A of a trial is the initial machine, each time. It once lacked the values of the queues that arm B does not
/// have, and so did the machine after the trial.
#[test]
fn flips_to_fewer_queues_and_back_keep_all_values() {
    let tree = tuned();
    let host = driver(&tree);
    apply(&tree, &host, &["channels eth0 = 4"]);
    tree.write("sys/class/net/eth0/queues/rx-2/rps_cpus", "06\n");
    tree.write("sys/class/net/eth0/queues/tx-3/xps_cpus", "11\n");
    tree.write("proc/irq/28/smp_affinity", "20\n");
    let original = values_in(&host, &fresh(&host));
    for flips in [3, 4] {
        let mut transaction = tree.begin();
        let settings = settings(&["channels eth0 = combined 2", "rps eth0/rx-0 = 5"]);
        for flip in 0..flips {
            let mut model = fresh(&host);
            if flip % 2 == 0 {
                for setting in &settings {
                    transaction.set(&host, &mut model, setting).expect("set");
                }
                assert_eq!(fresh(&host).nics[0].rx.len(), 2);
            } else {
                for setting in settings.iter().rev() {
                    let back = transaction.set_back(&host, &mut model, &setting.knob, &setting.target);
                    back.expect("set back");
                }
                assert_eq!(values_in(&host, &fresh(&host)), original, "flip {flip}");
            }
        }
        let undo = transaction.undo(&host, &fresh(&host));
        assert!(undo.is_clean() && undo.closed, "{:?}", undo.outcomes);
        assert_eq!(values_in(&host, &fresh(&host)), original, "after {flips} flips");
    }
}

/// Another program restores the previous number of queues and sets one of them, without rxlab.
#[test]
fn queues_recreated_by_another_program_get_their_missing_values() {
    let tree = tuned();
    tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "06\n");
    let host = driver(&tree);
    let original = tree.values();
    apply(&tree, &host, &["channels eth0 = 1"]);
    host.act(&channels(2)).expect("done");
    tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "10\n");
    assert_ne!(tree.read("proc/irq/24/smp_affinity"), "10", "thrown away");
    undo(&tree, &host);
    assert_eq!(tree.read("sys/class/net/eth0/queues/rx-1/rps_cpus"), "10", "a foreign value");
    assert_eq!(tree.read("proc/irq/24/smp_affinity"), "10");
    assert_eq!(tree.read("sys/class/net/eth0/queues/rx-0/rps_cpus"), "c");
    assert_eq!(tree.read("sys/class/net/eth0/queues/rx-1/rps_flow_cnt"), original["rfs eth0/rx-1"]);
}

/// An older change of a queue that a newer change has removed was once closed as gone, and the undo of the newer one
/// then restored the older one's value.
#[test]
fn an_older_change_waits_for_its_queues() {
    let tree = tuned();
    let (original, host) = (tree.values(), driver(&tree));
    apply(&tree, &host, &["irq_affinity eth0/rx-1 = 5"]);
    apply(&tree, &host, &["channels eth0 = 1"]);
    let open = tree.store().open_of(&tree.root().to_string_lossy(), "boot-1").expect("listed");
    assert_eq!(apply::covered_by(&open[0].1, &open[1..]), Some(open[1].0.as_str()));
    undo(&tree, &host);
    assert_eq!(tree.values(), original);
}

/// Flow rules from before `ntuple` was on are lost when it is turned off, and are restored.
#[test]
fn rules_from_before_ntuple_survive_the_undo() {
    let tree = tuned();
    let (original, host) = (tree.values(), driver(&tree));
    apply(&tree, &host, &["ntuple eth0 = on", "ntuple_rule eth0/rule-8 = none"]);
    assert_ne!(tree.values(), original);
    undo(&tree, &host);
    assert_eq!(tree.values(), original);
}

/// Queues and RSS table in one plan, or only the queues, with drivers of each kind, and with a table set by a user
/// beforehand. The table of the intermediate queues was once restored for the original ones, and a table for future
/// queues was stored under the name that it has now.
#[test]
fn an_rss_table_comes_back_with_its_queues() {
    let mut applied = 0;
    for (from, to) in [(2, 4), (4, 2), (3, 2), (1, 4), (4, 1)] {
        for (kind, table) in [Table::Default, Table::Blocks, Table::Stays]
            .into_iter()
            .flat_map(|kind| [None, Some([0; 4]), Some([0, 1, 0, 1]), Some([0, 1, 1, 1])].map(|t| (kind, t)))
        {
            let used = table.and_then(|table| table.into_iter().max());
            for rss in [None, Some("default"), Some("equal"), Some("weights 1"), Some("table 0,0,0,1")] {
                if used.is_some_and(|last| last >= from) || (to == 1 && rss == Some("table 0,0,0,1")) {
                    continue;
                }
                let tree = Tree::new();
                // Initially the table matches the initial number of queues.
                let begins = if kind == Table::Stays { Table::Default } else { kind };
                let host = driver(&tree).with_table(begins);
                host.act(&channels(from)).expect("as many as there are");
                let host = host.with_table(kind);
                table.iter().for_each(|table| host.set_table(table));
                let before = (values_in(&host, &fresh(&host)), host.table());
                let rss = rss.map(|rss| match rss {
                    "equal" => format!("rss eth0 = equal {to}"),
                    rss => format!("rss eth0 = {rss}"),
                });
                let queues = format!("channels eth0 = {to}");
                let all: Vec<&str> =
                    [Some(&queues), rss.as_ref()].into_iter().flatten().map(|s| &**s).collect();
                let case = format!("{from} queues, {kind:?}, {table:?}: {all:?}");
                let checked = apply::check(&host, &fresh(&host), &plan(&all)).expect(&case);
                assert_eq!(apply::rehearse(&host, &fresh(&host), &checked).expect(&case).len(), all.len());
                let result = try_to_apply(&tree, &host, &all);
                assert_eq!(result.is_ok(), used.is_none_or(|last| last < to), "{case}: {result:?}");
                if result.is_ok() {
                    applied += 1;
                    if rss.as_ref().is_some_and(|rss| rss.contains("equal") || rss.contains("default")) {
                        let even: Vec<u32> = (0..4).map(|at| at % to).collect();
                        assert_eq!(host.table(), even, "{case}");
                    }
                    assert!(host.table().iter().all(|queue| *queue < to), "{case}: {:?}", host.table());
                    undo(&tree, &host);
                }
                assert_eq!((values_in(&host, &fresh(&host)), host.table()), before, "{case}");
            }
        }
    }
    assert!(applied > 150, "{applied}");
}

/// Request that sets the number of queues of `eth0`.
fn channels(count: u32) -> Action {
    Action::Ethtool {
        get: EthtoolGet::Channels,
        nic: "eth0".parse().expect("a name"),
        attributes: ChannelKind::Combined.attribute(count),
    }
}
