//! Servers that lie, cut off, reset and babble: every failure has its class, and nothing hangs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rxlab::load::{ErrorClass, Interval};

use super::{millis, run, spec};

/// Serves every connection with `behave`, on a thread of its own.
fn rogue(behave: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behave = behave.clone();
            std::thread::spawn(move || behave(stream));
        }
    });
    address
}

/// Waits for a request, then says `text` and hangs up.
fn says(text: &'static str) -> SocketAddr {
    rogue(move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(text.as_bytes());
    })
}

fn attack(address: SocketAddr, rate: Option<f64>) -> Interval {
    let mut spec = spec(&format!("http://{address}/"));
    (spec.connections, spec.pipeline, spec.rate) = (4, 2, rate);
    spec.timeout = millis(100);
    let start = Instant::now();
    let total = run(&spec, millis(300));
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
    let ended = total.requests + total.error_count();
    assert!(total.sent <= ended + total.in_flight, "a request got lost: {total:?}");
    total
}

/// Both loops see `class`, and no good answer.
fn expect(address: SocketAddr, class: ErrorClass) {
    for rate in [None, Some(300.0)] {
        let total = attack(address, rate);
        assert!(total.errors.get(&class).is_some_and(|n| *n > 0), "{class:?}, {rate:?}: {:?}", total.errors);
        assert_eq!(total.requests, 0, "{class:?}, {rate:?}");
    }
}

#[test]
fn cut_off_answers() {
    expect(says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), ErrorClass::Truncated);
    expect(says("HTTP/1.1 200 OK\r\nContent-"), ErrorClass::Truncated);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    expect(says(chunked), ErrorClass::Truncated);
}

#[test]
fn garbage() {
    expect(says("SSH-2.0-OpenSSH_9.2\r\n"), ErrorClass::Garbage);
    expect(says("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ErrorClass::Garbage);
    expect(says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ErrorClass::Garbage);
}

#[test]
fn hanging_up_and_resetting() {
    expect(says(""), ErrorClass::Closed);
    let reset = rogue(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        let linger = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&stream, linger).expect("a socket option");
    });
    expect(reset, ErrorClass::Reset);
}

#[test]
fn silence_is_a_timeout() {
    expect(rogue(|_stream| std::thread::sleep(millis(3000))), ErrorClass::Timeout);
    // An answer that never ends is no answer.
    let endless = rogue(|mut stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
        let _ = stream.write_all(head);
        while stream.write_all(&[b'x'; 4096]).is_ok() {
            std::thread::sleep(millis(1));
        }
    });
    expect(endless, ErrorClass::Timeout);
}

#[test]
fn error_statuses_are_no_success() {
    let answers = |head: &'static str| {
        rogue(move |mut stream| {
            while let Ok(1..) = stream.read(&mut [0; 4096]) {
                if stream.write_all(format!("{head}\r\nContent-Length: 0\r\n\r\n").as_bytes()).is_err() {
                    break;
                }
            }
        })
    };
    expect(answers("HTTP/1.1 503 Busy"), ErrorClass::Status5xx);
    expect(answers("HTTP/1.1 302 Elsewhere"), ErrorClass::Status3xx);
}

#[test]
fn answers_to_no_request() {
    let generous = rogue(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(answer.repeat(1000).as_bytes());
        std::thread::sleep(millis(500));
    });
    let total = attack(generous, None);
    assert!(total.errors[&ErrorClass::Unexpected] > 0, "{:?}", total.errors);
}

#[test]
fn one_answer_a_connection_is_served_well() {
    let total = attack(says("HTTP/1.0 200 OK\r\n\r\nbody until the end"), Some(100.0));
    assert!(total.requests > 10, "{total:?}");
}

#[test]
fn more_than_the_connections_can_carry_is_unsent() {
    // 100 ms for an answer, four connections, depth 2: 80 a second at most.
    let slow = rogue(|mut stream| {
        while let Ok(1..) = stream.read(&mut [0; 4096]) {
            std::thread::sleep(millis(60));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
    });
    let total = attack(slow, Some(5000.0));
    assert!(total.errors[&ErrorClass::Unsent] > 0, "{:?}", total.errors);
    let saturation = rxlab::load::Saturation::of(&total);
    assert!(saturation.limited, "{saturation:?}");
}
