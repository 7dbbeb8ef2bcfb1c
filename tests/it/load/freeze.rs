//! A server process that is stopped or killed during a load: its unanswered requests count.

use rustix::process::Signal;
use rxlab_load::{Interval, Percentile, Report, Saturation, Session, Spec, render};
use rxlab_trial::workload::Driver;
use serde_json::Value;

use super::{find, millis, rxlab, serve, spec, steady};
use crate::process::{Ended, Running, json, wait_for};

const RATE: f64 = 2000.0;
/// Length of the freeze at the end of the measurement.
const FROZEN_MS: u64 = 600;
/// Far longer than a run: no request times out.
const TIMEOUT: u64 = 60_000;

/// A load at [`RATE`] on `server`, which stops after some requests. Returns the measurement up to the end of the
/// freeze.
fn frozen(server: &Running, url: &str) -> (Session, Spec, Interval) {
    let mut spec = spec(url);
    (spec.connections, spec.threads) = (8, 2);
    (spec.rate, spec.timeout) = (steady(RATE), millis(TIMEOUT));
    let mut session = Session::start(&spec).expect("started");
    let mut measured = session.mark();
    wait_for("some answers", || {
        measured = measured.clone().then(&session.mark());
        measured.requests > 100
    });
    server.signal(Signal::STOP);
    std::thread::sleep(millis(FROZEN_MS));
    let measured = measured.then(&session.mark());
    (session, spec, measured)
}

/// Each due request is answered, an error, or unanswered at the end, and the percentiles include all of them.
fn check(measured: &Interval, spec: &Spec) -> Report {
    let due = measured.offered.expect("open loop") * measured.seconds;
    assert!(measured.errors.is_empty(), "{measured:?}");
    let accounted = measured.latencies().len() as f64;
    assert!((accounted - due).abs() < 0.5, "{accounted} of {due}: {measured:?}");
    let frozen = RATE * FROZEN_MS as f64 / 1000.0;
    assert!(measured.unanswered.len() as f64 > 0.8 * frozen, "{measured:?}");
    let report = Report::new(spec, measured);
    let latency = &report.latency_us;
    // Requests due when the server stopped have waited for the whole freeze.
    assert!(latency.max > Some(800.0 * FROZEN_MS as f64), "{latency:?}");
    assert!(latency.at_least.contains(&Percentile::Max), "{latency:?}");
    assert_eq!(report.unanswered, measured.unanswered.len());
    let text = render(&report);
    assert!(text.contains(">=: at least") && text.contains("at the end  "), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    report
}

/// A freeze at the end of a run once gave a p99 of a millisecond, and no error.
#[test]
fn a_freeze_at_the_end_shows_in_the_percentiles() {
    let _noise = crate::quiet::noisy();
    let (server, url) = find::serve("/simple");
    let (mut session, spec, measured) = frozen(&server, &url);
    let report = check(&measured, &spec);
    assert_eq!(measured.in_flight, 8, "one on each connection");
    assert_eq!(report.unanswered, 8 + measured.not_sent.waiting + measured.not_sent.late);
    assert!(measured.not_sent.waiting > measured.not_sent.late, "{measured:?}");

    // The client is not the reason for unsent requests.
    let saturation = Saturation::judge(&measured);
    let reason = saturation.reason.unwrap_or_default();
    assert!(!reason.contains("not sent in time"), "{reason}");
    let elsewhere = saturation.elsewhere.unwrap_or_default();
    assert!(elsewhere.starts_with("no connection was free for "), "{elsewhere}");

    // Bounds hold: the responses that arrive after all took at least as long.
    let bounds = measured.latencies();
    server.signal(Signal::CONT);
    let mut total = measured.clone();
    wait_for("the answers", || {
        total = total.clone().then(&session.mark());
        total.requests >= measured.requests + measured.unanswered.len()
    });
    assert!(total.latency.max() >= bounds.max(), "{total:?}");
    assert!(total.errors.is_empty(), "{total:?}");
}

#[test]
fn unanswered_datagrams_count_with_their_age() {
    let _noise = crate::quiet::noisy();
    let (server, addresses) = serve();
    let url = format!("udp://{}", addresses["udp_echo"].as_str().expect("served"));
    let (_session, spec, measured) = frozen(&server, &url);
    check(&measured, &spec);
    // Datagrams do not wait for responses: everything due was sent.
    assert_eq!(
        (measured.unanswered.len(), measured.not_sent.waiting),
        (measured.in_flight + measured.not_sent.late, 0)
    );
}

/// A slot of a trial without any response has percentiles, marked as lower bounds.
#[test]
fn a_slot_in_a_freeze_has_lower_bounds() {
    let _noise = crate::quiet::noisy();
    let (server, url) = find::serve("/simple");
    let (session, ..) = frozen(&server, &url);
    let mut driver = Driver::Load(session);
    driver.begin().expect("it runs here");
    std::thread::sleep(millis(FROZEN_MS));
    let (work, trouble) = driver.end(None).expect("no command");
    // Only requests due in the slot count: they are due all through it, so half of them wait for half of it.
    let least = 800.0 * FROZEN_MS as f64;
    assert!(work.values["p50_us"] > least / 2.0 && work.at_least.contains(&"p50_us".to_owned()), "{work:?}");
    assert!(trouble.p99_us > Some(least) && trouble.error_rate == 0.0, "{trouble:?}");
}

/// The program as a whole: its JSON object, its series and its log.
#[test]
fn the_result_of_a_frozen_run_has_lower_bounds() {
    let _noise = crate::quiet::noisy();
    let (server, url) = find::serve("/simple");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log.hlog");
    let log = log.to_str().expect("text");
    let served = switches(&server);
    let args = ["load", &url, "--for", "10m", "--rate", "2000", "--timeout", "1m", "-c", "8", "--json"];
    let load = Running::start(rxlab(&args).args(["--hdr-log", log]));
    wait_for("some requests", || switches(&server) > served + 100);
    server.signal(Signal::STOP);
    std::thread::sleep(millis(FROZEN_MS));
    load.signal(Signal::INT);
    let report: Value = load.output().json(130);
    let least = 800.0 * FROZEN_MS as f64;
    let seconds = report["series"].as_array().expect("seconds");
    for latency in [&report["latency_us"], &seconds.last().expect("a second")["latency_us"]] {
        assert!(latency["max"].as_f64() > Some(least), "{report}");
        assert!(latency["at_least"].as_array().is_some_and(|all| all.contains(&"max".into())), "{report}");
    }
    let (not_sent, in_flight) = (&report["not_sent"], &report["in_flight"]);
    let parts =
        [in_flight, &not_sent["waiting"], &not_sent["late"]].map(|count| count.as_u64().expect("a count"));
    assert_eq!(report["unanswered"].as_u64(), Some(parts.iter().sum()));
    let log = std::fs::read_to_string(log).expect("written");
    let longest = |line: &str| line.split(',').nth(2).and_then(|ms| ms.parse::<f64>().ok());
    assert!(log.lines().filter_map(longest).any(|ms| ms > least / 1000.0), "{log}");
}

#[test]
fn a_killed_target_is_code_5_with_a_result() {
    let _noise = crate::quiet::noisy();
    for (key, scheme, path) in [("http", "http", "/simple"), ("udp_echo", "udp", "")] {
        let (server, addresses) = serve();
        let url = format!("{scheme}://{}{path}", addresses[key].as_str().expect("served"));
        let served = switches(&server);
        let load = Running::start(&mut rxlab(&["load", &url, "--for", "3s", "--timeout", "200ms", "--json"]));
        wait_for("some requests", || switches(&server) > served + 100);
        drop(server);
        let out = load.output();
        out.says(5, "was unreachable at the end");
        let report: Value = json(&out);
        assert!(report["unreachable"] == true && report["requests"].as_u64() > Some(0), "{report}");
        assert!(report["bytes_received"].as_u64() > Some(0), "{report}");
    }
}

/// Number of times the threads of a process have gone to sleep: a server does so after each request.
fn switches(server: &Running) -> u64 {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let tasks = std::fs::read_dir(tasks).expect("it runs").flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    status
        .filter_map(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
            line.trim().parse::<u64>().ok()
        })
        .sum()
}
