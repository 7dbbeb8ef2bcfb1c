//! The programs of net_rx.bpf.c, run in user space on events whose times the test chooses: what goes to whose account.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the programs counted, nanoseconds by name, after these events: `TIME EVENT WORD NUMBER STARTED` each.
fn replayed(events: &[&str]) -> BTreeMap<String, u64> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("replay");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/steal/replay");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let compiled = Command::new(clang)
        .args(["-O1", "-Wall", "-Werror", "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-I"])
        .arg(&folder)
        .arg(folder.join("replay.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("clang, which the build needs as well, runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut replay = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program that was just compiled runs");
    let script = events.join("\n") + "\n";
    replay.stdin.take().expect("piped").write_all(script.as_bytes()).expect("it reads to the end");
    let out = replay.wait_with_output().expect("it ends");
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    let line = |line: &str| {
        let (name, number) = line.rsplit_once(' ').expect("a name and a number");
        (name.to_owned(), number.parse().expect("a number"))
    };
    text.lines().map(line).collect()
}

/// 1,000 ns of a thread that polls: 20 of a timer's interrupt, 300 of a timer's softirq with an interrupt of 50 inside,
/// 100 of NET_RX. The rest is its own.
#[test]
fn timers_and_other_softirqs_are_not_a_napi_thread_s_time() {
    for thread in ["napi/eth0-7", "backlog_napi/0"] {
        let counted = replayed(&[
            "0 task swapper/0 0 0",
            &format!("1000 task {thread} 15 0"),
            "1100 timer_entry - 0",
            "1120 timer_exit - 0",
            "1200 softirq_entry - 1",
            "1250 irq_entry - 5",
            "1300 irq_exit - 5",
            "1500 softirq_exit - 1",
            "1550 poll - 8",
            "1600 softirq_entry - 3",
            "1700 softirq_exit - 3",
            "2000 task swapper/0 0 0",
        ]);
        assert_eq!(counted["threaded"], 1000 - 20 - 300 - 100, "{thread}: {counted:?}");
        assert_eq!(counted["busy"], 0, "{thread}: {counted:?}");
    }
}

/// A wait of three polls, one of a single poll, and its own work between the two.
#[test]
fn own_work_between_two_waits_is_not_receive_time() {
    let counted = replayed(&[
        "0 task server 9 0",
        "1000 poll waits 0",
        "1300 poll waits 0",
        "1600 poll - 0",
        "51600 poll waits 0",
        "51900 poll - 0",
        "90000 poll - 0",
    ]);
    assert_eq!(counted["busy"], 300 + 300 + 300, "{counted:?}");
}

#[test]
fn a_process_number_used_again_is_another_process() {
    let robbed = |at: u64| {
        [
            format!("{at} irq_entry - 5"),
            format!("{at} raise - 3"),
            format!("{at} irq_exit - 5"),
            format!("{} softirq_entry - 3", at + 10),
            format!("{} softirq_exit - 3", at + 110),
        ]
    };
    let events = [vec!["0 task sh 9 500".to_owned()], robbed(1000).into()];
    let reused = [vec!["2000 task sh 9 1500".to_owned()], robbed(3000).into()];
    let events: Vec<String> = events.into_iter().chain(reused).flatten().collect();
    let counted = replayed(&events.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((counted["victim.sh.500"], counted["victim.sh.1500"]), (100, 100), "{counted:?}");
}
