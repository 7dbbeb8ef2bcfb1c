//! A small HTTP/1.1 server for pages and metrics that only read: one thread and one request for each connection.
//!
//! It answers GET and HEAD. Connections are bounded in number and in time, so that a slow or hostile client costs a
//! thread for a few seconds at most.

mod access;
mod hub;
mod request;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use access::{Access, Denied};
pub use hub::{Event, Hub};
pub use request::{BadRequest, Request};

/// Connections served at once; more are told to come back.
const MAX_CONNECTIONS: usize = 64;
/// Longest time for a request to arrive, and for one write to be taken.
const IO_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for which a client may keep sending after its response: closing with unread input resets the connection,
/// which can destroy the response on its way.
const LINGER: Duration = Duration::from_secs(1);
/// Time between two looks for new connections, for input and for the end.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes a body piece by piece, until it returns or the reader is gone.
pub type Stream<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

/// The content of a response.
pub enum Body<'a> {
    /// The whole content, of known length.
    Whole(Vec<u8>),
    /// As long as the connection lasts.
    Stream(Stream<'a>),
}

pub struct Response<'a> {
    /// The status, such as 200.
    pub status: u16,
    pub media_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Body<'a>,
}

impl<'a> Response<'a> {
    /// Status 200 with `body`.
    pub fn ok(media_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, media_type, headers: Vec::new(), body: Body::Whole(body.into()) }
    }

    /// Status 200 with a body that is written while the connection lasts.
    pub fn stream(media_type: &'static str, stream: Stream<'a>) -> Self {
        Self { status: 200, media_type, headers: Vec::new(), body: Body::Stream(stream) }
    }

    /// Another status, with a line of text.
    pub fn text(status: u16, line: &str) -> Self {
        let body = Body::Whole(format!("{line}\n").into_bytes());
        Self { status, media_type: "text/plain; charset=utf-8", headers: Vec::new(), body }
    }

    /// The same response with one more header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
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
    listener.set_nonblocking(true)?;
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !stop.load(Ordering::SeqCst) {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_passing(&error) => {
                    thread::sleep(PAUSE);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_full = open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS;
            let open = &open;
            scope.spawn(move || {
                // A connection that breaks does not affect the others.
                let _ = converse(&stream, peer, is_full, stop, answer);
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
        Ok(())
    })
}

/// No connection at the moment, one that ended before it was accepted, or no descriptor left for it.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    let is_exhausted =
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM));
    is_exhausted || matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted)
}

fn converse<'a>(
    mut stream: &TcpStream,
    peer: SocketAddr,
    is_full: bool,
    stop: &AtomicBool,
    answer: &dyn Fn(&Request, SocketAddr) -> Response<'a>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let Some(request) = read_request(stream, stop)? else { return Ok(()) };
    let (response, is_head) = match request {
        _ if is_full => (Response::text(503, "too many connections").with("Retry-After", "1"), false),
        Err(bad) => (Response::text(bad.status, bad.why), false),
        Ok(request) => (answer(&request, peer), request.is_head),
    };
    stream.write_all(head(&response).as_bytes())?;
    match response.body {
        _ if is_head => {}
        Body::Whole(body) => stream.write_all(&body)?,
        Body::Stream(body) => body(&mut stream)?,
    }
    stream.flush()?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let (mut rest, until) = ([0; 4096], Instant::now() + LINGER);
    while read(stream, &mut rest, until, stop)?.is_some_and(|length| length > 0) {}
    Ok(())
}

/// Reads a request; the whole of it must arrive in time. `None` if the client closed without one, or at the end.
fn read_request(stream: &TcpStream, stop: &AtomicBool) -> io::Result<Option<Result<Request, BadRequest>>> {
    let (mut input, mut part, until) = (Vec::new(), [0; 4096], Instant::now() + IO_TIMEOUT);
    loop {
        match read(stream, &mut part, until, stop)? {
            Some(0) => return Ok(None),
            Some(length) => input.extend_from_slice(&part[..length]),
            None if stop.load(Ordering::SeqCst) => return Ok(None),
            None => return Ok(Some(Err(BadRequest { status: 408, why: "the request took too long" }))),
        }
        if let Some(request) = Request::parse(&input) {
            return Ok(Some(request));
        }
    }
}

/// Reads what has arrived; `None` if nothing does `until` then, or at the end.
fn read(
    mut stream: &TcpStream,
    part: &mut [u8],
    until: Instant,
    stop: &AtomicBool,
) -> io::Result<Option<usize>> {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    stream.set_read_timeout(Some(PAUSE))?;
    while Instant::now() < until && !stop.load(Ordering::SeqCst) {
        match stream.read(part) {
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {}
            done => return done.map(Some),
        }
    }
    Ok(None)
}

/// Status line and headers. The connection ends with the response, so no length is needed for streams.
fn head(response: &Response<'_>) -> String {
    let reason = match response.status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        421 => "Misdirected Request",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    };
    let mut head =
        format!("HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\n", response.status, response.media_type);
    if let Body::Whole(body) = &response.body {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    for (name, value) in &response.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head + "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{MAX_CONNECTIONS, Response, serve};

    /// Responses of the server to each of `requests`.
    fn answers<const N: usize>(requests: [&str; N]) -> [String; N] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                serve(&listener, &stop, &|request, _| match request.path.as_str() {
                    "/" => Response::ok("text/plain", "root\n").with("X-One", "1"),
                    "/stream" => Response::stream("text/plain", Box::new(|out| out.write_all(b"a\nb\n"))),
                    _ => Response::text(404, "no such page"),
                })
            });
            let answers = requests.map(|request| {
                let mut stream = TcpStream::connect(address).expect("connected");
                stream.write_all(request.as_bytes()).expect("sent");
                let mut text = String::new();
                stream.read_to_string(&mut text).expect("answered");
                text
            });
            stop.store(true, Ordering::SeqCst);
            answers
        })
    }

    #[test]
    fn pages_streams_and_errors() {
        let [page, head, stream, missing, post, nonsense] = answers([
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /else HTTP/1.0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
            "nonsense\r\n\r\n",
        ]);
        let start = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-One: 1\r\n";
        assert!(page.starts_with(start) && page.ends_with("\r\n\r\nroot\n"), "{page}");
        assert!(head.contains("Content-Length: 5\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(stream.ends_with("\r\n\r\na\nb\n") && !stream.contains("Content-Length"), "{stream}");
        for (answer, status) in [(missing, 404), (post, 405), (nonsense, 400)] {
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
    }

    /// Without it this test would take as long as a request may.
    #[test]
    fn the_end_does_not_wait_for_silent_clients() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let server = scope.spawn(|| serve(&listener, &stop, &|_, _| Response::text(404, "none")));
            let mut silent: Vec<TcpStream> =
                (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(address).expect("connected")).collect();
            let mut text = String::new();
            let mut last = TcpStream::connect(address).expect("connected");
            last.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
            last.read_to_string(&mut text).expect("answered");
            assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{text}");
            stop.store(true, Ordering::SeqCst);
            server.join().expect("no panic").expect("ended");
            let mut first = silent.remove(0);
            assert_eq!(first.read(&mut [0; 8]).expect("closed"), 0);
        });
    }
}
