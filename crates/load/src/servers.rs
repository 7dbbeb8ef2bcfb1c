//! Small servers to aim a load at: HTTP/1.1 `/simple`, `/usual`, `/compute?us=N`, `/bytes?n=N` and `/delay?us=N`,
//! UDP echo, UDP sink, UDP tracker.
//!
//! Each thread has its own sockets (SO_REUSEPORT) and edge-triggered epoll and shares nothing but
//! counters; optionally pinned, optionally in another network namespace. The target measures nothing
//! but its own counts.

pub mod bep15;
mod burn;
mod connection;
mod counters;
mod http;
mod order;
mod repeated;
mod route;
mod server;
mod sockets;
mod timers;
mod tracker;
mod udp;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::thread::Pid;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use rxlab_base::units::{CpuId, CpuMask};
use rxlab_sys::{OpenError, allow_files, thread_cpu_seconds};

use burn::Burn;
pub use counters::{Counters, Served};
use counters::{Shared, ThreadCounters};
pub use http::respond;
pub(crate) use repeated::Repeated;
use server::Server;
use sockets::Sockets;
pub(crate) use sockets::UDP_BUFFER;
pub use udp::{SINK_TOTALS_LEN, SinkTotals, sink_query};

/// The servers to run, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// Address of the HTTP server; port 0 lets the kernel choose.
    pub http: Option<SocketAddr>,
    /// Address of the UDP echo server.
    pub udp_echo: Option<SocketAddr>,
    /// Address of the UDP sink.
    pub udp_sink: Option<SocketAddr>,
    /// Address of the UDP tracker, which gives every peer the same response.
    pub udp_tracker: Option<SocketAddr>,
    /// UDP: receive each datagram by itself, as most servers do, instead of a train of one flow at a time
    /// (UDP_GRO), which saves much of the receive work.
    pub plain_udp: bool,
    /// Number of threads, each with its own sockets.
    pub threads: usize,
    /// CPUs to pin the threads to, round robin; empty leaves it to the scheduler.
    pub cpus: CpuMask,
    /// Network namespace file in which the sockets are opened.
    pub netns: Option<PathBuf>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            http: None,
            udp_echo: None,
            udp_sink: None,
            udp_tracker: None,
            plain_udp: false,
            threads: 1,
            cpus: CpuMask::new(),
            netns: None,
        }
    }
}

/// Connections are files, and their number is not known in advance.
const MOST_FILES: u64 = 1 << 20;
/// More threads than any machine has CPUs: assumed to be a typing error.
const MAX_THREADS: usize = 1024;

/// Addresses of the servers, with the ports that the kernel chose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Addresses {
    /// Address of the HTTP server, if it runs.
    pub http: Option<SocketAddr>,
    /// The UDP echo server.
    pub udp_echo: Option<SocketAddr>,
    /// Address of the UDP sink, if it runs.
    pub udp_sink: Option<SocketAddr>,
    /// Address of the UDP tracker, if it runs.
    pub udp_tracker: Option<SocketAddr>,
}

/// The target cannot start.
#[derive(Debug, Error)]
pub enum TargetError {
    /// No address was given.
    #[error("nothing to serve: give an address for HTTP, UDP echo, the UDP sink or the UDP tracker")]
    Nothing,
    /// Number of threads out of range.
    #[error("invalid thread count {0}: must be 1 to {MAX_THREADS}")]
    Threads(usize),
    /// A socket cannot be bound to this address.
    #[error("cannot serve {what} on {address}: {error}")]
    Bind {
        /// `HTTP`, `UDP echo`, `UDP sink` or `UDP tracker`.
        what: &'static str,
        /// The address as requested.
        address: SocketAddr,
        /// Error of the system call.
        error: std::io::Error,
    },
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
    /// A thread, epoll or eventfd cannot be created.
    #[error("cannot start a server thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Running servers. Dropping stops them.
#[derive(Debug)]
pub struct Target {
    addresses: Addresses,
    shared: Arc<Shared>,
    threads: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    wake: Arc<OwnedFd>,
    tid: Pid,
    cpu: Option<CpuId>,
    handle: Option<JoinHandle<()>>,
}

impl Target {
    /// Starts the servers; they accept connections once this returns. They end when this is dropped or stopped.
    pub fn start(spec: &Spec) -> Result<Self, TargetError> {
        let Spec { http, udp_echo, udp_sink, udp_tracker, .. } = *spec;
        let addresses = Addresses { http, udp_echo, udp_sink, udp_tracker };
        if addresses == Addresses::default() {
            return Err(TargetError::Nothing);
        }
        if !(1..=MAX_THREADS).contains(&spec.threads) {
            return Err(TargetError::Threads(spec.threads));
        }
        if let Err(limit) = allow_files(MOST_FILES) {
            // As many as allowed: further connections wait until others are closed.
            let _ = allow_files(limit);
        }
        let cpus: Vec<CpuId> = spec.cpus.iter().collect();
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            burn: Burn::calibrate(),
            // Not a secret, unlike that of a public tracker; it only differs each time.
            tracker_id: SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64),
            threads: (0..spec.threads).map(|_| ThreadCounters::default()).collect(),
        });
        // From here on an early return drops `target`, which stops the threads already running.
        let mut target = Self { addresses, shared, threads: Vec::new() };
        for index in 0..spec.threads {
            let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
            let (running, bound) = target.start_thread(index, cpu, spec)?;
            target.threads.push(running);
            // The first thread chooses the ports; the others share them.
            target.addresses = bound;
        }
        Ok(target)
    }

    fn start_thread(
        &self,
        index: usize,
        cpu: Option<CpuId>,
        spec: &Spec,
    ) -> Result<(Running, Addresses), TargetError> {
        let (netns, trains) = (spec.netns.clone(), !spec.plain_udp);
        let wake = Arc::new(
            eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(|errno| TargetError::Thread(errno.into()))?,
        );
        let (ready, started) = std::sync::mpsc::channel();
        let (addresses, shared, thread_wake) = (self.addresses, Arc::clone(&self.shared), Arc::clone(&wake));
        let handle = std::thread::Builder::new()
            .name(format!("target-{index}"))
            .spawn(move || {
                let made = server::place(cpu, netns.as_deref())
                    .and_then(|()| Sockets::bind(&addresses, trains, index == 0))
                    .and_then(|sockets| {
                        let bound = sockets.addresses();
                        Server::new(sockets, thread_wake, shared, index).map(|server| (server, bound))
                    });
                match made {
                    Ok((server, bound)) => {
                        // The receiver waits for exactly this message.
                        let _ = ready.send(Ok((rustix::thread::gettid(), bound)));
                        server.run();
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                    }
                }
            })
            .map_err(TargetError::Thread)?;
        let (tid, bound) = started.recv().expect("a server thread reports before it ends")?;
        Ok((Running { wake, tid, cpu, handle: Some(handle) }, bound))
    }

    /// Addresses of the servers.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// CPU time of the server threads since their start, in seconds. A busy thread can be one timer tick
    /// ahead of it.
    pub fn cpu_seconds(&self) -> f64 {
        self.threads.iter().filter_map(|thread| thread_cpu_seconds(thread.tid)).sum()
    }

    /// Totals of all threads since the start.
    pub fn counters(&self) -> Counters {
        self.shared.totals()
    }

    /// Counts of each thread so far. A connection stays with the thread that accepted it.
    pub fn threads(&self) -> Vec<Served> {
        let threads = self.threads.iter().zip(&self.shared.threads).enumerate();
        threads
            .map(|(thread, (running, counters))| Served {
                thread,
                cpu_pinned: running.cpu,
                cpu_seconds: thread_cpu_seconds(running.tid),
                counters: counters.counters(),
            })
            .collect()
    }

    /// Stops the servers, waits for their threads and returns the final counts of each.
    pub fn stop_each(mut self) -> Vec<Served> {
        // The CPU time of a thread cannot be read after its end.
        let mut threads = self.threads();
        self.shut_down();
        for (thread, counters) in threads.iter_mut().zip(&self.shared.threads) {
            thread.counters = counters.counters();
        }
        threads
    }

    /// Stops the servers, waits for their threads and returns the final totals.
    pub fn stop(mut self) -> Counters {
        self.shut_down();
        self.shared.totals()
    }

    fn shut_down(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in &self.threads {
            // An eventfd write fails only when its counter is full: the thread is awake then.
            let _ = rustix::io::write(&*thread.wake, &1u64.to_ne_bytes());
        }
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take() {
                // A thread that panicked has reported it on standard error; nothing is left to stop.
                let _ = handle.join();
            }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.shut_down();
    }
}
