//! Servers with wrong, truncated, reset and unsolicited responses: every failure has its class, and nothing hangs.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use rxlab_load::{ErrorClass, Event, Interval};

use super::{connections, millis, run, run_held, spec, steady};

/// Waits for a request, then sends `text` and closes the connection.
fn says(text: &'static str) -> SocketAddr {
    connections(move |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(text.as_bytes());
    })
}

/// Answers request `n` of a connection (from 0) with `answer(n)`, and closes the connection if that is empty. Later
/// data is read, so that the close does not become a reset.
fn answers(answer: impl Fn(u64) -> Vec<u8> + Clone + Send + 'static) -> SocketAddr {
    connections(move |mut stream| {
        let (mut input, mut buffer, mut n) = (Vec::new(), [0; 4096], 0);
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            input.extend_from_slice(&buffer[..length]);
            while let Some(end) = input.windows(4).position(|w| w == b"\r\n\r\n") {
                input.drain(..end + 4);
                let answer = answer(n);
                n += 1;
                if answer.is_empty() {
                    let _ = stream.shutdown(Shutdown::Write);
                    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
                    return;
                }
                if stream.write_all(&answer).is_err() {
                    return;
                }
            }
        }
    })
}

fn attack(address: SocketAddr, rate: Option<f64>) -> Interval {
    let mut spec = spec(&format!("http://{address}/"));
    (spec.connections, spec.pipeline, spec.rate) = (4, 2, rate.and_then(steady));
    spec.timeout = millis(100);
    let _noise = crate::quiet::noisy();
    let start = Instant::now();
    let total = run_held(&spec, millis(300));
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
    let ended = total.requests + total.error_count() - total.errors_not_sent;
    assert_eq!(total.sent, ended + total.in_flight, "a request was lost or made up: {total:?}");
    total
}

/// Both loops see `class`, and no successful response.
fn expect(address: SocketAddr, class: ErrorClass) {
    for rate in [None, Some(300.0)] {
        let total = attack(address, rate);
        assert!(total.errors.get(&class).is_some_and(|n| *n > 0), "{class:?}, {rate:?}: {:?}", total.errors);
        assert_eq!(total.requests, 0, "{class:?}, {rate:?}");
    }
}

#[test]
fn truncated_responses() {
    expect(says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), ErrorClass::Truncated);
    expect(says("HTTP/1.1 200 OK\r\nContent-"), ErrorClass::Truncated);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab";
    expect(says(chunked), ErrorClass::Truncated);
}

#[test]
fn garbage_responses() {
    expect(says("SSH-2.0-OpenSSH_9.2\r\n"), ErrorClass::Garbage);
    expect(says("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ErrorClass::Garbage);
    expect(says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ErrorClass::Garbage);
}

#[test]
fn closed_and_reset_connections() {
    expect(says(""), ErrorClass::Closed);
    let reset = connections(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        let linger = Some(Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&stream, linger).expect("a socket option");
    });
    expect(reset, ErrorClass::Reset);
}

#[test]
fn silence_is_a_timeout() {
    expect(connections(|_stream| std::thread::sleep(millis(3000))), ErrorClass::Timeout);
    // A response that never ends is not a response.
    let endless = connections(|mut stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
        let _ = stream.write_all(head);
        while stream.write_all(&[b'x'; 4096]).is_ok() {
            std::thread::sleep(millis(1));
        }
    });
    expect(endless, ErrorClass::Timeout);
}

/// Such a response was once assumed to end with its connection.
#[test]
fn a_head_response_without_a_length_keeps_the_connection() {
    for pipeline in [1, 8] {
        let address = answers(|_| b"HTTP/1.1 200 OK\r\n\r\n".to_vec());
        let mut spec = spec(&format!("http://{address}/"));
        (spec.method, spec.connections, spec.pipeline) = ("HEAD".to_owned(), 3, pipeline);
        let total = run(&spec, millis(200));
        assert!(total.requests > 0 && total.errors.is_empty(), "depth {pipeline}: {total:?}");
        assert_eq!((total.sent, total.opened), (total.requests, 0), "depth {pipeline}");
    }
}

#[test]
fn error_statuses_are_errors() {
    for (status, class) in [("503 Busy", ErrorClass::Status5xx), ("302 Elsewhere", ErrorClass::Status3xx)] {
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        expect(answers(move |_| answer.clone().into_bytes()), class);
    }
}

#[test]
fn unsolicited_responses() {
    let generous = connections(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(answer.repeat(1000).as_bytes());
        std::thread::sleep(millis(500));
    });
    let total = attack(generous, None);
    assert!(total.events[&Event::Unsolicited] > 0, "{total:?}");
}

#[test]
fn one_response_per_connection_causes_no_errors() {
    let total = attack(says("HTTP/1.0 200 OK\r\n\r\nbody until the end"), Some(100.0));
    assert!(total.requests > 10, "{total:?}");
}

#[test]
fn requests_beyond_the_capacity_of_the_connections_are_unsent() {
    // 100 ms per response, four connections, depth 2: at most 80 per second.
    let slow = connections(|mut stream| {
        while let Ok(1..) = stream.read(&mut [0; 4096]) {
            std::thread::sleep(millis(60));
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
    });
    let total = attack(slow, Some(5000.0));
    assert!(total.errors[&ErrorClass::Unsent] > 0, "{:?}", total.errors);
    let saturation = rxlab_load::Saturation::judge(&total);
    // The connections were busy all the time, and this client was not.
    assert!(!saturation.limited, "{saturation:?}");
    let elsewhere = saturation.elsewhere.unwrap_or_default();
    assert!(elsewhere.starts_with("no connection was free for 9"), "{elsewhere}");
}

/// An iteration handled only as many requests as one send allows, and ran only as often as the sweep for timeouts:
/// most of them were once not counted.
#[test]
fn any_number_of_requests_without_a_connection_is_unsent() {
    let silent = connections(|mut stream| while let Ok(1..) = stream.read(&mut [0; 4096]) {});
    let mut spec = spec(&format!("http://{silent}/"));
    (spec.connections, spec.rate, spec.timeout) = (1, steady(100_000.0), millis(500));
    let total = run(&spec, millis(1200));
    let unsent = total.errors[&ErrorClass::Unsent];
    assert!(unsent > 40_000, "{unsent} of 70,000 that were due half a second before the end");
}

/// Two wrong lengths: more than the body, and less.
#[test]
fn wrong_content_lengths() {
    let more = connections(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
        std::thread::sleep(millis(3000));
    });
    expect(more, ErrorClass::Timeout);
    let total = attack(answers(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello".to_vec()), None);
    let garbage = total.errors[&ErrorClass::Garbage];
    // The first response of each connection looks successful.
    assert!(garbage > 0 && total.requests <= garbage + 4, "{total:?}");
}

/// Every byte in a separate packet, and all of them count.
#[test]
fn responses_byte_by_byte() {
    let drip = connections(|mut stream| {
        stream.set_nodelay(true).expect("a socket option");
        while let Ok(length @ 1..) = stream.read(&mut [0; 4096]) {
            // Only whole requests, each of more than 16 bytes, one at a time.
            assert!(length > 16);
            for byte in b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    let mut spec = spec(&format!("http://{drip}/"));
    spec.connections = 3;
    let total = run(&spec, millis(300));
    assert!(total.requests > 0, "{total:?}");
    assert_eq!((total.errors.len(), total.sent), (0, total.requests), "{total:?}");
}

#[test]
fn an_endless_head() {
    let drip = connections(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(b"y").is_ok() {
            std::thread::sleep(millis(5));
        }
    });
    expect(drip, ErrorClass::Timeout);
    let flood = connections(|mut stream| {
        let _ = stream.read(&mut [0; 1]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
        while stream.write_all(&[b'y'; 4096]).is_ok() {}
    });
    expect(flood, ErrorClass::Garbage);
}

/// In whatever form the responses come, and however it changes, each request ends once.
#[test]
fn responses_in_changing_forms() {
    let changing = answers(|n| {
        let body = "x".repeat((n % 50) as usize);
        match n % 5 {
            0 => format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
            1 => format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nX: {body}\r\n\r\n"
            ),
            2 => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            _ => format!("HTTP/1.1 200 OK\r\nDate: {n}\r\nContent-Length: 5\r\n\r\nhello"),
        }
        .into_bytes()
    });
    for pipeline in [1, 16, 100] {
        let mut spec = spec(&format!("http://{changing}/"));
        (spec.connections, spec.pipeline) = (3, pipeline);
        let total = run(&spec, millis(200));
        assert!(total.requests > 0, "depth {pipeline}: {total:?}");
        let end = (total.errors.len(), total.in_flight, total.sent, total.latency.len());
        assert_eq!(end, (0, 0, total.requests, total.requests), "depth {pipeline}");
    }
}

/// Three responses per connection. If the end is announced there are no errors; if not, the request that met the end
/// is counted.
#[test]
fn connections_that_end_after_three_responses() {
    let run_on = |address: SocketAddr, pipeline| {
        let mut spec = spec(&format!("http://{address}/"));
        (spec.connections, spec.pipeline) = (4, pipeline);
        run(&spec, millis(300))
    };
    let announced = answers(|n| {
        let connection = ["", "", "Connection: close\r\n"].get(n as usize);
        connection.map_or_else(Vec::new, |line| {
            format!("HTTP/1.1 200 OK\r\n{line}Content-Length: 0\r\n\r\n").into_bytes()
        })
    });
    let polite = run_on(announced, 1);
    assert!(polite.requests > 12, "{polite:?}");
    assert_eq!((polite.errors.len(), polite.sent), (0, polite.requests + polite.in_flight), "{polite:?}");
    // Every three responses ended one of them.
    assert!(polite.opened >= (polite.requests / 3).saturating_sub(8), "{polite:?}");
    // Requests pipelined behind the end got no response, and are not part of the error share.
    let deep = run_on(announced, 4);
    assert_eq!(deep.errors.keys().collect::<Vec<_>>(), [&ErrorClass::Discarded], "{deep:?}");
    assert_eq!((deep.error_share(), deep.sent), (0.0, deep.requests + deep.error_count() + deep.in_flight));
    let unannounced = answers(|n| match n {
        0..3 => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        _ => Vec::new(),
    });
    let rude = run_on(unannounced, 1);
    let ended = rude.requests + rude.error_count();
    assert!(rude.requests > 12 && rude.errors.contains_key(&ErrorClass::Closed), "{rude:?}");
    assert_eq!(rude.sent, ended + rude.in_flight, "{rude:?}");
}
