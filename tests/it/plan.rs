//! Plans by command: the planner's, and of one's own values.

use rxlab::plan::Plan;

use crate::tree::{Tree, said};

#[test]
fn a_plan_of_own_values_is_checked_and_bound_to_the_machine() {
    let tree = Tree::new();
    let file = tree.path().join("plan.toml");
    let path = file.to_str().expect("text");
    let own = ["--setting", "rps eth0/rx-0 = 3,2", "--setting", "channels eth0 = 3", "-o", path];
    let (code, text) = said(&tree.rxlab(&[&["plan"], &own[..]].concat()));
    assert_eq!((code, text.as_str()), (0, ""));
    let plan = Plan::from_toml(&std::fs::read_to_string(&file).expect("written")).expect("a plan");
    assert_eq!(plan.host.as_deref(), Some("treehost"));
    let settings: Vec<String> = plan.settings.iter().map(|planned| planned.set.to_string()).collect();
    assert_eq!(settings, ["channels eth0 = combined 3", "rps eth0/rx-0 = 2-3"], "in the order of applying");
    let devices = plan.settings.iter().map(|planned| planned.device.as_ref().map(|device| device.0.as_str()));
    assert_eq!(devices.collect::<Vec<_>>(), [Some("pci:0000:00:03.0"); 2]);
    let (code, text) = said(&tree.rxlab(&["apply", path, "--dry-run"]));
    assert!(code == 0 && text.contains("rps eth0/rx-0 = 2-3  (now off)"), "{text}");
    let (code, text) = said(&tree.rxlab(&["plan", "--setting", "rps eth0/rx-0 = 99"]));
    assert!(code == 2 && text.contains("CPU 99 does not exist"), "{text}");
}

/// A machine with one queue for eight CPUs, as it was under load.
#[test]
fn the_planner_s_plan_of_a_snapshot_is_by_name_or_the_widest() {
    let snapshot = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts/virtio-8cpu-1queue/host.tar.zst");
    let tree = Tree::new();
    let plan = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_rxlab"));
        command.arg("--state-dir").arg(tree.state()).arg("plan").args(args).args(["--snapshot", snapshot]);
        said(&command.output().expect("rxlab runs"))
    };
    let (code, text) = plan(&[]);
    let widest = Plan::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((code, widest.name.as_str()), (0, "rps+rfs"));
    let (code, text) = plan(&["rps", "--nic", "eth0"]);
    let rps = Plan::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((code, rps.settings.len()), (0, 1));
    assert!(!rps.settings[0].why.is_empty());
    let (code, text) = plan(&["xps"]);
    assert!(
        code == 2 && text.contains("there is no plan `xps`") && text.contains("rps, rfs, rps+rfs"),
        "{text}"
    );
    let (code, text) = plan(&["--nic", "lo"]);
    assert!(code == 0 && text.starts_with("nothing to plan\n  lo receives inside"), "{text}");
}
