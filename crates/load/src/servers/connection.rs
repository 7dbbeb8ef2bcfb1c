//! One HTTP connection of the target: reads requests and writes responses, never blocking.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::counters::{Shared, add};
use super::http::{self, Parsed, Prepared, Request};
use super::route::Route;

/// Responses gathered before they are written: bounds memory against a client that sends requests
/// and reads no responses.
const OUT_LIMIT: usize = 64 * 1024;
/// Time for which a connection may keep sending after a response with `close`, before it is cut off. A
/// close with unread input would reset the connection and could destroy the response on its way.
const LINGER: Duration = Duration::from_secs(1);

/// Next state of a connection after an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Wait for the next event.
    Keep,
    /// Wait for the next event, but at most until this moment.
    Wait(Instant),
    /// The connection must be closed.
    Close,
}

/// State shared by the connections of a thread.
pub(super) struct Context<'a> {
    pub(super) scratch: &'a mut [u8],
    pub(super) prepared: &'a mut Prepared,
    pub(super) shared: &'a Shared,
    pub(super) thread: usize,
}

pub(super) struct Connection {
    stream: TcpStream,
    // Bytes read and not answered: the start of a request, or all beyond the output limit.
    input: Vec<u8>,
    // There may be complete requests in `input`.
    more: bool,
    out: Vec<u8>,
    written: usize,
    // Body bytes of the current request still to be skipped.
    skip: u64,
    // Body bytes of the current response still to be generated.
    fill: u64,
    // The delayed request, and until when. Later requests wait with it: responses follow the order of the
    // requests.
    held: Option<(Instant, Request)>,
    state: State,
}

enum State {
    Open,
    // The last response is in `out`.
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

    /// True if it has waited long enough for the peer to close.
    pub(super) fn lingered(&self, now: Instant) -> bool {
        matches!(self.state, State::Lingering { until } if now >= until)
    }

    /// True if it waits for the peer to close.
    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.state, State::Lingering { .. })
    }

    /// True if a delayed response is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.held.as_ref().is_some_and(|(until, _)| *until <= now)
    }

    /// Does all that can be done without blocking. `hung_up`: the peer has closed its side, so the read
    /// continues to the end of the stream; otherwise it stops at a short read (edge-triggered: more input
    /// makes another event).
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
                // Continues with the event for "writable".
                Ok(false) => return Fate::Keep,
                Err(_) => return Fate::Close,
            }
            if self.held.is_some() {
                // Nothing is read during the delay. The caller at its end reads everything.
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

    /// Answers the requests in the first `length` bytes of the scratch space. Only the remainder is copied.
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

    /// Answers every complete request in the input; returns how many bytes that was, or all when nothing more
    /// will be answered.
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
        // Before the write: a client that has a response finds it counted.
        add(&counters.requests, requests);
        add(&counters.refused, refused);
        let open = matches!(self.state, State::Open);
        self.more = self.held.is_some() || (open || self.fill > 0) && self.out.len() >= OUT_LIMIT;
        if open { input.len() - rest.len() } else { input.len() }
    }

    /// Starts the response to a request; returns the status.
    fn answer(&mut self, request: &Request) -> u16 {
        self.fill = request.fill();
        if !request.keep_alive {
            self.state = State::Closing;
        }
        http::answer(request, &mut self.out)
    }

    /// Writes pending bytes; `false` if the socket accepts no more now.
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
