//! CPU time of sampling a large machine:
//! `cargo run --release --example scale [CPUS [QUEUES [RUNS]]]`, 1024, 64 and 21 by default.
//!
//! The machine is a generated tree of plain files (`bench/scale/tree.rs`), so file system costs are
//! those of the temporary directory and not those of procfs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // Creates files and starts the program.

#[path = "scale/children.rs"]
mod children;
#[path = "scale/program.rs"]
mod program;
#[path = "scale/tree.rs"]
mod tree;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use children::children_time;
use rustix::time::ClockId;
use rxlab_path::sample::{Counters, Inventory, Scope};
use rxlab_sys::{LiveHost, clock_ns};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>().expect("a number"));
    let defaults: [u32; 3] = [1024, 64, 21];
    let [cpus, queues, runs] = defaults.map(|default| numbers.next().unwrap_or(default));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = tree::make(directory.path(), cpus, queues);
    println!("{cpus} CPUs, {queues} queues, {files} files; CPU time of {runs} runs in ms");
    let program = program::rxlab();
    println!(
        "{:<28} mean {:8.1}",
        "rxlab show --json",
        show(&program, directory.path(), runs).as_secs_f64() * 1e3
    );
    let host = LiveHost::open(directory.path()).expect("a root");
    let inventory = Inventory::take(&host, Scope::All);
    assert_eq!(inventory.cpus.known().map(Vec::len), usize::try_from(cpus).ok(), "the tree is read");
    let listeners = inventory.listeners.known().map(|listeners| listeners.sockets.len());
    assert!(listeners > Some(100), "the processes are read: {:?}", inventory.listeners);
    let path = Inventory::take(&host, Scope::Counters);
    for (what, inventory) in [("one sample of the counters", &path), ("the same with programs", &inventory)] {
        let sample = (0..runs).map(|_| cpu_time(|| drop(Counters::take(&host, inventory)))).collect();
        report(what, sample);
    }
    let programs = Counters::take(&host, &inventory).processes.known().map(|programs| programs.len());
    assert!(programs > Some(100), "programs are read: {programs:?}");
}

/// CPU time of one run. The kernel reports that of children in ticks of 10 ms, so it is the mean of many.
fn show(program: &Path, root: &Path, runs: u32) -> Duration {
    let before: Duration = children_time().iter().sum();
    for _ in 0..runs {
        let mut command = Command::new(program);
        command.args(["show", "--json", "--root"]).arg(root).stdout(Stdio::null());
        assert!(command.status().expect("started").success());
    }
    (children_time().iter().sum::<Duration>() - before) / runs
}

fn cpu_time(work: impl FnOnce()) -> Duration {
    let now = || Duration::from_nanos(clock_ns(ClockId::ThreadCPUTime));
    let before = now();
    work();
    now() - before
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let (Some(least), Some(most)) = (times.first(), times.last()) else { return };
    println!(
        "{what:<28} median {:6.1}  min {:6.1}  max {:6.1}",
        ms(&times[times.len() / 2]),
        ms(least),
        ms(most)
    );
}
