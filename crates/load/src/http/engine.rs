//! All connections of one thread: opening, waiting, reading. `supply` decides which one sends when.

mod supply;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;

use super::connection::{Connection, Phase};
use super::peer::Peer;
use super::tls::Setup;
use super::wire::{Received, Wire};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::destination::Destination;
#[cfg(test)]
use crate::error_class::ErrorClass;
use crate::poller::{Poller, Ready};
use crate::reasons::Failure;
use crate::schedule::Schedule;
use crate::spec::Spec;
use crate::tally::{Tally, Unanswered};
use crate::thread::{Engine, sweep_period};
use timers::Timers;

/// Connections opened at the same time before the load begins.
const OPENING: usize = 512;
/// Events handled before the clock is read again: times are wrong by at most the duration of their
/// handling, some tens of microseconds.
const EVENTS_A_CLOCK: usize = 8;
/// Connections read before the next requests of the closed loop are sent on them. Reading many and then
/// sending many is cheaper than alternating: each of the kernel's two paths stays in the cache, and a
/// sleeping server is woken once for all of them (3 to 8 % of the client's time at depth 1).
const ANSWERS_A_ROUND: usize = 64;

/// Shortest time away from the sockets that counts for each request that was due meanwhile: all of them are late by it, also
/// those for which no connection is free when it is over.
const STALL: Nanos = MILLISECOND;

/// The connection is at its end or broken.
const ENDING: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// A run with a number of requests gives up after this long without a single successful connection.
const GIVE_UP: Nanos = 10 * SECOND;

pub(super) struct HttpEngine<W: Wire> {
    poller: Poller,
    peer: Peer,
    depth: usize,
    /// A connection per request.
    single: bool,
    /// A connection is all that is asked for.
    only_opens: bool,
    /// Requests still to be sent in this run.
    left: u64,
    /// With a number of requests: how long to wait for a connection, and when the last one opened or was
    /// found open.
    give_up: Option<Nanos>,
    reached: Nanos,
    timeout: Nanos,
    schedule: Option<Schedule>,
    running: bool,
    connections: Vec<Connection<W>>,
    /// Time limit of a request or connection attempt.
    deadlines: Timers,
    /// Moments at which closed connections may be reopened.
    retries: Timers,
    /// Moments at which connections have to be read without an event; see [`Wire::alarm`].
    alarms: Timers,
    /// Interval at which deadlines are checked together.
    period: Nanos,
    /// Open loop: connections with room for a request; first come, first served.
    free: VecDeque<usize>,
    /// Open loop: connections that were closed idle, to be reopened when a request is due and none is free.
    dormant: VecDeque<usize>,
    /// Open loop: more may be due than one turn could send, or count as unsent.
    is_behind: bool,
    /// Open loop: begin and end of the times in which this thread did not get to what was due.
    stalls: VecDeque<(Nanos, Nanos)>,
    /// End of the last wait.
    woke: Nanos,
    /// Connections whose input was not read to its end.
    unread: Vec<usize>,
    /// Closed loop: connections that were read and get their next requests with the others of this round.
    answered: Vec<usize>,
    requests: Arc<W::Requests>,
    reader: W::Reader,
}

impl<W: Wire> HttpEngine<W> {
    /// Creates the engine of thread `index`, with all connections closed.
    pub(super) fn new(
        spec: &Spec,
        destination: &Destination,
        requests: Arc<W::Requests>,
        tls: Option<Setup>,
        index: usize,
        poller: Poller,
    ) -> std::io::Result<Self> {
        let (first, count) = spec.part(index);
        let connection = |number| Connection::new(number, spec, &*requests);
        Ok(Self {
            poller,
            peer: Peer::new(destination, spec, tls)?,
            depth: spec.pipeline,
            single: spec.is_single(),
            only_opens: spec.url.protocol.definition().only_connects(),
            left: spec.budget(index),
            give_up: spec.requests.map(|_| GIVE_UP.max(spec.timeout_ns())),
            reached: 0,
            timeout: spec.timeout_ns(),
            schedule: None,
            running: false,
            deadlines: Timers::new(count),
            retries: Timers::new(count),
            alarms: Timers::new(count),
            period: sweep_period(spec.timeout_ns()),
            connections: (first..first + count).map(connection).collect(),
            free: VecDeque::with_capacity(count),
            dormant: VecDeque::new(),
            is_behind: false,
            stalls: VecDeque::new(),
            woke: 0,
            unread: Vec::new(),
            answered: Vec::with_capacity(ANSWERS_A_ROUND),
            requests,
            reader: W::Reader::default(),
        })
    }

    /// Opens all connections and waits until each is open or has failed, while one of them opens within
    /// `patience`. Fails if not a single one is open.
    pub(super) fn warm(&mut self, patience: Nanos) -> std::io::Result<()> {
        let mut deadline = self.poller.now() + patience;
        let (mut next, mut opening, mut open) = (0, 0, 0);
        let mut first_error = None;
        loop {
            let mut full = false;
            // Not all at once: a listener's queue holds some thousands, and a connection that finds it full
            // waits a second for its next attempt.
            while opening < OPENING && next < self.connections.len() && !full {
                let now = self.poller.now();
                match self.connections[next].open(&self.poller, next, &self.peer, &self.requests, now) {
                    Ok(()) => opening += 1,
                    Err(error) => {
                        full = self.peer.is_full(&error) && now < deadline;
                        first_error.get_or_insert(error);
                    }
                }
                next += usize::from(!full);
            }
            let now = self.poller.now();
            if (opening == 0 && !full) || now >= deadline {
                break;
            }
            let until = if full { deadline.min(now + MILLISECOND) } else { deadline };
            let until = until.min(self.alarms.first());
            self.poller.wait(now, until, false, &mut 0);
            let (opened, failed) = self.settle(now);
            (opening, open) = (opening - opened - failed.len(), open + opened);
            if opened > 0 {
                deadline = now + patience;
            }
            first_error = first_error.or_else(|| failed.into_iter().next());
        }
        if open > 0 { Ok(()) } else { Err(first_error.unwrap_or_else(|| self.peer.silence())) }
    }

    /// Handles the events of the last wait while no load runs; returns how many connections opened, and why
    /// others failed, each once. A connection that ends now is not an error: it is reopened.
    fn settle(&mut self, now: Nanos) -> (usize, Vec<std::io::Error>) {
        let (mut opened, mut failed) = (0, Vec::new());
        for Ready { index, flags } in self.ready_and_due(now) {
            let connection = &mut self.connections[index];
            if connection.phase.is_opening() {
                match connection.connected(&self.peer, &self.requests, now) {
                    Ok(open) => opened += usize::from(open),
                    Err((_, error)) => failed.push(error),
                }
                self.set_alarm(index);
            }
            let connection = &mut self.connections[index];
            match connection.phase {
                Phase::Open if flags.intersects(ENDING) => connection.close_idle(now, &self.requests),
                Phase::Open if flags.contains(EventFlags::IN) => self.unread.push(index),
                _ => {}
            }
        }
        (opened, failed)
    }

    /// Sets the moment at which the connection has to be read even without an event.
    pub(super) fn set_alarm(&mut self, index: usize) {
        if let Some(time) = self.connections[index].wire.alarm() {
            self.alarms.make(index, self.poller.now() + time.as_nanos() as Nanos);
        }
    }

    /// Connections that are ready, and those whose alarm is due.
    fn ready_and_due(&mut self, now: Nanos) -> Vec<Ready> {
        let mut ready: Vec<Ready> =
            (0..self.poller.len()).filter_map(|event| self.poller.ready(event)).collect();
        ready.extend(
            std::iter::from_fn(|| self.alarms.due(now)).map(|index| Ready { index, flags: EventFlags::IN }),
        );
        ready
    }

    /// Stops sending requests if no connection could be opened for too long. With a schedule they end by
    /// themselves, unsent.
    fn may_give_up(&mut self, now: Nanos) {
        if self.schedule.is_none()
            && self.give_up.is_some_and(|patience| now.saturating_sub(self.reached) > patience)
        {
            if self.connections.iter().any(|connection| connection.phase == Phase::Open) {
                self.reached = now;
            } else {
                self.left = 0;
            }
        }
    }

    /// Notes that this thread worked, or overslept, from `begin` to `end`.
    fn note_stall(&mut self, begin: Nanos, end: Nanos) {
        if self.schedule.is_some() && end.saturating_sub(begin) > STALL {
            self.stalls.push_back((begin, end));
        }
    }

    fn handle(&mut self, Ready { index, flags }: Ready, now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        match connection.phase {
            Phase::Closed { .. } => {}
            Phase::Connecting { .. } | Phase::Greeting { .. } => {
                let waiting = connection.wire.outstanding();
                match connection.connected(&self.peer, &self.requests, now) {
                    Ok(false) => {}
                    Ok(true) => {
                        tally.resumed += u64::from(connection.wire.is_resumed());
                        tally.opened += 1;
                        self.reached = now;
                        tally.handshakes += u64::from(self.peer.tls.is_some());
                        if self.only_opens {
                            connection.opened(now, &self.requests, tally);
                            self.again(index, now, tally);
                        } else if connection.wire.outstanding() > 0 {
                            // A connection for one request includes the wait for it.
                            self.flush(index, now, tally);
                        } else {
                            self.supply(index, now, tally);
                        }
                    }
                    Err((class, error)) => {
                        tally.failed(class, &error, waiting.max(1));
                        tally.not_sent += u64::from(waiting == 0);
                        self.again(index, now, tally);
                    }
                }
                self.set_alarm(index);
            }
            Phase::Open => {
                if flags.contains(EventFlags::OUT) {
                    match connection.wire.flush(&self.requests) {
                        Ok(false) => {}
                        Ok(true) => self.unread.push(index),
                        Err(failure) => return self.refused(index, failure, now, tally),
                    }
                }
                if flags.intersects(EventFlags::IN | ENDING) {
                    self.receive(index, flags.intersects(ENDING), now, tally);
                }
            }
        }
    }

    /// The peer takes no more of a request. It may have responded before it had read all (RFC 9112 9.5): that response lies
    /// in the socket, also after a reset.
    pub(super) fn refused(&mut self, index: usize, failure: Failure, now: Nanos, tally: &mut Tally) {
        self.receive(index, true, now, tally);
        if self.connections[index].phase == Phase::Open {
            self.fail(index, failure, now, tally);
        }
    }

    /// Reads and counts responses, and supplies the connection with the next requests.
    fn receive(&mut self, index: usize, to_the_end: bool, now: Nanos, tally: &mut Tally) {
        let received =
            self.connections[index].receive(&mut self.reader, &self.poller, to_the_end, now, tally);
        self.set_alarm(index);
        match received {
            Received::All => {}
            Received::More => self.unread.push(index),
            Received::Ended(failure) => return self.fail(index, failure, self.poller.now(), tally),
        }
        if self.schedule.is_some() {
            return self.supply(index, self.poller.now(), tally);
        }
        self.answered.push(index);
        if self.answered.len() == ANSWERS_A_ROUND {
            self.send_next(tally);
        }
    }
}

impl<W: Wire> Engine for HttpEngine<W> {
    fn begin(&mut self, schedule: Option<Schedule>, tally: &mut Tally) {
        self.schedule = schedule;
        self.running = true;
        // Other threads may have started later than this one.
        loop {
            let now = self.poller.now();
            self.poller.wait(now, now, false, &mut 0);
            if self.poller.len() == 0 {
                break;
            }
            self.settle(now);
        }
        self.poller.begin();
        self.reached = self.poller.now();
        self.woke = self.reached;
        for index in 0..self.connections.len() {
            if self.only_opens {
                // Those that are open now were not asked for.
                self.connections[index].close(self.reached, &self.requests);
            }
            if self.connections[index].phase == Phase::Open {
                self.supply(index, self.poller.now(), tally);
            }
            self.appoint(index);
        }
    }

    fn turn(&mut self, tally: &mut Tally) {
        // Even without an appointment: the time in between is how long the loop worked.
        let mut now = self.poller.now();
        self.note_stall(self.woke, now);
        let mut until = (now + self.period).min(self.deadlines.first()).min(self.retries.first());
        until = until.min(self.alarms.first());
        let is_ready = !self.free.is_empty() || !self.dormant.is_empty();
        let due = self.schedule.as_ref().filter(|_| is_ready).map(Schedule::next);
        if let Some(due) = due {
            until = until.min(due);
        }
        if self.is_behind || !self.unread.is_empty() {
            until = now;
        }
        let asleep = until.max(now);
        now = self.poller.wait(now, until, due == Some(until), &mut tally.spun);
        self.note_stall(asleep, now);
        self.woke = now;
        let unread = std::mem::take(&mut self.unread);
        for event in 0..self.poller.len() {
            if event % EVENTS_A_CLOCK == EVENTS_A_CLOCK - 1 {
                now = self.poller.now();
            }
            if let Some(ready) = self.poller.ready(event) {
                self.handle(ready, now, tally);
            }
        }
        while let Some(index) = self.alarms.due(now) {
            self.handle(Ready { index, flags: EventFlags::IN }, now, tally);
        }
        // After the events: connections reopened here must not receive events of their old socket.
        for index in unread {
            if self.connections[index].phase == Phase::Open {
                self.receive(index, true, self.poller.now(), tally);
            }
        }
        self.send_next(tally);
        self.send_due(tally);
        self.keep_appointments(now, tally);
        self.may_give_up(now);
    }

    fn cease(&mut self) {
        self.running = false;
    }

    fn reset_at_close(&self) {
        self.connections.iter().for_each(Connection::reset_at_close);
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.in_flight() == 0
    }

    fn in_flight(&self) -> u64 {
        self.connections.iter().map(|c| c.wire.outstanding() as u64).sum()
    }

    fn unanswered(&self, now: Nanos) -> Unanswered {
        let mut unanswered = Unanswered::new();
        for (from, count) in self.connections.iter().flat_map(|connection| connection.wire.since()) {
            unanswered.add_sent(count, from, now);
        }
        if let Some(schedule) = &self.schedule {
            let is_free = self.free.iter().chain(&self.dormant).any(|index| self.is_free(*index));
            unanswered.add_due(schedule.late(now), is_free, now);
        }
        unanswered
    }

    fn schedule(&mut self) -> Option<&mut Schedule> {
        self.schedule.as_mut()
    }
}
