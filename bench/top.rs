//! CPU time of `rxlab top` on a large machine:
//! `cargo run --release --example top [CPUS [QUEUES [SECONDS]]]`, 128, 64 and 60 by default.
//!
//! The machine is a generated tree of plain files (`bench/scale/tree.rs`) whose CPU time and packets advance, so file
//! system costs are those of the temporary directory and eBPF takes no part. The terminal is one of `script`, of 200
//! columns and 60 rows, which is in the figure too.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Creates files and starts the program.

#[path = "scale/tree.rs"]
mod tree;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().ok());
    let mut next = |default| numbers.next().unwrap_or(Some(default));
    let (Some(cpus), Some(queues), Some(seconds)) = (next(128), next(64), next(60)) else {
        eprintln!("top: CPUS, QUEUES and SECONDS must be numbers");
        return ExitCode::from(2);
    };
    let own = std::env::current_exe().expect("every process has a program");
    let program = own.parent().and_then(Path::parent).expect("target/release/examples").join("rxlab");
    assert!(program.exists(), "build it first: cargo build --release");
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
    let (start, before) = (Instant::now(), children_ticks());
    let mut moment = 0;
    while child.try_wait().expect("a child").is_none() {
        moment += 1;
        tree::advance(directory.path(), cpus, moment);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (wall, ticks) = (start.elapsed(), children_ticks() - before);
    assert!(wall >= Duration::from_secs(seconds.into()), "it ended early, after {wall:?}");
    let used = Duration::from_millis(10) * ticks;
    let part = 100.0 * used.as_secs_f64() / wall.as_secs_f64();
    println!("{cpus} CPUs, {queues} queues: {used:?} of CPU time in {wall:.1?}, {part:.2} % of one CPU");
    ExitCode::SUCCESS
}

/// `cutime` and `cstime` of `/proc/self/stat` (proc_pid_stat(5)), after the name in parentheses.
fn children_ticks() -> u32 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("every process has one");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    fields.split_whitespace().skip(13).take(2).map(|field| field.parse::<u32>().expect("ticks")).sum()
}
