//! One thread of the generator: it is placed, makes its sockets, and runs its engine until told to
//! stop, handing its counts over whenever the session asks.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};

use super::clock::{Clock, MILLISECOND, Nanos, SECOND};
use super::destination::Destination;
use super::http;
use super::interval::{Cut, Tally};
use super::poller::Poller;
use super::schedule::Schedule;
use super::session::LoadError;
use super::spec::Spec;
use super::udp::{Exchange, OneWay, SinkTotals, exchange};
use super::url::Protocol;
use crate::host::{enter_netns, pin_thread};
use crate::units::CpuId;

/// Scheduled requests sent before sockets get their turn again.
pub(super) const TICKETS_PER_TURN: usize = 256;
/// Longest time without a connection that opens before the load begins.
const WARM_UP: Nanos = 1500 * MILLISECOND;
/// Longest wait for outstanding answers at the end.
const DRAIN: Nanos = 200 * MILLISECOND;

/// How often timeouts are looked for: fine enough for the timeout, coarse enough to cost nothing.
pub(super) fn sweep_period(timeout: Nanos) -> Nanos {
    (timeout / 20).clamp(MILLISECOND, 50 * MILLISECOND)
}

/// What the session tells a thread.
#[derive(Debug)]
pub(super) struct Control {
    /// Cuts asked for so far.
    pub(super) cuts: AtomicU64,
    pub(super) stop: AtomicBool,
    /// The thread has sent all that a run with a number of requests wanted of it, and all have ended.
    pub(super) done: AtomicBool,
    /// An eventfd that ends the thread's sleep.
    pub(super) wake: Arc<OwnedFd>,
}

/// A thread before it runs.
pub(super) struct Worker {
    pub(super) spec: Arc<Spec>,
    pub(super) destination: Destination,
    pub(super) tls: Option<http::TlsSetup>,
    pub(super) index: usize,
    pub(super) cpu: Option<CpuId>,
    pub(super) session: u64,
    pub(super) clock: Clock,
    pub(super) control: Arc<Control>,
    /// Sockets are made; the sink's counter comes from the first thread.
    pub(super) ready: Sender<Result<Option<SinkTotals>, LoadError>>,
    /// Begin, with the origin of the schedule; closed when the session gave up.
    pub(super) begin: Receiver<Nanos>,
    pub(super) cuts: Sender<Cut>,
}

enum Engine {
    Http(Box<http::Engine>),
    Exchange(Box<Exchange>),
    OneWay(Box<OneWay>),
}

impl Worker {
    /// The life of the thread.
    pub(super) fn run(self) {
        match self.prepare() {
            Ok((engine, sink)) => {
                // When nobody listens any more, `begin` is closed as well.
                let _ = self.ready.send(Ok(sink));
                if let Ok(origin) = self.begin.recv() {
                    self.generate(engine, origin);
                }
            }
            Err(error) => {
                let _ = self.ready.send(Err(error));
            }
        }
    }

    fn prepare(&self) -> Result<(Engine, Option<SinkTotals>), LoadError> {
        if let Some(netns) = &self.spec.netns {
            enter_netns(netns)?;
        }
        if let Some(cpu) = self.cpu {
            pin_thread(cpu).map_err(|errno| LoadError::Pin { cpu, error: errno.into() })?;
        }
        // The default slack delays every sleep by 50 us. Without it sends are late, not wrong.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (spec, clock, destination) = (&self.spec, self.clock, &self.destination);
        let poller = Poller::new(Arc::clone(&self.control.wake), spec.pacing, clock)
            .map_err(|errno| LoadError::Thread(errno.into()))?;
        let down =
            |error| LoadError::Down { url: spec.url.to_string(), address: destination.to_string(), error };
        match (spec.url.protocol, destination) {
            (Protocol::Http, _) => {
                let mut engine =
                    http::Engine::new(spec, destination, self.tls.clone(), self.index, poller, clock)
                        .map_err(LoadError::Socket)?;
                let patience = WARM_UP.min(spec.timeout.as_nanos() as Nanos);
                engine.warm(patience).map_err(down)?;
                Ok((Engine::Http(Box::new(engine)), None))
            }
            (Protocol::UdpEcho | Protocol::UdpTracker | Protocol::Dns, &Destination::Inet(address)) => {
                let mut engine = exchange(spec, address, self.index, self.session, poller, clock)
                    .map_err(LoadError::Socket)?;
                if self.index == 0 {
                    engine.probe(address).map_err(down)?;
                }
                engine.warm(clock.now() + WARM_UP).map_err(down)?;
                Ok((Engine::Exchange(Box::new(engine)), None))
            }
            (Protocol::UdpSink, &Destination::Inet(address)) => {
                let engine = OneWay::new(spec, address, self.index, self.session, poller, clock)
                    .map_err(LoadError::Socket)?;
                let mut sink = None;
                if self.index == 0 {
                    let totals = SinkTotals::connect(address).map_err(down)?;
                    sink = totals.arrived().map_err(down)?.map(|_| totals);
                }
                Ok((Engine::OneWay(Box::new(engine)), sink))
            }
            (_, Destination::Unix(_)) => unreachable!("a spec for UDP with a unix socket is refused"),
        }
    }

    fn generate(&self, mut engine: Engine, origin: Nanos) {
        let Spec { rate, poisson, threads, .. } = &*self.spec;
        let budget = self.spec.budget(self.index);
        let schedule =
            rate.as_ref().map(|rate| Schedule::new(origin, rate, *poisson, self.index, *threads, budget));
        let mut tally = Tally::new();
        let mut last = (self.clock.now(), cpu_time());
        let (mut cuts, mut end) = (0, None);
        engine.poller().begin();
        engine.begin(schedule, &mut tally);
        while !self.control.stop.load(Ordering::Acquire) {
            engine.turn(&mut tally);
            if end.is_none() && engine.is_done() {
                end = Some(self.clock.now());
                self.control.done.store(true, Ordering::Release);
            }
            if self.control.cuts.load(Ordering::Acquire) != cuts {
                cuts += 1;
                // A session that is being dropped does not listen any more.
                let _ = self.cuts.send(self.cut(&mut engine, &mut tally, &mut last, end));
            }
        }
        engine.cease();
        let drained = self.clock.now() + DRAIN;
        while engine.in_flight() > 0 && self.clock.now() < drained {
            engine.turn(&mut tally);
        }
        let _ = self.cuts.send(self.cut(&mut engine, &mut tally, &mut last, end));
    }

    /// Everything since the `last` cut. Behind the `end` of a run with a number of requests there is
    /// nothing to measure.
    fn cut(
        &self,
        engine: &mut Engine,
        tally: &mut Tally,
        last: &mut (Nanos, Nanos),
        end: Option<Nanos>,
    ) -> Cut {
        let (now, cpu) = (self.clock.now(), cpu_time());
        let now = end.map_or(now, |end| end.max(last.0));
        tally.loops = engine.poller().take_lag();
        let (since, cpu_since) = std::mem::replace(last, (now, cpu));
        Cut {
            tally: std::mem::replace(tally, Tally::new()),
            span: now - since,
            cpu: cpu - cpu_since,
            due: engine.schedule().map(|schedule| schedule.cut(now)),
            in_flight: engine.in_flight(),
        }
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as Nanos * SECOND + time.tv_nsec as Nanos
}

impl Engine {
    fn begin(&mut self, schedule: Option<Schedule>, tally: &mut Tally) {
        match self {
            Engine::Http(engine) => engine.begin(schedule, tally),
            Engine::Exchange(engine) => engine.begin(schedule, tally),
            Engine::OneWay(engine) => engine.begin(schedule),
        }
    }

    fn turn(&mut self, tally: &mut Tally) {
        match self {
            Engine::Http(engine) => engine.turn(tally),
            Engine::Exchange(engine) => engine.turn(tally),
            Engine::OneWay(engine) => engine.turn(tally),
        }
    }

    fn cease(&mut self) {
        match self {
            Engine::Http(engine) => engine.cease(),
            Engine::Exchange(engine) => engine.cease(),
            Engine::OneWay(_) => {}
        }
    }

    fn poller(&mut self) -> &mut Poller {
        match self {
            Engine::Http(engine) => engine.poller(),
            Engine::Exchange(engine) => engine.poller(),
            Engine::OneWay(engine) => engine.poller(),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Engine::Http(engine) => engine.is_done(),
            Engine::Exchange(_) | Engine::OneWay(_) => false,
        }
    }

    fn in_flight(&self) -> u64 {
        match self {
            Engine::Http(engine) => engine.in_flight(),
            Engine::Exchange(engine) => engine.in_flight(),
            // Nothing answers.
            Engine::OneWay(_) => 0,
        }
    }

    fn schedule(&mut self) -> Option<&mut Schedule> {
        match self {
            Engine::Http(engine) => engine.schedule(),
            Engine::Exchange(engine) => engine.schedule(),
            Engine::OneWay(engine) => engine.schedule(),
        }
    }
}
