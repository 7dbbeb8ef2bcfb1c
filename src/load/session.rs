//! A running load: its threads, and the cuts that are made in what they measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use thiserror::Error;

use super::check::SpecError;
use super::clock::{Clock, Nanos};
use super::destination::Destination;
use super::http::TlsSetup;
use super::interval::{Cut, Interval};
use super::pacing::Pacing;
use super::spec::Spec;
use super::thread::{Control, Worker};
use super::trust;
use super::udp::{Arrived, SinkTotals};
use crate::host::{OpenError, allow_files};
use crate::units::CpuId;

/// The load cannot start.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The spec makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The host name has no address.
    #[error("cannot find the address of {host}: {error}")]
    Resolve {
        /// As given.
        host: String,
        /// Why.
        error: std::io::Error,
    },
    /// Nothing answers there.
    #[error("cannot reach the target {url} at {address}: {error}")]
    Down {
        /// As given.
        url: String,
        /// The address tried.
        address: String,
        /// Why.
        error: std::io::Error,
    },
    /// More connections than this process may have files.
    #[error("{needed} connections need more open files than the limit of {limit}")]
    Files {
        /// Connections asked for.
        needed: usize,
        /// How many it may have.
        limit: u64,
    },
    /// There is nothing to check certificates by, or no name to check them for.
    #[error("TLS: {0}")]
    Tls(String),
    /// A thread cannot be pinned.
    #[error("cannot run on CPU {cpu}: {error}")]
    Pin {
        /// The CPU asked for.
        cpu: CpuId,
        /// Why.
        error: std::io::Error,
    },
    /// The namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] OpenError),
    /// A socket cannot be made.
    #[error("cannot make a socket: {0}")]
    Socket(#[source] std::io::Error),
    /// No thread, epoll or eventfd to be had.
    #[error("cannot start a load thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// A running load. Dropping stops it.
#[derive(Debug)]
pub struct Session {
    threads: Vec<Running>,
    sink: Option<SinkTotals>,
    /// What the sink had counted at the last cut, and when it was asked; `None` when it did not answer.
    received: Option<(Arrived, Instant)>,
    /// Whether the receiver is a sink that tells what arrived.
    told: bool,
    pacing: Pacing,
}

#[derive(Debug)]
struct Running {
    control: Arc<Control>,
    begin: Sender<Nanos>,
    cuts: Receiver<Cut>,
    cpu: Option<CpuId>,
    handle: Option<JoinHandle<()>>,
}

impl Session {
    /// Opens the connections and starts the load. Within two seconds of the last that opened either the load runs or the
    /// error says why it does not: the target is down when a thread could not open a single
    /// connection.
    pub fn start(spec: &Spec) -> Result<Self, LoadError> {
        spec.check()?;
        let destination = Destination::of(spec)
            .map_err(|error| LoadError::Resolve { host: spec.url.host.clone(), error })?;
        make_room(spec.connections)?;
        let tls = tls(spec).map_err(LoadError::Tls)?;
        let clock = Clock::start();
        let spec = Arc::new(spec.clone());
        let cpus: Vec<CpuId> = spec.cpus.iter().collect();
        // Tells this run's datagrams from those of an earlier one on the same ports.
        let session = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let (ready, readiness) = channel();
        // From here on an early return drops `this`, which stops the threads already running.
        let mut this =
            Self { threads: Vec::new(), sink: None, received: None, told: false, pacing: spec.pacing };
        for index in 0..spec.threads {
            let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(|errno| LoadError::Thread(errno.into()))?;
            let control = Arc::new(Control {
                cuts: AtomicU64::new(0),
                stop: AtomicBool::new(false),
                done: AtomicBool::new(false),
                wake: Arc::new(wake),
            });
            let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
            let (begin, begins) = channel();
            let (cuts, cut) = channel();
            let worker = Worker {
                spec: Arc::clone(&spec),
                destination: destination.clone(),
                tls: tls.clone(),
                index,
                cpu,
                session,
                clock,
                control: Arc::clone(&control),
                ready: ready.clone(),
                begin: begins,
                cuts,
            };
            let handle = std::thread::Builder::new()
                .name(format!("load-{index}"))
                .spawn(move || worker.run())
                .map_err(LoadError::Thread)?;
            this.threads.push(Running { control, begin, cuts: cut, cpu, handle: Some(handle) });
        }
        for _ in 0..spec.threads {
            let sink = readiness.recv().expect("a load thread reports before it ends")?;
            this.sink = this.sink.take().or(sink);
        }
        this.received = this.sink.as_ref().and_then(|sink| sink.arrived().ok().flatten());
        this.told = this.received.is_some();
        let origin = clock.now();
        for thread in &this.threads {
            // Only a thread that panicked is not there to hear it, and then `mark` says so.
            let _ = thread.begin.send(origin);
        }
        Ok(this)
    }

    /// Whether the receiver is a sink that tells what arrived. An interval without
    /// [`Interval::received`] then is one for which it was too busy to answer.
    pub fn arrivals_are_told(&self) -> bool {
        self.told
    }

    /// Whether all requests of [`Spec::requests`] were sent and have ended.
    pub fn is_done(&self) -> bool {
        self.threads.iter().all(|thread| thread.control.done.load(Ordering::Acquire))
    }

    /// Everything since the last mark, or since the start: every request is in exactly one
    /// interval. The load goes on meanwhile.
    pub fn mark(&mut self) -> Interval {
        for thread in &self.threads {
            thread.control.cuts.fetch_add(1, Ordering::Release);
            thread.wake();
        }
        let received = self.sink.as_ref().and_then(|sink| sink.arrived().ok().flatten());
        self.collect(received)
    }

    /// Stops sending, waits up to 200 ms for the answers still outstanding, and gives everything
    /// since the last mark. Its length includes that wait: for a rate, mark first.
    pub fn stop(mut self) -> Interval {
        self.signal_stop();
        self.threads.iter_mut().for_each(Running::join);
        let received = self.sink.as_ref().and_then(SinkTotals::settled);
        self.collect(received)
    }

    fn collect(&mut self, received: Option<(Arrived, Instant)>) -> Interval {
        let cuts: Vec<Cut> = self
            .threads
            .iter()
            .map(|thread| thread.cuts.recv().expect("a load thread answers every cut until it is stopped"))
            .collect();
        let pins: Vec<Option<CpuId>> = self.threads.iter().map(|thread| thread.cpu).collect();
        let mut interval = Interval::from_cuts(&cuts, &pins);
        interval.pacing = self.pacing;
        if let (Some((count, at)), Some((count_before, before))) = (received, self.received) {
            interval.received = Some(count.packets.saturating_sub(count_before.packets));
            interval.datagrams.reordered = Some(count.reordered.saturating_sub(count_before.reordered));
            interval.received_seconds = at.duration_since(before).as_secs_f64();
        }
        // Kept over a cut without an answer, the count would put two intervals into the next one.
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
            // Closed, it releases a thread that still waits for the start.
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
            // A thread that panicked has said so on standard error; nothing is left to stop.
            let _ = handle.join();
        }
    }
}

fn tls(spec: &Spec) -> Result<Option<TlsSetup>, String> {
    let setup = || TlsSetup::new(trust::config(spec)?, &spec.url.host);
    spec.url.tls.then(setup).transpose()
}

/// Files besides the connections: epolls, eventfds, standard streams, whatever the caller has.
const OTHER_FILES: u64 = 256;

/// Raises the limit of open files as far as is needed.
fn make_room(connections: usize) -> Result<(), LoadError> {
    let needed = connections as u64 + OTHER_FILES;
    allow_files(needed).map_err(|limit| LoadError::Files { needed: connections, limit })
}
