//! One QUIC connection over a socket of its own: datagrams in and out, and its timers.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use h3::error::Code;
use h3::quic;
use quinn_proto::{
    ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, StreamEvent,
    StreamId, TransportConfig, TransportErrorCode, VarInt,
};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use socket2::Socket;

use super::handles::identifier;
use crate::error_class::{ErrorClass, answer_of_network};
use crate::http::peer::{Peer, SILENCE};
use crate::http::streams::{Turn, WINDOW};
use crate::http::wire::Unopened;
use crate::reasons::Failure;
use rxlab_sys::datagrams::{receive, refuses_trains, send_train};

/// Reads of one connection before the others get their turn.
const READS_PER_TURN: usize = 64;
/// Datagrams in a train, at most: as many as quinn sends before it gives others their turn.
const TRAIN: usize = 10;
/// Alert of TLS: no common protocol (RFC 7301 3.2).
const NO_APPLICATION_PROTOCOL: u8 = 120;

pub(super) struct Link {
    socket: Rc<Socket>,
    remote: std::net::SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: quinn_proto::Connection,
    /// Whom to wake when a stream can go on.
    wakers: HashMap<StreamId, Waker>,
    /// Streams opened ahead of the requests that take them.
    ahead: VecDeque<StreamId>,
    /// Empty DATA frames that h3 has not come to, by stream: it takes each for the end of the body.
    empty: Vec<(quic::StreamId, usize)>,
    /// Requests whose stream has not ended.
    pub(super) requests: usize,
    pub(super) is_connected: bool,
    pub(super) end: Option<End>,
    /// The server has announced the end (GOAWAY).
    pub(super) is_announced: bool,
    /// Reads that this turn allows; none after one that found nothing.
    reads: usize,
    /// The turn was used up before the socket was empty.
    is_spent: bool,
    received: u64,
    has_heard: bool,
    /// Datagrams of `segment` bytes that the socket has not taken yet.
    out: Vec<u8>,
    segment: usize,
    /// The kernel takes trains of datagrams (UDP_SEGMENT).
    sends_trains: bool,
    /// Shared by the connections of a thread.
    buffer: Rc<RefCell<Vec<u8>>>,
}

/// Why a connection has ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    Socket(Errno),
    Quic(ConnectionError),
}

impl Link {
    pub(super) fn new(socket: Rc<Socket>, peer: &Peer) -> std::io::Result<Self> {
        let setup = peer.tls.as_ref().expect("a checked load over QUIC has TLS");
        let (mut config, name) = setup.quic()?;
        config.transport_config(Arc::new(transport()));
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let remote = peer.inet();
        let (handle, connection) =
            endpoint.connect(Instant::now(), config, remote, &name).map_err(std::io::Error::other)?;
        Ok(Self {
            socket,
            remote,
            endpoint,
            handle,
            connection,
            wakers: HashMap::new(),
            ahead: VecDeque::new(),
            empty: Vec::new(),
            requests: 0,
            is_connected: false,
            end: None,
            is_announced: false,
            reads: 0,
            is_spent: false,
            received: 0,
            has_heard: false,
            out: Vec::new(),
            segment: 0,
            sends_trains: true,
            buffer: Rc::clone(&peer.buffer),
        })
    }

    /// Begins a turn. A read of a datagram never shows that it was the last.
    pub(super) fn begin_turn(&mut self, turn: Turn) {
        self.reads = if turn == Turn::Write { 0 } else { READS_PER_TURN };
        self.is_spent = false;
    }

    pub(super) fn is_spent(&self) -> bool {
        self.is_spent
    }

    pub(super) fn has_heard(&self) -> bool {
        self.has_heard
    }

    pub(super) fn take_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.received)
    }

    pub(super) fn alarm(&mut self) -> Option<Duration> {
        let at = self.connection.poll_timeout().filter(|_| self.end.is_none())?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Reads and writes as far as the socket and the turn allow, and wakes the streams that can go on.
    pub(super) fn poll(&mut self) {
        if self.end.is_some() {
            return;
        }
        let now = Instant::now();
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.read(now);
        self.pass_events();
        self.write(now);
    }

    /// Notes who is to be woken when `stream` can go on.
    pub(super) fn wait(&mut self, stream: StreamId, waker: &Waker) {
        self.wakers.insert(stream, waker.clone());
    }

    /// Notes empty DATA frames on `stream`.
    pub(super) fn add_empty(&mut self, stream: quic::StreamId, count: usize) {
        self.empty.push((stream, count));
    }

    /// True if what h3 takes for the end of a body is an empty frame, each of which is passed once.
    pub(super) fn pass_empty(&mut self, stream: quic::StreamId) -> bool {
        let Some(at) = self.empty.iter().position(|(other, _)| *other == stream) else { return false };
        self.empty[at].1 -= 1;
        if self.empty[at].1 == 0 {
            self.empty.swap_remove(at);
        }
        true
    }

    /// Forgets a stream that is not read any more.
    pub(super) fn forget(&mut self, stream: StreamId) {
        self.wakers.remove(&stream);
        self.empty.retain(|(other, _)| *other != identifier(stream));
        self.requests -= usize::from(stream.dir() == Dir::Bi);
    }

    /// The streams that requests can take now, at most `most`.
    pub(super) fn open_ahead(&mut self, most: usize) -> usize {
        while self.ahead.len() < most
            && let Some(stream) = self.connection.streams().open(Dir::Bi)
        {
            self.ahead.push_back(stream);
        }
        most.min(self.ahead.len())
    }

    /// A stream for a request.
    pub(super) fn take_stream(&mut self) -> Option<StreamId> {
        let stream = self.ahead.pop_front().or_else(|| self.connection.streams().open(Dir::Bi))?;
        self.requests += 1;
        Some(stream)
    }

    /// Why the requests that are outstanding have failed, if the connection has ended.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.end.as_ref().map(|end| end.failure(self.is_announced))
    }

    /// Tells the server that the connection is at its end, so that it keeps nothing of it.
    pub(super) fn close(&mut self, code: Code, reason: &[u8]) {
        let code = VarInt::from_u64(code.value()).expect("a code of RFC 9114");
        let now = Instant::now();
        self.connection.close(now, code, Bytes::copy_from_slice(reason));
        self.write(now);
    }

    fn read(&mut self, now: Instant) {
        let buffer = Rc::clone(&self.buffer);
        let mut buffer = buffer.borrow_mut();
        let mut response = Vec::new();
        while self.reads > 0 {
            self.reads -= 1;
            self.is_spent = self.reads == 0;
            let train = match receive(&*self.socket, &mut buffer) {
                Ok(train) => train,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    (self.reads, self.is_spent) = (0, false);
                    if errno != Errno::AGAIN {
                        self.lose(End::Socket(answer_of_network(errno).unwrap_or(errno)));
                    }
                    return;
                }
            };
            self.received += train.length as u64;
            self.has_heard = true;
            for datagram in train.split(&buffer[..train.length]) {
                let datagram = BytesMut::from(datagram);
                let event = self.endpoint.handle(now, self.remote, None, None, datagram, &mut response);
                // Anything else is not of this connection, and needs no response.
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
        }
    }

    fn pass_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.lose(End::Quic(reason)),
                Event::Stream(
                    StreamEvent::Readable { id }
                    | StreamEvent::Writable { id }
                    | StreamEvent::Finished { id }
                    | StreamEvent::Stopped { id, .. },
                ) => {
                    if let Some(waker) = self.wakers.remove(&id) {
                        waker.wake();
                    }
                }
                _ => {}
            }
        }
    }

    fn lose(&mut self, end: End) {
        self.end.get_or_insert(end);
        self.wakers.drain().for_each(|(_, waker)| waker.wake());
    }

    fn write(&mut self, now: Instant) {
        loop {
            match self.send() {
                Ok(()) => {}
                // Goes on when the socket is writable.
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    self.out.clear();
                    return self.lose(End::Socket(errno));
                }
            }
            let most = if self.sends_trains { TRAIN } else { 1 };
            let Some(transmit) = self.connection.poll_transmit(now, most, &mut self.out) else { return };
            // Without ECN: the peer then reports none, and it is not used.
            self.segment = transmit.segment_size.unwrap_or(transmit.size);
        }
    }

    fn send(&mut self) -> Result<(), Errno> {
        while !self.out.is_empty() {
            let length = if self.sends_trains { self.out.len() } else { self.segment.min(self.out.len()) };
            let bytes = &self.out[..length];
            let is_train = length > self.segment;
            let sent = if is_train {
                send_train(&*self.socket, bytes, self.segment, None)
            } else {
                send(&*self.socket, bytes, SendFlags::NOSIGNAL).map(drop)
            };
            match sent {
                Ok(()) => drop(self.out.drain(..length)),
                Err(Errno::INTR) => {}
                Err(errno) if is_train && refuses_trains(errno) => self.sends_trains = false,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// The server opens no streams for requests, and may send as far ahead as with HTTP/2. Without discovery of the path's MTU all
/// datagrams are small enough for any path (RFC 9000 14).
fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .datagram_receive_buffer_size(None)
        .mtu_discovery_config(None);
    config
}

impl End {
    fn failure(&self, is_announced: bool) -> Failure {
        let (class, reason) = match self {
            End::Socket(Errno::CONNREFUSED) => {
                (ErrorClass::Reset, "the UDP port is closed (ICMP port unreachable)".to_owned())
            }
            End::Socket(errno) => (ErrorClass::Reset, errno.to_string()),
            End::Quic(ConnectionError::ApplicationClosed(close)) => {
                // After an announced end the server has not read it (RFC 9114 5.2).
                let class = if is_announced { ErrorClass::Discarded } else { ErrorClass::Closed };
                (class, Code::from(close.error_code.into_inner()).to_string())
            }
            End::Quic(ConnectionError::TransportError(error)) => (ErrorClass::Garbage, error.to_string()),
            End::Quic(error @ (ConnectionError::Reset | ConnectionError::ConnectionClosed(_))) => {
                (ErrorClass::Reset, error.to_string())
            }
            End::Quic(ConnectionError::TimedOut) => (ErrorClass::Closed, SILENCE.to_owned()),
            End::Quic(error) => (ErrorClass::Closed, error.to_string()),
        };
        Failure::new(class, reason)
    }

    /// Why the connection could not be opened.
    pub(super) fn unopened(&self) -> Unopened {
        let answer = |class, text: String| (class, std::io::Error::new(ErrorKind::InvalidData, text));
        let offers_no_http3 = TransportErrorCode::crypto(NO_APPLICATION_PROTOCOL);
        match self {
            End::Socket(Errno::CONNREFUSED) => {
                let closed = "the UDP port is closed (ICMP port unreachable)";
                (ErrorClass::Connect, std::io::Error::new(ErrorKind::ConnectionRefused, closed))
            }
            End::Socket(errno) => {
                let error = std::io::Error::from(*errno);
                (ErrorClass::of_connect(&error), error)
            }
            End::Quic(ConnectionError::ConnectionClosed(close)) if close.error_code == offers_no_http3 => {
                answer(ErrorClass::Tls, "the server does not offer HTTP/3".to_owned())
            }
            End::Quic(ConnectionError::VersionMismatch) => {
                answer(ErrorClass::Garbage, "the server does not speak QUIC version 1".to_owned())
            }
            End::Quic(ConnectionError::TimedOut) => {
                (ErrorClass::Connect, std::io::Error::new(ErrorKind::TimedOut, SILENCE))
            }
            End::Quic(error) => answer(ErrorClass::Tls, error.to_string()),
        }
    }
}
