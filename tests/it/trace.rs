//! The timeline of receive work on the real kernel: packets handed over by RPS, and lost events.

use std::path::{Path, PathBuf};

use rustix::process::Signal;
use rxlab_base::units::{CpuId, Fact};
use rxlab_probe::Class;
use rxlab_probe::trace::{CpuTrace, Trace};
use serde_json::Value;

use crate::flood::Flood;
use crate::process::{Ended, Running, json, rxlab, wait_for};
use crate::require;

/// Track of CPU 0 in the file.
const FIRST_CPU: u64 = 10_000_000;

/// Packets from CPU 1 that RPS hands over to CPU 0.
struct Stream(Flood);

impl Stream {
    /// `None` if skipped. `pace` are the load's arguments for its rate.
    fn start(pace: &[&str]) -> Option<Self> {
        Flood::start("1", pace).map(Self)
    }

    fn file(&self) -> PathBuf {
        self.0.directory.path().join("trace.json")
    }

    fn trace(&self, arguments: &[&str]) -> Trace {
        let mut command = rxlab(self.0.directory.path(), &["--json", "trace", "--out"]);
        json(&command.arg(self.file()).args(arguments).output().expect("rxlab runs"))
    }

    fn lines(&self) -> Vec<Value> {
        lines(&self.file())
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("written");
    serde_json::from_str(&text).expect("one array of JSON")
}

fn on(trace: &Trace, cpu: u32) -> &CpuTrace {
    trace.cpus.iter().find(|of| of.cpu == CpuId(cpu)).expect("it received")
}

#[test]
fn packets_from_rps_are_on_the_other_cpu() {
    let Some(stream) = Stream::start(&["--rate", "5000"]) else { return };
    let trace = stream.trace(&["--for", "1s"]);
    assert_eq!(trace.lost, 0, "{trace:?}");
    assert!(trace.events > 10_000 && (0.9..3.0).contains(&trace.seconds), "{trace:?}");
    let cpu = on(&trace, 0);
    // Fewer if several packets arrived at once.
    assert!(cpu.runs.count > 500 && cpu.backlog > 1_000 && cpu.bursts.count > 1, "{cpu:?}");
    assert!(cpu.runs.p50_ns > 0 && cpu.runs.p50_ns <= cpu.runs.max_ns, "{cpu:?}");
    assert!(cpu.net_rx_ns < (trace.seconds * 1e9) as u64, "{cpu:?}");
    assert!(matches!(cpu.squeezed, Fact::Known(_)), "{cpu:?}");
    let backlog = trace.napis.iter().find(|napi| napi.cpu == CpuId(0) && napi.device.is_empty());
    assert!(backlog.is_some_and(|napi| napi.packets >= cpu.backlog), "{:?}", trace.napis);
    let Fact::Known(cost) = trace.cost else { panic!("{:?}", trace.cost) };
    assert!(cost.runs >= trace.events && cost.ns > 0, "{cost:?}");

    let lines = stream.lines();
    let events = |cpu: u64, ph: &str, name: &str| {
        let wanted = |line: &&Value| {
            line["tid"] == FIRST_CPU + cpu
                && line["ph"] == ph
                && line["name"].as_str().is_some_and(|of| of.starts_with(name))
        };
        lines.iter().filter(wanted).count() as u64
    };
    assert!(events(0, "E", "NET_RX") >= cpu.runs.count && events(0, "B", "NET_RX") >= cpu.runs.count);
    assert!(events(0, "X", "poll backlog") >= cpu.runs.count / 2, "polls lie in runs");
    let handed_over = |line: &&Value| line["ph"] == "E" && line["args"]["cause"] == Class::RpsIpi.name();
    // An idle CPU that polls for work needs no interrupt.
    let idle = |line: &&Value| line["ph"] == "E" && line["args"]["task"] == "swapper/0";
    let count = |wanted: &dyn Fn(&&Value) -> bool| lines.iter().filter(|line| wanted(line)).count() as u64;
    assert!(count(&handed_over) + count(&idle) > cpu.runs.count / 2, "each interrupt has a cause: {cpu:?}");
    assert!(lines.iter().all(|line| line["ph"] == "M" || line["ts"].as_f64().is_some_and(|ts| ts >= 0.0)));
}

#[test]
fn polls_name_their_device() {
    let Some(stream) = Stream::start(&["--rate", "2000"]) else { return };
    if !stream.0.has_napi() {
        return;
    }
    let trace = stream.trace(&["--for", "500ms"]);
    let napi = trace.napis.iter().find(|napi| napi.device == "srv0").expect("it was polled");
    assert!(napi.polls > 50 && napi.packets > 50 && napi.napi > 0, "{napi:?}");
    let lines = stream.lines();
    let poll = lines.iter().find(|line| line["args"]["device"] == "srv0").expect("it is in the file");
    assert!(poll["args"]["budget"].as_u64().is_some_and(|budget| budget > 0), "{poll}");
    assert_eq!(poll["args"]["napi"].as_u64(), Some(u64::from(napi.napi)), "{poll}");
}

#[test]
fn only_the_given_cpus_are_traced() {
    let Some(stream) = Stream::start(&["--rate", "2000"]) else { return };
    let trace = stream.trace(&["--for", "300ms", "--cpu", "0"]);
    assert!(on(&trace, 0).runs.count > 10);
    assert!(trace.cpus.iter().all(|cpu| cpu.cpu == CpuId(0)), "{trace:?}");
}

#[test]
fn lost_events_are_counted_and_shown() {
    let Some(stream) = Stream::start(&[]) else { return };
    let trace = stream.trace(&["--for", "500ms", "--buffer", "4"]);
    assert!(trace.lost > 0 && trace.events > 0, "{trace:?}");
    assert_eq!(trace.cpus.iter().map(|cpu| cpu.lost).sum::<u64>(), trace.lost);
    let lines = stream.lines();
    let told: u64 = lines.iter().filter_map(|line| line["args"]["lost"].as_u64()).sum();
    assert_eq!(told, trace.lost, "the file marks the losses");
    let args = ["trace", "--for", "200ms", "--buffer", "4"];
    let text = rxlab(stream.0.directory.path(), &args).says(0, "the ring buffer had no room");
    assert!(text.lines().next().is_some_and(|first| first.ends_with(" lost")), "{text}");
}

#[test]
fn a_picture_draws_the_work_of_each_cpu() {
    let Some(stream) = Stream::start(&["--rate", "20000"]) else { return };
    let file = stream.file().with_extension("svg");
    let trace = |length: &str| {
        let args = ["trace", "--cpu", "0", "--for", length, "--out"];
        rxlab(stream.0.directory.path(), &args).arg(&file).said()
    };
    trace("200ms").says(2, "too long for a picture: at most 100ms");
    assert!(!file.exists());
    trace("50ms").exits(0);
    let picture = std::fs::read_to_string(&file).expect("written");
    assert!(picture.contains("CPU 0") && !picture.contains("CPU 1"), "{picture}");
    assert!(picture.contains("<title>NET_RX: ") && picture.contains(" packets"), "{picture}");
}

#[test]
fn an_interrupted_trace_is_complete() {
    require::needs!(bpf);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("trace.json");
    let mut command = rxlab(directory.path(), &["--json", "trace", "--for", "60s", "--out"]);
    let running = Running::start(command.arg(&file));
    wait_for("the file", || std::fs::metadata(&file).is_ok_and(|file| file.len() > 0));
    running.signal(Signal::INT);
    let out = running.output();
    out.exits(130);
    let trace: Trace = json(&out);
    assert!(trace.seconds < 50.0, "{trace:?}");
    assert!(lines(&file).len() >= 2);
}

#[test]
fn an_unwritable_trace_names_its_file() {
    require::needs!(bpf);
    let directory = tempfile::tempdir().expect("a temporary directory");
    rxlab(directory.path(), &["trace", "--for", "100ms", "--out", "/dev/full"])
        .says(5, "cannot write /dev/full: No space left");
}
