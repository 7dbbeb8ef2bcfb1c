//! What other load generators blame on the wrong side, leave out, or cannot read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::{connections, millis, run, rxlab, serve_http, simple, spec, steady};
use crate::lab::inside;
use crate::process::{Ended, Running, wait_for};
use crate::require;
use rxlab::lab::Namespace;
use rxlab_load::servers::{self, Target};
use rxlab_load::{ErrorClass, Percentile, Report, Session, Spec};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers each request of a connection after `wait(n)`, `n` counted on this connection.
fn served(mut stream: TcpStream, wait: impl Fn(u64) -> Duration) {
    let mut buffer = [0; 4096];
    for n in 0.. {
        let Ok(1..) = stream.read(&mut buffer) else { return };
        std::thread::sleep(wait(n));
        if stream.write_all(OK).is_err() {
            return;
        }
    }
}

/// HAProxy says so before it ends a connection without a request; every request had its 200.
#[test]
fn the_408_of_an_idle_connection_is_no_failed_request() {
    let address = connections(|mut stream| {
        stream.set_read_timeout(Some(millis(100))).expect("set");
        let mut buffer = [0; 4096];
        if stream.read(&mut buffer).is_ok() {
            let _ = stream.write_all(OK);
            stream.set_read_timeout(None).expect("set");
            return served(stream, |_| Duration::ZERO);
        }
        let _ = stream
            .write_all(b"HTTP/1.1 408 Request Time-out\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
    let mut spec = spec(&format!("http://{address}/"));
    (spec.connections, spec.rate) = (16, steady(10.0));
    let total = run(&spec, millis(800));
    assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
    assert_eq!(total.sent, total.requests + total.in_flight);
    assert!(!total.events.is_empty(), "they are counted elsewhere: {total:?}");
}

/// 1 of 20 takes longer than the timeout, so no true p99 is below it.
#[test]
fn requests_that_time_out_stay_in_the_percentiles() {
    let address = connections(|stream| served(stream, |n| millis(if n == 5 { 300 } else { 0 })));
    let mut spec = spec(&format!("http://{address}/"));
    (spec.connections, spec.timeout, spec.rate) = (40, millis(150), steady(500.0));
    let total = run(&spec, millis(2000));
    assert!(total.errors[&ErrorClass::Timeout] >= 15, "{total:?}");
    let latency = Report::new(&spec, &total).latency_us;
    let p99 = latency.p99.unwrap_or(0.0);
    assert!(p99 >= 149_000.0 || latency.at_least.contains(&Percentile::P99), "{latency:?}");
}

/// The server is up: what is missing are ports of this machine.
#[test]
fn more_connections_than_ports_are_a_failure_of_this_machine() {
    require::needs!(netns, root);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo up").expect("up");
    inside(&namespace, "sysctl").args(["-q", "-w", "net.ipv4.ip_local_port_range=40000 40049"]).exits(0);
    let (http, netns) = (Some(([127, 0, 0, 1], 9000).into()), Some(namespace.path()));
    let target = servers::Spec { http, netns: netns.clone(), ..Default::default() };
    let _target = Target::start(&target).expect("started");
    let mut spec = spec("http://127.0.0.1:9000/simple");
    (spec.connections, spec.netns) = (100, netns);
    let total = run(&spec, millis(200));
    assert!(total.requests > 0 && !total.unreachable, "{total:?}");
    assert_eq!(total.errors.keys().collect::<Vec<_>>(), [&ErrorClass::Local]);
    let report = Report::new(&spec, &total);
    let reason = report.saturation.reason.expect("the client is the limit");
    for part in ["no free local port", "--source", "ip_local_port_range"] {
        assert!(reason.contains(part), "{reason}");
    }
}

/// A firewall or a router on the way rejects packets (ICMP). To a socket that looks like a route, over IPv6 like a
/// permission, that this machine lacks.
#[test]
fn an_answer_of_the_network_is_no_failure_of_this_machine() {
    require::needs!(netns, root, nft);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo up").expect("up");
    let nft = |rule: &str| inside(&namespace, "nft").arg(rule).exits(0);
    nft("add table inet t; add chain inet t c { type filter hook input priority 0; }");
    let reject = |with: &str| {
        nft(&format!("flush chain inet t c; add rule inet t c th dport 9000 reject with icmpx type {with}"));
    };
    for host in ["127.0.0.1", "[::1]"] {
        nft("flush chain inet t c");
        let netns = Some(namespace.path());
        let at = Some(format!("{host}:9000").parse().expect("an address"));
        let target = servers::Spec { http: at, udp_echo: at, netns: netns.clone(), ..Default::default() };
        let _target = Target::start(&target).expect("started");
        let load = |scheme| Spec { netns: netns.clone(), ..spec(&format!("{scheme}://{host}:9000")) };
        let udp = Spec { connections: 2, rate: steady(100.0), timeout: millis(200), ..load("udp") };
        let session = Session::start(&udp).expect("started");
        std::thread::sleep(millis(100));
        reject("admin-prohibited");
        std::thread::sleep(millis(400));
        let total = session.stop();
        let reasons = total.reasons.of(ErrorClass::Connect);
        let is_named = reasons.first().is_some_and(|(reason, _)| reason.starts_with("No route to host"));
        let is_lost = |class: &ErrorClass| [ErrorClass::Connect, ErrorClass::Timeout].contains(class);
        assert!(is_named && total.errors.keys().all(is_lost), "{host}: {total:?}");
        for (scheme, with) in
            [("udp", "admin-prohibited"), ("http", "admin-prohibited"), ("http", "no-route")]
        {
            reject(with);
            let error = Session::start(&load(scheme)).expect_err("rejected").to_string();
            let parts = ["cannot reach the target", "No route to host"];
            assert!(
                error.starts_with(parts[0]) && error.contains(parts[1]),
                "{host}, {scheme}, {with}: {error}"
            );
        }
    }
}

/// The response lies in the socket when the body can no longer be written, behind a reset.
#[test]
fn a_response_before_the_whole_body_was_read_is_a_response() {
    let address = connections(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    });
    let mut spec = spec(&format!("http://{address}/"));
    (spec.method, spec.body) = ("POST".to_owned(), vec![b'x'; 8_000_000].into());
    (spec.connections, spec.requests) = (2, Some(10));
    let total = run(&spec, millis(3000));
    assert!(total.statuses.get(&413).is_some_and(|count| *count >= 8), "{total:?}");
}

/// A load once went on between its last cut and its end: the log of the server had requests that no result had.
#[test]
fn the_server_has_as_many_requests_as_were_sent() {
    let _noise = crate::quiet::noisy();
    let (target, spec) = simple();
    for _ in 0..5 {
        let before = target.counters().requests;
        let session = Session::start(&spec).expect("started");
        std::thread::sleep(millis(50));
        let (total, _) = session.finish();
        wait_for("the last count", || target.counters().requests - before == total.sent);
    }
}

/// TCP connects a socket to itself where the kernel chooses the port without a listener as the local one.
#[test]
fn a_connection_to_itself_is_no_server() {
    let port = crate::process::free_port();
    let mut spec = spec(&format!("http://127.0.0.1:{port}/"));
    (spec.connections, spec.sources, spec.source_ports) = (1, vec![[127, 0, 0, 1].into()], vec![port]);
    let error = Session::start(&spec).expect_err("nothing listens").to_string();
    assert!(error.contains("refused"), "{error}");
}

/// The shares of a run that ends by its number of requests are of its own time: with the wait for the next cut in them,
/// a thread had once waited 583 % of the time for its CPU.
#[test]
fn no_share_of_a_short_run_exceeds_its_time() {
    let _noise = crate::quiet::noisy();
    let (_target, url) = serve_http("/simple");
    let report: Value = rxlab(&["load", &url, "--requests", "20", "-c", "2", "--json"]).json(0);
    let thread = &report["client_cpu"][0];
    for part in ["share", "waiting"] {
        // The scheduler's clocks are read one after the other.
        assert!(thread[part].as_f64().is_some_and(|share| share <= 1.1), "{part}: {thread}");
    }
}

/// However much is due, the load ends in time, or with Ctrl-C.
#[test]
fn a_rate_beyond_ability_ends_on_time() {
    let _noise = crate::quiet::noisy();
    let (target, url) = serve_http("/simple");
    let load = |time: &str| rxlab(&["load", &url, "-c", "4", "--rate", "50000000", "--for", time, "--json"]);
    let begun = Instant::now();
    let report: Value = load("1s").json(0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let count = |part: &str| report["not_sent"][part].as_u64().expect("a count");
    assert!(count("late") + count("waiting") > 1_000_000, "{}", report["not_sent"]);
    let before = target.counters().requests;
    let running = Running::start(&mut load("60s"));
    while target.counters().requests == before {
        std::thread::sleep(millis(10));
    }
    running.signal(Signal::INT);
    let begun = Instant::now();
    let report: Value = running.output().json(130);
    assert_eq!(report["interrupted"], Value::Bool(true));
    // 0.2 s on a quiet machine.
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
