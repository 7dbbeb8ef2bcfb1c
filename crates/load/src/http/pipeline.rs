//! HTTP/1.1 on one connection: requests that are answered in their order.

use std::rc::Rc;

use rustix::io::Errno;
use socket2::Socket;

use super::block::Block;
use super::outgoing::Outgoing;
use super::peer::Peer;
use super::reader::Learned;
use super::response::{Malformed, Parser, Response, Truncated};
use super::transport::Transport;
use super::waiting::Waiting;
use super::wire::{Received, Unopened, Wire};
use crate::clock::Nanos;
use crate::error_class::ErrorClass;
use crate::event::Event;
use crate::poller::Poller;
use crate::reasons::Failure;
use crate::spec::Spec;
use crate::tally::Tally;

const READ_BUFFER: usize = 64 * 1024;
/// Full buffers read from one connection before the others get their turn.
const READS_PER_TURN: usize = 16;

pub(super) struct Pipeline {
    transport: Option<Transport>,
    parser: Parser,
    single: bool,
    waiting: Waiting,
    /// Bytes of the outstanding requests still to be written.
    outgoing: Outgoing,
}

/// Reads the responses of all connections of a thread.
pub(super) struct Reader {
    /// The response that all connections expect.
    learned: Learned,
    buffer: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { learned: Learned::default(), buffer: vec![0; READ_BUFFER] }
    }
}

impl Wire for Pipeline {
    type Requests = Block;
    type Reader = Reader;

    /// Its first request is the block's request of that number.
    fn new(number: usize, spec: &Spec, block: &Block) -> Self {
        Self {
            transport: None,
            parser: Parser::for_spec(spec),
            single: spec.is_single(),
            waiting: Waiting::default(),
            outgoing: Outgoing::new(number, block),
        }
    }

    fn open(&mut self, socket: Rc<Socket>, peer: &Peer) -> std::io::Result<()> {
        self.transport = Some(Transport::new(socket, peer.tls.as_ref())?);
        Ok(())
    }

    fn greet(&mut self) -> Result<bool, Unopened> {
        let greeted = self.transport.as_mut().map_or(Ok(false), Transport::greet);
        greeted.map_err(|error| (ErrorClass::Tls, error))
    }

    fn is_resumed(&self) -> bool {
        self.transport.as_ref().is_some_and(Transport::is_resumed)
    }

    fn outstanding(&self) -> usize {
        self.waiting.len()
    }

    fn partial(&self) -> Option<String> {
        self.parser.partial()
    }

    fn room(&mut self, depth: usize) -> usize {
        depth.saturating_sub(self.waiting.len())
    }

    fn since(&self) -> impl Iterator<Item = (Nanos, usize)> {
        self.waiting.since()
    }

    fn oldest(&self) -> Option<Nanos> {
        self.waiting.oldest()
    }

    fn overdue(&self, now: Nanos, timeout: Nanos) -> impl Iterator<Item = (Nanos, usize)> {
        self.waiting.overdue(now, timeout)
    }

    fn expire(&mut self, _now: Nanos, _timeout: Nanos, _tally: &mut Tally) -> bool {
        false
    }

    fn request(&mut self, count: usize, from: Nanos, now: Nanos, block: &Block) {
        self.waiting.push(count, from, now);
        self.outgoing.take(count, block);
    }

    fn flush(&mut self, block: &Block) -> Result<bool, Failure> {
        let Some(transport) = &mut self.transport else { return Ok(false) };
        loop {
            let pending = self.outgoing.pending(block);
            if pending.is_empty() {
                break;
            }
            match transport.write(pending) {
                Ok(written) => self.outgoing.written(written, block),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(transport.failure(errno)),
            }
        }
        transport.flush().map(|()| false).map_err(|errno| transport.failure(errno))
    }

    fn receive(
        &mut self,
        reader: &mut Reader,
        poller: &Poller,
        to_the_end: bool,
        mut now: Nanos,
        tally: &mut Tally,
        heard: &mut bool,
    ) -> Received {
        for read in 0..READS_PER_TURN {
            if read > 0 {
                now = poller.now();
            }
            let Some(transport) = &mut self.transport else { return Received::All };
            match transport.read(&mut reader.buffer) {
                Ok(0) => return Received::Ended(self.end(now, tally, heard)),
                Ok(length) => {
                    let is_short = length < reader.buffer.len() && transport.is_empty_after_a_short_read();
                    let input = &reader.buffer[..length];
                    tally.bytes += length as u64;
                    if let Err(failure) = self.answers(input, &mut reader.learned, now, tally, heard) {
                        return Received::Ended(failure);
                    }
                    if is_short && !to_the_end {
                        return Received::All;
                    }
                }
                Err(Errno::AGAIN) => return Received::All,
                Err(Errno::INTR) => {}
                Err(errno) => return Received::Ended(transport.failure(errno)),
            }
        }
        Received::More
    }

    fn reset(&mut self, block: &Block) {
        self.transport = None;
        self.parser.reset();
        self.waiting.clear();
        self.outgoing.reset(block);
    }
}

impl Pipeline {
    /// Counts the responses in `input`, read at `now`.
    fn answers(
        &mut self,
        mut input: &[u8],
        learned: &mut Learned,
        now: Nanos,
        tally: &mut Tally,
        heard: &mut bool,
    ) -> Result<(), Failure> {
        loop {
            match learned.next(&mut self.parser, &mut input) {
                Ok(Some((count, response))) => self.answer(count, response, now, tally, heard)?,
                Ok(None) => return Ok(()),
                Err(Malformed) => {
                    return Err(Failure { class: ErrorClass::Garbage, reason: self.parser.reason() });
                }
            }
        }
    }

    /// The stream has ended: counts a response that ends with it, and returns why the rest has failed.
    fn end(&mut self, now: Nanos, tally: &mut Tally, heard: &mut bool) -> Failure {
        let closed = || Failure::new(ErrorClass::Closed, "end of the stream");
        match self.parser.finish() {
            Ok(None) => closed(),
            Ok(Some(response)) => self.answer(1, response, now, tally, heard).err().unwrap_or_else(closed),
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
        heard: &mut bool,
    ) -> Result<(), Failure> {
        while count > 0 {
            let Some((from, taken)) = self.waiting.take(count) else {
                tally.event(Event::Unsolicited);
                return Err(ErrorClass::Closed.into());
            };
            let failure = response.error.map(|class| Failure { class, reason: self.parser.reason() });
            tally.answered(response.status, failure, taken, now.saturating_sub(from));
            count -= taken;
        }
        *heard = true;
        if response.last {
            // Requests behind the last response are never answered.
            Err(ErrorClass::Discarded.into())
        } else if self.single {
            Err(ErrorClass::Closed.into())
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Learned, Pipeline, Wire};
    use crate::error_class::ErrorClass;
    use crate::event::Event;
    use crate::spec::Spec;
    use crate::tally::Tally;

    /// A connection with three requests sent at 10 and two at 50.
    fn busy() -> (Pipeline, Tally) {
        let block = Block::new(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()], 8);
        let spec = Spec::new("http://h:1/".parse().expect("a URL"));
        let mut wire = Pipeline::new(0, &spec, &block);
        wire.request(3, 10, 10, &block);
        wire.request(2, 50, 50, &block);
        (wire, Tally::new())
    }

    fn read(wire: &mut Pipeline, input: &[u8], now: u64, tally: &mut Tally) -> Result<(), ErrorClass> {
        let read = wire.answers(input, &mut Learned::default(), now, tally, &mut false);
        read.map_err(|failure| failure.class)
    }

    /// The 408 of a server that closes an idle connection was once a failed request.
    #[test]
    fn a_response_without_a_request_is_an_event_and_no_error() {
        let (mut wire, mut tally) = busy();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        (0..5).for_each(|_| assert_eq!(read(&mut wire, answer, 60, &mut tally), Ok(())));
        let timeout = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&mut wire, timeout, 70, &mut tally), Err(ErrorClass::Closed));
        assert_eq!((wire.outstanding(), tally.completed, tally.errors), (0, 5, [].into()));
        assert_eq!(tally.events, [(Event::Unsolicited, 1)].into());
    }

    #[test]
    fn what_was_sent_behind_an_announced_end_is_discarded() {
        let (mut wire, mut tally) = busy();
        let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&mut wire, answer, 20, &mut tally), Err(ErrorClass::Discarded));
        assert_eq!((tally.completed, wire.outstanding()), (1, 4));
    }
}
