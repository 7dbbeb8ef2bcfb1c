//! The engine before its load begins.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Destination, Engine, ErrorClass, HttpEngine, Nanos, Poller, Schedule, Spec, Tally};
use crate::clock::{Clock, MILLISECOND, SECOND};
use crate::event::Event;
use crate::http::pipeline::Pipeline;
use crate::http::request::block;
use crate::http::tls::Setup;
use crate::rate::Rate;
use crate::{certified, trust};

/// A server that accepts connections, and a load on it.
fn listener(connections: usize) -> (TcpListener, Spec) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    (listener, Spec { connections, ..Spec::new(url.parse().expect("a URL")) })
}

/// An engine with open connections.
fn engine(spec: &Spec, listener: &TcpListener, clock: Clock) -> HttpEngine<Pipeline> {
    let at = Destination::Inet(listener.local_addr().expect("bound"));
    let poller = Poller::alone(spec.pacing, clock);
    let setup = || Setup::new(trust::config(spec).expect("no files"), spec, b"http/1.1").expect("a name");
    let tls = spec.url.tls.then(setup);
    let mut engine = HttpEngine::new(spec, &at, block(spec).into(), tls, 0, poller).expect("an engine");
    engine.warm(SECOND).expect("open");
    engine
}

/// The edge of an event before the load was once discarded with it: the requests that followed were lost
/// and counted as the server's errors.
#[test]
fn what_came_before_the_load_is_neither_lost_nor_an_error() {
    let (listener, spec) = listener(3);
    let clock = Clock::start();
    let mut engine = engine(&spec, &listener, clock);
    let mut streams: Vec<_> = (0..3).map(|_| listener.accept().expect("connected").0).collect();
    streams.truncate(1);
    streams[0].write_all(b"SSH-2.0-OpenSSH\r\n").expect("written");
    std::thread::sleep(Duration::from_millis(20));

    let mut tally = Tally::new();
    engine.begin(None, &mut tally);
    assert_eq!((tally.sent, tally.errors.values().sum()), (1, 0u64), "two ended");
    let deadline = clock.now() + SECOND;
    while tally.opened < 3 && clock.now() < deadline {
        engine.turn(&mut tally);
    }
    assert_eq!(tally.opened, 3, "those two again, and the one with garbage");
    assert_eq!((tally.sent, tally.errors_of(ErrorClass::Garbage)), (4, 1));
    assert_eq!(tally.errors.values().sum::<u64>(), 1);
}

/// Without a time a run once waited for its number of requests indefinitely.
#[test]
fn a_number_of_requests_ends_when_the_target_is_gone() {
    let (listener, mut spec) = listener(2);
    spec.requests = Some(1000);
    let clock = Clock::start();
    let mut engine = engine(&spec, &listener, clock);
    engine.give_up = Some(30 * MILLISECOND);
    let mut tally = Tally::new();
    engine.begin(None, &mut tally);
    let silent = clock.now() + 60 * MILLISECOND;
    while clock.now() < silent {
        engine.turn(&mut tally);
    }
    assert!(!engine.is_done() && tally.sent == 2, "they are open, only without responses");
    drop(listener);
    while !engine.is_done() {
        engine.turn(&mut tally);
    }
    assert_eq!(tally.sent, 2);
    assert!(tally.errors_of(ErrorClass::Connect) > 0);
}

/// An engine with two connections to a server that never responds, with a load of 1000 per second from now
/// on.
fn silent(timeout: Nanos) -> (TcpListener, HttpEngine<Pipeline>, Clock, Tally) {
    let (listener, mut spec) = listener(2);
    spec.timeout = Duration::from_nanos(timeout);
    let (clock, mut tally) = (Clock::start(), Tally::new());
    let mut engine = engine(&spec, &listener, clock);
    let schedule = Schedule::new(clock.now(), &Rate::steady(1000.0), false, 0, 1, u64::MAX);
    engine.begin(Some(schedule), &mut tally);
    (listener, engine, clock, tally)
}

/// Turns the engine until `done`.
fn turn_until(engine: &mut HttpEngine<Pipeline>, tally: &mut Tally, done: impl Fn(&Tally) -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !done(tally) {
        assert!(Instant::now() < give_up, "{} sent, {} blocked", tally.sent, tally.blocked);
        engine.turn(tally);
    }
}

#[test]
fn what_is_due_while_all_connections_wait_for_the_server_is_not_the_clients() {
    let (_listener, mut engine, clock, mut tally) = silent(60 * SECOND);
    turn_until(&mut engine, &mut tally, |tally| tally.sent == 2);
    std::thread::sleep(Duration::from_millis(50));
    let unanswered = engine.unanswered(clock.now());
    assert_eq!((unanswered.in_flight, unanswered.late), (2, 0));
    assert!(unanswered.waiting >= 49, "{unanswered:?}");
    assert_eq!(unanswered.ages.len(), 2 + unanswered.waiting);
    assert!(unanswered.ages.max() >= 50 * MILLISECOND, "{unanswered:?}");
}

#[test]
fn what_is_due_while_a_connection_is_free_is_the_clients() {
    let (_listener, mut engine, clock, mut tally) = silent(20 * MILLISECOND);
    std::thread::sleep(Duration::from_millis(60));
    let unanswered = engine.unanswered(clock.now());
    assert_eq!((unanswered.in_flight, unanswered.waiting), (0, 0));
    assert!(unanswered.late >= 59, "{unanswered:?}");
    // The connections were free for as long as those requests could wait.
    engine.turn(&mut tally);
    let own = tally.errors_of(ErrorClass::Unsent) - tally.blocked;
    assert!(own >= 39, "{own} of them");
}

#[test]
fn what_waits_for_a_connection_until_it_is_given_up_is_not_the_clients() {
    let (_listener, mut engine, _clock, mut tally) = silent(20 * MILLISECOND);
    // After a timeout the connections are reopened: free, but too late for overdue requests.
    turn_until(&mut engine, &mut tally, |tally| tally.blocked > 0);
    let unsent = tally.errors_of(ErrorClass::Unsent);
    assert!(unsent >= tally.blocked, "{unsent}");
}

/// A server that closes what is idle was once reconnected to several times a second by each connection.
#[test]
fn connections_closed_unused_wait_longer_and_longer() {
    let (listener, spec) = listener(4);
    let (clock, mut tally) = (Clock::start(), Tally::new());
    let mut engine = engine(&spec, &listener, clock);
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let schedule = Schedule::new(clock.now() + 60 * SECOND, &Rate::steady(1.0), false, 0, 1, u64::MAX);
    engine.begin(Some(schedule), &mut tally);
    let end = clock.now() + 1_200 * MILLISECOND;
    while clock.now() < end {
        engine.turn(&mut tally);
    }
    // After 0.1, 0.2, 0.4 and 0.8 seconds.
    let opened = tally.events.get(&Event::Reconnect).copied().unwrap_or(0);
    assert!((4..=16).contains(&opened) && tally.opened == opened, "{opened} of {}", tally.opened);
    assert_eq!((tally.sent, tally.errors), (0, [].into()));
}

/// Between its requests this load has no connection: each request opens one when it is due.
#[test]
fn a_request_that_is_due_does_not_wait_for_a_closed_connection() {
    let (listener, spec) = listener(2);
    let (clock, mut tally) = (Clock::start(), Tally::new());
    let mut engine = engine(&spec, &listener, clock);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let (mut stream, mut buffer) = (stream, [0; 512]);
                stream.set_read_timeout(Some(Duration::from_millis(10))).expect("set");
                while stream.read(&mut buffer).is_ok_and(|length| length > 0) {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
        }
    });
    // Long after all of them were closed unused for the first times.
    for connection in &mut engine.connections {
        (0..20).for_each(|_| connection.close_idle(0, &engine.requests));
    }
    let schedule = Schedule::new(clock.now(), &Rate::steady(20.0), false, 0, 1, u64::MAX);
    engine.begin(Some(schedule), &mut tally);
    turn_until(&mut engine, &mut tally, |tally| tally.completed == 10);
    assert_eq!(tally.errors_of(ErrorClass::Unsent), 0);
    assert!(tally.opened >= 2 && tally.events[&Event::Reconnect] >= 2, "{tally:?}");
}

/// Where the connection breaks, such a body was once a good response, however short.
#[test]
fn a_body_without_a_length_ends_with_tls() {
    for is_ended in [true, false] {
        let (listener, mut spec) = listener(1);
        (spec.url.tls, spec.insecure, spec.requests) = (true, true, Some(3));
        let accepted = listener.try_clone().expect("a listener");
        let config = Arc::new(certified::server(b"http/1.1"));
        std::thread::spawn(move || {
            for stream in accepted.incoming().flatten() {
                let connection = rustls::ServerConnection::new(Arc::clone(&config)).expect("settings");
                let mut stream = rustls::StreamOwned::new(connection, stream);
                // Each fails if the client has given up.
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello");
                if is_ended {
                    stream.conn.send_close_notify();
                }
                let _ = stream.flush();
            }
        });
        let mut engine = engine(&spec, &listener, Clock::start());
        let mut tally = Tally::new();
        engine.begin(None, &mut tally);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !engine.is_done() && Instant::now() < deadline {
            engine.turn(&mut tally);
        }
        let truncated = tally.errors_of(ErrorClass::Truncated);
        assert_eq!((tally.completed, truncated), if is_ended { (3, 0) } else { (0, 3) }, "{tally:?}");
    }
}

/// While this thread is kept from its CPU, requests become due for which there are too few connections afterwards: their wait
/// was once the target's.
#[test]
fn a_stall_of_this_thread_is_its_own_lag() {
    let (listener, spec) = listener(1);
    let server = listener.try_clone().expect("a listener");
    std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("connected");
        while let Ok(1..) = stream.read(&mut [0; 1024]) {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let clock = Clock::start();
    let mut engine = engine(&spec, &listener, clock);
    let schedule = Schedule::new(clock.now(), &Rate::steady(200.0), false, 0, 1, 60);
    let mut tally = Tally::new();
    engine.begin(Some(schedule), &mut tally);
    engine.turn(&mut tally);
    std::thread::sleep(Duration::from_millis(300));
    let deadline = clock.now() + 10 * SECOND;
    while tally.completed < 60 && clock.now() < deadline {
        engine.turn(&mut tally);
    }
    assert_eq!((tally.completed, tally.lag.len()), (60, 60));
    let late = tally.lag.count_between(100 * MILLISECOND, Nanos::MAX);
    assert!(late >= 35, "{late} of the 40 that were due in the first 200 ms");
}
