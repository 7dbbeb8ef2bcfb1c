//! HTTP load against the target: counts, rates, latency.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use rxlab_load::servers::Target;
use rxlab_load::{ErrorClass, LoadError, Session, Spec};

use crate::process::{free_port, wait_for};

use super::{millis, run, simple, spec, target};

/// A search opens new connections for every run.
#[test]
fn reset_connections_free_their_ports() {
    let (target, spec) = simple();
    let address = target.addresses().http.expect("served");
    let spec = Spec { connections: 20, ..spec };
    let _noise = crate::quiet::noisy();
    let waiting = || {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("readable");
        let port = format!(":{:04X}", address.port());
        let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        rows.filter(|row| row[2].ends_with(&port) && row[3] == "06").count()
    };
    let session = Session::start(&spec).expect("started");
    session.reset_at_end();
    drop(session);
    assert_eq!(waiting(), 0);
    drop(Session::start(&spec).expect("started"));
    let begun = Instant::now();
    while waiting() == 0 {
        assert!(begun.elapsed() < millis(5000), "the check itself is broken");
        std::thread::sleep(millis(5));
    }
}

#[test]
fn each_request_is_counted_once_by_client_and_target() {
    for (connections, pipeline, threads) in [(1, 1, 1), (7, 16, 2), (20, 100, 1)] {
        let target = target(2);
        let address = target.addresses().http.expect("served");
        let mut spec = spec(&format!("http://{address}/simple"));
        (spec.connections, spec.pipeline, spec.threads) = (connections, pipeline, threads);
        let total = run(&spec, millis(300));
        let case = format!("{connections} connections, depth {pipeline}, {threads} threads");
        assert!(total.requests > 0, "{case}");
        assert_eq!(total.errors, [].into(), "{case}");
        assert_eq!((total.in_flight, total.sent), (0, total.requests), "{case}");
        assert_eq!(total.latency.len(), total.requests, "{case}");
        assert_eq!((&total.statuses, total.unreachable), (&[(200, total.requests)].into(), false), "{case}");
        // All responses are identical, heads included.
        assert!(total.bytes > 0 && total.bytes.is_multiple_of(total.requests), "{case}: {}", total.bytes);
        assert_eq!(target.stop().requests, total.requests, "{case}");
        assert_eq!(total.client_cpu.len(), threads);
    }
}

#[test]
fn compute_takes_the_requested_time() {
    let (target, mut spec) = simple();
    (spec.url.path, spec.connections) = ("/compute?us=4000".to_owned(), 1);
    let total = run(&spec, millis(400));
    // Calibrated on the fastest of many attempts: half of it is a wide margin.
    assert!(total.latency.min() > 2_000_000, "{} ns", total.latency.min());
    assert!(target.cpu_seconds() > total.requests as f64 * 0.002 - 0.02);
    spec.url.path = "/compute?us=lots".to_owned();
    let total = run(&spec, millis(50));
    assert_eq!(total.requests, 0);
    assert!(total.errors[&ErrorClass::Status4xx] > 0);
}

#[test]
fn an_unreachable_target_is_reported_at_once() {
    let unused = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    for scheme in ["http", "udp", "udp-sink"] {
        let start = Instant::now();
        let error = Session::start(&spec(&format!("{scheme}://{unused}/"))).expect_err("no server");
        assert!(matches!(error, LoadError::Down { .. }), "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
        assert!(start.elapsed() < millis(2000), "{scheme} took {:?}", start.elapsed());
    }
}

#[test]
fn connections_to_a_restarted_target_are_reopened() {
    let _noise = crate::quiet::noisy();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let start = || {
        let spec = rxlab_load::servers::Spec { http: Some(address), ..Default::default() };
        Target::start(&spec).expect("the target starts")
    };
    let target = start();
    let mut spec = spec(&format!("http://{address}/simple"));
    spec.connections = 4;
    let mut session = Session::start(&spec).expect("started");
    std::thread::sleep(millis(50));
    drop(target);
    std::thread::sleep(millis(200));
    let down = session.mark();
    assert!(down.errors[&ErrorClass::Connect] > 0, "{down:?}");
    assert!(down.error_count() < 1000, "a storm of attempts: {down:?}");
    let _again = start();
    wait_for("answers, and no more errors", || {
        let up = session.mark();
        up.requests > 0 && up.errors.is_empty()
    });
}

#[test]
fn missing_cpus_and_namespaces_are_errors() {
    let (_target, mut spec) = simple();
    spec.cpus = "1000".parse().expect("a list");
    assert!(matches!(Session::start(&spec), Err(LoadError::Pin { .. })));
    spec.cpus = Default::default();
    spec.netns = Some("/run/netns/rxlab-no-such".into());
    assert!(matches!(Session::start(&spec), Err(LoadError::Namespace(_))));
}

#[test]
fn pinned_threads_report_their_cpus() {
    let (_target, mut spec) = simple();
    spec.cpus = "0".parse().expect("a list");
    spec.threads = 2;
    let total = run(&spec, millis(60));
    assert!(total.client_cpu.iter().all(|thread| thread.cpu_pinned.is_some_and(|cpu| cpu.0 == 0)));
    assert!(total.client_cpu.iter().all(|thread| thread.seconds > 0.0));
}
