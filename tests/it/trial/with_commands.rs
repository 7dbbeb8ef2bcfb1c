//! Trials whose arms are shell commands: killed, interrupted, kept, and with a restore that fails. The commands
//! change a plain file.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;

use rustix::process::{Signal, kill_process_group};

use super::{QUICK, moving_workload, record};
use crate::process::{Ended, Running, end_guards, mentioning, one_line, wait_for};
use crate::require;
use crate::tree::Tree;

const ID: &str = "0001-trial";

/// The file contains the current arm.
fn set(tree: &Tree) -> String {
    std::fs::read_to_string(tree.path().join("arm")).unwrap_or_default().trim().to_owned()
}

/// A workload of a tenth of a second that prints 120 while arm B is set, and 100 otherwise. It moves the CPU times by
/// which slots are measured. If there is a file `hold`, it stays in arm B from its third run on until there is a file
/// `go`.
fn workload(tree: &Tree) -> String {
    moving_workload(
        tree,
        "0.1",
        "cd ..\n\
         case $(cat arm) in\n\
         b) echo 120\n\
         if [ -e hold ] && [ $n -gt 300 ]; then touch held; until [ -e go ] || ! [ -e hold ]; do sleep 0.02; done; fi ;;\n\
         *) echo 100 ;;\n\
         esac",
    )
}

/// A trial in the directory of the tree, where the commands `a` and `b` run.
fn trial(tree: &Tree, a: &str, b: &str, more: &[&str]) -> std::process::Command {
    let work = workload(tree);
    let args = [&QUICK[..], &["--a", a, "--b", b, "--command", &work], more].concat();
    let mut command = tree.command(&args);
    command.current_dir(tree.path());
    command
}

const A: &str = "echo a > arm";
const B: &str = "echo b > arm";

/// The journal had no directory, and undo ran the command where root happened to be.
#[test]
fn a_directory_whose_name_is_not_text_is_refused() {
    let tree = Tree::new();
    let odd = tree.path().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    std::fs::create_dir(&odd).expect("created");
    let mut trial = trial(&tree, A, B, &["--pairs", "7"]);
    let text = one_line(&trial.current_dir(&odd).exits(2));
    assert!(text.contains("a working directory that was removed or whose name is not UTF-8"), "{text}");
    assert_eq!(set(&tree), "");
}

/// Kills first the guard of a trial and then the trial while arm B is set: the change is left for a user to find.
fn killed(tree: &Tree, a: &str) {
    killed_after(tree, a, || end_guards(tree.path()));
}

fn killed_after(tree: &Tree, a: &str, first: impl FnOnce()) {
    std::fs::write(tree.path().join("hold"), "").expect("written");
    let mut trial = Running::start(&mut trial(tree, a, B, &["--pairs", "100"]));
    trial.until("arm B", || tree.path().join("held").exists());
    first();
    trial.signal(Signal::KILL);
    // The workload outlives the trial and holds its standard error, which stays open until the workload ends.
    std::fs::write(tree.path().join("go"), "").expect("written");
    assert_eq!(trial.output().status.code(), None);
    wait_for("the workload's end", || mentioning(&tree.path().join("work.sh")).is_empty());
}

/// A killed trial once stayed in arm B without a trace.
#[test]
fn a_change_left_by_a_killed_trial_is_shown_and_undone() {
    let tree = Tree::new();
    killed(&tree, A);
    assert_eq!(set(&tree), "b", "a kill cannot be caught");
    let runs = format!("a shell command ran; `rxlab undo` runs in {}: {A}", tree.path().display());
    tree.rxlab(&["status"]).says(1, &runs);
    tree.rxlab(&["status", "--json"]).says(1, &format!("\"back\": \"{A}\""));
    // From any directory, not only that of the trial.
    tree.rxlab(&["undo"]).says(0, "  shell command: undone by `echo a > arm`\n");
    assert_eq!(set(&tree), "a");
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
    let mut resumed = tree.command(&["trial", "resume", ID]);
    let resumed = Running::start(resumed.current_dir(tree.path()));
    let before = record(&tree.state(), ID).expect("saved").slots.len();
    let slots = || record(&tree.state(), ID).map_or(0, |record| record.slots.len());
    wait_for("more slots", || slots() > before);
    resumed.signal(Signal::INT);
    resumed.output().says(130, "the machine was left in arm A");
    assert_eq!(set(&tree), "a");
}

#[test]
fn the_guard_of_a_killed_trial_runs_the_command_of_arm_a() {
    let tree = Tree::new();
    // Its deadline is twice the length of the trial away: the death of the trial is enough.
    killed_after(&tree, A, || ());
    wait_for("the guard", || set(&tree) == "a" && mentioning(tree.path()).is_empty());
    let text = tree.rxlab(&["status"]).says(0, "nothing is applied");
    assert!(text.contains("was left behind by a killed process and was reverted"), "{text}");
}

#[test]
fn a_failed_restore_is_reported_and_retried() {
    let tree = Tree::new();
    // Works during the trial, and afterwards only once allowed.
    let a = "test ! -e refuse || { echo not now >&2; exit 3; }; echo a > arm";
    killed(&tree, a);
    std::fs::write(tree.path().join("refuse"), "").expect("written");
    for _ in 0..2 {
        let text = tree.rxlab(&["undo"]).exits(5);
        assert!(one_line(&text).contains("exit status: 3: not now"), "{text}");
        assert_eq!(set(&tree), "b");
        tree.rxlab(&["status"]).exits(1);
    }
    std::fs::remove_file(tree.path().join("refuse")).expect("removed");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(set(&tree), "a");
    wait_for("the guard's end", || mentioning(tree.path()).is_empty());
}

#[test]
fn a_trial_with_a_failed_restore_reports_that_arm_b_is_set() {
    let tree = Tree::new();
    // Arm A can be set only until arm B was.
    let a = "test \"$(cat arm)\" != b || { echo stuck >&2; exit 3; }; echo a > arm";
    std::fs::write(tree.path().join("arm"), "a\n").expect("written");
    let text = trial(&tree, a, B, &["--pairs", "6"])
        .says_all(5, &["arm B is still set: `test ", "exit status: 3: stuck"]);
    assert!(text.contains("try again with `rxlab undo 000001-") && !text.contains("left in arm A"), "{text}");
    std::fs::write(tree.path().join("arm"), "mended\n").expect("written");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(set(&tree), "a");
    wait_for("the guard's end", || mentioning(tree.path()).is_empty());
}

/// An impatient user presses Ctrl-C twice: the terminal sends it to the whole process group each time.
#[test]
fn ctrl_c_does_not_stop_the_restore() {
    let tree = Tree::new();
    let a = "echo begun >> backs; sleep 0.5; echo a > arm";
    let mut command = trial(&tree, a, B, &["--pairs", "100"]);
    let mut trial = Running::start(command.process_group(0));
    let slots = || record(&tree.state(), ID).map_or(0, |record| record.slots.len());
    trial.until("arm B after two slots", || slots() >= 2 && set(&tree) == "b");
    let backs = || std::fs::read_to_string(tree.path().join("backs")).unwrap_or_default().lines().count();
    let before = backs();
    kill_process_group(trial.pid(), Signal::INT).expect("signalled");
    // The first may have ended the command of a flip; the command that restores the machine comes after it.
    wait_for("the way back", || backs() > before);
    std::thread::sleep(std::time::Duration::from_millis(100));
    kill_process_group(trial.pid(), Signal::INT).expect("signalled");
    trial.output().says(130, "the machine was left in arm A");
    assert_eq!(set(&tree), "a");
    assert_eq!(mentioning(tree.path()), []);
}

/// Ctrl-C ends a hanging command of arm B, as it ends the program. A user presses it again when nothing happens:
/// `dash -c` catches the signal, and loses one that arrives just before it executes its last command (2 of 3,000).
#[test]
fn ctrl_c_ends_the_command_of_an_arm() {
    let tree = Tree::new();
    let mut command = trial(&tree, A, "echo b > arm; sleep 600", &["--pairs", "3"]);
    let mut trial = Running::start(command.process_group(0));
    trial.until("arm B", || set(&tree) == "b");
    wait_for("the end", || {
        kill_process_group(trial.pid(), Signal::INT).expect("signalled");
        std::thread::sleep(std::time::Duration::from_millis(500));
        trial.has_ended()
    });
    trial.output().says(130, "the machine was left in arm A");
    assert_eq!(set(&tree), "a");
}

#[test]
fn a_helpful_change_is_kept_and_undone_later() {
    let tree = Tree::new();
    let (code, text) = trial(&tree, A, B, &["--pairs", "6", "--keep"]).said();
    assert!(code == 0 && text.starts_with("trial: HELPS. "), "{code}: {text}");
    assert!(text.contains("runs the command of arm A"), "{text}");
    assert_eq!((set(&tree).as_str(), mentioning(tree.path())), ("b", Vec::new()));
    tree.rxlab(&["status"]).says(0, "`rxlab undo` runs in ");
    tree.rxlab(&["reapply"]).says(0, "it ran a shell command, which is not repeated");
    tree.rxlab(&["persist"]).says(4, "it is a shell command");
    assert_eq!(set(&tree), "b");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(set(&tree), "a");
}

/// `program` with `args` before the command line of a trial of two pairs.
fn under(tree: &Tree, program: &str, args: &[&str]) -> std::process::Command {
    let inner = trial(tree, A, B, &["--pairs", "2"]);
    let mut command = std::process::Command::new(program);
    command.args(args).arg(inner.get_program()).args(inner.get_args()).current_dir(tree.path());
    command
}

/// Every command of a trial once failed below a parent that ignores SIGCHLD: the kernel reaped it.
#[test]
fn a_parent_that_ignores_its_children_breaks_no_trial() {
    let tree = Tree::new();
    let output = under(&tree, "env", &["--ignore-signal=CHLD"]).output().expect("env runs");
    let (code, text) = output.said();
    assert!(code == 0 || code == 1, "{text}");
    assert_eq!(record(&tree.state(), ID).expect("saved").slots.len(), 4, "{text}");
    assert_eq!(set(&tree), "a");
}

/// All others of a PID namespace end with its first process: a guard with work left once ended with the trial.
#[test]
fn a_trial_that_is_the_first_of_its_pid_namespace_waits_for_its_guard() {
    require::needs!(root);
    let tree = Tree::new();
    // The command of arm A fails until there is a file `go`, which the second attempt of the guard finds.
    let a = "if [ -e tried ]; then echo a > arm; else if [ \"$(cat arm)\" = b ]; then touch tried; exit 1; fi; echo a > arm; fi";
    let inner = trial(&tree, a, B, &["--pairs", "2"]);
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]).arg(inner.get_program()).args(inner.get_args());
    let (code, text) = command.current_dir(tree.path()).output().expect("unshare runs").said();
    assert_ne!(code, 0, "{text}");
    let said =
        "rxlab: this process is the first of its PID namespace, which ends with it: it waits for the guard";
    assert!(text.contains(said), "{text}");
    assert_eq!(set(&tree), "a", "{text}");
    assert_eq!(tree.rxlab(&["status"]).said().0, 0);
}
