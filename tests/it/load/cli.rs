//! The commands `load` and `target` as used by people and scripts: output, exit codes, signals.

use std::io::{BufRead, BufReader};

use rustix::process::Signal;
use serde_json::Value;

use super::{millis, rxlab, serve_http, target};
use crate::process::{Ended, Running, free_port};

/// Invalid arguments are complaints alone, and code 2.
pub(super) fn refused(args: &[&str]) {
    let out = rxlab(args).output().expect("the program runs");
    out.exits(2);
    assert!(out.stdout.is_empty() && !out.stderr.is_empty(), "{args:?}: {out:?}");
}

#[test]
fn load_and_target_as_programs() {
    let _noise = crate::quiet::noisy();
    let mut command = rxlab(&["--json", "target", "--http", "127.0.0.1:0", "--udp-sink", "127.0.0.1:0"]);
    let mut server = Running::start(&mut command);
    let mut lines = BufReader::new(server.stdout()).lines();
    let mut line = || -> Value {
        let line = lines.next().expect("a line").expect("readable");
        serde_json::from_str(&line).expect("JSON")
    };
    let started = line();
    assert_eq!(started["schema"], "rxlab.target/1");
    let url = format!("http://{}/simple", started["addresses"]["http"].as_str().expect("served"));

    let load = ["load", &url, "--for", "200ms", "-c", "3", "-p", "4", "--json"];
    let report: Value = rxlab(&load).json(0);
    assert_eq!(report["schema"], "rxlab.load/2");
    assert_eq!((&report["spec"]["connections"], &report["spec"]["pipeline"]), (&3.into(), &4.into()));
    assert!(report["requests"].as_u64() > Some(0));

    // The server runs on this machine, so its process is visible.
    let server_cpu = &report["server_cpu"];
    assert_eq!(
        server_cpu["processes"][0]["pid"].as_u64(),
        Some(server.pid().as_raw_nonzero().get().cast_unsigned().into()),
        "{report}"
    );
    assert!(server_cpu["cpus"].as_f64() > Some(0.0), "{server_cpu}");
    let turns = &report["event_loop"][0];
    assert!(turns["thread"] == 0 && turns["lag_us"]["max"].as_f64() > Some(0.0), "{turns}");

    let sink = started["addresses"]["udp_sink"].as_str().expect("served");
    let load = ["load", &format!("udp-sink://{sink}"), "--for", "100ms", "--flows", "2", "--rate", "1000"];
    let text = rxlab(&load).says_all(0, &["counted by the sink", "open loop"]);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");

    server.signal(Signal::INT);
    let ended = line();
    server.output().exits(0);
    assert!(ended["counters"]["requests"].as_u64() >= report["requests"].as_u64());
    assert!(ended["counters"]["sink_packets"].as_u64() > Some(0));
    let threads = ended["threads"].as_array().expect("one for each thread");
    assert_eq!((threads.len(), &threads[0]["requests"]), (1, &ended["counters"]["requests"]));
    assert!(threads[0]["cpu_seconds"].as_f64() > Some(0.0));
}

#[test]
fn an_unreachable_prometheus_is_reported_and_not_an_error() {
    let _noise = crate::quiet::noisy();
    let (_target, url) = serve_http("/simple");
    let prometheus = format!("http://127.0.0.1:{}", free_port());
    let load = ["load", &url, "--for", "50ms", "--prometheus", &prometheus, "--prometheus-query", "up"];
    let parts = ["prometheus  up", "refused", "event loop  late by ", "server CPU"];
    let text = rxlab(&load).says_all(0, &parts);
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn an_unreachable_target_is_one_line_and_code_5() {
    let text = rxlab(&["load", &format!("http://127.0.0.1:{}/", free_port()), "--for", "1s"]).exits(5);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("rxlab: cannot reach the target") && lines[0].contains("refused"), "{text}");
    assert!(lines.len() == 2 && lines[1].starts_with("  hint: "), "{text}");
}

#[test]
fn code_5_if_all_requests_fail() {
    let _noise = crate::quiet::noisy();
    let (_target, url) = serve_http("/nowhere");
    rxlab(&["load", &url, "--for", "50ms"]).says(5, "status 4xx");
}

#[test]
fn invalid_flags_are_code_2() {
    for args in [
        &["load", "ftp://localhost/"][..],
        &["load", "http://127.0.0.1:1/", "--insecure"],
        &["load", "http://127.0.0.1:1/", "--for", "5"],
        &["load", "http://127.0.0.1:1/", "--for", "0s"],
        &["load", "http://127.0.0.1:1/", "--threads", "65"],
        &["load", "http://127.0.0.1:1/", "--rate", "-1"],
        &["load", "http://127.0.0.1:1/", "--cpus", "1000"],
        &["load", "udp://127.0.0.1:1", "--size", "8"],
        &["load", "udp-sink://127.0.0.1:1", "--hdr-log", "/dev/null"],
        &["load", "http://127.0.0.1:1/", "--size", "100"],
        &["load", "udp://127.0.0.1:1", "--pipeline", "2", "--rate", "9"],
        &["target"],
        &["target", "--http", "127.0.0.1"],
    ] {
        refused(args);
    }
}

#[test]
fn ctrl_c_prints_the_result_so_far() {
    let _noise = crate::quiet::noisy();
    let (target, url) = serve_http("/simple");
    let load = Running::start(&mut rxlab(&["load", &url, "--for", "60s", "--json"]));
    while target.counters().requests == 0 {
        std::thread::sleep(millis(10));
    }
    load.signal(Signal::INT);
    let report: Value = load.output().json(130);
    assert!(report["requests"].as_u64() > Some(0) && report["seconds"].as_f64() < Some(30.0));
    assert_eq!(
        (&report["interrupted"], &report["version"]),
        (&true.into(), &env!("CARGO_PKG_VERSION").into())
    );
    let begun = report["begun"].as_str().expect("a time");
    assert!(begun.starts_with("20") && begun.ends_with('Z'), "{begun}");
}

#[test]
fn a_missed_limit_is_code_1() {
    let _noise = crate::quiet::noisy();
    let (_target, url) = serve_http("/simple");
    let load = |slo: &str, more: &[&str]| {
        let mut load = rxlab(&["load", &url, "--requests", "300", "--slo", slo]);
        load.args(more);
        load
    };
    load("p50<1m,max<1m,errors<100%", &[]).says_all(0, &["slo         p50<1m kept: ", "max<1m kept: "]);
    load("p50<1us,errors<100%", &[]).says_all(1, &["p50<1us missed: ", "errors<100% kept: 0 %"]);
    let report: Value = load("p50<1us", &["--json"]).json(1);
    assert_eq!(
        (&report["limits"][0]["limit"], &report["limits"][0]["kept"]),
        (&"p50<1us".into(), &false.into())
    );
    load("p99.9<1m", &[]).says(5, "too few requests to tell");
    rxlab(&["load", "udp-sink://127.0.0.1:9", "--slo", "p50<1s"]).says(2, "no latency");
}

/// As with curl: only the address is another.
#[test]
fn another_address_keeps_the_name_of_the_host() {
    let _noise = crate::quiet::noisy();
    let (target, _) = serve_http("/simple");
    let http = target.addresses().http.expect("served");
    let to = format!("no.such.example:{http}");
    let url = "http://no.such.example/simple";
    let report: Value = rxlab(&["load", url, "--connect-to", &to, "--requests", "64", "--json"]).json(0);
    assert_eq!((&report["requests"], &report["spec"]["connect_to"]), (&64.into(), &to.into()));
    rxlab(&["load", url, "--requests", "64"]).says(5, "cannot resolve no.such.example");
}

/// As with `rxlab load ... | head -0`: the reader closes the pipe.
#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    for (path, code) in [("simple", 0), ("nowhere", 5)] {
        let url = format!("http://{}/{path}", target.addresses().http.expect("served"));
        let mut load = Running::start(&mut rxlab(&["load", &url, "--for", "50ms"]));
        drop(load.stdout());
        let out = load.output();
        assert_eq!(out.status.code(), Some(code), "{out:?}");
        assert_eq!(out.stderr.is_empty(), code == 0, "{out:?}");
    }
}
