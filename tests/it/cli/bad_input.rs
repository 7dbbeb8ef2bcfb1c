//! Wrong input: one clear line, the documented exit code, and an unchanged machine.

use crate::process::{Ended, free_port};
use crate::tree::Tree;

/// The first line states the error; further lines are hints.
fn refused(tree: &Tree, args: &[&str], code: i32, message: &str) -> String {
    let out = tree.rxlab(args);
    assert!(out.stdout.is_empty(), "{args:?}: {out:?}");
    let text = out.exits(code);
    let mut lines = text.lines();
    let first = lines.next().expect("one line");
    assert!(first.starts_with("rxlab: ") && first.contains(message), "{args:?}: {text}");
    assert!(lines.all(|line| line.starts_with("  hint: ")), "{args:?}: {text}");
    assert_eq!(tree.values(), Tree::new().values(), "{args:?}");
    assert!(!tree.state().exists(), "{args:?}: not even a state directory");
    text
}

const SPEC: &str = "name = \"rps\"\n\n[change]\nset = [\"rps eth0/rx-0 = 2-3\"]\n\n[workload]\nlive = true\n";

#[test]
fn an_unknown_interface_is_reported_with_the_existing_ones() {
    let tree = Tree::new();
    for args in [
        &["show", "--nic", "eth7"][..],
        &["doctor", "--nic", "eth7", "--for", "150ms"],
        &["trial", "run", "--a", "true", "--b", "true", "--live", "--nic", "eth7"],
        &["trial", "run", "--set", "rps eth0/rx-0 = 2-3", "--live", "--nic", "eth7"],
    ] {
        let text = refused(&tree, args, 2, "no interface `eth7`");
        assert!(text.contains("hint: interfaces here: eth0, veth0"), "{text}");
    }
    let here = "no interface eth7 (found: eth0, veth0)";
    refused(&tree, &["apply", "--setting", "rps eth7/rx-0 = 2"], 2, here);
    refused(&tree, &["trial", "run", "--set", "rps eth7/rx-0 = 2", "--live"], 2, here);
    let spec = tree.file("given.toml", &SPEC.replace("eth0", "eth7"));
    refused(&tree, &["trial", "run", &spec], 2, here);
}

#[test]
fn a_misspelt_finding_gets_a_suggestion() {
    let tree = Tree::new();
    let args = ["explain", "one-core-hotpot"];
    let text = refused(&tree, &args, 2, "unknown finding or term `one-core-hotpot`");
    assert!(text.contains("hint: nearest: one-core-hotspot"), "{text}");
}

#[test]
fn a_mask_with_an_offline_cpu_is_refused() {
    let tree = Tree::new();
    let why = "rps eth0/rx-0: CPU 7 is offline (online: 0-6)";
    refused(&tree, &["apply", "--setting", "rps eth0/rx-0 = 2,7"], 2, why);
    refused(&tree, &["trial", "run", "--set", "rps eth0/rx-0 = 2,7", "--live"], 2, why);
    let spec = tree.file("given.toml", &SPEC.replace("2-3", "2,7"));
    refused(&tree, &["trial", "run", &spec], 2, why);
    let plan = tree.file("given.toml", "[[setting]]\nset = \"rps eth0/rx-0 = 2,7\"\n");
    refused(&tree, &["apply", &plan], 2, why);
    refused(&tree, &["trial", "run", "--plan", &plan, "--live"], 2, why);
}

/// Nothing is written before everything is checked.
#[test]
fn a_wrong_setting_after_a_valid_one_is_refused() {
    let tree = Tree::new();
    for (setting, message) in [
        ("rps eth0/rx-5 = 2", "eth0 has no queue rx-5 (it has rx-0, rx-1)"),
        ("rps eth0/rx-0 = 6", "CPU 6 is isolated"),
        ("rps eth0/rx-0 = 99", "CPU 99 does not exist"),
        ("rfs_entries host = 536870913", "the largest table has 536870912 entries"),
        ("irq_affinity veth0/rx-0 = 1", "no interrupt of veth0/rx-0 found"),
        ("rpz eth0/rx-0 = 1", "unknown knob `rpz` (did you mean `rps`?)"),
        ("rps eth0 = 1", "rps acts on a receive queue (NIC/rx-N), not on eth0"),
        ("rps eth0/x = 1", "is not a target"),
    ] {
        let settings = ["apply", "--setting", "rps veth0/rx-0 = 1", "--setting", setting];
        tree.rxlab(&settings).says(2, message);
        assert_eq!(tree.values(), Tree::new().values(), "{setting}");
        assert!(!tree.state().exists(), "{setting}: not even a state directory");
    }
}

#[test]
fn a_malformed_specification_is_refused_with_line_and_column() {
    let tree = Tree::new();
    for (text, place) in [
        (SPEC.replace("live = true", "live = yes"), "given.toml: line 7, column 8: "),
        (SPEC.replace("live = true", "live = true\nsped = 1"), "given.toml: line 8, column 1: "),
        (SPEC.replace("rps eth0/rx-0 = 2-3", "rps eth0/rx-0"), "given.toml: line 4, column 7: "),
        (SPEC.replace("[workload]", "[workload"), "given.toml: line 6, column 10: "),
        (SPEC.replace("live = true", "load = { url = \"ftp://x\" }"), "given.toml: line 7, column 16: "),
        (SPEC.to_owned() + "[design]\npairs = 1\n", "given.toml: [design] pairs = 1: "),
        (SPEC.replace("live = true", ""), "given.toml: [workload] needs exactly one of"),
    ] {
        refused(&tree, &["trial", "run", &tree.file("given.toml", &text)], 2, place);
    }
    refused(&tree, &["trial", "run", "/no/such/spec"], 2, "cannot read the specification /no/such/spec: ");
}

#[test]
fn trial_checks_a_plan_like_apply() {
    let tree = Tree::new();
    for (text, code, message) in [
        ("name = \"x\"\n\n[[setting]]\nset = \"rps eth0/rx-0\"\n", 2, "given.toml: line 4, column 7: "),
        ("host = \"web1\"\n[[setting]]\nset = \"rps eth0/rx-0 = 1\"\n", 4, "the plan is for host web1"),
        (
            "[[setting]]\nset = \"rps eth0/rx-0 = 1\"\ndevice = \"pci:0000:00:99.0\"\n",
            4,
            "the plan is for another machine",
        ),
    ] {
        let plan = tree.file("given.toml", text);
        refused(&tree, &["apply", &plan], code, message);
        refused(&tree, &["trial", "run", "--plan", &plan, "--live"], code, message);
    }
    refused(&tree, &["apply", "/no/such/plan"], 2, "cannot read the plan /no/such/plan");
}

#[test]
fn a_trial_of_an_unreachable_target_does_not_start() {
    let tree = Tree::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let set = ["trial", "run", "--set", "rps eth0/rx-0 = 2-3", "--load", &url];
    refused(&tree, &set, 5, "cannot reach the target");
    refused(&tree, &["load", &url, "--for", "1s"], 5, "cannot reach the target");
}

#[test]
fn an_unknown_primary_metric_is_refused() {
    let tree = Tree::new();
    let live = ["trial", "run", "--set", "rps eth0/rx-0 = 2-3", "--live", "--primary", "p42"];
    let none = "primary = `p42`: no such metric (known: throughput, ";
    refused(&tree, &live, 2, none);
    let load =
        ["trial", "run", "--a", "true", "--b", "true", "--load", "http://127.0.0.1:1/", "--primary", "p42"];
    refused(&tree, &load, 2, none);
    let spec = tree.file("given.toml", &(SPEC.to_owned() + "[design]\nprimary = \"p42\"\n"));
    refused(&tree, &["trial", "run", &spec], 2, none);
}

#[test]
fn only_a_running_machine_can_be_diagnosed() {
    let tree = Tree::new();
    refused(&tree, &["doctor", "--for", "150ms"], 2, "this is a recording, not a running machine");
    let nowhere = tree.path().join("nowhere");
    let nowhere = nowhere.to_str().expect("text");
    for command in ["show", "doctor"] {
        refused(&tree, &["--netns", nowhere, command], 2, "cannot enter the network namespace");
    }
}

#[test]
fn a_missing_trial_or_transaction_is_named() {
    let tree = Tree::new();
    refused(&tree, &["trial", "show", "0042-rps"], 2, "no trial `0042-rps` in ");
    refused(&tree, &["trial", "resume", "0042-rps"], 2, "no trial `0042-rps` in ");
    refused(&tree, &["undo", "000042"], 2, "no open transaction `000042`");
    refused(&tree, &["confirm"], 4, "no change is waiting for confirmation");
}
