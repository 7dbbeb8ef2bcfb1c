//! Valid specifications, and the errors for invalid ones.

use super::{ProbeSlots, Spec, SpecError};
use rxlab_base::units::CpuId;

const LIVE: &str = "name = \"rps\"\n[change]\nset = [\"rps eth0/rx-0 = 2-7\"]\n[workload]\nlive = true\n";

#[test]
fn the_short_form_has_defaults() {
    let spec = Spec::parse(LIVE).expect("a specification");
    assert_eq!((spec.design.pairs(), spec.design.margin), (40, 0.03));
    assert_eq!(spec.guards.error_rate, Some(0.01));
    assert_eq!(spec.change.set[0].to_string(), "rps eth0/rx-0 = 2-7");
}

#[test]
fn a_time_has_room_for_pairs_or_is_refused() {
    let with = |design: &str| Spec::parse(&format!("{LIVE}[design]\n{design}\n"));
    // 48 s for slots, each of 2 s, 500 ms of washout and 5 ms of flipping.
    let spec = with("time = \"60s\"\nmeasure = \"2s\"").expect("a specification");
    assert_eq!(spec.design.pairs(), 9);
    let short = with("time = \"60s\"\nmeasure = \"100ms\"\nwashout = \"50ms\"").expect("a specification");
    assert_eq!(short.design.pairs(), 154);
    let text = |design: &str| with(design).expect_err("no room").to_string();
    assert_eq!(
        text("time = \"20s\""),
        "[design] time = 20s: has room for 7 pairs, but a trial needs 9 or more"
    );
    assert!(text("time = \"60s\"\npairs = 12").contains("time: only for a trial in pairs"));
    assert!(text("shortest = \"50ms\"").contains("shortest: must be 100ms to 4s"));
    assert!(with("time = \"20s\"\nshortest = \"100ms\"\nwashout = \"50ms\"").is_ok());
}

/// Slots of 100 ms that end after 40 pairs would be over after 12 s.
#[test]
fn short_slots_have_the_time_of_usual_ones() {
    let with = |design: &str| Spec::parse(&format!("{LIVE}[design]\n{design}\n")).expect("a specification");
    assert_eq!(with("measure = \"100ms\"\nwashout = \"50ms\"").design.pairs(), 547);
    assert_eq!(with("measure = \"100ms\"\nwashout = \"50ms\"\npairs = 60").design.pairs(), 60);
    assert_eq!(with("measure = \"4s\"").design.pairs(), 40);
}

#[test]
fn errors_say_line_and_column() {
    let error = Spec::parse(&LIVE.replace("live = true", "live = true\nsped = 1")).expect_err("unknown key");
    assert!(matches!(error, SpecError::Text { line: 6, column: 1, .. }), "{error}");
    let error = Spec::parse(&LIVE.replace("= 2-7", "")).expect_err("no value");
    let text = error.to_string();
    assert!(text.starts_with("line 3, column 7: ") && text.contains("KNOB TARGET = VALUE"), "{text}");
    assert!(!text.contains('\n'));
}

#[test]
fn exactly_one_change_and_one_workload() {
    let two = LIVE.replace("live = true", "live = true\ncommand = \"true\"");
    assert_eq!(Spec::parse(&two), Err(SpecError::Workload));
    let half = LIVE.replace("set = [\"rps eth0/rx-0 = 2-7\"]", "a = \"true\"");
    let wrong =
        |text: &str, which: &str| assert_eq!(Spec::parse(text), Err(SpecError::Change(which.to_owned())));
    wrong(&half, "has `a` without `b`");
    let none = LIVE.replace("set = [\"rps eth0/rx-0 = 2-7\"]", "");
    wrong(&none, "has no change");
    let two = LIVE.replace("[\"rps eth0/rx-0 = 2-7\"]", "[\"rps eth0/rx-0 = 2-7\"]\nplan = \"a.toml\"");
    wrong(&two, "has several changes (set, plan)");
}

/// A guard that cannot trip was once accepted.
#[test]
fn a_guard_that_could_never_trip_is_refused() {
    let guarded = |text: &str| Spec::parse(&format!("{text}[guards]\np99_us = 500\n"));
    assert_eq!(guarded(LIVE), Err(SpecError::Guard("live traffic")));
    let load = |url| LIVE.replace("live = true", &format!("load = {{ url = \"{url}\" }}"));
    assert_eq!(guarded(&load("udp-sink://h:1")), Err(SpecError::Guard("a one-way load")));
    assert!(guarded(&load("http://h/")).is_ok());
}

#[test]
fn a_load_that_ends_or_changes_is_refused() {
    let load = |more| {
        Spec::parse(&LIVE.replace("live = true", &format!("load = {{ url = \"http://h/\", {more} }}")))
    };
    assert_eq!(load("requests = 5"), Err(SpecError::Load("requests")));
    assert_eq!(load("rate = \"1..5/10s\""), Err(SpecError::Load("rate")));
    assert!(load("rate = 5, poisson = true").is_ok());
}

#[test]
fn the_primary_metric_is_one_that_the_workload_has() {
    let with = |workload: &str, primary: &str| {
        let text = LIVE.replace("live = true", workload) + &format!("[design]\nprimary = \"{primary}\"\n");
        Spec::parse(&text)
    };
    let http = "load = { url = \"http://127.0.0.1:1/\" }";
    let sink = "load = { url = \"udp-sink://127.0.0.1:1\" }";
    assert!(with(http, "p99_us").is_ok() && with("live = true", "softirq_us_per_packet").is_ok());
    assert!(with("command = \"true\"", "anything").is_ok());
    for (workload, primary) in [(sink, "p99_us"), ("live = true", "client_cpu"), (http, "p98_us")] {
        let error = with(workload, primary).expect_err("no such metric").to_string();
        let start = format!("primary = `{primary}`: no such metric (known: throughput, ");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn metrics_of_the_probe_go_with_any_workload() {
    let with = |design: &str| Spec::parse(&format!("{LIVE}{design}"));
    let spec =
        with("[design]\nprimary = \"net_rx.ns_per_packet\"\nmetrics = [\"victim.web.interference\"]\n");
    assert_eq!(spec.expect("a specification").design.metrics, ["victim.web.interference"]);
    let inferred = "[design]\nmetrics = [\"interference.inferred\"]\n";
    assert_eq!(with(inferred), Err(SpecError::Spin));
    for key in ["spin = 3", "cpus = \"0-1\"", "slots = \"detached\""] {
        assert_eq!(with(&format!("[probe]\n{key}\n")), Err(SpecError::Probe), "no metric needs it");
    }
    // It was refused although docs/trials.md shows it.
    let budget = with("[probe]\nbudget = \"0.5%\"\n").expect("the usual metrics have a budget").probe.budget;
    assert_eq!(Ok(budget), "0.5%".parse());
    let both = "[probe]\nbudget = \"0.5%\"\nspin = 3\n";
    assert_eq!(with(both), Err(SpecError::Probe), "a budget excuses nothing else");
    let spec = with(&format!("{inferred}[probe]\nspin = 3\nslots = \"detached\"\ncpus = \"0-3\"\n"));
    let probe = spec.expect("a specification").probe;
    assert_eq!((probe.spin, probe.slots, probe.cpus.len()), (Some(CpuId(3)), ProbeSlots::Detached, 4));
    let error = with("[design]\nmetrics = [\"throughput\"]\n").expect_err("it is there anyway").to_string();
    assert!(error.starts_with("metrics = `throughput`: no such metric (known: net_rx."), "{error}");
}

#[test]
fn a_specification_survives_json() {
    let spec = Spec::parse(LIVE).expect("a specification");
    let json = serde_json::to_string(&spec).expect("written");
    assert_eq!(serde_json::from_str::<Spec>(&json).expect("read"), spec);
}
