//! Sorts events by time. They arrive almost sorted: an event's time is taken before its room in the
//! ring buffer, and an interrupt, another CPU or the hypervisor may come between the two.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::Event;

/// Maximum delay, in nanoseconds behind the latest event, at which an event still finds its place. Only a CPU
/// that the hypervisor took away takes longer between the clock and the ring, and such a CPU has
/// no other events meanwhile: its own order is never wrong.
const HORIZON: u64 = 10_000_000;

/// Keeps events until no earlier one is expected.
#[derive(Debug, Default)]
pub struct Order {
    // The number keeps events of the same time in the order in which they came.
    waiting: BinaryHeap<Reverse<(u64, u64, Event)>>,
    came: u64,
    latest: u64,
}

impl Order {
    /// Takes an event.
    pub fn push(&mut self, event: Event) {
        self.latest = self.latest.max(event.at);
        self.came += 1;
        self.waiting.push(Reverse((event.at, self.came, event)));
    }

    /// The next event that is old enough.
    pub fn pop(&mut self) -> Option<Event> {
        let Reverse((at, ..)) = self.waiting.peek()?;
        if at.saturating_add(HORIZON) > self.latest { None } else { self.rest() }
    }

    /// The next event when no more will come.
    pub fn rest(&mut self) -> Option<Event> {
        self.waiting.pop().map(|Reverse((.., event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::{HORIZON, Order};
    use crate::probe::trace::event::{Event, Kind};
    use crate::units::CpuId;

    fn event(at: u64, cpu: u32) -> Event {
        Event { at, cpu: CpuId(cpu), lost: 0, kind: Kind::IpiEntry }
    }

    #[test]
    fn an_event_waits_until_no_earlier_one_can_come() {
        let mut order = Order::default();
        for event in [event(50, 1), event(10, 0), event(50, 0)] {
            order.push(event);
        }
        assert_eq!(order.pop(), None);
        order.push(event(10 + HORIZON, 0));
        assert_eq!(order.pop(), Some(event(10, 0)));
        assert_eq!(order.pop(), None);
        let rest: Vec<Event> = std::iter::from_fn(|| order.rest()).collect();
        assert_eq!(rest, [event(50, 1), event(50, 0), event(10 + HORIZON, 0)]);
    }
}
