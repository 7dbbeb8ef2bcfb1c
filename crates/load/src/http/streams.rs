//! Requests on streams of their own, answered in any order: HTTP/2 (RFC 9113) and HTTP/3 (RFC 9114).
//!
//! What differs between the two is a [`Carrier`]. Its futures are polled by the engine, when the socket is ready or something
//! was sent: there is no runtime, so time is measured and spent as with HTTP/1.1.

mod messages;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use socket2::Socket;

pub(super) use self::messages::Messages;
use super::body::Check;
use super::peer::Peer;
use super::response::judge;
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
pub(super) const WINDOW: u32 = (1 << 30) - 1;

/// What [`Carrier::poll`] may do until the next turn. It makes a bounded number of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Write only: an event announces what there is to read.
    Write,
    /// Read up to one that empties the socket, and write.
    Read,
    /// Read until nothing is left, which may be the end of the connection, and write.
    ReadAll,
}

/// A connection with streams, above its socket. It reads and writes only when it is polled.
pub(super) trait Carrier: Sized {
    /// A request whose response has not begun.
    type Head;
    /// The rest of a response.
    type Body;

    /// A connection on a socket that is connecting.
    fn new(socket: Rc<Socket>, peer: &Peer) -> std::io::Result<Self>;

    /// Continues opening, as far as the socket allows; true once requests can be sent.
    fn greet(&mut self) -> Result<bool, Unopened>;

    /// True if nothing at all has come from the server, not even that it accepts connections.
    fn is_silent(&self) -> bool;

    /// True if TLS resumed an earlier session.
    fn is_resumed(&self) -> bool;

    /// Further requests that the server allows next to those `outstanding`, at most `most`: none once it has announced the
    /// end.
    fn room(&mut self, outstanding: usize, most: usize) -> usize;

    /// A request on a new stream. It is sent by the first [`Carrier::poll_head`] and the [`Carrier::poll`] that follows.
    fn request(&mut self, head: Request<()>, body: Bytes) -> Result<Self::Head, Failure>;

    /// The final status of the response, once it has arrived.
    fn poll_head(
        head: &mut Self::Head,
        context: &mut Context<'_>,
    ) -> Poll<Result<(u16, Self::Body), Failure>>;

    /// The next bytes of the body; `None` at its end.
    fn poll_data(body: &mut Self::Body, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>>;

    /// Begins a turn.
    fn begin_turn(&mut self, turn: Turn);

    /// Reads and writes as far as the socket and the turn allow. Returns the failure of what is outstanding if the connection
    /// is at its end.
    fn poll(&mut self) -> Option<Failure>;

    /// True if the turn did not allow to read all.
    fn is_spent(&self) -> bool;

    /// True if [`Carrier::poll`] has nothing to do until something is received or requested: nothing waits for the socket,
    /// and the server has not announced the end.
    fn is_settled(&mut self) -> bool {
        false
    }

    /// True if the connection has to be opened again for further requests.
    fn is_worn(&self) -> bool {
        false
    }

    /// Bytes received since the last call.
    fn take_bytes(&mut self) -> u64;

    /// Time from now after which it has to be polled without an event.
    fn alarm(&mut self) -> Option<Duration> {
        None
    }
}

/// One connection's streams.
pub(super) struct Streams<C: Carrier> {
    carrier: Option<C>,
    /// The carrier is open.
    is_open: bool,
    /// The connection is at its end: why the requests that are outstanding have failed.
    end: Option<Failure>,
    slots: Vec<Slot<C>>,
    /// Slots without a request.
    free: Vec<usize>,
    /// Slots with requests that wait for the connection to open.
    queued: Vec<usize>,
    /// TLS resumed an earlier session.
    is_resumed: bool,
    /// Requests, or what became free with the last responses, are still to be sent.
    is_unsent: bool,
    /// Slots whose stream has something new.
    woken: Arc<Mutex<Vec<usize>>>,
    /// Takes the place of these while they are looked at.
    spare: Vec<usize>,
    good: Statuses,
    /// Copied for each stream.
    check: Check,
    random: Random,
    /// Number of the next request in the list of the load.
    turn: usize,
    /// Most requests that the server has allowed at the same time, and whether that is less than was asked for.
    most: usize,
    is_limited: bool,
    /// When something was last received.
    heard: Nanos,
    /// Since when nothing is received, while requests time out.
    unheard: Option<Nanos>,
}

/// A place for a request and its response.
struct Slot<C: Carrier> {
    stream: Stream<C>,
    /// Start of the latency: the send, or the intended send.
    from: Nanos,
    /// Start of the timeout.
    sent: Nanos,
    check: Check,
    waker: Waker,
}

enum Stream<C: Carrier> {
    Free,
    /// Requested before the connection was open.
    Queued,
    /// Its end was found when it was sent.
    Ended(Result<u16, Failure>),
    Head(C::Head),
    Body(u16, C::Body),
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

impl<C: Carrier> Wire for Streams<C> {
    type Requests = Messages;
    type Reader = ();

    fn new(number: usize, spec: &Spec, messages: &Messages) -> Self {
        Self {
            carrier: None,
            is_open: false,
            end: None,
            slots: Vec::new(),
            free: Vec::new(),
            queued: Vec::new(),
            is_resumed: false,
            is_unsent: false,
            woken: Arc::default(),
            spare: Vec::new(),
            good: spec.expect_status.clone(),
            check: Check::for_spec(spec),
            random: messages.random(number),
            turn: number,
            most: 0,
            is_limited: false,
            heard: 0,
            unheard: None,
        }
    }

    fn open(&mut self, socket: Rc<Socket>, peer: &Peer) -> std::io::Result<()> {
        self.carrier = Some(C::new(socket, peer)?);
        Ok(())
    }

    fn greet(&mut self) -> Result<bool, Unopened> {
        let Some(carrier) = &mut self.carrier else { return Ok(false) };
        carrier.begin_turn(Turn::ReadAll);
        self.is_open = carrier.greet()?;
        self.is_resumed = carrier.is_resumed();
        Ok(self.is_open)
    }

    fn is_silent(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::is_silent)
    }

    fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    fn alarm(&mut self) -> Option<Duration> {
        self.carrier.as_mut().and_then(Carrier::alarm)
    }

    fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn partial(&self) -> Option<String> {
        None
    }

    fn room(&mut self, depth: usize) -> usize {
        let outstanding = self.outstanding();
        let Some(carrier) = self.carrier.as_mut().filter(|_| self.is_open && self.end.is_none()) else {
            return 0;
        };
        let room = carrier.room(outstanding, depth.saturating_sub(outstanding));
        self.most = self.most.max(outstanding + room);
        self.is_limited = self.most < depth;
        room
    }

    fn allowed(&self) -> Option<usize> {
        (self.is_limited && self.most > 0).then_some(self.most)
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

    /// A late response keeps no other, unless nothing at all has come for twice the timeout: then only a new connection
    /// shows whether the server can be reached.
    fn expire(&mut self, now: Nanos, timeout: Nanos, tally: &mut Tally) -> bool {
        let oldest = self.oldest().unwrap_or(now).max(self.heard);
        let unheard = *self.unheard.get_or_insert(oldest);
        if now.saturating_sub(unheard) > 2 * timeout {
            return false;
        }
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
        if self.is_unsent || !self.is_settled() {
            self.begin_turn(Turn::Write);
            self.poll();
            self.is_unsent = false;
        }
        Ok(self.is_spent() || self.end.is_some() || !self.woken().is_empty())
    }

    fn receive(
        &mut self,
        _reader: &mut (),
        _poller: &Poller,
        to_the_end: bool,
        now: Nanos,
        tally: &mut Tally,
        heard: &mut bool,
    ) -> Received {
        self.begin_turn(if to_the_end { Turn::ReadAll } else { Turn::Read });
        loop {
            self.poll();
            let mut woken = std::mem::take(&mut self.spare);
            std::mem::swap(&mut woken, &mut *self.woken());
            let is_any = !woken.is_empty();
            for slot in woken.drain(..) {
                self.advance(slot, now, tally, heard);
            }
            self.spare = woken;
            if !is_any {
                break;
            }
            // Nothing more comes until the next request, which takes along what is to be sent.
            if self.outstanding() == 0 && self.is_settled() {
                self.is_unsent = true;
                break;
            }
        }
        if self.outstanding() == 0 && self.carrier.as_ref().is_some_and(Carrier::is_worn) {
            self.end.get_or_insert(ErrorClass::Discarded.into());
        }
        let bytes = self.carrier.as_mut().map_or(0, Carrier::take_bytes);
        tally.bytes += bytes;
        if bytes > 0 {
            (self.heard, self.unheard) = (now, None);
        }
        match &self.end {
            Some(failure) => Received::Ended(failure.clone()),
            None if self.is_spent() => Received::More,
            None => Received::All,
        }
    }

    fn reset(&mut self, _messages: &Messages) {
        // Before the connection: what has not ended is reset on it.
        self.slots.iter_mut().for_each(|slot| slot.stream = Stream::Free);
        (self.carrier, self.is_open, self.end, self.unheard) = (None, false, None, None);
        self.is_unsent = false;
        self.queued.clear();
        self.free.clear();
        self.free.extend(0..self.slots.len());
        self.woken().clear();
    }
}

impl<C: Carrier> Streams<C> {
    /// Sends the requests that waited for the connection to open, if it is.
    fn start_queued(&mut self, messages: &Messages) {
        let Some(carrier) = self.carrier.as_mut().filter(|_| self.is_open) else { return };
        self.is_unsent |= !self.queued.is_empty();
        for slot in self.queued.drain(..) {
            let head = messages.head(self.turn, &mut self.random);
            self.turn = self.turn.wrapping_add(1);
            let place = &mut self.slots[slot];
            place.check.begin();
            let sent = carrier.request(head, messages.body());
            place.stream = sent.map_or_else(|failure| Stream::Ended(Err(failure)), Stream::Head);
            // Leaves its waker there, which wakes it when the response arrives.
            if let Some(end) = place.advance() {
                place.stream = Stream::Ended(end);
                place.waker.wake_by_ref();
            }
        }
    }

    fn begin_turn(&mut self, turn: Turn) {
        if let Some(carrier) = &mut self.carrier {
            carrier.begin_turn(turn);
        }
    }

    fn is_spent(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::is_spent)
    }

    fn is_settled(&mut self) -> bool {
        self.carrier.as_mut().is_some_and(Carrier::is_settled)
    }

    fn taken(&self) -> impl Iterator<Item = &Slot<C>> {
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

    fn poll(&mut self) {
        if let Some(carrier) = self.carrier.as_mut().filter(|_| self.is_open && self.end.is_none()) {
            self.end = carrier.poll();
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
            Err(failure) => tally.failed_for(failure, 1),
        }
        self.give_back(slot);
    }
}

impl<C: Carrier> Slot<C> {
    fn is_overdue(&self, now: Nanos, timeout: Nanos) -> bool {
        !matches!(self.stream, Stream::Free) && now.saturating_sub(self.sent) > timeout
    }

    /// Status of the response once it is complete, or why there is none; `None` while it is not, or without a request.
    fn advance(&mut self) -> Option<Result<u16, Failure>> {
        let mut context = Context::from_waker(&self.waker);
        loop {
            match &mut self.stream {
                Stream::Free | Stream::Queued => return None,
                Stream::Ended(end) => return Some(end.clone()),
                Stream::Head(head) => match C::poll_head(head, &mut context) {
                    Poll::Pending => return None,
                    Poll::Ready(Err(failure)) => return Some(Err(failure)),
                    Poll::Ready(Ok((status, body))) => self.stream = Stream::Body(status, body),
                },
                Stream::Body(status, body) => match C::poll_data(body, &mut context) {
                    Poll::Pending => return None,
                    Poll::Ready(None) => return Some(Ok(*status)),
                    Poll::Ready(Some(Err(failure))) => return Some(Err(failure)),
                    Poll::Ready(Some(Ok(data))) => self.check.feed(&data),
                },
            }
        }
    }
}
