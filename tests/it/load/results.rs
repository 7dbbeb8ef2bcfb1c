//! Output files of a load: JSON by its schema, the series, the HDR log, and merged results.

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use super::cli::refused;
use super::{rxlab, serve_http};
use crate::cli::show::complaint;
use crate::process::Ended;
use crate::tree::program;

fn sum(list: &Value, key: &str) -> u64 {
    list.as_array().expect("a list").iter().map(|one| one[key].as_u64().expect("a number")).sum()
}

/// Two processes of this machine, started as `ssh` would start them on others.
#[test]
fn clients_offer_one_load() {
    let (_target, url) = serve_http("/simple");
    let _noise = crate::quiet::noisy();
    let client = format!("{} client", program().display());
    let load = |client: &str, more: &[&str]| {
        let load =
            ["load", &url, "--json", "--warm-up", "50ms", "--for", "500ms", "-c", "4", "--rate", "100"];
        let mut command = rxlab(&load);
        command.args(["--client", client, "--client", client]).args(more);
        command
    };
    let report: Value = load(&client, &[]).json(0);
    assert_eq!(complaint("load.json", &report), None);
    assert_eq!((&report["spec"]["connections"], &report["spec"]["threads"]), (&8.into(), &2.into()));
    assert_eq!(report["client_cpu"].as_array().expect("a list").len(), 2);
    let sent = report["sent"].as_u64().expect("a number");
    assert!((80..=120).contains(&sent), "each of them sends 50 in half a second: {report}");
    load("echo denied >&2; exit 255", &[]).says(5, "client `echo denied >&2; exit 255` ended: denied");
    load(&client, &["--threads", "auto"]).says(2, "give numbers");
}

#[test]
fn results_are_written_read_and_merged() {
    let (_target, url) = serve_http("/simple");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
    let _noise = crate::quiet::noisy();
    let load = |more: &[&str]| {
        rxlab(&["load", &url, "--json", "--warm-up", "50ms", "-c", "4"]).args(more).json::<Value>(0)
    };
    let complaint = |value: &Value| complaint("load.json", value);
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

    // One row for each second, and every request in one of the bars.
    let rows = file("seconds.csv");
    let text = rxlab(&["load", &url, "--for", "1100ms", "--csv", &rows, "--histogram"]).exits(0);
    assert!(text.contains(" % ####") && text.lines().all(|line| line.len() <= 80), "{text}");
    let rows = std::fs::read_to_string(rows).expect("written");
    assert_eq!((rows.lines().count(), rows.starts_with("at_s,seconds,requests,")), (3, true), "{rows}");

    // Merged exactly.
    for (name, report) in [("a", &open), ("b", &closed)] {
        std::fs::write(file(name), report.to_string()).expect("written");
    }
    let merged: Value = rxlab(&["merge", "--json", &file("a"), &file("b")]).json(0);
    assert_eq!(complaint(&merged), None);
    for count in ["requests", "sent"] {
        let both = open[count].as_u64().expect("a number") + closed[count].as_u64().expect("a number");
        assert_eq!(merged[count], both, "{count}");
    }
    assert_eq!(merged["client_cpu"].as_array().expect("a list").len(), 2);
    let text = rxlab(&["merge", &file("a"), &file("b")]).says(0, "8 connections, 2 threads");
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
    rxlab(&["merge", &file("d"), &file("e")]).says(2, "--seed");
    rxlab(&["merge", &file("d"), &file("f")]).exits(0);

    // A run counts once, also within the result of others.
    std::fs::write(file("m"), merged.to_string()).expect("written");
    let text = rxlab(&["merge", &file("m"), &file("b")]).says(2, "the same run");
    assert!(text.contains(&file("b")), "{text}");

    // A file that is not a result is named.
    std::fs::write(file("c"), "{}").expect("written");
    for bad in [file("c"), file("nowhere")] {
        let text = rxlab(&["merge", &file("a"), &bad]).says(2, &bad);
        assert!(text.starts_with("rxlab: "), "{text}");
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
        // A search needs limits and no rate.
        &["--find-max"],
        &["--slo", "p98<5ms"],
        &["--connect-to", "elsewhere:127.0.0.1"],
        &["--expect-rcode", "NXDOMAIN"],
        &["--edns", "1232"],
        &["--find-max", "--slo", "p98<5ms"],
        &["--find-max", "--slo", "p99<5ms", "--rate", "5"],
        &["--find-max", "--slo", "p99<5ms", "--requests", "5"],
    ] {
        refused(&[&["load", "http://127.0.0.1:9/"], args].concat());
    }
}
