//! Datagrams one way, from one thread: on a schedule, or as fast as the kernel takes them.
//!
//! What arrived is for the sink to say; see `sink.rs`.

use std::net::{SocketAddr, UdpSocket};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::echo::flow_socket;
use super::payload::Header;
use crate::load::clock::{Clock, MILLISECOND, Nanos, SECOND};
use crate::load::error_class::ErrorClass;
use crate::load::interval::Tally;
use crate::load::poller::Poller;
use crate::load::schedule::Schedule;
use crate::load::spec::Spec;

/// Datagrams sent before the thread looks at the clock and at the session again.
const BATCH: usize = 64;
/// Longest wait for room in a full send buffer.
const FULL: Nanos = MILLISECOND;

pub(crate) struct OneWay {
    clock: Clock,
    poller: Poller,
    timeout: Nanos,
    schedule: Option<Schedule>,
    flows: Vec<UdpSocket>,
    turn: usize,
    session: u64,
    sequence: u64,
    payload: Vec<u8>,
}

impl OneWay {
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
                poller.add(&socket, index, EventFlags::OUT | EventFlags::ET)?;
                Ok(socket)
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self {
            clock,
            poller,
            timeout: spec.timeout.as_nanos() as Nanos,
            schedule: None,
            flows,
            turn: 0,
            session,
            sequence: 0,
            payload: vec![0; spec.size],
        })
    }

    pub(crate) fn begin(&mut self, schedule: Option<Schedule>) {
        self.schedule = schedule;
    }

    /// Sends a batch, after waiting for it to be due where there is a schedule.
    pub(crate) fn turn(&mut self, tally: &mut Tally) {
        let now = self.clock.now();
        if let Some(next) = self.schedule.as_ref().map(Schedule::next)
            && next > now
        {
            let until = next.min(now + SECOND);
            self.poller.wait(now, until, until == next, &mut tally.spun);
        }
        let now = self.clock.now();
        for _ in 0..BATCH {
            if let Some(schedule) = &mut self.schedule {
                // One clock read for what is due together.
                let Some(intended) = schedule.take(now) else { return };
                if intended + self.timeout < now {
                    tally.error(ErrorClass::Unsent, 1);
                    continue;
                }
                tally.scheduled(intended, intended, now);
            }
            if !self.send(now, tally) {
                return self.poller.wait(now, now + FULL, false, &mut 0);
            }
        }
    }

    /// The schedule, for the count of what was due.
    pub(crate) fn schedule(&mut self) -> Option<&mut Schedule> {
        self.schedule.as_mut()
    }

    /// Sends one datagram on the flow whose turn it is; `false` when the send buffer is full.
    fn send(&mut self, now: Nanos, tally: &mut Tally) -> bool {
        self.turn = (self.turn + 1) % self.flows.len();
        Header { session: self.session, sequence: self.sequence, sent: now }.write(&mut self.payload);
        self.sequence += 1;
        match send(&self.flows[self.turn], &self.payload, SendFlags::NOSIGNAL) {
            Ok(_) => {
                tally.sent += 1;
                tally.completed += 1;
            }
            Err(Errno::AGAIN) => {
                if self.schedule.is_some() {
                    tally.error(ErrorClass::Send, 1);
                }
                return false;
            }
            Err(Errno::CONNREFUSED) => tally.error(ErrorClass::Connect, 1),
            Err(_) => tally.error(ErrorClass::Send, 1),
        }
        true
    }
}
