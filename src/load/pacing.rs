//! The schedule of the open loop: when each request of the whole session is due.
//!
//! Request `n` of the session is due at `origin + n / rate`, computed afresh for every `n`, so the
//! rate is exact over any time: nothing accumulates, and a stall is followed by exactly the
//! requests that it delayed. Thread `i` of `T` takes the requests with `n mod T = i`, which keeps
//! the schedule global without a shared counter, also below one request a second for each thread.
//! Requests that are due and unsent are a range of numbers, not a queue: no memory is bounded here
//! because none is used.

use super::clock::{Nanos, SECOND};

/// One thread's part of the schedule.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    origin: Nanos,
    rate: f64,
    index: u64,
    threads: u64,
    /// How many of this thread's requests were taken.
    taken: u64,
    /// How many of them were due at the last [`Schedule::cut`].
    cut: u64,
}

impl Schedule {
    /// The part of thread `index` of `threads` in `rate` requests a second from `origin` on.
    pub(super) fn new(origin: Nanos, rate: f64, index: usize, threads: usize) -> Self {
        Self { origin, rate, index: index as u64, threads: threads as u64, taken: 0, cut: 0 }
    }

    /// When this thread's request `k` is due.
    fn due_at(&self, k: u64) -> Nanos {
        let n = k * self.threads + self.index;
        self.origin + (n as f64 * SECOND as f64 / self.rate) as Nanos
    }

    /// When the next request is due.
    pub(super) fn next(&self) -> Nanos {
        self.due_at(self.taken)
    }

    /// Takes the next request if it is due; gives the moment for which it was intended.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.next();
        (due <= now).then(|| {
            self.taken += 1;
            due
        })
    }

    /// How many requests of this thread became due since the last cut.
    pub(super) fn cut(&mut self, now: Nanos) -> u64 {
        let since = now.saturating_sub(self.origin) as f64 / SECOND as f64 * self.rate;
        // The estimate can be off by rounding; `due_at` decides.
        let mut due = (since / self.threads as f64) as u64;
        while self.due_at(due) <= now {
            due += 1;
        }
        while due > 0 && self.due_at(due - 1) > now {
            due -= 1;
        }
        let fresh = due.saturating_sub(self.cut);
        self.cut = due;
        fresh
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{SECOND, Schedule};

    #[test]
    fn the_rate_is_exact_over_any_time() {
        let schedule = Schedule::new(7, 3.0, 0, 1);
        assert_eq!([0, 1, 2, 3].map(|k| schedule.due_at(k)), [7, 333_333_340, 666_666_673, SECOND + 7]);
        // After a day at an awkward rate the error is below a nanosecond, not an accumulated one.
        assert_eq!(schedule.due_at(3 * 86_400), 86_400 * SECOND + 7);
    }

    #[test]
    fn rates_below_the_thread_count_and_below_one() {
        let half: Vec<_> = (0..4).map(|i| Schedule::new(0, 0.5, i, 4).next() / SECOND).collect();
        assert_eq!(half, [0, 2, 4, 6]);
    }

    #[test]
    fn a_stall_is_followed_by_exactly_what_it_delayed() {
        let mut schedule = Schedule::new(0, 1000.0, 0, 1);
        assert_eq!(schedule.take(0), Some(0));
        assert_eq!(schedule.take(0), None);
        let delayed: Vec<_> = std::iter::from_fn(|| schedule.take(5_000_000)).collect();
        assert_eq!(delayed, [1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
    }

    proptest! {
        #[test]
        fn threads_share_one_schedule(rate in 0.1f64..1e6, threads in 1usize..9, take in 1u64..200) {
            let whole = Schedule::new(0, rate, 0, 1);
            let mut dealt: Vec<_> = (0..threads)
                .flat_map(|i| {
                    let part = Schedule::new(0, rate, i, threads);
                    (0..take).map(move |k| part.due_at(k)).collect::<Vec<_>>()
                })
                .collect();
            dealt.sort_unstable();
            let expected: Vec<_> = (0..take * threads as u64).map(|n| whole.due_at(n)).collect();
            prop_assert_eq!(dealt, expected);
        }

        #[test]
        fn cuts_count_each_request_once(rate in 0.1f64..1e6, mut cuts in proptest::collection::vec(0u64..10_000_000_000, 1..20)) {
            cuts.sort_unstable();
            let mut schedule = Schedule::new(0, rate, 1, 3);
            let total: u64 = cuts.iter().map(|now| schedule.cut(*now)).sum();
            let last = *cuts.last().expect("not empty");
            prop_assert!(schedule.due_at(total) > last);
            prop_assert!(total == 0 || schedule.due_at(total - 1) <= last);
        }
    }
}
