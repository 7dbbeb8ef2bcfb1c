//! Checkpoints at later times, on a machine made of plain files whose systemd is a directory.

use std::path::PathBuf;

use rxlab_trial::record::Verdict;
use rxlab_trial::schedule::{Outcome, Scheduled};

use super::record;
use crate::process::Ended;
use crate::tree::Tree;

const ID: &str = "0001-trial";

/// A machine with a finished trial under a command.
fn tried() -> Tree {
    let tree = Tree::new();
    let command = super::on_files::workload(&tree, "0", 100, 120);
    let design = ["--washout", "0s", "--seed", "1", "--pairs", "6", "--command", &command];
    tree.rxlab(&[&["trial", "run", "--set", "rps eth0/rx-0 = 2-3"], &design[..]].concat()).exits(0);
    tree
}

/// A machine with a finished trial of live traffic: the counters of files stand still, so it ran under a command, and
/// every checkpoint fails.
fn tree() -> Tree {
    let tree = tried();
    tree.install_program();
    let file = tree.state().join("trials").join(ID).join("spec.json");
    let mut spec: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("kept")).expect("JSON");
    spec["workload"] = serde_json::json!({ "live": true });
    std::fs::write(&file, spec.to_string()).expect("written");
    assert!(record(&tree.state(), ID).is_some_and(|record| {
        record.analysis.is_some_and(|analysis| analysis.verdict == Verdict::Helps)
    }));
    tree
}

fn schedule(tree: &Tree) -> (PathBuf, Vec<Scheduled>) {
    let file = tree.state().join("trials").join(ID).join("schedule.json");
    let text = std::fs::read_to_string(&file).expect("kept");
    (file, serde_json::from_str(&text).expect("a schedule"))
}

/// Lets the checkpoint at this place be due long ago.
fn expire(tree: &Tree, at: usize) {
    let (file, mut all) = schedule(tree);
    all[at].due = "2026-01-01T00:00:00Z".to_owned();
    std::fs::write(file, serde_json::to_string(&all).expect("JSON")).expect("written");
}

#[test]
fn a_timer_takes_checkpoints_and_status_shows_what_failed() {
    let tree = tree();
    tree.write("run/systemd/system/README", "");
    let before = tree.rxlab(&["status"]).said();
    tree.rxlab(&["trial", "checkpoint", ID, "--at", "24h,1h"]).exits(0);
    let units = "etc/systemd/system";
    let timer = tree.read(&format!("{units}/rxlab-checkpoint-{ID}.timer"));
    let (_, all) = schedule(&tree);
    let times: Vec<String> = all
        .iter()
        .map(|one| format!("OnCalendar={} UTC", one.due.replace('T', " ").replace('Z', "")))
        .collect();
    assert!(times.len() == 2 && times[0] < times[1], "{times:?}");
    assert!(times.iter().all(|time| timer.contains(time)) && timer.contains("Persistent=true"), "{timer}");
    let service = tree.read(&format!("{units}/rxlab-checkpoint-{ID}.service"));
    assert!(service.contains(&format!(" trial checkpoint {ID} --due\n")), "{service}");
    assert!(
        tree.root().join(units).join(format!("timers.target.wants/rxlab-checkpoint-{ID}.timer")).exists()
    );
    let (code, text) = tree.rxlab(&["status"]).said();
    assert!(code == 0 && text.matches(": waits\n").count() == 2, "{text}");

    let due = ["trial", "checkpoint", ID, "--due"];
    assert_eq!(tree.rxlab(&due).said(), (0, String::new()), "nothing is due yet");
    expire(&tree, 0);
    tree.rxlab(&["status"]).says(1, "MISSED");
    let (code, text) = tree.rxlab(&due).said();
    assert_ne!(code, 0, "counters of files stand still: {text}");
    let (_, all) = schedule(&tree);
    assert!(matches!(all[0].outcome, Some(Outcome::Failed { .. })) && all[1].outcome.is_none(), "{all:?}");
    for command in [&["status"][..], &["trial", "show", ID]] {
        let (code, text) = tree.rxlab(command).said();
        assert_eq!(code, i32::from(command == ["status"]), "{text}");
        assert!(text.contains("FAILED: ") && text.contains(": waits"), "{text}");
    }
    let json: serde_json::Value = tree.rxlab(&["--json", "status"]).json(1);
    assert_eq!(json["checkpoints"][0]["scheduled"]["outcome"]["outcome"], "failed");

    let (code, text) = tree.rxlab(&["trial", "checkpoint", ID, "--cancel"]).said();
    assert!(code == 0 && text.starts_with("cancelled 2 checkpoints\nremoved "), "{text}");
    let left = std::fs::read_dir(tree.root().join(units)).expect("listed").count();
    assert_eq!((tree.rxlab(&["status"]).said(), left), (before, 0));
}

#[test]
fn the_last_checkpoint_removes_the_timer() {
    let tree = tree();
    tree.write("run/systemd/system/README", "");
    tree.rxlab(&["trial", "checkpoint", ID, "--at", "1h"]).exits(0);
    expire(&tree, 0);
    assert_ne!(tree.rxlab(&["trial", "checkpoint", ID, "--due"]).said().0, 0);
    assert_eq!(std::fs::read_dir(tree.root().join("etc/systemd/system")).expect("listed").count(), 0);
}

#[test]
fn without_systemd_there_is_a_line_for_any_scheduler() {
    let tree = tree();
    let text = tree.rxlab(&["trial", "checkpoint", ID, "--at", "1h"]).says(0, "systemd does not run here");
    let line = text.lines().last().expect("a line");
    assert!(line.ends_with(&format!(" trial checkpoint {ID} --due")), "{line}");
    assert!(!tree.root().join("etc/systemd").exists());
}

#[test]
fn what_cannot_be_measured_later_is_not_scheduled() {
    let tree = tried();
    tree.rxlab(&["trial", "checkpoint", ID, "--at", "1h"]).says(2, "which only a trial can measure");
    tree.rxlab(&["status"]).exits(0);
}
