//! Protocols over UDP: writing requests and recognizing responses. The engine handles sockets, schedules
//! and counts.

use std::ops::Range;

use super::flow::Header;
use crate::clock::Nanos;
use crate::error_class::ErrorClass;
use crate::spec::MIN_PAYLOAD;

/// Meaning of an incoming datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The response to the request of that number in its flow; a bad one has a class.
    Answer(u64, Option<ErrorClass>),
    /// The flow may send requests from now on.
    Handshake,
    /// The flow's request to be admitted was refused.
    Refused,
    /// A surplus response to a repeated request to be admitted.
    Surplus,
    /// Not a response to this flow.
    Foreign,
}

/// Result of asking a flow for a message to send before its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// Nothing to send for now.
    Nothing,
    /// A message was written, possibly again.
    Written,
    /// A message was written; the previous attempt has timed out.
    Again,
}

/// The number that ends in the `bits` of `low`: the first of those that wait, else the last before
/// them, whose response is late.
pub(super) fn number_of(low: u64, bits: u32, waiting: &Range<u64>) -> Option<u64> {
    let behind = low.wrapping_sub(waiting.start) & ((1 << bits) - 1);
    let number = waiting.start + behind;
    if number < waiting.end { Some(number) } else { number.checked_sub(1 << bits) }
}

/// A protocol of requests and responses. Flows count from 0.
pub(super) trait Talk {
    /// Appends request `number` of a flow to `out`.
    fn ask(&mut self, flow: usize, number: u64, now: Nanos, out: &mut Vec<u8>);

    /// Meaning of `datagram` for a flow. The unanswered requests have the numbers `waiting`, at most 65536 of
    /// them: 16 bits of a number identify one.
    fn hear(&mut self, flow: usize, waiting: Range<u64>, datagram: &[u8], now: Nanos) -> Heard;

    /// True if responses arrive in the order of their requests unless the network reorders them.
    fn keeps_order(&self) -> bool {
        false
    }

    /// True if a flow may send requests.
    fn is_open(&self, _flow: usize, _now: Nanos) -> bool {
        true
    }

    /// Writes the message a flow has to send before its requests, or again during them, if it is time.
    fn greet(&mut self, _flow: usize, _now: Nanos, _out: &mut Vec<u8>) -> Greeting {
        Greeting::Nothing
    }
}

/// The echo of a datagram.
pub(super) struct EchoTalk {
    session: u64,
    /// The bytes after the header.
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
            // An echo is the datagram to the last byte, and follows it.
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
            // The session, the send time, and the last byte.
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
            // Of those after it, the last one.
            let gone = start.checked_sub(1 + at % ((1 << bits) - count).max(1));
            if let Some(gone) = gone.filter(|_| count < 1 << bits) {
                prop_assert_eq!(number_of(gone & mask, bits, &waiting), Some(gone));
            }
        }
    }
}
