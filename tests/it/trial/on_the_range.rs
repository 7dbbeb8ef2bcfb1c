//! Trials with real packets: the manipulation check, the guards, the restore.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use rxlab::lab::{Range, RangeSpec};
use rxlab_load::servers::{Spec, Target};
use rxlab_stats::design::order;
use rxlab_stats::design::{Arm, Phase};
use rxlab_sys::{Host, LiveHost};
use rxlab_trial::record::Verdict;

use super::record;
use crate::lab::host_in;
use crate::process::{Ended, Running, json, mentioning, one_line, rxlab, wait_for};
use crate::{quiet, require};

pub(super) const RPS: &str = "sys/class/net/srv0/queues/rx-0/rps_cpus";
const FLOWS: &str = "sys/class/net/srv0/queues/rx-0/rps_flow_cnt";
const ENTRIES: &str = "proc/sys/net/core/rps_sock_flow_entries";

/// The range with a target in its server host; CPU 0 sends the load.
pub(super) struct Stage {
    pub(super) directory: tempfile::TempDir,
    pub(super) target: Option<Target>,
    pub(super) host: LiveHost,
    pub(super) range: Range,
    entries: String,
    _alone: quiet::Held,
}

impl Stage {
    /// `None` if skipped. The target's thread is on `cpu`.
    pub(super) fn new(cpu: &str) -> Option<Self> {
        Self::with(cpu, &RangeSpec::default())
    }

    pub(super) fn with(cpu: &str, range: &RangeSpec) -> Option<Self> {
        if !require::netns() {
            return None;
        }
        let alone = quiet::alone();
        let range = Range::build(range).expect("built");
        let target = Target::start(&Spec {
            http: Some(SocketAddr::from((Range::SERVER, 8080))),
            udp_sink: Some(SocketAddr::from((Range::SERVER, 9000))),
            cpus: cpu.parse().expect("a list"),
            netns: Some(range.server.path()),
            ..Spec::default()
        });
        let host = host_in(&range.server);
        Some(Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            target: Some(target.expect("started")),
            entries: host.read_text(ENTRIES).expect("readable"),
            host,
            range,
            _alone: alone,
        })
    }

    pub(super) fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// A trial of `rps srv0/rx-0 = 1` with this load, design and guards.
    pub(super) fn trial(&self, url: &str, design: &str, guards: &str) -> Command {
        self.trial_of("[change]\nset = [\"rps srv0/rx-0 = 1\"]", url, design, guards)
    }

    /// A trial of `change` under a UDP load.
    pub(super) fn sink(&self, change: &str, design: &str) -> Command {
        self.trial_of(change, SINK, design, "")
    }

    fn trial_of(&self, change: &str, url: &str, design: &str, guards: &str) -> Command {
        let netns = self.range.client.path();
        // At full rate the sink of an unoptimized build is overloaded and cannot report arrivals.
        let rate = if url == SINK { ", rate = 20000" } else { "" };
        let or = |key: &str, time: &str| {
            if design.contains(key) { String::new() } else { format!("{key} = \"{time}\"\n") }
        };
        let times = or("washout", "50ms") + &or("measure", "300ms");
        let text = format!(
            "name = \"rps\"\n{change}\n\
             [workload]\nnic = \"srv0\"\n\
             load = {{ url = \"{url}\", connections = 8, cpus = \"0\", netns = \"{}\"{rate} }}\n\
             [design]\n{times}{design}\n[guards]\n{guards}\n",
            netns.display()
        );
        self.run(&text)
    }

    /// A trial of this specification.
    pub(super) fn run(&self, text: &str) -> Command {
        let spec = self.directory.path().join("spec.toml");
        std::fs::write(&spec, text).expect("written");
        let mut command = rxlab(&self.state(), &["trial", "run", spec.to_str().expect("text")]);
        command.arg("--netns").arg(self.range.server.path());
        command
    }

    pub(super) fn is_restored(&self) {
        assert_eq!(self.host.read_text(RPS).expect("readable").trim(), "0");
        assert_eq!(self.host.read_text(ENTRIES).expect("readable"), self.entries);
        assert_eq!(mentioning(self.directory.path()), []);
        assert_eq!(rxlab(&self.state(), &["status"]).said(), (0, "nothing is applied\n".into()));
    }
}

const SINK: &str = "udp-sink://10.98.0.1:9000";
pub(super) const HTTP: &str = "http://10.98.0.1:8080/simple";

/// A seed whose first pair begins with arm B, so that arm B is set when the first slot ends.
pub(super) fn b_first() -> String {
    let seed = (0..).find(|seed| order(*seed, Phase::Comparison, 0)[0] == Arm::B).expect("half of them");
    format!("seed = {seed}")
}

#[test]
fn a_change_that_takes_effect_is_measured_in_every_slot() {
    let Some(stage) = Stage::new("1") else { return };
    let design = "seed = 5\npairs = 3\nmin_pairs = 3\ncalibration = 1";
    let text = stage.trial(SINK, design, "").measures();
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let slots_in = |phase| record.slots.iter().filter(|slot| slot.phase == phase).collect::<Vec<_>>();
    assert_eq!((slots_in(Phase::Calibration).len(), slots_in(Phase::Comparison).len()), (2, 6));
    assert!(record.slots.iter().all(|slot| slot.void.is_none()), "{text}");
    for pair in 0..3 {
        let arms: Vec<Arm> = slots_in(Phase::Comparison)
            .iter()
            .filter(|slot| slot.pair == pair)
            .map(|slot| slot.arm)
            .collect();
        assert_eq!(arms, order(5, Phase::Comparison, pair), "the coins of the seed");
    }
    // Half of the runs of arm B are on the CPU of the mask.
    for slot in slots_in(Phase::Comparison) {
        let moved = slot.net_rx.get(&rxlab_base::units::CpuId(1)).copied().unwrap_or(0.0);
        let all: f64 = slot.net_rx.values().sum();
        assert_eq!(moved > 0.25 * all, slot.arm == Arm::B, "{:?}", slot.net_rx);
    }
    stage.is_restored();
}

#[test]
fn load_tools_are_read_as_they_are() {
    require::needs!(program("wrk", "wrk", "-v"), program("h2load", "h2load", "--version"));
    let Some(stage) = Stage::new("1") else { return };
    let netns = stage.range.client.path();
    let tools = ["wrk -t1 -c2 -d1 --latency", "h2load --h1 -c2 -D1"];
    for (at, tool) in tools.iter().enumerate() {
        let text = format!(
            "name = \"rps\"\n[change]\nset = [\"rps srv0/rx-0 = 1\"]\n\
             [workload]\ncommand = \"nsenter --net={} {tool} {HTTP}\"\n\
             [design]\nwashout = \"50ms\"\npairs = 2\nmin_pairs = 2\n",
            netns.display()
        );
        let text = stage.run(&text).measures();
        let record = record(&stage.state(), &format!("000{}-rps", at + 1)).expect("on disk");
        assert_eq!(record.slots.len(), 4, "{text}");
        for slot in &record.slots {
            assert!(slot.values["throughput"] > 0.0 && slot.values["mean_us"] > 0.0, "{:?}", slot.values);
            assert_eq!(slot.values.contains_key("p50_us"), *tool == tools[0], "{:?}", slot.values);
        }
    }
    stage.is_restored();
}

#[test]
fn a_plan_is_made_from_a_sample_and_changes_nothing() {
    let Some(stage) = Stage::new("1") else { return };
    let netns = stage.range.client.path();
    let text = format!(
        "name = \"rps\"\n[change]\nset = [\"rps srv0/rx-0 = 1\"]\n[workload]\nnic = \"srv0\"\n\
         load = {{ url = \"{HTTP}\", connections = 8, cpus = \"0\", netns = \"{}\" }}\n",
        netns.display()
    );
    // On a machine that is slow at the moment it also warns, on standard error, that nothing can be gained.
    let output = stage.run(&text).args(["--plan-only", "--json"]).output().expect("the program runs");
    (&output).exits(0);
    let plan: serde_json::Value = json(&output);
    assert_eq!(
        (plan["schema"].as_str(), plan["primary"]["name"].as_str()),
        (Some("rxlab.trial-plan/1"), Some("throughput"))
    );
    let planned = &plan["planned"];
    // A quiet machine needs less than the longest sample.
    let sampled_s = planned["sampled_s"].as_f64().expect("a sample");
    assert!(planned["noise"].as_f64() > Some(0.0) && (5.9..20.0).contains(&sampled_s), "{plan}");
    assert!([0.5, 1.0, 2.0, 4.0].map(Some).contains(&plan["measure_s"].as_f64()), "{plan}");
    assert!(!stage.state().join("trials").exists(), "no record");
    stage.is_restored();
}

#[test]
fn a_checkpoint_sees_whether_the_change_is_still_set() {
    let Some(stage) = Stage::new("1") else { return };
    let design = "pairs = 3\nmin_pairs = 3\nprimary = \"throughput\"";
    stage.trial(SINK, design, "").measures();
    let server = stage.range.server.path();
    let run = |args: &[&str]| rxlab(&stage.state(), args).arg("--netns").arg(&server).said();
    let (code, text) = run(&["trial", "checkpoint", "0001-rps", "--slots", "4"]);
    let words = one_line(&text);
    assert!(code == 1 && words.contains("the change is not set"), "{code}: {text}");
    assert!(words.contains("found rps srv0/rx-0 = off"), "{text}");
    assert_eq!(run(&["apply", "--set", "rps srv0/rx-0 = 1", "--confirm", "60s"]).0, 0);
    let again = run(&["--json", "trial", "checkpoint", "0001-rps", "--slots", "4"]);
    let checkpoint: serde_json::Value = again.json(0);
    assert_eq!(checkpoint["drifted"], serde_json::json!([]));
    // Three pairs show no effect, and may show the lack of one.
    assert!(checkpoint["state"] == "unclear" || checkpoint["state"] == "still_none", "{checkpoint}");
    assert_eq!(checkpoint["values"].as_array().map(Vec::len), Some(4));
    let (_, text) = run(&["trial", "show", "0001-rps"]);
    assert_eq!(text.matches(" min later: ").count(), 2, "{text}");
    assert_eq!(run(&["undo"]).0, 0);
    wait_for("the guard's end", || mentioning(stage.directory.path()).is_empty());
    stage.is_restored();
}

/// With RFS on, TCP flows are received where the application reads, regardless of any RPS mask: here on CPU 0. A
/// trial of a mask for CPU 1 then tests nothing, and must say so.
#[test]
fn a_change_without_effect_gives_no_result() {
    let Some(stage) = Stage::new("0") else { return };
    /// The sysctl is machine-wide: it is restored even if the test fails.
    struct Entries<'a>(&'a Stage);
    impl Drop for Entries<'_> {
        fn drop(&mut self) {
            let _ = self.0.host.write(ENTRIES, self.0.entries.as_bytes());
        }
    }
    let entries = Entries(&stage);
    stage.host.write(ENTRIES, b"4096").expect("written");
    stage.host.write(FLOWS, b"4096").expect("written");
    let text = stage.trial(HTTP, "pairs = 4\nmin_pairs = 4\ncalibration = 0", "").exits(4);
    drop(entries);
    assert!(text.starts_with("trial rps: did not take hold. "), "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let voids: Vec<&str> = record.slots.iter().filter_map(|slot| slot.void.as_deref()).collect();
    assert!(voids.len() >= 3, "three in a row are enough: {text}");
    assert!(voids.iter().all(|why| why.contains("were received on CPU 1")), "{voids:?}");
    assert!(record.slots.iter().all(|slot| slot.void.is_none() || slot.arm == Arm::B));
    stage.is_restored();
}

#[test]
fn a_latency_guard_rolls_back_at_once() {
    let Some(stage) = Stage::new("1") else { return };
    let design = format!("{}\npairs = 4\nmin_pairs = 4\ncalibration = 0", b_first());
    let text = stage.trial(HTTP, &design, "p99_us = 0.001").exits(1);
    assert!(text.starts_with("trial rps: guard tripped, reverted. "), "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let arms: Vec<Arm> = record.slots.iter().map(|slot| slot.arm).collect();
    assert_eq!(arms, [Arm::B], "the first slot was the last");
    let verdict = record.analysis.expect("concluded").verdict;
    assert!(
        matches!(verdict, Verdict::GuardTripped { reason } if reason.contains("% of the requests took longer than "))
    );
    stage.is_restored();
    // Without a reader it ends the same way.
    let mut unread = Running::start(&mut stage.trial(HTTP, &design, "p99_us = 0.001"));
    drop(unread.stdout());
    unread.output().exits(1);
    stage.is_restored();
}
