//! Output format: JSON with a schema, lines that fit, no escape codes in a pipe, and readers that close the pipe.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixtures::captured;
use crate::process::{Ended, Running, json, on_a_terminal, rxlab};
use crate::tree::Tree;

const APPLY: [&str; 3] = ["apply", "--setting", "rps eth0/rx-0 = 2-3"];

fn schema(tree: &Tree, args: &[&str]) -> String {
    let out = tree.rxlab(&[&["--json"], args].concat());
    let value: Value = json(&out);
    assert!(out.stderr.is_empty(), "{args:?}: {out:?}");
    value["schema"].as_str().unwrap_or_else(|| panic!("{args:?}: no schema")).to_owned()
}

#[test]
fn all_json_output_has_a_schema() {
    let tree = Tree::new();
    let dry = [&APPLY[..], &["--dry-run"]].concat();
    for (args, expected) in [
        (&["show"][..], "rxlab.model/2"),
        (&["show", "--nic", "eth0"], "rxlab.model/2"),
        (&["show", "--cpu", "0"], "rxlab.cpus/1"),
        (&["explain"], "rxlab.rules/1"),
        (&["explain", "backlog-drops"], "rxlab.rules/1"),
        (&["status"], "rxlab.status/1"),
        (&["undo"], "rxlab.undo/1"),
        (&dry, "rxlab.apply/1"),
        (&APPLY, "rxlab.apply/1"),
        (&["status"], "rxlab.status/1"),
        (&["reapply"], "rxlab.reapply/1"),
        (&["undo"], "rxlab.undo/1"),
        (&["trial", "list"], "rxlab.trials/1"),
        (&["apply", "--confirm", "60s", "--setting", "rps eth0/rx-0 = 2"], "rxlab.apply/1"),
        (&["confirm"], "rxlab.confirm/1"),
    ] {
        assert_eq!(schema(&tree, args), expected, "{args:?}");
    }
    // A recording cannot be diagnosed: this samples the real machine. Load and target have their own test.
    let out = rxlab(&tree.state(), &["doctor", "--for", "100ms", "--json"]).output().expect("rxlab runs");
    let value: Value = json(&out);
    assert_eq!(value["schema"], "rxlab.findings/2");
}

/// Lines fit, without escape codes.
fn plain(what: &[&str], text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{what:?}: {line}");
    }
    assert!(!text.contains('\x1b'), "{what:?}: {text:?}");
}

#[test]
fn lines_fit_and_a_pipe_gets_no_escape_codes() {
    let tree = Tree::new();
    let plain_of = |args: &[&str]| {
        let (_, text) = tree.rxlab(args).said();
        assert!(!text.is_empty(), "{args:?}");
        plain(args, &text);
    };
    let commands =
        "show doctor explain apply confirm undo status reapply interference trace demo target load";
    for (parent, commands) in [(&[][..], commands), (&["trial"], "run resume show list")] {
        plain_of(&[parent, &["--help"]].concat());
        for command in commands.split(' ') {
            plain_of(&[parent, &[command, "--help"]].concat());
        }
    }
    for view in [&[][..], &["--nic", "eth0"], &["--cpu", "0-7"], &["--tree"], &["--tree", "--nic", "veth0"]] {
        plain_of(&[&["show"], view].concat());
    }
    plain_of(&["explain"]);
    plain_of(&["explain", "one-core-hotspot"]);
    plain_of(&["status"]);
    plain_of(&["apply", "--confirm", "600s", "--setting", "rps eth0/rx-0 = 2-3"]);
    plain_of(&["status"]);
    plain_of(&["confirm"]);
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "20\n");
    plain_of(&["status"]);
    plain_of(&["reapply", "--dry-run"]);
    plain_of(&["undo"]);
    plain(&["doctor"], &rxlab(&tree.state(), &["doctor", "--for", "100ms"]).said().1);
}

/// A terminal gets styles unless NO_COLOR is set.
#[test]
fn no_color_is_obeyed_on_a_terminal() {
    let tree = Tree::new();
    let shown = |no_color: Option<&str>| {
        let mut command = on_a_terminal(&tree.command(&["show"]));
        command.env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
        command.exits(0)
    };
    assert!(shown(None).contains('\x1b'));
    assert!(!shown(Some("1")).contains('\x1b'));
}

/// As with `rxlab show | head -c 1`: the reader closes the pipe before everything is written.
#[test]
fn a_closed_pipe_is_not_an_error() {
    let tree = Tree::new();
    let dry = [&APPLY[..], &["--dry-run"]].concat();
    for args in
        [&["show"][..], &["show", "--json"], &["status"], &["undo"], &dry, &["trial", "list"], &["--help"]]
    {
        let out = unread(tree.command(args), false).output().expect("rxlab runs");
        assert_eq!(out.status.code(), Some(0), "{args:?}: {out:?}");
        assert!(out.stderr.is_empty(), "{args:?}: {out:?}");
    }
}

/// A command whose reader has closed the pipe before it starts.
fn unread(mut command: Command, errors_too: bool) -> Command {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    if errors_too {
        command.stderr(writer.try_clone().expect("a pipe"));
    }
    command.stdout(writer);
    command
}

/// `rxlab undo | true` once exited with 0 although a value had drifted and was not restored.
#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let tree = Tree::new();
    let captured = captured("virtio-8cpu-1queue");
    let plan = tree.path().join("plan.toml");
    let plan_out = format!("rps={}", plan.display());
    let doctor = ["doctor", "--snapshot", &captured, "--plan-out", &plan_out];
    let fails = ["trial", "run", "--set", "rps eth0/rx-0 = 2", "--command", "false", "--washout", "0s"];
    for json in [&[][..], &["--json"]] {
        for errors_too in [false, true] {
            let command_ends = |command: Command, code: i32| {
                let out = unread(command, errors_too).output().expect("rxlab runs");
                assert_eq!(out.status.code(), Some(code), "{json:?} {errors_too}: {out:?}");
            };
            let ends = |args: &[&str], code: i32| command_ends(tree.command(&[json, args].concat()), code);
            let drifts = || tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "20\n");
            ends(&APPLY, 0);
            assert_eq!(tree.rps("eth0", 0), "c");
            ends(&["confirm"], 4);
            drifts();
            ends(&["status"], 1);
            ends(&["status", "--watch", "--every", "10ms"], 1);
            ends(&["reapply"], 0);
            assert_eq!(tree.rps("eth0", 0), "c");
            drifts();
            ends(&["undo"], 4);
            tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "00\n");
            ends(&["apply", "--setting", "rps eth0/rx-0 = 9"], 2);
            ends(&["restore", "--etc", "/nowhere"], 2);
            ends(&["undo", "000042"], 2);
            ends(&["show", "--nic", "eth7"], 2);
            ends(&["--no-such-option"], 2);
            ends(&fails, 5);
            // "0" if the slot that failed was one of arm B.
            assert_eq!(tree.rps("eth0", 0).trim_matches('0'), "");
            command_ends(rxlab(&tree.state(), &[json, &doctor].concat()), 1);
            assert!(std::fs::read_to_string(&plan).expect("written nevertheless").contains("rps eth0/rx-0"));
            std::fs::remove_file(&plan).expect("removed");
        }
    }
}

/// The state of the machine decides the exit code, even if the output cannot be written.
#[test]
fn a_full_disk_does_not_change_the_exit_code() {
    let tree = Tree::new();
    let full = |args: &[&str]| {
        let disk = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
        tree.command(args).stdout(disk).said()
    };
    let text = full(&APPLY).exits(5);
    assert!(text.starts_with("rxlab: cannot write the output: ") && text.contains("restores them"), "{text}");
    assert_eq!(tree.rps("eth0", 0), "c");
    tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", "20\n");
    for (command, expected) in [("status", 1), ("undo", 4)] {
        let (code, text) = full(&[command]);
        assert_eq!(code, expected, "{text}");
        assert!(text.starts_with("rxlab: cannot write the output: "), "{text}");
    }
}

/// A watch ends when its reader closes the pipe, at the next line it prints.
#[test]
fn a_watch_ends_with_its_reader() {
    let tree = Tree::new();
    tree.rxlab(&APPLY).exits(0);
    let drifts = |mask: &str| tree.write("sys/class/net/eth0/queues/rx-0/rps_cpus", mask);
    drifts("20\n");
    let begun = Instant::now();
    let args = ["status", "--watch", "--every", "20ms", "--for", "90s"];
    let mut watch = Running::start(&mut tree.command(&args));
    let mut lines = BufReader::new(watch.stdout());
    let mut line = String::new();
    lines.read_line(&mut line).expect("a line");
    drop(lines);
    drifts("10\n");
    let out = watch.output();
    assert_eq!(out.status.code(), Some(1), "{line}{out:?}");
    assert!(begun.elapsed() < Duration::from_secs(60), "it went on without a reader");
}
