//! A separate process enforces the deadline of an unconfirmed change.

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use rxlab_change::apply::{BeginInfo, Transaction};
use rxlab_change::journal::{Disk, Storage};
use rxlab_sys::{Numbering, ProcessId};

use crate::process::{Ended, Running, copy_program, guards, wait_for};
use crate::settings::setting;
use crate::tree::{Tree, model};

/// Begins a transaction that has to be confirmed within so many seconds.
fn begin(tree: &Tree, seconds: u64, applier: Option<ProcessId>) -> Transaction {
    let (identity, root) = (model().identity, tree.root());
    let (what, confirm) = ("trial 0001-rps".to_owned(), Some(Duration::from_secs(seconds)));
    let info = BeginInfo { root: &root, what, confirm, applier, ..BeginInfo::new(&identity) };
    Transaction::begin(&tree.store(), info).expect("begun")
}

fn set(tree: &Tree, transaction: &mut Transaction) {
    transaction.set(&tree.host(), &mut model(), &setting("rps eth0/rx-0 = 2-3")).expect("set");
}

#[test]
fn an_unconfirmed_change_is_restored() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3", "--confirm", "1s"])
        .says(0, "reverts in 1 s unless you run `rxlab confirm`");
    wait_for("the deadline", || tree.rps("eth0", 0) == "0");
    let notices = tree.state().join("journal/notices");
    wait_for("the notice", || std::fs::read_dir(&notices).is_ok_and(|mut all| all.next().is_some()));
    tree.rxlab(&["confirm"]).says_all(
        4,
        &[
            "no change is waiting for confirmation",
            "rxlab: transaction 000001-",
            "was not confirmed in time and was reverted",
        ],
    );
    let (_, text) = tree.rxlab(&["confirm"]).said();
    assert!(!text.contains("was not confirmed in time"), "said once: {text}");
}

/// The guard once followed the link, found no journal there, and ended.
#[test]
fn a_guard_keeps_its_journal_when_a_link_leads_elsewhere() {
    let tree = Tree::new();
    let state = tree.state();
    let [one, two] = ["one", "two"].map(|name| state.with_file_name(name));
    std::fs::create_dir(&one).expect("created");
    std::fs::create_dir(&two).expect("created");
    let _ = std::fs::remove_dir(&state);
    std::os::unix::fs::symlink(&one, &state).expect("linked");
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3", "--confirm", "2s"]).exits(0);
    std::fs::remove_file(&state).expect("removed");
    std::os::unix::fs::symlink(&two, &state).expect("linked");
    wait_for("the deadline", || tree.rps("eth0", 0) == "0");
    wait_for("the guard", || guards(&one).is_empty());
}

/// A trial and its guard were killed. Their transaction once blocked every change until a user undid it.
#[test]
fn the_next_command_restores_changes_of_a_killed_process() {
    let own = ProcessId::own().expect("procfs is mounted");
    let numbering = Some(Numbering { pid_namespace: 1, rest_ns: 0 });
    // One that is dead by its number, one of another PID namespace, and one that did not know its number.
    for applier in
        [Some(ProcessId { start: own.start + 1, ..own }), Some(ProcessId { numbering, ..own }), None]
    {
        let tree = Tree::new();
        let mut transaction = begin(&tree, 600, applier);
        set(&tree, &mut transaction);
        let apply =
            |more: &[&str]| tree.rxlab(&[&["apply", "--setting", "rps eth0/rx-1 = 2"], more].concat()).said();
        if applier.is_none_or(ProcessId::is_alive) {
            assert_eq!((apply(&[]).0, tree.rps("eth0", 0)), (4, "c".into()), "it holds the lock");
        }
        drop(transaction);
        let (code, text) = apply(&["--dry-run"]);
        assert!(code == 0 && tree.rps("eth0", 0) == "c", "a dry run writes nothing: {text}");
        let text = apply(&[]).exits(0);
        let reverted = "(trial 0001-rps) was left behind by a killed process and was reverted";
        assert!(text.contains(reverted), "{text}");
        assert_eq!((tree.rps("eth0", 0), tree.rps("eth0", 1)), ("0".into(), "4".into()));
    }
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
    let mut transaction = begin(&tree, 1, None);
    let guard = Running::start(&mut tree.command(&["guard", transaction.id()]));
    set(&tree, &mut transaction);
    // The deadline passes while the applier still holds the lock: the guard waits for it.
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(tree.rps("eth0", 0), "c");
    tree.rxlab(&["confirm"]).exits(5);
    drop(transaction);
    wait_for("the guard", || tree.rps("eth0", 0) == "0");
    guard.output().exits(0);
    assert!(tree.store().open_ids().expect("listed").is_empty());
}

/// A terminated guard restores the change before it exits.
#[test]
fn a_terminated_guard_restores_the_change() {
    let tree = Tree::new();
    let mut transaction = begin(&tree, 600, None);
    let mut guard = Running::start(&mut tree.command(&["guard", transaction.id()]));
    assert_eq!(guard.first_line(), "ready\n");
    set(&tree, &mut transaction);
    transaction.keep().expect("kept");
    // A hang-up does not end it, and TERM is answered.
    guard.signal(Signal::HUP);
    guard.signal(Signal::TERM);
    guard.output().exits(0);
    assert_eq!(tree.rps("eth0", 0), "0");
}

/// Signals that a script, a shell or a timer sends once ended the guard, and the change stayed.
#[test]
fn a_guard_outlasts_every_signal_that_it_may() {
    let tree = Tree::new();
    tree.rxlab(&["apply", "--setting", "rps eth0/rx-0 = 2-3", "--confirm", "3s"]).exits(0);
    let guard = guards(&tree.state())[0].as_raw_nonzero().to_string();
    // KILL, STOP, and TERM, which it answers; CONT would hide one that stops it.
    let spared = [9, 15, 18, 19];
    let script = "for signal; do kill -$signal $GUARD; done";
    let mut kill = std::process::Command::new("bash");
    kill.args(["-euc", script, "bash"]).env("GUARD", &guard);
    // 32 and 33 are glibc's, and musl has 34 too.
    let signals = (1..=64).filter(|signal| !spared.contains(signal) && !(32..=34).contains(signal));
    kill.args(signals.map(|signal: u32| signal.to_string())).exits(0);
    let state = std::fs::read_to_string(format!("/proc/{guard}/stat")).expect("it runs");
    assert!(state.contains(") S ") || state.contains(") R "), "{state}");
    assert_eq!(tree.rps("eth0", 0), "c", "before the deadline");
    wait_for("the deadline", || tree.rps("eth0", 0) == "0");
    wait_for("its end", || guards(&tree.state()).is_empty());
}

/// `flock LOCK rxlab apply --confirm 60s` once kept the lock until the deadline.
#[test]
fn a_guard_has_no_file_of_who_started_its_change() {
    let tree = Tree::new();
    let lock = tree.path().join("lock");
    let apply = tree.command(&["apply", "--setting", "rps eth0/rx-0 = 2-3", "--confirm", "60s"]);
    let mut flock = std::process::Command::new("flock");
    flock.arg(&lock).arg(apply.get_program()).args(apply.get_args()).exits(0);
    assert_eq!(guards(&tree.state()).len(), 1);
    std::process::Command::new("flock").arg("--nonblock").arg(&lock).arg("true").exits(0);
    tree.rxlab(&["undo"]).exits(0);
    wait_for("its end", || guards(&tree.state()).is_empty());
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
    let mut apply = Running::start(apply.stdin(Stdio::piped()));
    // The program waits for its plan; by then it is deleted from the disk.
    std::fs::remove_file(&program).expect("removed");
    apply.stdin().write_all(b"[[setting]]\nset = \"rps eth0/rx-0 = 2\"\n").expect("written");
    apply.output().says(5, "nothing was changed: the guard did not start");
    assert_eq!(tree.rps("eth0", 0), "00");
    assert!(tree.store().open_ids().expect("listed").is_empty());
    assert!(Disk::new(tree.state()).lock().is_ok(), "the lock is free");
}
