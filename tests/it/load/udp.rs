//! UDP load: echoes, losses, the sink, and sockets in another namespace.

use std::net::UdpSocket;

use rxlab::lab::Namespace;
use rxlab::load::{ErrorClass, LoadError, Session};
use rxlab::target::{Addresses, Spec, Target};

use crate::require;

use super::{millis, run, spec, steady, target};

#[test]
fn every_echo_is_counted_once() {
    for (pipeline, rate) in [(1, None), (8, None), (1, steady(1000.0))] {
        let target = target(1);
        let mut spec = spec(&format!("udp://{}", target.addresses().udp_echo.expect("served")));
        (spec.connections, spec.threads, spec.pipeline, spec.rate) = (6, 2, pipeline, rate);
        let total = run(&spec, millis(300));
        assert!(total.requests > 0);
        assert_eq!((total.sent, total.in_flight), (total.requests, 0), "{:?}", total.errors);
        // One more: the probe before the start.
        assert_eq!(target.stop().echoed, total.requests + 1);
    }
}

#[test]
fn lost_and_foreign_datagrams_have_their_class() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = socket.local_addr().expect("bound");
    std::thread::spawn(move || {
        let mut buffer = [0; 2048];
        let mut count = 0;
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            count += 1;
            let _ = match count % 4 {
                2 => Ok(0),
                3 => socket.send_to(b"what?", from),
                // Twice: the second copy counts for nothing.
                0 => socket.send_to(&buffer[..length], from).and(socket.send_to(&buffer[..length], from)),
                _ => socket.send_to(&buffer[..length], from),
            };
        }
    });
    let mut spec = spec(&format!("udp://{address}"));
    spec.timeout = millis(20);
    spec.connections = 4;
    let total = run(&spec, millis(400));
    assert!(total.requests > 0);
    for class in [ErrorClass::Timeout, ErrorClass::Garbage] {
        assert!(total.errors.get(&class).is_some_and(|n| *n > 0), "{class:?}: {:?}", total.errors);
    }
    assert_eq!(total.sent, total.requests + total.errors[&ErrorClass::Timeout] + total.in_flight);
}

#[test]
fn the_sink_tells_what_arrived() {
    let target = target(1);
    let mut spec = spec(&format!("udp-sink://{}", target.addresses().udp_sink.expect("served")));
    (spec.connections, spec.size, spec.rate) = (3, 100, steady(2000.0));
    let total = run(&spec, millis(300));
    assert!(total.sent > 0 && total.errors.is_empty(), "{total:?}");
    assert_eq!((total.received, total.requests), (Some(total.sent), total.sent));
    let before = target.counters();
    assert_eq!((before.sink_packets, before.sink_bytes), (total.sent, total.sent * 100));
    // Flat out the sink may lose, but never gain; queries are not counted.
    spec.rate = None;
    let total = run(&spec, millis(200));
    let received = total.received.expect("told");
    assert!(0 < received && received <= total.sent, "{received} of {}", total.sent);
    assert_eq!(target.counters().sink_packets, before.sink_packets + received);
}

#[test]
fn a_receiver_that_is_no_sink_leaves_the_count_unknown() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut spec = spec(&format!("udp-sink://{}", socket.local_addr().expect("bound")));
    spec.rate = steady(100.0);
    let total = run(&spec, millis(100));
    assert!(total.sent > 0);
    assert_eq!(total.received, None);
}

#[test]
fn load_and_target_meet_in_another_namespace() {
    if !require::netns() {
        return;
    }
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo up").expect("up");
    let netns = Some(namespace.path());
    let http = Some(([127, 0, 0, 1], 0).into());
    let target = Target::start(&Spec { http, udp_sink: http, netns: netns.clone(), ..Spec::default() })
        .expect("started");
    let Addresses { http, udp_sink, .. } = target.addresses();
    for (scheme, address, path) in [("http", http, "/simple"), ("udp-sink", udp_sink, "")] {
        let mut spec = spec(&format!("{scheme}://{}{path}", address.expect("served")));
        assert!(matches!(Session::start(&spec), Err(LoadError::Down { .. })), "{scheme} is not here");
        (spec.netns, spec.rate) = (netns.clone(), steady(500.0));
        let total = run(&spec, millis(100));
        assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
    }
}
