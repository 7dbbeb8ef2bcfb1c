//! The commands `load` and `target` as used by people and scripts: output, exit codes, signals.

use std::io::{BufRead, BufReader};
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use super::{millis, rxlab, target};
use crate::process::Running;

fn output(args: &[&str]) -> Output {
    rxlab(args).output().expect("the program runs")
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

    let load = output(&["load", &url, "--for", "200ms", "-c", "3", "-p", "4", "--json"]);
    assert_eq!(load.status.code(), Some(0), "{load:?}");
    assert!(load.stderr.is_empty(), "{load:?}");
    let report: Value = serde_json::from_slice(&load.stdout).expect("JSON");
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
    let load =
        output(&["load", &format!("udp-sink://{sink}"), "--for", "100ms", "--flows", "2", "--rate", "1000"]);
    let text = String::from_utf8(load.stdout).expect("text");
    assert!(text.contains("counted by the sink") && text.contains("open loop"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");

    server.signal(Signal::INT);
    let ended = line();
    assert_eq!(server.output().status.code(), Some(0));
    assert!(ended["counters"]["requests"].as_u64() >= report["requests"].as_u64());
    assert!(ended["counters"]["sink_packets"].as_u64() > Some(0));
    let threads = ended["threads"].as_array().expect("one for each thread");
    assert_eq!((threads.len(), &threads[0]["requests"]), (1, &ended["counters"]["requests"]));
    assert!(threads[0]["cpu_seconds"].as_f64() > Some(0.0));
}

#[test]
fn an_unreachable_prometheus_is_reported_and_not_an_error() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    let url = format!("http://{}/simple", target.addresses().http.expect("served"));
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    let prometheus = format!("http://127.0.0.1:{port}");
    let load =
        output(&["load", &url, "--for", "50ms", "--prometheus", &prometheus, "--prometheus-query", "up"]);
    assert_eq!(load.status.code(), Some(0), "{load:?}");
    let text = String::from_utf8(load.stdout).expect("text");
    assert!(text.contains("prometheus  up") && text.contains("refused"), "{text}");
    assert!(text.contains("event loop  late by ") && text.contains("server CPU"), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn an_unreachable_target_is_one_line_and_code_5() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    let load = output(&["load", &format!("http://127.0.0.1:{port}/"), "--for", "1s"]);
    assert_eq!(load.status.code(), Some(5));
    assert!(load.stdout.is_empty());
    let text = String::from_utf8(load.stderr).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("rxlab: cannot reach the target") && lines[0].contains("refused"), "{text}");
    assert!(lines.len() == 2 && lines[1].starts_with("  hint: "), "{text}");
}

#[test]
fn code_5_if_all_requests_fail() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    let url = format!("http://{}/nowhere", target.addresses().http.expect("served"));
    let load = output(&["load", &url, "--for", "50ms"]);
    assert_eq!(load.status.code(), Some(5));
    assert!(String::from_utf8(load.stdout).expect("text").contains("status 4xx"));
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
        let out = output(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {out:?}");
        assert!(out.stdout.is_empty() && !out.stderr.is_empty(), "{args:?}: {out:?}");
    }
}

#[test]
fn ctrl_c_prints_the_result_so_far() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    let url = format!("http://{}/simple", target.addresses().http.expect("served"));
    let load = Running::start(&mut rxlab(&["load", &url, "--for", "60s", "--json"]));
    while target.counters().requests == 0 {
        std::thread::sleep(millis(10));
    }
    load.signal(Signal::INT);
    let out = load.output();
    assert_eq!(out.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert!(report["requests"].as_u64() > Some(0) && report["seconds"].as_f64() < Some(30.0));
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
