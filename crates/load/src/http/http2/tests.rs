//! The engine with HTTP/2, against the server of the `h2` crate.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, SendResponse};
use http::Response;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Messages, Streams};
use crate::clock::{Clock, SECOND};
use crate::destination::Destination;
use crate::error_class::ErrorClass;
use crate::http::engine::HttpEngine;
use crate::poller::Poller;
use crate::rate::Rate;
use crate::schedule::Schedule;
use crate::spec::Spec;
use crate::tally::Tally;
use crate::thread::Engine;

/// A socket that is asked again and again.
struct Polled(TcpStream);

fn polled<T>(result: std::io::Result<T>) -> Poll<std::io::Result<T>> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl AsyncRead for Polled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let read = self.0.read(buffer.initialize_unfilled());
        polled(read).map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Polled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        polled(self.0.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What the server does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Answer(u16),
    Hold,
    Refuse,
    /// Answers, and announces the end of the connection.
    SayGoodbye,
}

type Held = Vec<SendResponse<Bytes>>;

fn answer(mut respond: SendResponse<Bytes>, status: u16) {
    let head = Response::builder().status(status).body(()).expect("a response");
    if let Ok(mut body) = respond.send_response(head, false) {
        let _ = body.send_data(Bytes::from_static(b"hello"), true);
    }
}

/// Serves one connection; request `n` of the server gets `deed(n)`.
async fn serve(stream: TcpStream, streams: u32, count: Arc<AtomicUsize>, deed: fn(usize) -> Deed) {
    let mut builder = Builder::new();
    let Ok(mut connection) = builder.max_concurrent_streams(streams).handshake(Polled(stream)).await else {
        return;
    };
    let mut held = Held::new();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        match deed(count.fetch_add(1, Ordering::Relaxed)) {
            Deed::Answer(status) => answer(respond, status),
            Deed::Hold => held.push(respond),
            Deed::Refuse => respond.send_reset(Reason::REFUSED_STREAM),
            Deed::SayGoodbye => {
                connection.graceful_shutdown();
                answer(respond, 200);
            }
        }
    }
}

/// A server and a load on it, of one connection.
fn served(streams: u32, deed: fn(usize) -> Deed) -> Spec {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        let count = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming().flatten() {
            stream.set_nonblocking(true).expect("set");
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let mut serving = pin!(serve(stream, streams, count, deed));
                while serving.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
    });
    Spec { http2: true, connections: 1, ..Spec::new(url.parse().expect("a URL")) }
}

fn engine(spec: &Spec) -> std::io::Result<HttpEngine<Streams>> {
    spec.check().expect("a spec");
    let at = Destination::resolve(spec).expect("an address").remove(0);
    let poller = Poller::alone(spec.pacing, Clock::start());
    let mut engine = HttpEngine::new(spec, &at, Messages::new(spec).into(), None, 0, poller)?;
    engine.warm(SECOND).map(|()| engine)
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
    let mut spec = served(128, |n| Deed::Answer(if n % 4 == 3 { 503 } else { 200 }));
    (spec.requests, spec.pipeline) = (Some(400), 16);
    spec.expect_body = Some("hello".into());
    let tally = run(&spec);
    assert_eq!(tally.statuses, [(200, 300), (503, 100)].into());
    assert_eq!((tally.completed, tally.errors), (300, [(ErrorClass::Status5xx, 100)].into()));
    assert!(tally.bytes >= 400 * 5, "{} bytes", tally.bytes);
}

#[test]
fn bodies_are_sent_and_compared() {
    let mut spec = served(128, |_| Deed::Answer(200));
    (spec.requests, spec.pipeline) = (Some(20), 4);
    (spec.method, spec.body) = ("POST".to_owned(), vec![b'x'; 300_000].into());
    spec.expect_body = Some("another".into());
    assert_eq!(run(&spec).errors, [(ErrorClass::Body, 20)].into());
}

/// With pipelining, what is behind a late response has to be given up with its connection.
#[test]
fn one_late_response_keeps_no_other() {
    let mut spec = served(128, |n| if n == 5 { Deed::Hold } else { Deed::Answer(200) });
    (spec.requests, spec.pipeline) = (Some(200), 8);
    spec.timeout = Duration::from_millis(300);
    let tally = run(&spec);
    assert_eq!((tally.completed, tally.errors), (199, [(ErrorClass::Timeout, 1)].into()));
    assert_eq!((tally.opened, tally.given_up.len()), (0, 1), "on the first connection");
}

#[test]
fn a_refused_stream_has_its_reason() {
    let mut spec = served(128, |n| if n % 2 == 0 { Deed::Refuse } else { Deed::Answer(200) });
    (spec.requests, spec.pipeline) = (Some(40), 1);
    let tally = run(&spec);
    assert_eq!((tally.completed, tally.errors), (20, [(ErrorClass::Reset, 20)].into()));
    assert_eq!(tally.reasons.of(ErrorClass::Reset), [("REFUSED_STREAM", 20)]);
}

/// A server ends a connection after some requests, as nginx does after 1,000.
#[test]
fn an_announced_end_loses_no_request() {
    let mut spec = served(128, |n| if n % 50 == 49 { Deed::SayGoodbye } else { Deed::Answer(200) });
    (spec.requests, spec.pipeline) = (Some(400), 8);
    let tally = run(&spec);
    assert!(tally.opened >= 4, "{} reopened", tally.opened);
    assert!(tally.errors.keys().all(|class| *class == ErrorClass::Discarded), "{:?}", tally.errors);
    assert!(tally.completed >= 300, "{} completed", tally.completed);
}

/// nginx says goodbye after a number of requests. That was once counted as a close of an idle connection.
#[test]
fn an_announced_end_is_no_idle_close() {
    let mut spec = served(128, |n| if n % 10 == 9 { Deed::SayGoodbye } else { Deed::Answer(200) });
    (spec.requests, spec.rate) = (Some(30), Some(Rate::steady(200.0)));
    let tally = run(&spec);
    assert_eq!((tally.completed, tally.errors, tally.events), (30, [].into(), [].into()));
    assert!(tally.opened >= 1, "{} reopened", tally.opened);
}

#[test]
fn no_more_streams_than_the_server_allows() {
    let mut spec = served(3, |_| Deed::Answer(200));
    (spec.requests, spec.pipeline) = (Some(300), 50);
    let tally = run(&spec);
    assert_eq!((tally.completed, tally.errors), (300, [].into()));
}

#[test]
fn a_schedule_is_kept_over_streams() {
    let mut spec = served(128, |_| Deed::Answer(200));
    (spec.requests, spec.pipeline, spec.rate) = (Some(300), 20, Some(Rate::steady(2000.0)));
    let tally = run(&spec);
    assert_eq!((tally.completed, tally.errors), (300, [].into()));
    assert_eq!(tally.late.len(), 300);
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
    let spec = Spec { http2: true, connections: 1, ..Spec::new(url.parse().expect("a URL")) };
    let error = engine(&spec).map(|_| ()).expect_err("not HTTP/2").to_string();
    assert!(error.starts_with("the server does not speak HTTP/2 ("), "{error}");
}

#[test]
fn what_http2_does_not_have_is_refused() {
    let check = |change: fn(&mut Spec)| {
        let mut spec = Spec { http2: true, ..Spec::new("http://h:1/".parse().expect("a URL")) };
        change(&mut spec);
        spec.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(check(|_| {}), "");
    assert_eq!(check(|spec| spec.no_keepalive = true), "--no-keepalive does not work with --http2");
    assert!(
        check(|spec| spec.headers = vec!["connection: x".parse().expect("a header")]).contains("Keep-Alive")
    );
    assert_eq!(check(|spec| spec.url.path = "/<a>".to_owned()), "paths must be valid in HTTP/2, not /<a>");
}
