//! Echo round trips of one thread: a fixed number outstanding on each flow, or a fixed schedule.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::flow::{Echoed, Window};
use super::payload::Header;
use crate::load::clock::{Clock, Nanos};
use crate::load::error_class::ErrorClass;
use crate::load::interval::Tally;
use crate::load::poller::{Poller, Ready};
use crate::load::schedule::Schedule;
use crate::load::spec::Spec;
use crate::load::thread::{TICKETS_PER_TURN, sweep_period};

/// Echoes read from one flow before the others get their turn; epoll is level-triggered here.
const READS_PER_TURN: usize = 32;
/// Unanswered datagrams on one flow in the open loop; beyond it a due one counts as unsent. Bounds
/// memory (24 bytes each) against a target that answers nothing.
const MAX_WINDOW: usize = 1 << 16;
const PROBES: usize = 3;
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

struct Flow {
    socket: UdpSocket,
    window: Window,
}

pub(crate) struct Echo {
    clock: Clock,
    poller: Poller,
    depth: usize,
    timeout: Nanos,
    schedule: Option<Schedule>,
    running: bool,
    flows: Vec<Flow>,
    /// Open loop: the flow whose turn it is.
    turn: usize,
    next_sweep: Nanos,
    session: u64,
    payload: Vec<u8>,
    buffer: Vec<u8>,
}

fn unspecified(address: SocketAddr) -> SocketAddr {
    if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() }
}

/// A non-blocking socket with a source port of its own, for flow `number` of the session.
pub(super) fn flow_socket(address: SocketAddr, spec: &Spec, number: usize) -> std::io::Result<UdpSocket> {
    let source = number.checked_rem(spec.sources.len()).map(|turn| SocketAddr::new(spec.sources[turn], 0));
    let socket = UdpSocket::bind(source.unwrap_or_else(|| unspecified(address)))?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

impl Echo {
    pub(crate) fn new(
        spec: &Spec,
        address: SocketAddr,
        index: usize,
        session: u64,
        poller: Poller,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let (first, count) = spec.part(index);
        let flows = (0..count)
            .map(|index| {
                let socket = flow_socket(address, spec, first + index)?;
                poller.add(&socket, index, EventFlags::IN)?;
                Ok(Flow { socket, window: Window::default() })
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self {
            clock,
            poller,
            depth: spec.pipeline,
            timeout: spec.timeout.as_nanos() as Nanos,
            schedule: None,
            running: false,
            flows,
            turn: 0,
            next_sweep: 0,
            session,
            payload: vec![0; spec.size],
            buffer: vec![0; 64 * 1024],
        })
    }

    /// Makes sure that something echoes at `address`.
    pub(crate) fn probe(&mut self, address: SocketAddr) -> std::io::Result<()> {
        let socket = UdpSocket::bind(unspecified(address))?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(PROBE_PATIENCE))?;
        let header = Header { session: self.session, sequence: u64::MAX, sent: 0 };
        header.write(&mut self.payload);
        for _ in 0..PROBES {
            socket.send(&self.payload)?;
            match socket.recv(&mut self.buffer) {
                Ok(length) if Header::read(&self.buffer[..length]) == Some(header) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Err(error),
                _ => {}
            }
        }
        Err(Errno::TIMEDOUT.into())
    }

    /// Sends the first datagrams.
    pub(crate) fn begin(&mut self, schedule: Option<Schedule>, tally: &mut Tally) {
        self.schedule = schedule;
        self.running = true;
        (0..self.flows.len()).for_each(|index| self.supply(index, tally));
    }

    /// Waits for something to do, and does it.
    pub(crate) fn turn(&mut self, tally: &mut Tally) {
        let now = self.clock.now();
        let due = self.schedule.as_ref().map(Schedule::next);
        let until = self.next_sweep.min(due.unwrap_or(Nanos::MAX));
        self.poller.wait(now, until, due == Some(until), &mut tally.spun);
        for event in 0..self.poller.len() {
            if let Some(Ready { index, .. }) = self.poller.ready(event) {
                self.receive(index, tally);
            }
        }
        self.send_due(tally);
        let now = self.clock.now();
        if now >= self.next_sweep {
            for index in 0..self.flows.len() {
                let expired = self.flows[index].window.expire(now, self.timeout);
                tally.error(ErrorClass::Timeout, expired);
                self.supply(index, tally);
            }
            self.next_sweep = now + sweep_period(self.timeout);
        }
    }

    /// Sends nothing more; echoes are still counted.
    pub(crate) fn cease(&mut self) {
        self.running = false;
    }

    /// Datagrams sent and not answered.
    pub(crate) fn in_flight(&self) -> u64 {
        self.flows.iter().map(|flow| flow.window.open() as u64).sum()
    }

    /// The schedule, for the count of what was due.
    pub(crate) fn schedule(&mut self) -> Option<&mut Schedule> {
        self.schedule.as_mut()
    }

    fn receive(&mut self, index: usize, tally: &mut Tally) {
        let flow = &mut self.flows[index];
        let mut refused = false;
        for _ in 0..READS_PER_TURN {
            match recv(&flow.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    let header = Header::read(&self.buffer[..length]).filter(|h| h.session == self.session);
                    match header.map(|header| flow.window.echoed(header.sequence)) {
                        Some(Echoed::Answer(from)) => {
                            tally.complete(self.clock.now().saturating_sub(from));
                        }
                        Some(Echoed::Late) => {}
                        Some(Echoed::Never) | None => tally.error(ErrorClass::Garbage, 1),
                    }
                }
                Err(Errno::CONNREFUSED) => {
                    refused = true;
                    if flow.window.give_up_oldest() {
                        tally.error(ErrorClass::Connect, 1);
                    }
                }
                Err(_) => break,
            }
            // Saves the read that would only say "nothing more".
            if flow.window.open() == 0 {
                break;
            }
        }
        // After a refusal the next sweep tries again: no storm against a closed port.
        if !refused {
            self.supply(index, tally);
        }
    }

    /// Closed loop: sends until the flow has its number outstanding.
    fn supply(&mut self, index: usize, tally: &mut Tally) {
        if !self.running || self.schedule.is_some() {
            return;
        }
        while self.flows[index].window.open() < self.depth && self.flows[index].window.len() < MAX_WINDOW {
            let now = self.clock.now();
            if !self.send(index, now, now, tally) {
                break;
            }
        }
    }

    /// Open loop: sends what is due, the flows in turn.
    fn send_due(&mut self, tally: &mut Tally) {
        if !self.running {
            return;
        }
        for _ in 0..TICKETS_PER_TURN {
            let now = self.clock.now();
            let Some(intended) = self.schedule.as_mut().and_then(|schedule| schedule.take(now)) else {
                return;
            };
            self.turn = (self.turn + 1) % self.flows.len();
            if self.flows[self.turn].window.len() >= MAX_WINDOW || intended + self.timeout < now {
                tally.error(ErrorClass::Unsent, 1);
            } else if self.send(self.turn, intended, now, tally) {
                tally.scheduled(intended, intended, now);
            }
        }
    }

    /// Sends one datagram; `false` when the kernel did not take it.
    fn send(&mut self, index: usize, from: Nanos, now: Nanos, tally: &mut Tally) -> bool {
        let flow = &mut self.flows[index];
        let header = Header { session: self.session, sequence: flow.window.next(), sent: now };
        header.write(&mut self.payload);
        let mut result = send(&flow.socket, &self.payload, SendFlags::NOSIGNAL);
        if result == Err(Errno::CONNREFUSED) {
            // The news is of an earlier datagram; this one has not been sent yet.
            if flow.window.give_up_oldest() {
                tally.error(ErrorClass::Connect, 1);
            }
            result = send(&flow.socket, &self.payload, SendFlags::NOSIGNAL);
        }
        match result {
            Ok(_) => {
                flow.window.push(from, now);
                tally.sent += 1;
            }
            Err(_) => tally.error(ErrorClass::Send, 1),
        }
        result.is_ok()
    }
}
