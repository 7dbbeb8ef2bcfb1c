//! One connection: its socket, the requests outstanding on it, and the bytes still to be written.
//!
//! The engine decides what to send and when.

use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::Socket;

use super::block::Block;
use super::outgoing::Outgoing;
use super::peer::Peer;
use super::reader::Learned;
use super::response::{Malformed, Parser, Response, Truncated};
use super::tls::{BROKEN, Tls};
use super::waiting::Waiting;
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::error_class::ErrorClass;
use crate::event::Event;
use crate::poller::Poller;
use crate::reasons::Failure;
use crate::spec::Spec;
use crate::tally::Tally;

/// First wait before a connection is reopened; doubles with each consecutive failure.
const FIRST_BACKOFF: Nanos = 5 * MILLISECOND;
const LAST_BACKOFF: Nanos = 320 * MILLISECOND;
/// First wait after the server closed a connection that no request was sent on; doubles each time until one carries a
/// second request, and so shows that it lasts.
const FIRST_IDLE: Nanos = 100 * MILLISECOND;
const LAST_IDLE: Nanos = 10 * SECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed {
        retry_at: Nanos,
        /// Closed by the server without a request outstanding: may be reopened before `retry_at` for a request that is due.
        idle_since: Option<Nanos>,
    },
    Connecting {
        since: Nanos,
    },
    /// With TLS: the socket is connected, the handshake is in progress.
    Greeting {
        since: Nanos,
    },
    Open,
}

impl Phase {
    /// Neither closed nor ready.
    pub(super) fn is_opening(self) -> bool {
        matches!(self, Phase::Connecting { .. } | Phase::Greeting { .. })
    }
}

/// A connection that the peer or the kernel broke off.
pub(super) fn broken_off(errno: Errno) -> Failure {
    Failure::new(ErrorClass::Reset, errno.to_string())
}

pub(super) struct Connection {
    pub(super) phase: Phase,
    /// In the engine's queue of connections with room for a request.
    pub(super) queued: bool,
    /// In the engine's queue of connections that were closed idle.
    pub(super) is_dormant: bool,
    /// Moment since which there is room for a request; `None` without room or connection.
    pub(super) free_since: Option<Nanos>,
    socket: Option<Socket>,
    /// The TLS layer; `None` without.
    tls: Option<Box<Tls>>,
    parser: Parser,
    number: usize,
    single: bool,
    waiting: Waiting,
    /// Bytes of the outstanding requests still to be written.
    outgoing: Outgoing,
    backoff: Nanos,
    /// Wait after an idle close.
    idle_wait: Nanos,
    /// Requests sent since it was opened.
    carried: usize,
}

impl Connection {
    /// Connection `number` of the session, closed; its first request is the block's request of that number.
    pub(super) fn new(number: usize, spec: &Spec, block: &Block) -> Self {
        Self {
            phase: Phase::Closed { retry_at: 0, idle_since: None },
            queued: false,
            is_dormant: false,
            free_since: None,
            socket: None,
            tls: None,
            parser: Parser::for_spec(spec),
            number,
            single: spec.is_single(),
            waiting: Waiting::default(),
            outgoing: Outgoing::new(number, block),
            backoff: 0,
            idle_wait: 0,
            carried: 0,
        }
    }

    /// From now on closing resets the connection, which leaves nothing in TIME_WAIT.
    pub(super) fn reset_at_close(&self) {
        if let Some(socket) = &self.socket {
            // Where that fails (a unix socket), there is no TIME_WAIT either.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }

    /// True if TLS resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_resumed())
    }

    pub(super) fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    /// Start of the latency of the outstanding requests, with their count.
    pub(super) fn outstanding_since(&self) -> impl Iterator<Item = (Nanos, usize)> {
        self.waiting.since()
    }

    /// Starts connecting. On an error this attempt has failed and the connection is closed.
    pub(super) fn open(
        &mut self,
        poller: &Poller,
        index: usize,
        peer: &Peer,
        block: &Block,
        now: Nanos,
    ) -> std::io::Result<()> {
        let begin = || -> std::io::Result<(Socket, Option<Box<Tls>>)> {
            let socket = peer.connect(self.number)?;
            // Registered once; an earlier edge is reported now.
            poller.add(
                &socket,
                index,
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
            )?;
            let tls = peer.tls.as_ref().map(|setup| Tls::new(setup).map(Box::new)).transpose()?;
            Ok((socket, tls))
        };
        match begin() {
            Ok((socket, tls)) => {
                (self.socket, self.tls, self.carried) = (Some(socket), tls, 0);
                self.phase = Phase::Connecting { since: now };
                Ok(())
            }
            Err(error) if peer.is_full(&error) => {
                // The listener is busy, not gone.
                self.phase = Phase::Closed { retry_at: now + FIRST_BACKOFF, idle_since: None };
                self.free_since = None;
                Err(error)
            }
            Err(error) => {
                self.close(now, block);
                Err(error)
            }
        }
    }

    /// Continues opening; returns true once the connection is open. On an error this attempt has failed and
    /// the connection is closed.
    pub(super) fn connected(
        &mut self,
        block: &Block,
        now: Nanos,
    ) -> Result<bool, (ErrorClass, std::io::Error)> {
        let since = match self.phase {
            Phase::Connecting { since } | Phase::Greeting { since } => since,
            Phase::Open | Phase::Closed { .. } => return Ok(self.phase == Phase::Open),
        };
        let Some(socket) = &mut self.socket else { return Ok(false) };
        if matches!(self.phase, Phase::Connecting { .. })
            && let Some(error) = socket.take_error().unwrap_or_else(Some)
        {
            self.close(now, block);
            return Err((ErrorClass::of_connect(&error), error));
        }
        match self.tls.as_mut().map_or(Ok(true), |tls| tls.greet(socket)) {
            Ok(true) => self.phase = Phase::Open,
            Ok(false) => self.phase = Phase::Greeting { since },
            Err(error) => {
                self.close(now, block);
                return Err((ErrorClass::Tls, error));
            }
        }
        Ok(self.phase == Phase::Open)
    }

    /// The connection was all that was asked for: the request is complete.
    pub(super) fn opened(&mut self, now: Nanos, block: &Block, tally: &mut Tally) {
        if let Some((from, taken)) = self.waiting.take(1) {
            tally.complete_all(taken, now.saturating_sub(from));
        }
        (self.backoff, tally.unreached) = (0, 0);
        self.close(now, block);
    }

    /// Adds requests to be written; their latency counts from `from`.
    pub(super) fn request(&mut self, count: usize, from: Nanos, now: Nanos, block: &Block) {
        self.carried = self.carried.saturating_add(count);
        self.waiting.push(count, from, now);
        self.outgoing.take(count, block);
    }

    /// Writes as much as the socket accepts; the rest follows when it is writable again.
    pub(super) fn flush(&mut self, block: &Block) -> Result<(), Failure> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        if let Some(tls) = &mut self.tls {
            return tls.flush(socket, &mut self.outgoing, block);
        }
        loop {
            let pending = self.outgoing.pending(block);
            if pending.is_empty() {
                break;
            }
            match send(&*socket, pending, SendFlags::NOSIGNAL) {
                Ok(written) => self.outgoing.written(written, block),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(broken_off(errno)),
            }
        }
        Ok(())
    }

    /// Reads once into `buffer`. `Ok(0)` is the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match (&mut self.socket, &mut self.tls) {
            (Some(socket), None) => {
                rustix::net::recv(&*socket, buffer, rustix::net::RecvFlags::empty()).map(|(n, _)| n)
            }
            (Some(socket), Some(tls)) => tls.read(socket, buffer),
            (None, _) => Err(Errno::AGAIN),
        }
    }

    /// Why a read failed with `errno`.
    pub(super) fn read_failure(&mut self, errno: Errno) -> Failure {
        match self.tls.as_mut().and_then(|tls| tls.violation.take()).filter(|_| errno == BROKEN) {
            Some(violation) => Failure::new(ErrorClass::Tls, violation),
            None => broken_off(errno),
        }
    }

    /// Counts the responses in `input`, read at `now`.
    pub(super) fn answers(
        &mut self,
        mut input: &[u8],
        learned: &mut Learned,
        now: Nanos,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        loop {
            match learned.next(&mut self.parser, &mut input) {
                Ok(Some((count, response))) => self.answer(count, response, now, tally)?,
                Ok(None) => return Ok(()),
                Err(Malformed) => {
                    return Err(Failure { class: ErrorClass::Garbage, reason: self.parser.reason() });
                }
            }
        }
    }

    /// The stream has ended: counts a response that ends with it, and returns the class of the rest.
    pub(super) fn end(&mut self, now: Nanos, tally: &mut Tally) -> Failure {
        let closed = || Failure::new(ErrorClass::Closed, "end of the stream");
        match self.parser.finish() {
            Ok(None) => closed(),
            Ok(Some(response)) => self.answer(1, response, now, tally).err().unwrap_or_else(closed),
            Err(Truncated) => Failure { class: ErrorClass::Truncated, reason: self.parser.reason() },
        }
    }

    /// Counts `count` > 0 identical responses.
    fn answer(
        &mut self,
        mut count: usize,
        response: Response,
        now: Nanos,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        while count > 0 {
            let Some((from, taken)) = self.waiting.take(count) else {
                tally.event(Event::Unsolicited);
                return Err(ErrorClass::Closed.into());
            };
            tally.status(response.status, taken as u64);
            match response.error {
                None => tally.complete_all(taken, now.saturating_sub(from)),
                Some(class) => tally.failed_for(Failure { class, reason: self.parser.reason() }, taken),
            }
            count -= taken;
        }
        // It responds, so the next failure is the first in a row.
        self.backoff = 0;
        tally.unreached = 0;
        if response.last {
            // Requests behind the last response are never answered.
            Err(ErrorClass::Discarded.into())
        } else if self.single {
            Err(ErrorClass::Closed.into())
        } else {
            Ok(())
        }
    }

    /// Start of the oldest request or of the connection attempt.
    pub(super) fn waits_since(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Closed { .. } => None,
            Phase::Connecting { since } | Phase::Greeting { since } => Some(since),
            Phase::Open => self.waiting.oldest(),
        }
    }

    /// Gives up the connection. The cause is counted for the requests it affects: the oldest if it
    /// concerns a single response, those that have waited longer than `timeout` for a timeout, else all
    /// outstanding ones.
    pub(super) fn fail(
        &mut self,
        failure: Failure,
        now: Nanos,
        timeout: Nanos,
        block: &Block,
        tally: &mut Tally,
    ) {
        let class = failure.class;
        match (class, self.waiting.len()) {
            (ErrorClass::Connect | ErrorClass::Tls, 0) => {
                tally.failed_for(failure, 1);
                tally.not_sent += 1;
            }
            (_, 0) => {}
            (ErrorClass::Garbage | ErrorClass::Truncated, count) => {
                tally.failed_for(failure, 1);
                let behind = "given up behind a response that was cut off or invalid";
                tally.failed_for(Failure::new(ErrorClass::Closed, behind), count - 1);
            }
            (ErrorClass::Timeout, count) => {
                let mut rest = count;
                for (from, overdue) in self.waiting.overdue(now, timeout) {
                    tally.timed_out(overdue, now.saturating_sub(from));
                    rest -= overdue;
                }
                let behind = "given up behind a request that timed out";
                tally.failed_for(Failure::new(ErrorClass::Closed, behind), rest);
            }
            (_, count) => tally.failed_for(failure, count),
        }
        // An announced end is no idle close.
        let is_idle = self.phase == Phase::Open && self.waiting.len() == 0 && class != ErrorClass::Discarded;
        if is_idle && !self.single {
            self.close_idle(now, block);
        } else {
            self.close(now, block);
        }
    }

    /// Closes the socket of a connection that the server ended without a request outstanding on it.
    pub(super) fn close_idle(&mut self, now: Nanos, block: &Block) {
        match self.carried {
            0 => self.idle_wait = (self.idle_wait * 2).clamp(FIRST_IDLE, LAST_IDLE),
            1 => {}
            _ => self.idle_wait = 0,
        }
        self.shut(block);
        self.phase = Phase::Closed { retry_at: now + self.idle_wait, idle_since: Some(now) };
    }

    /// Closes the socket; if the connection has responded, the next may be opened at once.
    pub(super) fn close(&mut self, now: Nanos, block: &Block) {
        self.shut(block);
        self.phase = Phase::Closed { retry_at: now + self.backoff, idle_since: None };
        self.backoff = (self.backoff * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
    }

    fn shut(&mut self, block: &Block) {
        if let Some(socket) = self.socket.take().filter(|_| self.single) {
            // The response is complete: waiting for an orderly end would block the port for a minute, which
            // is what happens without the option.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        self.tls = None;
        self.parser.reset();
        self.waiting.clear();
        self.outgoing.reset(block);
        self.free_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Connection, ErrorClass, Event, Learned, Phase, Spec, Tally};

    /// A connection with three requests sent at 10 and two at 50.
    fn busy() -> (Connection, Block, Tally) {
        let block = Block::new(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()], 8);
        let spec = Spec::new("http://h:1/".parse().expect("a URL"));
        let mut connection = Connection::new(0, &spec, &block);
        connection.phase = Phase::Open;
        connection.request(3, 10, 10, &block);
        connection.request(2, 50, 50, &block);
        (connection, block, Tally::new())
    }

    /// One overdue response was once a timeout of everything behind it.
    #[test]
    fn only_what_is_overdue_is_a_timeout() {
        let (mut connection, block, mut tally) = busy();
        connection.fail(ErrorClass::Timeout.into(), 40, 20, &block, &mut tally);
        assert_eq!(tally.errors, [(ErrorClass::Timeout, 3), (ErrorClass::Closed, 2)].into());
        assert_eq!(tally.given_up.len(), 3, "they took at least their age");
        assert_eq!((connection.outstanding(), connection.waits_since()), (0, None));
    }

    /// The 408 of a server that closes an idle connection was once a failed request.
    #[test]
    fn a_response_without_a_request_is_an_event_and_no_error() {
        let (mut connection, block, mut tally) = busy();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        (0..5).for_each(|_| {
            assert_eq!(connection.answers(answer, &mut Learned::default(), 60, &mut tally), Ok(()))
        });
        let timeout = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let class =
            connection.answers(timeout, &mut Learned::default(), 70, &mut tally).expect_err("it ends");
        connection.fail(class, 70, 20, &block, &mut tally);
        assert_eq!((tally.completed, tally.errors), (5, [].into()));
        assert_eq!(tally.events, [(Event::Unsolicited, 1)].into());
    }

    #[test]
    fn what_was_sent_behind_an_announced_end_is_discarded() {
        let (mut connection, block, mut tally) = busy();
        let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let class = connection.answers(answer, &mut Learned::default(), 20, &mut tally);
        assert_eq!(class, Err(ErrorClass::Discarded.into()));
        connection.fail(ErrorClass::Discarded.into(), 20, 20, &block, &mut tally);
        assert_eq!((tally.completed, tally.errors), (1, [(ErrorClass::Discarded, 4)].into()));
    }
}
