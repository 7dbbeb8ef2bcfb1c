//! Plans by command: those of the planner, and of the user's own values.

use rxlab_base::units::CpuMask;
use rxlab_faces::report::forecast::Forecast;
use rxlab_setting::Plan;

use crate::fixtures::captured;
use crate::process::{Ended, rxlab};
use crate::tree::Tree;

#[test]
fn a_plan_of_own_values_is_checked_and_bound_to_the_machine() {
    let tree = Tree::new();
    let file = tree.path().join("plan.toml");
    let path = file.to_str().expect("text");
    let own = ["--setting", "rps eth0/rx-0 = 3,2", "--setting", "channels eth0 = 3", "-o", path];
    let text =
        tree.rxlab(&[&["plan"], &own[..]].concat()).says_all(0, &["rps eth0/rx-0 = 2-3", "link reset"]);
    assert!(text.ends_with(&format!("plan: {path}\n")), "no next command in a pipe: {text}");
    let plan = Plan::from_toml(&std::fs::read_to_string(&file).expect("written")).expect("a plan");
    assert_eq!(plan.host.as_deref(), Some("treehost"));
    let settings: Vec<String> = plan.settings.iter().map(|planned| planned.set.to_string()).collect();
    assert_eq!(settings, ["channels eth0 = combined 3", "rps eth0/rx-0 = 2-3"], "in the order of applying");
    let devices = plan.settings.iter().map(|planned| planned.device.as_ref().map(|device| device.0.as_str()));
    assert_eq!(devices.collect::<Vec<_>>(), [Some("pci:0000:00:03.0"); 2]);
    tree.rxlab(&["apply", path, "--dry-run"]).says(0, "rps eth0/rx-0 = 2-3  (now off)");
    tree.rxlab(&["plan", "--setting", "rps eth0/rx-0 = 99"]).says(2, "CPU 99 does not exist");
}

/// Output of `rxlab plan` for a captured machine.
fn planned(host: &str, args: &[&str]) -> (i32, String) {
    let state = tempfile::tempdir().expect("a temporary directory");
    rxlab(state.path(), &["plan", "--snapshot", &captured(host)]).args(args).said()
}

/// The plan for a captured machine, in lines that fit a terminal.
fn plan_of(host: &str, args: &[&str]) -> Plan {
    let text = planned(host, args).exits(0);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    Plan::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn values(plan: &Plan, knob: &str) -> Vec<String> {
    let own = plan.settings.iter().filter(|planned| planned.set.knob == knob);
    own.map(|planned| planned.set.value.clone()).collect()
}

/// Field case D: the interrupts of 16 queues on the last 16 of 128 CPUs, and its flow tables.
#[test]
fn the_settings_of_field_case_d() {
    let host = "virtio-128cpu-16queue";
    for args in [&["isolate"][..], &["--policy", "isolate", "--isolated", "0-111"], &["isolate.irq"]] {
        let plan = plan_of(host, args);
        let of_rx = plan.settings.iter().filter(|planned| planned.set.target.to_string().contains("/rx-"));
        let cpus: Vec<String> = of_rx.map(|planned| planned.set.value.clone()).collect();
        assert_eq!(cpus, (112..128).map(|cpu| cpu.to_string()).collect::<Vec<_>>(), "{args:?}");
        let all: CpuMask = cpus.join(",").parse().expect("a list");
        assert_eq!(all.to_hex(), "ffff0000,00000000,00000000,00000000");
        assert_eq!(values(&plan, "rps"), [""; 0], "each of these CPUs has a queue");
    }
    for policy in ["numa-local", "full"] {
        let plan = plan_of(host, &[policy]);
        assert_eq!(values(&plan, "rfs"), [""; 0], "RPS hands the packets on");
        assert_eq!(
            values(&plan, "irq_affinity")[..3],
            ["7", "9", "17"],
            "where they land, of all that they may"
        );
        assert!(
            plan.settings.iter().any(|planned| planned.why.ends_with("its own core, where it lands now"))
        );
        assert_eq!(values(&plan, "rps")[..2], ["0-6", "8,10-15"]);
        assert_eq!(values(&plan, "xps_cpus"), [""; 0], "the driver has the right ones");
    }
    for args in [&["rfs", "--nic", "eth0"][..], &["rfs", "--policy", "numa-local"], &["full.rfs"]] {
        let plan = plan_of(host, args);
        assert_eq!(values(&plan, "rfs_entries"), ["32768"], "{args:?}");
        assert_eq!(values(&plan, "rfs"), vec!["2048"; 16], "{args:?}");
    }
}

/// Each setting states its risk for traffic and its upkeep.
#[test]
fn a_plan_of_a_policy_has_risk_upkeep_and_variables() {
    let plan = plan_of("virtio-32cpu-2node", &["numa-local", "--cpus-per-queue", "7"]);
    assert_eq!(values(&plan, "rps"), ["17-23"], "field case C's best mask");
    assert!(plan.settings.iter().all(|planned| planned.risk.is_some() && planned.upkeep.is_some()));
    assert!(
        plan.notes.iter().any(|note| note.contains("numa-local.irq, numa-local.rps")),
        "{:?}",
        plan.notes
    );
    let rps = plan_of("virtio-32cpu-2node", &["rps", "--policy", "numa-local", "--cpus-per-queue", "7"]);
    assert_eq!((rps.name.as_str(), rps.settings.len()), ("numa-local.rps", 1));
    let (code, text) = planned("virtio-32cpu-2node", &["minimal"]);
    assert!(code == 0 && text.starts_with("nothing to plan\n"), "{text}");
    planned("virtio-32cpu-2node", &["full.all"]).says(2, "`all` is not one of channels, rss");
    planned("virtio-32cpu-2node", &["isolate", "--isolated", "31-32"]).says(2, "no CPU 32");
}

/// A machine with one queue for eight CPUs, captured under load.
#[test]
fn plans_of_a_snapshot_by_name_or_by_choice() {
    let plan = |args: &[&str]| planned("virtio-8cpu-1queue", args);
    let chosen = plan_of("virtio-8cpu-1queue", &[]);
    assert_eq!(chosen.name.as_str(), "spread");
    assert_eq!(plan_of("virtio-8cpu-1queue", &["rps+rfs"]).settings.len(), 3);
    let rps = plan_of("virtio-8cpu-1queue", &["rps", "--nic", "eth0"]);
    assert_eq!((rps.settings.len(), &rps.settings), (1, &chosen.settings));
    assert!(!rps.settings[0].why.is_empty());
    plan(&["xps"]).says_all(2, &["unknown plan `xps`", "rps, rfs, rps+rfs"]);
    // With and without a name, nothing to plan is no error.
    for name in [&["--nic", "lo"][..], &["rps", "--nic", "lo"], &["spread.rps", "--nic", "lo"]] {
        let (code, text) = plan(name);
        assert!(code == 0 && text.starts_with("nothing to plan\n  lo receives inside"), "{name:?}: {text}");
        let empty: Plan = plan(&[name, &["--json"][..]].concat()).json(0);
        assert!(empty.settings.is_empty() && empty.notes[0].starts_with("lo receives inside"), "{empty:?}");
    }
}

/// A script that plans into a file and applies it would otherwise apply an outdated plan.
#[test]
fn a_failed_plan_leaves_no_outdated_file() {
    let tree = Tree::new();
    let file = tree.path().join("plan.toml");
    let path = file.to_str().expect("text");
    for more in [&[][..], &["--predict"]] {
        let args = [&["minimal", "-o", path], more].concat();
        let text = planned("virtio-32cpu-2node", &args).says(5, "nothing to plan, so no file was written");
        assert!(text.contains("rps: nothing to change") && !file.exists(), "{text}");
    }
    std::fs::write(&file, "of yesterday").expect("written");
    planned("virtio-32cpu-2node", &["minimal", "-o", path])
        .says(5, "plan.toml is from an earlier run and was left unchanged");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "of yesterday");
}

/// A file has the same plan with and without a prediction.
#[test]
fn a_prediction_does_not_change_the_plan() {
    let tree = Tree::new();
    let written = |more: &[&str]| {
        let file = tree.path().join("plan.toml");
        let args = [&["-o", file.to_str().expect("text")], more].concat();
        planned("virtio-8cpu-1queue", &args).says(0, "rough: CPU 2: 98 -> ");
        Plan::from_toml(&std::fs::read_to_string(&file).expect("written")).expect("a plan")
    };
    let (plain, predicted) = (written(&[]), written(&["--predict"]));
    assert_eq!((&plain.name, &plain.settings), (&predicted.name, &predicted.settings));
    assert!(plain.prediction.is_some() && plain.prediction == predicted.prediction, "{plain:?}");
}

/// Costs cannot be measured on a snapshot: the prediction is a rough guess, and the output says so.
#[test]
fn plans_of_a_snapshot_are_predicted_without_calibration() {
    let report: Forecast = planned("virtio-8cpu-1queue", &["--predict", "--json"]).json(0);
    let names: Vec<&str> = report.plans.iter().map(|plan| plan.name.as_str()).collect();
    assert_eq!(names, ["rps", "rfs", "rps+rfs"]);
    let prediction = report.plans[0].prediction.as_ref().expect("RPS moves work");
    assert!(prediction.basis.starts_with("a rough guess"), "{prediction:?}");
    assert!(prediction.packets > 0.0 && prediction.most_after > prediction.most_before, "{prediction:?}");

    // One CPU of eight is full.
    assert!(prediction.regime().starts_with("this lets the host take "), "{}", prediction.regime());

    // Almost nothing is received, so there is no basis for a prediction.
    planned("virtio-16cpu-2nic", &["--predict"]).says(0, "no prediction: 0.2 packets/s are too few");

    // The user's own values have a prediction too, and the file keeps it.
    let tree = Tree::new();
    let file = tree.path().join("own.toml");
    let path = file.to_str().expect("text");
    let own = ["--setting", "rps eth0/rx-0 = 4-7", "--predict", "-o", path];
    let text = planned("virtio-8cpu-1queue", &own).exits(0);
    assert!(text.ends_with(&format!("plan: {path}\n")), "{text}");
    let own = Plan::from_toml(&std::fs::read_to_string(&file).expect("written")).expect("a plan");
    let prediction = own.prediction.expect("RPS moves work");
    let gets_more = |cpu: u32| {
        let load = prediction.cpus.iter().find(|load| load.cpu.0 == cpu);
        load.is_some_and(|load| load.after > load.before)
    };
    assert!((4..8).all(gets_more) && !(0..4).any(gets_more), "{prediction:?}");
}
