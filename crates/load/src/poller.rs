//! An epoll with its event buffer: waits for sockets, for a moment in time, and for the session.

use std::os::fd::AsFd;
use std::sync::Arc;

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::{ClockId, clock_nanosleep_relative};

use super::clock::{Clock, MICROSECOND, MILLISECOND, Nanos, SECOND};
use super::histogram::new_histogram;
use super::pacing::Pacing;

const EVENTS: usize = 256;
/// The token of the session's eventfd; sockets count from 0.
const WAKE: u64 = u64::MAX;
/// Sleeps overrun by tens of microseconds: polling begins this much earlier.
const SPIN: Nanos = 60 * MICROSECOND;
/// Interval of coarse wake-ups while something is due.
const TICK: Nanos = MILLISECOND;

/// A ready socket, by the index it was added with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) index: usize,
    pub(super) flags: EventFlags,
}

pub(super) struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    pacing: Pacing,
    clock: Clock,
    /// Lag of the loop; see [`Poller::wait`].
    lag: Histogram<u64>,
    /// End of the last wait.
    woke: Nanos,
    /// Time for which the loop worked or was kept from it; see [`Poller::take_busy`].
    busy: Nanos,
    /// Start of the time not yet included in `busy`.
    busy_since: Nanos,
    /// The last wait was a fruitless poll before a scheduled send: the time in between counts as polling.
    polled: bool,
    // Registered with the epoll, so it must live as long.
    _wake: Arc<OwnedFd>,
}

impl Poller {
    /// A poller that also wakes up when the eventfd `wake` is written.
    pub(super) fn new(wake: Arc<OwnedFd>, pacing: Pacing, clock: Clock) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        // Edge-triggered: every write is an edge, so the eventfd need not be read.
        epoll::add(&epoll, &*wake, EventData::new_u64(WAKE), EventFlags::IN | EventFlags::ET)?;
        let mut events = Vec::with_capacity(EVENTS);
        // Sleeping to the nanosecond needs epoll_pwait2 (kernel 5.11): fail now without it.
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&Timespec::default()))?;
        Ok(Self {
            epoll,
            events,
            pacing,
            clock,
            lag: new_histogram(),
            woke: Nanos::MAX,
            busy: 0,
            busy_since: clock.now(),
            polled: false,
            _wake: wake,
        })
    }

    /// A poller of a thread that nothing wakes.
    #[cfg(test)]
    pub(super) fn alone(pacing: Pacing, clock: Clock) -> Self {
        use rustix::event::{EventfdFlags, eventfd};
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"));
        Self::new(wake, pacing, clock).expect("a poller")
    }

    /// The time on the session's clock.
    pub(super) fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Adds a socket; `index` names it in [`Ready`] and must not be `usize::MAX`, the token of the eventfd.
    pub(super) fn add(&self, socket: impl AsFd, index: usize, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, EventData::new_u64(index as u64), flags)
    }

    /// Changes the events reported for a socket.
    pub(super) fn change(&self, socket: impl AsFd, index: usize, flags: EventFlags) -> Result<(), Errno> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), flags)
    }

    /// Waits for sockets, at most until `until`; with `exact`, `until` is a scheduled send, and the pacing
    /// determines how to wait. `now` must be the time at which the loop has finished its work. Adds the time spent
    /// polling to `spun`; returns the current time.
    ///
    /// Counts the lag of the loop: how long it worked since the last wait ended, during which a ready
    /// socket went unnoticed, or by how much its sleep overran.
    pub(super) fn wait(&mut self, now: Nanos, until: Nanos, exact: bool, spun: &mut Nanos) -> Nanos {
        let left = until.saturating_sub(now);
        let spinning = self.pacing == Pacing::Precise && exact && left > 0 && left <= SPIN;
        let timeout = match (self.pacing, left) {
            (Pacing::Precise, left) if exact => left.saturating_sub(SPIN),
            (Pacing::Coarse, 1..TICK) if exact => {
                // New events wait as well. A signal only shortens the tick.
                let _ = clock_nanosleep_relative(ClockId::Monotonic, &timespec(TICK));
                0
            }
            (_, left) => left,
        };
        let timeout = timespec(timeout);
        let between = now.saturating_sub(self.busy_since);
        if self.polled {
            *spun += between
        } else {
            self.busy += between
        }
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            // EBADF, EFAULT, EINVAL: impossible for an epoll that this thread owns.
            Err(errno) => panic!("epoll_wait on an owned epoll failed: {errno}"),
        }
        let after = self.clock.now();
        let worked = now.saturating_sub(self.woke);
        (self.woke, self.busy_since) = (after, after);
        self.polled = spinning && self.events.is_empty() && after < until;
        if !self.events.is_empty() {
            self.lag.saturating_record(worked);
        } else if spinning {
            // Polling every microsecond says nothing about the loop.
            *spun += after.saturating_sub(now);
        } else {
            self.lag.saturating_record(worked.max(after.saturating_sub(until)));
        }
        after
    }

    /// Starts the load now: time spent opening connections is not lag. Must be called before the first wait that
    /// counts.
    pub(super) fn begin(&mut self) {
        self.take_lag();
        self.woke = Nanos::MAX;
        self.take_busy(self.clock.now());
    }

    /// Time for which the loop was at work between its waits, up to `now`, since it was last taken. All of
    /// that time counts, whoever had the CPU: a thread kept from its CPU while it has work is as full as
    /// one that works all the time. Polling before a scheduled send does not count.
    pub(super) fn take_busy(&mut self, now: Nanos) -> Nanos {
        let busy = self.busy + now.saturating_sub(self.busy_since);
        (self.busy, self.busy_since) = (0, now.max(self.busy_since));
        busy
    }

    /// Lags since they were last taken.
    pub(super) fn take_lag(&mut self) -> Histogram<u64> {
        std::mem::replace(&mut self.lag, new_histogram())
    }

    /// Number of events of the last wait.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// One of them; `None` for the session's own.
    pub(super) fn ready(&self, event: usize) -> Option<Ready> {
        let event = self.events.get(event)?;
        let token = event.data.u64();
        (token != WAKE).then_some(Ready { index: token as usize, flags: event.flags })
    }
}

fn timespec(time: Nanos) -> Timespec {
    Timespec { tv_sec: (time / SECOND) as i64, tv_nsec: (time % SECOND) as i64 }
}

#[cfg(test)]
mod tests {
    use super::{Clock, MILLISECOND, Pacing, Poller, SPIN};

    /// Time between two waits is work, whoever had the CPU; polling and sleeping are not.
    #[test]
    fn the_loop_is_busy_between_its_waits_only() {
        let clock = Clock::start();
        let mut poller = Poller::alone(Pacing::Precise, clock);
        poller.begin();
        let mut spun = 0;
        // Where something else has the CPU before the sleep, that is shorter.
        let is_apart = (0..20).any(|_| {
            let begun = clock.now();
            poller.take_busy(begun);
            spun = 0;
            // The first sleeps, and polls only if it wakes up in time; the second has no time to sleep.
            for time in [MILLISECOND, SPIN / 2] {
                let mut now = clock.now();
                let until = now + time;
                while now < until {
                    now = poller.wait(now, until, true, &mut spun);
                }
            }
            let busy = poller.take_busy(clock.now());
            let slept = MILLISECOND - SPIN;
            spun > 0 && busy + spun + slept <= clock.now() - begun
        });
        assert!(is_apart, "sleeping or polling counts as work");
        let begun = clock.now();
        while clock.now() < begun + 10 * MILLISECOND {}
        poller.wait(clock.now(), 0, false, &mut spun);
        while clock.now() < begun + 20 * MILLISECOND {}
        let end = clock.now();
        assert!(poller.take_busy(end) >= 19 * MILLISECOND);
        assert_eq!(poller.take_busy(end), 0);
    }
}
