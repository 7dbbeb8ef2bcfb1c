//! HTTP/2 on one connection (RFC 9113): requests on streams of their own, answered in any order.
//!
//! The frames are those of the `h2` crate. Its futures are polled by the engine, when the socket is ready or something was
//! sent: there is no runtime, so time is measured and spent as with HTTP/1.1.

mod channel;
mod messages;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, Reason, RecvStream};

use self::channel::{Channel, Meter};
pub(super) use self::messages::Messages;
use super::body::Check;
use super::response::judge;
use super::transport::Transport;
use super::wire::{Received, Unopened, Wire};
use crate::Random;
use crate::clock::Nanos;
use crate::error_class::ErrorClass;
use crate::poller::Poller;
use crate::reasons::Failure;
use crate::spec::Spec;
use crate::status::Statuses;
use crate::tally::Tally;

/// Bytes that a server may send ahead on a stream and on a connection, as h2load allows: a load measures the server, not
/// its waits for this client's permission.
const WINDOW: u32 = (1 << 30) - 1;

/// One connection's streams.
pub(super) struct Streams {
    state: State,
    slots: Vec<Slot>,
    /// Slots without a request.
    free: Vec<usize>,
    /// Slots with requests that wait for the connection to open.
    queued: Vec<usize>,
    /// TLS resumed an earlier session.
    is_resumed: bool,
    /// Slots whose stream has something new.
    woken: Arc<Mutex<Vec<usize>>>,
    meter: Meter,
    good: Statuses,
    /// Copied for each stream.
    check: Check,
    random: Random,
    /// Number of the next request in the list of the load.
    turn: usize,
}

enum State {
    Closed,
    /// The transport is being opened.
    Greeting(Transport),
    /// The server has not shown yet that it speaks HTTP/2.
    Opening(Pin<Box<dyn Future<Output = std::io::Result<Open>>>>),
    Open(Box<Open>),
    /// The connection is at its end: why the requests that are outstanding have failed.
    Ended(Failure),
}

struct Open {
    send: SendRequest<Bytes>,
    connection: Connection<Channel, Bytes>,
}

/// A place for a request and its response.
struct Slot {
    stream: Stream,
    /// Start of the latency: the send, or the intended send.
    from: Nanos,
    /// Start of the timeout.
    sent: Nanos,
    check: Check,
    waker: Waker,
}

enum Stream {
    Free,
    /// Requested before the connection was open.
    Queued,
    /// No stream could be opened for it.
    Failed(h2::Error),
    Head(ResponseFuture),
    Body(u16, RecvStream),
}

/// Notes the slot of a stream that can go on.
struct Note {
    woken: Arc<Mutex<Vec<usize>>>,
    slot: usize,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

/// The connection itself is polled whenever it can go on: its socket was ready, or something was sent.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

impl Wire for Streams {
    type Requests = Messages;
    type Reader = ();

    fn new(number: usize, spec: &Spec, messages: &Messages) -> Self {
        Self {
            state: State::Closed,
            slots: Vec::new(),
            free: Vec::new(),
            queued: Vec::new(),
            is_resumed: false,
            woken: Arc::default(),
            meter: Meter::default(),
            good: spec.expect_status.clone(),
            check: Check::for_spec(spec),
            random: messages.random(number),
            turn: number,
        }
    }

    fn open(&mut self, transport: Transport) {
        self.state = State::Greeting(transport);
    }

    fn greet(&mut self) -> Result<bool, Unopened> {
        if let State::Greeting(transport) = &mut self.state {
            if !transport.greet().map_err(|error| (ErrorClass::Tls, error))? {
                return Ok(false);
            }
            let State::Greeting(transport) = std::mem::replace(&mut self.state, State::Closed) else {
                unreachable!("it was one")
            };
            self.is_resumed = transport.is_resumed();
            if !transport.is_agreed(b"h2") {
                let error = std::io::Error::new(ErrorKind::InvalidData, "the server does not offer HTTP/2");
                return Err((ErrorClass::Tls, error));
            }
            self.state = State::Opening(Box::pin(handshake(Channel::new(transport, self.meter.clone()))));
        }
        let State::Opening(opening) = &mut self.state else { return Ok(false) };
        self.meter.refill();
        match opening.as_mut().poll(&mut context()) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(open)) => {
                self.state = State::Open(Box::new(open));
                Ok(true)
            }
            Poll::Ready(Err(error)) => {
                self.state = State::Closed;
                let class = if error.kind() == ErrorKind::InvalidData {
                    ErrorClass::Garbage
                } else {
                    ErrorClass::Connect
                };
                Err((class, error))
            }
        }
    }

    fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn partial(&self) -> Option<String> {
        None
    }

    /// No more than the server allows at the same time, and none once it has announced the end (GOAWAY).
    fn room(&mut self, depth: usize) -> usize {
        let outstanding = self.outstanding();
        let State::Open(open) = &mut self.state else { return 0 };
        match open.send.poll_ready(&mut context()) {
            Poll::Ready(Ok(())) => {
                depth.min(open.connection.max_concurrent_send_streams()).saturating_sub(outstanding)
            }
            _ => 0,
        }
    }

    fn since(&self) -> impl Iterator<Item = (Nanos, usize)> {
        self.taken().map(|slot| (slot.from, 1))
    }

    fn oldest(&self) -> Option<Nanos> {
        self.taken().map(|slot| slot.sent).min()
    }

    fn overdue(&self, now: Nanos, timeout: Nanos) -> impl Iterator<Item = (Nanos, usize)> {
        self.taken().filter(move |slot| slot.is_overdue(now, timeout)).map(|slot| (slot.from, 1))
    }

    fn expire(&mut self, now: Nanos, timeout: Nanos, tally: &mut Tally) -> bool {
        for slot in 0..self.slots.len() {
            if self.slots[slot].is_overdue(now, timeout) {
                tally.timed_out(1, now.saturating_sub(self.slots[slot].from));
                self.give_back(slot);
            }
        }
        true
    }

    fn request(&mut self, count: usize, from: Nanos, now: Nanos, messages: &Messages) {
        for _ in 0..count {
            let slot = self.free_slot();
            let place = &mut self.slots[slot];
            (place.stream, place.from, place.sent) = (Stream::Queued, from, now);
            self.queued.push(slot);
        }
        self.start_queued(messages);
    }

    fn flush(&mut self, messages: &Messages) -> Result<bool, Failure> {
        self.start_queued(messages);
        self.meter.refill();
        self.poll();
        Ok(self.meter.is_spent() || matches!(self.state, State::Ended(_)) || !self.woken().is_empty())
    }

    fn receive(
        &mut self,
        _reader: &mut (),
        _poller: &Poller,
        _to_the_end: bool,
        now: Nanos,
        tally: &mut Tally,
        heard: &mut bool,
    ) -> Received {
        self.meter.refill();
        loop {
            self.poll();
            let woken = std::mem::take(&mut *self.woken());
            if woken.is_empty() {
                break;
            }
            for slot in woken {
                self.advance(slot, now, tally, heard);
            }
        }
        tally.bytes += self.meter.take_bytes();
        match &self.state {
            State::Ended(failure) => Received::Ended(failure.clone()),
            _ if self.meter.is_spent() => Received::More,
            _ => Received::All,
        }
    }

    fn reset(&mut self, _messages: &Messages) {
        self.state = State::Closed;
        self.queued.clear();
        self.free.clear();
        self.slots.iter_mut().for_each(|slot| slot.stream = Stream::Free);
        self.free.extend(0..self.slots.len());
        self.woken().clear();
    }
}

/// Opens HTTP/2 on a channel. It is open once the server has answered a PING: a server of another protocol takes the first
/// bytes as well.
async fn handshake(channel: Channel) -> std::io::Result<Open> {
    let mut builder = Builder::new();
    builder.enable_push(false).initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
    let (send, mut connection) = builder.handshake(channel).await.map_err(unopened)?;
    let mut pings = connection.ping_pong().expect("it is taken once");
    let mut pong = pin!(pings.ping(Ping::opaque()));
    poll_fn(|context| {
        if let Poll::Ready(end) = Pin::new(&mut connection).poll(context) {
            let closed = || std::io::Error::from(ErrorKind::UnexpectedEof);
            return Poll::Ready(Err(end.map_or_else(unopened, |()| closed())));
        }
        pong.as_mut().poll(context).map_err(unopened).map_ok(|_| ())
    })
    .await?;
    Ok(Open { send, connection })
}

/// Why HTTP/2 could not be opened.
fn unopened(error: h2::Error) -> std::io::Error {
    if error.is_io() {
        return error.into_io().expect("it is one");
    }
    std::io::Error::new(ErrorKind::InvalidData, format!("the server does not speak HTTP/2 ({error})"))
}

impl Streams {
    /// Sends the requests that waited for the connection to open, if it is.
    fn start_queued(&mut self, messages: &Messages) {
        let State::Open(open) = &mut self.state else { return };
        for slot in self.queued.drain(..) {
            let head = messages.head(self.turn, &mut self.random);
            self.turn = self.turn.wrapping_add(1);
            let body = messages.body();
            let place = &mut self.slots[slot];
            let is_whole = body.is_empty();
            let sent = open.send.send_request(head, is_whole).and_then(|(response, mut stream)| {
                if !is_whole {
                    stream.send_data(body, true)?;
                }
                Ok(response)
            });
            place.stream = sent.map_or_else(Stream::Failed, Stream::Head);
            place.check.begin();
            // Its first look leaves its waker there.
            place.waker.wake_by_ref();
        }
    }

    fn taken(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| !matches!(slot.stream, Stream::Free))
    }

    fn woken(&self) -> std::sync::MutexGuard<'_, Vec<usize>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_slot(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.slots.len();
            let waker = Arc::new(Note { woken: Arc::clone(&self.woken), slot }).into();
            let check = self.check.clone();
            self.slots.push(Slot { stream: Stream::Free, from: 0, sent: 0, check, waker });
            slot
        })
    }

    /// Drops the stream of a slot. One that has not ended is reset (CANCEL).
    fn give_back(&mut self, slot: usize) {
        self.slots[slot].stream = Stream::Free;
        self.free.push(slot);
    }

    /// Reads and writes frames as far as the socket allows.
    fn poll(&mut self) {
        let State::Open(open) = &mut self.state else { return };
        if let Poll::Ready(end) = Pin::new(&mut open.connection).poll(&mut context()) {
            // After an announced end the connection itself ends well.
            let announced = || match open.send.poll_ready(&mut context()) {
                Poll::Ready(Err(error)) => Some(error),
                _ => None,
            };
            self.state = State::Ended(match end.err().or_else(announced) {
                Some(error) => Failure::new(class(&error), reason(&error)),
                None => Failure::new(ErrorClass::Closed, "end of the stream"),
            });
        }
    }

    /// Takes what a stream has, and counts its response if that is complete.
    fn advance(&mut self, slot: usize, now: Nanos, tally: &mut Tally, heard: &mut bool) {
        let place = &mut self.slots[slot];
        let latency = now.saturating_sub(place.from);
        let Some(end) = place.advance() else { return };
        match end {
            Ok(status) => {
                tally.answered(status, judge(status, &self.good, &place.check), 1, latency);
                *heard = true;
            }
            Err(error) => {
                tally.failed_for(Failure::new(class(&error), reason(&error)), 1);
            }
        }
        self.give_back(slot);
    }
}

impl Slot {
    fn is_overdue(&self, now: Nanos, timeout: Nanos) -> bool {
        !matches!(self.stream, Stream::Free) && now.saturating_sub(self.sent) > timeout
    }

    /// Status of the response once it is complete, or why there is none; `None` while it is not, or without a request.
    fn advance(&mut self) -> Option<Result<u16, h2::Error>> {
        let mut context = Context::from_waker(&self.waker);
        loop {
            match &mut self.stream {
                Stream::Free | Stream::Queued => return None,
                Stream::Failed(_) => {
                    let Stream::Failed(error) = std::mem::replace(&mut self.stream, Stream::Free) else {
                        unreachable!("it was one")
                    };
                    return Some(Err(error));
                }
                Stream::Head(response) => match Pin::new(response).poll(&mut context) {
                    Poll::Pending => return None,
                    Poll::Ready(Err(error)) => return Some(Err(error)),
                    Poll::Ready(Ok(response)) => {
                        let (head, body) = response.into_parts();
                        self.stream = Stream::Body(head.status.as_u16(), body);
                    }
                },
                Stream::Body(status, body) => match body.poll_data(&mut context) {
                    Poll::Pending => return None,
                    Poll::Ready(None) => return Some(Ok(*status)),
                    Poll::Ready(Some(Err(error))) => return Some(Err(error)),
                    Poll::Ready(Some(Ok(data))) => {
                        self.check.feed(&data);
                        // Fails only for a stream that has ended: nothing more comes on it.
                        let _ = body.flow_control().release_capacity(data.len());
                    }
                },
            }
        }
    }
}

/// Class of requests whose stream or connection has ended without a response.
fn class(error: &h2::Error) -> ErrorClass {
    if error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR) {
        // The server has not read it (RFC 9113 6.8).
        ErrorClass::Discarded
    } else if error.is_go_away() && !error.is_remote() {
        ErrorClass::Garbage
    } else if error.is_io() || error.is_reset() {
        ErrorClass::Reset
    } else {
        ErrorClass::Closed
    }
}

/// The reason in the words of RFC 9113 7, or of the system.
fn reason(error: &h2::Error) -> String {
    match error.reason() {
        Some(reason) => format!("{reason:?}"),
        None => error.to_string(),
    }
}
