//! One HTTP connection of the target: bytes from the socket to answers and back, never blocking.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::counters::{Shared, add};
use super::http::{self, Parsed, Route};

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
    /// Drop it.
    Close,
}

pub(super) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    out: Vec<u8>,
    written: usize,
    // Body bytes of the current request still to be read past.
    skip: u64,
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
        Self { stream, input: Vec::new(), out: Vec::new(), written: 0, skip: 0, state: State::Open }
    }

    /// Whether it waits for the other end to close, and has waited long enough.
    pub(super) fn lingered(&self, now: Instant) -> bool {
        matches!(self.state, State::Lingering { until } if now >= until)
    }

    /// Whether it waits for the other end to close.
    pub(super) fn is_lingering(&self) -> bool {
        matches!(self.state, State::Lingering { .. })
    }

    /// Does all that can be done without blocking. `hung_up` says that the other end has closed
    /// its side: then the read goes on to the end of the stream, otherwise it stops at a short
    /// read (edge-triggered: more input makes another event).
    pub(super) fn advance(
        &mut self,
        hung_up: bool,
        scratch: &mut [u8],
        shared: &Shared,
        thread: usize,
    ) -> Fate {
        let mut drained = false;
        loop {
            let more = self.answer_all(shared, thread);
            match self.flush() {
                Ok(true) => {}
                // The event that says "writable" goes on from here.
                Ok(false) => return Fate::Keep,
                Err(_) => return Fate::Close,
            }
            if more {
                continue;
            }
            if matches!(self.state, State::Closing) {
                if self.stream.shutdown(Shutdown::Write).is_err() {
                    return Fate::Close;
                }
                self.state = State::Lingering { until: Instant::now() + LINGER };
            }
            if shared.stop.load(Ordering::Relaxed) {
                return Fate::Close;
            }
            if drained {
                return Fate::Keep;
            }
            match self.stream.read(scratch) {
                Ok(0) => return Fate::Close,
                Ok(n) => {
                    drained = n < scratch.len() && !hung_up;
                    if !self.is_lingering() {
                        self.input.extend_from_slice(&scratch[..n]);
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

    /// Answers every whole request in the input; `true` when the answers had to stop at the limit
    /// and there may be more requests.
    fn answer_all(&mut self, shared: &Shared, thread: usize) -> bool {
        let counters = &shared.threads[thread];
        let (mut at, mut requests, mut refused) = (0, 0, 0);
        while matches!(self.state, State::Open) && self.out.len() < OUT_LIMIT {
            if self.skip > 0 {
                let skipped = self.skip.min((self.input.len() - at) as u64);
                self.skip -= skipped;
                at += skipped as usize;
            }
            if at == self.input.len() || shared.stop.load(Ordering::Relaxed) {
                break;
            }
            match http::parse(&self.input[at..]) {
                Parsed::Partial => break,
                Parsed::Bad(status) => {
                    http::refuse(status, &mut self.out);
                    requests += 1;
                    refused += 1;
                    self.state = State::Closing;
                }
                Parsed::Request(request) => {
                    at += request.head;
                    self.skip = request.body;
                    if let Route::Compute(us) = request.route {
                        shared.burn.run(us, &shared.stop);
                    }
                    requests += 1;
                    refused += u64::from(http::answer(&request, &mut self.out) != 200);
                    if !request.keep_alive {
                        self.state = State::Closing;
                    }
                }
            }
        }
        let open = matches!(self.state, State::Open);
        if open {
            self.input.drain(..at);
        } else {
            self.input = Vec::new();
        }
        // Before the write: who has an answer finds it counted.
        add(&counters.requests, requests);
        add(&counters.refused, refused);
        open && self.out.len() >= OUT_LIMIT
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
