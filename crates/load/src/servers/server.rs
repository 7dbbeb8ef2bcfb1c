//! One server thread: an epoll loop over its listener, its connections and its UDP sockets.

use std::net::TcpListener;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::connection::{Connection, Context, Fate};
use super::counters::{Shared, add};
use super::http::Prepared;
use super::order::Order;
use super::sockets::Sockets;
use super::timers::Timers;
use super::tracker::track;
use super::{TargetError, udp};
use rxlab_base::units::CpuId;
use rxlab_sys::{enter_netns, pin_thread};

const WAKE: u64 = 0;
const HTTP: u64 = 1;
const ECHO: u64 = 2;
const SINK: u64 = 3;
const TRACKER: u64 = 4;
const FIRST_CONNECTION: u64 = 5;

const EVENTS: usize = 256;
const SCRATCH: usize = 64 * 1024;
/// Interval of checks of lingering connections, and of a listener that ran out of descriptors.
const TICK: Duration = Duration::from_millis(100);

/// Moves the calling thread to its namespace and CPU. Must precede the creation of sockets.
pub(super) fn place(cpu: Option<CpuId>, netns: Option<&Path>) -> Result<(), TargetError> {
    if let Some(netns) = netns {
        enter_netns(netns)?;
    }
    match cpu {
        Some(cpu) => pin_thread(cpu).map_err(|errno| TargetError::Pin { cpu, error: errno.into() }),
        None => Ok(()),
    }
}

pub(super) struct Server {
    epoll: OwnedFd,
    sockets: Sockets,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    lingering: usize,
    accept_again: bool,
    timers: Timers,
    scratch: Vec<u8>,
    prepared: Prepared,
    order: Order,
    shared: Arc<Shared>,
    index: usize,
    // Registered with the epoll, so it must live as long.
    _wake: Arc<OwnedFd>,
}

impl Server {
    pub(super) fn new(
        sockets: Sockets,
        wake: Arc<OwnedFd>,
        shared: Arc<Shared>,
        index: usize,
    ) -> Result<Self, TargetError> {
        let register = || -> Result<OwnedFd, Errno> {
            let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let add = |fd: &dyn AsFd, token: u64, flags| {
                epoll::add(&poll, fd.as_fd(), epoll::EventData::new_u64(token), flags)
            };
            add(&wake, WAKE, epoll::EventFlags::IN)?;
            if let Some(http) = &sockets.http {
                add(http, HTTP, epoll::EventFlags::IN | epoll::EventFlags::ET)?;
            }
            let Sockets { udp_echo, udp_sink, udp_tracker, .. } = &sockets;
            for (socket, token) in [(udp_echo, ECHO), (udp_sink, SINK), (udp_tracker, TRACKER)] {
                if let Some(socket) = socket {
                    add(socket, token, epoll::EventFlags::IN)?;
                }
            }
            Ok(poll)
        };
        let epoll = register().map_err(|errno| TargetError::Thread(errno.into()))?;
        Ok(Self {
            epoll,
            sockets,
            connections: Vec::new(),
            free: Vec::new(),
            lingering: 0,
            accept_again: false,
            timers: Timers::default(),
            scratch: vec![0; SCRATCH],
            prepared: Prepared::default(),
            order: Order::default(),
            shared,
            index,
            _wake: wake,
        })
    }

    /// Serves until the stop flag is set.
    pub(super) fn run(mut self) {
        // The default slack makes every delay 50 us longer.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut events = Vec::with_capacity(EVENTS);
        while !self.shared.stop.load(Ordering::Acquire) {
            let ticks = self.lingering > 0 || self.accept_again;
            let left = [ticks.then_some(TICK), self.timers.left()].into_iter().flatten().min();
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                // EBADF, EFAULT, EINVAL: impossible for an epoll that this thread owns.
                Err(errno) => panic!("epoll_wait on an owned epoll failed: {errno}"),
            }
            for event in &events {
                self.handle(event);
            }
            if left.is_some() {
                self.answer_due();
            }
            if ticks {
                self.tick();
            }
        }
    }

    /// Sends the delayed responses that are due.
    fn answer_due(&mut self) {
        let now = Instant::now();
        while let Some(slot) = self.timers.pop(now) {
            if self.connections[slot].as_ref().is_some_and(|connection| connection.is_due(now)) {
                // Read to the end: input during the delay has had its event.
                self.advance(slot, true);
            }
        }
    }

    fn handle(&mut self, event: &epoll::Event) {
        let (token, flags) = (event.data.u64(), event.flags);
        match token {
            WAKE => {}
            HTTP => self.accept(),
            ECHO => {
                if let Some(socket) = &self.sockets.udp_echo {
                    udp::echo(socket, &mut self.scratch, &self.shared, self.index);
                }
            }
            SINK => {
                if let Some(socket) = &self.sockets.udp_sink {
                    udp::sink(socket, &mut self.scratch, &mut self.order, &self.shared, self.index);
                }
            }
            TRACKER => {
                if let Some(socket) = &self.sockets.udp_tracker {
                    track(socket, &mut self.scratch, &self.shared, self.index);
                }
            }
            token => {
                let slot = (token - FIRST_CONNECTION) as usize;
                let hang_up = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                self.advance(slot, flags.intersects(hang_up));
            }
        }
    }

    fn advance(&mut self, slot: usize, hung_up: bool) {
        let Some(connection) = &mut self.connections[slot] else { return };
        let lingered = connection.is_lingering();
        let mut context = Context {
            scratch: &mut self.scratch,
            prepared: &mut self.prepared,
            shared: &self.shared,
            thread: self.index,
        };
        let fate = connection.advance(hung_up, &mut context);
        let lingers = fate != Fate::Close && connection.is_lingering();
        self.lingering = self.lingering + usize::from(lingers) - usize::from(lingered);
        match fate {
            Fate::Keep => {}
            Fate::Wait(at) => self.timers.add(at, slot),
            Fate::Close => {
                self.connections[slot] = None;
                self.free.push(slot);
            }
        }
    }

    /// Accepts all pending connections: the listener is edge-triggered.
    fn accept(&mut self) {
        self.accept_again = false;
        while let Some(listener) = &self.sockets.http {
            match accept_one(listener) {
                Ok(connection) => {
                    let Some(connection) = connection else { return };
                    let slot = self.free.pop().unwrap_or_else(|| {
                        self.connections.push(None);
                        self.connections.len() - 1
                    });
                    let flags = epoll::EventFlags::IN
                        | epoll::EventFlags::OUT
                        | epoll::EventFlags::RDHUP
                        | epoll::EventFlags::ET;
                    let token = epoll::EventData::new_u64(slot as u64 + FIRST_CONNECTION);
                    if epoll::add(&self.epoll, &connection, token, flags).is_ok() {
                        self.connections[slot] = Some(Connection::new(connection));
                        add(&self.shared.threads[self.index].connections, 1);
                    } else {
                        self.free.push(slot);
                    }
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                // Out of descriptors or memory: the next tick retries.
                Err(_) => {
                    self.accept_again = true;
                    return;
                }
            }
        }
    }

    fn tick(&mut self) {
        if self.accept_again {
            self.accept();
        }
        if self.lingering == 0 {
            return;
        }
        let now = Instant::now();
        for slot in 0..self.connections.len() {
            if self.connections[slot].as_ref().is_some_and(|connection| connection.lingered(now)) {
                self.connections[slot] = None;
                self.free.push(slot);
                self.lingering -= 1;
            }
        }
    }
}

/// The next connection, ready to use; `None` without one.
fn accept_one(listener: &TcpListener) -> Result<Option<std::net::TcpStream>, Errno> {
    use rustix::net::sockopt::set_tcp_nodelay;
    use rustix::net::{SocketFlags, accept_with};
    match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(fd) => {
            // A connection that is already gone rejects the option; reading it will report that.
            let _ = set_tcp_nodelay(&fd, true);
            Ok(Some(std::net::TcpStream::from(fd)))
        }
        Err(Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno),
    }
}
