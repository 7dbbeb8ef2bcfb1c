//! One-way datagrams of one thread: on a schedule, or as fast as the kernel accepts them.
//!
//! The sink counts the arrivals; see `sink.rs`.

use std::net::{SocketAddr, UdpSocket};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::flow::Header;
use super::sink::SinkTotals;
use super::train::Trains;
use super::{check_depth, check_payload, flow_sockets};
use crate::check::{SpecError, range};
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::destination::Destination;
use crate::error_class::ErrorClass;
use crate::poller::Poller;
use crate::protocol::{Definition, Opened};
use crate::schedule::Schedule;
use crate::session::LoadError;
use crate::spec::Spec;
use crate::tally::{Tally, Unanswered};
use crate::thread::{Engine, Worker};

/// Datagrams or trains sent before the thread checks the clock and the session again.
const SENDS: usize = 64;
/// Longest wait for room in a full send buffer.
const MAX_WAIT: Nanos = MILLISECOND;

/// Datagrams due for this long are no longer sent: a source of packets does not catch up, and one that did
/// would carry the shortfall of one slot of a trial into the next.
const LATE: Nanos = 10 * MILLISECOND;

struct OneWay {
    poller: Poller,
    schedule: Option<Schedule>,
    flows: Vec<Flow>,
    turn: usize,
    session: u64,
    size: usize,
    /// Datagrams in a train, at most.
    batch: usize,
    trains: Trains,
    out: Vec<u8>,
}

struct Flow {
    socket: UdpSocket,
    /// Number of its next datagram.
    next: u64,
}

/// `udp-sink://`.
pub(crate) struct UdpSink;

impl Definition for UdpSink {
    fn scheme(&self, tls: bool) -> Option<&'static str> {
        (!tls).then_some("udp-sink")
    }

    fn form(&self) -> &'static str {
        "udp-sink://HOST:PORT"
    }

    fn noun(&self) -> &'static str {
        "packets"
    }

    fn is_one_way(&self) -> bool {
        true
    }

    fn options(&self) -> &'static [&'static str] {
        &["--size", "--batch"]
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        check_depth(spec)?;
        check_payload(spec)?;
        if spec.pipeline != 1 {
            return range("--pipeline", "1 for a one-way load".to_owned(), spec.pipeline.to_string());
        }
        Ok(())
    }

    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
        let (address, index) = (destination.inet(), worker.index);
        let engine = OneWay::new(&worker.spec, address, index, worker.session, poller)
            .map_err(|error| worker.unreached(destination, error))?;
        let down = |error| worker.down(destination, error);
        let mut sink = None;
        if index == 0 {
            let totals = SinkTotals::connect(address).map_err(down)?;
            sink = totals.arrived().map_err(down)?.map(|_| totals);
        }
        Ok((Box::new(engine), sink))
    }
}

impl OneWay {
    fn new(
        spec: &Spec,
        address: SocketAddr,
        index: usize,
        session: u64,
        poller: Poller,
    ) -> std::io::Result<Self> {
        let sockets = flow_sockets(spec, address, index, &poller, EventFlags::ET)?;
        let flows = sockets.into_iter().map(|socket| Flow { socket, next: 0 }).collect();
        Ok(Self {
            poller,
            schedule: None,
            flows,
            turn: 0,
            session,
            size: spec.size,
            batch: spec.batch,
            trains: Trains::default(),
            out: vec![0; spec.size * spec.batch],
        })
    }

    /// Waits until the current flow has room again. Registered only now: every packet that leaves makes room,
    /// and would wake this thread, at the expense of the CPU that frees it.
    fn wait_for_room(&mut self, now: Nanos) {
        let once = EventFlags::OUT | EventFlags::ET | EventFlags::ONESHOT;
        // If registering fails, the wait ends by time.
        let _ = self.poller.change(&self.flows[self.turn].socket, self.turn, once);
        self.poller.wait(now, now + MAX_WAIT, false, &mut 0);
    }

    /// Sends `count` datagrams on the current flow; `false` if the send buffer is full.
    fn send(&mut self, count: usize, now: Nanos, tally: &mut Tally) -> bool {
        self.turn = (self.turn + 1) % self.flows.len();
        let flow = &mut self.flows[self.turn];
        let out = &mut self.out[..count * self.size];
        for (number, datagram) in (flow.next..).zip(out.chunks_mut(self.size)) {
            Header { session: self.session, sequence: number, sent: now }.write(datagram);
        }
        let (sent, kept) = self.trains.send(&flow.socket, out, self.size, tally);
        // A receiver that counts gaps must not mistake unsent datagrams for lost ones.
        flow.next += sent as u64;
        tally.sent += sent as u64;
        tally.completed += sent as u64;
        match kept {
            None => {}
            Some(Errno::AGAIN) => {
                if self.schedule.is_some() {
                    tally.unsendable(None, count - sent);
                }
                return false;
            }
            Some(errno) => tally.unsendable(Some(errno), count - sent),
        }
        true
    }
}

impl Engine for OneWay {
    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn begin(&mut self, schedule: Option<Schedule>, _tally: &mut Tally) {
        self.schedule = schedule;
    }

    /// Sends a batch; with a schedule, waits for it to be due.
    fn turn(&mut self, tally: &mut Tally) {
        let now = self.poller.now();
        if let Some(next) = self.schedule.as_ref().map(Schedule::next)
            && next > now
        {
            let until = next.min(now + SECOND);
            self.poller.wait(now, until, until == next, &mut tally.spun);
        }
        for _ in 0..SENDS {
            let now = self.poller.now();
            let mut count = 0;
            while count < self.batch {
                if let Some(schedule) = &mut self.schedule {
                    // One clock read for all datagrams due together.
                    let Some(intended) = schedule.take(now) else { break };
                    if intended + LATE < now {
                        tally.error(ErrorClass::Unsent, 1);
                        tally.not_sent += 1;
                        continue;
                    }
                    tally.scheduled(intended, intended, now);
                }
                count += 1;
            }
            if count == 0 {
                return;
            }
            if !self.send(count, now, tally) {
                self.wait_for_room(now);
                return;
            }
        }
    }

    /// Datagrams due at `now` but not sent. They have no age: latency is not measured either.
    fn unanswered(&self, now: Nanos) -> Unanswered {
        let late = self.schedule.as_ref().map_or(0, |schedule| schedule.late_count(now));
        Unanswered { late, ..Unanswered::new() }
    }

    fn schedule(&mut self) -> Option<&mut Schedule> {
        self.schedule.as_mut()
    }
}
