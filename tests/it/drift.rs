//! Values changed by other programs: likely suspects, watching, and reapplying.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::process::Signal;
use rxlab_change::apply::Transaction;
use rxlab_change::journal::{Disk, FlakyStorage, Outcome, Store};
use rxlab_sys::{Failpoint, FlakyHost};

use crate::process::{Ended, PATIENCE, Running, one_line};
use crate::settings::settings;
use crate::tree::{Tree, model};

/// Foreign writes: to one queue, and to the two interrupts of another one.
const EXTERNAL: [(&str, &str); 3] =
    [(RPS, "20"), ("proc/irq/25/smp_affinity", "08"), ("proc/irq/26/smp_affinity", "08")];

const RPS: &str = "sys/class/net/eth0/queues/rx-0/rps_cpus";
const APPLY: [&str; 3] = ["apply", "--setting", "rps eth0/rx-0 = 2-3"];

#[test]
fn drifted_values_are_reapplied_and_undone() {
    let tree = Tree::new();
    let original = tree.values();
    tree.rxlab(&[&APPLY[..], &["--setting", "rps eth0/rx-1 = 4"]].concat()).exits(0);
    tree.write(RPS, "20\n");
    tree.rxlab(&["status"]).says(1, "DRIFTED: it is 5 now\n    cause unknown\n");
    tree.rxlab(&["reapply", "--dry-run"])
        .says(0, "rps eth0/rx-0 = 2-3: would be set again, it is 5 (cause unknown)");
    assert_eq!(tree.rps("eth0", 0), "20");
    let expected = ["rps eth0/rx-0 = 2-3: set again, it was 5 (cause unknown)", "rps eth0/rx-1 = 4: holds"];
    tree.rxlab(&["reapply"]).says_all(0, &expected);
    assert_eq!((tree.rps("eth0", 0), tree.rps("eth0", 1)), ("c".into(), "10".into()));
    tree.rxlab(&["status"]).says(0, "rps eth0/rx-0 = 2-3  (was off)  kept");
    tree.rxlab(&["undo"]).says(0, "rps eth0/rx-0: back to off");
    assert_eq!(tree.values(), original);
    assert_eq!(tree.rxlab(&["reapply"]).exits(0), "nothing is applied\n");
}

#[test]
fn one_of_several_transactions_is_reapplied() {
    let tree = Tree::new();
    tree.rxlab(&APPLY).exits(0);
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-1 = 4"]).exits(0);
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 1"]).exits(0);
    tree.write(RPS, "20\n");
    tree.write("sys/class/net/eth0/queues/rx-1/rps_cpus", "20\n");
    tree.rxlab(&["reapply", "000001"]).says(0, "rps eth0/rx-0 = 2-3: left to 000003-");
    tree.rxlab(&["reapply", "000002"]).exits(0);
    assert_eq!((tree.rps("eth0", 0), tree.rps("eth0", 1)), ("20".into(), "10".into()));
    tree.rxlab(&["reapply", "000009"]).says(2, "no open transaction `000009`");
    let json: serde_json::Value = tree.rxlab(&["reapply", "--json"]).json(0);
    assert_eq!(json["schema"], "rxlab.reapply/1");
    assert_eq!(json["transactions"][0]["values"][0]["outcome"], "covered");
    assert_eq!(json["transactions"][2]["values"][0]["was"], "5");
    assert_eq!(tree.rps("eth0", 0), "2");
}

#[test]
fn reapply_reports_why_a_value_cannot_be_set() {
    let tree = Tree::new();
    tree.rxlab(&APPLY).exits(0);
    tree.write(RPS, "20\n");
    tree.write("sys/devices/system/cpu/online", "0-2,4-6\n");
    let text = tree.rxlab(&["reapply"]).exits(5);
    assert!(
        one_line(&text).contains("not set again: rps eth0/rx-0: CPU 3 is offline (online: 0-2,4-6)"),
        "{text}"
    );
    std::fs::remove_file(tree.root().join("sys/class/net/eth0")).expect("removed");
    tree.rxlab(&["reapply"]).says(4, "no longer exists");
    let (code, text) = tree.rxlab(&["status"]).said();
    assert!(code == 1 && one_line(&text).contains("no interface has the address pci:0000:00:03.0"), "{text}");
}

#[test]
fn nothing_is_reapplied_while_a_change_awaits_confirmation() {
    let tree = Tree::new();
    tree.rxlab(&APPLY).exits(0);
    tree.rxlab(&["apply", "--confirm", "600s", "--setting", "rps eth0/rx-1 = 4"]).exits(0);
    tree.write(RPS, "20\n");
    for args in [&["reapply"][..], &["reapply", "--dry-run"]] {
        tree.rxlab(args).says(4, "is waiting for confirmation");
    }
    assert_eq!(tree.rps("eth0", 0), "20");
    tree.rxlab(&["confirm"]).exits(0);
    tree.rxlab(&["reapply"]).exits(0);
    assert_eq!(tree.rps("eth0", 0), "c");
}

/// The interface was deleted and recreated with the same name. A virtual one keeps its address.
#[test]
fn a_recreated_interface_is_detected() {
    let tree = Tree::new();
    tree.write("sys/class/net/veth0/ifindex", "3\n");
    tree.rxlab(&["apply", "--setting", "rps veth0/rx-0 = 1"]).exits(0);
    tree.write("sys/class/net/veth0/ifindex", "8\n");
    tree.write("sys/class/net/veth0/queues/rx-0/rps_cpus", "00\n");
    let text = tree.rxlab(&["status"]).exits(1);
    let who = "probably new queues created by the driver: ifindex of veth0 changed from 3 to 8";
    assert!(one_line(&text).contains(who), "{text}");
    let json: serde_json::Value = tree.rxlab(&["status", "--json"]).json(1);
    let suspect = &json["transactions"][0]["values"][0]["suspects"][0];
    assert_eq!(
        (suspect["who"].as_str(), suspect["likelihood"].as_str()),
        (Some("new_queues"), Some("probable"))
    );
    tree.rxlab(&["reapply"]).exits(0);
    assert_eq!(tree.rps("veth0", 0), "2");
}

/// A reapply is killed at each of its operations, on the machine and in the journal. After undo each value is either
/// the original or a foreign one that the reapply had not overwritten yet; the journal is valid.
#[test]
fn killed_at_every_operation_of_a_reapply() {
    let settings = settings(&["rps eth0/rx-0 = 2-3", "irq_affinity eth0/rx-1 = 4", "rps eth0/rx-1 = 1"]);
    let run = |at: Option<u64>| {
        let tree = Tree::new();
        let original = tree.values();
        let transaction = tree.begin();
        let id = transaction.id().to_owned();
        transaction.apply(&tree.host(), &model(), &settings, &AtomicBool::new(false)).expect("applied");
        EXTERNAL.iter().for_each(|(path, value)| tree.write(path, value));
        let strangers = tree.values();
        let fuse = Failpoint::new(at, || panic!("the fuse has blown"));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let store = Store::new(FlakyStorage::new(Disk::new(tree.state()), fuse.clone(), None));
            let host = FlakyHost::new(tree.host(), Vec::new(), fuse.clone());
            let mut transaction = Transaction::resume(&store, &id, Duration::ZERO).expect("resumed");
            transaction.reapply(&[], &host, &model())
        }));
        assert_eq!(ended.is_err(), at.is_some(), "{at:?}");
        let transaction = Transaction::resume(&tree.store(), &id, Duration::ZERO).expect("resumed");
        let undo = transaction.undo(&tree.host(), &model());
        assert!(undo.closed, "{at:?}: {undo:?}");
        let mut left = 0;
        for (name, value) in tree.values() {
            let is_theirs = value == strangers[&name] && value != original[&name];
            assert!(is_theirs || value == original[&name], "{name} = {value}, ended at {at:?}");
            let told = undo.outcomes.iter().any(|outcome| {
                name == format!("{} {}", outcome.knob, outcome.target)
                    && outcome.outcome == Outcome::Drift { live: value.clone(), fresh: false }
            });
            assert_eq!(is_theirs, told, "{name} = {value}, ended at {at:?}");
            left += usize::from(is_theirs);
        }
        (fuse.count(), left)
    };
    let (points, left) = run(None);
    assert!(points > 20 && left == 0, "{points} operations, {left} values left");
    let left: Vec<usize> = (1..=points).map(|at| run(Some(at)).1).collect();
    assert!(left.is_sorted_by(|a, b| a >= b), "the foreign values go one after the other: {left:?}");
    assert_eq!((left.first(), left.last()), (Some(&2), Some(&0)));
    println!("reapply: {points} stop points, {points} recovered, 0 lost");
}

struct Watch {
    process: Running,
    lines: Receiver<String>,
}

impl Watch {
    fn start(tree: &Tree, args: &[&str]) -> Self {
        let watch = [&["status", "--watch", "--every", "50ms"], args].concat();
        let mut process = Running::start(&mut tree.command(&watch));
        let lines = process.lines();
        Self { process, lines }
    }

    /// Waits for a line that contains `part`. A file of a tree is empty for a moment while it is written, and a watch
    /// may observe that: other lines may come first.
    fn wait_for(&self, part: &str) -> String {
        let line = || self.lines.recv_timeout(PATIENCE).expect(part);
        std::iter::repeat_with(line).find(|line| line.contains(part)).expect("it was there")
    }

    /// Ends it. Returns its exit code and the lines that nothing waited for.
    fn end(self) -> (i32, Vec<String>) {
        self.process.signal(Signal::INT);
        let code = self.process.output().status.code().expect("not killed");
        (code, self.lines.iter().collect())
    }
}

#[test]
fn a_watch_prints_changes_and_nothing_else() {
    let tree = Tree::new();
    tree.rxlab(&APPLY).exits(0);
    let watch = Watch::start(&tree, &[]);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(watch.lines.try_iter().collect::<Vec<_>>(), [""; 0], "all holds");
    tree.write(RPS, "20\n");
    watch.wait_for("rps eth0/rx-0 = 2-3  DRIFTED: it is 5 now; cause unknown");
    tree.rxlab(&["reapply"]).exits(0);
    watch.wait_for("rps eth0/rx-0 = 2-3  kept");
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-1 = 4"]).exits(0);
    let id = tree.store().open_ids().expect("listed").remove(1);
    watch.wait_for(&format!("transaction {id}  applied"));
    tree.rxlab(&["undo", "--last"]).exits(0);
    watch.wait_for(&format!("transaction {id}  no longer listed: reverted, given up or unreadable"));
    assert_eq!(watch.end(), (0, Vec::new()));
}

#[test]
fn a_watch_exits_like_status() {
    let tree = Tree::new();
    tree.rxlab(&APPLY).exits(0);
    assert_eq!(tree.rxlab(&["status", "--watch", "--every", "20ms", "--for", "100ms"]).exits(0), "");
    tree.write(RPS, "20\n");
    let watch = Watch::start(&tree, &["--json"]);
    let line: serde_json::Value = serde_json::from_str(&watch.wait_for("drifted")).expect("JSON");
    assert_eq!((&line["schema"], &line["news"]), (&"rxlab.news/1".into(), &"value".into()));
    assert_eq!((&line["live"], &line["value"]), (&"drifted".into(), &"5".into()));
    assert_eq!(watch.end(), (1, Vec::new()));
    tree.rxlab(&["status", "--watch", "--every", "0s"]).says(2, "--every needs a time above 0");
    tree.rxlab(&["status", "--for", "1s"]).says(2, "--watch");
}
