//! One HTTP connection of the target: bytes from the socket to answers and back, never blocking.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::counters::{Shared, add};
use super::http::{self, Parsed, Prepared, Request};
use super::route::Route;

/// Answers gathered before they are written: bounds memory against a client that sends requests
/// and reads no answers.
const OUT_LIMIT: usize = 64 * 1024;
/// How long a connection that was answered with `close` may go on sending before it is cut off. A
/// close with unread input would reset the connection and could destroy the answer on its way.
const LINGER: Duration = Duration::from_secs(1);

/// What becomes of a connection after an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Wait for the next event.
    Keep,
    /// The same, and look at it again at this moment.
    Wait(Instant),
    /// Drop it.
    Close,
}

/// What the connections of a thread share.
pub(super) struct Context<'a> {
    pub(super) scratch: &'a mut [u8],
    pub(super) prepared: &'a mut Prepared,
    pub(super) shared: &'a Shared,
    pub(super) thread: usize,
}

pub(super) struct Connection {
    stream: TcpStream,
    // What was read and not answered: the start of a request, or all behind the output limit.
    input: Vec<u8>,
    // There may be whole requests in `input`.
    more: bool,
    out: Vec<u8>,
    written: usize,
    // Body bytes of the current request still to be read past.
    skip: u64,
    // Body bytes of the current answer still to be made.
    fill: u64,
    // The request whose answer waits, and until when. Those behind it wait with it: answers come in
    // the order of the requests.
    held: Option<(Instant, Request)>,
    state: State,
}

enum State {
    Open,
    // The last answer is in `out`.
    Closing,
    // Everything was written and the write side shut down.
    Lingering { until: Instant },
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            input: Vec::new(),
            more: false,
            out: Vec::new(),
            written: 0,
            skip: 0,
            fill: 0,
            held: None,
            state: State::Open,
        }
    }

    /// Whether it waits for the other end to close, and has waited long enough.
    pub(super) fn lingered(&self, now: Instant) -> bool {
        matches!(self.state, State::Lingering { until } if now >= until)
    }

    /// Whether it waits for the other end to close.
    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.state, State::Lingering { .. })
    }

    /// Whether an answer that waited is to be given now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.held.as_ref().is_some_and(|(until, _)| *until <= now)
    }

    /// Does all that can be done without blocking. `hung_up` says that the other end has closed
    /// its side: then the read goes on to the end of the stream, otherwise it stops at a short
    /// read (edge-triggered: more input makes another event).
    pub(super) fn advance(&mut self, hung_up: bool, context: &mut Context<'_>) -> Fate {
        let before = self.held.as_ref().map(|(until, _)| *until);
        let fate = self.go_on(hung_up, context);
        match &self.held {
            Some((until, _)) if fate == Fate::Keep && before != Some(*until) => Fate::Wait(*until),
            _ => fate,
        }
    }

    fn go_on(&mut self, hung_up: bool, context: &mut Context<'_>) -> Fate {
        let mut drained = false;
        loop {
            if self.more {
                self.answer_held(context);
            }
            match self.flush() {
                Ok(true) => {}
                // The event that says "writable" goes on from here.
                Ok(false) => return Fate::Keep,
                Err(_) => return Fate::Close,
            }
            if self.held.is_some() {
                // Nothing is read meanwhile. Who calls at its moment reads to the end.
                return Fate::Keep;
            }
            if self.more {
                continue;
            }
            if matches!(self.state, State::Closing) {
                if self.stream.shutdown(Shutdown::Write).is_err() {
                    return Fate::Close;
                }
                self.state = State::Lingering { until: Instant::now() + LINGER };
            }
            if context.shared.stop.load(Ordering::Relaxed) {
                return Fate::Close;
            }
            if drained {
                return Fate::Keep;
            }
            match self.stream.read(context.scratch) {
                Ok(0) => return Fate::Close,
                Ok(n) => {
                    drained = n < context.scratch.len() && !hung_up;
                    if !self.is_lingering() {
                        self.take_in(n, context);
                    } else if self.lingered(Instant::now()) {
                        return Fate::Close;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Keep,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Fate::Close,
            }
        }
    }

    /// Answers what was read, the first `length` bytes of the scratch space. Only what is left of it
    /// is copied.
    fn take_in(&mut self, length: usize, context: &mut Context<'_>) {
        if !self.input.is_empty() {
            self.input.extend_from_slice(&context.scratch[..length]);
            return self.answer_held(context);
        }
        let Context { scratch, prepared, shared, thread } = context;
        let input = &scratch[..length];
        let used = self.answer_all(input, prepared, shared, *thread);
        self.input.extend_from_slice(&input[used..]);
    }

    fn answer_held(&mut self, context: &mut Context<'_>) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.answer_all(&input, context.prepared, context.shared, context.thread);
        input.drain(..used);
        self.input = input;
    }

    /// Answers every whole request in the input; gives how much of it that was, or all of it when
    /// nothing more will be answered.
    fn answer_all(&mut self, input: &[u8], prepared: &mut Prepared, shared: &Shared, thread: usize) -> usize {
        let mut rest = input;
        let (mut requests, mut refused) = (0, 0);
        while self.out.len() < OUT_LIMIT && !shared.stop.load(Ordering::Relaxed) {
            if self.fill > 0 {
                let room = self.fill.min((OUT_LIMIT - self.out.len()) as u64);
                self.fill -= room;
                self.out.resize(self.out.len() + room as usize, b'x');
                continue;
            }
            if let Some((until, request)) = self.held {
                if Instant::now() < until {
                    break;
                }
                self.held = None;
                requests += 1;
                self.answer(&request);
                continue;
            }
            if !matches!(self.state, State::Open) {
                break;
            }
            let skipped = self.skip.min(rest.len() as u64);
            self.skip -= skipped;
            rest = &rest[skipped as usize..];
            if rest.is_empty() {
                break;
            }
            let known = prepared.answer(&mut rest, &mut self.out, OUT_LIMIT);
            requests += known as u64;
            if known > 0 {
                continue;
            }
            match http::parse(rest) {
                Parsed::Partial => break,
                Parsed::Bad(status) => {
                    http::refuse(status, &mut self.out);
                    requests += 1;
                    refused += 1;
                    self.state = State::Closing;
                }
                Parsed::Request(request) => {
                    prepared.learn(&rest[..request.head], &request);
                    rest = &rest[request.head..];
                    self.skip = request.body;
                    match request.route {
                        Route::Delay(us) if us > 0 => {
                            self.held = Some((Instant::now() + Duration::from_micros(us), request));
                            continue;
                        }
                        Route::Compute(us) => shared.burn.run(us, &shared.stop),
                        _ => {}
                    }
                    requests += 1;
                    refused += u64::from(self.answer(&request) != 200);
                }
            }
        }
        let counters = &shared.threads[thread];
        // Before the write: who has an answer finds it counted.
        add(&counters.requests, requests);
        add(&counters.refused, refused);
        let open = matches!(self.state, State::Open);
        self.more = self.held.is_some() || (open || self.fill > 0) && self.out.len() >= OUT_LIMIT;
        if open { input.len() - rest.len() } else { input.len() }
    }

    /// Begins to answer a request; gives the status.
    fn answer(&mut self, request: &Request) -> u16 {
        self.fill = request.fill();
        if !request.keep_alive {
            self.state = State::Closing;
        }
        http::answer(request, &mut self.out)
    }

    /// Writes what is pending; `false` when the socket takes no more now.
    fn flush(&mut self) -> std::io::Result<bool> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(true)
    }
}
