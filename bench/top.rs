//! CPU time of `rxlab top` on a large machine:
//! `cargo run --release --example top [CPUS [QUEUES [SECONDS]]]`, 128, 64 and 60 by default.
//!
//! The machine is a generated tree of plain files (`bench/scale/tree.rs`) whose CPU time and packets advance, so file
//! system costs are those of the temporary directory and eBPF takes no part. The terminal is one of `script`, of 200
//! columns and 60 rows, which is in the figure too.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Creates files and starts the program.

#[path = "scale/advance.rs"]
mod advance;
#[path = "scale/program.rs"]
mod program;
#[path = "scale/tree.rs"]
mod tree;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use program::children_time;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let defaults: [u32; 3] = [128, 64, 60];
    let [cpus, queues, seconds] = defaults.map(|default| numbers.next().unwrap_or(default));
    let program = program::rxlab();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let state = tempfile::tempdir().expect("a temporary directory");
    tree::make(directory.path(), cpus, queues);
    let line = format!(
        "stty rows 60 cols 200; exec {} top --for {seconds}s --root {} --state-dir {}",
        program.display(),
        directory.path().display(),
        state.path().display(),
    );
    let mut child = Command::new("script")
        .args(["-q", "-c", &line, "/dev/null"])
        .env("TERM", "xterm-256color")
        // An open pipe: at its end `script` would end too.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("script runs");
    let (start, before) = (Instant::now(), children_time().iter().sum::<Duration>());
    let mut moment = 0;
    while child.try_wait().expect("a child").is_none() {
        moment += 1;
        advance::advance(directory.path(), cpus, moment);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (wall, used) = (start.elapsed(), children_time().iter().sum::<Duration>() - before);
    assert!(wall >= Duration::from_secs(seconds.into()), "it ended early, after {wall:?}");
    let part = 100.0 * used.as_secs_f64() / wall.as_secs_f64();
    println!("{cpus} CPUs, {queues} queues: {used:?} of CPU time in {wall:.1?}, {part:.2} % of one CPU");
}
