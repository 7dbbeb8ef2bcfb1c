//! The target by itself: requests in odd pieces, limits, ports.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use rxlab::target::{Spec, Target, TargetError};

use super::{millis, target};

fn connect(target: &Target) -> TcpStream {
    let stream = TcpStream::connect(target.addresses().http.expect("served")).expect("connected");
    stream.set_read_timeout(Some(millis(5000))).expect("a socket option");
    stream
}

/// Sends `text` and reads until the target closes.
fn ask(target: &Target, text: &str) -> String {
    let mut stream = connect(target);
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered and closed");
    answer
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
    let answers = ask(&target, &batch);
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 5);
    assert_eq!(answers.matches("HTTP/1.1 404").count(), 1);
    assert_eq!(answers.matches("Hello").count(), 4);
    let counters = target.stop();
    assert_eq!((counters.requests, counters.refused, counters.connections), (7, 1, 2));
}

#[test]
fn nonsense_and_excess_are_refused_and_the_connection_closed() {
    let target = target(1);
    let long = "x".repeat(20_000);
    for (text, status) in [
        ("\r\rnonsense\r\n\r\n".to_owned(), 400),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 431),
        ("GET /simple HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n".to_owned(), 413),
        ("POST /simple HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 405),
        ("GET /compute?us=x HTTP/1.0\r\n\r\n".to_owned(), 400),
    ] {
        let answer = ask(&target, &text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
}

/// A client that sends and does not read must not make the target hold all its answers.
#[test]
fn answers_wait_for_a_slow_reader() {
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
fn a_port_in_use_is_refused_also_to_a_second_target() {
    // An address of its own: other tests take and leave the ports of 127.0.0.1 all the time.
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
    Target::start(&Spec { http: addresses.http, ..Spec::default() }).expect("free again");
}

#[test]
fn nothing_to_serve_and_wrong_places_are_errors() {
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
