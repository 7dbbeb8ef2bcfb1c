//! The bytes of a connection as the `h2` crate reads and writes them.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::Frames;
use crate::http::streams::Turn;
use crate::http::transport::Transport;

/// Empty DATA frames that end no response, of which `h2` takes 100 on a connection: half are left for the responses that are
/// outstanding when the connection gets no more requests.
const EMPTY_FRAMES: usize = 50;

/// Reads of one connection before the others get their turn.
const READS_PER_TURN: usize = 64;

/// What was read of a connection, and how often it may still be read in this turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Meter(Rc<Count>);

#[derive(Debug, Default)]
struct Count {
    bytes: Cell<u64>,
    left: Cell<usize>,
    /// The last of the reads found something, so that there may be more.
    is_spent: Cell<bool>,
    /// A read that does not fill its buffer may be the last of the turn.
    may_stop: Cell<bool>,
    /// The socket did not take all of the last write.
    is_blocked: Cell<bool>,
    /// Empty DATA frames that ended no response.
    empty: Cell<usize>,
}

impl Meter {
    /// Begins a turn.
    pub(super) fn begin(&self, turn: Turn) {
        self.0.left.set(if turn == Turn::Write { 0 } else { READS_PER_TURN });
        self.0.is_spent.set(false);
        self.0.may_stop.set(turn == Turn::Read);
    }

    /// True if this turn may not read any more, though there may be something.
    pub(super) fn is_spent(&self) -> bool {
        self.0.is_spent.get()
    }

    fn count(&self, length: usize, is_short: bool) {
        let count = &*self.0;
        count.bytes.set(count.bytes.get() + length as u64);
        let is_last = is_short && count.may_stop.get();
        count.left.set(if is_last { 0 } else { count.left.get() - 1 });
        count.is_spent.set(!is_last && count.left.get() == 0);
    }

    /// True if something waits until the socket is writable.
    pub(super) fn is_blocked(&self) -> bool {
        self.0.is_blocked.get()
    }

    /// True if the connection should get no more requests.
    pub(super) fn is_worn(&self) -> bool {
        self.0.empty.get() >= EMPTY_FRAMES
    }

    /// Bytes read since the last call.
    pub(super) fn take_bytes(&self) -> u64 {
        self.0.bytes.take()
    }
}

/// A transport under `h2`. It wakes nothing up: the engine polls when the socket is ready.
pub(super) struct Channel {
    transport: Transport,
    meter: Meter,
    frames: Frames,
}

impl Channel {
    pub(super) fn new(transport: Transport, meter: Meter) -> Self {
        Self { transport, meter, frames: Frames::default() }
    }
}

/// Repeats what a signal has interrupted; pending where the socket is not ready.
fn polled<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Poll<std::io::Result<T>> {
    loop {
        match attempt() {
            Ok(value) => return Poll::Ready(Ok(value)),
            Err(Errno::AGAIN) => return Poll::Pending,
            Err(Errno::INTR) => {}
            Err(errno) => return Poll::Ready(Err(errno.into())),
        }
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.meter.0.left.get() == 0 {
            return Poll::Pending;
        }
        let room = buffer.remaining();
        let read = polled(|| self.transport.read(buffer.initialize_unfilled()));
        read.map_ok(|length| {
            self.meter.count(length, length < room && self.transport.is_empty_after_a_short_read());
            let empty = self.frames.follow(&buffer.initialize_unfilled()[..length]);
            self.meter.0.empty.set(self.meter.0.empty.get() + empty);
            buffer.advance(length);
        })
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = polled(|| self.transport.write(bytes));
        self.meter.0.is_blocked.set(written.is_pending());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = polled(|| self.transport.flush());
        self.meter.0.is_blocked.set(flushed.is_pending());
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
