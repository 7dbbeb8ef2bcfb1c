//! The engine before its load begins.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use super::{Clock, Destination, Engine, ErrorClass, Poller, Shared, Spec, Tally};
use crate::load::clock::{MILLISECOND, SECOND};

/// An engine for a load on `address`, its connections open.
fn engine(spec: &Spec, address: SocketAddr, clock: Clock) -> Engine {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
    let poller = Poller::new(wake, spec.pacing, clock).expect("a poller");
    let (at, shared) = (Destination::Inet(address), Shared::new(spec, None));
    let mut engine = Engine::new(spec, &at, shared, 0, poller, clock).expect("an engine");
    engine.warm(SECOND).expect("open");
    engine
}

/// The edge of what came before the load was once thrown away with its event: the requests that followed
/// were lost, and counted as the server's errors.
#[test]
fn what_came_before_the_load_is_neither_lost_nor_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let mut spec = Spec::new(format!("http://{address}/").parse().expect("a URL"));
    spec.connections = 3;
    let clock = Clock::start();
    let mut engine = engine(&spec, address, clock);
    let mut streams: Vec<_> = (0..3).map(|_| listener.accept().expect("connected").0).collect();
    streams.truncate(1);
    streams[0].write_all(b"SSH-2.0-OpenSSH\r\n").expect("written");
    std::thread::sleep(std::time::Duration::from_millis(20));

    let mut tally = Tally::new();
    engine.begin(None, &mut tally);
    assert_eq!((tally.sent, tally.errors.iter().sum()), (1, 0u64), "two ended");
    let deadline = clock.now() + SECOND;
    while tally.opened < 3 && clock.now() < deadline {
        engine.turn(&mut tally);
    }
    assert_eq!(tally.opened, 3, "those two again, and the one that babbled");
    assert_eq!((tally.sent, tally.errors[ErrorClass::Garbage as usize]), (4, 1));
    assert_eq!(tally.errors.iter().sum::<u64>(), 1);
}

/// Without a time a number of requests was once waited for, for ever.
#[test]
fn a_number_of_requests_ends_when_nobody_is_there_any_more() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let mut spec = Spec::new(format!("http://{address}/").parse().expect("a URL"));
    (spec.connections, spec.requests) = (2, Some(1000));
    let clock = Clock::start();
    let mut engine = engine(&spec, address, clock);
    engine.give_up = Some(30 * MILLISECOND);
    let mut tally = Tally::new();
    engine.begin(None, &mut tally);
    let silent = clock.now() + 60 * MILLISECOND;
    while clock.now() < silent {
        engine.turn(&mut tally);
    }
    assert!(!engine.is_done() && tally.sent == 2, "they are open, only without answers");
    drop(listener);
    while !engine.is_done() {
        engine.turn(&mut tally);
    }
    assert_eq!(tally.sent, 2);
    assert!(tally.errors[ErrorClass::Connect as usize] > 0);
}
