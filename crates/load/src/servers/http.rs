//! Parses requests and builds responses as bytes. No sockets here.

use rustix::time::{ClockId, clock_gettime};

use super::repeated::Repeated;
use super::route::Route;
use rxlab_base::units::digits;

/// Longest request line plus headers; beyond it the status is 431.
const MAX_HEAD: usize = 16 * 1024;
/// Longest request body that is skipped; beyond it the status is 413.
const MAX_BODY: u64 = 1 << 20;
const MAX_HEADERS: usize = 64;

/// Contents of the start of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The head is incomplete: more bytes are needed.
    Partial,
    Request(Request),
    /// Invalid: respond with this status and close.
    Bad(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Bytes of request line and headers.
    pub(super) head: usize,
    /// Bytes of body after them, to be skipped.
    pub(super) body: u64,
    /// True if the connection stays open.
    pub(super) keep_alive: bool,
    /// HTTP/1.0 has to be told that the connection stays open.
    pub(super) old: bool,
    /// The method is HEAD: only headers are sent.
    pub(super) head_only: bool,
    pub(super) route: Route,
}

/// Reads the request at the start of `input`.
pub(super) fn parse(input: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let window = &input[..input.len().min(MAX_HEAD)];
    let head = match request.parse(window) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if input.len() >= MAX_HEAD => return Parsed::Bad(431),
        Ok(httparse::Status::Partial) => return Parsed::Partial,
        Err(httparse::Error::TooManyHeaders) => return Parsed::Bad(431),
        Err(_) => return Parsed::Bad(400),
    };
    let old = request.version == Some(0);
    let (mut keep_alive, mut body) = (!old, None);
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("connection") {
            for token in header.value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                if token.eq_ignore_ascii_case(b"close") {
                    keep_alive = false;
                } else if token.eq_ignore_ascii_case(b"keep-alive") && old {
                    keep_alive = true;
                }
            }
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(digits);
            match (length, body) {
                (None, _) => return Parsed::Bad(400),
                (Some(new), Some(known)) if new != known => return Parsed::Bad(400),
                (Some(new), _) => body = Some(new),
            }
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Parsed::Bad(501);
        }
    }
    let body = body.unwrap_or(0);
    if body > MAX_BODY {
        return Parsed::Bad(413);
    }
    let method = request.method.unwrap_or_default();
    let route = Route::parse(method, request.path.unwrap_or_default());
    Parsed::Request(Request { head, body, keep_alive, old, head_only: method == "HEAD", route })
}

/// The most frequent response, ready to be copied.
const SIMPLE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 14\r\n\r\nHello, world!\n";

const HELLO: &str = "Hello, world!\n";

/// The response to `/`.
const INDEX: &str = "rxlab target\n\
    /simple          14 bytes\n\
    /usual           14 bytes, with the headers that servers usually send\n\
    /compute?us=N    after N microseconds of work, at most 1000000\n\
    /delay?us=N      after N microseconds of rest, at most 60000000\n\
    /bytes?n=N       N bytes, at most 1073741824\n";

/// The last instances of the most common requests, each with its response many times over: a pipeline of them
/// is answered with one comparison and one copy.
#[derive(Default)]
pub(super) struct Prepared {
    simple: Copies,
    usual: Copies,
    /// The second of the Date in the responses to `/usual`.
    second: i64,
}

#[derive(Default)]
struct Copies {
    request: Repeated,
    answer: Vec<u8>,
    answers: Vec<u8>,
}

/// Copies of one response.
const PREPARED: usize = 1024;

impl Prepared {
    /// Answers the known requests at the front of `input`, until `out` holds `limit` bytes; returns their
    /// count.
    pub(super) fn answer(&mut self, input: &mut &[u8], out: &mut Vec<u8>, limit: usize) -> usize {
        match self.simple.answer(input, out, limit) {
            0 if self.second == now() => self.usual.answer(input, out, limit),
            count => count,
        }
    }

    /// `head` is that of `request`.
    pub(super) fn learn(&mut self, head: &[u8], request: &Request) {
        if !request.is_plain() || request.body > 0 {
            return;
        }
        match request.route {
            Route::Simple => self.simple.learn(head, SIMPLE.to_owned()),
            Route::Usual => {
                self.second = now();
                self.usual.learn(head, usual(true, false));
            }
            _ => {}
        }
    }
}

impl Copies {
    fn answer(&mut self, input: &mut &[u8], out: &mut Vec<u8>, limit: usize) -> usize {
        let length = self.answer.len();
        if length == 0 {
            return 0;
        }
        let most = limit.saturating_sub(out.len()).div_ceil(length).min(PREPARED);
        let count = self.request.take(input, most);
        out.extend_from_slice(&self.answers[..count * length]);
        count
    }

    fn learn(&mut self, head: &[u8], answer: Vec<u8>) {
        self.request.learn(head);
        if self.answer != answer {
            self.answers = answer.repeat(PREPARED);
            self.answer = answer;
        }
    }
}

impl Request {
    /// Bytes of a generated body.
    pub(super) fn fill(&self) -> u64 {
        match self.route {
            Route::Bytes(length) if !self.head_only => length,
            _ => 0,
        }
    }

    /// True for a GET of HTTP/1.1 on a connection that stays open.
    fn is_plain(&self) -> bool {
        self.keep_alive && !self.old && !self.head_only
    }
}

/// Appends the response to the request at the start of `input` to `out`, without a generated body, and returns the bytes
/// that the head of the request has and the status. `None` while the head is incomplete. After an invalid request nothing
/// follows.
pub fn respond(input: &[u8], out: &mut Vec<u8>) -> Option<(usize, u16)> {
    match parse(input) {
        Parsed::Partial => None,
        Parsed::Bad(status) => {
            refuse(status, out);
            Some((input.len(), status))
        }
        Parsed::Request(request) => Some((request.head, answer(&request, out))),
    }
}

/// Appends the response to `request` to `out`, without the body of [`Request::fill`]; returns the status.
pub(super) fn answer(request: &Request, out: &mut Vec<u8>) -> u16 {
    if request.route == Route::Simple && request.is_plain() {
        out.extend_from_slice(SIMPLE);
        return 200;
    }
    let connection = match (request.keep_alive, request.old) {
        (false, _) => "Connection: close\r\n",
        (true, true) => "Connection: keep-alive\r\n",
        (true, false) => "",
    };
    match request.route {
        Route::Simple | Route::Compute(_) | Route::Delay(_) => {
            write_answer(200, connection, request.head_only, out);
        }
        Route::Usual => out.extend_from_slice(&usual(request.keep_alive, request.head_only)),
        Route::Index => write_text(("200 OK", INDEX), connection, request.head_only, out),
        Route::Bytes(length) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                 Content-Length: {length}\r\n{connection}\r\n"
            );
            out.extend_from_slice(head.as_bytes());
        }
        Route::Refuse(status) => {
            write_answer(status, connection, request.head_only, out);
            return status;
        }
    }
    200
}

/// The response to `/usual`.
fn usual(keep_alive: bool, head_only: bool) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    // RFC 9110, section 5.6.7.
    let date = jiff::Timestamp::from_second(now()).unwrap_or_default();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT");
    let mut out = Vec::new();
    let more = format!("Server: rxlab\r\nDate: {date}\r\nConnection: {connection}\r\n");
    write_text(("200 OK", HELLO), &more, head_only, &mut out);
    out
}

/// Seconds since 1970, for the Date header.
fn now() -> i64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec
}

/// Appends the response to an invalid request; the connection closes after it.
pub(super) fn refuse(status: u16, out: &mut Vec<u8>) {
    write_answer(status, "Connection: close\r\n", false, out);
}

fn write_answer(status: u16, connection: &str, head_only: bool, out: &mut Vec<u8>) {
    let (reason, body) = match status {
        200 => ("OK", HELLO),
        400 => (
            "Bad Request",
            "bad request; there are /compute with us=0 to us=1000000, /delay with us=0 to us=60000000,\n\
             and /bytes with n=0 to n=1073741824\n",
        ),
        404 => ("Not Found", "not found; try /simple, /compute?us=100, /delay?us=100 or /bytes?n=1000\n"),
        405 => ("Method Not Allowed", "only GET and HEAD are allowed\n"),
        413 => ("Content Too Large", "request body is too long\n"),
        431 => ("Request Header Fields Too Large", "request head is too long\n"),
        _ => ("Not Implemented", "transfer codings in requests are not supported\n"),
    };
    let allow = if status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
    write_text((&format!("{status} {reason}"), body), &format!("{allow}{connection}"), head_only, out);
}

/// Appends a text response; `more` are further header lines.
fn write_text((status, body): (&str, &str), more: &str, head_only: bool, out: &mut Vec<u8>) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n{more}\r\n",
        body.len()
    );
    out.extend_from_slice(head.as_bytes());
    if !head_only {
        out.extend_from_slice(body.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Parsed, Request, SIMPLE, answer, parse};

    fn request(text: &str) -> Request {
        match parse(text.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn the_usual_response_has_what_servers_send() {
        let mut out = Vec::new();
        assert_eq!(answer(&request("GET /usual HTTP/1.1\r\n\r\n"), &mut out), 200);
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.len(), 155, "{text}");
        let date = text.lines().find_map(|line| line.strip_prefix("Date: ")).expect("a date");
        jiff::fmt::rfc2822::parse(date).expect("an HTTP date");
        assert!(text.ends_with("Connection: keep-alive\r\n\r\nHello, world!\n"), "{text}");
    }

    #[test]
    fn connections_stay_open_as_the_version_says() {
        let keep = |text: &str| request(text).keep_alive;
        assert!(keep("GET /simple HTTP/1.1\r\n\r\n"));
        assert!(!keep("GET /simple HTTP/1.1\r\nconnection: foo, Close\r\n\r\n"));
        assert!(!keep("GET /simple HTTP/1.0\r\n\r\n"));
        assert!(keep("GET /simple HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    #[test]
    fn limits_and_nonsense_get_a_status() {
        let head = |line: &str| parse(format!("{line}\r\n\r\n").as_bytes());
        assert_eq!(head("GET /simple HTTP/1.1\r\nContent-Length: 1048577"), Parsed::Bad(413));
        assert_eq!(head("GET /simple HTTP/1.1\r\nContent-Length: 1x"), Parsed::Bad(400));
        assert_eq!(head("GET /simple HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2"), Parsed::Bad(400));
        assert_eq!(head("GET /simple HTTP/1.1\r\nTransfer-Encoding: chunked"), Parsed::Bad(501));
        assert_eq!(parse(b"\x16\x03\x01\x02"), Parsed::Bad(400));
        let long = format!("GET /simple HTTP/1.1\r\nx: {}", "y".repeat(20_000));
        assert_eq!(parse(long.as_bytes()), Parsed::Bad(431));
        let many = format!("GET /simple HTTP/1.1\r\n{}", "x: y\r\n".repeat(65));
        assert_eq!(parse(many.as_bytes()), Parsed::Bad(431));
        assert_eq!(parse(b"GET /simple HT"), Parsed::Partial);
    }

    #[test]
    fn the_prepared_answer_is_the_general_one() {
        let mut general = Vec::new();
        super::write_answer(200, "", false, &mut general);
        assert_eq!(general, SIMPLE);
        let mut out = Vec::new();
        assert_eq!(answer(&request("GET /x HTTP/1.1\r\n\r\n"), &mut out), 404);
        assert!(out.starts_with(b"HTTP/1.1 404 Not Found\r\n"));
        let mut out = Vec::new();
        assert_eq!(answer(&request("GET / HTTP/1.1\r\n\r\n"), &mut out), 200);
        let text = String::from_utf8(out).expect("text");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("\n/compute?us=N "), "{text}");
    }

    proptest! {
        #[test]
        fn a_judgement_does_not_depend_on_what_follows(
            head in "(GET|HEAD|POST|\\PC) /[a-z]{0,8}(\\?us=[0-9]{1,3})? HTTP/1\\.[012]\r\n(([A-Z]|Content-Length|Connection): ?[0-9a-z]{0,3}\r\n){0,3}(\r\n)?|\\PC{0,20}",
            rest in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let more = [head.as_bytes(), &rest].concat();
            match parse(head.as_bytes()) {
                Parsed::Partial => {}
                judged => prop_assert_eq!(parse(&more), judged),
            }
        }

        #[test]
        fn a_request_cut_anywhere_is_partial(cut in 0usize..40) {
            let text = b"GET /compute?us=5 HTTP/1.1\r\nHost: a.b\r\n\r\n";
            prop_assert_eq!(parse(&text[..cut]), Parsed::Partial);
        }
    }
}
