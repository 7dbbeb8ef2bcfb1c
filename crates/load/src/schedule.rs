//! The schedule of the open loop: when each request of the whole session is due.
//!
//! Each request's moment is computed from the rate and its number, so the rate is exact over any time:
//! no error accumulates, and a stall is followed by exactly the requests that it delayed. Thread `i`
//! of `T` takes the requests with `n mod T = i`, which keeps the schedule global without a shared
//! counter, also below one request per second and thread. With random arrivals each thread has its
//! own Poisson process with its share of the rate; together they are one with the whole rate.
//! Requests due but unsent are a range of numbers, not a queue, so they use no memory.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::clock::Nanos;
use super::rate::Rate;

/// Key of all random arrivals. Each thread of each seed has its own stream under it, so runs with the same
/// seed have the same arrivals and differ only in the target, and those of other seeds are independent.
const KEY: u64 = 0x7278_6c61_6200;

/// Groups in which late requests are looked at: as fine as a histogram of three digits, and bounded at any rate.
const GROUPS: u64 = 10_000;

/// One thread's part of the schedule.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    origin: Nanos,
    rate: Rate,
    arrivals: Arrivals,
    /// Moment of the next request; [`Nanos::MAX`] without one.
    next: Nanos,
    /// This thread's requests that were due at the last [`Schedule::cut`].
    cut: u64,
    /// Requests in all, and how many may still be taken.
    most: u64,
    left: u64,
}

#[derive(Debug, Clone)]
enum Arrivals {
    Even {
        index: u64,
        threads: u64,
        taken: u64,
    },
    /// Position of the next request to take.
    Poisson(Box<Process>),
}

/// Random arrivals, in requests of the whole schedule.
#[derive(Debug, Clone)]
struct Process {
    random: ChaCha8Rng,
    threads: f64,
    at: f64,
}

impl Process {
    fn new(index: usize, threads: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(KEY);
        random.set_stream(index as u64);
        let mut process = Self { random, threads: threads as f64, at: 0.0 };
        process.advance();
        process
    }

    /// Gaps of a Poisson process are exponential.
    fn advance(&mut self) {
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        self.at -= (1.0 - uniform).ln() * self.threads;
    }
}

impl Schedule {
    /// The part of thread `index` of `threads` in `rate` from `origin` on, up to `most` requests;
    /// `random` makes it a Poisson process.
    ///
    /// All threads must use the same `origin`, `rate` and `threads`, and each its own `index` below `threads`:
    /// together they are then exactly the schedule of the session.
    pub(super) fn new(
        origin: Nanos,
        rate: &Rate,
        random: bool,
        index: usize,
        threads: usize,
        most: u64,
    ) -> Self {
        let arrivals = if random {
            Arrivals::Poisson(Box::new(Process::new(index, threads)))
        } else {
            Arrivals::Even { index: index as u64, threads: threads as u64, taken: 0 }
        };
        let mut schedule = Self { origin, rate: rate.clone(), arrivals, next: 0, cut: 0, most, left: most };
        schedule.next = schedule.find_next();
        schedule
    }

    fn find_next(&self) -> Nanos {
        if self.left == 0 {
            return Nanos::MAX;
        }
        self.moment(match &self.arrivals {
            Arrivals::Even { index, threads, taken } => number(*taken, *index, *threads),
            Arrivals::Poisson(process) => process.at,
        })
    }

    /// Moment of request `n` of the whole schedule.
    fn moment(&self, n: f64) -> Nanos {
        self.rate.moment(n).map_or(Nanos::MAX, |at| self.origin.saturating_add(at))
    }

    /// Moment of the next request.
    pub(super) fn next(&self) -> Nanos {
        self.next
    }

    /// Takes the next request if it is due; returns its intended moment, from which its latency must be counted.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.next;
        (due <= now).then(|| {
            match &mut self.arrivals {
                Arrivals::Even { taken, .. } => *taken += 1,
                Arrivals::Poisson(process) => process.advance(),
            }
            self.left -= 1;
            self.next = self.find_next();
            due
        })
    }

    /// Moments of the requests due by `now` and not taken, oldest first, each with the number of requests for which it
    /// stands: of even arrivals at a rate far above what can be sent, several that follow each other.
    pub(super) fn late(&self, now: Nanos) -> impl Iterator<Item = (Nanos, u64)> + use<> {
        let mut rest = self.clone();
        let group = (self.late_count(now) / GROUPS).max(1);
        std::iter::from_fn(move || {
            let count = group.min(rest.late_count(now));
            let moment = rest.take(now)?;
            rest.pass(count - 1);
            Some((moment, count))
        })
    }

    /// Number of the requests due by `now` and not taken.
    pub(super) fn late_count(&self, now: Nanos) -> u64 {
        match &self.arrivals {
            Arrivals::Even { taken, .. } => self.due_even(now).saturating_sub(*taken).min(self.left),
            Arrivals::Poisson(_) => {
                let mut rest = self.clone();
                std::iter::from_fn(|| rest.take(now)).count() as u64
            }
        }
    }

    /// Passes over the next `count` requests of even arrivals.
    fn pass(&mut self, count: u64) {
        if let Arrivals::Even { taken, .. } = &mut self.arrivals {
            *taken += count;
            self.left -= count;
            self.next = self.find_next();
        }
    }

    /// Drops the requests that are due and not taken.
    pub(super) fn skip(&mut self, now: Nanos) {
        match self.arrivals {
            Arrivals::Even { .. } => self.pass(self.late_count(now)),
            Arrivals::Poisson(_) => while self.take(now).is_some() {},
        }
    }

    /// Even arrivals of this thread up to `now`, taken or not.
    fn due_even(&self, now: Nanos) -> u64 {
        let Arrivals::Even { index, threads, .. } = &self.arrivals else { return 0 };
        // The estimate can be off by rounding; the moments decide.
        let mut due = (self.rate.due(now.saturating_sub(self.origin)) / *threads as f64) as u64;
        while self.moment(number(due, *index, *threads)) <= now {
            due += 1;
        }
        while due > 0 && self.moment(number(due - 1, *index, *threads)) > now {
            due -= 1;
        }
        due.min(self.most)
    }

    /// Ends the schedule: nothing becomes due after `now`.
    pub(super) fn close(&mut self, now: Nanos) {
        let late = self.late_count(now);
        self.most -= self.left - late;
        self.left = late;
        self.next = self.find_next();
    }

    /// Requests of this thread that became due since the last cut. `now` should never go back: what was counted
    /// as due stays counted.
    pub(super) fn cut(&mut self, now: Nanos) -> u64 {
        let due = match &self.arrivals {
            Arrivals::Poisson(process) => {
                // Taken requests were due: only the late ones have to be counted one by one.
                let (mut process, mut count) = (process.clone(), self.most - self.left);
                while count < self.most && self.moment(process.at) <= now {
                    process.advance();
                    count += 1;
                }
                count
            }
            Arrivals::Even { .. } => self.due_even(now),
        };
        let fresh = due.saturating_sub(self.cut);
        self.cut += fresh;
        fresh
    }
}

/// Position in the whole schedule of request `k` of thread `index`, for even arrivals: in the middle
/// of its share, so that any time has as many requests as the rate requires, to the nearest.
fn number(k: u64, index: u64, threads: u64) -> f64 {
    (k * threads + index) as f64 + 0.5
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Schedule, number};
    use crate::clock::{MILLISECOND, Nanos, SECOND};
    use crate::rate::Rate;
    use crate::spec::Spec;

    fn even(origin: Nanos, rate: f64, index: usize, threads: usize) -> Schedule {
        Schedule::new(origin, &Rate::steady(rate), false, index, threads, u64::MAX)
    }

    fn all(mut schedule: Schedule, until: Nanos) -> Vec<Nanos> {
        std::iter::from_fn(|| schedule.take(until)).collect()
    }

    /// What one slot of a trial could not send was once sent in the next, with the other arm.
    #[test]
    fn what_is_skipped_is_neither_sent_nor_due_later() {
        for poisson in [false, true] {
            let mut schedule = Schedule::new(0, &Rate::steady(100.0), poisson, 0, 1, u64::MAX);
            let whole = all(schedule.clone(), 2 * SECOND);
            let late = whole.iter().filter(|due| **due <= SECOND).count();
            assert_eq!(schedule.cut(SECOND), late as u64);
            schedule.skip(SECOND);
            assert_eq!(schedule.cut(2 * SECOND), (whole.len() - late) as u64);
            assert_eq!(all(schedule, 2 * SECOND), whole[late..]);
        }
    }

    #[test]
    fn the_rate_is_exact_over_any_time() {
        assert_eq!(all(even(7, 3.0, 0, 1), SECOND + 7), [166_666_673, 500_000_007, 833_333_340]);
        // After a day at an awkward rate the error is below a nanosecond: it does not accumulate.
        assert_eq!(even(7, 3.0, 0, 1).moment(3.0 * 86_400.0), 86_400 * SECOND + 7);
    }

    #[test]
    fn rates_below_the_thread_count_and_below_one() {
        let half: Vec<_> = (0..4).map(|i| even(0, 0.5, i, 4).next() / SECOND).collect();
        assert_eq!(half, [1, 3, 5, 7]);
        // Twenty seconds of one every two seconds are ten, not eleven.
        assert_eq!(all(even(0, 0.5, 0, 1), 20 * SECOND).len(), 10);
    }

    #[test]
    fn a_stall_is_followed_by_exactly_what_it_delayed() {
        let mut schedule = even(0, 1000.0, 0, 1);
        assert_eq!(schedule.take(500_000), Some(500_000));
        assert_eq!(schedule.take(500_000), None);
        let delayed: Vec<_> = std::iter::from_fn(|| schedule.take(5_000_000)).collect();
        assert_eq!(delayed, [1_500_000, 2_500_000, 3_500_000, 4_500_000]);
    }

    #[test]
    fn a_closed_schedule_keeps_what_was_due() {
        let mut schedule = even(0, 1000.0, 0, 1);
        assert_eq!(schedule.take(3_000_000), Some(500_000));
        let late = [(1_500_000, 1), (2_500_000, 1)];
        assert_eq!(schedule.late(3_000_000).collect::<Vec<_>>(), late);
        schedule.close(3_000_000);
        assert_eq!(schedule.cut(SECOND), 3);
        assert_eq!(all(schedule.clone(), SECOND), late.map(|(moment, _)| moment));
        assert_eq!(schedule.late(SECOND).collect::<Vec<_>>(), late, "reading takes nothing");
    }

    /// At 50,000,000/s a load of a second once took minutes: each glance went over every late request.
    #[test]
    fn late_requests_of_any_rate_are_few_groups_and_all_of_them() {
        let mut schedule = even(0, 5e7, 0, 1);
        let groups: Vec<(Nanos, u64)> = schedule.late(SECOND).collect();
        assert!(groups.len() <= 2 * super::GROUPS as usize, "{}", groups.len());
        assert_eq!(groups.iter().map(|(_, count)| count).sum::<u64>(), 50_000_000);
        assert!(groups.is_sorted() && groups[0].0 < 100, "oldest first");
        schedule.skip(SECOND);
        assert_eq!((schedule.late_count(SECOND), schedule.cut(SECOND)), (0, 50_000_000));
        assert!(schedule.take(SECOND + 100).is_some(), "it goes on");
    }

    #[test]
    fn a_rate_that_ends_at_nothing_is_over() {
        let rate: Rate = "10..0/1s".parse().expect("a rate");
        let mut schedule = Schedule::new(0, &rate, false, 0, 1, u64::MAX);
        assert_eq!(schedule.cut(1000 * SECOND), 5);
        assert_eq!(all(schedule.clone(), 1000 * SECOND).len(), 5);
        assert_eq!(schedule.cut(2000 * SECOND), 0);
    }

    /// Arrivals of 100 s at 1000 per second, by generators that share the rate and have these seeds.
    fn arrivals(seeds: &[u32], threads: usize) -> Vec<Nanos> {
        let rate = Rate::steady(1000.0 / seeds.len() as f64);
        let parts = seeds.iter().flat_map(|seed| {
            let url = "http://h:1/".parse().expect("a URL");
            let spec = Spec { poisson: true, seed: *seed, threads, ..Spec::new(url) };
            let rate = &rate;
            (0..threads).flat_map(move |thread| {
                let index = spec.arrivals(thread);
                all(Schedule::new(0, rate, true, index, threads, u64::MAX), 100 * SECOND)
            })
        });
        let mut arrivals: Vec<Nanos> = parts.collect();
        arrivals.sort_unstable();
        arrivals
    }

    /// Deviation of `arrivals` from a Poisson process of 1000 per second over 100 s. Each bound is four
    /// standard deviations or more, or a probability of 1 in 1000.
    fn fault(arrivals: &[Nanos]) -> Option<String> {
        let count = arrivals.len() as f64;
        if (count - 1e5).abs() > 4.0 * 1e5f64.sqrt() {
            return Some(format!("{count} arrivals"));
        }
        let gap = |pair: &[Nanos]| (pair[1] - pair[0]) as f64 / MILLISECOND as f64;
        let gaps: Vec<f64> = arrivals.windows(2).map(gap).collect();
        // Kolmogorov-Smirnov: the largest distance from the exponential distribution.
        let mut sorted = gaps.clone();
        sorted.sort_by(f64::total_cmp);
        let distance = |(rank, gap): (usize, &f64)| (rank as f64 / count - (1.0 - (-gap).exp())).abs();
        let largest = sorted.iter().enumerate().map(distance).fold(0.0, f64::max);
        if largest > 1.95 / count.sqrt() {
            return Some(format!("gaps are {largest} from exponential"));
        }
        let products = gaps.windows(2).map(|pair| (pair[0] - 1.0) * (pair[1] - 1.0));
        let correlation = products.sum::<f64>() / count;
        if correlation.abs() > 4.0 / count.sqrt() {
            return Some(format!("successive gaps correlate by {correlation}"));
        }
        // The variance of counts in windows of 100 ms equals their mean.
        let mut counts = vec![0.0; 1000];
        arrivals.iter().for_each(|at| counts[(at / (100 * MILLISECOND)) as usize] += 1.0);
        let variance = counts.iter().map(|n: &f64| (n - 100.0).powi(2)).sum::<f64>() / 1000.0;
        let dispersion = variance / 100.0;
        ((dispersion - 1.0).abs() > 4.0 * (2.0f64 / 1000.0).sqrt())
            .then(|| format!("dispersion of counts is {dispersion}"))
    }

    #[test]
    fn random_arrivals_of_threads_and_machines_are_one_poisson_process() {
        for (seeds, threads) in [(&[0][..], 1), (&[0], 8), (&[7, 8], 1), (&[1, 2, u32::MAX], 4)] {
            assert_eq!(fault(&arrivals(seeds, threads)), None, "seeds {seeds:?}, {threads} threads");
        }
        // Two machines with the same seed send at the same moments; even arrivals are not random.
        assert!(fault(&arrivals(&[7, 7], 2)).is_some(), "the check itself is broken");
        assert!(fault(&all(even(0, 1000.0, 0, 1), 100 * SECOND)).is_some(), "the check itself is broken");
    }

    proptest! {
        #[test]
        fn threads_share_one_schedule(rate in 0.1f64..1e6, threads in 1usize..9, take in 1u64..200) {
            let whole = even(0, rate, 0, 1);
            let mut dealt: Vec<_> = (0..threads)
                .flat_map(|i| {
                    let part = even(0, rate, i, threads);
                    (0..take).map(move |k| part.moment(number(k, i as u64, threads as u64))).collect::<Vec<_>>()
                })
                .collect();
            dealt.sort_unstable();
            let expected: Vec<_> = (0..take * threads as u64).map(|n| whole.moment(n as f64 + 0.5)).collect();
            prop_assert_eq!(dealt, expected);
        }

        /// Each request is counted in exactly one cut.
        #[test]
        fn cuts_count_each_request_once(
            rate in 0.1f64..1e4, random in proptest::bool::ANY,
            mut cuts in proptest::collection::vec(0u64..SECOND, 1..20),
            most in 0u64..2000, takes in proptest::bool::ANY,
        ) {
            cuts.sort_unstable();
            let ramp: Rate = format!("{rate}..1/500ms,{rate}").parse().expect("a rate");
            for rate in [Rate::steady(rate), ramp] {
                let mut schedule = Schedule::new(0, &rate, random, 1, 3, most);
                let (whole, mut total) = (schedule.clone(), 0);
                for now in &cuts {
                    total += schedule.cut(*now);
                    // Some due requests are late, some taken.
                    while takes && schedule.take(*now).is_some() {}
                }
                let last = *cuts.last().expect("not empty");
                prop_assert_eq!(total, all(whole, last).len() as u64);
            }
        }
    }
}
