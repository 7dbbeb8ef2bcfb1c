//! The engine with streams, against servers of HTTP/2 and HTTP/3.

mod http2;
mod http3;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, proptest};

use super::{Carrier, Messages, Streams};
use crate::Random;
use crate::accounting::adds_up;
use crate::clock::{Clock, SECOND};
use crate::destination::Destination;
use crate::error_class::ErrorClass;
use crate::http::engine::HttpEngine;
use crate::http::http2::Http2;
use crate::http::http3::Http3;
use crate::http::tls::Setup;
use crate::http_version::HttpVersion;
use crate::poller::Poller;
use crate::rate::Rate;
use crate::schedule::Schedule;
use crate::spec::Spec;
use crate::tally::Tally;
use crate::thread::Engine;
use crate::trust;

const VERSIONS: [HttpVersion; 2] = [HttpVersion::Http2, HttpVersion::Http3];

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Answer(u16),
    /// Answers, with an empty frame before the body.
    Stutter,
    Hold,
    /// Does nothing more on this connection, which stays open.
    Freeze,
    Refuse,
    /// Begins a response, and resets its stream.
    BreakOff,
    /// Ends a response before the length that it says.
    CutOff,
    /// Closes the connection.
    Close,
    /// Answers, and announces the end of the connection.
    SayGoodbye,
}

/// What a server does with request `n` of all.
trait Deeds: Fn(usize) -> Deed + Clone + Send + 'static {}

impl<F: Fn(usize) -> Deed + Clone + Send + 'static> Deeds for F {}

/// A server and a load on it, of one connection.
fn served(version: HttpVersion, streams: u32, deed: impl Deeds) -> Spec {
    load(
        version,
        match version {
            HttpVersion::Http3 => http3::start(streams, deed),
            _ => http2::start(streams, deed),
        },
    )
}

fn load(version: HttpVersion, url: String) -> Spec {
    let insecure = url.starts_with("https://");
    Spec { http_version: version, insecure, connections: 1, ..Spec::new(url.parse().expect("a URL")) }
}

fn engine(spec: &Spec) -> std::io::Result<Box<dyn Engine>> {
    spec.check().expect("a spec");
    match spec.http_version {
        HttpVersion::Http3 => engine_with::<Http3>(spec),
        _ => engine_with::<Http2>(spec),
    }
}

fn engine_with<C: Carrier + 'static>(spec: &Spec) -> std::io::Result<Box<dyn Engine>> {
    let at = Destination::resolve(spec).expect("an address").remove(0);
    let poller = Poller::alone(spec.pacing, Clock::start());
    let setup = || Setup::new(trust::config(spec).expect("no files"), spec, b"h3").expect("a name");
    let tls = spec.url.tls.then(setup);
    let mut engine = HttpEngine::<Streams<C>>::new(spec, &at, Messages::new(spec).into(), tls, 0, poller)?;
    engine.warm(SECOND)?;
    Ok(Box::new(engine))
}

/// Runs all requests of `spec`, and checks that each of them is accounted for.
fn run(spec: &Spec) -> Tally {
    let (mut engine, mut tally) = (engine(spec).expect("open"), Tally::new());
    let schedule = spec.rate.as_ref().map(|rate| {
        let now = engine.poller().now();
        Schedule::new(now, rate, false, 0, 1, spec.budget(0))
    });
    engine.begin(schedule, &mut tally);
    let deadline = engine.poller().now() + 60 * SECOND;
    while !engine.is_done() {
        assert!(engine.poller().now() < deadline, "{tally:?}");
        engine.turn(&mut tally);
    }
    let ended = tally.completed + tally.errors.values().sum::<u64>();
    assert_eq!((tally.sent, ended), (spec.requests.expect("a number"), tally.sent), "{tally:?}");
    tally
}

#[test]
fn each_request_has_its_response() {
    for version in VERSIONS {
        let mut spec = served(version, 128, |n| Deed::Answer(if n % 4 == 3 { 503 } else { 200 }));
        (spec.requests, spec.pipeline) = (Some(400), 16);
        spec.expect_body = Some("hello".into());
        let tally = run(&spec);
        assert_eq!((tally.statuses, tally.streams_allowed), ([(200, 300), (503, 100)].into(), None));
        assert_eq!((tally.completed, tally.errors), (300, [(ErrorClass::Status5xx, 100)].into()));
        assert!(tally.bytes >= 400 * 5, "{} bytes", tally.bytes);
    }
}

#[test]
fn bodies_are_sent_and_compared() {
    for version in VERSIONS {
        let mut spec = served(version, 128, |_| Deed::Answer(200));
        (spec.requests, spec.pipeline) = (Some(20), 4);
        (spec.method, spec.body) = ("POST".to_owned(), vec![b'x'; 300_000].into());
        spec.expect_body = Some("another".into());
        assert_eq!(run(&spec).errors, [(ErrorClass::Body, 20)].into());
    }
}

#[test]
fn a_response_that_is_cut_off_is_no_good_one() {
    for (version, class) in
        [(HttpVersion::Http2, ErrorClass::Garbage), (HttpVersion::Http3, ErrorClass::Truncated)]
    {
        let mut spec = served(version, 128, |n| if n % 2 == 0 { Deed::CutOff } else { Deed::Answer(200) });
        (spec.requests, spec.pipeline) = (Some(20), 1);
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors), (10, [(class, 10)].into()), "{version:?}");
    }
}

/// Without a length in its head, only its frames tell that a response is cut off.
#[test]
fn a_frame_that_is_cut_off_is_no_good_response() {
    // HEADERS with `:status 200`, and DATA of 5 bytes; or of 64, of which 5 come.
    let http2 = |data| match data {
        5 => http2::start_raw(b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x05\0\x01\0\0\0\x01hello"),
        _ => http2::start_raw(b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x40\0\x01\0\0\0\x01hello"),
    };
    let http3 = |data| match data {
        5 => http3::start_raw(b"\x01\x03\0\0\xd9\0\x05hello"),
        _ => http3::start_raw(b"\x01\x03\0\0\xd9\0\x3fhello"),
    };
    for (version, good, bad) in
        [(HttpVersion::Http2, http2(5), http2(64)), (HttpVersion::Http3, http3(5), http3(63))]
    {
        // With more, the next one may cross the end of the connection.
        let run_at = |url| run(&Spec { requests: Some(1), ..load(version, url) });
        assert_eq!(run_at(good).completed, 1, "{version}");
        let tally = run_at(bad);
        assert_eq!((tally.completed, tally.errors), (0, [(ErrorClass::Truncated, 1)].into()), "{version}");
    }
}

/// h3 would collect the whole frame before it looks at it.
#[test]
fn a_frame_without_end_is_refused_at_its_start() {
    // HEADERS of 2^30 - 1 bytes.
    let url = http3::start_raw(b"\x01\xbf\xff\xff\xff\0\0");
    let tally = run(&Spec { requests: Some(4), ..load(HttpVersion::Http3, url) });
    assert_eq!((tally.completed, tally.errors), (0, [(ErrorClass::Garbage, 4)].into()));
    assert_eq!(tally.reasons.of(ErrorClass::Garbage), [("a frame of 1073741823 bytes", 4)]);
}

/// With pipelining, what is behind a late response has to be given up with its connection.
#[test]
fn one_late_response_keeps_no_other() {
    for version in VERSIONS {
        let mut spec = served(version, 128, |n| if n == 5 { Deed::Hold } else { Deed::Answer(200) });
        (spec.requests, spec.pipeline) = (Some(200), 8);
        spec.timeout = Duration::from_secs(2);
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors), (199, [(ErrorClass::Timeout, 1)].into()));
        assert_eq!((tally.opened, tally.given_up.len()), (0, 1), "on the first connection");
    }
}

/// Where the server is gone without a word, a connection once waited for it until the kernel or QUIC gave up.
#[test]
fn a_connection_on_which_nothing_comes_is_opened_again() {
    let mut spec =
        served(HttpVersion::Http2, 128, |n| if n == 10 { Deed::Freeze } else { Deed::Answer(200) });
    (spec.requests, spec.timeout) = (Some(20), Duration::from_secs(1));
    let tally = run(&spec);
    assert!(tally.opened == 1 && tally.errors_of(ErrorClass::Timeout) >= 2, "{tally:?}");
    assert_eq!(tally.completed + tally.errors_of(ErrorClass::Timeout), 20, "{tally:?}");
}

#[test]
fn a_refused_stream_has_its_reason() {
    for version in VERSIONS {
        let mut spec = served(version, 128, |n| if n % 2 == 0 { Deed::Refuse } else { Deed::Answer(200) });
        (spec.requests, spec.pipeline) = (Some(40), 1);
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors), (20, [(ErrorClass::Reset, 20)].into()));
        let reason = if version == HttpVersion::Http2 { "REFUSED_STREAM" } else { "H3_REQUEST_REJECTED" };
        assert_eq!(tally.reasons.of(ErrorClass::Reset), [(reason, 20)]);
    }
}

/// A server ends a connection after some requests, as nginx does after 1,000.
#[test]
fn an_announced_end_loses_no_request() {
    for version in VERSIONS {
        let mut spec =
            served(version, 128, |n| if n % 50 == 49 { Deed::SayGoodbye } else { Deed::Answer(200) });
        (spec.requests, spec.pipeline) = (Some(400), 8);
        let tally = run(&spec);
        assert!(tally.opened >= 4, "{} reopened", tally.opened);
        assert!(tally.errors.keys().all(|class| *class == ErrorClass::Discarded), "{:?}", tally.errors);
        assert!(tally.completed >= 300, "{} completed", tally.completed);
    }
}

/// The `h2` crate gives up a connection after a hundred of them, and with it what was outstanding; `h3` takes one for the end
/// of the body.
#[test]
fn empty_frames_lose_no_request() {
    for version in VERSIONS {
        let mut spec = served(version, 128, |_| Deed::Stutter);
        (spec.requests, spec.pipeline, spec.expect_body) = (Some(400), 8, Some("hello".into()));
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors, tally.events), (400, [].into(), [].into()), "{version}");
    }
}

/// nginx says goodbye after a number of requests. That was once counted as a close of an idle connection.
#[test]
fn an_announced_end_is_no_idle_close() {
    for version in VERSIONS {
        let mut spec =
            served(version, 128, |n| if n % 10 == 9 { Deed::SayGoodbye } else { Deed::Answer(200) });
        (spec.requests, spec.rate) = (Some(30), Some(Rate::steady(200.0)));
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors, tally.events), (30, [].into(), [].into()));
        assert!(tally.opened >= 1, "{} reopened", tally.opened);
    }
}

#[test]
fn no_more_streams_than_the_server_allows() {
    for version in VERSIONS {
        let mut spec = served(version, 3, |_| Deed::Answer(200));
        (spec.requests, spec.pipeline) = (Some(300), 50);
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors), (300, [].into()));
        assert_eq!(tally.streams_allowed, Some(3), "{version}");
    }
}

#[test]
fn a_schedule_is_kept_over_streams() {
    for version in VERSIONS {
        let mut spec = served(version, 128, |_| Deed::Answer(200));
        (spec.requests, spec.pipeline, spec.rate) = (Some(300), 20, Some(Rate::steady(2000.0)));
        let tally = run(&spec);
        assert_eq!((tally.completed, tally.errors), (300, [].into()));
        assert_eq!(tally.late.len(), 300);
    }
}

#[test]
fn a_server_of_another_protocol_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
            // Read what was sent, so that closing does not reset the connection before the answer is read.
            let _ = stream.read(&mut [0; 1024]);
        }
    });
    let spec = load(HttpVersion::Http2, url);
    let error = engine(&spec).map(|_| ()).expect_err("not HTTP/2").to_string();
    assert!(error.starts_with("the server does not speak HTTP/2 ("), "{error}");
}

/// Why a load on HTTP/3 at `url` does not begin.
fn unreached(url: String) -> std::io::Error {
    engine(&load(HttpVersion::Http3, url)).map(|_| ()).expect_err("no server")
}

/// What a server looks like whose UDP port was closed, or dropped by a firewall.
#[test]
fn a_udp_port_without_an_answer_says_why() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let url = format!("https://{}/", socket.local_addr().expect("bound"));
    assert_eq!(unreached(url.clone()).to_string(), "no answer to QUIC over UDP");
    drop(socket);
    assert_eq!(unreached(url).to_string(), "the UDP port is closed (ICMP port unreachable)");
    assert_eq!(unreached(http3::start_other()).to_string(), "the server does not offer HTTP/3");
}

#[test]
fn what_http3_does_not_have_is_refused() {
    let check = |change: fn(&mut Spec)| {
        let mut spec = load(HttpVersion::Http3, "https://h:1/".to_owned());
        change(&mut spec);
        spec.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(check(|_| {}), "");
    assert_eq!(check(|spec| spec.tls_resume = true), "--tls-resume does not work with --http3");
    let plain = check(|spec| {
        (spec.insecure, spec.url) = (false, "http://h:1/".parse().expect("a URL"));
    });
    assert_eq!(plain, "--http3 is for https:// only: QUIC has TLS built in");
}

#[test]
fn what_http2_does_not_have_is_refused() {
    let check = |change: fn(&mut Spec)| {
        let mut spec = load(HttpVersion::Http2, "http://h:1/".to_owned());
        change(&mut spec);
        spec.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(check(|_| {}), "");
    assert_eq!(check(|spec| spec.no_keepalive = true), "--no-keepalive is for HTTP/1.1 only");
    // gRPC asks for them.
    assert_eq!(check(|spec| spec.headers = vec!["TE: trailers".parse().expect("a header")]), "");
    assert!(check(|spec| spec.headers = vec!["te: gzip".parse().expect("a header")]).contains("TE other"));
    assert!(
        check(|spec| spec.headers = vec!["connection: x".parse().expect("a header")]).contains("Keep-Alive")
    );
    assert_eq!(check(|spec| spec.url.path = "/<a>".to_owned()), "paths must be valid in HTTP/2, not /<a>");
}

/// Anything a server may do, by chance.
fn anything(random: u64) -> Deed {
    match random % 16 {
        0 => Deed::Hold,
        1 => Deed::Freeze,
        2 => Deed::Refuse,
        3 => Deed::BreakOff,
        4 => Deed::Close,
        5 => Deed::SayGoodbye,
        6 => Deed::Answer(500),
        7 => Deed::CutOff,
        _ => Deed::Answer(200),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_request_on_a_stream_ends_once(
        seed in any::<u32>(), rate in 0u32..3, allowed in 1u32..6, streams in 1usize..6, connections in 1usize..4,
        version in 0usize..2,
    ) {
        let is_loose = Arc::new(AtomicBool::new(false));
        let loose = Arc::clone(&is_loose);
        let deed = move |n: usize| {
            let by_chance = || anything(Random::after(u64::from(seed) + n as u64).next_u64());
            if loose.load(Ordering::Relaxed) { by_chance() } else { Deed::Answer(200) }
        };
        let mut spec = served(VERSIONS[version], allowed, deed);
        (spec.connections, spec.pipeline, spec.timeout) = (connections, streams, Duration::from_millis(25));
        spec.rate = (rate > 0).then(|| Rate::steady(f64::from(rate * rate) * 500.0));
        adds_up(&spec, &is_loose);
    }
}
