//! Who sends the next request, in the closed and in the open loop, and what becomes of a connection
//! that failed.

use super::{Engine, ErrorClass, Nanos, Phase, Tally};
use crate::load::clock::MILLISECOND;
use crate::load::thread::{TICKETS_PER_TURN, sweep_period};

/// How often closed connections are looked at for their next attempt.
const RETRY_PERIOD: Nanos = 2 * MILLISECOND;

impl Engine {
    /// Gives a connection the requests it has room for: at once in the closed loop, by queueing it
    /// in the open loop.
    pub(super) fn supply(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        let connection = &mut self.connections[index];
        let ready = match connection.phase {
            Phase::Open => true,
            Phase::Closed { retry_at } => self.single && retry_at <= now,
            Phase::Connecting { .. } | Phase::Greeting { .. } => false,
        };
        let room = self.depth.saturating_sub(connection.outstanding());
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

    fn queue(&mut self, index: usize) {
        if !std::mem::replace(&mut self.connections[index].queued, true) {
            self.free.push_back(index);
        }
    }

    /// Sends `count` requests whose latency counts from `from`.
    fn send(&mut self, index: usize, count: usize, from: Nanos, now: Nanos, tally: &mut Tally) {
        self.left -= count as u64;
        let closed = matches!(self.connections[index].phase, Phase::Closed { .. });
        if closed && !self.open(index, now, tally) {
            return;
        }
        self.connections[index].request(count, from, now, &self.block);
        tally.sent += count as u64;
        if !closed {
            self.flush(index, now, tally);
        }
    }

    /// Writes what a connection still has to write.
    pub(super) fn flush(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        if let Err(class) = self.connections[index].flush(&self.block) {
            self.fail(index, class, now, tally);
        }
    }

    /// Sends the requests that are due, as far as connections are free.
    pub(super) fn send_due(&mut self, tally: &mut Tally) {
        if !self.running {
            return;
        }
        for _ in 0..TICKETS_PER_TURN {
            let now = self.clock.now();
            let Some(schedule) = &mut self.schedule else { return };
            if schedule.next().saturating_add(self.timeout) < now {
                if schedule.take(now).is_some() {
                    self.left -= 1;
                    tally.error(ErrorClass::Unsent, 1);
                }
                continue;
            }
            // A connection that closed since it was queued gives its place up.
            let (index, free_since) = loop {
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
            self.free.pop_front();
            self.connections[index].queued = false;
            tally.scheduled(intended, free_since, now);
            self.send(index, 1, intended, now, tally);
            let connection = &mut self.connections[index];
            if connection.outstanding() >= self.depth {
                connection.free_since = None;
            } else if connection.free_since.is_some() {
                self.queue(index);
            }
        }
    }

    /// Gives a connection up, and begins the next one at once when this one had answered.
    pub(super) fn fail(&mut self, index: usize, class: ErrorClass, now: Nanos, tally: &mut Tally) {
        self.connections[index].fail(class, now, &self.block, tally);
        self.closed += 1;
        self.again(index, now, tally);
    }

    /// Begins the next connection in place of a closed one whose wait is over.
    fn again(&mut self, index: usize, now: Nanos, tally: &mut Tally) {
        match self.connections[index].phase {
            Phase::Closed { retry_at } if retry_at <= now => {}
            _ => return,
        }
        if self.single {
            self.supply(index, now, tally);
        } else {
            self.open(index, now, tally);
        }
    }

    /// Begins to connect; `false` when that failed at once.
    fn open(&mut self, index: usize, now: Nanos, tally: &mut Tally) -> bool {
        let opened = self.connections[index].open(&self.poller, index, &self.peer, &self.block, now).is_ok();
        if opened {
            self.closed -= 1;
        } else {
            tally.error(ErrorClass::Connect, 1);
        }
        opened
    }

    /// Looks for timeouts, and for closed connections whose wait is over.
    pub(super) fn sweep(&mut self, now: Nanos, tally: &mut Tally) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.timed_out(now, self.timeout) {
                let class = match connection.phase {
                    Phase::Connecting { .. } => ErrorClass::Connect,
                    Phase::Greeting { .. } => ErrorClass::Tls,
                    Phase::Open | Phase::Closed { .. } => ErrorClass::Timeout,
                };
                self.fail(index, class, now, tally);
            } else {
                self.again(index, now, tally);
            }
        }
        let period = if self.closed > 0 { RETRY_PERIOD } else { sweep_period(self.timeout) };
        self.next_sweep = now + period;
    }
}
