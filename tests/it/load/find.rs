//! The search for the highest rate, on servers with a known limit.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::rxlab;
use crate::process::{Running, json};

/// A search takes long on a busy machine: after this time it is interrupted and prints what it has.
const PATIENCE: Duration = Duration::from_secs(40);

/// Result of a search, and true if it is complete. It is not if `patience` ran out, or if no rate held because other
/// processes use the CPUs of this machine. Either way no run at `most` per second or more kept its limits.
pub(super) fn search(args: &[&str], patience: Duration, most: f64) -> (Value, bool) {
    let mut command = rxlab(&["--json", "load", "--find-max", "--confirm", "0s"]);
    let mut running = Running::start(command.args(args));
    let begun = Instant::now();
    while !running.has_ended() && begun.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(50));
    }
    if !running.has_ended() {
        running.signal(Signal::INT);
    }
    let out = running.output();
    let found: Value = json(&out);
    assert_eq!(found["schema"], "rxlab.find-max/3");
    let code = match (&found["interrupted"], &found["holds"]) {
        (Value::Bool(true), _) => 130,
        (_, Value::Null) => 5,
        _ => 0,
    };
    assert_eq!(out.status.code(), Some(code), "{out:?}");
    let steps = found["steps"].as_array().expect("steps");
    let kept = |step: &&Value| {
        step["margins"].as_array().is_some_and(|all| all.iter().all(|m| m.as_f64() > Some(0.0)))
    };
    let rate = |step: &Value| step["rate"].as_f64().expect("a rate");
    assert!(steps.iter().filter(kept).all(|step| rate(step) < most), "{found}");
    assert!(steps.iter().any(|step| step["values"][0].is_number()), "{found}");
    if code == 0 {
        let number = |name: &str| found[name].as_f64();
        let holds = number("holds").expect("one holds");
        assert!(holds < most && number("fails").is_none_or(|fails| fails > holds), "{found}");
        let fresh = steps.iter().filter(|step| step["purpose"] == "confirms").count();
        assert!(fresh >= 30, "{fresh} fresh runs");
    }
    (found, code == 0)
}

/// A target, and the URL of `path` on it. It is a separate process because a search reads the server's CPU time,
/// which must not include other tests.
pub(super) fn serve(path: &str) -> (Running, String) {
    let (server, addresses) = super::serve();
    (server, format!("http://{}{path}", addresses["http"].as_str().expect("served")))
}

/// Work for 500 requests per second, calibrated when the server starts: the machine may be faster or slower then than
/// later, but not by half. The rate of responses while more was due is the true limit.
#[test]
fn the_highest_rate_of_one_thread_that_computes() {
    let _noise = crate::quiet::noisy();
    let (_server, url) = serve("/compute?us=2000");
    let (found, answered) =
        search(&[&url, "-c", "16", "--slo", "p90<40ms", "--for", "200ms"], PATIENCE, 1000.0);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!((1.0..1000.0).contains(&number(&found["closed_loop"])), "{found}");
    let steps = found["steps"].as_array().expect("steps");
    let fastest = steps.iter().map(|step| number(&step["answered"])).fold(0.0, f64::max);
    assert!(!answered || number(&found["holds"]) <= 1.01 * fastest, "{fastest}: {found}");
}

/// Eight connections at 10 ms per response allow at most 800 per second, however fast the machine is. A busy machine
/// makes delays longer, never shorter; a run includes some responses to requests due before it.
#[test]
fn a_search_finds_a_known_limit() {
    crate::require::needs!(minutes);
    let _noise = crate::quiet::noisy();
    let (_server, url) = serve("/delay?us=10000");
    let (found, answered) =
        search(&[&url, "-c", "8", "--slo", "p90<100ms", "--for", "150ms"], 3 * PATIENCE, 850.0);
    if answered {
        let number = |name: &str| found[name].as_f64().unwrap_or_else(|| panic!("no {name}: {found}"));
        let holds = number("holds");
        assert!((number("closed_loop") / 3.0..=850.0).contains(&holds), "{found}");
        assert!(number("fails") < 1200.0, "{found}");
    }
    // The result names the limit above the highest rate: all connections were busy, or a busy machine kept this
    // client from its CPU.
    let steps = found["steps"].as_array().expect("steps");
    let says = |step: &Value| step["elsewhere"].is_string() || step["client_limited"].is_string();
    let got_there = answered || steps.iter().any(|step| step["rate"].as_f64() > Some(1000.0));
    assert!(!got_there || steps.iter().any(says), "{found}");
    if let Some(sign) = found["elsewhere"].as_str() {
        assert!(sign.contains("--connections"), "{sign}");
    }
}
