//! HTTP/1.x answers from bytes, however they are cut into reads.
//!
//! Bodies are measured and skipped, never kept. Nothing here knows about sockets or requests,
//! except whether they were HEAD.

use super::body::{Check, Verdict};
use super::head::{Body, read_head};
use crate::load::error_class::ErrorClass;
use crate::load::status::Statuses;

/// Longest status line plus headers.
const MAX_HEAD: usize = 64 * 1024;
/// Longest chunk extension or trailer section.
const MAX_EXTRA: usize = 16 * 1024;

/// A whole answer went by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// The connection ends behind it.
    pub(super) last: bool,
    /// What is wrong with it, when it is not what was expected.
    pub(super) error: Option<ErrorClass>,
}

/// The bytes are no HTTP/1.x answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The stream ended in the middle of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Truncated;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// Body bytes left.
    Sized(u64),
    /// In the digits of a chunk size.
    ChunkSize {
        size: u64,
        digits: u8,
    },
    /// Behind the digits, up to the end of the line; `length` bytes so far.
    ChunkExtension {
        size: u64,
        length: usize,
    },
    ChunkData(u64),
    /// The line end behind a chunk.
    ChunkEnd {
        carriage_return: bool,
    },
    /// Trailer lines up to an empty one: bytes of this line without its line end, bytes in all.
    Trailer {
        line: usize,
        length: usize,
    },
    UntilClose,
    /// The last answer went by, or nothing more can be understood.
    Over,
}

#[derive(Debug)]
pub(super) struct Parser {
    state: State,
    response: Response,
    /// The start of a head whose end has not come yet.
    head: Vec<u8>,
    /// Bytes of its current line, and whether the first of them is a carriage return.
    line: usize,
    line_return: bool,
    /// Answers to HEAD: whatever the head says, no body follows.
    bodyless: bool,
    /// What is expected of answers.
    good: Statuses,
    check: Check,
}

impl Parser {
    /// `bodyless`: the answers are to HEAD. Those with a `good` status and a body that `check` finds right
    /// have no error.
    pub(super) fn new(bodyless: bool, good: Statuses, check: Check) -> Self {
        let response = Response { status: 0, last: false, error: None };
        let (state, head) = (State::Head, Vec::new());
        Self { state, response, head, line: 0, line_return: false, bodyless, good, check }
    }

    /// Begins another stream.
    pub(super) fn reset(&mut self) {
        self.head.clear();
        (self.state, self.line, self.line_return) = (State::Head, 0, false);
    }

    /// Whether the next byte is the first of an answer.
    pub(super) fn at_start(&self) -> bool {
        self.state == State::Head && self.head.is_empty()
    }

    /// Takes bytes off the front of `input` until an answer is whole, or the input is used up
    /// (`None`). After an error, and after the last answer, the rest is swallowed.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Response>, Malformed> {
        let result = self.step(input);
        if result.is_err() {
            self.state = State::Over;
            *input = &[];
        }
        result
    }

    /// The stream has ended. An answer without a length ends with it.
    pub(super) fn finish(&mut self) -> Result<Option<Response>, Truncated> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::UntilClose => {
                self.judge();
                Ok(Some(self.response))
            }
            State::Over => Ok(None),
            State::Head if self.head.is_empty() => Ok(None),
            _ => Err(Truncated),
        }
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Response>, Malformed> {
        loop {
            let Some(&first) = input.first() else { return Ok(None) };
            match self.state {
                State::Head => {
                    let Some(next) = self.head(input)? else { return Ok(None) };
                    self.state = next;
                    if next == State::Sized(0) {
                        return Ok(Some(self.complete()));
                    }
                }
                State::Sized(left) => match self.body(input, left) {
                    0 => return Ok(Some(self.complete())),
                    left => self.state = State::Sized(left),
                },
                State::ChunkSize { size, digits } => {
                    *input = &input[1..];
                    self.state = match (first, char::from(first).to_digit(16)) {
                        (_, Some(digit)) if digits < 16 => {
                            State::ChunkSize { size: size << 4 | u64::from(digit), digits: digits + 1 }
                        }
                        (b'\n', _) if digits > 0 => chunk(size),
                        (b'\r' | b';' | b' ' | b'\t', _) if digits > 0 => {
                            State::ChunkExtension { size, length: 0 }
                        }
                        _ => return Err(Malformed),
                    };
                }
                State::ChunkExtension { size, length } => {
                    *input = &input[1..];
                    self.state = match first {
                        b'\n' => chunk(size),
                        _ if length < MAX_EXTRA => State::ChunkExtension { size, length: length + 1 },
                        _ => return Err(Malformed),
                    };
                }
                State::ChunkData(left) => {
                    self.state = match self.body(input, left) {
                        0 => State::ChunkEnd { carriage_return: false },
                        left => State::ChunkData(left),
                    };
                }
                State::ChunkEnd { carriage_return } => {
                    *input = &input[1..];
                    self.state = match (first, carriage_return) {
                        (b'\r', false) => State::ChunkEnd { carriage_return: true },
                        (b'\n', _) => State::ChunkSize { size: 0, digits: 0 },
                        _ => return Err(Malformed),
                    };
                }
                State::Trailer { line, length } => {
                    *input = &input[1..];
                    self.state = match first {
                        b'\n' if line == 0 => return Ok(Some(self.complete())),
                        _ if length >= MAX_EXTRA => return Err(Malformed),
                        b'\n' => State::Trailer { line: 0, length: length + 1 },
                        b'\r' => State::Trailer { line, length: length + 1 },
                        _ => State::Trailer { line: line + 1, length: length + 1 },
                    };
                }
                State::UntilClose => {
                    self.body(input, u64::MAX);
                }
                State::Over => *input = &[],
            }
        }
    }

    /// Says what is wrong with the answer that is whole now.
    fn judge(&mut self) {
        self.response.error = match self.response.status {
            status if self.good.has(status) => match self.check.verdict() {
                Verdict::Right => None,
                Verdict::Wrong => Some(ErrorClass::Body),
                Verdict::Refused => Some(ErrorClass::TrackerError),
            },
            ..300 => Some(ErrorClass::Status2xx),
            300..400 => Some(ErrorClass::Status3xx),
            400..500 => Some(ErrorClass::Status4xx),
            _ => Some(ErrorClass::Status5xx),
        };
    }

    fn complete(&mut self) -> Response {
        self.judge();
        self.state = if self.response.last { State::Over } else { State::Head };
        self.response
    }

    /// Collects a head and reads it; gives the state behind it, `None` when its end is missing.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<State>, Malformed> {
        let end = self.find_end(input);
        let part = end.unwrap_or(input.len());
        if self.head.len() + part > MAX_HEAD {
            return Err(Malformed);
        }
        // Garbage is told by its first bytes, not when the connection times out.
        let start = self.head.iter().chain(&input[..part]).take(7);
        if !start.eq(b"HTTP/1.".iter().take(self.head.len() + part)) {
            return Err(Malformed);
        }
        if end.is_none() || !self.head.is_empty() {
            self.head.extend_from_slice(&input[..part]);
        }
        let fresh = &input[..part];
        *input = &input[part..];
        if end.is_none() {
            return Ok(None);
        }
        let read = read_head(if self.head.is_empty() { fresh } else { &self.head });
        // Keeps its room: an answer that comes in two reads needs no allocation.
        self.head.clear();
        let (response, body) = read?;
        self.response = response;
        self.check.begin();
        Ok(Some(match body {
            // Interim answers announce the real one.
            _ if response.status < 200 => State::Head,
            _ if self.bodyless => State::Sized(0),
            Body::Sized(length) => State::Sized(length),
            Body::Chunked => State::ChunkSize { size: 0, digits: 0 },
            Body::UntilClose => State::UntilClose,
        }))
    }

    /// Takes up to `left` bytes of the body off `input`; gives how many are still to come.
    fn body(&mut self, input: &mut &[u8], left: u64) -> u64 {
        let taken = left.min(input.len() as u64);
        let (bytes, rest) = input.split_at(taken as usize);
        self.check.feed(bytes);
        *input = rest;
        left - taken
    }

    /// Where the head ends in `input`: behind the first empty line.
    fn find_end(&mut self, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(length) = input[at..].iter().position(|b| *b == b'\n') {
            self.grow_line(&input[at..at + length]);
            at += length + 1;
            let empty = self.line == usize::from(self.line_return);
            (self.line, self.line_return) = (0, false);
            if empty {
                return Some(at);
            }
        }
        self.grow_line(&input[at..]);
        None
    }

    fn grow_line(&mut self, piece: &[u8]) {
        self.line_return |= self.line == 0 && piece.first() == Some(&b'\r');
        self.line += piece.len();
    }
}

fn chunk(size: u64) -> State {
    if size == 0 { State::Trailer { line: 0, length: 0 } } else { State::ChunkData(size) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};

    use super::{Check, ErrorClass, Malformed, Parser, Response, Statuses, Truncated};

    /// Everything that a stream says, in order: the answers, then how it ended.
    type Story = (Vec<Response>, Result<Option<Response>, &'static str>);

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Story {
        let (mut parser, mut seen) = (any(false), Vec::new());
        for mut piece in pieces {
            loop {
                match parser.next(&mut piece) {
                    Ok(Some(response)) => seen.push(response),
                    Ok(None) => break,
                    Err(Malformed) => return (seen, Err("malformed")),
                }
            }
            assert!(piece.is_empty());
        }
        (seen, parser.finish().map_err(|Truncated| "truncated"))
    }

    fn any(bodyless: bool) -> Parser {
        Parser::new(bodyless, Statuses::default(), Check::Any)
    }

    fn ok(last: bool) -> Response {
        Response { status: 200, last, error: None }
    }

    fn whole(text: &str) -> Story {
        read([text.as_bytes()])
    }

    #[test]
    fn answers_with_a_length() {
        let one = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(whole(&one.repeat(3)), (vec![ok(false); 3], Ok(None)));
        assert_eq!(whole("HTTP/1.1 204 No\r\n\r\n").0[0].status, 204);
        assert_eq!(whole("HTTP/1.1 200 OK\ncontent-length:0\n\n"), (vec![ok(false)], Ok(None)));
        assert_eq!(whole(&one[..one.len() - 1]), (vec![], Err("truncated")));
        assert_eq!(whole("HTTP/1.1 2"), (vec![], Err("truncated")));
    }

    #[test]
    fn chunked_answers() {
        let one = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(whole(&one.repeat(2)), (vec![ok(false); 2], Ok(None)));
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for bad in ["\r\n", "x\r\n", "5\r\nhelloX", "11111111111111111\r\n", "5hello"] {
            assert_eq!(whole(&format!("{head}{bad}")), (vec![], Err("malformed")), "{bad:?}");
        }
    }

    #[test]
    fn answers_are_judged_by_status_and_body() {
        let mut parser = Parser::new(
            false,
            "2xx,404".parse().expect("statuses"),
            Check::exact(b"hello".as_slice().into()),
        );
        let mut errors = Vec::new();
        for (status, rest) in [
            (200, "Content-Length: 5\r\n\r\nhello"),
            (200, "Content-Length: 5\r\n\r\nhellO"),
            (404, "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
            (204, "\r\n"),
            (301, "Content-Length: 5\r\n\r\nhello"),
            (200, "\r\nhello"),
        ] {
            let text = format!("HTTP/1.1 {status} x\r\n{rest}");
            for mut piece in text.as_bytes().chunks(7) {
                errors.extend(parser.next(&mut piece).expect("well formed").map(|response| response.error));
            }
        }
        errors.extend(parser.finish().expect("whole").map(|response| response.error));
        let (body, moved) = (Some(ErrorClass::Body), Some(ErrorClass::Status3xx));
        assert_eq!(errors, [None, body, None, body, moved, None]);
    }

    #[test]
    fn the_end_of_the_connection() {
        assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\nsome body"), (vec![], Ok(Some(ok(true)))));
        let close = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n";
        assert_eq!(whole(&close.repeat(2)), (vec![ok(true)], Ok(None)));
        assert_eq!(whole("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").0, [ok(true)]);
        let kept = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(whole(kept).0, [ok(false)]);
    }

    #[test]
    fn answers_to_head_have_no_body() {
        let mut parser = any(true);
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\
                    HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut input = text.as_bytes();
        assert_eq!(parser.next(&mut input), Ok(Some(ok(false))));
        assert_eq!(parser.next(&mut input), Ok(Some(ok(false))));
        assert!(input.is_empty());
    }

    #[test]
    fn interim_answers_are_passed_over() {
        let text = "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(whole(text), (vec![ok(false)], Ok(None)));
    }

    #[test]
    fn lies_and_garbage() {
        let head = |lines: &str| whole(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"));
        for bad in [
            "Content-Length: -1",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 99999999999999999999",
            "Content-Length:",
            "Transfer-Encoding: gzip",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "no colon",
        ] {
            assert_eq!(head(bad), (vec![], Err("malformed")), "{bad:?}");
        }
        for bad in
            ["SSH-2.0", "\r\n", "HTTP/2 200", "HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 999 x\r\n\r\n"]
        {
            assert_eq!(whole(bad), (vec![], Err("malformed")), "{bad:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(70_000));
        assert_eq!(whole(&endless), (vec![], Err("malformed")));
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            4 => Just(&b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..]),
            4 => Just(&b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"[..]),
            1 => Just(&b"HTTP/1.1 100 Continue\r\n\r\n"[..]),
            1 => Just(&b"HTTP/1.1 204 None\n\n"[..]),
            1 => Just(&b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxx"[..]),
            1 => Just(&b"HTTP/1.1 200 OK\r\n\r\nuntil the end"[..]),
            1 => Just(&b"HT"[..]),
            1 => Just(&b"\r\r\n\n"[..]),
        ];
        proptest::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn cuts_between_reads_change_nothing(stream in stream(), cuts in proptest::collection::vec(1usize..20, 0..60)) {
            let mut pieces = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = behind;
            }
            pieces.push(rest);
            prop_assert_eq!(read(pieces), read([&stream[..]]));
            prop_assert_eq!(read(stream.chunks(1)), read([&stream[..]]));
        }

        #[test]
        fn a_changed_byte_never_panics(stream in stream(), at in proptest::num::usize::ANY, byte in proptest::num::u8::ANY) {
            let mut stream = stream;
            if !stream.is_empty() {
                let at = at % stream.len();
                stream[at] = byte;
            }
            prop_assert_eq!(read(stream.chunks(3)), read([&stream[..]]));
        }

        #[test]
        fn any_bytes_end_somehow(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            prop_assert_eq!(read(bytes.chunks(1)), read([&bytes[..]]));
        }
    }
}
