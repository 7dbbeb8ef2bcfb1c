//! Accepts connections, reads their requests, and answers each in a thread of its own.
//!
//! The accepting thread reads the requests of all connections itself: a connection that sends nothing costs a descriptor
//! and no thread. Descriptors for connections are a part of those the process may have, so that the rest of the program
//! can still open files. Under a flood, connections that have sent nothing make room for new ones.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, getrlimit};

use super::request::MAX_HEAD;
use super::slots::{Slots, origin};
use super::{BadRequest, Body, Request, Response};

/// Longest time for a request to arrive, and for one write to be taken.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for a whole response to be taken, except for streams.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Shortest time that a connection has to send its request, however many others wait.
const GRACE: Duration = Duration::from_millis(50);
/// Longest time for which a client may keep sending after its response: closing with unread input resets the connection,
/// which can destroy the response on its way.
const LINGER: Duration = Duration::from_secs(1);
/// Longest wait before the end is noticed, and pause after a failure that passes.
const PAUSE: Duration = Duration::from_millis(50);

/// Bounds of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    /// Connections whose request has not arrived.
    waiting: usize,
    answering: usize,
}

impl Limits {
    /// At most five sixteenths of the descriptors of the process are for connections.
    fn within(files: u64) -> Self {
        let part = |divisor: u64, most: u64| (files / divisor).clamp(2, most) as usize;
        Self { waiting: part(4, 256), answering: part(16, 64) }
    }
}

/// A connection whose request has not arrived.
struct Waiting {
    stream: TcpStream,
    peer: SocketAddr,
    since: Instant,
    input: Vec<u8>,
}

/// What has arrived of a request.
enum Arrival {
    /// Not all of it.
    Partial,
    /// The client closed the connection, or it broke.
    Gone,
    Whole(Result<Request, BadRequest>),
}

/// Serves `listener` until `stop` is set. Streams must watch `stop` themselves: this returns once all connections
/// have ended.
///
/// # Errors
/// The listener cannot be read any more. An error of one connection ends only that connection.
pub fn serve<'a>(
    listener: &TcpListener,
    stop: &AtomicBool,
    answer: &(dyn Fn(&Request, SocketAddr) -> Response<'a> + Sync),
) -> io::Result<()> {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    serve_within(listener, stop, answer, Limits::within(files))
}

fn serve_within<'a>(
    listener: &TcpListener,
    stop: &AtomicBool,
    answer: &(dyn Fn(&Request, SocketAddr) -> Response<'a> + Sync),
    limits: Limits,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // No address can take all of them, and streams, which last, leave room for pages.
    let answers = Slots::new(limits.answering, limits.answering.div_ceil(2));
    let streams = Slots::new(limits.answering.div_ceil(2), limits.answering.div_ceil(4));
    thread::scope(|scope| {
        let mut waiting: Vec<Waiting> = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            wait(listener, &waiting, limits.waiting);
            accept(listener, &mut waiting, limits.waiting)?;
            let mut index = 0;
            while index < waiting.len() {
                let request = match waiting[index].arrival() {
                    Arrival::Partial => {
                        index += 1;
                        continue;
                    }
                    Arrival::Gone => {
                        waiting.remove(index);
                        continue;
                    }
                    Arrival::Whole(request) => request,
                };
                let Waiting { stream, peer, .. } = waiting.remove(index);
                let Some(slot) = answers.take(peer.ip()) else {
                    refuse(&stream);
                    continue;
                };
                let (stream, streams) = (Arc::new(stream), &streams);
                let theirs = Arc::clone(&stream);
                let started = thread::Builder::new().name("http".to_owned()).spawn_scoped(scope, move || {
                    let _slot = slot;
                    // A connection that breaks does not affect the others.
                    let _ = respond(&theirs, peer, request, streams, stop, answer);
                });
                if started.is_err() {
                    // No thread at the moment.
                    refuse(&stream);
                }
            }
        }
        Ok(())
    })
}

/// Waits until there is something to do, for [`PAUSE`] at most.
fn wait(listener: &TcpListener, waiting: &[Waiting], most: usize) {
    // While all are within their grace, new ones wait in the kernel's queue.
    let has_room = room(waiting, most).is_some();
    let accepting = has_room.then(|| PollFd::new(listener, PollFlags::IN));
    let reading = waiting.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN));
    let mut all: Vec<PollFd<'_>> = reading.chain(accepting).collect();
    let pause = if has_room { PAUSE } else { PAUSE.min(GRACE / 4) };
    let time = Timespec::try_from(pause).ok();
    if poll(&mut all, time.as_ref()).is_err_and(|errno| errno != rustix::io::Errno::INTR) {
        thread::sleep(PAUSE);
    }
}

/// Room for a connection: at the end, or in place of another that has had its time.
fn room(waiting: &[Waiting], most: usize) -> Option<Option<usize>> {
    if waiting.len() < most {
        return Some(None);
    }
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    waiting.iter().for_each(|one| *counts.entry(origin(one.peer.ip())).or_default() += 1);
    // The oldest of the address with the most.
    let late = waiting.iter().enumerate().filter(|(_, one)| one.since.elapsed() >= GRACE);
    let count =
        |(index, one): &(usize, &Waiting)| (counts[&origin(one.peer.ip())], std::cmp::Reverse(*index));
    late.max_by_key(count).map(|(index, _)| Some(index))
}

/// Accepts connections while there is room.
fn accept(listener: &TcpListener, waiting: &mut Vec<Waiting>, most: usize) -> io::Result<()> {
    for _ in 0..most {
        let Some(place) = room(waiting, most) else { return Ok(()) };
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if is_passing(&error) => {
                thread::sleep(PAUSE);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if let Some(index) = place {
            refuse(&waiting.remove(index).stream);
        }
        if stream.set_nonblocking(true).is_ok() {
            waiting.push(Waiting { stream, peer, since: Instant::now(), input: Vec::new() });
        }
    }
    Ok(())
}

/// A connection that ended before it was accepted, or no descriptor or memory left for it.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted};
    let is_exhausted =
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM));
    is_exhausted || matches!(error.kind(), Interrupted | ConnectionAborted)
}

/// Answers in the accepting thread, without waiting, that there is no room.
fn refuse(mut stream: &TcpStream) {
    let response = Response::busy("too many connections", 1);
    let head = response.head();
    let body = if let Body::Whole(body) = response.body { body } else { Vec::new() };
    // A new connection has room for so little.
    let _ = stream.write(&[head.as_bytes(), &body].concat());
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

impl Waiting {
    /// Reads what there is, without waiting. The whole request must arrive in time.
    fn arrival(&mut self) -> Arrival {
        use io::ErrorKind::{Interrupted, WouldBlock};
        let mut part = [0; 4096];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Arrival::Gone,
                Ok(length) => {
                    self.input.extend_from_slice(&part[..length]);
                    // A request ends with a line.
                    if (part[..length].contains(&b'\n') || self.input.len() >= MAX_HEAD)
                        && let Some(request) = Request::parse(&self.input)
                    {
                        return Arrival::Whole(request);
                    }
                }
                Err(error) if error.kind() == Interrupted => {}
                Err(error) if error.kind() == WouldBlock => break,
                Err(_) => return Arrival::Gone,
            }
        }
        if self.since.elapsed() < IO_TIMEOUT {
            return Arrival::Partial;
        }
        Arrival::Whole(Err(BadRequest { status: 408, why: "the request took too long" }))
    }
}

/// A connection to which a response is written in limited time.
struct Timed<'s> {
    stream: &'s TcpStream,
    until: Option<Instant>,
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn respond<'a>(
    stream: &TcpStream,
    peer: SocketAddr,
    request: Result<Request, BadRequest>,
    streams: &Slots,
    stop: &AtomicBool,
    answer: &dyn Fn(&Request, SocketAddr) -> Response<'a>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let is_head = request.as_ref().is_ok_and(|request| request.is_head);
    let mut response = match request {
        Err(bad) => Response::text(bad.status, bad.why),
        // What panicked was about this request alone.
        Ok(request) => catch_unwind(AssertUnwindSafe(|| answer(&request, peer)))
            .unwrap_or_else(|_| Response::text(500, "internal error; the server keeps running")),
    };
    let mut slot = None;
    if matches!(response.body, Body::Stream(_)) {
        slot = streams.take(peer.ip());
        if slot.is_none() {
            response = Response::busy("too many event streams; close a page", 5);
        }
    }
    let until = slot.is_none().then(|| Instant::now() + RESPONSE_TIMEOUT);
    let mut out = Timed { stream, until };
    out.write_all(response.head().as_bytes())?;
    match response.body {
        _ if is_head => {}
        Body::Whole(body) => out.write_all(&body)?,
        Body::Shared(body) => out.write_all(body.as_bytes())?,
        Body::Stream(body) => body(&mut out)?,
    }
    out.flush()?;
    stream.shutdown(std::net::Shutdown::Write)?;
    linger(stream, stop)
}

/// Reads on until the client closes the connection, for [`LINGER`] at most.
fn linger(mut stream: &TcpStream, stop: &AtomicBool) -> io::Result<()> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    let (mut rest, until) = ([0; 4096], Instant::now() + LINGER);
    stream.set_read_timeout(Some(PAUSE))?;
    while Instant::now() < until && !stop.load(Ordering::SeqCst) {
        match stream.read(&mut rest) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Limits, PAUSE, serve_within};
    use crate::web::{Response, serve};

    const SMALL: Limits = Limits { waiting: 8, answering: 4 };

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    /// Ends the server of a test, even if the test fails.
    struct Stop<'a>(&'a AtomicBool);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn answered(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("answered");
        text
    }

    fn route<'a>(path: &str) -> Response<'a> {
        match path {
            "/" => Response::ok("text/plain", "root\n").with("X-One", "1"),
            "/shared" => Response::shared("text/plain", "same\n".into()),
            "/stream" => Response::stream("text/plain", Box::new(|out| out.write_all(b"a\nb\n"))),
            "/panic" => panic!("on purpose"),
            _ => Response::text(404, "no such page"),
        }
    }

    #[test]
    fn pages_streams_and_errors() {
        let ((listener, address), stop) = (listener(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&listener, &stop, &|request, _| route(&request.path)));
            let get = |path: &str| answered(address, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let page = get("/");
            let start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-One: 1\r\n";
            assert!(page.starts_with(start) && page.ends_with("\r\n\r\nroot\n"), "{page}");
            assert!(get("/shared").ends_with("\r\n\r\nsame\n"));
            let head = answered(address, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert!(head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
            let stream = get("/stream");
            assert!(stream.ends_with("\r\n\r\na\nb\n") && !stream.contains("Content-Length"), "{stream}");
            for (request, status) in [
                ("GET /else HTTP/1.0\r\n\r\n", 404),
                ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
                ("nonsense\r\n\r\n", 400),
                ("GET /panic HTTP/1.0\r\n\r\n", 500),
                ("GET / HTTP/1.0\r\n\r\n", 200),
            ] {
                let answer = answered(address, request);
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            }
            stop.store(true, Ordering::SeqCst);
        });
    }

    /// Silent connections hold neither a thread nor the place of one that sends a request.
    #[test]
    fn silent_connections_make_room() {
        let ((listener, address), stop) = (listener(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let server =
                scope.spawn(|| serve_within(&listener, &stop, &|_, _| Response::text(404, "none"), SMALL));
            let silent: Vec<TcpStream> =
                (0..SMALL.waiting * 4).map(|_| TcpStream::connect(address).expect("connected")).collect();
            let text = answered(address, "GET / HTTP/1.1\r\n\r\n");
            assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
            let mut first = &silent[0];
            let mut refused = String::new();
            first.read_to_string(&mut refused).expect("closed");
            assert!(
                refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: 1\r\n"),
                "{refused}"
            );
            stop.store(true, Ordering::SeqCst);
            // Without a look at the flag this would take as long as a request may.
            server.join().expect("no panic").expect("ended");
        });
    }

    /// Streams of one address leave streams to others, and pages to all.
    #[test]
    fn streams_are_bounded() {
        let ((listener, address), stop) = (listener(), AtomicBool::new(false));
        let endless = |request: &super::Request| match request.path.as_str() {
            "/events" => Response::stream(
                "text/plain",
                Box::new(|out| {
                    while !stop.load(Ordering::SeqCst) {
                        out.write_all(b":")?;
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    Ok(())
                }),
            ),
            _ => Response::ok("text/plain", "page"),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| serve_within(&listener, &stop, &|request, _| endless(request), SMALL));
            let _stop = Stop(&stop);
            let mut reader = TcpStream::connect(address).expect("connected");
            reader.write_all(b"GET /events HTTP/1.0\r\n\r\n").expect("sent");
            reader.read_exact(&mut [0; 12]).expect("it streams");
            let second = answered(address, "GET /events HTTP/1.0\r\n\r\n");
            assert!(second.starts_with("HTTP/1.1 503 ") && second.contains("Retry-After: 5"), "{second}");
            // The slot of the refused one is free once its thread has ended.
            let page = || answered(address, "GET / HTTP/1.0\r\n\r\n").ends_with("page");
            assert!((0..100).any(|_| page() || {
                std::thread::sleep(PAUSE);
                false
            }));
            drop(reader);
        });
    }

    #[test]
    fn most_descriptors_are_for_others() {
        for files in [64, 256, 1024, u64::MAX] {
            let Limits { waiting, answering } = Limits::within(files);
            assert!((waiting + answering) as u64 <= files / 16 * 5, "{files}");
            assert!(waiting <= 256 && answering <= 64);
        }
    }
}
