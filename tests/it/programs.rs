//! Programs that lose time to receive work, as reported by the doctor on the real kernel and from a snapshot.

use std::process::Command;

use serde_json::Value;

use crate::doctor::finding;
use crate::flood::Flood;
use crate::process::{Ended, Running, json, rxlab};

/// The finding about a victim by `rxlab doctor` with these arguments.
fn victim(flood: &Flood, args: &[&str]) -> Option<Value> {
    let doctor = rxlab(flood.directory.path(), &[&["doctor", "--json"], args].concat()).output();
    finding(&json(&doctor.expect("rxlab runs")), "receive-interference")
}

/// A flood that hinders a program on CPU 0, and the finding about it. Receive work has to cost more than the hand-over,
/// or CPU 1 loses as much: the number of rules that this takes differs between machines.
fn hindering() -> Option<(Flood, Value)> {
    for rules in [150, 60] {
        let flood = Flood::through_rules(rules, "1", &[])?;
        let netns = flood.range.server.path();
        let args = ["--for", "1s", "--netns", netns.to_str().expect("text")];
        // Another program of this machine can use both CPUs for a while.
        if let Some(seen) = (0..20).find_map(|_| victim(&flood, &args)) {
            return Some((flood, seen));
        }
    }
    panic!("the victim is not seen");
}

/// RPS hands packets to CPU 0, where a program of one thread is pinned.
#[test]
fn a_pinned_victim_is_named() {
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0", "sh", "-c", "while :; do :; done"]);
    // Not weighty: ksoftirqd, which does the receive work once it is woken, would get a thirtieth of the CPU.
    let _pinned = Running::start(&mut pinned);
    let Some((flood, seen)) = hindering() else { return };
    assert_eq!(seen["cpu"], 0);
    assert!(seen["title"].as_str().expect("text").ends_with(" of CPU 0, where sh is pinned"), "{seen}");

    let (netns, file) = (flood.range.server.path(), flood.directory.path().join("victim.tar.zst"));
    let (netns, file) = (netns.to_str().expect("text"), file.to_str().expect("text"));
    let kept = (0..20).find_map(|_| {
        let _ = std::fs::remove_file(file);
        let args = ["snapshot", "-o", file, "--for", "1s", "--netns", netns];
        rxlab(flood.directory.path(), &args).exits(0);
        victim(&flood, &["--snapshot", file])
    });
    assert_eq!(kept.expect("a snapshot has the programs")["cpu"], 0);
}
