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
    /// Bytes that the socket had taken when no request was outstanding any more; `None` before the first response.
    settled: Option<u64>,
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
            settled: None,
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
                Err(errno) => {
                    let failure = transport.failure(errno);
                    return Received::Ended(self.between_responses(failure));
                }
            }
        }
        Received::More
    }

    fn reset(&mut self, block: &Block) {
        self.transport = None;
        self.parser.reset();
        self.waiting.clear();
        self.settled = None;
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
        let is_cut_off = self.transport.as_ref().is_some_and(Transport::is_cut_off);
        match self.parser.finish() {
            Ok(None) => self.closed(),
            // RFC 9112 8.
            Ok(Some(_)) if is_cut_off => Failure::new(
                ErrorClass::Truncated,
                "within a body without a length, before the end of TLS (close_notify)",
            ),
            Ok(Some(response)) => {
                self.answer(1, response, now, tally, heard).err().unwrap_or_else(|| self.closed())
            }
            Err(Truncated) => Failure { class: ErrorClass::Truncated, reason: self.parser.reason() },
        }
    }

    /// The stream has ended between two responses. An end that arrives before any byte of the outstanding requests is
    /// acknowledged was sent before they arrived: its segment would acknowledge them too.
    fn closed(&self) -> Failure {
        let is_crossed = |settled| {
            let transport = self.transport.as_ref();
            transport.is_some_and(|transport| transport.has_arrived_no_more_than(settled))
        };
        if self.waiting.len() > 0 && self.settled.is_some_and(is_crossed) {
            let crossed = "the server had closed the connection before the request arrived";
            return Failure::new(ErrorClass::Discarded, crossed);
        }
        self.between_responses(Failure::new(ErrorClass::Closed, "end of the stream"))
    }

    /// Adds to the reason of a failure that the connection had responded before, if no byte of a further response has come:
    /// the server may end connections without a word.
    fn between_responses(&self, mut failure: Failure) -> Failure {
        if let Some(reason) =
            failure.reason.as_mut().filter(|_| self.settled.is_some() && self.parser.at_start())
        {
            reason.push_str(", after responses on this connection");
        }
        failure
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
        if self.waiting.len() == 0 {
            self.settled = self.transport.as_ref().map(Transport::written);
        }
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
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::rc::Rc;

    use super::{Block, Learned, Pipeline, Reader, Received, Transport, Wire};
    use crate::clock::Clock;
    use crate::error_class::ErrorClass;
    use crate::event::Event;
    use crate::poller::Poller;
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

    /// Servers end connections without a word. Where the end and the next request cross, the request was once a failure of the
    /// server; where it has arrived, it is one.
    #[test]
    fn a_request_that_crosses_the_end_of_its_connection_is_discarded() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let block = Block::new(&[b"GET / HTTP/1.1\r\n\r\n".to_vec()], 8);
        let spec =
            Spec::new(format!("http://{}/", listener.local_addr().expect("bound")).parse().expect("a URL"));
        let poller = Poller::alone(spec.pacing, Clock::start());
        for (arrives, expected) in [(false, ErrorClass::Discarded), (true, ErrorClass::Closed)] {
            let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
            let mut server = listener.accept().expect("connected").0;
            let mut wire = Pipeline::new(0, &spec, &block);
            wire.transport = Some(Transport::new(Rc::new(client.into()), None).expect("no TLS"));
            let request = |wire: &mut Pipeline| {
                wire.request(1, 10, 10, &block);
                wire.flush(&block).expect("written");
            };
            request(&mut wire);
            let mut reader = Reader::default();
            let mut receive = |wire: &mut Pipeline, tally: &mut Tally| {
                wire.receive(&mut reader, &poller, false, 20, tally, &mut false)
            };
            let mut tally = Tally::new();
            let mut buffer = [0; 100];
            let _ = server.read(&mut buffer).expect("the request");
            server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("written");
            if arrives {
                assert_eq!(receive(&mut wire, &mut tally), Received::All);
                request(&mut wire);
                let _ = server.read(&mut buffer).expect("the next request");
                server.shutdown(Shutdown::Both).expect("closed");
            } else {
                server.shutdown(Shutdown::Both).expect("closed");
                assert_eq!(receive(&mut wire, &mut tally), Received::All);
                request(&mut wire);
            }
            let Received::Ended(failure) = receive(&mut wire, &mut tally) else { panic!("it has ended") };
            assert_eq!((failure.class, tally.completed), (expected, 1), "{failure:?}");
        }
    }

    #[test]
    fn what_was_sent_behind_an_announced_end_is_discarded() {
        let (mut wire, mut tally) = busy();
        let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&mut wire, answer, 20, &mut tally), Err(ErrorClass::Discarded));
        assert_eq!((tally.completed, wire.outstanding()), (1, 4));
    }
}
