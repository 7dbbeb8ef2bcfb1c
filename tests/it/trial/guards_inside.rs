//! Guards that trip while a slot runs: the slot ends and the value is back long before its time.

use std::time::{Duration, Instant};

use rxlab_stats::design::Arm;
use rxlab_sys::{Host, LiveHost};
use rxlab_trial::record::{TrialRecord, Verdict};

use super::on_the_range::{HTTP, RPS, Stage, b_first};
use super::{moving_workload, record};
use crate::process::{Ended, Running, mentioning, wait_for};
use crate::tree::Tree;

/// Slots and commands here would last this long.
const SLOT: Duration = Duration::from_secs(60);

/// Waits until `is_back`, and checks that it took far less than a slot since `exceeded`.
pub(super) fn rolls_back(exceeded: Instant, is_back: impl FnMut() -> bool) {
    wait_for("the rollback", is_back);
    let time = exceeded.elapsed();
    assert!(time < SLOT / 4, "reverted {time:?} after the limit was exceeded");
}

/// The reason of the tripped guard and the only slot, which was cut short.
fn tripped(record: &TrialRecord, arm: Arm) -> &str {
    let Some(Verdict::GuardTripped { reason }) = record.analysis.as_ref().map(|a| &a.verdict) else {
        panic!("{:?}", record.analysis)
    };
    let slot = record.slots.last().expect("a slot");
    assert_eq!(slot.arm, arm);
    assert_eq!(slot.void.as_deref(), Some(format!("guard tripped: {reason}").as_str()));
    assert!(slot.seconds < SLOT.as_secs_f64() / 2.0, "{}", slot.seconds);
    reason
}

pub(super) fn is_set(host: &LiveHost) -> bool {
    host.read_text(RPS).expect("readable").trim() != "0"
}

#[test]
fn errors_end_a_slot_of_a_minute() {
    let Some(mut stage) = Stage::new("1") else { return };
    let design = format!("{}\npairs = 4\nmin_pairs = 4\ncalibration = 0\nmeasure = \"60s\"", b_first());
    let mut trial = Running::start(&mut stage.trial(HTTP, &design, ""));
    trial.until("arm B", || is_set(&stage.host));
    let exceeded = Instant::now();
    drop(stage.target.take());
    rolls_back(exceeded, || !is_set(&stage.host));
    let text = trial.output().exits(1);
    assert!(text.starts_with("trial rps: guard tripped, reverted. "), "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let reason = tripped(&record, Arm::B);
    assert!(reason.contains("% of the requests failed (limit 1.00 %), "), "{reason}");
    assert!(reason.ends_with(" s after the slot began"), "{reason}");
    stage.is_restored();
}

/// The washout is as harmful as the rest: nothing is measured there, but the change is set.
#[test]
fn latency_ends_a_washout_of_a_minute() {
    let Some(stage) = Stage::new("1") else { return };
    let design = format!("{}\npairs = 4\nmin_pairs = 4\ncalibration = 0\nwashout = \"60s\"", b_first());
    let begun = Instant::now();
    let (code, text) = stage.trial(HTTP, &design, "p99_us = 0.001").said();
    rolls_back(begun, || !is_set(&stage.host));
    assert_eq!(code, 1, "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    assert!(tripped(&record, Arm::B).contains("% of the requests took longer than "));
    stage.is_restored();
}

#[test]
fn a_slot_without_the_change_says_so() {
    let Some(stage) = Stage::new("1") else { return };
    let design = "pairs = 4\nmin_pairs = 4\ncalibration = 1\nmeasure = \"60s\"";
    let text = stage.trial(HTTP, design, "p99_us = 0.001").exits(1);
    assert!(text.starts_with("trial rps: guard tripped without the change. "), "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let reason = tripped(&record, Arm::A);
    assert!(reason.ends_with("; the change was not set: this is about the machine or its load"));
    stage.is_restored();
}

/// The command drops packets while arm B is set, and would run for a minute.
#[test]
fn drops_end_a_command_of_a_minute() {
    let tree = Tree::new();
    let row = |dropped: &str| format!("00000000 {dropped} {}", "00000000 ".repeat(7).trim_end());
    tree.write("proc/net/softnet_stat", format!("{}\n", row("00000000")));
    let drops = format!(
        "case $(cat sys/class/net/eth0/queues/rx-0/rps_cpus) in 0|00) ;; *)\n\
         echo '{}' > ../row && mv ../row proc/net/softnet_stat && touch ../exceeded; sleep 60 ;; esac\n\
         echo 5",
        row("00002000")
    );
    let command = moving_workload(&tree, "0.1", &drops);
    let text = format!(
        "name = \"drops\"\n[change]\nset = [\"rps eth0/rx-0 = 2-3\"]\n[workload]\ncommand = \"{command}\"\n\
         [design]\nseed = 11\npairs = 6\nmin_pairs = 6\ncalibration = 0\nwashout = \"0s\"\n\
         [guards]\ndrops = 1000\n"
    );
    let mut trial = Running::start(&mut tree.trial(&text));
    trial.until("the drops", || tree.path().join("exceeded").exists());
    rolls_back(Instant::now(), || tree.rps("eth0", 0) == "0");
    trial.output().exits(1);
    let record = record(&tree.state(), "0001-drops").expect("on disk");
    let reason = tripped(&record, Arm::B);
    assert!(reason.starts_with("8192 packets were dropped in "), "{reason}");
    assert_eq!(mentioning(tree.path()), [], "the command was killed with all it had started");
}
