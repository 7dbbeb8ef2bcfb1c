//! `rxlab tune` on the practice range: whatever it finds, the machine is left as it says.

use std::process::Command;

use rustix::process::Signal;
use rxlab::lab::{Flood, Range, RangeSpec};
use rxlab_base::units::CpuId;
use rxlab_sys::{Host, LiveHost};
use rxlab_trial::blocks::BlocksRecord;
use rxlab_trial::record::TrialRecord;
use rxlab_trial::tuning::{End, Tuning};

use crate::lab::host_in;
use crate::process::{Ended, Running, json, mentioning, one_line, rxlab, wait_for};
use crate::{quiet, require};

const RPS: &str = "sys/class/net/srv0/queues/rx-0/rps_cpus";

/// The range with traffic: CPU 0 sends as much as it can, and receives it.
struct Stage {
    directory: tempfile::TempDir,
    host: LiveHost,
    range: Range,
    flood: Option<Flood>,
    _alone: quiet::Held,
}

impl Stage {
    /// `None` if skipped. Each packet walks through `rules`.
    fn new(rules: u32) -> Option<Self> {
        if !require::netns() {
            return None;
        }
        let alone = quiet::alone();
        let range = Range::build(&RangeSpec { rules, ..RangeSpec::default() }).expect("built");
        let flood = Flood::start(&range, CpuId(0), 8).expect("started");
        Some(Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
            host: host_in(&range.server),
            range,
            flood: Some(flood),
            _alone: alone,
        })
    }

    fn rxlab(&self, args: &[&str]) -> Command {
        let mut command = rxlab(&self.directory.path().join("state"), args);
        command.arg("--netns").arg(self.range.server.path());
        command
    }

    fn tune(&self, args: &[&str]) -> Command {
        self.rxlab(&[&["tune", "--nic", "srv0", "--for", "500ms"], args].concat())
    }

    fn rps(&self) -> String {
        self.host.read_text(RPS).expect("readable").trim().to_owned()
    }

    fn is_restored(&self) {
        assert_eq!(self.rps(), "0");
        wait_for("the guards' end", || mentioning(self.directory.path()).is_empty());
        assert_eq!(self.rxlab(&["status"]).said(), (0, "nothing is applied\n".into()));
    }

    fn record<Record: serde::de::DeserializeOwned>(&self, id: &str) -> Record {
        json(&self.rxlab(&["trial", "show", id, "--json"]).output().expect("rxlab runs"))
    }

    /// Checks a finished one against its records and the machine, and undoes it. Other load may hide or feign any effect,
    /// so that each end is one that can be: but none may say or leave anything else than its trials.
    fn is_honest(&self, code: i32, tuning: &Tuning) {
        assert_eq!(tuning.schema, Tuning::SCHEMA);
        if let Some(id) = &tuning.choice {
            let record: BlocksRecord = self.record(id);
            assert!(
                !record.slots.is_empty()
                    && record.slots.iter().all(|slot| slot.cell <= record.settings.len())
            );
        }
        // The only other mask of two CPUs, or the reader's CPU.
        const CANDIDATES: [(&[&str], &str); 2] =
            [(&["rps srv0/rx-0 = 1"], "2"), (&["rfs_entries host = 32768", "rfs srv0/rx-0 = 32768"], "0")];
        let mut mask = "0";
        let advice = tuning.trial.as_ref().map(|id| {
            let report: serde_json::Value = self.record(id);
            let record: TrialRecord = serde_json::from_value(report.clone()).expect("a record");
            let candidate = CANDIDATES.iter().find(|(change, _)| record.change == *change);
            mask = candidate.unwrap_or_else(|| panic!("no candidate: {:?}", record.change)).1;
            report["recommendation"]["advice"].as_str().expect("advice").to_owned()
        });
        assert_eq!(tuning.end == End::Helps, advice.as_deref() == Some("keep"), "{tuning:?}");
        match &tuning.end {
            End::Helps => {
                assert_eq!((code, self.rps().as_str()), (0, mask));
                let id = tuning.transaction.as_deref().expect("it is set");
                self.rxlab(&["status"]).says(0, id);
                self.rxlab(&["undo"]).exits(0);
            }
            End::Limited | End::NothingToGain => assert_eq!(code, 0, "{tuning:?}"),
            End::Unproven { .. } | End::Stopped { .. } | End::Unmeasurable => {
                assert_eq!(code, 1, "{tuning:?}")
            }
            End::Planned => panic!("{tuning:?}"),
        }
        self.is_restored();
    }
}

#[test]
fn costly_packets_are_tuned_as_far_as_it_is_proven() {
    let Some(stage) = Stage::new(500) else { return };
    let page = stage.directory.path().join("tune.html");
    let html = page.to_str().expect("text");
    let args = ["--yes", "--time", "40s", "--confirm", "10m", "--seed", "3", "--json", "--html", html];
    let output = stage.tune(&args).output().expect("rxlab runs");
    let tuning: Tuning = json(&output);
    if tuning.choice.is_some() {
        // RFS as well, where its reader has another CPU.
        let what = tuning.candidates.iter().map(|tried| tried.what.as_str());
        let masks: Vec<&str> = what.filter(|what| what.starts_with("RPS")).collect();
        assert_eq!(masks, ["RPS to CPU 1"], "never the CPU that receives: {tuning:?}");
    }
    stage.is_honest(output.status.code().expect("not killed"), &tuning);
    let records = stage.rxlab(&["report", html, "--json"]).exits(0);
    for id in tuning.choice.iter().chain(&tuning.trial) {
        assert!(records.contains(id.as_str()), "{id}: {records}");
    }
}

/// Cheap packets: handing them over costs more than it saves.
#[test]
fn cheap_packets_are_left_where_they_are_unless_it_is_proven() {
    let Some(stage) = Stage::new(0) else { return };
    let output = stage.tune(&["--yes", "--time", "30s", "--json"]).output().expect("rxlab runs");
    stage.is_honest(output.status.code().expect("not killed"), &json(&output));
}

#[test]
fn a_dry_run_shows_the_plan_and_changes_nothing() {
    let Some(stage) = Stage::new(500) else { return };
    let text = one_line(&stage.tune(&["--dry-run", "--goal", "cpu"]).exits(0));
    for part in
        ["tune srv0: ", "decides", "RPS to CPU 1", "takes at most", "nothing was changed", "tune --nic srv0"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!stage.directory.path().join("state/trials").exists(), "no record either");
    stage.is_restored();
    // There is no terminal to ask on.
    stage.tune(&["--goal", "cpu"]).says(2, "--yes starts without asking");
    stage.is_restored();
}

#[test]
fn without_traffic_nothing_is_tried() {
    let Some(mut stage) = Stage::new(0) else { return };
    stage.flood = None;
    let text = one_line(&stage.tune(&["--yes"]).exits(1));
    assert!(text.contains("too few to compare anything") && text.contains("nothing was changed"), "{text}");
    stage.tune(&["--yes", "--goal", "latency"]).says(2, "nothing here measures latency");
    stage.is_restored();
}

#[test]
fn a_killed_one_is_restored_by_its_guard_and_goes_on() {
    let Some(stage) = Stage::new(500) else { return };
    let choosing = ["--yes", "--goal", "cpu", "--time", "10m", "--seed", "5"];
    let mut tune = Running::start(&mut stage.tune(&choosing));
    tune.until("a candidate is set", || stage.rps() == "2" && tune_is_set(&stage));
    tune.signal(Signal::KILL);
    drop(tune);
    wait_for("the guard restores", || stage.rps() == "0");
    wait_for("the guard's end", || mentioning(stage.directory.path()).is_empty());
    let slots = |stage: &Stage| stage.record::<BlocksRecord>("0001-tune-srv0").slots.len();
    let before = slots(&stage);
    let mut resumed = Running::start(&mut stage.rxlab(&["tune", "--yes", "--resume", "0001-tune-srv0"]));
    resumed.until("it goes on", || slots(&stage) > before);
    resumed.signal(Signal::INT);
    (&resumed.output()).says(130, "tune --resume");
    stage.is_restored();
    stage.rxlab(&["tune", "--yes", "--resume", "0009-x"]).says(2, "0009-x");
}

/// True if the journal of a trial has begun: the mask is not that of another program.
fn tune_is_set(stage: &Stage) -> bool {
    stage.rxlab(&["status"]).said().1.contains("trial 0001-tune-srv0")
}
