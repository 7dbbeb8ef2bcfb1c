//! Detects reordering of `rxlab load` datagrams by their numbers, per flow.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Flows remembered; 56 bytes each. Beyond it all are forgotten, and each starts over.
const MAX_FLOWS: usize = 1 << 18;

/// The flows of one thread, by source address.
#[derive(Debug, Default)]
pub(super) struct Order {
    flows: HashMap<SocketAddr, Flow>,
}

#[derive(Debug, Default)]
pub(super) struct Flow {
    session: u64,
    /// The number after the highest seen.
    next: u64,
}

impl Order {
    pub(super) fn flow(&mut self, from: SocketAddr) -> &mut Flow {
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&from) {
            self.flows.clear();
        }
        self.flows.entry(from).or_default()
    }
}

impl Flow {
    /// True if a datagram arrives after a later one of its session, or for the second time. Its first
    /// 16 bytes are the session and its number in the flow; a shorter one has no number and is not late.
    pub(super) fn is_late(&mut self, datagram: &[u8]) -> bool {
        let (words, _) = datagram.as_chunks::<8>();
        let [session, number, ..] = words else { return false };
        let (session, number) = (u64::from_le_bytes(*session), u64::from_le_bytes(*number));
        if session != self.session {
            *self = Self { session, next: 0 };
        }
        let late = number < self.next;
        self.next = self.next.max(number.saturating_add(1));
        late
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_FLOWS, Order};

    fn datagram(session: u64, number: u64) -> Vec<u8> {
        [session, number, 0].map(u64::to_le_bytes).concat()
    }

    #[test]
    fn late_is_what_comes_behind_a_later_one() {
        let mut order = Order::default();
        let late = |order: &mut Order, port, session, numbers: &[u64]| {
            let flow = order.flow(([10, 0, 0, 1], port).into());
            numbers.iter().filter(|number| flow.is_late(&datagram(session, **number))).count()
        };
        assert_eq!(late(&mut order, 1, 5, &[0, 1, 4, 2, 3, 5, 5]), 3);
        assert_eq!(late(&mut order, 2, 5, &[0, 9]), 0, "another flow");
        assert_eq!(late(&mut order, 1, 6, &[0, 1]), 0, "another session");
        assert_eq!(late(&mut order, 1, 6, &[u64::MAX, 2]), 1);
        assert!(!order.flow(([10, 0, 0, 1], 1).into()).is_late(b"short"));
    }

    #[test]
    fn flows_are_forgotten_before_they_fill_the_memory() {
        let mut order = Order::default();
        for flow in 0..MAX_FLOWS as u32 + 1 {
            order.flow((flow.to_be_bytes(), 1).into());
        }
        assert_eq!(order.flows.len(), 1);
    }
}
