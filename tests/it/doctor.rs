//! The doctor on the practice range, with the kernel's own counters as the judge.

use std::net::SocketAddr;

use rxlab::lab::{Range, RangeSpec};
use rxlab::load::Session;
use rxlab::target::Target;
use serde_json::Value;

use crate::process::rxlab;
use crate::{quiet, require};

/// NET_RX runs of each CPU since boot.
fn net_rx() -> Vec<u64> {
    let text = std::fs::read_to_string("/proc/softirqs").expect("readable");
    let line = text.lines().find(|line| line.trim_start().starts_with("NET_RX:")).expect("a line");
    line.split_whitespace().skip(1).map(|count| count.parse().expect("a number")).collect()
}

/// The exit code and the report of a look into the server host.
fn look(range: &Range) -> (i32, Value) {
    let state = tempfile::tempdir().expect("a temporary directory");
    let mut command = rxlab(state.path(), &["doctor", "--json", "--for", "1s", "--netns"]);
    let out = command.arg(range.server.path()).output().expect("rxlab runs");
    let report = serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out:?}"));
    (out.status.code().expect("not killed"), report)
}

#[test]
fn the_hotspot_is_where_the_counters_say() {
    if !require::netns() {
        return;
    }
    let _alone = quiet::alone();
    let range = Range::build(&RangeSpec::default()).expect("built");
    for (sender, receiver) in [("0", "1"), ("1", "0")] {
        let address = SocketAddr::from((Range::SERVER, 9000));
        let target = Target::start(&rxlab::target::Spec {
            udp_sink: Some(address),
            cpus: receiver.parse().expect("a list"),
            netns: Some(range.server.path()),
            ..rxlab::target::Spec::default()
        });
        let _target = target.expect("started");
        let mut load = rxlab::load::Spec::new(format!("udp-sink://{address}").parse().expect("a URL"));
        (load.cpus, load.netns) = (sender.parse().expect("a list"), Some(range.client.path()));
        let _session = Session::start(&load).expect("started");
        // Another program of this machine can hide it for a while.
        let found = (0..3).any(|attempt| {
            let before = net_rx();
            let (code, report) = look(&range);
            let runs: Vec<u64> = net_rx().iter().zip(&before).map(|(after, before)| after - before).collect();
            let hottest = (0..runs.len()).max_by_key(|cpu| runs[*cpu]).expect("a CPU");
            println!("attempt {attempt}, sender on {sender}: exit {code}, NET_RX {runs:?}");
            let findings = report["findings"].as_array().expect("a list");
            let Some(hotspot) = findings.iter().find(|finding| finding["id"] == "one-core-hotspot") else {
                return false;
            };
            assert_eq!(code, 1);
            assert_eq!(hotspot["cpu"], hottest, "{hotspot:#}");
            assert_eq!((hotspot["nic"].as_str(), hottest.to_string().as_str()), (Some("srv0"), sender));
            assert_eq!(report["plans"][0]["name"], "rps");
            true
        });
        assert!(found, "a flat out sender on CPU {sender} was not seen");
    }
}

#[test]
fn a_quiet_host_gets_no_advice() {
    if !require::netns() {
        return;
    }
    let _alone = quiet::alone();
    let range = Range::build(&RangeSpec::default()).expect("built");
    // The CPUs are shared with whatever else runs here: findings about them are not the range's.
    let quiet = (0..6).any(|attempt| {
        let (code, report) = look(&range);
        let findings = report["findings"].as_array().expect("a list");
        println!("attempt {attempt}: exit {code}, {findings:?}");
        assert!(findings.iter().all(|finding| finding["nic"] != "srv0"), "{findings:?}");
        assert_eq!(report["plans"], serde_json::json!([]));
        assert_eq!(code, if findings.is_empty() { 0 } else { 1 });
        findings.is_empty()
    });
    assert!(quiet, "this machine was never quiet");
}
