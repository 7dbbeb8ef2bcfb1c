//! The search for the highest rate, on a server whose limit is known: one thread that computes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::target;
use crate::process::Running;

/// How long the search may take before it is asked for what it has: a busy machine makes it long.
const PATIENCE: Duration = Duration::from_secs(40);

#[test]
fn the_highest_rate_of_one_thread_that_computes() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    let url = format!("http://{}/compute?us=2000", target.addresses().http.expect("served"));
    let args = ["--json", "load", &url, "-c", "16", "--find-max", "--slo", "p90<40ms", "--for", "200ms"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
    let mut running = Running::start(command.args(args).stdin(Stdio::null()));
    let begun = Instant::now();
    while !running.has_ended() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !running.has_ended() {
        running.signal(Signal::INT);
    }
    let out = running.output();
    let found: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"));
    assert_eq!(found["schema"], "rxlab.find-max/1");
    let interrupted = found["interrupted"] == true;
    assert_eq!(out.status.code(), Some(if interrupted { 130 } else { 0 }), "{out:?}");
    // At most 500 a second by its work; how far below, the machine decides. The work was measured in a
    // moment of its own, so a tenth more is no surprise.
    let number = |name: &str| found[name].as_f64();
    assert!((1.0..=550.0).contains(&number("closed_loop").expect("measured")), "{found}");
    let steps = found["steps"].as_array().expect("steps");
    let kept = |step: &&Value| {
        step["margins"].as_array().is_some_and(|all| all.iter().all(|m| m.as_f64() > Some(0.0)))
    };
    let rate = |step: &Value| step["rate"].as_f64().expect("a rate");
    assert!(steps.iter().filter(kept).all(|step| rate(step) < 560.0), "{found}");
    assert!(steps.iter().any(|step| step["values"][0].is_number()), "{found}");
    if !interrupted {
        let holds = number("holds").expect("one holds");
        assert!(holds < 560.0 && number("fails").is_none_or(|fails| fails > holds), "{found}");
        let decides = steps.iter().filter(|step| step["decides"] == true).count();
        assert!(decides >= 6, "{decides} runs decide");
    }
}

#[test]
fn a_search_needs_limits_and_no_rate() {
    for args in [
        &["--find-max"][..],
        &["--slo", "p99<5ms"],
        &["--find-max", "--slo", "p98<5ms"],
        &["--find-max", "--slo", "p99<5ms", "--rate", "5"],
        &["--find-max", "--slo", "p99<5ms", "--requests", "5"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
        let out =
            command.args(["load", "http://127.0.0.1:1/"]).args(args).output().expect("the program runs");
        assert_eq!(out.status.code(), Some(2), "{args:?}: {out:?}");
    }
}
