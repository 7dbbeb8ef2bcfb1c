//! All connections of one thread: opened, waited for, read. Which one sends when is in `supply`.

mod supply;

use std::collections::VecDeque;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::block::Block;
use super::connection::{Connection, Phase};
use super::learned::Learned;
use super::peer::Peer;
use super::request;
use super::tls::{BROKEN, Setup};
use crate::load::clock::{Clock, Nanos};
use crate::load::destination::Destination;
use crate::load::error_class::ErrorClass;
use crate::load::interval::Tally;
use crate::load::poller::{Poller, Ready};
use crate::load::schedule::Schedule;
use crate::load::spec::Spec;

const READ_BUFFER: usize = 64 * 1024;
/// Connections that are opened at the same time before the load begins.
const OPENING: usize = 512;
/// Full buffers read from one connection before the others get their turn.
const READS_PER_TURN: usize = 16;
/// Events handled before the clock is read again: a time is never wrong by more than they take,
/// some tens of microseconds.
const EVENTS_A_CLOCK: usize = 8;

pub(crate) struct Engine {
    clock: Clock,
    poller: Poller,
    peer: Peer,
    depth: usize,
    /// Each request has a connection of its own.
    single: bool,
    /// Requests still to be sent in this run.
    left: u64,
    timeout: Nanos,
    schedule: Option<Schedule>,
    running: bool,
    connections: Vec<Connection>,
    closed: usize,
    /// Open loop: connections with room for a request; first come, first served.
    free: VecDeque<usize>,
    /// Connections whose input was not read to its end.
    unread: Vec<usize>,
    next_sweep: Nanos,
    block: Block,
    /// The answer that all connections expect.
    learned: Learned,
    buffer: Vec<u8>,
}

impl Engine {
    /// The engine of thread `index`, none of its connections open yet.
    pub(crate) fn new(
        spec: &Spec,
        destination: &Destination,
        tls: Option<Setup>,
        index: usize,
        poller: Poller,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let (first, count) = spec.part(index);
        let block = request::block(spec);
        let connection = |number| Connection::new(number, spec, &block);
        Ok(Self {
            clock,
            poller,
            peer: Peer::new(destination, spec, tls)?,
            depth: spec.pipeline,
            single: spec.no_keepalive,
            left: spec.budget(index),
            timeout: spec.timeout.as_nanos() as Nanos,
            schedule: None,
            running: false,
            closed: count,
            connections: (first..first + count).map(connection).collect(),
            free: VecDeque::with_capacity(count),
            unread: Vec::new(),
            next_sweep: 0,
            block,
            learned: Learned::new(),
            buffer: vec![0; READ_BUFFER],
        })
    }

    /// Opens all connections and waits until each is open or has failed, as long as one of them opens
    /// within `patience`. An error means that not a single one is open.
    pub(crate) fn warm(&mut self, patience: Nanos) -> std::io::Result<()> {
        let mut deadline = self.clock.now() + patience;
        let (mut next, mut opening, mut open) = (0, 0, 0);
        let mut first_error = None;
        loop {
            // Not all at once: a listener's queue holds some thousands, and what finds it full waits a
            // second for its next attempt.
            while opening < OPENING && next < self.connections.len() {
                let now = self.clock.now();
                match self.connections[next].open(&self.poller, next, &self.peer, &self.block, now) {
                    Ok(()) => (self.closed, opening) = (self.closed - 1, opening + 1),
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
                next += 1;
            }
            let now = self.clock.now();
            if opening == 0 || now >= deadline {
                break;
            }
            self.poller.wait(now, deadline, false, &mut 0);
            for event in 0..self.poller.len() {
                let Some(Ready { index, .. }) = self.poller.ready(event) else { continue };
                if !self.connections[index].phase.is_opening() {
                    continue;
                }
                match self.connections[index].connected(&self.block, now) {
                    Ok(false) => {}
                    Ok(true) => {
                        (opening, open) = (opening - 1, open + 1);
                        deadline = now + patience;
                    }
                    Err((_, error)) => {
                        first_error.get_or_insert(error);
                        (self.closed, opening) = (self.closed + 1, opening - 1);
                    }
                }
            }
        }
        if open > 0 { Ok(()) } else { Err(first_error.unwrap_or_else(|| Errno::TIMEDOUT.into())) }
    }

    /// Sends the first requests.
    pub(crate) fn begin(&mut self, schedule: Option<Schedule>, tally: &mut Tally) {
        self.schedule = schedule;
        self.running = true;
        for index in 0..self.connections.len() {
            if self.connections[index].phase == Phase::Open {
                self.supply(index, self.clock.now(), tally);
            }
        }
    }

    /// Waits for something to do, and does it.
    pub(crate) fn turn(&mut self, tally: &mut Tally) {
        // Also where there is no appointment to keep: what lies between is how long the loop worked.
        let mut now = self.clock.now();
        let mut until = self.next_sweep;
        let due = self.schedule.as_ref().filter(|_| !self.free.is_empty()).map(Schedule::next);
        if let Some(due) = due {
            until = until.min(due);
        }
        if !self.unread.is_empty() {
            until = now;
        }
        now = self.poller.wait(now, until, due == Some(until), &mut tally.spun);
        let unread = std::mem::take(&mut self.unread);
        for event in 0..self.poller.len() {
            if event % EVENTS_A_CLOCK == EVENTS_A_CLOCK - 1 {
                now = self.clock.now();
            }
            if let Some(ready) = self.poller.ready(event) {
                self.handle(ready, now, tally);
            }
        }
        // Behind the events: what is reopened here must not meet events of its old socket.
        for index in unread {
            if self.connections[index].phase == Phase::Open {
                self.receive(index, true, self.clock.now(), tally);
            }
        }
        self.send_due(tally);
        if now >= self.next_sweep {
            self.sweep(now, tally);
        }
    }

    /// Sends nothing more; answers are still counted.
    pub(crate) fn cease(&mut self) {
        self.running = false;
    }

    /// What waits for its sockets.
    pub(crate) fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    /// Whether all requests of a run with a given number were sent and have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.in_flight() == 0
    }

    /// Requests sent and not answered.
    pub(crate) fn in_flight(&self) -> u64 {
        self.connections.iter().map(|c| c.outstanding() as u64).sum()
    }

    /// The schedule, for the count of what was due.
    pub(crate) fn schedule(&mut self) -> Option<&mut Schedule> {
        self.schedule.as_mut()
    }

    fn handle(&mut self, Ready { index, flags }: Ready, now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        match connection.phase {
            Phase::Closed { .. } => {}
            Phase::Connecting { .. } | Phase::Greeting { .. } => match connection.connected(&self.block, now)
            {
                Ok(false) => {}
                Ok(true) => {
                    tally.handshakes += u64::from(self.peer.tls.is_some());
                    // A connection for one request has waited with it.
                    if connection.outstanding() > 0 {
                        self.flush(index, now, tally);
                    } else {
                        self.supply(index, now, tally);
                    }
                }
                Err((class, _)) => {
                    tally.error(class, 1);
                    self.closed += 1;
                }
            },
            Phase::Open => {
                if flags.contains(EventFlags::OUT)
                    && let Err(class) = connection.flush(&self.block)
                {
                    return self.fail(index, class, now, tally);
                }
                let ending = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                if flags.intersects(EventFlags::IN | ending) {
                    self.receive(index, flags.intersects(ending), now, tally);
                }
            }
        }
    }

    /// Reads and counts answers up to a short read; with `to_the_end` until nothing is left.
    fn receive(&mut self, index: usize, to_the_end: bool, mut now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        let mut reads = 0;
        loop {
            if reads == READS_PER_TURN {
                self.unread.push(index);
                break;
            }
            if reads > 0 {
                now = self.clock.now();
            }
            reads += 1;
            match connection.read(&mut self.buffer) {
                Ok(0) => {
                    let class = connection.end(now, tally);
                    return self.fail(index, class, now, tally);
                }
                Ok(length) => {
                    let input = &self.buffer[..length];
                    if let Err(class) = connection.answers(input, &mut self.learned, now, tally) {
                        return self.fail(index, class, now, tally);
                    }
                    // Of TLS a short read says nothing about the socket.
                    if length < self.buffer.len() && !to_the_end && !connection.is_tls() {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(BROKEN) => return self.fail(index, ErrorClass::Tls, now, tally),
                Err(_) => return self.fail(index, ErrorClass::Reset, now, tally),
            }
        }
        self.supply(index, now, tally);
    }
}
