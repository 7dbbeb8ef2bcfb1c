//! One connection: its socket, the requests outstanding on it, and what is still to be written.
//!
//! What to send and when is for the engine to say.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, Socket, Type};

use super::response::{Malformed, Parser, Response, Truncated};
use crate::load::clock::{MILLISECOND, Nanos};
use crate::load::interval::{ErrorClass, Tally};
use crate::load::poller::Poller;

/// First wait before a connection is opened again; doubles with every failure in a row.
const FIRST_BACKOFF: Nanos = 5 * MILLISECOND;
const LAST_BACKOFF: Nanos = 320 * MILLISECOND;

/// A request on its way.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    /// Latency counts from here: the send, or the intended send.
    from: Nanos,
    /// The timeout counts from here.
    sent: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed { retry_at: Nanos },
    Connecting { since: Nanos },
    Open,
}

pub(super) struct Connection {
    pub(super) phase: Phase,
    /// In the engine's queue of connections with room for a request.
    pub(super) queued: bool,
    /// Since when there is room for a request; `None` when there is none, or no connection.
    pub(super) free_since: Option<Nanos>,
    socket: Option<Socket>,
    parser: Parser,
    outstanding: VecDeque<Outstanding>,
    /// Bytes of the outstanding requests still to be written.
    unwritten: usize,
    /// Where in a request the next byte is.
    offset: usize,
    backoff: Nanos,
}

/// Requests back to back, so that a batch is one write.
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    /// Length of one request.
    pub(super) request: usize,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Closed { retry_at: 0 },
            queued: false,
            free_since: None,
            socket: None,
            parser: Parser::new(),
            outstanding: VecDeque::new(),
            unwritten: 0,
            offset: 0,
            backoff: 0,
        }
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Begins to connect. An error is that of this attempt; the connection is closed then.
    pub(super) fn open(
        &mut self,
        poller: &Poller,
        index: usize,
        address: SocketAddr,
        now: Nanos,
    ) -> std::io::Result<()> {
        let begin = || -> std::io::Result<Socket> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            match socket.connect(&address.into()) {
                Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => {
                    return Err(error);
                }
                _ => {}
            }
            // Registered once; an edge that came before is reported now.
            poller.add(
                &socket,
                index,
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
            )?;
            Ok(socket)
        };
        match begin() {
            Ok(socket) => {
                self.socket = Some(socket);
                self.phase = Phase::Connecting { since: now };
                Ok(())
            }
            Err(error) => {
                self.back_off(now);
                Err(error)
            }
        }
    }

    /// Ends connecting: the error of the attempt, if there was one.
    pub(super) fn connected(&mut self, now: Nanos) -> std::io::Result<()> {
        let error = match &self.socket {
            Some(socket) => socket.take_error().unwrap_or_else(Some),
            None => None,
        };
        match error {
            None => {
                self.phase = Phase::Open;
                Ok(())
            }
            Some(error) => {
                self.back_off(now);
                Err(error)
            }
        }
    }

    /// Adds requests to be written; their latency counts from `from`.
    pub(super) fn request(&mut self, count: usize, from: Nanos, now: Nanos, block: &Block) {
        self.outstanding.extend(std::iter::repeat_n(Outstanding { from, sent: now }, count));
        self.unwritten += count * block.request;
    }

    /// Writes as much as the socket takes; the rest follows when it is writable again.
    pub(super) fn flush(&mut self, block: &Block) -> Result<(), ErrorClass> {
        let Some(socket) = &self.socket else { return Ok(()) };
        while self.unwritten > 0 {
            let length = self.unwritten.min(block.bytes.len() - self.offset);
            match send(socket, &block.bytes[self.offset..self.offset + length], SendFlags::NOSIGNAL) {
                Ok(written) => {
                    self.unwritten -= written;
                    self.offset = (self.offset + written) % block.request;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return Err(ErrorClass::Reset),
            }
        }
        Ok(())
    }

    /// Reads once into `buffer`. `Ok(0)` is the end of the stream.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match &self.socket {
            Some(socket) => {
                rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty()).map(|(n, _)| n)
            }
            None => Err(Errno::AGAIN),
        }
    }

    /// Counts the answers in `input`, which was there at `now`.
    pub(super) fn answers(
        &mut self,
        mut input: &[u8],
        now: Nanos,
        tally: &mut Tally,
    ) -> Result<(), ErrorClass> {
        loop {
            match self.parser.next(&mut input) {
                Ok(Some(response)) => self.answer(response, now, tally)?,
                Ok(None) => return Ok(()),
                Err(Malformed) => return Err(ErrorClass::Garbage),
            }
        }
    }

    /// The stream has ended: counts an answer that ends with it, and says what became of the rest.
    pub(super) fn end(&mut self, now: Nanos, tally: &mut Tally) -> ErrorClass {
        match self.parser.finish() {
            Ok(None) => ErrorClass::Closed,
            Ok(Some(response)) => self.answer(response, now, tally).err().unwrap_or(ErrorClass::Closed),
            Err(Truncated) => ErrorClass::Truncated,
        }
    }

    fn answer(&mut self, response: Response, now: Nanos, tally: &mut Tally) -> Result<(), ErrorClass> {
        let Some(request) = self.outstanding.pop_front() else { return Err(ErrorClass::Unexpected) };
        match response.status {
            200..300 => tally.complete(now.saturating_sub(request.from)),
            300..400 => tally.error(ErrorClass::Status3xx, 1),
            400..500 => tally.error(ErrorClass::Status4xx, 1),
            _ => tally.error(ErrorClass::Status5xx, 1),
        }
        // It answers: the next failure is the first in a row.
        self.backoff = 0;
        // Requests behind the last answer are never answered.
        if response.last { Err(ErrorClass::Closed) } else { Ok(()) }
    }

    /// Whether the oldest request, or the attempt to connect, is older than `timeout`.
    pub(super) fn timed_out(&self, now: Nanos, timeout: Nanos) -> bool {
        let since = match self.phase {
            Phase::Closed { .. } => return false,
            Phase::Connecting { since } => Some(since),
            Phase::Open => self.outstanding.front().map(|request| request.sent),
        };
        since.is_some_and(|since| now.saturating_sub(since) > timeout)
    }

    /// Gives the connection up. What made it fail (`class`) is counted for the request it happened
    /// to: the oldest, when it concerns a single answer, else all outstanding ones.
    pub(super) fn fail(&mut self, class: ErrorClass, now: Nanos, tally: &mut Tally) {
        match (class, self.outstanding.len()) {
            (ErrorClass::Connect | ErrorClass::Unexpected, others) => {
                tally.error(class, 1);
                tally.error(ErrorClass::Closed, others);
            }
            (_, 0) => {}
            (ErrorClass::Garbage | ErrorClass::Truncated, count) => {
                tally.error(class, 1);
                tally.error(ErrorClass::Closed, count - 1);
            }
            (_, count) => tally.error(class, count),
        }
        self.back_off(now);
    }

    /// Closes the socket; after a connection that answered, the next may be opened at once.
    fn back_off(&mut self, now: Nanos) {
        self.socket = None;
        self.parser = Parser::new();
        self.outstanding.clear();
        self.free_since = None;
        (self.unwritten, self.offset) = (0, 0);
        self.phase = Phase::Closed { retry_at: now + self.backoff };
        self.backoff = (self.backoff * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
    }
}
