//! A separate process enforces the deadline of an unconfirmed change.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use rxlab::apply::{BeginInfo, Transaction};
use rxlab::host::ProcessId;
use rxlab::journal::Disk;

use crate::process::{copy_program, wait_for};
use crate::tree::{Ended, Tree, model, said};

#[test]
fn an_unconfirmed_change_is_restored() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3", "--confirm", "1s"])
        .says(0, "goes back in 1 s unless you run `rxlab confirm`");
    wait_for("the deadline", || tree.rps("eth0", 0) == "0");
    let notices = tree.state().join("journal/notices");
    wait_for("the notice", || std::fs::read_dir(&notices).is_ok_and(|mut all| all.next().is_some()));
    tree.rxlab(&["confirm"]).says_all(
        4,
        &[
            "no change is waiting for confirmation",
            "rxlab: transaction 000001-",
            "was not confirmed in time and was put back",
        ],
    );
    let (_, text) = said(&tree.rxlab(&["confirm"]));
    assert!(!text.contains("was not confirmed in time"), "said once: {text}");
}

/// A trial and its guard were killed. Their transaction once blocked every change until a user undid it.
#[test]
fn the_next_command_restores_changes_of_a_killed_process() {
    let tree = Tree::new();
    let identity = model().identity;
    let root = tree.root();
    let own = ProcessId::own().expect("procfs is mounted");
    let info = BeginInfo {
        root: &root,
        applier: Some(ProcessId { start: own.start + 1, ..own }),
        what: "trial 0001-rps".into(),
        confirm: Some(Duration::from_secs(600)),
        ..BeginInfo::new(&identity)
    };
    let mut transaction = Transaction::begin(&tree.store(), info).expect("begun");
    let setting = "rps eth0/rx-0 = 2-3".parse().expect("a setting");
    transaction.set(&tree.host(), &mut model(), &setting).expect("set");
    drop(transaction);
    let apply =
        |more: &[&str]| said(&tree.rxlab(&[&["apply", "--setting", "rps eth0/rx-1 = 2"], more].concat()));
    let (code, text) = apply(&["--dry-run"]);
    assert!(code == 0 && tree.rps("eth0", 0) == "c", "a dry run writes nothing: {text}");
    let text = apply(&[]).exits(0);
    let put_back = "(trial 0001-rps) was left behind by a killed process and was put back";
    assert!(text.contains(put_back), "{text}");
    assert_eq!((tree.rps("eth0", 0), tree.rps("eth0", 1)), ("0".into(), "4".into()));
}

#[test]
fn a_confirmed_change_is_kept() {
    let tree = Tree::new();
    let applied = tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3", "--confirm", "2s"]);
    applied.exits(0);
    tree.rxlab(&["status"]).says(0, "unless you run `rxlab confirm`");
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-1 = 2"])
        .says_all(4, &["is waiting for confirmation", "rxlab confirm 000001"]);
    tree.rxlab(&["confirm"]).exits(0);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(tree.rps("eth0", 0), "c", "the deadline has passed and it stays");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(tree.rps("eth0", 0), "0");
}

/// The applier dies in the middle, as after kill -9: its transaction is incomplete and its lock is free. The guard
/// knows all it needs from the journal.
#[test]
fn the_guard_outlives_the_applier() {
    let tree = Tree::new();
    let identity = model().identity;
    let root = tree.root();
    let confirm = Some(Duration::from_secs(1));
    let info = BeginInfo { root: &root, what: "a test".into(), confirm, ..BeginInfo::new(&identity) };
    let mut transaction = Transaction::begin(&tree.store(), info).expect("begun");
    let id = transaction.id().to_owned();
    let mut guard = tree.command(&["guard", &id]).stdout(Stdio::null()).spawn().expect("started");
    let setting = "rps eth0/rx-0 = 2-3".parse().expect("a setting");
    transaction.set(&tree.host(), &mut model(), &setting).expect("set");
    // The deadline passes while the applier still holds the lock: the guard waits for it.
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(tree.rps("eth0", 0), "c");
    tree.rxlab(&["confirm"]).exits(5);
    drop(transaction);
    wait_for("the guard", || tree.rps("eth0", 0) == "0");
    assert!(guard.wait().expect("ended").success());
    assert!(tree.store().open_ids().expect("listed").is_empty());
}

/// A terminated guard restores the change before it exits.
#[test]
fn a_terminated_guard_restores_the_change() {
    let tree = Tree::new();
    let identity = model().identity;
    let root = tree.root();
    let confirm = Some(Duration::from_secs(600));
    let info = BeginInfo { root: &root, what: "a test".into(), confirm, ..BeginInfo::new(&identity) };
    let mut transaction = Transaction::begin(&tree.store(), info).expect("begun");
    let mut command = tree.command(&["guard", transaction.id()]);
    let mut guard = command.stdout(Stdio::piped()).spawn().expect("started");
    let mut ready = String::new();
    let mut answer = std::io::BufReader::new(guard.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut answer, &mut ready).expect("answered");
    assert_eq!(ready, "ready\n");
    let setting = "rps eth0/rx-0 = 2-3".parse().expect("a setting");
    transaction.set(&tree.host(), &mut model(), &setting).expect("set");
    transaction.keep().expect("kept");
    let pid = rustix::process::Pid::from_child(&guard);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("sent");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    assert!(guard.wait().expect("ended").success(), "a hang-up does not end it, and TERM is answered");
    assert_eq!(tree.rps("eth0", 0), "0");
}

/// The program's file disappears between its start and that of the guard: no guard, so no write.
#[test]
fn without_a_guard_nothing_is_written() {
    let tree = Tree::new();
    let program = tree.path().join("rxlab");
    copy_program(&program);
    let mut apply = std::process::Command::new(&program);
    apply.arg("--root").arg(tree.root()).arg("--state-dir").arg(tree.state());
    apply.args(["apply", "/dev/stdin", "--confirm", "60s"]);
    apply.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut apply = apply.spawn().expect("started");
    // The program waits for its plan; by then it is deleted from the disk.
    std::fs::remove_file(&program).expect("removed");
    let mut plan = apply.stdin.take().expect("piped");
    plan.write_all(b"[[setting]]\nset = \"rps eth0/rx-0 = 2\"\n").expect("written");
    drop(plan);
    apply.wait_with_output().expect("ended").says(5, "nothing was changed: the guard did not start");
    assert_eq!(tree.rps("eth0", 0), "00");
    assert!(tree.store().open_ids().expect("listed").is_empty());
    assert!(Disk::new(tree.state()).lock_is_free());
}

/// Query of a lock by the tests.
trait Free {
    fn lock_is_free(&self) -> bool;
}

impl Free for Disk {
    fn lock_is_free(&self) -> bool {
        rxlab::journal::Storage::lock(self).is_ok()
    }
}
