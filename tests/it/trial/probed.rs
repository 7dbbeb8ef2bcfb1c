//! Trials evaluated by the probe, on the practice range.

use std::process::Command;

use rxlab::lab::RangeSpec;
use rxlab_stats::design::{Arm, Phase};
use rxlab_trial::record::{ProbeSlots, Slot, TrialRecord};

use super::on_the_range::Stage;
use super::record;
use crate::process::Ended;
use crate::require;

/// A trial that spreads many flows over both CPUs, with this design and probe.
fn trial(stage: &Stage, design: &str, probe: &str) -> Command {
    let text = format!(
        "name = \"rps\"\n[change]\nset = [\"rps srv0/rx-0 = 0-1\"]\n\
         [workload]\nnic = \"srv0\"\n\
         load = {{ url = \"udp-sink://10.98.0.1:9000\", connections = 64, cpus = \"0\", rate = 5000, \
         netns = \"{}\" }}\n\
         [design]\nseed = 5\ncalibration = 0\nwashout = \"50ms\"\nmeasure = \"300ms\"\n{design}\n\
         [guards]\n[probe]\n{probe}\n",
        stage.range.client.path().display()
    );
    stage.run(&text)
}

fn compared(record: &TrialRecord) -> impl Iterator<Item = &Slot> {
    record.slots.iter().filter(|slot| slot.phase == Phase::Comparison && slot.void.is_none())
}

#[test]
fn rps_spreads_the_measured_time_over_both_cpus() {
    require::needs!(bpf);
    // The interrupts that hand over a packet and wake its reader are spent by the sender's CPU in both arms: up to 10
    // us each on a virtual machine. RPS can move only the processing of each packet.
    let rules = RangeSpec { rules: 512, ..RangeSpec::default() };
    let Some(stage) = Stage::with("1", &rules) else { return };
    let design = "pairs = 6\nmin_pairs = 6\nprimary = \"net_rx.share.max_cpu\"\n\
                  metrics = [\"net_rx.ns_per_packet\", \"net_rx.packets\", \"victim.rxlab.interference\"]";
    // The verdict is about time, which depends on the machine; which CPU the time is spent on does not.
    let text = trial(&stage, design, "").measures();
    assert!(text.contains("probe: attached in every slot of both arms, its programs took "), "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let analysis = record.analysis.as_ref().expect("concluded");
    let hottest = &analysis.metrics[0];
    assert_eq!((hottest.metric.name.as_str(), hottest.pairs), ("net_rx.share.max_cpu", 6), "{text}");
    assert!(hottest.effect.is_some_and(|effect| effect.high.is_finite()), "{text}");
    assert_eq!(record.probe.as_ref().map(|probe| probe.slots), Some(ProbeSlots::Attached));
    for slot in compared(&record) {
        let cost = slot.probe_cost.expect("counted");
        assert!(cost.ns > 0 && cost.runs > 100, "{cost:?}");
        let value = |name: &str| slot.values[name];
        assert!(value("victim.rxlab.interference") > 0.0, "{:?}", slot.values);
        // Receive time of all CPUs, as a fraction of one CPU: without RPS all of it is the sender's.
        let all = value("net_rx.ns_per_packet") * value("net_rx.packets") / 1e7;
        let part = value("net_rx.share.max_cpu") / all;
        // With both CPUs, half and half but for the hash; other traffic of the machine is in it too.
        assert_eq!(part > 0.9, slot.arm == Arm::A, "{part} {:?}", slot.values);
        assert!(part < 1.05, "{part} {:?}", slot.values);
    }
    stage.is_restored();
}

/// The probe then slows only its own interval.
#[test]
fn the_probe_can_run_between_slots() {
    require::needs!(bpf);
    let Some(stage) = Stage::new("1") else { return };
    let design = "pairs = 2\nmin_pairs = 2\nmetrics = [\"net_rx.ns_per_packet\", \"net_rx.packets\"]";
    let text = trial(&stage, design, "slots = \"detached\"").measures();
    assert!(text.contains("probe: attached after each slot only"), "{text}");
    let record = record(&stage.state(), "0001-rps").expect("on disk");
    let slots: Vec<&Slot> = compared(&record).collect();
    assert_eq!(slots.len(), 4, "{text}");
    for slot in &slots {
        assert!(slot.values["net_rx.ns_per_packet"] > 50.0 && slot.values["throughput"] > 0.0);
        assert!(slot.values["net_rx.packets"] > 100.0 && slot.probe_cost.expect("counted").runs > 100);
    }
    // Between two slots is the probe's own interval, as long as a slot.
    let apart = slots.windows(2).map(|pair| pair[1].start_s - pair[0].start_s - pair[0].seconds);
    assert!(apart.into_iter().all(|apart| apart > 0.3 + 0.05), "{text}");
    stage.is_restored();
}
