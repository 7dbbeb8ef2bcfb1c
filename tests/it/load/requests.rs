//! Requests and their connections: numbers, methods, lists, unix sockets, sources.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rxlab::lab::Namespace;
use rxlab_load::servers::Target;
use rxlab_load::{Interval, Session, Spec};
use serde_json::Value;
use socket2::{Domain, SockAddr, Socket, Type};

use super::{connections, millis, run, run_held, rxlab, serve_http, simple, spec, steady};
use crate::lab::inside;
use crate::process::{Ended, Running};
use crate::require;

/// Runs a load with a fixed number of requests to its end.
fn finish(spec: &Spec) -> Interval {
    let _noise = crate::quiet::noisy();
    let mut session = Session::start(spec).expect("the load starts");
    let start = Instant::now();
    while !session.is_done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", session.mark());
        std::thread::sleep(millis(5));
    }
    session.stop()
}

/// Nothing is sent on a connection that is only opened, and each is opened for one request.
#[test]
fn tcp_connections_are_the_requests() {
    for rate in [None, steady(300.0)] {
        let (sender, accepted) = channel();
        let address = connections(move |mut stream| {
            let _ = sender.send(stream.read(&mut [0; 16]).unwrap_or(0));
        });
        let mut load = spec(&format!("tcp://{address}"));
        (load.connections, load.rate) = (4, rate);
        let total = run(&load, millis(300));
        assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
        assert_eq!((total.sent, total.latency.len()), (total.requests + total.in_flight, total.requests));
        // Those of the beginning were opened before the load.
        let counts = total.requests..=total.requests + total.in_flight + 4;
        let mut all = 0;
        while let Ok(received) = accepted.recv_timeout(millis(1000)) {
            assert_eq!(received, 0, "nothing was sent");
            all += 1;
        }
        assert!(counts.contains(&all), "{all} connections were accepted: {total:?}");
    }
}

/// A server that answers every request and passes on what it received; each text is a whole request with `body` bytes of
/// body.
fn recorder(body: usize) -> (String, Receiver<String>) {
    let (sender, requests) = channel();
    let address = connections(move |stream| {
        let mut reader = BufReader::new(&stream);
        loop {
            let mut text = String::new();
            while !text.ends_with("\r\n\r\n") && reader.read_line(&mut text).is_ok_and(|n| n > 0) {}
            let mut bytes = vec![0; body];
            if text.is_empty() || reader.read_exact(&mut bytes).is_err() {
                break;
            }
            text += std::str::from_utf8(&bytes).expect("text");
            let _ = sender.send(text);
            if (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                break;
            }
        }
    });
    (format!("http://{address}"), requests)
}

#[test]
fn requests_sends_exactly_that_number() {
    for (rate, no_keepalive, pipeline) in
        [(None, false, 16), (steady(20_000.0), false, 1), (None, true, 1), (steady(2000.0), true, 1)]
    {
        let (target, mut spec) = simple();
        (spec.connections, spec.threads, spec.requests) = (7, 2, Some(1003));
        (spec.rate, spec.no_keepalive, spec.pipeline) = (rate, no_keepalive, pipeline);
        let total = finish(&spec);
        let case = format!("{:?}, {no_keepalive}, {pipeline}: {total:?}", spec.rate);
        assert_eq!((total.requests, total.sent, total.in_flight), (1003, 1003, 0), "{case}");
        assert!(total.errors.is_empty(), "{case}");
        assert_eq!(target.counters().requests, 1003, "{case}");
        if let Some(offered) = total.offered {
            assert!((offered * total.seconds - 1003.0).abs() < 0.01, "{case}");
        }
        let connections = target.counters().connections;
        // Connections opened at the start, and those of the last requests.
        let expected = if no_keepalive { 1003..=1003 + 7 } else { 7..=7 };
        assert!(expected.contains(&connections), "{connections} connections, {case}");
    }
}

#[test]
fn requests_have_the_given_method_headers_and_body() {
    let (url, requests) = recorder(5);
    let mut spec = spec(&format!("{url}/a?b=c"));
    (spec.connections, spec.pipeline, spec.requests) = (1, 4, Some(9));
    (spec.method, spec.body) = ("POST".to_owned(), "hello".into());
    spec.headers = vec!["X-One: 1".parse().expect("a header"), "host: else".parse().expect("a header")];
    assert_eq!(finish(&spec).requests, 9);
    let texts: Vec<String> = requests.try_iter().collect();
    assert_eq!(texts.len(), 9);
    for text in texts {
        assert!(text.starts_with("POST /a?b=c HTTP/1.1\r\nX-One: 1\r\n"), "{text}");
        assert!(text.ends_with("\r\nX-One: 1\r\nhost: else\r\nContent-Length: 5\r\n\r\nhello"), "{text}");
    }
}

/// A file of vegeta's, with two formats.
#[test]
fn targets_have_their_own_method_headers_and_body() {
    let (url, requests) = recorder(5);
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let body = file("body", "first");
    let json = r#"{"method": "PATCH", "url": "/b", "body": "b3RoZXI=", "header": {"X-B": ["2"]}}"#;
    let list = file("targets", &format!("PUT {url}/a\nX-A: 1\n@{body}\n\n{json}\n"));
    let load = ["load", &url, "--targets", &list, "--requests", "4", "-c", "1", "-H", "X-All: 0"];
    rxlab(&load).says(0, "2 targets");
    let texts: Vec<String> = requests.try_iter().collect();
    let first = "PUT /a HTTP/1.1\r\nHost: ";
    assert!(texts[0].starts_with(first) && texts[2].starts_with(first), "{texts:?}");
    assert!(
        texts[0].contains("\r\nX-All: 0\r\nX-A: 1\r\n") && texts[0].ends_with("\r\n\r\nfirst"),
        "{texts:?}"
    );
    assert!(texts[1].starts_with("PATCH /b ") && texts[1].contains("\r\nX-B: 2\r\n"), "{texts:?}");
    assert!(texts[1].ends_with("\r\n\r\nother"), "{texts:?}");
    let bad = file("bad", "GET /a\n\nGET http://elsewhere/\n");
    rxlab(&["load", &url, "--targets", &bad]).says(2, "line 3: ");
}

#[test]
fn urls_of_a_list_are_requested_in_turn() {
    let (url, requests) = recorder(0);
    let mut spec = spec(&format!("{url}/"));
    (spec.connections, spec.pipeline, spec.requests) = (1, 3, Some(8));
    spec.paths = ["/a", "/long?x=12345", "/c"].map(str::to_owned).to_vec();
    assert_eq!(finish(&spec).requests, 8);
    let asked: Vec<String> =
        requests.try_iter().map(|text| text.split(' ').nth(1).expect("a path").to_owned()).collect();
    let turn = spec.paths.iter().cycle().take(8).cloned().collect::<Vec<_>>();
    assert_eq!(asked, turn);
}

/// The response to HEAD has a length and no body.
#[test]
fn head_is_supported() {
    let (target, mut spec) = simple();
    (spec.method, spec.requests, spec.pipeline) = ("HEAD".to_owned(), Some(500), 4);
    let total = finish(&spec);
    assert_eq!((total.requests, total.errors.len()), (500, 0), "{total:?}");
    assert_eq!(target.stop().refused, 0);
}

#[test]
fn ipv6() {
    let http = Some((std::net::Ipv6Addr::LOCALHOST, 0).into());
    let target = Target::start(&rxlab_load::servers::Spec { http, ..Default::default() }).expect("started");
    let mut spec = spec(&format!("http://{}/simple", target.addresses().http.expect("served")));
    spec.requests = Some(200);
    assert_eq!(finish(&spec).requests, 200);
}

/// Answers every request on every connection, and pauses for `rest` after accepting each.
fn serve(listener: UnixListener, rest: Duration) {
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    let requests = buffer[..length].windows(4).filter(|w| w == b"\r\n\r\n").count();
                    let answers = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".repeat(requests);
                    if stream.write_all(answers.as_bytes()).is_err() {
                        break;
                    }
                }
            });
            std::thread::sleep(rest);
        }
    });
}

#[test]
fn a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    serve(UnixListener::bind(&path).expect("bound"), Duration::ZERO);
    let mut spec = spec("http://localhost/");
    (spec.unix, spec.connections) = (Some(path.clone()), 3);
    let total = run(&spec, millis(100));
    assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
    spec.unix = Some(folder.path().join("nobody"));
    let error = Session::start(&spec).expect_err("no server").to_string();
    assert!(error.contains("nobody"), "{error}");
}

/// A full queue gives EAGAIN at once, which was once counted as an unreachable server.
#[test]
fn a_unix_socket_with_a_full_queue_is_retried() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    socket.bind(&SockAddr::unix(&path).expect("a path")).expect("bound");
    socket.listen(1).expect("listening");
    serve(socket.into(), millis(2));
    for (no_keepalive, rate) in [(false, None), (true, None), (true, steady(300.0))] {
        let mut spec = spec("http://localhost/");
        (spec.unix, spec.connections) = (Some(path.clone()), 12);
        (spec.no_keepalive, spec.rate, spec.requests) = (no_keepalive, rate, Some(60));
        let total = finish(&spec);
        let case = format!("{no_keepalive}, {:?}: {total:?}", spec.rate);
        assert_eq!((total.requests, total.sent, total.errors.len()), (60, 60, 0), "{case}");
    }
}

#[test]
fn connections_and_flows_come_from_the_given_addresses() {
    let sources: Vec<IpAddr> = (2..5).map(|last| [127, 0, 0, last].into()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let mut spec = spec(&format!("http://{}/", listener.local_addr().expect("bound")));
    (spec.sources, spec.connections, spec.threads) = (sources.clone(), 6, 2);
    let session = Session::start(&spec).expect("started");
    let from: Vec<IpAddr> = (0..6).map(|_| listener.accept().expect("connected").1.ip()).collect();
    drop(session);
    for source in &sources {
        assert_eq!(from.iter().filter(|ip| *ip == source).count(), 2, "{from:?}");
    }

    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut spec = super::spec(&format!("udp-sink://{}", receiver.local_addr().expect("bound")));
    (spec.sources, spec.connections, spec.rate) = (sources.clone(), 3, steady(500.0));
    run(&spec, millis(100));
    receiver.set_nonblocking(true).expect("a socket option");
    let mut buffer = [0; 64];
    let mut seen = BTreeSet::new();
    while let Ok((length, from)) = receiver.recv_from(&mut buffer) {
        // Shorter than a payload: a query that checks for a sink.
        if length == 64 {
            seen.insert(from.ip());
        }
    }
    assert_eq!(seen, sources.into_iter().collect());
}

/// A port chosen at bind time is exclusive: the second load would find none.
#[test]
fn connections_to_different_destinations_share_source_ports() {
    require::needs!(netns);
    let namespace = Namespace::new().expect("made");
    namespace.ip("link set lo up").expect("up");
    let netns = Some(namespace.path());
    let start = |port: u16| {
        let http = Some(([127, 0, 0, 1], port).into());
        let target =
            Target::start(&rxlab_load::servers::Spec { http, netns: netns.clone(), ..Default::default() });
        let mut spec = spec(&format!("http://127.0.0.1:{port}/simple"));
        (spec.sources, spec.connections) = (vec![[127, 0, 0, 2].into()], 4);
        spec.netns = netns.clone();
        (target.expect("started"), spec)
    };
    inside(&namespace, "sysctl").args(["-q", "-w", "net.ipv4.ip_local_port_range=40000 40003"]).exits(0);
    let [(_one, first), (_other, second)] = [start(8001), start(8002)];
    let _noise = crate::quiet::noisy();
    let session = Session::start(&first).expect("started");
    let total = run_held(&second, millis(50));
    assert!(total.requests > 0 && total.errors.is_empty(), "{total:?}");
    assert!(session.stop().errors.is_empty());
}

/// Ten thousand connections, twenty at a time: the program never holds many more sockets than those twenty. How many files it
/// opens while it looks for the server depends on other tests.
#[test]
fn closed_connections_leave_no_open_files() {
    let (target, url) = serve_http("/simple");
    let _noise = crate::quiet::noisy();
    let mut load = rxlab(&["--json", "load", &url, "--no-keepalive", "--requests", "10000"]);
    let mut load = Running::start(load.args(["--connections", "20"]));
    let files = format!("/proc/{}/fd", load.pid().as_raw_nonzero());
    let is_socket = |file: std::io::Result<std::fs::DirEntry>| {
        let target = file.and_then(|file| std::fs::read_link(file.path()));
        target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    let mut most = 0;
    while !load.has_ended() {
        let sockets = std::fs::read_dir(&files).into_iter().flatten().map(is_socket).filter(|is| *is).count();
        most = most.max(sockets);
        std::thread::sleep(millis(10));
    }
    let report: Value = load.output().json(0);
    assert_eq!((&report["requests"], &report["errors"]), (&10_000.into(), &serde_json::json!({})));
    assert!(target.stop().connections >= 10_000);
    assert!((10..60).contains(&most), "{most} sockets open");
}
