//! What is said over UDP and how an answer is told from something else; sockets, schedules and
//! counts are the engine's.

use super::payload::Header;
use crate::load::clock::Nanos;
use crate::load::error_class::ErrorClass;

/// What a datagram that came in was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The answer to the request of that number in its flow; a bad one has a class.
    Answer(u64, Option<ErrorClass>),
    /// Nothing that this flow asked for.
    Foreign,
}

/// One kind of question and answer. Flows count from 0.
pub(super) trait Talk {
    /// Writes request `number` of a flow behind what is in `out`.
    fn ask(&mut self, flow: usize, number: u64, now: Nanos, out: &mut Vec<u8>);

    /// What `datagram` is to a flow. No request before number `oldest` waits for an answer, and at
    /// most 65536 numbers from there on are in use: 16 bits of a number tell which it is.
    fn hear(&mut self, flow: usize, oldest: u64, datagram: &[u8], now: Nanos) -> Heard;

    /// Whether answers come in the order of their questions unless the network changes it.
    fn keeps_order(&self) -> bool {
        false
    }
}

/// The datagram itself comes back.
pub(super) struct EchoTalk {
    session: u64,
    size: usize,
}

impl EchoTalk {
    /// Datagrams of `size` bytes that carry the number of the session.
    pub(super) fn new(session: u64, size: usize) -> Self {
        Self { session, size }
    }
}

impl Talk for EchoTalk {
    fn ask(&mut self, _flow: usize, number: u64, now: Nanos, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.size, 0);
        Header { session: self.session, sequence: number, sent: now }.write(&mut out[start..]);
    }

    fn hear(&mut self, _flow: usize, _oldest: u64, datagram: &[u8], _now: Nanos) -> Heard {
        match Header::read(datagram) {
            Some(header) if header.session == self.session => Heard::Answer(header.sequence, None),
            _ => Heard::Foreign,
        }
    }

    fn keeps_order(&self) -> bool {
        true
    }
}
