//! What is said over UDP and how an answer is told from something else; sockets, schedules and
//! counts are the engine's.

use std::ops::Range;

use super::payload::Header;
use crate::load::clock::Nanos;
use crate::load::error_class::ErrorClass;
use crate::load::spec::MIN_PAYLOAD;

/// What a datagram that came in was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The answer to the request of that number in its flow; a bad one has a class.
    Answer(u64, Option<ErrorClass>),
    /// The flow may send requests from now on.
    Handshake,
    /// The flow asked for that, and was turned away.
    TurnedAway,
    /// It asked more than once, and another answer counted.
    Surplus,
    /// Nothing that this flow asked for.
    Foreign,
}

/// Whether a flow has something to send before its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Nothing now.
    Nothing,
    /// It was written, maybe not for the first time.
    Written,
    /// It was written; the attempt before had no answer as long as it may take.
    Again,
}

/// The number that ends in the `bits` of `low`: the first of those that wait, or else the last before
/// them, whose answer comes late.
pub(super) fn number_of(low: u64, bits: u32, waiting: &Range<u64>) -> Option<u64> {
    let behind = low.wrapping_sub(waiting.start) & ((1 << bits) - 1);
    let number = waiting.start + behind;
    if number < waiting.end { Some(number) } else { number.checked_sub(1 << bits) }
}

/// One kind of question and answer. Flows count from 0.
pub(super) trait Talk {
    /// Writes request `number` of a flow behind what is in `out`.
    fn ask(&mut self, flow: usize, number: u64, now: Nanos, out: &mut Vec<u8>);

    /// What `datagram` is to a flow. The requests that wait for an answer have numbers of `waiting`,
    /// which are at most 65536: 16 bits of a number tell which it is.
    fn hear(&mut self, flow: usize, waiting: Range<u64>, datagram: &[u8], now: Nanos) -> Heard;

    /// Whether answers come in the order of their questions unless the network changes it.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Whether a flow may send requests.
    fn is_open(&self, _flow: usize, _now: Nanos) -> bool {
        true
    }

    /// Writes what a flow has to send before its requests, or once more beside them, if it is time.
    fn greet(&mut self, _flow: usize, _now: Nanos, _out: &mut Vec<u8>) -> Greeting {
        Greeting::Nothing
    }
}

/// The datagram itself comes back.
pub(super) struct EchoTalk {
    session: u64,
    /// What follows the header.
    rest: Vec<u8>,
}

impl EchoTalk {
    /// Datagrams of `size` bytes that carry the number of the session.
    pub(super) fn new(session: u64, size: usize) -> Self {
        Self { session, rest: vec![0; size - MIN_PAYLOAD] }
    }
}

impl Talk for EchoTalk {
    fn ask(&mut self, _flow: usize, number: u64, now: Nanos, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + MIN_PAYLOAD + self.rest.len(), 0);
        Header { session: self.session, sequence: number, sent: now }.write(&mut out[start..]);
    }

    fn hear(&mut self, _flow: usize, _waiting: Range<u64>, datagram: &[u8], now: Nanos) -> Heard {
        match Header::read(datagram) {
            // An echo is the datagram to the last byte, and comes behind it.
            Some(header)
                if header.session == self.session
                    && header.sent <= now
                    && datagram[MIN_PAYLOAD..] == self.rest =>
            {
                Heard::Answer(header.sequence, None)
            }
            _ => Heard::Foreign,
        }
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{EchoTalk, Heard, MIN_PAYLOAD, Talk, number_of};

    #[test]
    fn only_the_very_datagram_is_an_echo() {
        for size in [MIN_PAYLOAD, 40] {
            let mut talk = EchoTalk::new(7, size);
            let mut sent = Vec::new();
            talk.ask(0, 3, 10, &mut sent);
            assert_eq!(sent.len(), size);
            assert_eq!(talk.hear(0, 0..4, &sent, 20), Heard::Answer(3, None));
            assert_eq!(talk.hear(0, 0..4, &[&sent[..], &[0]].concat(), 20), Heard::Foreign);
            assert_eq!(talk.hear(0, 0..4, &sent[..size - 1], 20), Heard::Foreign);
            // The session, the time of the send, and the last byte.
            for at in [0, 23, size - 1] {
                let mut other = sent.clone();
                other[at] ^= 0x80;
                assert_eq!(talk.hear(0, 0..4, &other, 20), Heard::Foreign, "byte {at} of {size}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_few_bits_tell_a_number(start in 0u64..1 << 40, count in 1u64..=1 << 16, at in 0u64..1 << 16, wide: bool) {
            let (waiting, bits) = (start..start + count, if wide { 32 } else { 16 });
            let mask = (1u64 << bits) - 1;
            let number = start + at % count;
            prop_assert_eq!(number_of(number & mask, bits, &waiting), Some(number));
            // Of those behind, the last one.
            let gone = start.checked_sub(1 + at % ((1 << bits) - count).max(1));
            if let Some(gone) = gone.filter(|_| count < 1 << bits) {
                prop_assert_eq!(number_of(gone & mask, bits, &waiting), Some(gone));
            }
        }
    }
}
