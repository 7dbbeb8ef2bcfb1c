//! Names and values with control characters, from every source of names: none reaches the terminal, and no name looks like
//! another. A foreign device, plan or snapshot could once change the window title and hide lines.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use rxlab_base::grammar::terminal;

use crate::load::connections;
use crate::process::{Ended, json, rxlab};
use crate::tree::Tree;

/// A valid interface name of 11 bytes: sets the window title, then C1 and DEL.
const NIC: &str = "e\u{1b}]0;p\u{7}\u{9b}\u{7f}";
/// For all other free text: also clears the screen and moves the cursor back in its line.
const TEXT: &str = "x\u{1b}[2J\u{1b}[8m\r\u{8}\u{9b}1A\u{7f}";
/// The same, escaped for TOML and JSON strings.
const ESCAPED: &str = "x\\u001b[2J\\u001b[8m\\r\\b\\u009b1A\\u007f";
const ESCAPED_NIC: &str = "e\\u001b]0;p\\u0007\\u009b\\u007f";

/// Parameters of the styles that the program itself uses.
const STYLES: [&str; 7] = ["0", "1", "2", "4", "31", "32", "33"];

/// Runs a command with and without styles; returns standard output and error of the run without.
fn clean(command: impl Fn() -> Command) -> String {
    let run = |styles: bool| {
        let mut command = command();
        command.env_remove("CLICOLOR_FORCE").env_remove("NO_COLOR");
        command.env(if styles { "CLICOLOR_FORCE" } else { "NO_COLOR" }, "1");
        command.said().1
    };
    let plain = run(false);
    let styled = STYLES.iter().fold(run(true), |text, style| text.replace(&format!("\u{1b}[{style}m"), ""));
    for text in [&plain, &styled] {
        let is_odd = |c: char| !terminal::is_plain(c) && c != '\n' && c != '\t';
        assert!(!text.contains(is_odd), "{:?}: {text:?}", command());
    }
    plain
}

/// A tree in which every name contains control characters.
fn machine() -> Tree {
    let tree = Tree::new();
    tree.write("proc/sys/kernel/hostname", format!("{TEXT}\n"));
    tree.write("proc/sys/kernel/osrelease", format!("{TEXT}\n"));
    let base = format!("sys/devices/virtual/net/{NIC}");
    for file in ["queues/rx-0/rps_cpus", "queues/tx-0/xps_cpus", "queues/rx-0/rps_flow_cnt"] {
        tree.write(&format!("{base}/{file}"), "00\n");
    }
    for (file, value) in [("operstate", TEXT), ("type", "1"), ("flags", "0x1003"), ("threaded", "0")] {
        tree.write(&format!("{base}/{file}"), format!("{value}\n"));
    }
    tree.link(&format!("sys/class/net/{NIC}"), &format!("../../devices/virtual/net/{NIC}"));
    tree.process(812, TEXT, 1, 5000);
    let interrupts = tree.read("proc/interrupts");
    tree.write("proc/interrupts", format!("{interrupts}\n 42:  1  2  PCI-MSI 9-edge  {NIC}-rx-0{TEXT}\n"));
    let clock = "sys/devices/system/clocksource/clocksource0";
    tree.write(&format!("{clock}/current_clocksource"), format!("{TEXT}\n"));
    tree.write(&format!("{clock}/available_clocksource"), format!("tsc {TEXT} hpet\n"));
    tree
}

/// A file next to the tree, with control characters in its name as well.
fn file(tree: &Tree, name: &str, text: &str) -> String {
    tree.file(&format!("{name}{TEXT}"), text)
}

fn plan(tree: &Tree) -> String {
    let set = format!("rps {ESCAPED_NIC}/rx-0 = 2");
    let text = format!("name = \"{ESCAPED}\"\n[[setting]]\nset = \"{set}\"\nwhy = \"{ESCAPED}\"\n");
    file(tree, "plan", &text)
}

/// A finished trial with control characters in every text.
fn record(tree: &Tree) {
    let text = format!(
        r#"{{ "schema": "rxlab.trial/3", "id": "0001-{ESCAPED}", "version": "{ESCAPED}", "name": "{ESCAPED}",
            "change": ["{ESCAPED}"], "workload": "{ESCAPED}",
            "host": {{ "hostname": "{ESCAPED}", "kernel": "{ESCAPED}", "boot_id": "{ESCAPED}" }},
            "cpus": 1, "started": "{ESCAPED}", "seed": 1, "margin": 0.03, "min_pairs": 5, "max_pairs": 5, "washout_s": 0.0,
            "measure_s": 1.0, "metrics": [], "calibration": null, "slots": [], "analysis": null }}"#
    );
    for (id, text) in [("0001-good", text.as_str()), ("0002-bad", &text.replace("0.03", ESCAPED))] {
        let folder = tree.state().join("trials").join(id);
        std::fs::create_dir_all(&folder).expect("made");
        std::fs::write(folder.join("record.json"), text).expect("written");
    }
}

#[test]
fn names_of_a_machine_do_not_control_the_terminal() {
    let tree = machine();
    let plan = plan(&tree);
    for format in [&[][..], &["--json"]] {
        for args in [
            &["show"][..],
            &["show", "--nic", NIC],
            &["show", "--cpu", "0-6"],
            &["doctor", "--for", "100ms"],
            &["plan", "--setting", &format!("rps {NIC}/rx-0 = 2")],
            &["plan", "--setting", &format!("rps {NIC}/rx-0 = {TEXT}")],
            &["apply", "--dry-run", &plan],
            &["apply", "--dry-run", "--setting", "clocksource host = hpet"],
            &["apply", "--setting", &format!("clocksource host = {TEXT}"), "--setting", "rps eth9/rx-0 = 1"],
            &["persist", "--plan", &plan, "--etc", &format!("{}/etc{TEXT}", tree.path().display())],
            &["restore", "--etc", &format!("{}/etc{TEXT}", tree.path().display())],
        ] {
            let text = clean(|| tree.command(&[format, args].concat()));
            assert!(!text.is_empty(), "{args:?}");
        }
        clean(|| tree.command(&[format, &["show", "--tree"]].concat()));
        for (form, _) in rxlab_setting::export::Format::ALL {
            clean(|| tree.command(&[format, &["export", "--to", form, &plan]].concat()));
        }
    }
    let value: serde_json::Value = json(&tree.rxlab(&["--json", "show"]));
    assert_eq!(value["identity"]["hostname"], TEXT, "JSON is exact");
}

/// What each command says of a machine whose second interface has this name.
fn said_of(nic: &str, words: &[&str]) -> String {
    let tree = Tree::new();
    let base = format!("sys/devices/virtual/net/{nic}");
    for (file, value) in [("queues/rx-0/rps_cpus", "00"), ("type", "1"), ("flags", "0x1003")] {
        tree.write(&format!("{base}/{file}"), format!("{value}\n"));
    }
    tree.link(&format!("sys/class/net/{nic}"), &format!("../../devices/virtual/net/{nic}"));
    let words: Vec<String> = words.iter().map(|word| word.replace("NIC", nic)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    clean(|| tree.command(&words)).replace(&tree.path().display().to_string(), "")
}

/// A style in a name, an invisible character, a letter of another script, and a name that looks like an escaped one.
#[test]
fn no_name_looks_like_another() {
    let groups = [
        &["et0", "et0\u{1b}[1m", "\u{435}t0", "e\u{200b}t0", "et0\u{7f}"][..],
        &["\u{202e}x", "\\u{202e}x", "\\\u{202e}x"],
    ];
    for words in [
        &["show"][..],
        &["show", "--tree"],
        &["show", "--nic", "NIC"],
        &["apply", "--dry-run", "--setting", "rps NIC/rx-0 = 1"],
        &["apply", "--setting", "rps NIC/rx-0 = 1"],
        &["apply", "--setting", "rps NIC/rx-7 = 1"],
        &["export", "--to", "sh", "NIC"],
    ] {
        for names in groups {
            let said: BTreeSet<String> = names.iter().map(|name| said_of(name, words)).collect();
            assert_eq!(said.len(), names.len(), "{words:?}: {said:#?}");
        }
    }
}

#[test]
fn journals_and_snapshots_do_not_control_the_terminal() {
    let tree = machine();
    let plan = plan(&tree);
    let applied = clean(|| tree.command(&["apply", &plan]));
    assert!(applied.contains("rps e\\u{1b}]0;p\\u{7}\\u{9b}\\u{7f}/rx-0 = 2"), "{applied}");
    clean(|| tree.command(&["apply", "--confirm", "600s", "--setting", "clocksource host = hpet"]));
    clean(|| tree.command(&["confirm"]));
    tree.write(&format!("sys/class/net/{NIC}/queues/rx-0/rps_cpus"), "20\n");
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    tree.write(clock, format!("{TEXT}y\n"));
    let snapshot = format!("{}/snap{TEXT}.tar.zst", tree.path().display());
    let take = ["snapshot", "--for", "0s", "--unredacted", "--force", "-o", &snapshot];
    let taken = clean(|| tree.command(&take));
    assert!(taken.contains("view it with"), "{taken}");
    for format in [&[][..], &["--json"]] {
        for args in [&["show"][..], &["show", "--nic", NIC], &["status"], &["doctor"], &["plan"]] {
            let nowhere = tree.path().join("nowhere");
            clean(|| rxlab(&nowhere, &[format, args, &["--snapshot", &snapshot]].concat()));
        }
        let status = clean(|| tree.command(&[format, &["status"]].concat()));
        let note = if format.is_empty() { "DRIFTED" } else { "\"drifted\"" };
        assert!(status.contains(note), "{status}");
        clean(|| tree.command(&[format, &["status", "--watch", "--for", "10ms"]].concat()));
        clean(|| tree.command(&[format, &["reapply", "--dry-run"]].concat()));
        clean(|| tree.command(&[format, &["export", "--to", "sh"]].concat()));
    }
    let undone = clean(|| tree.command(&["undo"]));
    assert!(undone.contains("left alone: it has since been changed to"), "{undone}");
    clean(|| tree.command(&["--json", "undo"]));
    let journal = std::fs::read_dir(tree.state().join("journal")).expect("a journal");
    for entry in journal.flatten().filter(|entry| entry.path().is_file()) {
        std::fs::write(entry.path(), format!("{TEXT}\n{TEXT}\n")).expect("damaged");
    }
    clean(|| tree.command(&["status"]));
    clean(|| tree.command(&["undo"]));
}

#[test]
fn wrong_input_does_not_control_the_terminal() {
    let tree = machine();
    record(&tree);
    let (spec, none) = (file(&tree, "spec", &format!("name = \"{ESCAPED}\"\n[{ESCAPED}]\n")), TEXT);
    let wrong = file(&tree, "wrong", &format!("{TEXT}\n"));
    for args in [
        &["trial", "show", "0001-good"][..],
        &["trial", "show", "0001-good", "--json"],
        &["trial", "show", "0002-bad"],
        &["trial", "show", none],
        &["trial", "list"],
        &["trial", "resume", "0001-good"],
        &["trial", "run", &spec],
        &["trial", "run", &wrong],
        &["apply", &wrong],
        &["apply", none],
        &["apply", "--setting", none],
        &["apply", "--setting", &format!("{none} host = 1")],
        &["apply", "--setting", &format!("rps {NIC}/rx-7 = 1")],
        &["export", "--to", "sh", &wrong],
        &["export", "--to", none],
        &["merge", &wrong],
        &["show", "--snapshot", &wrong],
        &["show", "--nic", &format!("{NIC}x")],
        &["--netns", none, "show"],
        &["--state-dir", &wrong, "undo"],
        &["--root", none, "undo", none],
        &["explain", none],
        &["load", none],
        &["load", &format!("http://127.0.0.1:1/{none}"), "--for", "10ms"],
        &["load", "http://127.0.0.1:1/", "--urls", &wrong, "--for", "10ms"],
        &["undo", none],
        &["confirm", none],
        &["snapshot", "-o", none, "--for", "soon"],
        &[none],
        &["show", &format!("--{none}")],
    ] {
        let text = clean(|| tree.command(args));
        assert!(!text.is_empty(), "{args:?}");
    }
}

#[test]
fn responses_do_not_control_the_terminal() {
    let address = connections(|mut stream| {
        let body = format!("{{\"status\":\"error\",\"error\":\"{ESCAPED}\"}}");
        let head = format!("HTTP/1.1 422 {TEXT}\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut asked = [0; 4000];
        while stream.read(&mut asked).is_ok_and(|length| length > 0) {
            if stream.write_all(format!("{head}{body}").as_bytes()).is_err() || asked.starts_with(b"GET /api")
            {
                break;
            }
        }
    });
    let url = format!("http://{address}");
    let ask = ["--prometheus", &url, "--prometheus-query", TEXT];
    let text = clean(|| {
        rxlab(Path::new("/nowhere"), &[&["load", &url, "--for", "50ms", "-c", "1"][..], &ask].concat())
    });
    assert!(text.contains("x\\u{1b}[2J"), "{text}");
}
