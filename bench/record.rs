//! Size of a recording and CPU time of recording, on a machine with 8 CPUs under load and a simulated clock:
//! `cargo run --release --example record [HOURS]`, 24 by default. `fixture DIR` instead records the state directory that
//! `fixtures/recordings` has for each version of the format.
//!
//! Sizes do not depend on the computer; times are of this one, and without reading procfs: the machine is in memory.
//! `rxlab record` on the machine itself is measured with `/proc/PID/stat`, see docs/record.md.

#![allow(clippy::disallowed_methods)] // Creates a temporary directory and prints.

#[path = "record/machine.rs"]
mod machine;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rxlab_path::sample::{Counters, Inventory, Sample, Scope};
use rxlab_record::recorder::{Disk, Limits, Recorder, Ring};
use rxlab_sys::{Host, RecordingHost};

use machine::Machine;

/// Time of the first sample, in milliseconds since 1970.
const START_MS: i64 = 1_800_000_000_000;

/// Samples of which other codings are measured: one segment.
const FIRST: u64 = 600;
/// Level of zstd of the alternative.
const LEVEL: i32 = 19;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, state] = &arguments[..]
        && word == "fixture"
    {
        fixture(Path::new(state));
        return ExitCode::SUCCESS;
    }
    let Some(hours) = std::env::args().nth(1).map_or(Some(24), |text| text.parse::<u64>().ok()) else {
        eprintln!("record: HOURS must be a number");
        return ExitCode::from(2);
    };
    let state = tempfile::tempdir().expect("a temporary directory");
    let limits = Limits { every: Duration::from_secs(1), size: 1 << 30 };
    let disk = Disk::for_writing(state.path()).expect("locked");
    let mut recorder = Recorder::begin(disk, limits).expect("begun");
    let mut machine = Machine::new(1);
    let (mut recording, mut prefix) = (0, Prefix::default());
    let mut log = 0;
    for second in 0..hours * 3_600 {
        machine.advance();
        let host = machine.host();
        let before = cpu_ticks();
        recorder.tick(&host, START_MS + 1_000 * second as i64).expect("recorded");
        recording += cpu_ticks() - before;
        if second < FIRST {
            prefix.add(&host);
        }
        if second == FIRST - 1 {
            let name = state.path().join(format!("record/{START_MS}.log"));
            log = std::fs::metadata(name).expect("the first log").len();
        }
        if second == 0 {
            let sample = Sample::take(&host);
            let programs = sample.counters.processes.known().map_or(0, |programs| programs.len());
            println!("8 CPUs, 8 queues, {programs} programs");
        }
    }
    recorder.finish().expect("packed");
    let span =
        Ring::open(Disk::for_reading(state.path())).expect("listed").span().expect("read").expect("recorded");
    let per_hour = span.bytes as f64 / hours as f64;
    println!("{hours} h: {} samples, {} bytes", span.ticks, span.bytes);
    println!("{:.0} bytes an hour, {:.1} a sample", per_hour, span.bytes as f64 / span.ticks as f64);
    println!("first {FIRST} samples: {:.1} bytes a sample in the log", log as f64 / FIRST as f64);
    println!(
        "the same as files, each compressed after the one before: {:.1} bytes",
        prefix.bytes as f64 / FIRST as f64
    );
    println!("{:.2} ms of CPU time a sample", recording as f64 * 10.0 / span.ticks as f64);
    ExitCode::SUCCESS
}

/// The alternative: the files of a sample, compressed by zstd with those of the sample before as its dictionary.
#[derive(Default)]
struct Prefix {
    before: Vec<u8>,
    bytes: usize,
}

impl Prefix {
    fn add(&mut self, host: &dyn Host) {
        let inventory = Inventory::take(host, Scope::Counters);
        let recording = RecordingHost::new(host);
        Counters::take(&recording, &inventory);
        let (files, _) = recording.finish().into_parts();
        let bytes: Vec<u8> = files.into_values().flatten().collect();
        let mut compressor =
            zstd::bulk::Compressor::with_dictionary(LEVEL, &self.before).expect("a dictionary");
        self.bytes += compressor.compress(&bytes).expect("compressed").len();
        self.before = bytes;
    }
}

/// A minute with a pause, in a packed segment and a log with a torn end.
fn fixture(state: &Path) {
    let mut machine = Machine::new(1);
    let limits = Limits { every: Duration::from_secs(1), size: 1 << 30 };
    for (seconds, is_killed) in [(0..50, false), (70..80, true)] {
        let disk = Disk::for_writing(state).expect("locked");
        let mut recorder = Recorder::begin(disk, limits).expect("begun");
        for second in seconds.clone() {
            machine.advance();
            recorder.tick(&machine.host(), START_MS + 1_000 * second).expect("recorded");
        }
        if !is_killed {
            recorder.finish().expect("packed");
            continue;
        }
        drop(recorder);
        let log = state.join(format!("record/{}.log", START_MS + 1_000 * seconds.start));
        let mut log = std::fs::OpenOptions::new().append(true).open(log).expect("a log");
        log.write_all(&[9, 0, 0, 0, 1, 2, 3]).expect("written");
    }
    std::fs::remove_file(state.join("record/lock")).expect("removed");
}

/// `utime` and `stime` of `/proc/self/stat` (proc_pid_stat(5)), after the name in parentheses; 1/100 s.
fn cpu_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("every process has one");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum()
}
