//! Arrivals of a one-way load, at slow or silent sinks.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rxlab_load::servers::sink_query;
use serde_json::Value;

use super::find::search;
use super::{datagrams, millis, rxlab, spec, steady};
use crate::process::Ended;

/// Answers queries with the result of `count` for the datagrams so far. Queries overtake datagrams, as with a sink of
/// several sockets.
fn sink(mut count: impl FnMut(u64) -> u64 + Send + 'static) -> SocketAddr {
    let (mut arrived, query) = (0, sink_query(0));
    datagrams(move |socket, datagram, from| {
        if datagram.len() == query.len() && datagram[..16] == query[..16] {
            let number = u64::from_le_bytes(datagram[16..24].try_into().expect("8 bytes"));
            let answer = [number, count(arrived), 0, 0].map(u64::to_le_bytes).concat();
            let _ = socket.send_to(&answer, from);
        } else {
            arrived += 1;
            count(arrived);
        }
    })
}

/// The sink counts a datagram 50 ms after its arrival: uncounted datagrams at the end are not lost.
#[test]
fn datagrams_in_the_queue_of_a_sink_are_not_lost() {
    let mut counted = std::collections::VecDeque::new();
    let slow = sink(move |arrived| {
        let now = Instant::now();
        counted.push_back((now, arrived));
        let mut done = 0;
        while let Some((_, count)) = counted.front().filter(|(at, _)| now - *at >= millis(50)).copied() {
            done = count;
            if counted.get(1).is_none_or(|(at, _)| now - *at < millis(50)) {
                break;
            }
            counted.pop_front();
        }
        done
    });
    let _noise = crate::quiet::noisy();
    let url = format!("udp-sink://{slow}");
    let args = ["--json", "load", &url, "-c", "2", "--rate", "1000", "--for", "300ms", "--warm-up", "100ms"];
    let json: Value = rxlab(&args).json(0);
    let number = |name: &str| json[name].as_u64().expect("a number");
    // A warm-up has left at least 50 ms of datagrams in the queue, which arrive within the measurement.
    let (sent, received) = (number("requests"), number("received"));
    assert!(sent >= 250 && (sent..=sent + 300).contains(&received), "{received} of {sent}");
    let mut spec = spec(&url);
    spec.rate = steady(1000.0);
    let mut session = rxlab_load::Session::start(&spec).expect("started");
    std::thread::sleep(millis(200));
    let first = session.cut();
    let (last, arrivals) = session.finish();
    let total = first.then(&last).with_arrivals(arrivals);
    assert_eq!(total.received, Some(total.sent));
    assert!(total.requests >= 150, "{total:?}");
}

/// A sink that counts 2,000 per second and drops the rest: the highest rate is the sink's, not the sender's.
#[test]
fn the_highest_rate_of_a_sink_is_its_rate_of_arrivals() {
    let (begun, mut counted, mut before) = (Instant::now(), 0.0, 0);
    let mut until = begun;
    let capped = sink(move |arrived| {
        let now = Instant::now();
        // Room for ten early datagrams.
        until = until.max(now - millis(5));
        for _ in before..arrived {
            if until <= now {
                until += Duration::from_micros(500);
                counted += 1.0;
            }
        }
        before = arrived;
        counted as u64
    });
    let _noise = crate::quiet::noisy();
    let url = format!("udp-sink://{capped}");
    // The runs until then are enough.
    let args = [&url, "-c", "2", "--slo", "errors<5%", "--for", "200ms"];
    let (found, _) = search(&args, Duration::from_secs(10), 2400.0);
    assert!(found["closed_loop"].as_f64().is_some_and(|rate| rate < 4000.0), "{found}");
    let steps = found["steps"].as_array().expect("steps");
    assert!(steps.len() > 3, "{found}");
    for step in steps {
        assert!(step["answered"].as_f64().expect("a number") < 2300.0, "{step}");
    }
}

#[test]
fn find_max_without_a_count_of_arrivals_is_refused() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let url = format!("udp-sink://{}", socket.local_addr().expect("bound"));
    let _noise = crate::quiet::noisy();
    let args = ["--json", "load", &url, "--find-max", "--slo", "errors<1%", "--for", "50ms"];
    let text = rxlab(&args).says(5, "does not report what arrives");
    assert!(text.starts_with("rxlab: "), "{text}");
}
