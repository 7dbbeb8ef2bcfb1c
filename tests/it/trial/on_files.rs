//! A tree has no counters of its own: the workload command of these trials moves its CPU times, and prints a figure
//! that depends on the value of the knob.

use std::process::Command;

use rustix::process::Signal;
use rxlab_stats::design::Arm;
use rxlab_trial::record::Verdict;

use super::{QUICK, moving_workload, record};
use crate::process::{Ended, Running, end_guards, mentioning, one_line, wait_for};
use crate::tree::Tree;

/// A workload that takes `pause` seconds, fills CPU 0 with softirqs, and prints `plain` while RPS is off and `moved`
/// while it is on.
pub(super) fn workload(tree: &Tree, pause: &str, plain: u32, moved: u32) -> String {
    let rest = format!(
        "case $(cat sys/class/net/eth0/queues/rx-0/rps_cpus) in 0|00) echo {plain} ;; *) echo {moved} ;; esac"
    );
    moving_workload(tree, pause, &rest)
}

const SET: [&str; 2] = ["--set", "rps eth0/rx-0 = 2-3"];

/// A trial of six pairs under this workload.
fn trial(tree: &Tree, workload: &str, more: &[&str]) -> Command {
    tree.command(&[&QUICK[..], &SET, &["--pairs", "6", "--command", workload], more].concat())
}

#[test]
fn a_factor_that_does_nothing_has_no_measurable_effect() {
    let tree = Tree::new();
    let command = workload(&tree, "0", 100, 100);
    let commands = (&["--a", "true", "--b", "true"][..], "the machine was left in arm A");
    for (factor, end) in [commands, (&SET, "the machine is as it was before the trial")] {
        let args = [&QUICK[..], factor, &["--pairs", "6", "--command", &command]].concat();
        let text = tree.rxlab(&args).exits(0);
        assert!(text.starts_with("trial: no measurable effect. "), "{text}");
        assert!(text.contains(end), "{text}");
    }
    assert_eq!(tree.rps("eth0", 0), "0");
    assert_eq!(record(&tree.state(), "0002-trial").expect("kept").slots.len(), 12);
}

#[test]
fn a_helpful_change_is_kept_with_keep_and_undone_later() {
    let tree = Tree::new();
    let command = workload(&tree, "0", 100, 120);
    let text = trial(&tree, &command, &["--keep"]).exits(0);
    assert!(text.starts_with("trial: HELPS. ") && text.contains("+20"), "{text}");
    assert!(text.contains("kept: `rxlab undo 000001"), "{text}");
    assert_eq!(tree.rps("eth0", 0), "c");
    assert_eq!(mentioning(tree.path()), [], "a kept change needs no guard");
    tree.rxlab(&["status"]).says(0, "rps eth0/rx-0 = 2-3  (was off)  kept");
    tree.rxlab(&["undo"]).exits(0);
    assert_eq!(tree.rps("eth0", 0), "0");
}

/// An arm sets its own values and restores those that only the other arm sets.
#[test]
fn both_arms_may_have_settings() {
    let tree = Tree::new();
    let works = workload(&tree, "0", 100, 100);
    let (queues, seen) = (tree.root().join("sys/class/net/eth0/queues"), tree.path().join("seen"));
    let look = format!("echo $(cat '{0}/rx-0/rps_cpus'),$(cat '{0}/rx-1/rps_cpus')", queues.display());
    let command = format!("{works} && {look} >> '{}'", seen.display());
    let text = format!(
        "name = \"arms\"\n[change]\nagainst = [\"rps eth0/rx-0 = 2\", \"rps eth0/rx-1 = 2\"]\n\
         set = [\"rps eth0/rx-0 = 3\"]\n[workload]\ncommand = \"\"\"{command}\"\"\"\n\
         [design]\nseed = 11\npairs = 6\nmin_pairs = 6\ncalibration = 1\nwashout = \"0s\"\n"
    );
    tree.trial(&text).says_all(0, &["arm A: rps eth0/rx-1 = 2\n", "arm B: rps eth0/rx-0 = 3\n"]);
    let seen = std::fs::read_to_string(&seen).expect("looked");
    let record = record(&tree.state(), "0001-arms").expect("kept");
    let wanted: Vec<&str> =
        record.slots.iter().map(|slot| if slot.arm == Arm::A { "4,4" } else { "8,0" }).collect();
    let seen: Vec<String> = seen.lines().map(|line| line.replace("00", "0")).collect();
    assert_eq!(seen, wanted);
    assert_eq!((tree.rps("eth0", 0).as_str(), tree.rps("eth0", 1).as_str()), ("0", "0"));
    let same = ["--set", "rps eth0/rx-0 = 2", "--live", "--metric", "net_rx.packets"];
    tree.rxlab(&[&QUICK[..], &same].concat()).says(2, "its metrics cannot be combined with --root");
}

/// A harmful change is never kept.
#[test]
fn a_harmful_change_is_restored_despite_keep() {
    let tree = Tree::new();
    let command = workload(&tree, "0", 100, 80);
    let text = trial(&tree, &command, &["--keep"]).exits(1);
    assert!(text.starts_with("trial: HURTS. "), "{text}");
    assert_eq!(tree.rps("eth0", 0), "0");
    assert_eq!(tree.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
}

/// An unwritable report was once found only after the whole run.
#[test]
fn a_trial_with_an_unwritable_report_does_not_start() {
    let tree = Tree::new();
    let command = workload(&tree, "0", 100, 80);
    let html = tree.path().join("no-such/report.html");
    let html = ["--html", html.to_str().expect("text"), "--command", &command];
    tree.rxlab(&[&QUICK[..], &SET, &html].concat()).says(2, "report.html: No such file or directory");
    assert!(!tree.state().join("trials").exists(), "nothing was run");
}

#[test]
fn a_trial_of_a_plan_has_its_name_and_prints_the_report_path() {
    let tree = Tree::new();
    let command = workload(&tree, "0", 100, 100);
    let plan = "name = \"spread.rps\"\n[[setting]]\nset = \"rps eth0/rx-0 = 2-3\"\n";
    let (plan, html) = (tree.file("plan.toml", plan), tree.path().join("report.html"));
    let html = html.to_str().expect("text");
    let more = ["--pairs", "2", "--min-pairs", "2", "--plan", &plan, "--html", html, "--command", &command];
    let (code, text) = tree.rxlab(&[&QUICK[..], &more].concat()).said();
    assert!(code == 0 && text.starts_with("trial spread.rps: "), "{code}: {text}");
    assert!(text.contains(&format!("\nreport: {html}\n")) && text.contains("\n  next: rxlab "), "{text}");
    assert!(record(&tree.state(), "0001-spread.rps").is_some());
    tree.rxlab(&["trial", "run", "--again", "0001-spread.rps", "--pairs", "3"]).says(0, "do not keep it: ");
    let again = record(&tree.state(), "0002-spread.rps").expect("another trial");
    assert_eq!((again.max_pairs, again.slots.len(), again.change.len()), (3, 6, 1));
    let json: serde_json::Value = tree.rxlab(&["--json", "trial", "show", "0002-spread.rps"]).json(0);
    assert_eq!(json["recommendation"]["advice"], "do_not_keep");
}

#[test]
fn a_failing_workload_ends_the_trial_and_the_value_is_restored() {
    let tree = Tree::new();
    let works = workload(&tree, "0", 100, 120);
    let command = format!("{works}; test $(cat '{}/runs') -lt 400", tree.path().display());
    let hint = "hint: the machine is as it was before the trial";
    trial(&tree, &command, &[])
        .says_all(5, &["the workload command `sh ", "ended with exit status: 1", hint]);
    assert_eq!(tree.rps("eth0", 0), "0");
    assert_eq!(mentioning(tree.path()), []);
}

/// Starts a trial of six pairs, and some slots later kills it while arm B is set, after calling `first`.
fn killed_after(tree: &Tree, first: impl FnOnce()) {
    let trial = Running::start(&mut trial(tree, &workload(tree, "0.1", 100, 120), &[]));
    let id = "0001-trial";
    wait_for("arm B after three slots", || {
        let slots = record(&tree.state(), id).map_or(0, |record| record.slots.len());
        slots >= 3 && trial.stops_while(|| tree.rps("eth0", 0) == "c")
    });
    first();
    trial.signal(Signal::KILL);
    assert_eq!(trial.output().status.code(), None);
    // The running slot ends by itself.
    wait_for("the workload's end", || mentioning(&tree.path().join("work.sh")).is_empty());
}

#[test]
fn a_killed_trial_is_undone_and_resumed_with_its_slots_and_seed() {
    let tree = Tree::new();
    // Without its guard: the change is left for a user to find.
    killed_after(&tree, || end_guards(tree.path()));
    assert_eq!(tree.rps("eth0", 0), "c", "not restored yet");
    let before = record(&tree.state(), "0001-trial").expect("saved after every slot");
    assert!(before.analysis.is_none());
    // Otherwise the trial would consider arm B the initial state.
    tree.rxlab(&["trial", "resume", "0001-trial"])
        .says(0, "(trial 0001-trial) was left behind by a killed process");
    let after = record(&tree.state(), "0001-trial").expect("saved");
    assert_eq!((after.seed, before.seed), (11, 11));
    let kept = after.slots.iter().zip(&before.slots);
    assert!(kept.clone().all(|(after, before)| after.start_s == before.start_s && after.arm == before.arm));
    assert_eq!(kept.count(), before.slots.len());
    let analysis = after.analysis.expect("concluded");
    // The pair interrupted by the kill is run again.
    let unfinished = before.slots.last().is_some_and(|slot| slot.position == 0);
    assert_eq!(after.slots.iter().filter(|slot| slot.void.is_some()).count(), usize::from(unfinished));
    assert_eq!((analysis.pairs, &analysis.verdict), (6, &Verdict::Helps));
    assert!(after.slots.iter().any(|slot| slot.arm == Arm::B));
    assert_eq!(tree.rps("eth0", 0), "0");
    tree.rxlab(&["trial", "resume", "0001-trial"]).says(2, "trial 0001-trial is finished");
}

#[test]
fn the_guard_of_a_killed_trial_restores_the_value() {
    let tree = Tree::new();
    // Its deadline is twice the length of the trial away: the death of the trial is enough.
    killed_after(&tree, || ());
    wait_for("the guard", || tree.rps("eth0", 0) == "0" && mentioning(tree.path()).is_empty());
    let text = tree.rxlab(&["status"]).says(0, "nothing is applied");
    assert!(text.contains("(trial 0001-trial) was left behind by a killed process"), "{text}");
}

#[test]
fn ctrl_c_is_code_130_and_the_trial_can_be_resumed() {
    let tree = Tree::new();
    let mut trial = Running::start(&mut trial(&tree, &workload(&tree, "0.1", 100, 120), &[]));
    trial.until("a slot", || {
        record(&tree.state(), "0001-trial").is_some_and(|record| !record.slots.is_empty())
    });
    trial.signal(Signal::INT);
    trial.output().says(130, "the machine is as it was before the trial");
    assert!(["0", "00"].contains(&tree.rps("eth0", 0).as_str()), "{}", tree.rps("eth0", 0));
    assert_eq!(mentioning(tree.path()), []);
    let (code, text) = tree.rxlab(&["trial", "resume", "0001-trial"]).said();
    assert!(code == 0 && text.starts_with("trial: HELPS. "), "{text}");
    tree.rxlab(&["trial", "list"]).says_all(0, &["0001-trial", "helps"]);
    let (code, text) = tree.rxlab(&["trial", "show", "0001-trial"]).said();
    assert!(code == 0 && text.starts_with("trial: HELPS. "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\x1b'), "{text}");
}

/// Nothing is randomised, and every output says so.
#[test]
fn a_comparison_before_and_after_proves_nothing() {
    let tree = Tree::new();
    let command = workload(&tree, "0", 100, 120);
    let text = format!(
        "name = \"rings\"\n[change]\nset = [\"rps eth0/rx-0 = 2-3\"]\n[workload]\ncommand = \"\"\"{command}\"\"\"\n\
         [design]\nkind = \"before-after\"\npairs = 6\nwashout = \"0s\"\n"
    );
    tree.trial(&text).arg("--keep").says(2, "--keep: a before-after comparison proves no change");
    let html = tree.path().join("report.html");
    let text = tree.trial(&text).arg("--html").arg(&html).exits(0);
    assert!(text.starts_with("trial rings: better after the change, not proven. "), "{text}");
    let words = one_line(&text);
    assert!(words.contains("Throughput +20"), "{text}");
    assert!(words.contains("Nothing was randomised: all slots of arm A came first."), "{text}");
    assert!(!words.contains(" helps"), "{text}");
    let record = record(&tree.state(), "0001-rings").expect("kept");
    let arms: String = record.slots.iter().map(|slot| if slot.arm == Arm::A { 'A' } else { 'B' }).collect();
    assert_eq!(arms, "AAAAAABBBBBB");
    assert_eq!(tree.rps("eth0", 0), "0");
    let html = std::fs::read_to_string(&html).expect("written");
    assert!(html.contains("Nothing was randomised, so whatever else changed"), "the footer");
    tree.rxlab(&["trial", "list"]).says(0, "better after the change, not proven");
}
