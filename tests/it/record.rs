//! `rxlab record`, and commands on a time that is gone.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use rxlab_record::recorder::{Disk, Limits, Recorder, Ring, Span};
use serde_json::Value;

use crate::process::{Ended, Running, rxlab, wait_for};
use crate::tree::Tree;

#[path = "../../bench/record/machine.rs"]
mod machine;

use machine::Machine;

/// Friday, 15 January 2027, 08:00:00 UTC.
const START_MS: i64 = 1_800_000_000_000;

/// Records so many seconds of a machine with 8 CPUs, with a simulated clock.
pub(crate) fn record(state: &Path, seconds: i64) {
    let disk = Disk::for_writing(state).expect("locked");
    let limits = Limits { every: Duration::from_secs(1), size: 64 << 20 };
    let mut recorder = Recorder::begin(disk, limits).expect("begun");
    let mut machine = Machine::new(7);
    for second in 0..seconds {
        machine.advance();
        recorder.tick(&machine.host(), START_MS + second * 1_000).expect("recorded");
    }
    recorder.finish().expect("packed");
}

fn ring(state: &Path) -> Ring<Disk> {
    Ring::open(Disk::for_reading(state)).expect("listed")
}

fn span(state: &Path) -> Option<Span> {
    ring(state).span().expect("readable")
}

fn of_ring(state: &Path, args: &[&str]) -> (i32, String) {
    rxlab(state, args).said()
}

fn json(state: &Path, args: &[&str]) -> Value {
    let (code, text) = of_ring(state, &[args, &["--json"]].concat());
    assert!(code <= 1, "{args:?}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn an_hour_of_a_busy_machine_takes_less_than_a_megabyte() {
    let state = tempfile::tempdir().expect("a temporary directory");
    record(state.path(), 1_200);
    let span = span(state.path()).expect("recorded");
    assert_eq!((span.ticks, span.gaps.len()), (1_200, 0));
    let per_hour = span.bytes * 3;
    assert!(per_hour < 1_000_000, "{per_hour} bytes an hour");
}

#[test]
fn commands_answer_for_a_time_that_is_gone() {
    let state = tempfile::tempdir().expect("a temporary directory");
    record(state.path(), 700);
    let state = state.path();
    let at = ["--at", "2027-01-15 08:05:00"];
    let doctor = json(state, &[&["doctor", "--for", "30s"], &at[..]].concat());
    assert_eq!(doctor["seconds"], 30.0, "{doctor}");
    assert!(doctor["load"]["packets"].as_f64().is_some_and(|rate| rate > 40_000.0), "{}", doctor["load"]);
    let shown = json(state, &[&["show"], &at[..]].concat());
    assert_eq!(shown["nics"][0]["name"], "eth0");
    of_ring(state, &[&["plan", "numa-local", "--nic", "eth0", "--for", "30s"], &at[..]].concat())
        .says(0, "nothing to plan");
    // A time of the other segment is answered too, and one outside names what is recorded.
    assert_eq!(json(state, &["doctor", "--at", "2027-01-15T08:11:30Z", "--for", "30s"])["seconds"], 30.0);
    of_ring(state, &["show", "--at", "2027-01-15 09:00"])
        .says(2, "the recording spans 2027-01-15 08:00:00 UTC to 2027-01-15 08:11:39 UTC");
    of_ring(state, &["show", "--at", "soon"]).says(2, "'10 minutes ago'");
    of_ring(state, &["record", "status"]).says_all(
        0,
        &["recorded  2027-01-15T08:00:00Z to 2027-01-15T08:11:39Z\nsamples   700\n", "gaps      none"],
    );
    let status = json(state, &["record", "list"]);
    assert_eq!(
        (&status["recorded"]["samples"], &status["recorded"]["gaps"]),
        (&Value::from(700), &Value::Array(Vec::new()))
    );
}

#[test]
fn top_replays_second_by_second() {
    let state = tempfile::tempdir().expect("a temporary directory");
    record(state.path(), 620);
    let args = ["top", "--replay", "--json", "--at", "2027-01-15T08:10:10Z", "--for", "30s"];
    let text = of_ring(state.path(), &args).exits(0);
    let frames: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // The first sample of the second segment has none before it that it can be compared with in full.
    assert_eq!(frames.len(), 30, "{text}");
    assert_eq!(
        (&frames[0]["time"], &frames[29]["time"]),
        (&Value::from("2027-01-15T08:09:41Z"), &Value::from("2027-01-15T08:10:10Z"))
    );
    for frame in &frames {
        assert_eq!((&frame["seconds"], frame["cpus"].as_array().map(Vec::len)), (&Value::from(1.0), Some(8)));
        assert!(frame["load"]["packets"].as_f64().is_some_and(|rate| rate > 40_000.0), "{}", frame["load"]);
    }
    let programs = frames[25]["programs"]["known"].as_array().or(frames[25]["programs"].as_array());
    assert!(programs.is_some_and(|programs| programs.len() >= 10), "{}", frames[25]["programs"]);
    let lines = of_ring(state.path(), &["top", "--replay", "--for", "5s"]).exits(0);
    assert!(lines.starts_with("08:10:15  CPU "), "up to the last sample: {lines}");
}

/// The machine of an exported file answers as the recording does.
#[test]
fn a_stretch_is_exported_as_a_snapshot() {
    let state = tempfile::tempdir().expect("a temporary directory");
    record(state.path(), 100);
    let file = state.path().join("case.tar.zst");
    let file = file.to_str().expect("text");
    let between = ["record", "export", "--between", "2027-01-15 08:00:30", "2027-01-15 08:01:20", "-o", file];
    of_ring(state.path(), &between).says(0, "redacted");
    of_ring(state.path(), &between).says(2, "already exists");
    let exported = json(state.path(), &["doctor", "--snapshot", file]);
    let recorded = json(state.path(), &["doctor", "--at", "2027-01-15 08:01:20", "--for", "50s"]);
    for part in ["seconds", "load", "findings"] {
        assert_eq!(exported[part], recorded[part], "{part}");
    }
    let backwards = ["--between", "2027-01-15 08:01", "2027-01-15 08:00", "-o", "/dev/null", "--force"];
    of_ring(state.path(), &[&["record", "export"], &backwards[..]].concat())
        .says(2, "the second time is before the first");
}

/// Whatever was on disk when the recorder was killed is read afterwards, and by the next recorder.
#[test]
fn kills_lose_nothing_that_was_written() {
    let tree = Tree::new();
    let state = tree.state();
    let mut before = 0;
    for round in 0..6u64 {
        let running = Running::start(&mut tree.command(&["record", "--every", "100ms"]));
        let mut written = 0;
        wait_for("some samples", || {
            written = span(&state).map_or(0, |span| span.ticks);
            written > before + round
        });
        // At any moment of a sample.
        std::thread::sleep(Duration::from_millis(37 * round % 100));
        running.signal(Signal::KILL);
        running.output();
        let after = span(&state).expect("recorded").ticks;
        assert!(after >= written, "round {round}: {after} of {written}");
        let ring = ring(&state);
        let replayed = ring.replay(i64::MIN, i64::MAX).map(|tick| tick.expect("readable"));
        assert_eq!(replayed.count() as u64, after, "every sample is whole");
        before = after;
    }
    let names: Vec<_> = std::fs::read_dir(state.join("record")).expect("listed").collect();
    assert!(names.len() >= 7, "one segment for each recorder, and the lock");
    let last = jiff::Timestamp::from_millisecond(span(&state).expect("recorded").last_ms).expect("a time");
    let text = tree.rxlab(&["show", "--at", &last.to_string()]).exits(0);
    assert!(text.contains("treehost") || text.contains("eth0"), "{text}");
}

#[test]
fn one_recorder_at_a_time_which_ends_on_a_signal() {
    let tree = Tree::new();
    let running = Running::start(&mut tree.command(&["record", "--every", "100ms"]));
    wait_for("the first sample", || span(&tree.state()).is_some());
    let text = tree.rxlab(&["record"]).says(5, "another recorder (process ");
    assert!(text.contains("--state-dir"), "{text}");
    running.signal(Signal::TERM);
    let output = running.output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("recording to ") && text.contains("every 100ms, at most 64 MiB"), "{text}");
    let names = std::fs::read_dir(tree.state().join("record")).expect("listed");
    let names: Vec<String> =
        names.map(|entry| entry.expect("listed").file_name().into_string().expect("text")).collect();
    // A signal waits for no packing; the next recorder does it.
    assert!(names.iter().any(|name| name.ends_with(".log") || name.ends_with(".packed")), "{names:?}");
    assert!(span(&tree.state()).is_some(), "{names:?}");
    tree.rxlab(&["record", "--for", "1s", "--size", "1K"]).says(2, "--size is too small");
    tree.rxlab(&["record", "--for", "1s", "--every", "1us"]).says(2, "--every must be between");
    tree.rxlab(&["doctor", "--at", "2020-01-01"]).says(2, "the recording spans ");
}

#[test]
fn the_unit_is_installed_and_removed() {
    let tree = Tree::new();
    tree.install_program();
    tree.rxlab(&["record", "install", "--size", "256M"]).says_all(0, &["wrote ", "starts at the next boot"]);
    let unit = tree.read("etc/systemd/system/rxlab-record.service");
    assert!(unit.contains(" record --every 1s --size 268435456\n"), "{unit}");
    assert!(tree.root().join("etc/systemd/system/multi-user.target.wants/rxlab-record.service").is_symlink());
    let removed = tree.rxlab(&["record", "remove"]).exits(0);
    assert!(removed.contains("what was recorded stays"), "{removed}");
    assert!(!tree.root().join("etc/systemd/system/rxlab-record.service").exists());
    tree.rxlab(&["record", "remove"]).says(0, "no unit is installed");
}

/// `fixtures/recordings/1` was recorded by the first version of the format: a packed segment and a log with a torn end.
/// Its README.md says how.
#[test]
fn old_recordings_are_read() {
    let state = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings/1");
    let span = span(&state).expect("recorded");
    assert_eq!((span.first_ms, span.last_ms, span.ticks), (START_MS, START_MS + 79_000, 60));
    assert_eq!(span.gaps.len(), 1, "{span:?}");
    let doctor = json(&state, &["doctor", "--at", "2027-01-15 08:00:25", "--for", "20s"]);
    assert_eq!(doctor["seconds"], 20.0);
    assert_eq!(ring(&state).replay(i64::MIN, i64::MAX).filter(Result::is_ok).count(), 60);
    let error = of_ring(&state, &["show", "--at", "2027-01-15 08:00:55"]).exits(2);
    assert!(error.contains("the recorder paused from"), "{error}");
}
