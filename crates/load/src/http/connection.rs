//! One connection: its socket, its state, and what it carries.
//!
//! The engine decides what to send and when.

use std::rc::Rc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use socket2::Socket;

use super::peer::Peer;
use super::wire::{Received, Unopened, Wire};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::error_class::{ErrorClass, of_attempt};
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
    /// The socket is connected, the handshake of TLS or HTTP/2 is in progress.
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

pub(super) struct Connection<W> {
    pub(super) phase: Phase,
    /// In the engine's queue of connections with room for a request.
    pub(super) queued: bool,
    /// In the engine's queue of connections that were closed idle.
    pub(super) is_dormant: bool,
    /// Moment since which there is room for a request; `None` without room or connection.
    pub(super) free_since: Option<Nanos>,
    pub(super) wire: W,
    socket: Option<Rc<Socket>>,
    number: usize,
    single: bool,
    backoff: Nanos,
    /// Wait after an idle close.
    idle_wait: Nanos,
    /// Requests sent since it was opened.
    carried: usize,
}

/// The error of a connection to itself: there is no listener. It is reset, so that the port is free for the server.
fn no_listener(peer: &Peer, socket: &Socket) -> Option<std::io::Error> {
    peer.is_itself(socket).then(|| {
        // Should it fail, the port is blocked for a minute.
        let _ = socket.set_linger(Some(Duration::ZERO));
        Errno::CONNREFUSED.into()
    })
}

impl<W: Wire> Connection<W> {
    /// Connection `number` of the session, closed.
    pub(super) fn new(number: usize, spec: &Spec, requests: &W::Requests) -> Self {
        Self {
            phase: Phase::Closed { retry_at: 0, idle_since: None },
            queued: false,
            is_dormant: false,
            free_since: None,
            wire: W::new(number, spec, requests),
            socket: None,
            number,
            single: spec.is_single(),
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

    /// Starts connecting. On an error this attempt has failed and the connection is closed.
    pub(super) fn open(
        &mut self,
        poller: &Poller,
        index: usize,
        peer: &Peer,
        requests: &W::Requests,
        now: Nanos,
    ) -> std::io::Result<()> {
        let mut begin = || -> std::io::Result<Rc<Socket>> {
            let socket = Rc::new(peer.connect(self.number)?);
            // Registered once; an earlier edge is reported now.
            poller.add(
                &*socket,
                index,
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET,
            )?;
            self.wire.open(Rc::clone(&socket), peer)?;
            Ok(socket)
        };
        match begin() {
            Ok(socket) => {
                (self.socket, self.carried) = (Some(socket), 0);
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
                self.close(now, requests);
                Err(error)
            }
        }
    }

    /// Continues opening; returns true once the connection is open. On an error this attempt has failed and
    /// the connection is closed.
    pub(super) fn connected(
        &mut self,
        peer: &Peer,
        requests: &W::Requests,
        now: Nanos,
    ) -> Result<bool, Unopened> {
        let since = match self.phase {
            Phase::Connecting { since } | Phase::Greeting { since } => since,
            Phase::Open | Phase::Closed { .. } => return Ok(self.phase == Phase::Open),
        };
        let Some(socket) = &self.socket else { return Ok(false) };
        if matches!(self.phase, Phase::Connecting { .. })
            && let Some(error) =
                socket.take_error().unwrap_or_else(Some).map(of_attempt).or_else(|| no_listener(peer, socket))
        {
            self.close(now, requests);
            return Err((ErrorClass::of_connect(&error), error));
        }
        match self.wire.greet() {
            Ok(true) => self.phase = Phase::Open,
            Ok(false) => self.phase = Phase::Greeting { since },
            Err(unopened) => {
                self.close(now, requests);
                return Err(unopened);
            }
        }
        Ok(self.phase == Phase::Open)
    }

    /// The connection was all that was asked for: the request is complete.
    pub(super) fn opened(&mut self, now: Nanos, requests: &W::Requests, tally: &mut Tally) {
        for (from, count) in self.wire.since() {
            tally.complete_all(count, now.saturating_sub(from));
        }
        (self.backoff, tally.unreached) = (0, 0);
        self.close(now, requests);
    }

    /// Adds requests; see [`Wire::request`].
    pub(super) fn request(&mut self, count: usize, from: Nanos, now: Nanos, requests: &W::Requests) {
        self.carried = self.carried.saturating_add(count);
        self.wire.request(count, from, now, requests);
    }

    /// Reads and counts responses; see [`Wire::receive`].
    pub(super) fn receive(
        &mut self,
        reader: &mut W::Reader,
        poller: &Poller,
        to_the_end: bool,
        now: Nanos,
        tally: &mut Tally,
    ) -> Received {
        let mut heard = false;
        let received = self.wire.receive(reader, poller, to_the_end, now, tally, &mut heard);
        if heard {
            // It responds, so the next failure is the first in a row.
            (self.backoff, tally.unreached) = (0, 0);
        }
        received
    }

    /// Start of the oldest request or of the connection attempt.
    pub(super) fn waits_since(&self) -> Option<Nanos> {
        match self.phase {
            Phase::Closed { .. } => None,
            Phase::Connecting { since } | Phase::Greeting { since } => Some(since),
            Phase::Open => self.wire.oldest(),
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
        requests: &W::Requests,
        tally: &mut Tally,
    ) {
        let (class, outstanding) = (failure.class, self.wire.outstanding());
        // An announced end is no idle close.
        let is_idle = self.phase == Phase::Open && outstanding == 0 && class != ErrorClass::Discarded;
        match (class, outstanding) {
            (ErrorClass::Connect | ErrorClass::Tls, 0) => {
                tally.failed_for(failure, 1);
                tally.not_sent += 1;
            }
            // Bytes that answer nothing.
            (ErrorClass::Garbage, 0) => tally.event(Event::Unsolicited),
            (_, 0) => {}
            (ErrorClass::Garbage | ErrorClass::Truncated, count) => {
                tally.failed_for(failure, 1);
                let behind = "given up after an earlier response was cut off or invalid";
                tally.failed_for(Failure::new(ErrorClass::Closed, behind), count - 1);
            }
            (ErrorClass::Timeout, count) => {
                let mut rest = count;
                if let Some(reason) = self.wire.partial() {
                    tally.reasons.count(class, reason, 1);
                }
                for (from, overdue) in self.wire.overdue(now, timeout) {
                    tally.timed_out(overdue, now.saturating_sub(from));
                    rest -= overdue;
                }
                let behind = "given up after an earlier request timed out";
                tally.failed_for(Failure::new(ErrorClass::Closed, behind), rest);
            }
            (_, count) => tally.failed_for(failure, count),
        }
        if is_idle && !self.single {
            self.close_idle(now, requests);
        } else {
            self.close(now, requests);
        }
    }

    /// Closes the socket of a connection that the server ended without a request outstanding on it.
    pub(super) fn close_idle(&mut self, now: Nanos, requests: &W::Requests) {
        match self.carried {
            0 => self.idle_wait = (self.idle_wait * 2).clamp(FIRST_IDLE, LAST_IDLE),
            1 => {}
            _ => self.idle_wait = 0,
        }
        self.shut(requests);
        self.phase = Phase::Closed { retry_at: now + self.idle_wait, idle_since: Some(now) };
    }

    /// Closes the socket; if the connection has responded, the next may be opened at once.
    pub(super) fn close(&mut self, now: Nanos, requests: &W::Requests) {
        self.shut(requests);
        self.phase = Phase::Closed { retry_at: now + self.backoff, idle_since: None };
        self.backoff = (self.backoff * 2).clamp(FIRST_BACKOFF, LAST_BACKOFF);
    }

    fn shut(&mut self, requests: &W::Requests) {
        if let Some(socket) = self.socket.take().filter(|_| self.single) {
            // The response is complete: waiting for an orderly end would block the port for a minute, which
            // is what happens without the option.
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
        self.wire.reset(requests);
        self.free_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, ErrorClass, Phase, Spec, Tally, Wire};
    use crate::http::block::Block;
    use crate::http::pipeline::Pipeline;

    /// One overdue response was once a timeout of everything behind it.
    #[test]
    fn only_what_is_overdue_is_a_timeout() {
        let block = Block::new(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()], 8);
        let spec = Spec::new("http://h:1/".parse().expect("a URL"));
        let mut connection = Connection::<Pipeline>::new(0, &spec, &block);
        connection.phase = Phase::Open;
        connection.wire.request(3, 10, 10, &block);
        connection.wire.request(2, 50, 50, &block);
        let mut tally = Tally::new();
        connection.fail(ErrorClass::Timeout.into(), 40, 20, &block, &mut tally);
        assert_eq!(tally.errors, [(ErrorClass::Timeout, 3), (ErrorClass::Closed, 2)].into());
        assert_eq!(tally.given_up.len(), 3, "they took at least their age");
        assert_eq!((connection.wire.outstanding(), connection.waits_since()), (0, None));
    }
}
