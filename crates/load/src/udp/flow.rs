//! Datagrams of one flow: their payload, and those unanswered, by sequence number. No sockets here.

use std::collections::VecDeque;
use std::ops::Range;

use crate::clock::Nanos;

#[derive(Debug, Clone, Copy)]
struct Slot {
    from: Nanos,
    sent: Nanos,
    open: bool,
}

/// A window over the sequence numbers from the oldest unanswered one on.
#[derive(Debug, Default)]
pub(super) struct Window {
    base: u64,
    slots: VecDeque<Slot>,
    open: usize,
}

/// Meaning of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echoed {
    /// The response to an open datagram, whose latency counts from here.
    Answer(Nanos),
    /// A duplicate, or the response to one already given up.
    Late,
    /// A number that was never sent.
    Never,
}

impl Window {
    /// The numbers from the oldest unanswered one to the newest.
    pub(super) fn waiting(&self) -> Range<u64> {
        self.base..self.next()
    }

    /// Number of the next datagram.
    pub(super) fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Number of datagrams without an answer.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Numbers between the oldest unanswered one and the newest: the size of the window.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Start of the latency of each unanswered datagram.
    pub(super) fn since(&self) -> impl Iterator<Item = Nanos> {
        self.slots.iter().filter(|slot| slot.open).map(|slot| slot.from)
    }

    /// Datagram [`Window::next`] was sent; its latency counts from `from`, its timeout from `sent`.
    pub(super) fn push(&mut self, from: Nanos, sent: Nanos) {
        self.slots.push_back(Slot { from, sent, open: true });
        self.open += 1;
    }

    /// The response to `sequence` arrived.
    pub(super) fn echoed(&mut self, sequence: u64) -> Echoed {
        let Some(index) = sequence.checked_sub(self.base) else { return Echoed::Late };
        let Some(slot) = usize::try_from(index).ok().and_then(|index| self.slots.get_mut(index)) else {
            return Echoed::Never;
        };
        if !std::mem::replace(&mut slot.open, false) {
            return Echoed::Late;
        }
        let from = slot.from;
        self.open -= 1;
        self.trim();
        Echoed::Answer(from)
    }

    /// True if the datagram of that number is unanswered.
    pub(super) fn is_open(&self, sequence: u64) -> bool {
        let index = sequence.checked_sub(self.base).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.slots.get(index)).is_some_and(|slot| slot.open)
    }

    /// Gives up the oldest unanswered datagram, and returns the start of its latency; `None` without one.
    pub(super) fn give_up_oldest(&mut self) -> Option<Nanos> {
        // `trim` keeps an open slot in front.
        let slot = self.slots.pop_front()?;
        self.base += 1;
        self.open -= 1;
        self.trim();
        Some(slot.from)
    }

    /// Gives up the oldest datagram if it is older than `timeout`, and returns the start of its latency.
    pub(super) fn expire(&mut self, now: Nanos, timeout: Nanos) -> Option<Nanos> {
        let is_late = self.slots.front().is_some_and(|slot| now.saturating_sub(slot.sent) > timeout);
        is_late.then(|| self.give_up_oldest()).flatten()
    }

    fn trim(&mut self) {
        while self.slots.front().is_some_and(|slot| !slot.open) {
            self.slots.pop_front();
            self.base += 1;
        }
    }
}

/// The first 24 bytes of a datagram's payload, each number little-endian; the rest is zeros. The session keeps echoes of
/// an earlier run on the same port out of this run's counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) sent: Nanos,
}

impl Header {
    /// Writes the header to the front of `payload`, which holds at least 24 bytes.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let words = [self.session, self.sequence, self.sent].map(u64::to_le_bytes);
        payload[..24].copy_from_slice(words.as_flattened());
    }

    /// The header of `payload`; `None` if it is too short.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let (words, _) = payload.as_chunks::<8>();
        let [session, sequence, sent, ..] = words else { return None };
        Some(Self {
            session: u64::from_le_bytes(*session),
            sequence: u64::from_le_bytes(*sequence),
            sent: u64::from_le_bytes(*sent),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Echoed, Header, Window};

    #[test]
    fn each_datagram_ends_once() {
        let mut window = Window::default();
        (0..5).for_each(|i| window.push(i * 10, i * 10 + 1));
        assert_eq!(window.echoed(2), Echoed::Answer(20));
        assert_eq!(window.echoed(2), Echoed::Late);
        assert_eq!(window.echoed(5), Echoed::Never);
        assert_eq!((window.open(), window.len()), (4, 5));
        assert_eq!(window.since().collect::<Vec<_>>(), [0, 10, 30, 40]);
        assert_eq!(window.echoed(0), Echoed::Answer(0));
        assert_eq!(window.len(), 4);
        // 1 expires, 2 was answered, 3 is too young.
        assert_eq!((window.expire(31, 15), window.expire(31, 15)), (Some(10), None));
        assert_eq!((window.open(), window.len()), (2, 2));
        assert_eq!(window.echoed(1), Echoed::Late);
        assert!(window.give_up_oldest().is_some());
        assert_eq!(window.echoed(4), Echoed::Answer(40));
        assert_eq!(window.give_up_oldest(), None);
        assert_eq!((window.next(), window.open(), window.len()), (5, 0, 0));
        assert_eq!(window.echoed(u64::MAX), Echoed::Never);
    }

    #[test]
    fn what_is_written_is_read() {
        let header = Header { session: 1, sequence: u64::MAX, sent: 3 };
        let mut payload = [9; 30];
        header.write(&mut payload);
        assert_eq!(Header::read(&payload), Some(header));
        assert_eq!(payload[24..], [9; 6]);
        assert_eq!(Header::read(&payload[..23]), None);
    }
}
