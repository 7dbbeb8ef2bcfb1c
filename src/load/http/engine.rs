//! All connections of one thread: which one sends when, in the closed and in the open loop.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::block::Block;
use super::connection::{Connection, Phase};
use super::learned::Learned;
use crate::load::clock::{Clock, MILLISECOND, Nanos};
use crate::load::interval::{ErrorClass, Tally};
use crate::load::poller::{Poller, Ready};
use crate::load::schedule::Schedule;
use crate::load::spec::Spec;
use crate::load::thread::{TICKETS_PER_TURN, sweep_period};

const READ_BUFFER: usize = 64 * 1024;
/// Full buffers read from one connection before the others get their turn.
const READS_PER_TURN: usize = 16;
/// Events handled before the clock is read again: a time is never wrong by more than they take,
/// some tens of microseconds.
const EVENTS_A_CLOCK: usize = 8;
/// How often closed connections are looked at for their next attempt.
const RETRY_PERIOD: Nanos = 2 * MILLISECOND;

pub(crate) struct Engine {
    clock: Clock,
    poller: Poller,
    address: SocketAddr,
    depth: usize,
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
    /// When the last turn ended, about.
    now: Nanos,
    block: Block,
    /// The answer that all connections expect.
    learned: Learned,
    buffer: Vec<u8>,
}

impl Engine {
    /// An engine for `connections` connections, none of them open yet.
    pub(crate) fn new(
        spec: &Spec,
        address: SocketAddr,
        connections: usize,
        poller: Poller,
        clock: Clock,
    ) -> Self {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: rxlab/{}\r\n\r\n",
            spec.url.path,
            spec.url.authority(),
            env!("CARGO_PKG_VERSION")
        )
        .into_bytes();
        let block = Block::new(&[request], spec.pipeline);
        Self {
            clock,
            poller,
            address,
            depth: spec.pipeline,
            timeout: spec.timeout.as_nanos() as Nanos,
            schedule: None,
            running: false,
            closed: connections,
            connections: (0..connections).map(|index| Connection::new(index, false, &block)).collect(),
            free: VecDeque::with_capacity(connections),
            unread: Vec::new(),
            next_sweep: 0,
            now: 0,
            block,
            learned: Learned::new(),
            buffer: vec![0; READ_BUFFER],
        }
    }

    /// Opens all connections and waits until each is open or has failed, at most until `deadline`.
    /// An error means that not a single one is open.
    pub(crate) fn warm(&mut self, deadline: Nanos) -> std::io::Result<()> {
        let now = self.clock.now();
        let mut first_error = None;
        for index in 0..self.connections.len() {
            match self.connections[index].open(&self.poller, index, self.address, &self.block, now) {
                Ok(()) => self.closed -= 1,
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        while self.connections.iter().any(|c| matches!(c.phase, Phase::Connecting { .. })) {
            let now = self.clock.now();
            if now >= deadline {
                break;
            }
            self.poller.wait(now, deadline, false, &mut 0);
            for event in 0..self.poller.len() {
                let Some(Ready { index, .. }) = self.poller.ready(event) else { continue };
                if !matches!(self.connections[index].phase, Phase::Connecting { .. }) {
                    continue;
                }
                if let Err(error) = self.connections[index].connected(&self.block, now) {
                    first_error.get_or_insert(error);
                    self.closed += 1;
                }
            }
        }
        if self.connections.iter().any(|c| c.phase == Phase::Open) {
            return Ok(());
        }
        Err(first_error.unwrap_or_else(|| Errno::TIMEDOUT.into()))
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
        // The closed loop has no appointment to keep: the time of the last turn will do.
        let mut now = if self.schedule.is_some() { self.clock.now() } else { self.now };
        let mut until = self.next_sweep;
        let due = self.schedule.as_ref().filter(|_| !self.free.is_empty()).map(Schedule::next);
        if let Some(due) = due {
            until = until.min(due);
        }
        if !self.unread.is_empty() {
            until = now;
        }
        self.poller.wait(now, until, due == Some(until), &mut tally.spun);
        now = self.clock.now();
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
        self.now = now;
    }

    /// Sends nothing more; answers are still counted.
    pub(crate) fn cease(&mut self) {
        self.running = false;
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
            Phase::Connecting { .. } => match connection.connected(&self.block, now) {
                Ok(()) => self.supply(index, now, tally),
                Err(_) => {
                    tally.error(ErrorClass::Connect, 1);
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
                    if length < self.buffer.len() && !to_the_end {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.fail(index, ErrorClass::Reset, now, tally),
            }
        }
        self.supply(index, now, tally);
    }

    /// Gives a connection the requests it has room for: at once in the closed loop, by queueing it
    /// in the open loop.
    fn supply(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        let room = self.depth.saturating_sub(connection.outstanding());
        if room == 0 || !self.running || connection.phase != Phase::Open {
            return;
        }
        if self.schedule.is_some() {
            connection.free_since.get_or_insert(now);
            if !connection.queued {
                connection.queued = true;
                self.free.push_back(index);
            }
            return;
        }
        connection.request(room, now, now, &self.block);
        tally.sent += room as u64;
        if let Err(class) = connection.flush(&self.block) {
            self.fail(index, class, now, tally);
        }
    }

    /// Sends the requests that are due, as far as connections are free.
    fn send_due(&mut self, tally: &mut Tally) {
        let Some(schedule) = &mut self.schedule else { return };
        if !self.running {
            return;
        }
        for _ in 0..TICKETS_PER_TURN {
            let now = self.clock.now();
            if schedule.next().saturating_add(self.timeout) < now {
                if schedule.take(now).is_some() {
                    tally.error(ErrorClass::Unsent, 1);
                }
                continue;
            }
            // A connection that closed since it was queued gives its place up.
            let free = loop {
                let Some(&index) = self.free.front() else { return };
                match self.connections[index].free_since {
                    Some(since) => break (index, since),
                    None => {
                        self.connections[index].queued = false;
                        self.free.pop_front();
                    }
                }
            };
            let Some(intended) = schedule.take(now) else { return };
            let (index, free_since) = free;
            self.free.pop_front();
            let connection = &mut self.connections[index];
            connection.request(1, intended, now, &self.block);
            tally.sent += 1;
            tally.scheduled(intended, free_since, now);
            connection.queued = connection.outstanding() < self.depth;
            if connection.queued {
                self.free.push_back(index);
            } else {
                connection.free_since = None;
            }
            if let Err(class) = connection.flush(&self.block) {
                connection.fail(class, now, &self.block, tally);
                self.closed += 1;
            }
        }
    }

    fn fail(&mut self, index: usize, class: ErrorClass, now: Nanos, tally: &mut Tally) {
        self.connections[index].fail(class, now, &self.block, tally);
        self.closed += 1;
        if self.connections[index].phase == (Phase::Closed { retry_at: now }) {
            self.reopen(index, now, tally);
        }
    }

    fn reopen(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        match self.connections[index].open(&self.poller, index, self.address, &self.block, now) {
            Ok(()) => self.closed -= 1,
            Err(_) => tally.error(ErrorClass::Connect, 1),
        }
    }

    /// Looks for timeouts, and for closed connections whose wait is over.
    fn sweep(&mut self, now: Nanos, tally: &mut Tally) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.timed_out(now, self.timeout) {
                let connecting = matches!(connection.phase, Phase::Connecting { .. });
                let class = if connecting { ErrorClass::Connect } else { ErrorClass::Timeout };
                self.fail(index, class, now, tally);
            } else if let Phase::Closed { retry_at } = connection.phase
                && retry_at <= now
            {
                self.reopen(index, now, tally);
            }
        }
        let period = if self.closed > 0 { RETRY_PERIOD } else { sweep_period(self.timeout) };
        self.next_sweep = now + period;
    }
}
