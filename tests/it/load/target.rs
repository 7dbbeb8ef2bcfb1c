//! The target by itself: fragmented requests, limits, ports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rxlab_load::servers::{Spec, Target, TargetError};

use super::{millis, target};
use crate::process::{response, wait_for};

fn connect(target: &Target) -> TcpStream {
    let stream = TcpStream::connect(target.addresses().http.expect("served")).expect("connected");
    stream.set_read_timeout(Some(millis(5000))).expect("a socket option");
    stream
}

/// Sends `text` and reads until the target closes.
fn query(target: &Target, text: &str) -> String {
    response(target.addresses().http.expect("served"), text)
}

#[test]
fn requests_in_pieces_and_in_batches() {
    let target = target(1);
    let mut stream = connect(&target);
    for byte in b"GET /simple HTTP/1.1\r\nHost: x\r\n\r\n" {
        stream.write_all(&[*byte]).expect("sent");
    }
    let mut answer = [0; 200];
    let length = stream.read(&mut answer).expect("answered");
    assert!(answer[..length].ends_with(b"Hello, world!\n"));

    let batch = "GET /simple HTTP/1.1\r\n\r\n".repeat(3)
        + "PUT /nowhere HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde"
        + "HEAD /simple HTTP/1.1\r\n\r\nGET /simple HTTP/1.1\r\nConnection: close\r\n\r\nGET /late";
    let answers = query(&target, &batch);
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 5);
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 1);
    assert_eq!(answers.matches("Hello").count(), 4);
    let counters = target.stop();
    assert_eq!((counters.requests, counters.refused, counters.connections), (7, 1, 2));
}

#[test]
fn invalid_and_oversized_requests_close_the_connection() {
    let target = target(1);
    let long = "x".repeat(20_000);
    for (text, status) in [
        ("\r\rnonsense\r\n\r\n".to_owned(), 400),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 431),
        ("GET /simple HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n".to_owned(), 413),
        ("POST /simple HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 405),
        ("GET /compute?us=x HTTP/1.0\r\n\r\n".to_owned(), 400),
    ] {
        let answer = query(&target, &text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
}

/// A client that sends without reading must not make the target buffer all its responses.
#[test]
fn responses_wait_for_a_slow_reader() {
    let target = target(1);
    let mut stream = connect(&target);
    let requests = 200_000;
    let mut writer = stream.try_clone().expect("cloned");
    let sending = std::thread::spawn(move || {
        let block = "GET /simple HTTP/1.1\r\n\r\n".repeat(1000);
        (0..requests / 1000).for_each(|_| writer.write_all(block.as_bytes()).expect("sent"));
        writer.write_all(b"GET /simple HTTP/1.1\r\nConnection: close\r\n\r\n").expect("sent");
    });
    std::thread::sleep(millis(100));
    assert!(target.counters().requests < requests, "nothing held the target back");
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).expect("answered and closed");
    sending.join().expect("sent");
    assert_eq!(answers.windows(6).filter(|w| w == b"Hello,").count() as u64, requests + 1);
}

#[test]
fn a_port_in_use_is_refused_even_for_a_second_target() {
    // A separate address: other tests open and close ports of 127.0.0.1 all the time.
    let any: Option<SocketAddr> = Some(([127, 77, 0, 1], 0).into());
    let all = Spec { http: any, udp_echo: any, udp_sink: any, threads: 2, ..Spec::default() };
    let first = Target::start(&all).expect("started");
    let addresses = first.addresses();
    for spec in [
        Spec { http: addresses.http, ..Spec::default() },
        Spec { udp_echo: addresses.udp_echo, ..Spec::default() },
        Spec { udp_sink: addresses.udp_sink, ..Spec::default() },
    ] {
        let error = Target::start(&spec).expect_err("taken");
        assert!(matches!(error, TargetError::Bind { .. }), "{error}");
    }
    drop(first);
    // Processes that other tests start at this moment have a copy of its sockets until they run their program.
    wait_for("free again", || Target::start(&Spec { http: addresses.http, ..Spec::default() }).is_ok());
}

#[test]
fn no_service_and_invalid_addresses_are_errors() {
    assert!(matches!(Target::start(&Spec::default()), Err(TargetError::Nothing)));
    let any: Option<SocketAddr> = Some(([127, 0, 0, 1], 0).into());
    let spec = |threads, cpus: &str| Spec {
        http: any,
        threads,
        cpus: cpus.parse().expect("a list"),
        ..Spec::default()
    };
    assert!(matches!(Target::start(&spec(0, "")), Err(TargetError::Threads(0))));
    assert!(matches!(Target::start(&spec(1, "1000")), Err(TargetError::Pin { .. })));
    let lost = Spec { netns: Some("/run/netns/rxlab-no-such".into()), ..spec(1, "") };
    assert!(matches!(Target::start(&lost), Err(TargetError::Namespace(_))));
}

#[test]
fn a_body_of_any_length_arrives_complete() {
    let target = target(1);
    for length in [0, 1, 65_000, 65_536, 3_000_000] {
        let request = |method, last: &str| format!("{method} /bytes?n={length} HTTP/1.1\r\n{last}\r\n");
        let text = request("GET", "") + &request("HEAD", "") + &request("GET", "Connection: close\r\n");
        let answers = query(&target, &text);
        let heads = answers.matches(&format!("Content-Length: {length}\r\n")).count();
        assert_eq!(heads, 3, "{length}");
        // No head contains an `x`: they are all from the two bodies, and HEAD has none.
        assert_eq!(answers.matches('x').count(), 2 * length, "{length}");
        assert!(length == 0 || answers.ends_with('x'));
    }
}

/// A delay holds up only what is behind it on the same connection, and takes no CPU time.
#[test]
fn a_delay_keeps_the_order_and_blocks_only_its_connection() {
    let target = target(1);
    let begun = std::time::Instant::now();
    let mut waiting = connect(&target);
    let batch = "GET /bytes?n=3 HTTP/1.1\r\n\r\nGET /delay?us=400000 HTTP/1.1\r\n\r\n\
                 GET /delay?us=200000 HTTP/1.1\r\n\r\nGET /nowhere HTTP/1.1\r\n\r\n";
    waiting.write_all(batch.as_bytes()).expect("sent");
    let others = (0..20).map(|_| query(&target, "GET /simple HTTP/1.1\r\nConnection: close\r\n\r\n"));
    assert!(others.into_iter().all(|answer| answer.contains("Hello")));
    let served_at = begun.elapsed();
    let mut first = [0; 1000];
    let length = waiting.read(&mut first).expect("answered");
    assert!(first[..length].ends_with(b"xxx"), "requests before the delay do not wait");
    if served_at < millis(400) {
        assert_eq!(target.counters().requests, 21, "the others were served meanwhile");
    }
    waiting.write_all(b"GET /simple HTTP/1.1\r\nConnection: close\r\n\r\n").expect("usable while it waits");
    let mut rest = String::new();
    waiting.read_to_string(&mut rest).expect("answered and closed");
    assert!(begun.elapsed() >= millis(600), "after {:?}", begun.elapsed());
    let statuses: Vec<_> = rest.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")).collect();
    assert_eq!(statuses, ["200 OK", "200 OK", "404 Not Found", "200 OK"]);
    assert!(target.cpu_seconds() < 0.2, "{} s of CPU", target.cpu_seconds());
    assert_eq!(target.stop().requests, 25);
}

/// A client that disconnects during the delay leaves nothing behind, and its slot is reused.
#[test]
fn a_delayed_client_may_disconnect() {
    let target = target(1);
    for _ in 0..10 {
        let mut stream = connect(&target);
        stream.write_all(b"GET /delay?us=20000 HTTP/1.1\r\n\r\n").expect("sent");
    }
    let mut stream = connect(&target);
    stream.write_all(b"GET /delay?us=100000 HTTP/1.1\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered and closed");
    assert!(answer.ends_with("Hello, world!\n"), "{answer}");
    assert_eq!(target.stop().connections, 11);
}

#[test]
fn each_thread_reports_its_cpu_and_requests() {
    let any: Option<SocketAddr> = Some(([127, 0, 0, 1], 0).into());
    let cpus = "0".parse().expect("a list");
    let target = Target::start(&Spec { http: any, threads: 3, cpus, ..Spec::default() }).expect("started");
    for _ in 0..60 {
        query(&target, "GET /simple HTTP/1.1\r\nConnection: close\r\n\r\n");
    }
    let threads = target.threads();
    assert_eq!(threads.iter().map(|thread| thread.thread).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(threads.iter().all(|thread| thread.cpu_pinned.is_some_and(|cpu| cpu.0 == 0)));
    assert!(threads.iter().all(|thread| thread.cpu_seconds.is_some()));
    // The kernel distributes connections by a hash: one of the threads may get none of sixty.
    let busy = threads.iter().filter(|thread| thread.counters.connections > 0).count();
    assert!(busy > 1, "{threads:?}");
    for thread in &threads {
        assert_eq!(thread.counters.requests, thread.counters.connections, "{threads:?}");
    }
    assert_eq!(threads.iter().map(|thread| thread.counters.requests).sum::<u64>(), 60);
}
