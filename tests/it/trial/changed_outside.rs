//! A value that a trial flips is set by another program: on plain files, with a driver that replaces queues, and on
//! the running kernel. The trial stops, leaves that value alone, and restores the others.

use rxlab_change::apply;
use rxlab_path::sample::Scope;
use rxlab_setting::Plan;
use rxlab_stats::design::order;
use rxlab_stats::design::{Arm, Phase};
use rxlab_sys::{Failpoint, Fault, FlakyHost, Host, Rule};
use rxlab_trial::factor::{Arms, Factor, FactorError};
use rxlab_trial::record::Verdict;

use super::{QUICK, moving_workload, queues, record};
use crate::driver::Driver;
use crate::lab::{host_in, range};
use crate::process::{Ended, Running, mentioning, rxlab, wait_for};
use crate::settings::settings;
use crate::tree::{Tree, begin, look};

const ID: &str = "0001-trial";
/// The original is `off` on both queues.
const SET: [&str; 4] = ["--set", "rps eth0/rx-0 = 2-3", "--set", "rps eth0/rx-1 = 1"];

/// A workload that prints 100, or 120 while arm B is set. From its third run on it executes `a` in the directory of
/// the queues while arm A is set, and `b` while arm B is.
fn workload(tree: &Tree, a: &str, b: &str) -> String {
    let rest = format!(
        "cd sys/class/net/eth0/queues\n\
         case $(cat rx-1/rps_cpus) in\n\
         0|00) echo 100; if [ $n -gt 300 ]; then {a}; fi ;;\n\
         *) echo 120; if [ $n -gt 300 ]; then {b}; fi ;;\n\
         esac"
    );
    moving_workload(tree, "0", &rest)
}

/// Runs a trial that executes these commands; returns the exit code and the output.
fn trial(tree: &Tree, a: &str, b: &str, more: &[&str]) -> (i32, String) {
    let command = workload(tree, a, b);
    tree.rxlab(&[&QUICK[..], &SET, &["--pairs", "6", "--command", &command], more].concat()).said()
}

/// Checks the output and final state of a trial: `expected` and `found` for the first queue, and the void slot of
/// `arm`.
fn stopped(tree: &Tree, (code, text): (i32, String), arm: Arm, expected: &str, found: &str) {
    assert_eq!(code, 4, "{text}");
    let what = format!("rps eth0/rx-0 (expected {expected}, found {found})");
    assert!(text.starts_with("trial: stopped, changed from outside. "), "{text}");
    let line = format!("rxlab: another program, or the kernel, changed {what}; that was left alone, and");
    assert_eq!(text.lines().filter(|said| said.starts_with(&line)).count(), 1, "{text}");
    assert!(!text.contains("as it was before the trial"), "{text}");
    let record = record(&tree.state(), ID).expect("on disk");
    let last = record.slots.last().expect("the third run was one");
    assert_eq!((last.arm, last.void.clone()), (arm, Some(format!("changed from outside: {what}"))));
    assert!(record.slots.iter().rev().skip(1).all(|slot| slot.void.is_none()), "{text}");
    let verdict = record.analysis.expect("concluded").verdict;
    assert_eq!(verdict, Verdict::MachineChanged { reason: what });
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
    assert_eq!(mentioning(tree.path()), []);
}

/// The trial once overwrote it at the next flip, and reported that the machine was restored.
#[test]
fn a_value_set_during_arm_b_is_kept() {
    let tree = Tree::new();
    let said_by = trial(&tree, ":", "echo 10 > rx-0/rps_cpus", &[]);
    stopped(&tree, said_by, Arm::B, "2-3", "4");
    assert_eq!(queues(&tree), ["10", "0"], "the other queue is restored");
    tree.rxlab(&["trial", "resume", ID]).says(2, "is finished");
    tree.rxlab(&["trial", "show", ID]).says(0, "changed from outside");
}

/// Undo alone considers a value that the trial had set the trial's own.
#[test]
fn the_value_of_arm_b_set_by_hand_during_arm_a_is_kept() {
    let tree = Tree::new();
    let said_by = trial(&tree, "echo c > rx-0/rps_cpus", ":", &[]);
    stopped(&tree, said_by, Arm::A, "off", "2-3");
    assert_eq!(queues(&tree), ["c", "0"].map(str::to_owned));
}

#[test]
fn the_original_value_set_by_hand_during_arm_b_stops_the_trial() {
    let tree = Tree::new();
    let said_by = trial(&tree, ":", "echo 0 > rx-0/rps_cpus", &["--json"]);
    assert_eq!(said_by.0, 4, "{}", said_by.1);
    assert!(said_by.1.contains("\"verdict\": \"machine_changed\""), "{}", said_by.1);
    assert_eq!(queues(&tree), ["0", "0"]);
}

#[test]
fn the_same_value_in_another_notation_is_not_a_change() {
    let tree = Tree::new();
    let same = "echo 00000000,0000000c > rx-0/rps_cpus";
    trial(&tree, "echo 00000000,00000000 > rx-0/rps_cpus", same, &[])
        .says(0, "the machine is as it was before the trial");
    assert_eq!(queues(&tree).map(|value| value.trim_start_matches('0').to_owned()), ["", ""]);
}

/// Six pairs prove that arm B helps, and after their last slot the value differs.
#[test]
fn keep_does_not_apply_to_a_value_changed_meanwhile() {
    let tree = Tree::new();
    let foreign = "if [ $n -gt 11 ]; then echo 10 > rx-0/rps_cpus; fi";
    let text = trial(&tree, foreign, foreign, &["--keep"]).exits(4);
    assert!(text.starts_with("trial: stopped, changed from outside. "), "{text}");
    assert!(text.contains("found 4") && !text.contains("kept: "), "{text}");
    assert_eq!(queues(&tree), ["10", "0"]);
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
}

/// If the workload fails because of it, the trial ends in another way, with the same care.
#[test]
fn a_failing_workload_keeps_the_foreign_value_as_well() {
    let tree = Tree::new();
    let text = trial(&tree, "echo c > rx-0/rps_cpus; exit 1", ":", &[])
        .says_all(5, &["the workload command", "rps eth0/rx-0: left alone"]);
    assert!(!text.contains("as it was before the trial") && !text.contains("try again"), "{text}");
    assert_eq!(queues(&tree), ["c", "0"]);
}

/// A factor on a machine with a driver.
fn factor(tree: &Tree, host: &dyn Host, a: &[&str], b: &[&str]) -> Factor {
    let model = look(host, Scope::Path);
    let checked = |texts| apply::check(host, &model, &Plan::new("test", &settings(texts))).expect("sound");
    let transaction = begin(&tree.store(), &tree.root(), &model.identity).expect("begun");
    Factor::new(transaction, Arms::Settings(vec![checked(a), checked(b)]), host)
}

/// The driver resets values at each flip, including targets of the trial, and queue 1 is removed and recreated.
#[test]
fn values_reset_by_the_driver_are_not_foreign_changes() {
    let tree = Tree::new();
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "0c\n");
    let (original, host) = (tree.values(), Driver::new(tree.host(), &tree.root()));
    let a = ["rps eth0/rx-1 = 4", "irq_affinity eth0/rx-0 = 2"];
    let b = ["channels eth0 = 1", "rfs eth0/rx-0 = 2048"];
    let mut all = factor(&tree, &host, &a, &b);
    for arm in [Arm::A, Arm::B, Arm::B, Arm::A, Arm::B] {
        all.set(&host, arm.index()).and_then(|()| all.check(&host)).expect("nothing else changes it");
    }
    let undo = all.undo(&host);
    assert!(undo.is_clean() && undo.closed, "{:?}", undo.outcomes);
    assert_eq!(tree.values(), original);
}

#[test]
fn a_foreign_value_survives_restored_queues() {
    let tree = Tree::new();
    let (mut original, host) = (tree.values(), Driver::new(tree.host(), &tree.root()));
    let mut all = factor(&tree, &host, &[], &["channels eth0 = 1", "rps eth0/rx-0 = 1"]);
    all.set(&host, Arm::A.index()).and_then(|()| all.set(&host, Arm::B.index())).expect("set");
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "10\n");
    let error = all.set(&host, Arm::A.index()).expect_err("changed");
    assert_eq!(error.to_string(), "changed from outside: rps eth0/rx-0 (expected 1, found 4)");
    assert!(matches!(error, FactorError::Changed(_)));
    assert_eq!(tree.rps("eth0", 0), "10", "nothing was written");
    let undo = all.undo(&host);
    assert!(undo.closed && !undo.is_clean());
    let troubled: Vec<_> = undo.outcomes.iter().filter(|outcome| outcome.trouble).collect();
    assert_eq!(troubled.len(), 1, "{:?}", undo.outcomes);
    original.insert("rps eth0/rx-0".to_owned(), "4".to_owned());
    assert_eq!(tree.values(), original, "the driver threw it away with the queues, and it was set again");
}

#[test]
fn changes_before_the_first_flip_are_kept() {
    let tree = Tree::new();
    let host = tree.host();
    let mut all = factor(&tree, &host, &[], &["rps eth0/rx-0 = 1"]);
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "10\n");
    let error = all.set(&host, Arm::B.index()).expect_err("changed").to_string();
    assert_eq!(error, "changed from outside: rps eth0/rx-0 (expected off, found 4)");
    let undo = all.undo(&host);
    assert!(undo.closed && !undo.is_clean(), "{undo:?}");
    assert_eq!(tree.rps("eth0", 0), "10");
}

/// A failed flip leaves values that belong to neither arm: they are still the trial's own, and are restored.
#[test]
fn a_failed_flip_is_not_a_foreign_change() {
    let tree = Tree::new();
    let rule = Rule { suffix: "rx-1/rps_cpus".into(), fault: Fault::Keep(b"01".into()) };
    let host = FlakyHost::new(tree.host(), vec![rule], Failpoint::new(None, || ()));
    let mut all = factor(&tree, &host, &[], &["rps eth0/rx-0 = 2-3", "rps eth0/rx-1 = 2-3"]);
    all.set(&host, Arm::A.index()).expect("nothing to set");
    all.set(&host, Arm::B.index()).expect_err("the kernel kept something else");
    assert_eq!(queues(&tree), ["c", "01"]);
    let undo = all.undo(&tree.host());
    assert!(undo.closed && undo.is_clean(), "{undo:?}");
    assert_eq!(queues(&tree).map(|value| value.trim_start_matches('0').to_owned()), ["", ""]);
}

/// On the running kernel a removed queue loses its mask.
#[test]
fn values_reset_by_the_kernel_are_not_foreign_changes() {
    let Some(range) = range(2) else { return };
    let host = host_in(&range.server);
    let tree = Tree::new();
    let values =
        || [0, 1].map(|queue| host.read_text(&format!("sys/class/net/srv0/queues/rx-{queue}/rps_cpus")));
    let original = values();
    let a = ["rps srv0/rx-1 = 1", "rps srv0/rx-0 = 0-1"];
    let mut all = factor(&tree, &host, &a, &["channels srv0 = rx 1 tx 1", "rps srv0/rx-0 = 1"]);
    for arm in [Arm::A, Arm::B, Arm::B, Arm::A, Arm::B, Arm::A, Arm::B] {
        all.set(&host, arm.index()).and_then(|()| all.check(&host)).expect("nothing else changes it");
    }
    let undo = all.undo(&host);
    assert!(undo.is_clean() && undo.closed, "{:?}", undo.outcomes);
    assert_eq!(values(), original);
}

const RPS: &str = "sys/class/net/srv0/queues/rx-0/rps_cpus";

/// On the running kernel: a trial waits in its first slot, which runs `arm`, until another program has set the mask.
fn on_the_kernel(arm: Arm, expected: &str) {
    let Some(range) = range(1) else { return };
    let host = host_in(&range.server);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (path, state) = (directory.path(), directory.path().join("state"));
    let seed = (0..).find(|seed| order(*seed, Phase::Comparison, 0)[0] == arm).expect("half of them");
    let workload =
        format!("cd '{}'; touch begun; until test -e go; do sleep 0.02; done; echo 5", path.display());
    let (seed, netns) = (format!("--seed={seed}"), range.server.path().display().to_string());
    let args = [
        &["trial", "run", "--netns", &netns, "--washout", "0s", "--calibration", "0"][..],
        &["--pairs", "3", "--set", "rps srv0/rx-0 = 1", "--command", &workload, &seed],
    ];
    let mut trial = Running::start(&mut rxlab(&state, &args.concat()));
    wait_for("the first slot", || trial.has_ended() || path.join("begun").exists());
    let mask = |text: &str| u64::from_str_radix(text.trim(), 16).expect("a mask");
    assert_eq!(mask(&host.read_text(RPS).expect("readable")), if arm == Arm::B { 2 } else { 0 });
    host.write(RPS, b"1").expect("written");
    std::fs::write(path.join("go"), "").expect("written");
    let text = trial.output().exits(4);
    let line = format!("changed rps srv0/rx-0 (expected {expected}, found 0); that was left alone");
    assert!(text.contains(&line) && !text.contains("as it was before"), "{text}");
    assert_eq!(mask(&host.read_text(RPS).expect("readable")), 1, "{text}");
    let record = record(&state, ID).expect("on disk");
    assert_eq!(record.slots.len(), 1, "{text}");
    assert!(record.slots[0].arm == arm && record.slots[0].void.is_some(), "{text}");
    assert_eq!(mentioning(path), []);
}

#[test]
fn a_mask_set_during_arm_a_on_the_kernel() {
    on_the_kernel(Arm::A, "off");
}

#[test]
fn a_mask_set_during_arm_b_on_the_kernel() {
    on_the_kernel(Arm::B, "1");
}
