//! Programs that lose time to receive work, as reported by the doctor on the real kernel and from a snapshot.

use std::process::Command;

use crate::doctor::finding;
use crate::flood::Flood;
use crate::process::{Ended, Running, json, rxlab, weighty};

/// RPS hands packets to CPU 0, where a program of one thread is pinned.
#[test]
fn a_pinned_victim_is_named() {
    // Receive work has to cost more than the hand-over, or CPU 1 loses as much.
    let Some(flood) = Flood::through_rules(60, "1", &[]) else { return };
    let mut victim = Command::new("taskset");
    victim.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    // A victim is a program that gets most of the remaining time of its CPU.
    let _victim = Running::start(&mut weighty(&victim));
    let run = |args: &[&str]| rxlab(flood.directory.path(), args).output().expect("rxlab runs");
    let victim =
        |args: &[&str]| finding(&json(&run(&[&["doctor", "--json"], args].concat())), "receive-interference");
    let netns = flood.range.server.path();
    let netns = netns.to_str().expect("text");
    // Another program of this machine can use both CPUs for a while.
    let seen = (0..12).find_map(|_| victim(&["--for", "1s", "--netns", netns]));
    let seen = seen.expect("the victim is seen");
    assert_eq!(seen["cpu"], 0);
    assert!(seen["title"].as_str().expect("text").ends_with(" of CPU 0, where sh is pinned"), "{seen}");

    let file = flood.directory.path().join("victim.tar.zst");
    let file = file.to_str().expect("text");
    let kept = (0..12).find_map(|_| {
        let _ = std::fs::remove_file(file);
        run(&["snapshot", "-o", file, "--for", "1s", "--netns", netns]).exits(0);
        victim(&["--snapshot", file])
    });
    assert_eq!(kept.expect("a snapshot has the programs")["cpu"], 0);
}
