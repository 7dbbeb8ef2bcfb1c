//! A load on UDP trackers: rxlab's own, a faulty one, and a third-party one.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use rxlab_load::servers::bep15::Request;
use rxlab_load::servers::{Spec, Target};
use rxlab_load::{ErrorClass, Event, LoadError, Session};

use crate::process::{Running, free_port};
use crate::require;

use super::{datagrams, millis, run, spec, steady};

#[test]
fn client_and_tracker_count_the_same() {
    for (query, rate) in [
        ("/announce", None),
        ("/announce?torrents=1", steady(2000.0)),
        ("/scrape", None),
        ("/connect", steady(500.0)),
    ] {
        let any = Some(([127, 0, 0, 1], 0).into());
        let target = Target::start(&Spec { udp_tracker: any, ..Spec::default() }).expect("started");
        let address = target.addresses().udp_tracker.expect("served");
        let mut spec = spec(&format!("udp-tracker://{address}{query}"));
        (spec.connections, spec.threads, spec.rate) = (5, 2, rate);
        // With a rate nothing waits for responses.
        spec.pipeline = if spec.rate.is_some() { 1 } else { 3 };
        let total = run(&spec, millis(300));
        assert!(total.requests > 0 && total.errors.is_empty(), "{query}: {total:?}");
        assert_eq!((total.sent, total.in_flight), (total.requests, 0), "{query}");
        assert_eq!(total.latency.len(), total.requests);
        let counters = target.stop();
        // Connection ids: one for each flow, or for each request, and one for the probe before.
        let expected = if query == "/connect" { (0, total.requests + 1) } else { (total.requests, 5) };
        assert_eq!((counters.tracked, counters.tracker_ids), expected, "{query}");
        assert_eq!(counters.tracker_refused, 0);
    }
}

/// A tracker that issues connection ids, and then answers every announce with the result of `answer`.
fn liar(answer: impl Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> std::net::SocketAddr {
    let mut count = 0;
    datagrams(move |socket, request, from| {
        let reply = if request.len() == 16 {
            Some([&[0; 4], &request[12..16], &7u64.to_be_bytes()[..]].concat())
        } else {
            count += 1;
            answer(count, request)
        };
        if let Some(reply) = reply {
            let _ = socket.send_to(&reply, from);
        }
    })
}

/// A good answer to a request for a connection id, or to an announce.
fn reply(request: &[u8]) -> Vec<u8> {
    let rest = if request.len() == 16 { vec![7; 8] } else { vec![0; 12] };
    [&[0, 0, 0, u8::from(request.len() != 16)], &request[12..16], &rest[..]].concat()
}

#[test]
fn each_faulty_response_has_its_class() {
    let address = liar(|count, request| {
        let transaction = &request[12..16];
        match count % 4 {
            0 => Some([&[0, 0, 0, 1], transaction, &[0; 12]].concat()),
            1 => Some([&[0, 0, 0, 3], transaction, b"go away"].concat()),
            // The response to another request, or half of one.
            2 => Some([&[0, 0, 0, 1], transaction, &[0; 5]].concat()),
            _ => None,
        }
    });
    let mut spec = spec(&format!("udp-tracker://{address}"));
    (spec.timeout, spec.connections) = (millis(20), 4);
    let total = run(&spec, millis(400));
    let count = |class| total.errors.get(&class).copied().unwrap_or(0);
    let (refused, late) = (count(ErrorClass::TrackerError), count(ErrorClass::Timeout));
    assert!(total.requests > 0 && refused > 0 && total.events[&Event::Stray] > 0, "{total:?}");
    assert_eq!(total.sent, total.requests + refused + late + total.in_flight, "{total:?}");
}

/// One flow has its connection id, the others never get theirs: that flow sends everything.
#[test]
fn flows_without_a_connection_id_send_nothing() {
    let mut chosen = None;
    let address = datagrams(move |socket, request, from| {
        if *chosen.get_or_insert(from) != from {
            assert_eq!(request.len(), 16, "an announce without a connection id");
            return;
        }
        let _ = socket.send_to(&reply(request), from);
    });
    let mut spec = spec(&format!("udp-tracker://{address}"));
    (spec.connections, spec.rate, spec.timeout) = (3, steady(500.0), millis(600));
    let total = run(&spec, millis(1200));
    assert!(total.requests > 0 && total.requests == total.sent, "{total:?}");
    let classes: Vec<ErrorClass> = total.errors.keys().copied().collect();
    assert_eq!(classes, [ErrorClass::Connect], "each attempt is counted, and nothing else: {total:?}");
}

#[test]
fn slow_connection_ids_are_not_an_error() {
    let address = datagrams(|socket, request, from| {
        let (socket, reply) = (socket.try_clone().expect("cloned"), reply(request));
        let pause = millis(if request.len() == 16 { 600 } else { 0 });
        std::thread::spawn(move || {
            std::thread::sleep(pause);
            let _ = socket.send_to(&reply, from);
        });
    });
    let mut spec = spec(&format!("udp-tracker://{address}"));
    (spec.connections, spec.rate) = (3, steady(200.0));
    let total = run(&spec, millis(1600));
    assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
    // Flows repeated their requests before the first response arrived.
    assert!(total.datagrams.surplus > 0, "{total:?}");
}

#[test]
fn a_tracker_without_connection_ids_is_unreachable() {
    let silent = UdpSocket::bind(("127.0.0.1", free_port())).expect("bound");
    let spec = spec(&format!("udp-tracker://{}", silent.local_addr().expect("bound")));
    assert!(matches!(Session::start(&spec), Err(LoadError::Down { .. })));
    drop(silent);
    match Session::start(&spec) {
        Err(LoadError::Down { error, .. }) => {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_third_party_tracker_counts_the_same() {
    require::needs!(opentracker);
    const HOST: &str = "127.0.0.1";
    let port = free_port();
    let number = port.to_string();
    // It serves only the torrents of a list.
    const TORRENTS: usize = 50;
    let (say, told) = channel();
    let announced = liar(move |_, request| {
        if let Some(Request::Announce { torrent, .. }) = Request::parse(request) {
            let _ = say.send(torrent);
        }
        Some([&[0, 0, 0, 1], &request[12..16], &[0; 12]].concat())
    });
    run(&spec(&format!("udp-tracker://{announced}/announce?torrents={TORRENTS}")), millis(200));
    let torrents: BTreeSet<[u8; 20]> = told.try_iter().collect();
    assert_eq!(torrents.len(), TORRENTS);
    let list: String = torrents
        .iter()
        .map(|torrent| torrent.iter().map(|byte| format!("{byte:02x}")).chain(["\n".to_owned()]).collect())
        .collect::<Vec<String>>()
        .concat();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("list"), list).expect("written");
    // It drops its privileges before it reads the list.
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("allowed");
    let mut command = Command::new("opentracker");
    command.args(["-i", HOST, "-P", &number, "-p", &number, "-w", "list", "-d"]).arg(folder.path());
    let _tracker = Running::silent(&mut command);
    crate::process::wait_for("opentracker", || std::net::TcpStream::connect((HOST, port)).is_ok());
    let announce = format!("announce?torrents={TORRENTS}");
    // It accepts requests before it has read its list.
    let first = spec(&format!("udp-tracker://{HOST}:{port}/{announce}"));
    crate::process::wait_for("its list", || run(&first, millis(20)).requests > 0);
    for query in [&announce, "scrape", "connect"] {
        let mut spec = spec(&format!("udp-tracker://{HOST}:{port}/{query}"));
        (spec.connections, spec.timeout) = (8, Duration::from_secs(1));
        let total = run(&spec, millis(300));
        assert!(total.requests > 0 && total.errors.is_empty(), "{query}: {total:?}");
        assert_eq!(total.sent, total.requests, "{query}");
    }
    crate::trial::checks::passes(&format!("url = 'udp-tracker://{HOST}:{port}/scrape'"));
}
