//! The form of the output: JSON with a schema, lines that fit, no escape codes in a pipe, and a
//! reader that may leave.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::rxlab;
use crate::tree::{Tree, said};

const APPLY: [&str; 3] = ["apply", "--setting", "rps eth0/rx-0 = 2-3"];

fn schema(tree: &Tree, args: &[&str]) -> String {
    let out = tree.rxlab(&[&["--json"], args].concat());
    let value: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {out:?}"));
    assert!(out.stderr.is_empty(), "{args:?}: {out:?}");
    value["schema"].as_str().unwrap_or_else(|| panic!("{args:?}: no schema")).to_owned()
}

#[test]
fn every_json_answer_has_a_schema() {
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
    // A recording cannot be diagnosed: this one looks at the real machine. Load and target have
    // their own test.
    let out = rxlab(&tree.state(), &["doctor", "--for", "100ms", "--json"]).output().expect("rxlab runs");
    let value: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(value["schema"], "rxlab.findings/1");
}

/// Fits, and has no escape code.
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
        let (_, text) = said(&tree.rxlab(args));
        assert!(!text.is_empty(), "{args:?}");
        plain(args, &text);
    };
    for command in [
        &[][..],
        &["show"],
        &["doctor"],
        &["explain"],
        &["apply"],
        &["confirm"],
        &["undo"],
        &["status"],
        &["reapply"],
        &["trial"],
        &["trial", "run"],
        &["trial", "resume"],
        &["trial", "show"],
        &["trial", "list"],
        &["steal"],
        &["trace"],
        &["demo"],
        &["target"],
        &["load"],
    ] {
        plain_of(&[command, &["--help"]].concat());
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
    let (_, text) = said(&rxlab(&tree.state(), &["doctor", "--for", "100ms"]).output().expect("rxlab runs"));
    plain(&["doctor"], &text);
}

/// A terminal gets styles, unless NO_COLOR says otherwise.
#[test]
fn no_color_is_obeyed_on_a_terminal() {
    let tree = Tree::new();
    let on_a_terminal = |no_color: Option<&str>| {
        let line = format!(
            "{} --root {} show",
            env!("CARGO_BIN_EXE_rxlab"),
            tree.root().to_str().expect("a path without spaces")
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm");
        command.env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
        let (code, text) = said(&command.output().expect("script runs"));
        assert_eq!(code, 0, "{text}");
        text
    };
    assert!(on_a_terminal(None).contains('\x1b'));
    assert!(!on_a_terminal(Some("1")).contains('\x1b'));
}

/// As with `rxlab show | head -c 1`: the reader has seen enough before everything was written.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let tree = Tree::new();
    let dry = [&APPLY[..], &["--dry-run"]].concat();
    for args in
        [&["show"][..], &["show", "--json"], &["status"], &["undo"], &dry, &["trial", "list"], &["--help"]]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let out = tree.command(args).stdout(writer).output().expect("rxlab runs");
        assert_eq!(out.status.code(), Some(0), "{args:?}: {out:?}");
        assert!(out.stderr.is_empty(), "{args:?}: {out:?}");
    }
}
