//! Output files of a load: JSON by its schema, the series, the HDR log, and merged results.

use std::path::Path;
use std::process::Command;

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use super::target;

fn rxlab(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_rxlab")).args(args).output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

/// First violation of the published schema by a value.
fn complaint(value: &Value) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/load.json");
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let index = compiler.compile(path.to_str().expect("text"), &mut schemas).expect("a valid schema");
    schemas.validate(value, index).err().map(|error| error.to_string())
}

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array().expect("a list").iter().map(|one| one[key].as_u64().expect("a number")).sum()
}

#[test]
fn results_are_written_read_and_merged() {
    let target = target(1);
    let url = format!("http://{}/simple", target.addresses().http.expect("served"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let _noise = crate::quiet::noisy();
    let load = |more: &[&str]| {
        let args = [&["load", &url, "--json", "--warm-up", "50ms", "-c", "4"], more].concat();
        let (code, json, complaints) = rxlab(&args);
        assert_eq!((code, &*complaints), (Some(0), ""), "{json}");
        serde_json::from_str::<Value>(&json).expect("JSON")
    };
    let log = file("log.hlog");
    let open = load(&["--for", "1300ms", "--rate", "1000", "--hdr-log", &log]);
    let closed = load(&["--for", "300ms"]);
    assert_eq!((complaint(&open), complaint(&closed)), (None, None));
    let mut broken = open.clone();
    broken["requests"] = "many".into();
    assert!(complaint(&broken).is_some(), "the check itself is broken");

    // Parts add up to the whole.
    for report in [&open, &closed] {
        assert_eq!(sum(&report["series"], "requests"), report["requests"].as_u64().expect("a number"));
        assert_eq!(sum(&report["series"], "sent"), report["sent"].as_u64().expect("a number"));
    }
    assert_eq!(open["series"].as_array().expect("a list").len(), 2);
    assert_eq!(open["pacing"]["mode"], "timer");
    let log = std::fs::read_to_string(log).expect("written");
    let intervals = IntervalLogIterator::new(log.as_bytes())
        .filter(|entry| matches!(entry.as_ref().expect("a log"), LogEntry::Interval(_)));
    assert_eq!(intervals.count(), 2);

    // Merged exactly.
    for (name, report) in [("a", &open), ("b", &closed)] {
        std::fs::write(file(name), report.to_string()).expect("written");
    }
    let (code, json, complaints) = rxlab(&["merge", "--json", &file("a"), &file("b")]);
    assert_eq!((code, &*complaints), (Some(0), ""));
    let merged: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(complaint(&merged), None);
    for count in ["requests", "sent"] {
        let both = open[count].as_u64().expect("a number") + closed[count].as_u64().expect("a number");
        assert_eq!(merged[count], both, "{count}");
    }
    assert_eq!(merged["client_cpu"].as_array().expect("a list").len(), 2);
    let (code, text, _) = rxlab(&["merge", &file("a"), &file("b")]);
    assert!(code == Some(0) && text.contains("8 connections, 2 threads"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");

    // Random arrivals differ by machine or follow the given seed: no two merged results may have the same.
    let random = |more: &[&str]| load(&[&["--for", "50ms", "--rate", "200", "--poisson"], more].concat());
    let own = [random(&[]), random(&[])];
    assert_eq!(own[0]["spec"]["seed"], own[1]["spec"]["seed"]);
    let other = random(&["--seed", "5"]);
    assert_eq!(other["spec"]["seed"], 5);
    for (name, report) in [("d", &own[0]), ("e", &own[1]), ("f", &other)] {
        std::fs::write(file(name), report.to_string()).expect("written");
    }
    let (code, _, complaints) = rxlab(&["merge", &file("d"), &file("e")]);
    assert!(code == Some(2) && complaints.contains("--seed"), "{complaints}");
    assert_eq!(rxlab(&["merge", &file("d"), &file("f")]).0, Some(0));

    // A file that is not a result is named.
    std::fs::write(file("c"), "{}").expect("written");
    for bad in [file("c"), file("nowhere")] {
        let (code, out, complaints) = rxlab(&["merge", &file("a"), &bad]);
        assert!(code == Some(2) && out.is_empty() && complaints.contains(&bad), "{complaints}");
    }
}

#[test]
fn invalid_combinations_of_options_are_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("list");
    std::fs::write(&list, "/good\nhttp://elsewhere/\n").expect("written");
    let list = list.to_str().expect("text");
    for args in [
        &["-X", "GET /"][..],
        &["-H", "no colon"],
        &["-H", "Content-Length: 5"],
        &["--urls", list],
        &["--urls", "/no/such/file"],
        &["--body", "@/no/such/file"],
        &["--no-keepalive", "-p", "2"],
        &["--source", "127.0.0.1,::1"],
        &["--requests", "1", "-t", "2"],
        &["--warm-up", "1s", "--requests", "5"],
        &["--rate", "1..2"],
        &["--pacing", "coarse"],
        &["--pacing", "exact", "--rate", "5"],
        &["--poisson"],
        &["--rate", "5", "--seed", "1"],
        &["--hdr-log", "/no/such/folder/log"],
    ] {
        let (code, out, complaints) = rxlab(&[&["load", "http://127.0.0.1:9/"], args].concat());
        assert!(
            code == Some(2) && out.is_empty() && !complaints.is_empty(),
            "{args:?}: {code:?} {complaints}"
        );
    }
}
