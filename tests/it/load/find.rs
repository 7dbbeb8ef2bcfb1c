//! The search for the highest rate, on a server whose limit is known: one thread that computes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::target;
use crate::process::Running;

/// What a search found, and whether it was asked for what it has when `patience` was over: a busy machine makes it
/// long.
pub(super) fn search(args: &[&str], patience: Duration) -> (Value, bool) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rxlab"));
    command.args(["--json", "load", "--find-max"]).args(args).stdin(Stdio::null());
    let mut running = Running::start(&mut command);
    let begun = Instant::now();
    while !running.has_ended() && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !running.has_ended() {
        running.signal(Signal::INT);
    }
    let out = running.output();
    let found: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{out:?}"));
    assert_eq!(found["schema"], "rxlab.find-max/1");
    // On a machine whose CPUs others take no rate may hold: that ends without a figure too.
    let code = if found["interrupted"] == true {
        130
    } else if found["holds"].is_null() {
        5
    } else {
        0
    };
    assert_eq!(out.status.code(), Some(code), "{out:?}");
    (found, code != 0)
}

#[test]
fn the_highest_rate_of_one_thread_that_computes() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    let url = format!("http://{}/compute?us=2000", target.addresses().http.expect("served"));
    let (found, interrupted) =
        search(&[&url, "-c", "16", "--slo", "p90<40ms", "--for", "200ms"], Duration::from_secs(40));
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

/// Eight connections and 10 ms an answer are 800 a second at most, however fast the machine is.
#[test]
fn a_search_on_a_server_with_a_known_limit_ends_around_it() {
    let _noise = crate::quiet::noisy();
    let target = target(1);
    let url = format!("http://{}/delay?us=10000", target.addresses().http.expect("served"));
    let (found, interrupted) =
        search(&[&url, "-c", "8", "--slo", "p90<100ms", "--for", "150ms"], Duration::from_secs(180));
    if interrupted {
        return;
    }
    let number = |name: &str| found[name].as_f64().unwrap_or_else(|| panic!("no {name}: {found}"));
    let (holds, fails) = (number("holds"), number("fails"));
    // A busy machine makes delays longer, never shorter; a run holds some answers of what was due before it.
    assert!((200.0..=850.0).contains(&holds), "{holds} holds, {fails} fails");
    assert!(holds < fails && fails < 1200.0, "{holds} holds, {fails} fails");
    // Whose limit it was is said of a run above it: all connections were busy, or a busy machine kept this client from
    // its CPU.
    let mut steps = found["steps"].as_array().expect("steps").iter();
    assert!(steps.any(|step| step["elsewhere"].is_string() || step["client_limited"].is_string()), "{found}");
    if let Some(sign) = found["elsewhere"].as_str() {
        assert!(sign.contains("--connections"), "{sign}");
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
