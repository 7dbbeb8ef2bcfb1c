//! Protocols over UDP: writing requests and recognizing responses. The engine handles sockets, schedules
//! and counts.

use std::ops::Range;

use crate::clock::Nanos;
use crate::reasons::Failure;

/// Meaning of an incoming datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// The response to the request of that number in its flow; a bad one has a failure.
    Answer(u64, Option<Failure>),
    /// The response to that request did not fit into a datagram: it has to be asked for over TCP.
    CutOff(u64),
    /// The flow may send requests from now on.
    Handshake,
    /// The flow's request to be admitted was refused, for this reason.
    Refused(String),
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

    /// A request of a flow was given up without an answer.
    fn lost(&mut self, _flow: usize) {}

    /// Writes the message a flow has to send before its requests, or again during them, if it is time.
    fn greet(&mut self, _flow: usize, _now: Nanos, _out: &mut Vec<u8>) -> Greeting {
        Greeting::Nothing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::number_of;

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
