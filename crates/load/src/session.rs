//! A running load: its threads, and the cuts made in their measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use thiserror::Error;

use super::check::SpecError;
use super::clock::{Clock, Nanos};
use super::destination::Destination;
use super::error_class::{lack, remedy};
use super::interval::{Arrivals, Interval};
use super::pacing::Pacing;
use super::softirq::Softirqs;
use super::spec::Spec;
use super::tally::{Cut, SoFar};
use super::thread::{Control, Worker};
use super::udp::SinkTotals;
use rxlab_base::units::CpuId;
use rxlab_sys::{OpenError, allow_files};

/// A target that answers is reached, and what this machine lacks says nothing about it.
fn cannot(error: &std::io::Error) -> &'static str {
    match (lack(error.raw_os_error()), error.kind()) {
        (Some(_), _) => "this machine cannot reach the target",
        (None, std::io::ErrorKind::InvalidData) => "cannot load the target",
        (None, _) => "cannot reach the target",
    }
}

impl LoadError {
    /// What to do about something that this machine lacks; `None` of other errors.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            LoadError::Down { error, .. } => lack(error.raw_os_error()).and_then(remedy),
            _ => None,
        }
    }
}

/// The load cannot start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The spec is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The host name has no address.
    #[error("cannot resolve {host}: {error}")]
    Resolve {
        /// The host name as given.
        host: String,
        /// Error of the resolver.
        error: std::io::Error,
    },
    /// The target does not respond, or, with [`std::io::ErrorKind::InvalidData`], not to what was sent.
    #[error("{} {url} at {address}: {error}", cannot(error))]
    Down {
        /// The URL as given.
        url: String,
        /// The address that was tried.
        address: String,
        /// Error of the connection attempt.
        error: std::io::Error,
    },
    /// The connections exceed the limit of open files.
    #[error("{needed} connections need more open files than the limit of {limit}")]
    Files {
        /// Number of connections requested.
        needed: usize,
        /// Limit of open files, which cannot be raised further.
        limit: u64,
    },
    /// Certificates cannot be checked: no roots, or no host name.
    #[error("TLS: {0}")]
    Tls(String),
    /// A thread cannot be pinned.
    #[error("cannot run on CPU {cpu}: {error}")]
    Pin {
        /// The CPU as requested.
        cpu: CpuId,
        /// Error of the system call.
        error: std::io::Error,
    },
    /// The namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] OpenError),
    /// A socket cannot be opened.
    #[error("cannot open a socket: {0}")]
    Socket(#[source] std::io::Error),
    /// A thread, epoll or eventfd cannot be created.
    #[error("cannot start a load thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// A running load. Dropping stops it.
///
/// Intervals follow each other without a gap: [`Session::mark`], [`Session::cut`] and [`Session::forget`] each end
/// one and begin the next. A caller that measures after a warm-up must call [`Session::forget`] first, and must end
/// with [`Session::finish`] or [`Session::stop`] to get the last interval.
#[derive(Debug)]
pub struct Session {
    threads: Vec<Running>,
    sink: Option<SinkTotals>,
    /// The sink's count at the last cut and when it was read; `None` if it did not respond.
    received: Option<(Arrivals, Instant)>,
    /// The sink's count when the measurement began.
    origin: Option<Arrivals>,
    /// True if the receiver is a sink that reports what arrived.
    told: bool,
    pacing: Pacing,
    /// CPUs that the threads are pinned to.
    softirqs: Option<Box<Softirqs>>,
}

#[derive(Debug)]
struct Running {
    control: Arc<Control>,
    begin: Sender<Nanos>,
    cuts: Receiver<Cut>,
    so_far: Receiver<SoFar>,
    cpu: Option<CpuId>,
    handle: Option<JoinHandle<()>>,
}

impl Session {
    /// Opens the connections and starts the load at the first reachable address of the host. Returns within
    /// two seconds of the last successful connection: with the load running, or with an error. The target
    /// counts as down if a thread could not open a single connection.
    pub fn start(spec: &Spec) -> Result<Self, LoadError> {
        spec.check()?;
        let destinations = Destination::resolve(spec)
            .map_err(|error| LoadError::Resolve { host: spec.host().to_owned(), error })?;
        Self::start_at(spec, destinations)
    }

    fn start_at(spec: &Spec, mut destinations: Vec<Destination>) -> Result<Self, LoadError> {
        make_room(spec.connections)?;
        let shared = spec.url.protocol.definition().prepare(spec).map_err(LoadError::Tls)?;
        let clock = Clock::start();
        let spec = Arc::new(spec.clone());
        let cpus: Vec<CpuId> = spec.cpus.iter().collect();
        // Distinguishes this run's datagrams from those of an earlier one on the same ports.
        let session = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let (ready, readiness) = channel();
        // From here on an early return drops `this`, which stops the threads already running.
        let mut this = Self {
            threads: Vec::new(),
            sink: None,
            received: None,
            origin: None,
            told: false,
            pacing: spec.pacing,
            softirqs: None,
        };
        let mut started = 0;
        for index in 0..spec.threads {
            let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(|errno| LoadError::Thread(errno.into()))?;
            let control = Arc::new(Control {
                cuts: AtomicU64::new(0),
                glances: AtomicU64::new(0),
                slow_from: AtomicU64::new(Nanos::MAX),
                stop: AtomicBool::new(false),
                done: AtomicBool::new(false),
                is_last: AtomicBool::new(false),
                reset: AtomicBool::new(false),
                skip: AtomicBool::new(false),
                wake: Arc::new(wake),
            });
            let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
            let (begin, begins) = channel();
            let (cuts, cut) = channel();
            let (glances, so_far) = channel();
            let worker = Worker {
                spec: Arc::clone(&spec),
                destinations: destinations.clone(),
                shared: shared.clone(),
                index,
                cpu,
                session,
                clock,
                control: Arc::clone(&control),
                ready: ready.clone(),
                begin: begins,
                cuts,
                glances,
            };
            let handle = std::thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || worker.run())
                .map_err(LoadError::Thread)?;
            this.threads.push(Running { control, begin, cuts: cut, so_far, cpu, handle: Some(handle) });
            started += 1;
            // The first thread chooses among several addresses for all.
            if started == spec.threads || destinations.len() > 1 {
                for _ in 0..std::mem::take(&mut started) {
                    let ready = readiness.recv().expect("a load thread reports before it ends")?;
                    this.sink = this.sink.take().or(ready.sink);
                    destinations = vec![ready.destination];
                }
            }
        }
        this.received = this.sink.as_ref().and_then(|sink| sink.arrived().ok().flatten());
        this.told = this.received.is_some();
        this.origin = this.received.map(|(arrived, _)| arrived);
        this.softirqs = if cpus.is_empty() { None } else { Softirqs::watch().map(Box::new) };
        let origin = clock.now();
        for thread in &this.threads {
            // Only a thread that panicked does not receive it; `mark` reports that.
            let _ = thread.begin.send(origin);
        }
        Ok(this)
    }

    /// True if the receiver is a sink that reports what arrived. An interval without
    /// [`Interval::received`] then means that it was too busy to respond.
    pub fn arrivals_are_told(&self) -> bool {
        self.told
    }

    /// True if all requests of [`Spec::requests`] were sent and have ended. The caller should poll it and then
    /// finish: a done load waits.
    pub fn is_done(&self) -> bool {
        self.threads.iter().all(|thread| thread.control.done.load(Ordering::Acquire))
    }

    /// Measurements since the last mark or the start: every request is in exactly one interval. The load
    /// continues. Queries the sink, and may wait for an overloaded one.
    pub fn mark(&mut self) -> Interval {
        self.ask_for_cuts();
        let received = self.sink.as_ref().and_then(|sink| sink.arrived().ok().flatten());
        self.collect(received)
    }

    /// Drops at the next mark or cut what is due but not sent. Must be called before the cut that separates two
    /// measurements, else a load that could not keep its rate in the first catches up in the second.
    pub fn skip_overdue(&self) {
        self.threads.iter().for_each(|thread| thread.control.skip.store(true, Ordering::Release));
    }

    /// Counts since the last mark, up to now; the interval continues. Costs the threads no more than a few
    /// microseconds, unlike a mark. `limit`: latency from which requests count as slow.
    pub fn so_far(&self, limit: Option<Duration>) -> SoFar {
        let limit = limit.map_or(Nanos::MAX, |limit| limit.as_nanos() as Nanos);
        for thread in &self.threads {
            thread.control.slow_from.store(limit, Ordering::Relaxed);
            thread.control.glances.fetch_add(1, Ordering::Release);
            thread.wake();
        }
        let counts = self
            .threads
            .iter()
            .map(|thread| thread.so_far.recv().expect("a load thread answers until it is stopped"));
        counts.fold(SoFar::default(), SoFar::and)
    }

    /// Like [`Session::mark`], but does not query the sink, so it does not wait for an overloaded one. Should be
    /// used where [`Session::finish`] follows, which queries it for the total.
    pub fn cut(&mut self) -> Interval {
        self.ask_for_cuts();
        self.collect(None)
    }

    /// Discards earlier measurements: the measurement begins now. An overloaded sink is queried for up to two
    /// seconds; what is sent during that time is discarded as well.
    pub fn forget(&mut self) {
        for _ in 0..SinkTotals::TRIES {
            // Query the sink when the threads start over, not when all their counts have arrived.
            self.ask_for_cuts();
            let answer = self.sink.as_ref().map(SinkTotals::ask);
            self.collect(None);
            self.origin = answer.as_ref().and_then(|answer| answer.map(|(arrived, _)| arrived));
            if answer.is_none() || self.origin.is_some() {
                return;
            }
        }
    }

    /// Ends the load and returns the measurements since the last cut; with a sink that reports arrivals, also
    /// those since the measurement began. They are counted once no more come in, so that datagrams in the
    /// sink's queue are not lost. Outstanding responses stay outstanding.
    pub fn finish(mut self) -> (Interval, Option<Arrivals>) {
        if !self.told {
            self.threads.iter().for_each(|thread| thread.control.is_last.store(true, Ordering::Release));
            return (self.cut(), None);
        }
        self.end_threads();
        let last = self.collect(None);
        let settled = self.sink.as_ref().and_then(SinkTotals::settled).map(|(arrived, _)| arrived);
        (last, settled.zip(self.origin).map(|(now, origin)| now.since(origin)))
    }

    /// Resets connections instead of closing them at the end of the load. Should be called before the load ends
    /// where runs follow each other: no connection stays in TIME_WAIT, so they do not use up the ports.
    pub fn reset_at_end(&self) {
        self.threads.iter().for_each(|thread| thread.control.reset.store(true, Ordering::Release));
    }

    fn ask_for_cuts(&self) {
        for thread in &self.threads {
            thread.control.cuts.fetch_add(1, Ordering::Release);
            thread.wake();
        }
    }

    /// Stops sending, waits up to 150 ms for outstanding responses, and returns everything since the last
    /// mark. Its length includes that wait: a caller that needs a rate must mark first.
    pub fn stop(mut self) -> Interval {
        self.end_threads();
        let received = self.sink.as_ref().and_then(SinkTotals::settled);
        self.collect(received)
    }

    fn end_threads(&mut self) {
        self.signal_stop();
        self.threads.iter_mut().for_each(Running::join);
    }

    fn collect(&mut self, received: Option<(Arrivals, Instant)>) -> Interval {
        let cuts: Vec<Cut> = self
            .threads
            .iter()
            .map(|thread| thread.cuts.recv().expect("a load thread answers every cut until it is stopped"))
            .collect();
        let pins: Vec<Option<CpuId>> = self.threads.iter().map(|thread| thread.cpu).collect();
        let mut interval = Interval::from_cuts(&cuts, &pins);
        interval.pacing = self.pacing;
        let softirqs = self.softirqs.as_mut().map(|softirqs| softirqs.take()).unwrap_or_default();
        for thread in &mut interval.client_cpu {
            thread.softirq = thread.cpu_pinned.and_then(|cpu| softirqs.get(&cpu).copied());
        }
        if let (Some((count, at)), Some((count_before, before))) = (received, self.received) {
            interval = interval.with_arrivals(Some(count.since(count_before)));
            interval.received_seconds = at.duration_since(before).as_secs_f64();
        }
        // If kept over a cut without a response, the count would put two intervals into the next one.
        self.received = received;
        interval
    }

    fn signal_stop(&self) {
        for thread in &self.threads {
            thread.control.stop.store(true, Ordering::Release);
            thread.wake();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.signal_stop();
        for mut thread in std::mem::take(&mut self.threads) {
            // Closing it releases a thread that still waits for the start.
            thread.begin = channel().0;
            thread.join();
        }
    }
}

impl Running {
    fn wake(&self) {
        // An eventfd write fails only when its counter is full: the thread is awake then.
        let _ = rustix::io::write(&*self.control.wake, &1u64.to_ne_bytes());
    }

    fn join(&mut self) {
        if let Some(handle) = self.handle.take() {
            // A thread that panicked has reported it on standard error; nothing is left to stop.
            let _ = handle.join();
        }
    }
}

/// Files besides the connections: epolls, eventfds, standard streams, the caller's own.
const OTHER_FILES: u64 = 256;

/// Raises the limit of open files as needed.
fn make_room(connections: usize) -> Result<(), LoadError> {
    let needed = connections as u64 + OTHER_FILES;
    allow_files(needed).map_err(|limit| LoadError::Files { needed: connections, limit })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::{Destination, LoadError, Session, SoFar};
    use crate::servers::{self as target, Target};
    use crate::{ErrorClass, Spec};

    /// `localhost` resolves to `::1` first on many machines, where a server on 127.0.0.1 does not listen.
    #[test]
    fn the_address_that_answers_is_the_one() {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let spec = target::Spec { http: any, udp_echo: any, udp_sink: any, ..Default::default() };
        let target = Target::start(&spec).expect("started");
        let addresses = target.addresses();
        // Nothing serves this port, and the kernel gives it to no other test.
        let closed = Destination::Inet(([127, 0, 0, 1], 1).into());
        for (scheme, address) in
            [("http", addresses.http), ("udp", addresses.udp_echo), ("udp-sink", addresses.udp_sink)]
        {
            let mut spec = Spec::new(format!("{scheme}://localhost:1/").parse().expect("a URL"));
            (spec.connections, spec.threads) = (4, 2);
            let both = vec![closed.clone(), Destination::Inet(address.expect("served"))];
            let session = Session::start_at(&spec, both).expect("one of them answers");
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(session.stop().sent > 0, "{scheme}");
            let neither = Session::start_at(&spec, vec![closed.clone(); 2]);
            assert!(matches!(neither, Err(LoadError::Down { .. })), "{scheme}");
        }
    }

    /// A rule of this machine's firewall (EPERM) once had the hint to start a target.
    #[test]
    fn what_this_machine_lacks_is_not_the_targets() {
        let down = |errno: rustix::io::Errno| LoadError::Down {
            url: "udp://10.0.0.1:9".to_owned(),
            address: "10.0.0.1:9".to_owned(),
            error: errno.into(),
        };
        let own = down(rustix::io::Errno::PERM);
        assert!(
            own.to_string().starts_with("this machine cannot reach the target udp://10.0.0.1:9"),
            "{own}"
        );
        assert_eq!(own.remedy(), Some("see this machine's own firewall"));
        let theirs = down(rustix::io::Errno::CONNREFUSED);
        assert!(theirs.to_string().starts_with("cannot reach the target"), "{theirs}");
        assert_eq!(theirs.remedy(), None);
    }

    /// "Connection timed out" was once said of a name server that answers at once, with another id.
    #[test]
    fn a_target_that_answers_something_else_is_not_unreachable() {
        let server = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = server.local_addr().expect("bound");
        let liar = std::thread::spawn(move || {
            let mut buffer = [0; 512];
            // As many as the load tries.
            for _ in 0..3 {
                let (length, from) = server.recv_from(&mut buffer).expect("asked");
                buffer[0] ^= 0xff;
                server.send_to(&buffer[..length], from).expect("sent");
            }
        });
        let spec = Spec::new(format!("dns://{address}/a.example").parse().expect("a URL"));
        let error = Session::start(&spec).expect_err("no answer fits").to_string();
        assert!(
            error.starts_with("cannot load the target") && error.contains("it answers, but not"),
            "{error}"
        );
        liar.join().expect("three answers");
    }

    /// What was counted before the end of an interval is still part of it, once.
    #[test]
    fn counts_so_far_take_nothing_from_the_interval() {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let target = Target::start(&target::Spec { http: any, ..Default::default() }).expect("started");
        let url = format!("http://{}/simple", target.addresses().http.expect("served"));
        let mut spec = Spec::new(url.parse().expect("a URL"));
        (spec.connections, spec.threads, spec.requests) = (4, 2, Some(500));
        spec.expect_body = Some("something else".into());
        let mut session = Session::start(&spec).expect("started");
        let mut before = 0;
        while !session.is_done() {
            let so_far = session.so_far(None);
            assert!((before..=500).contains(&so_far.failed), "{before} {so_far:?}");
            before = so_far.failed;
        }
        let all = session.so_far(Some(Duration::from_nanos(1)));
        assert_eq!((all.requests, all.failed, all.class), (0, 500, Some(ErrorClass::Body)));
        assert_eq!((session.mark().failed(), session.so_far(None)), (500, SoFar::default()));

        (spec.expect_body, spec.requests) = (None, Some(300));
        let mut session = Session::start(&spec).expect("started");
        while !session.is_done() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let all = session.so_far(Some(Duration::from_nanos(1)));
        assert_eq!((all.requests, all.slow, all.timed), (300, 300, 300));
        assert_eq!(session.so_far(Some(Duration::from_secs(3600))).slow, 0);
        assert_eq!(session.mark().requests, 300);
    }
}
