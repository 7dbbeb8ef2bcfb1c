//! Requests outstanding on one connection, oldest first. Requests sent together are one entry, so a deep
//! pipeline costs no more than a shallow one.

use std::collections::VecDeque;

use crate::clock::Nanos;

/// Requests that were sent together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Batch {
    /// Start of the latency: the send, or the intended send.
    from: Nanos,
    /// Start of the timeout.
    sent: Nanos,
    count: usize,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    batches: VecDeque<Batch>,
    requests: usize,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.requests
    }

    /// Adds `count` requests sent at `sent`, whose latency counts from `from`.
    pub(super) fn push(&mut self, count: usize, from: Nanos, sent: Nanos) {
        self.requests += count;
        match self.batches.back_mut() {
            Some(last) if last.from == from && last.sent == sent => last.count += count,
            _ => self.batches.push_back(Batch { from, sent, count }),
        }
    }

    /// Takes the oldest requests, at most `count` and all with the same time; returns the start of their
    /// latency and their count. `None` if nothing is outstanding.
    pub(super) fn take(&mut self, count: usize) -> Option<(Nanos, usize)> {
        let first = self.batches.front_mut()?;
        let (from, taken) = (first.from, count.min(first.count));
        first.count -= taken;
        self.requests -= taken;
        if first.count == 0 {
            self.batches.pop_front();
        }
        Some((from, taken))
    }

    /// Send time of the oldest.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.batches.front().map(|batch| batch.sent)
    }

    /// Start of the latency of each, with counts.
    pub(super) fn since(&self) -> impl Iterator<Item = (Nanos, usize)> {
        self.batches.iter().map(|batch| (batch.from, batch.count))
    }

    /// Start of the latency of those that have waited longer than `timeout`, with counts.
    pub(super) fn overdue(&self, now: Nanos, timeout: Nanos) -> impl Iterator<Item = (Nanos, usize)> {
        let late = self.batches.iter().take_while(move |batch| now.saturating_sub(batch.sent) > timeout);
        late.map(|batch| (batch.from, batch.count))
    }

    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.requests = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Waiting;

    #[test]
    fn answers_go_to_the_oldest_first() {
        let mut waiting = Waiting::default();
        waiting.push(3, 10, 10);
        waiting.push(2, 10, 10);
        waiting.push(1, 10, 20);
        assert_eq!((waiting.len(), waiting.oldest()), (6, Some(10)));
        assert_eq!(waiting.take(4), Some((10, 4)));
        assert_eq!(waiting.take(4), Some((10, 1)), "not beyond the batch");
        assert_eq!((waiting.len(), waiting.oldest()), (1, Some(20)));
        assert_eq!(waiting.since().collect::<Vec<_>>(), [(10, 1)]);
        assert_eq!(waiting.take(9), Some((10, 1)));
        assert_eq!((waiting.take(1), waiting.len(), waiting.oldest()), (None, 0, None));
    }
}
