//! Guards: limits for a single slot, beyond which the change is reverted immediately. They are checked
//! while the slot runs, and once more at its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check::Checks;
use super::query::Queries;
use super::spec::Guards;
use super::workload::Driver;
use rxlab_load::SoFar;
use rxlab_path::model::Rates;
use rxlab_path::sample::{Drops, Inventory};
use rxlab_sys::Host;

/// Time between two checks while a slot runs.
const EVERY: Duration = Duration::from_millis(200);
/// Standard deviations of a count by which it must exceed its limit before a slot has ended: the fewer
/// events, the less their rate is known. Ten events are the fewest that can.
const DEVIATIONS: f64 = 3.0;
/// Least time that drops are taken to spread over before a slot has ended: a flip drops some packets at once.
const SPREAD: Duration = Duration::from_secs(1);

/// Figures of one slot that may trip a guard.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trouble {
    /// Failed requests as a fraction of all.
    pub error_rate: f64,
    /// p99 latency in microseconds, if there are enough requests.
    pub p99_us: Option<f64>,
    /// Sign that the load generator was the limit.
    pub client_limited: Option<String>,
}

/// The guard that a whole slot tripped, with its figures. `trouble` and `rates` must be of the same interval.
pub fn tripped(guards: &Guards, trouble: &Trouble, rates: &Rates) -> Option<String> {
    let over = |value: f64, limit: Option<f64>| limit.filter(|limit| value > *limit);
    if let Some(limit) = over(trouble.error_rate, guards.error_rate) {
        return Some(failed(trouble.error_rate, limit));
    }
    if let Some(limit) = over(trouble.p99_us.unwrap_or(0.0), guards.p99_us) {
        let p99 = trouble.p99_us.unwrap_or(0.0);
        return Some(format!("p99 was {p99:.0} us (limit {limit:.0} us)"));
    }
    let limit = guards.drops?;
    let drops = match rates.backlog_drops() {
        Ok(drops) => drops + rates.nics.iter().map(|nic| nic.rx_dropped).sum::<f64>(),
        Err(why) => return Some(format!("drops cannot be counted, so they have no limit: {why}")),
    };
    over(drops, Some(limit)).map(|limit| format!("{drops:.0} packets/s were dropped (limit {limit:.0})"))
}

fn failed(share: f64, limit: f64) -> String {
    format!("{:.2} % of the requests failed (limit {:.2} %)", 100.0 * share, 100.0 * limit)
}

/// True if chance does not explain that `count` events are more than `allowed`.
fn exceeds(count: u64, allowed: f64) -> bool {
    count as f64 - DEVIATIONS * (count as f64).sqrt() > allowed
}

/// The guard that the requests of an unfinished slot trip.
fn tripped_by_load(guards: &Guards, load: &SoFar) -> Option<String> {
    let ended = (load.requests + load.failed) as f64;
    if let Some(limit) = guards.error_rate.filter(|limit| exceeds(load.failed, limit * ended)) {
        return Some(failed(load.failed as f64 / ended, limit));
    }
    // p99 is beyond the limit if more than a hundredth of the requests is.
    let limit = guards.p99_us.filter(|_| exceeds(load.slow, 0.01 * load.timed as f64))?;
    let share = 100.0 * load.slow as f64 / load.timed as f64;
    Some(format!("{share:.1} % of the requests took longer than {limit:.0} us (limit 1 %)"))
}

/// The guard that `drops` packets in an unfinished slot trip, `time` after its begin.
fn tripped_by_drops(guards: &Guards, drops: u64, time: Duration) -> Option<String> {
    let limit = guards.drops?;
    let seconds = time.as_secs_f64();
    exceeds(drops, limit * time.max(SPREAD).as_secs_f64())
        .then(|| format!("{drops} packets were dropped in {seconds:.1} s (limit {limit:.0}/s)"))
}

/// Checks the guards while slots run. [`Watch::begin_slot`] must be called right after each flip, and
/// [`Watch::begin`] again after the washout: counts from before do not trip a guard.
pub struct Watch<'a> {
    host: &'a dyn Host,
    inventory: &'a Inventory,
    /// Limits that end the trial.
    pub(super) guards: Guards,
    pub(super) checks: Checks,
    pub(super) queries: Queries,
    /// Set when the user wants to stop.
    stop: &'a AtomicBool,
    /// Start of the slot, right after the flip.
    began: Instant,
    /// Start of the current part of the slot: its washout, or the measured interval.
    part_began: Instant,
    /// Drops up to then; only read if they are guarded.
    drops: Option<Drops>,
    next: Instant,
    tripped: Option<String>,
}

impl<'a> Watch<'a> {
    /// Nothing is watched before the first slot begins.
    pub fn new(
        host: &'a dyn Host,
        inventory: &'a Inventory,
        guards: Guards,
        checks: Checks,
        queries: Queries,
        stop: &'a AtomicBool,
    ) -> Self {
        let now = Instant::now();
        let (drops, tripped) = (None, None);
        let (began, part_began, next) = (now, now, now);
        Self { host, inventory, guards, checks, queries, stop, began, part_began, drops, next, tripped }
    }

    /// Counts from now on: a slot begins with its washout.
    pub fn begin_slot(&mut self) {
        self.tripped = None;
        self.begin();
        self.began = self.part_began;
    }

    /// Counts from now on: a measured interval begins.
    pub fn begin(&mut self) {
        self.checks.begin();
        self.drops = self.guards.drops.map(|_| Drops::take(self.host, self.inventory));
        self.part_began = Instant::now();
        self.next = self.part_began + EVERY;
    }

    /// True if the slot must end: a guard tripped, or the user wants to stop. `driver`: the workload, if it is a load.
    /// Should be called every few milliseconds: it checks at most every 200 ms.
    pub fn ends(&mut self, driver: Option<&Driver>) -> bool {
        if self.tripped.is_none() && self.next <= Instant::now() {
            let why = self.check(driver);
            let after = self.began.elapsed().as_secs_f64();
            self.tripped = why.map(|why| format!("{why}, {after:.1} s after the slot began"));
            self.next = Instant::now() + EVERY;
        }
        self.tripped.is_some() || self.stop.load(Ordering::SeqCst)
    }

    fn check(&mut self, driver: Option<&Driver>) -> Option<String> {
        let guards_load = self.guards.error_rate.is_some() || self.guards.p99_us.is_some();
        let limit = self.guards.p99_us.map(|us| Duration::from_secs_f64(us.max(0.0) / 1e6));
        let why = driver.filter(|_| guards_load).and_then(|driver| match driver.so_far(limit) {
            Ok(counts) => tripped_by_load(&self.guards, &counts?),
            Err(error) => Some(error.to_string()),
        });
        if why.is_some() {
            return why;
        }
        if let Some(why) = self.checks.tripped().or_else(|| self.queries.tripped()) {
            return Some(why);
        }
        let drops = Drops::take(self.host, self.inventory).since(self.drops.as_ref()?);
        tripped_by_drops(&self.guards, drops, self.part_began.elapsed())
    }

    /// The tripped guard, with its figures.
    pub fn tripped(&self) -> Option<&str> {
        self.tripped.as_deref()
    }

    /// True if the user wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand_chacha::rand_core::Rng;

    use super::{SoFar, Trouble, exceeds, tripped, tripped_by_drops, tripped_by_load};
    use crate::spec::Guards;
    use rxlab_path::model::Rates;
    use rxlab_stats::design::{Purpose, stream};

    #[test]
    fn each_guard_says_its_figures() {
        let guards = Guards { error_rate: Some(0.01), p99_us: Some(500.0), drops: Some(0.0) };
        let fine = Trouble { error_rate: 0.01, p99_us: Some(500.0), client_limited: None };
        let errors = Trouble { error_rate: 0.05, ..fine.clone() };
        let slow = Trouble { p99_us: Some(501.0), ..fine.clone() };
        for (trouble, wanted) in [
            (fine, None),
            (errors, Some("5.00 % of the requests failed (limit 1.00 %)")),
            (slow, Some("p99 was 501 us (limit 500 us)")),
        ] {
            assert_eq!(tripped(&guards, &trouble, &Rates::default()).as_deref(), wanted);
        }
        // What a container sees says nothing of the kernel's backlogs: 0 would pass any limit.
        let masked = Rates { masked: Some("/proc/stat is of fuse.lxcfs".to_owned()), ..Rates::default() };
        let unknown = "drops cannot be counted, so they have no limit: /proc/stat is of fuse.lxcfs";
        assert_eq!(tripped(&guards, &Trouble::default(), &masked).as_deref(), Some(unknown));
        assert_eq!(tripped(&Guards { drops: None, ..guards }, &Trouble::default(), &masked), None);
    }

    /// A rate over a short time is a guess: two failures of the first ten requests are not 20 %.
    #[test]
    fn few_events_trip_nothing_before_the_slot_ends() {
        assert!(!exceeds(9, 0.0) && exceeds(10, 0.0));
        // At 1 %: 20 of 1000 may still be chance, 25 are not.
        assert!(!exceeds(20, 10.0) && exceeds(26, 10.0));
        // A true rate at the limit does not trip it however long the slot is.
        assert!((1..1000).all(|requests| !exceeds(requests, requests as f64)));
    }

    /// The fraction of 1000 slots of `looks` looks that trip before their end, if `ratio` times as many
    /// independent events occur as are allowed: `allowed` between two looks.
    fn trips(looks: usize, allowed: f64, ratio: f64) -> f64 {
        let mut rng = stream(5, Purpose::Noise);
        // Products of uniform numbers: a Poisson count.
        let mut events = || {
            let (limit, mut product, mut count) = ((-allowed * ratio).exp(), 1.0, 0);
            loop {
                product *= (f64::from(rng.next_u32()) + 0.5) / 2_f64.powi(32);
                if product < limit {
                    return count;
                }
                count += 1;
            }
        };
        let mut slot = || {
            let mut count = 0;
            (1..=looks).any(|look| {
                count += events();
                exceeds(count, allowed * look as f64)
            })
        };
        (0..1000).filter(|_| slot()).count() as f64 / 1000.0
    }

    /// The figures are in docs/trials.md.
    #[test]
    fn a_rate_at_the_limit_waits_for_the_end_of_the_slot() {
        let (short, long) = (10, 300);
        assert!(trips(short, 2.0, 1.0) < 0.005 && trips(long, 2.0, 1.0) < 0.02);
        assert_eq!(trips(long, 2.0, 0.8), 0.0);
        assert!(trips(short, 2.0, 4.0) > 0.99 && trips(long, 2.0, 1.5) > 0.99);
    }

    #[test]
    fn requests_trip_a_slot_that_continues() {
        let guards = Guards { p99_us: Some(500.0), ..Guards::default() };
        let load = SoFar { requests: 900, failed: 100, slow: 40, timed: 1000, class: None };
        let tripped = |load: &SoFar| tripped_by_load(&guards, load);
        assert_eq!(tripped(&load).as_deref(), Some("10.00 % of the requests failed (limit 1.00 %)"));
        assert_eq!(
            tripped(&SoFar { failed: 9, ..load }).as_deref(),
            Some("4.0 % of the requests took longer than 500 us (limit 1 %)")
        );
        assert_eq!(tripped(&SoFar { failed: 9, slow: 20, ..load }), None);
        assert_eq!(tripped(&SoFar::default()), None);
    }

    #[test]
    fn a_burst_of_drops_counts_as_that_of_a_second() {
        let guards = Guards { drops: Some(100.0), ..Guards::default() };
        let after = |drops, ms| tripped_by_drops(&guards, drops, Duration::from_millis(ms));
        assert_eq!(after(130, 200), None);
        assert_eq!(after(400, 200).as_deref(), Some("400 packets were dropped in 0.2 s (limit 100/s)"));
        assert_eq!(after(400, 5_000), None);
        let none = Guards { drops: Some(0.0), ..Guards::default() };
        assert_eq!(tripped_by_drops(&none, 9, Duration::from_secs(60)), None, "the end of the slot tells");
        assert!(tripped_by_drops(&none, 10, Duration::from_secs(60)).is_some());
        assert_eq!(tripped_by_drops(&Guards::default(), 1_000_000, Duration::ZERO), None);
    }
}
