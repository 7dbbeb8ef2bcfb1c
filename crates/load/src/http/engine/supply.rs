//! Decides which connection sends the next request, in the closed and the open loop, and handles failed
//! connections.

use super::{EVENTS_A_CLOCK, HttpEngine, Nanos, Phase, Tally, Wire};
use crate::error_class::ErrorClass;
use crate::event::Event;
use crate::reasons::Failure;
use crate::thread::TICKETS_PER_TURN;

/// Outcome of a connection attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// It continues, or there was nothing to do.
    Begun,
    /// It failed at once, and is counted.
    Failed,
    /// The listener's queue was full; nothing happened.
    Later,
}

impl<W: Wire> HttpEngine<W> {
    /// Gives a connection the requests it has room for: at once in the closed loop, by queueing it
    /// in the open loop.
    pub(super) fn supply(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        let ready = match connection.phase {
            Phase::Open => true,
            Phase::Closed { retry_at, .. } => self.single && retry_at <= now,
            Phase::Connecting { .. } | Phase::Greeting { .. } => false,
        };
        let room = connection.wire.room(self.depth);
        if let Some(allowed) = connection.wire.allowed() {
            tally.streams_allowed = Some(allowed);
        }
        if room == 0 || !self.running || !ready {
            return;
        }
        if self.schedule.is_some() {
            connection.free_since.get_or_insert(now);
            self.queue(index);
            return;
        }
        // At most `room`, so it fits.
        let count = self.left.min(room as u64) as usize;
        if count > 0 {
            self.send(index, count, now, now, tally);
        }
    }

    /// Closed loop: sends the next requests of all connections that were read.
    pub(super) fn send_next(&mut self, tally: &mut Tally) {
        let mut answered = std::mem::take(&mut self.answered);
        for some in answered.chunks(EVENTS_A_CLOCK) {
            let now = self.poller.now();
            for &index in some {
                self.supply(index, now, tally);
            }
        }
        answered.clear();
        self.answered = answered;
    }

    fn queue(&mut self, index: usize) {
        if !std::mem::replace(&mut self.connections[index].queued, true) {
            self.free.push_back(index);
        }
    }

    /// Sends `count` requests whose latency counts from `from`.
    fn send(&mut self, index: usize, count: usize, from: Nanos, now: Nanos, tally: &mut Tally) {
        let opening = self.opening(index, now, tally);
        if opening == Opening::Later {
            return;
        }
        self.left -= count as u64;
        if opening != Opening::Failed {
            self.put(index, count, from, now, tally);
        }
    }

    /// Starts connecting a closed connection.
    fn opening(&mut self, index: usize, now: Nanos, tally: &mut Tally) -> Opening {
        match self.connections[index].phase {
            Phase::Closed { .. } => self.open(index, now, tally),
            _ => Opening::Begun,
        }
    }

    /// Hands requests to a connection that is open, or that writes them once it is.
    fn put(&mut self, index: usize, count: usize, from: Nanos, now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        connection.request(count, from, now, &self.requests);
        tally.sent += count as u64;
        if connection.phase == Phase::Open {
            // With every request: it almost always exists.
            if !self.deadlines.has(index) {
                self.deadlines.make(index, self.deadline(now));
            }
            self.flush(index, now, tally);
        }
    }

    /// Writes the pending bytes of a connection.
    pub(super) fn flush(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        match self.connections[index].wire.flush(&self.requests) {
            Ok(false) => {}
            Ok(true) => self.unread.push(index),
            Err(failure) => return self.refused(index, failure, now, tally),
        }
        self.set_alarm(index);
    }

    /// Sends the requests that are due, as far as connections are free.
    pub(super) fn send_due(&mut self, tally: &mut Tally) {
        self.is_behind = false;
        if !self.running {
            return;
        }
        for _ in 0..TICKETS_PER_TURN {
            let now = self.poller.now();
            let free = self.first_free().or_else(|| self.first_dormant());
            let Some(schedule) = &mut self.schedule else { return };
            let deadline = schedule.next().saturating_add(self.timeout);
            if deadline < now {
                if let Some(intended) = schedule.take(now) {
                    self.left -= 1;
                    let blocked = free.is_none_or(|(_, since)| since > deadline);
                    tally.unsent(blocked, now.saturating_sub(intended));
                }
                continue;
            }
            let Some((index, free_since)) = free else { return };
            if schedule.next() > now {
                return;
            }
            self.unqueue(index);
            let opening = self.opening(index, now, tally);
            if opening == Opening::Later {
                // The request stays due, for the next connection.
                continue;
            }
            let Some(intended) = self.schedule.as_mut().and_then(|schedule| schedule.take(now)) else {
                return;
            };
            self.left -= 1;
            let possible = free_since.min(now - self.stalled(intended));
            tally.scheduled(intended, possible, now);
            if opening == Opening::Begun {
                self.put(index, 1, intended, now, tally);
            } else {
                tally.blocked += 1;
            }
            let connection = &mut self.connections[index];
            if connection.wire.room(self.depth) == 0 {
                connection.free_since = None;
            } else if connection.free_since.is_some() {
                self.queue(index);
            }
        }
        self.is_behind = true;
    }

    /// Time for which this thread did not get to a request due at `intended`. Must be called in the order of the schedule.
    fn stalled(&mut self, intended: Nanos) -> Nanos {
        while self.stalls.front().is_some_and(|(_, end)| *end < intended) {
            self.stalls.pop_front();
        }
        self.stalls.front().filter(|(begin, _)| *begin <= intended).map_or(0, |(_, end)| end - intended)
    }

    /// The connection that has been free for longest, and since when. Connections that closed since they were
    /// queued are dropped from the queue.
    fn first_free(&mut self) -> Option<(usize, Nanos)> {
        loop {
            let index = *self.free.front()?;
            if let Some(since) = self.connections[index].free_since {
                return Some((index, since));
            }
            self.connections[index].queued = false;
            self.free.pop_front();
        }
    }

    /// The connection that was closed idle first, and when. Those that were reopened since are dropped from the queue.
    fn first_dormant(&mut self) -> Option<(usize, Nanos)> {
        loop {
            let index = *self.dormant.front()?;
            if let Phase::Closed { idle_since: Some(since), .. } = self.connections[index].phase {
                return Some((index, since));
            }
            self.connections[index].is_dormant = false;
            self.dormant.pop_front();
        }
    }

    /// Takes a connection that [`Self::first_free`] or [`Self::first_dormant`] returned out of its queue.
    fn unqueue(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.queued && self.free.front() == Some(&index) {
            connection.queued = false;
            self.free.pop_front();
        } else {
            connection.is_dormant = false;
            self.dormant.pop_front();
        }
    }

    /// True if a queued connection could take a request now.
    pub(super) fn is_free(&self, index: usize) -> bool {
        let connection = &self.connections[index];
        let is_dormant = matches!(connection.phase, Phase::Closed { idle_since: Some(_), .. });
        connection.free_since.is_some() || is_dormant
    }

    /// Gives up a connection; starts the next one at once if this one had responded.
    pub(super) fn fail(&mut self, index: usize, failure: Failure, now: Nanos, tally: &mut Tally) {
        self.connections[index].fail(failure, now, self.timeout, &self.requests, tally);
        self.again(index, now, tally);
    }

    /// Starts the next connection in place of a closed one, now or after its wait.
    pub(super) fn again(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        match self.connections[index].phase {
            Phase::Closed { retry_at, .. } if retry_at > now => self.appoint(index),
            Phase::Closed { .. } if !self.running => {}
            Phase::Closed { .. } if self.single => self.supply(index, now, tally),
            Phase::Closed { .. } => {
                self.open(index, now, tally);
            }
            _ => {}
        }
    }

    /// Starts connecting, without waiting.
    fn open(&mut self, index: usize, now: Nanos, tally: &mut Tally) -> Opening {
        let connection = &mut self.connections[index];
        if self.schedule.is_some() && matches!(connection.phase, Phase::Closed { idle_since: Some(_), .. }) {
            tally.event(Event::Reconnect);
        }
        let Err(error) = connection.open(&self.poller, index, &self.peer, &self.requests, now) else {
            self.deadlines.make(index, self.deadline(now));
            return Opening::Begun;
        };
        if let Phase::Closed { retry_at, .. } = connection.phase {
            // Never at this very moment: this is an attempt already.
            self.retries.make(index, retry_at.max(now + 1));
        }
        if self.peer.is_full(&error) {
            return Opening::Later;
        }
        tally.failed(ErrorClass::of_connect(&error), &error, 1);
        tally.not_sent += 1;
        Opening::Failed
    }

    /// Moment to check if an action started at `since` has timed out: never before it has, and together with
    /// many others.
    fn deadline(&self, since: Nanos) -> Nanos {
        (since + self.timeout + 1).next_multiple_of(self.period)
    }

    /// Schedules the check of a timeout, or the reopening of a closed connection.
    pub(super) fn appoint(&mut self, index: usize) {
        match self.connections[index].phase {
            Phase::Closed { retry_at, idle_since } => {
                self.retries.make(index, retry_at);
                let is_queued = idle_since.is_none() || self.connections[index].is_dormant;
                if self.schedule.is_some() && !is_queued {
                    self.connections[index].is_dormant = true;
                    self.dormant.push_back(index);
                }
            }
            Phase::Connecting { since } | Phase::Greeting { since } => {
                self.deadlines.make(index, self.deadline(since));
            }
            Phase::Open => {}
        }
    }

    /// Schedules the check of the oldest request that is left.
    fn appoint_next(&mut self, index: usize) {
        if let Some(since) = self.connections[index].waits_since() {
            self.deadlines.make(index, self.deadline(since));
        }
    }

    /// Checks the connections whose time has come: for timeouts, and for the next attempt.
    pub(super) fn keep_appointments(&mut self, now: Nanos, tally: &mut Tally) {
        for _ in 0..TICKETS_PER_TURN {
            let Some(index) = self.deadlines.due(now) else { break };
            let Some(since) = self.connections[index].waits_since() else { continue };
            if now.saturating_sub(since) <= self.timeout {
                self.deadlines.make(index, self.deadline(since));
                continue;
            }
            let late = |class| Failure::new(class, "no answer within the timeout");
            let failure = match self.connections[index].phase {
                Phase::Greeting { .. }
                    if self.peer.tls.is_some() && !self.connections[index].wire.is_silent() =>
                {
                    late(ErrorClass::Tls)
                }
                Phase::Connecting { .. } | Phase::Greeting { .. } => late(ErrorClass::Connect),
                Phase::Open | Phase::Closed { .. } => ErrorClass::Timeout.into(),
            };
            let is_open = failure.class == ErrorClass::Timeout;
            if is_open && self.connections[index].wire.expire(now, self.timeout, tally) {
                // Whatever is left is looked at after the reading, as its deadline is.
                self.unread.push(index);
                self.appoint_next(index);
                continue;
            }
            self.fail(index, failure, now, tally);
        }
        for _ in 0..TICKETS_PER_TURN {
            let Some(index) = self.retries.due(now) else { break };
            self.again(index, now, tally);
        }
    }
}
