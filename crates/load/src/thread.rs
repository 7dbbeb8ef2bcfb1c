//! One thread of the generator: pins itself, opens its sockets and runs its engine until stopped,
//! handing over its counts whenever the session asks.

use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use rustix::fd::OwnedFd;
use rustix::thread::gettid;
use rustix::time::ClockId;

use super::clock::{Clock, MILLISECOND, Nanos, SECOND};
use super::destination::Destination;
use super::http;
use super::poller::Poller;
use super::protocol::Opened;
use super::schedule::Schedule;
use super::session::LoadError;
use super::spec::Spec;
use super::tally::{Cut, SoFar, Taken, Tally, Unanswered};
use super::udp::SinkTotals;
use rxlab_base::units::CpuId;
use rxlab_sys::{clock_ns, enter_netns, pin_thread, thread_ran_and_waited_ns, thread_user_and_system_ticks};

/// Scheduled requests sent before sockets get their turn again.
pub(super) const TICKETS_PER_TURN: usize = 256;
/// Longest time without a new connection before the load begins.
pub(super) const WARM_UP: Nanos = 1500 * MILLISECOND;
/// Longest wait for outstanding responses at the end: Ctrl-C ends a load within 0.2 s.
const DRAIN: Nanos = 150 * MILLISECOND;

/// Interval of timeout checks: fine enough for the timeout, coarse enough to cost nothing.
pub(super) fn sweep_period(timeout: Nanos) -> Nanos {
    (timeout / 20).clamp(MILLISECOND, 50 * MILLISECOND)
}

/// Signals of the session to a thread.
#[derive(Debug)]
pub(super) struct Control {
    /// Cuts requested so far.
    pub(super) cuts: AtomicU64,
    pub(super) stop: AtomicBool,
    /// Counts so far requested.
    pub(super) glances: AtomicU64,
    /// Latency from which a request counts as slow in them; [`Nanos::MAX`] = none does.
    pub(super) slow_from: AtomicU64,
    /// Set when the thread has sent its fixed number of requests and all have ended.
    pub(super) done: AtomicBool,
    /// The next cut is the last: nothing is sent behind it.
    pub(super) is_last: AtomicBool,
    /// The thread resets its connections at the end.
    pub(super) reset: AtomicBool,
    /// The next cut drops the requests that are due and not sent.
    pub(super) skip: AtomicBool,
    /// An eventfd that ends the thread's sleep.
    pub(super) wake: Arc<OwnedFd>,
}

/// A thread before it runs.
pub(super) struct Worker {
    pub(super) spec: Arc<Spec>,
    /// Candidate addresses, at least one; the first reachable one is the target.
    pub(super) destinations: Vec<Destination>,
    /// State that all HTTP threads share.
    pub(super) shared: Option<http::Shared>,
    pub(super) index: usize,
    pub(super) cpu: Option<CpuId>,
    pub(super) session: u64,
    pub(super) clock: Clock,
    pub(super) control: Arc<Control>,
    /// Reports that the sockets are open.
    pub(super) ready: Sender<Result<Ready, LoadError>>,
    /// Starts the load, with the origin of the schedule; closed if the session gave up.
    pub(super) begin: Receiver<Nanos>,
    pub(super) cuts: Sender<Cut>,
    pub(super) glances: Sender<SoFar>,
}

/// Findings of a thread once its sockets are open.
pub(super) struct Ready {
    /// Address of the target.
    pub(super) destination: Destination,
    /// The sink's counter, from the first thread.
    pub(super) sink: Option<SinkTotals>,
}

/// Sends the requests of one thread and counts what comes back.
pub(super) trait Engine {
    /// The poller of its sockets.
    fn poller(&mut self) -> &mut Poller;

    /// The schedule of an open loop.
    fn schedule(&mut self) -> Option<&mut Schedule>;

    /// Sends the first requests.
    fn begin(&mut self, schedule: Option<Schedule>, tally: &mut Tally);

    /// Waits for something to do, and does it.
    fn turn(&mut self, tally: &mut Tally);

    /// Sends nothing more; responses are still counted.
    fn cease(&mut self) {}

    /// Requests sent and not answered; 0 where nothing responds.
    fn in_flight(&self) -> u64 {
        0
    }

    /// Requests unanswered at `now`, including those due but not sent.
    fn unanswered(&self, now: Nanos) -> Unanswered;

    /// True if all requests of a run with a given number were sent and have ended.
    fn is_done(&self) -> bool {
        false
    }

    /// Counts the datagrams dropped by its own sockets since the last call: they were not lost on the way.
    fn count_drops(&mut self, _tally: &mut Tally) {}

    /// From now on closing a connection resets it.
    fn reset_at_close(&self) {}
}

impl Worker {
    /// Main function of the thread.
    pub(super) fn run(self) {
        match self.prepare() {
            Ok((mut engine, ready)) => {
                // If the receiver is gone, `begin` is closed as well.
                let _ = self.ready.send(Ok(ready));
                if let Ok(origin) = self.begin.recv() {
                    self.generate(&mut *engine, origin);
                }
            }
            Err(error) => {
                let _ = self.ready.send(Err(error));
            }
        }
    }

    fn prepare(&self) -> Result<(Box<dyn Engine>, Ready), LoadError> {
        if let Some(netns) = &self.spec.netns {
            enter_netns(netns)?;
        }
        if let Some(cpu) = self.cpu {
            pin_thread(cpu).map_err(|errno| LoadError::Pin { cpu, error: errno.into() })?;
        }
        // The default slack delays every sleep by 50 us. Failure makes sends late, not wrong.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut down = None;
        for destination in &self.destinations {
            match self.reach(destination) {
                Ok((engine, sink)) => return Ok((engine, Ready { destination: destination.clone(), sink })),
                Err(error @ LoadError::Down { .. }) => down = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(down.expect("there is at least one address"))
    }

    /// Opens the sockets towards `destination`.
    fn reach(&self, destination: &Destination) -> Result<Opened, LoadError> {
        let poller = Poller::new(Arc::clone(&self.control.wake), self.spec.pacing, self.clock)
            .map_err(|errno| LoadError::Thread(errno.into()))?;
        self.spec.url.protocol.definition().open(self, destination, poller)
    }

    /// The error of a target that does not respond.
    pub(super) fn down(&self, destination: &Destination, error: std::io::Error) -> LoadError {
        LoadError::Down { url: self.spec.url.to_string(), address: destination.to_string(), error }
    }

    /// The error of a UDP socket that could not be connected. That looks up the route; other errors do not concern the
    /// address.
    pub(super) fn unreached(&self, destination: &Destination, error: std::io::Error) -> LoadError {
        match error.kind() {
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::AddrNotAvailable => {
                self.down(destination, error)
            }
            _ => LoadError::Socket(error),
        }
    }

    fn generate(&self, engine: &mut dyn Engine, origin: Nanos) {
        let Spec { rate, poisson, threads, .. } = &*self.spec;
        let budget = self.spec.budget(self.index);
        let arrivals = self.spec.arrivals(self.index);
        let schedule =
            rate.as_ref().map(|rate| Schedule::new(origin, rate, *poisson, arrivals, *threads, budget));
        let mut tally = Tally::new();
        let mut last = (self.clock.now(), taken());
        let (mut cuts, mut glances, mut end) = (0, 0, None);
        engine.poller().begin();
        engine.begin(schedule, &mut tally);
        while !self.control.stop.load(Ordering::Acquire) {
            engine.turn(&mut tally);
            if end.is_none() && engine.is_done() {
                end = Some((self.clock.now(), taken()));
                self.control.done.store(true, Ordering::Release);
            }
            if self.control.cuts.load(Ordering::Acquire) != cuts {
                cuts += 1;
                // A session that is being dropped no longer receives.
                let _ = self.cuts.send(self.cut(engine, &mut tally, &mut last, end));
                if self.control.is_last.load(Ordering::Acquire) {
                    break;
                }
                if self.control.skip.swap(false, Ordering::AcqRel)
                    && let Some(schedule) = engine.schedule()
                {
                    schedule.skip(last.0);
                }
            }
            if self.control.glances.load(Ordering::Acquire) != glances {
                glances += 1;
                let _ = self.glances.send(self.so_far(engine, &tally));
            }
        }
        engine.cease();
        if let Some(schedule) = engine.schedule() {
            schedule.close(self.clock.now());
        }
        let drained = self.clock.now() + DRAIN;
        while engine.in_flight() > 0 && self.clock.now() < drained {
            engine.turn(&mut tally);
        }
        let _ = self.cuts.send(self.cut(engine, &mut tally, &mut last, end));
        if self.control.reset.load(Ordering::Acquire) {
            engine.reset_at_close();
        }
    }

    /// Counts since the last cut; unanswered and given up requests are only among them if some count as slow.
    fn so_far(&self, engine: &dyn Engine, tally: &Tally) -> SoFar {
        let limit = self.control.slow_from.load(Ordering::Relaxed);
        let mut so_far = tally.so_far();
        if limit < Nanos::MAX {
            let ages = engine.unanswered(self.clock.now()).ages;
            for times in [&tally.latency, &tally.given_up, &ages] {
                so_far.timed += times.len();
                so_far.slow += times.len() - times.count_between(0, limit);
            }
        }
        so_far
    }

    /// Measurements since the `last` cut. After the `end` of a run with a number of requests there is
    /// nothing to measure.
    fn cut(
        &self,
        engine: &mut dyn Engine,
        tally: &mut Tally,
        last: &mut (Nanos, Taken),
        end: Option<(Nanos, Taken)>,
    ) -> Cut {
        let now = self.clock.now();
        tally.busy = engine.poller().take_busy(now);
        let (now, taken) = match end {
            None => (now, taken()),
            Some((at, taken)) if at > last.0 => (at, taken),
            Some(_) => *last,
        };
        tally.loops = engine.poller().take_lag();
        engine.count_drops(tally);
        let (since, taken_since) = std::mem::replace(last, (now, taken));
        let fresh = Tally { unreached: tally.unreached, ..Tally::new() };
        Cut {
            // One way nothing responds.
            unreachable: tally.unreached > 0 && !self.spec.url.protocol.is_one_way(),
            tally: std::mem::replace(tally, fresh),
            span: now - since,
            taken: taken.since(taken_since),
            due: engine.schedule().map(|schedule| schedule.cut(now)),
            unanswered: engine.unanswered(now),
        }
    }
}

/// CPU time of the calling thread so far; 0 if the kernel does not report it.
fn taken() -> Taken {
    let tick = SECOND / 100;
    let (user, system) = thread_user_and_system_ticks(gettid()).unwrap_or_default();
    let (_, waited) = thread_ran_and_waited_ns(gettid()).unwrap_or_default();
    Taken { cpu: clock_ns(ClockId::ThreadCPUTime), user: user * tick, system: system * tick, waited }
}
