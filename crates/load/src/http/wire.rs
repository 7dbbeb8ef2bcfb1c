//! What a connection carries: pipelined requests of HTTP/1.1, or the streams of HTTP/2 and HTTP/3.
//!
//! The engine decides what to send and when; a wire knows what is outstanding and what has arrived.

use std::rc::Rc;
use std::time::Duration;

use socket2::Socket;

use super::peer::Peer;
use crate::clock::Nanos;
use crate::error_class::ErrorClass;
use crate::poller::Poller;
use crate::reasons::Failure;
use crate::spec::Spec;
use crate::tally::Tally;

/// State of the reading of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Received {
    /// All that had arrived was read; an event announces more.
    All,
    /// There may be more: the other connections get their turn first.
    More,
    /// The connection is at its end or broken. The failure is that of the requests outstanding on it.
    Ended(Failure),
}

/// A connection that could not be opened, with its class and the reason.
pub(super) type Unopened = (ErrorClass, std::io::Error);

/// One connection's protocol above its bytes. All times are on the session's clock.
pub(super) trait Wire: Sized {
    /// Requests of the load, prepared once for all threads.
    type Requests;
    /// State of reading that the connections of a thread share.
    type Reader: Default;

    /// That of connection `number` of the session, closed.
    fn new(number: usize, spec: &Spec, requests: &Self::Requests) -> Self;

    /// Takes a socket that is connecting to `peer`. Fails if the TLS settings do not allow a connection.
    fn open(&mut self, socket: Rc<Socket>, peer: &Peer) -> std::io::Result<()>;

    /// Continues opening above the socket, as far as it allows; true once requests can be sent. May only be called
    /// once the socket is connected.
    fn greet(&mut self) -> Result<bool, Unopened>;

    /// True if nothing at all has come from the server, not even that it accepts connections.
    fn is_silent(&self) -> bool {
        false
    }

    /// Time from now after which it has to be read without an event.
    fn alarm(&mut self) -> Option<Duration> {
        None
    }

    /// True if TLS resumed an earlier session.
    fn is_resumed(&self) -> bool;

    /// Requests sent and not answered.
    fn outstanding(&self) -> usize;

    /// What has arrived of the response to the oldest request, if not all; `None` without any of it.
    fn partial(&self) -> Option<String>;

    /// Requests that can be added, if at most `depth` may be outstanding.
    fn room(&mut self, depth: usize) -> usize;

    /// Requests that the server allows at the same time, if it has not allowed as many as were asked for.
    fn allowed(&self) -> Option<usize> {
        None
    }

    /// Start of the latency of the outstanding requests, with counts.
    fn since(&self) -> impl Iterator<Item = (Nanos, usize)>;

    /// When the oldest outstanding request was sent.
    fn oldest(&self) -> Option<Nanos>;

    /// Start of the latency of those that have waited longer than `timeout`, with counts.
    fn overdue(&self, now: Nanos, timeout: Nanos) -> impl Iterator<Item = (Nanos, usize)>;

    /// Gives up what is overdue and goes on, if what is behind it does not have to wait for it. Else it does nothing and
    /// returns false: the connection has to be given up.
    fn expire(&mut self, now: Nanos, timeout: Nanos, tally: &mut Tally) -> bool;

    /// Adds requests to be written, once it is open; their latency counts from `from`. Must not be called with more than
    /// [`Wire::room`] says, or one if it is not open yet.
    fn request(&mut self, count: usize, from: Nanos, now: Nanos, requests: &Self::Requests);

    /// Writes as much as the socket accepts; the rest follows when it is writable again. True if something was read
    /// meanwhile, so that [`Wire::receive`] must follow without an event.
    fn flush(&mut self, requests: &Self::Requests) -> Result<bool, Failure>;

    /// Reads and counts responses up to a short read; with `to_the_end` until nothing is left. Sets `heard` with the first
    /// of them.
    fn receive(
        &mut self,
        reader: &mut Self::Reader,
        poller: &Poller,
        to_the_end: bool,
        now: Nanos,
        tally: &mut Tally,
        heard: &mut bool,
    ) -> Received;

    /// Drops the connection with all that is outstanding.
    fn reset(&mut self, requests: &Self::Requests);
}
