//! CPU time and memory of commands on a container host with thousands of interfaces:
//! `cargo run --release --example interfaces [INTERFACES...]`, 100, 1000 and 10000 by default.
//!
//! The machine is a generated tree of plain files (`bench/scale/tree.rs`): 64 CPUs, one NIC with 8 queues, and pairs
//! of veths. While a command samples, the bench lets its CPU time and packets advance.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Creates files and starts the program.

#[path = "scale/advance.rs"]
mod advance;
#[path = "scale/children.rs"]
mod children;
#[path = "scale/program.rs"]
mod program;
#[path = "scale/tree.rs"]
mod tree;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use children::children_time;
use tree::{COUNTERS, Tree};

const COMMANDS: [&[&str]; 5] = [
    &["show"],
    &["show", "--json"],
    &["doctor", "--for", "1s"],
    &["plan", "--policy", "spread", "--for", "1s"],
    &["status"],
];

fn main() {
    let asked: Vec<u32> = std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let program = program::rxlab();
    for interfaces in if asked.is_empty() { vec![100, 1_000, 10_000] } else { asked } {
        let directory = tempfile::tempdir().expect("a temporary directory");
        tree::make(directory.path(), 64, 8);
        veths(directory.path(), interfaces);
        println!("{interfaces} interfaces");
        for arguments in COMMANDS {
            let ([user, system], peak) = run(&program, directory.path(), arguments);
            let [user, system] = [user, system].map(|time| time.as_secs_f64());
            println!(
                "  {:<32} {:6.2} s = {user:5.2} user + {system:5.2} system {peak:7.1} MB",
                arguments.join(" "),
                user + system
            );
        }
    }
}

/// Adds pairs of veths, both ends in the sampled namespace.
fn veths(root: &Path, count: u32) {
    let mut tree = Tree { root, files: 0 };
    let mut counted = "Inter-|   Receive  |  Transmit\n face |bytes packets |bytes packets\n".to_owned();
    for number in 0..count {
        let name = format!("veth{number:05}");
        counted += &format!("{name}: 123456789 654321 0 0 0 0 0 0 123456789 654321 0 0 0 0 0 0\n");
        let base = format!("sys/devices/virtual/net/{name}");
        tree.link(&format!("sys/class/net/{name}"), &format!("../../devices/virtual/net/{name}"));
        let (own, other) = (number + 10, (number ^ 1) + 10);
        for (file, content) in [
            ("ifindex", format!("{own}\n")),
            ("iflink", format!("{other}\n")),
            ("operstate", "up\n".to_owned()),
            ("dev_port", "0\n".to_owned()),
            ("threaded", "0\n".to_owned()),
            ("napi_defer_hard_irqs", "0\n".to_owned()),
            ("gro_flush_timeout", "0\n".to_owned()),
            ("uevent", format!("INTERFACE={name}\nIFINDEX={own}\n")),
            ("queues/rx-0/rps_cpus", "00000000,00000000\n".to_owned()),
            ("queues/rx-0/rps_flow_cnt", "0\n".to_owned()),
            ("queues/tx-0/xps_cpus", "00000000,00000000\n".to_owned()),
        ] {
            tree.file(&format!("{base}/{file}"), content);
        }
        for counter in COUNTERS {
            tree.file(&format!("{base}/statistics/{counter}"), "123456789\n");
        }
    }
    tree.file("proc/net/dev", counted);
}

/// CPU time of user and system, and the most memory of one run in MB.
fn run(program: &Path, root: &Path, arguments: &[&str]) -> ([Duration; 2], f64) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(program);
    command.args(arguments).arg("--root").arg(root).arg("--state-dir").arg(state.path());
    let before = children_time();
    let mut child = command.stdout(Stdio::null()).spawn().expect("started");
    let mut peak = 0.0;
    let mut moment = 0;
    while child.try_wait().expect("a child").is_none() {
        peak = peak_mb(&child).unwrap_or(peak);
        moment += 1;
        advance::advance(root, 64, moment);
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = child.wait().expect("a child");
    assert!(matches!(status.code(), Some(0 | 1)), "{arguments:?}: {status}");
    let [user, system] = children_time();
    ([user - before[0], system - before[1]], peak)
}

/// `VmHWM` of `/proc/PID/status` (proc_pid_status(5)).
fn peak_mb(child: &Child) -> Option<f64> {
    let status = std::fs::read_to_string(PathBuf::from(format!("/proc/{}/status", child.id()))).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1e3)
}
