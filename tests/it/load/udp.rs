//! UDP load: echoes, losses, the sink, and sockets in another namespace.

use std::net::UdpSocket;

use rxlab::lab::Namespace;
use rxlab_load::servers::{Addresses, Spec, Target};
use rxlab_load::{Datagrams, ErrorClass, Event, LoadError, Pacing, Report, Session, render};

use crate::require;

use super::{datagrams, millis, run, spec, steady, target};

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
fn trains_are_counted_datagram_by_datagram() {
    for (plain, pipeline, rate) in [(false, 1, None), (true, 2, None), (false, 1, steady(20_000.0))] {
        let any = Some(([127, 0, 0, 1], 0).into());
        let at = Spec { udp_echo: any, udp_sink: any, plain_udp: plain, ..Spec::default() };
        let target = Target::start(&at).expect("started");
        let Addresses { udp_echo, udp_sink, .. } = target.addresses();
        let mut spec = spec(&format!("udp://{}", udp_echo.expect("served")));
        (spec.connections, spec.threads, spec.batch) = (3, 2, 40);
        (spec.pipeline, spec.rate, spec.pacing) = (pipeline, rate.clone(), Pacing::Coarse);
        let total = run(&spec, millis(300));
        assert!(total.errors.is_empty() && total.in_flight == 0, "{total:?}");
        assert_eq!((total.sent, total.latency.len()), (total.requests, total.requests));
        let Datagrams { sends, receives, reordered, surplus, ref no_trains, .. } = total.datagrams;
        assert_eq!((reordered, surplus, no_trains), (Some(0), 0, &None));
        // With a rate, a train has the datagrams that came due in one tick.
        assert!(sends > 0 && sends * 4 < total.sent, "{sends} sends of {}", total.sent);
        // Split on the way in, the datagrams return one by one unless they are merged again.
        assert!(plain || receives * 4 < total.sent, "{receives} receives of {}", total.sent);

        spec.url = format!("udp-sink://{}", udp_sink.expect("served")).parse().expect("a URL");
        (spec.pipeline, spec.rate) = (1, steady(20_000.0));
        let total = run(&spec, millis(300));
        assert_eq!((total.received, total.requests), (Some(total.sent), total.sent), "{total:?}");
        assert!(total.failed() == 0 && total.datagrams.sends * 4 < total.sent, "{total:?}");
        assert_eq!(total.datagrams.reordered, Some(0));
        let counters = target.stop();
        assert_eq!((counters.sink_packets, counters.sink_bytes), (total.sent, total.sent * 64));
    }
}

/// The datagrams are larger than the MTU: the kernel cannot split a train into them.
#[test]
fn missing_support_for_trains_is_reported() {
    require::needs!(netns);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo mtu 1500 up").expect("up");
    let (netns, any) = (Some(namespace.path()), Some(([127, 0, 0, 1], 0).into()));
    let target = Target::start(&Spec { udp_echo: any, netns: netns.clone(), ..Spec::default() });
    let target = target.expect("started");
    let mut spec = spec(&format!("udp://{}", target.addresses().udp_echo.expect("served")));
    (spec.connections, spec.size, spec.batch, spec.netns) = (2, 4000, 4, netns);
    let total = run(&spec, millis(200));
    assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
    assert!(total.datagrams.no_trains.is_some() && total.datagrams.sends == total.sent, "{total:?}");
    let text = render(&Report::new(&spec, &total));
    assert!(text.contains("trains not possible on this path"), "{text}");
}

#[test]
fn reordered_datagrams_are_counted() {
    let target = target(1);
    let sink = target.addresses().udp_sink.expect("served");
    let relay = UdpSocket::bind("127.0.0.1:0").expect("bound");
    // Echoes each pair of datagrams in reverse order, once the probe is done.
    let (mut count, mut held) = (0, None);
    let address = datagrams(move |socket, datagram, from| {
        count += 1;
        let _ = relay.send_to(datagram, sink);
        let _ = match held.take() {
            _ if count == 1 => socket.send_to(datagram, from),
            None => Ok(held.insert(datagram.to_vec()).len()),
            Some(first) => socket.send_to(datagram, from).and(socket.send_to(&first, from)),
        };
    });
    let mut spec = spec(&format!("udp://{address}"));
    (spec.connections, spec.pipeline) = (1, 2);
    let total = run(&spec, millis(200));
    assert!(total.requests > 2 && total.errors.is_empty(), "{total:?}");
    assert_eq!((total.datagrams.reordered, total.requests % 2), (Some(total.requests / 2), 0));
    // They arrived at the sink in order, except for the probe: it has the number of the first.
    assert_eq!(target.stop().sink_reordered, 1);
}

/// Input of the hash that spreads flows: ports, and addresses if they are given. The flows of a thread strictly take
/// turns; one thread may be behind the other.
#[test]
fn each_flow_has_its_own_source() {
    for threads in [1, 2] {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
        socket.set_read_timeout(Some(millis(300))).expect("set");
        let mut spec = spec(&format!("udp-sink://{}", socket.local_addr().expect("bound")));
        spec.sources = ["127.0.0.2", "127.0.0.3"].map(|source| source.parse().expect("an address")).to_vec();
        (spec.connections, spec.threads, spec.rate) = (6, threads, steady(500.0));
        let mut flows = std::collections::BTreeMap::new();
        let session = Session::start(&spec).expect("started");
        let mut buffer = [0; 64];
        while flows.values().sum::<u64>() < 60 {
            let (length, from) = socket.recv_from(&mut buffer).expect("received");
            // Other datagrams query the number of arrivals.
            if length == spec.size {
                *flows.entry(from).or_insert(0) += 1;
            }
        }
        drop(session);
        assert_eq!(flows.len(), 6, "{flows:?}");
        for source in &spec.sources {
            assert_eq!(flows.keys().filter(|from| from.ip() == *source).count(), 3, "{flows:?}");
        }
        let mut counts: Vec<u64> = flows.values().copied().collect();
        counts.sort_unstable();
        let apart = if threads == 1 { 0 } else { 1 };
        let of_threads = counts.chunks(6 / threads);
        assert!(of_threads.into_iter().all(|all| all[all.len() - 1] - all[0] <= apart), "{flows:?}");
    }
}

#[test]
fn lost_and_unknown_datagrams_have_their_class() {
    let mut count = 0;
    let address = datagrams(move |socket, datagram, from| {
        count += 1;
        let _ = match count % 4 {
            2 => Ok(0),
            3 => socket.send_to(b"what?", from),
            // Sent twice: the second copy does not count.
            0 => socket.send_to(datagram, from).and(socket.send_to(datagram, from)),
            _ => socket.send_to(datagram, from),
        };
    });
    let mut spec = spec(&format!("udp://{address}"));
    spec.timeout = millis(20);
    spec.connections = 4;
    let total = run(&spec, millis(400));
    assert!(total.requests > 0);
    assert!(total.errors[&ErrorClass::Timeout] > 0 && total.events[&Event::Stray] > 0, "{total:?}");
    assert_eq!(total.sent, total.requests + total.errors[&ErrorClass::Timeout] + total.in_flight);
}

#[test]
fn the_sink_reports_arrivals() {
    let target = target(1);
    let mut spec = spec(&format!("udp-sink://{}", target.addresses().udp_sink.expect("served")));
    (spec.connections, spec.size, spec.rate) = (3, 100, steady(2000.0));
    let total = run(&spec, millis(300));
    assert!(total.sent > 0 && total.failed() == 0, "{total:?}");
    assert_eq!((total.received, total.requests), (Some(total.sent), total.sent));
    let before = target.counters();
    assert_eq!((before.sink_packets, before.sink_bytes), (total.sent, total.sent * 100));
    // At full rate the sink may lose datagrams, but never count too many; queries are not counted.
    spec.rate = None;
    let total = run(&spec, millis(200));
    let received = total.received.expect("told");
    assert!(0 < received && received <= total.sent, "{received} of {}", total.sent);
    assert_eq!(target.counters().sink_packets, before.sink_packets + received);
}

#[test]
fn a_receiver_without_a_count_leaves_arrivals_unknown() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut spec = spec(&format!("udp-sink://{}", socket.local_addr().expect("bound")));
    spec.rate = steady(100.0);
    let total = run(&spec, millis(100));
    assert!(total.sent > 0);
    assert_eq!(total.received, None);
}

#[test]
fn load_and_target_meet_in_another_namespace() {
    require::needs!(netns);
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
        assert!(total.requests > 0 && total.failed() == 0, "{total:?}");
    }
}
