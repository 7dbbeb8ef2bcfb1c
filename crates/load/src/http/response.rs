//! Parser for HTTP/1.x responses, however they are split into reads.
//!
//! Bodies are measured and skipped, never kept. The parser knows nothing about sockets or requests,
//! except whether they were HEAD.

use memchr::memchr;

use super::body::Check;
use super::head::{Body, fault_at, read_head};
use crate::error_class::ErrorClass;
use crate::reasons::{Failure, shown};
use crate::status::Statuses;

/// Longest status line plus fields, as curl has it.
const MAX_HEAD: usize = 300 * 1024;
/// Longest chunk extension or trailer section.
const MAX_EXTRA: usize = 16 * 1024;

/// A response, complete with its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// The connection ends after it.
    pub(super) last: bool,
    /// Error class, if it is not as expected.
    pub(super) error: Option<ErrorClass>,
}

/// The bytes are not an HTTP/1.x response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The stream ended within a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Truncated;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// Bytes of the body still to come.
    Sized(u64),
    /// In the digits of a chunk size.
    ChunkSize {
        size: u64,
        digits: u8,
    },
    /// After the digits, up to the end of the line; `length` bytes so far.
    ChunkExtension {
        size: u64,
        length: usize,
    },
    ChunkData(u64),
    /// The line end after a chunk.
    ChunkEnd {
        carriage_return: bool,
    },
    /// Trailer lines up to an empty one: bytes of this line without its line end, bytes in all.
    Trailer {
        line: usize,
        length: usize,
    },
    UntilClose,
    /// After the last response or a parse error.
    Over,
}

#[derive(Debug)]
pub(super) struct Parser {
    state: State,
    response: Response,
    /// The start of a head whose end has not arrived yet.
    head: Vec<u8>,
    /// Length of its current line, and whether it starts with a carriage return.
    line: usize,
    line_return: bool,
    /// Responses to HEAD: whatever the head says, no body follows.
    bodyless: bool,
    /// Statuses that count as success.
    good: Statuses,
    check: Check,
    /// Bytes of this response in earlier reads.
    read: u64,
    /// Why the last response is not as expected, or what is wrong with its bytes.
    reason: Option<String>,
}

impl Parser {
    /// `bodyless`: the responses are to HEAD. Those with a `good` status and a body that passes `check` have
    /// no error.
    pub(super) fn new(bodyless: bool, good: Statuses, check: Check) -> Self {
        let (state, response, head) = (State::Head, Response::default(), Vec::new());
        Self {
            state,
            response,
            head,
            line: 0,
            line_return: false,
            bodyless,
            good,
            check,
            read: 0,
            reason: None,
        }
    }

    /// Starts another stream; an unfinished response is dropped.
    pub(super) fn reset(&mut self) {
        self.head.clear();
        (self.state, self.line, self.line_return, self.read) = (State::Head, 0, false, 0);
    }

    /// True if the next byte is the first of a response.
    pub(super) fn at_start(&self) -> bool {
        self.state == State::Head && self.head.is_empty()
    }

    /// Takes bytes off the front of `input` until a response is complete, or the input is used up (`None`).
    /// After an error and after the last response the rest is swallowed.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<Response>, Malformed> {
        let before = *input;
        match self.step(input) {
            Ok(response) => {
                let taken = (before.len() - input.len()) as u64;
                self.read = if response.is_some() { 0 } else { self.read + taken };
                Ok(response)
            }
            Err(why) => {
                self.fault(why, before, input);
                self.state = State::Over;
                *input = &[];
                Err(Malformed)
            }
        }
    }

    /// Why the last response is not as expected, or what is wrong with its bytes; `None` if its status says it.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.clone()
    }

    /// The reason of a response recognized as one that was read before.
    pub(super) fn set_reason(&mut self, reason: &Option<String>) {
        self.reason.clone_from(reason);
    }

    /// What has arrived of a response that is not complete; `None` without any of it.
    pub(super) fn partial(&self) -> Option<String> {
        self.place(self.state)
    }

    fn place(&self, state: State) -> Option<String> {
        match state {
            State::Head if self.head.is_empty() => None,
            State::Head => Some("within the head".to_owned()),
            State::Sized(_) => Some("within the body, before its announced length".to_owned()),
            State::UntilClose => {
                Some("within a body without a length, before the end of the stream".to_owned())
            }
            State::Over => None,
            _ => Some("within a chunked body".to_owned()),
        }
    }

    /// Keeps what is wrong with the response in `before`, of which `rest` is not taken yet: where, and how it begins.
    fn fault(&mut self, why: &str, before: &[u8], rest: &[u8]) {
        let taken = before.len() - rest.len();
        let (at, begin) = match self.state {
            // A head is kept until it is complete.
            State::Head => {
                let mut head = std::mem::take(&mut self.head);
                head.extend_from_slice(rest);
                (fault_at(&head) as u64, shown(&head))
            }
            // Elsewhere the faulty byte was taken.
            _ => {
                let last = taken.saturating_sub(1);
                (self.read + last as u64, shown(&before[last..]))
            }
        };
        let whose = if self.state == State::Head { "it begins" } else { "there is" };
        self.reason = Some(format!("{why} at byte {at}; {whose} `{begin}`"));
    }

    /// The stream has ended. A response without a length ends with it.
    pub(super) fn finish(&mut self) -> Result<Option<Response>, Truncated> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::UntilClose => {
                self.judge();
                Ok(Some(self.response))
            }
            State::Over => Ok(None),
            State::Head if self.head.is_empty() => Ok(None),
            state => {
                self.reason = self.place(state);
                Err(Truncated)
            }
        }
    }

    fn step(&mut self, input: &mut &[u8]) -> Result<Option<Response>, &'static str> {
        loop {
            let Some(&first) = input.first() else { return Ok(None) };
            match self.state {
                // A line end that a server writes behind a body is none of the next head.
                State::Head if self.head.is_empty() && matches!(first, b'\r' | b'\n') => *input = &input[1..],
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
                        _ => return Err("invalid chunk size"),
                    };
                }
                State::ChunkExtension { size, length } => {
                    *input = &input[1..];
                    self.state = match first {
                        b'\n' => chunk(size),
                        _ if length < MAX_EXTRA => State::ChunkExtension { size, length: length + 1 },
                        _ => return Err("chunk extension above 16 KiB"),
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
                        _ => return Err("no line end after a chunk"),
                    };
                }
                State::Trailer { line, length } => {
                    *input = &input[1..];
                    self.state = match first {
                        b'\n' if line == 0 => return Ok(Some(self.complete())),
                        _ if length >= MAX_EXTRA => return Err("trailer above 16 KiB"),
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

    /// Sets the error of the now complete response.
    fn judge(&mut self) {
        let failure = judge(self.response.status, &self.good, &self.check);
        self.response.error = failure.as_ref().map(|failure| failure.class);
        self.reason = failure.and_then(|failure| failure.reason);
    }

    fn complete(&mut self) -> Response {
        self.judge();
        self.state = if self.response.last { State::Over } else { State::Head };
        self.response
    }

    /// Collects a head and reads it; returns the state after it, `None` while its end is missing.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<State>, &'static str> {
        let end = self.find_end(input);
        let part = end.unwrap_or(input.len());
        if self.head.len() + part > MAX_HEAD {
            return Err("head above 300 KiB");
        }
        // Detect garbage by its first bytes, not when the connection times out.
        let start = self.head.iter().chain(&input[..part]).take(5);
        if !start.eq(b"HTTP/".iter().take(self.head.len() + part)) {
            let begin: Vec<u8> = self.head.iter().chain(&input[..part]).take(5).copied().collect();
            return Err(match begin[..] {
                // An alert or a handshake of version 3.
                [0x15 | 0x16, 3, ..] => "TLS instead of HTTP (https://)",
                // The length, type and flags of a SETTINGS frame.
                [0, _, _, 4, 0] => "HTTP/2 instead of HTTP/1.1 (--http2)",
                _ => "not an HTTP response",
            });
        }
        if end.is_none() || !self.head.is_empty() {
            self.head.extend_from_slice(&input[..part]);
        }
        let whole = *input;
        let fresh = &input[..part];
        *input = &input[part..];
        if end.is_none() {
            return Ok(None);
        }
        let read = read_head(if self.head.is_empty() { fresh } else { &self.head }, self.bodyless);
        let (response, body) = match read {
            Ok(read) => read,
            Err(why) => {
                // `fault` adds the rest from the input.
                *input = whole;
                self.head.truncate(self.head.len().saturating_sub(part));
                return Err(why);
            }
        };
        // Keeps its capacity: a response that arrives in two reads needs no allocation.
        self.head.clear();
        self.response = response;
        self.check.begin();
        Ok(Some(match body {
            Body::Interim => State::Head,
            Body::Sized(length) => State::Sized(length),
            Body::Chunked => State::ChunkSize { size: 0, digits: 0 },
            Body::UntilClose => State::UntilClose,
        }))
    }

    /// Takes up to `left` bytes of the body off `input`; returns how many are missing.
    fn body(&mut self, input: &mut &[u8], left: u64) -> u64 {
        let taken = left.min(input.len() as u64);
        let (bytes, rest) = input.split_at(taken as usize);
        self.check.feed(bytes);
        *input = rest;
        left - taken
    }

    /// End of the head in `input`: after the first empty line.
    fn find_end(&mut self, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(length) = memchr(b'\n', &input[at..]) {
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

/// Why a complete response is not as expected, if its status is not `good` or its body another.
pub(super) fn judge(status: u16, good: &Statuses, check: &Check) -> Option<Failure> {
    let class = match status {
        status if good.has(status) => return check.failure(),
        200..300 => ErrorClass::Status2xx,
        300..400 => ErrorClass::Status3xx,
        400..500 => ErrorClass::Status4xx,
        _ => ErrorClass::Status5xx,
    };
    Some(class.into())
}

fn chunk(size: u64) -> State {
    if size == 0 { State::Trailer { line: 0, length: 0 } } else { State::ChunkData(size) }
}

#[cfg(test)]
mod tests;
