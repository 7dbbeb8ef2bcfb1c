//! Programs that lose time to receive work, as reported by the doctor on the real kernel and from a snapshot.

use std::process::Command;

use serde_json::Value;

use crate::flood::Flood;
use crate::process::{Running, json, rxlab, weighty};

/// The finding of a rule in a report.
fn finding(out: std::process::Output, id: &str) -> Option<Value> {
    let report: Value = json(&out);
    let findings = report["findings"].as_array().expect("a list");
    println!("{findings:?}");
    findings.iter().find(|finding| finding["id"] == id).cloned()
}

/// RPS hands packets to CPU 0, where a program of one thread is pinned.
#[test]
fn a_pinned_victim_is_named() {
    // Receive work has to cost more than the hand-over, or CPU 1 loses as much.
    let Some(flood) = Flood::through_rules(60, "1", &[]) else { return };
    let mut victim = Command::new("taskset");
    victim.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    // A victim is a program that gets most of the remaining time of its CPU.
    let _victim = Running::start(&mut weighty(&victim));
    let run = |arguments: &[&str]| {
        let mut command = rxlab(flood.directory.path(), arguments);
        command.output().expect("rxlab runs")
    };
    let netns = flood.range.server.path();
    let netns = netns.to_str().expect("text");
    // Another program of this machine can use both CPUs for a while.
    let seen = (0..12).find_map(|_| {
        finding(run(&["doctor", "--json", "--for", "1s", "--netns", netns]), "receive-interference")
    });
    let seen = seen.expect("the victim is seen");
    assert_eq!(seen["cpu"], 0);
    assert!(seen["title"].as_str().expect("text").ends_with(" of CPU 0, where sh is pinned"), "{seen}");

    let file = flood.directory.path().join("victim.tar.zst");
    let file = file.to_str().expect("text");
    let kept = (0..12).find_map(|_| {
        let _ = std::fs::remove_file(file);
        let out = run(&["snapshot", "-o", file, "--for", "1s", "--netns", netns]);
        assert!(out.status.success(), "{out:?}");
        finding(run(&["doctor", "--json", "--snapshot", file]), "receive-interference")
    });
    assert_eq!(kept.expect("a snapshot has the programs")["cpu"], 0);
}
