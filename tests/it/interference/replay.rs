//! The programs of net_rx.bpf.c, run in user space on events at chosen times: how time is accounted.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::Running;

/// Counts of the programs, nanoseconds by name, after these events: `TIME EVENT WORD NUMBER STARTED` each.
fn replayed(events: &[&str]) -> BTreeMap<String, u64> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = directory.path().join("replay");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/interference/replay");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let compiled = Command::new(clang)
        .args(["-O1", "-Wall", "-Werror", "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-I"])
        .arg(&folder)
        .arg(folder.join("replay.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("clang runs, as for the build");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut replay = Running::start(Command::new(&program).stdin(Stdio::piped()));
    let script = events.join("\n") + "\n";
    replay.stdin().write_all(script.as_bytes()).expect("it reads to the end");
    let out = replay.output();
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8(out.stdout).expect("text");
    text.lines()
        .map(|line| {
            let (name, number) = line.rsplit_once(' ').expect("a name and a number");
            (name.to_owned(), number.parse().expect("a number"))
        })
        .collect()
}

/// 1,000 ns of a polling thread: 20 of a timer interrupt, 300 of a timer softirq with an interrupt of 50 inside, 100
/// of NET_RX. The rest is its own.
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

/// A wait of three polls, one of a single poll, and the task's own work between them.
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
fn a_reused_pid_is_another_process() {
    let interrupted = |at: u64| {
        [
            format!("{at} irq_entry - 5"),
            format!("{at} raise - 3"),
            format!("{at} irq_exit - 5"),
            format!("{} softirq_entry - 3", at + 10),
            format!("{} softirq_exit - 3", at + 110),
        ]
    };
    let events = [vec!["0 task sh 9 500".to_owned()], interrupted(1000).into()];
    let reused = [vec!["2000 task sh 9 1500".to_owned()], interrupted(3000).into()];
    let events: Vec<String> = events.into_iter().chain(reused).flatten().collect();
    let counted = replayed(&events.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((counted["victim.sh.500"], counted["victim.sh.1500"]), (100, 100), "{counted:?}");
}

/// A run of 100 ns that starts this long after these events.
fn classes_of_a_run(before: &[&str], at: u64) -> BTreeMap<String, u64> {
    let (entry, exit) = (format!("{at} softirq_entry - 3"), format!("{} softirq_exit - 3", at + 100));
    let first = ["0 task busy 9 0"];
    replayed(&first.into_iter().chain(before.iter().copied()).chain([&*entry, &*exit]).collect::<Vec<_>>())
}

#[test]
fn a_run_with_an_unseen_raise_is_attributed_to_the_last_interrupt() {
    let nic = ["10000 irq_entry - 5", "10300 irq_exit - 5"];
    assert_eq!(classes_of_a_run(&nic, 11_700)["NIC_IRQ"], 100);
    assert_eq!(classes_of_a_run(&nic, 11_900)["SELF"], 100, "too long after it");
    assert_eq!(classes_of_a_run(&[], 11_700)["SELF"], 100);
    let timer = ["10000 timer_entry - 0", "10300 timer_exit - 0"];
    assert_eq!(classes_of_a_run(&timer, 10_400)["OTHER_IRQ"], 100);
    // A long timer interrupt between the two.
    let both = [&nic[..], &["10400 timer_entry - 0", "30000 timer_exit - 0"]].concat();
    assert_eq!(classes_of_a_run(&both, 30_100)["NIC_IRQ"], 100);
    let late = [&nic[..], &["12000 timer_entry - 0", "30000 timer_exit - 0"]].concat();
    assert_eq!(classes_of_a_run(&late, 30_100)["OTHER_IRQ"], 100);
}

#[test]
fn an_inter_processor_interrupt_followed_by_a_run_is_a_handover() {
    let ipi = ["10000 ipi_entry - 0", "10300 ipi_exit - 0"];
    let counted = classes_of_a_run(&ipi, 10_400);
    assert_eq!((counted["RPS_IPI"], counted["ipi"], counted["other"]), (100, 300, 0), "{counted:?}");
    let counted = classes_of_a_run(&ipi, 20_000);
    assert_eq!((counted["SELF"], counted["ipi"], counted["other"]), (100, 0, 300), "{counted:?}");
}

#[test]
fn a_seen_raise_decides_and_is_compared() {
    let agrees = ["10000 irq_entry - 5", "10100 raise - 3", "10300 irq_exit - 5"];
    let counted = classes_of_a_run(&agrees, 10_400);
    assert_eq!((counted["NIC_IRQ"], counted["compared"], counted["differing"]), (100, 100, 0), "{counted:?}");
    let counted = classes_of_a_run(&agrees, 90_000);
    assert_eq!((counted["NIC_IRQ"], counted["differing"]), (100, 100), "{counted:?}");
}
