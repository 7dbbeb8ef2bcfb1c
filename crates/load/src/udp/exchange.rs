//! Requests and responses of one thread: a fixed number outstanding on each flow, or a fixed schedule.

mod fallback;
mod opening;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, UdpSocket};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use self::fallback::Fallback;
use super::flow::{Echoed, Window};
use super::flow_sockets;
use super::talk::{Heard, Talk};
use super::train::Trains;
use crate::clock::Nanos;
use crate::error_class::{ErrorClass, answer_of_network};
use crate::event::Event;
use crate::poller::{Poller, Ready};
use crate::schedule::Schedule;
use crate::spec::Spec;
use crate::tally::{Tally, Unanswered};
use crate::thread::{Engine, TICKETS_PER_TURN, sweep_period};
use rxlab_sys::datagrams::{Train, receive, receive_trains};
use rxlab_sys::socket::dropped;

/// Receives from one flow before the others get their turn; epoll is level-triggered here.
const READS_PER_TURN: usize = 64;
/// Unanswered datagrams per flow in the open loop; beyond it a due one counts as unsent. Bounds
/// memory (24 bytes each) against a target that never responds.
const MAX_WINDOW: usize = 1 << 16;

struct Flow {
    socket: UdpSocket,
    window: Window,
    /// The number after the highest answered one.
    next_answer: u64,
    /// The socket's drop count when last read.
    dropped: u32,
}

pub(crate) struct Exchange {
    poller: Poller,
    talk: Box<dyn Talk>,
    /// Datagrams in a train, at most.
    batch: usize,
    depth: usize,
    timeout: Nanos,
    schedule: Option<Schedule>,
    running: bool,
    flows: Vec<Flow>,
    /// Requests that go over TCP; in the poller they follow the flows.
    fallbacks: Vec<Option<Fallback>>,
    /// Open loop: the next flow in turn.
    turn: usize,
    /// Open loop: a request is due, and no flow may send it.
    stuck: bool,
    /// Open loop: more may be due than one turn could send, or count as unsent.
    is_behind: bool,
    /// Open loop: moment since which some flow may send. Requests due before have waited for the target.
    possible: Nanos,
    next_sweep: Nanos,
    trains: Trains,
    /// Start of the latency of the datagrams in `out`.
    from: Vec<Nanos>,
    out: Vec<u8>,
    buffer: Vec<u8>,
    /// Length of the last datagrams in it.
    last: usize,
}

impl Exchange {
    pub(super) fn new(
        spec: &Spec,
        address: SocketAddr,
        index: usize,
        talk: Box<dyn Talk>,
        poller: Poller,
    ) -> std::io::Result<Self> {
        let sockets = flow_sockets(spec, address, index, &poller, EventFlags::IN)?;
        if spec.batch > 1 {
            sockets.iter().try_for_each(receive_trains)?;
        }
        let flow = |socket| Flow { socket, window: Window::default(), next_answer: 0, dropped: 0 };
        let flows = sockets.into_iter().map(flow).collect();
        Ok(Self {
            poller,
            talk,
            batch: spec.batch,
            depth: spec.pipeline * spec.batch,
            timeout: spec.timeout_ns(),
            schedule: None,
            running: false,
            flows,
            fallbacks: Vec::new(),
            turn: 0,
            stuck: false,
            is_behind: false,
            possible: 0,
            next_sweep: 0,
            trains: Trains::default(),
            from: Vec::new(),
            out: Vec::new(),
            buffer: vec![0; 64 * 1024],
            last: 0,
        })
    }

    /// Receives on a flow; returns the error if the network answered that the target is unreachable.
    fn receive(&mut self, index: usize, tally: &mut Tally) -> Option<Errno> {
        let mut refused = None;
        for _ in 0..READS_PER_TURN {
            let flow = &mut self.flows[index];
            let received = if self.batch > 1 {
                receive(&flow.socket, &mut self.buffer)
            } else {
                let received = recv(&flow.socket, &mut self.buffer[..], RecvFlags::empty());
                received.map(|(length, _)| Train { length, segment: length })
            };
            match received {
                Ok(train) => {
                    self.last = train.length;
                    tally.datagrams.receives += 1;
                    tally.bytes += train.length as u64;
                    self.hear(index, train, tally);
                }
                Err(errno) => {
                    let Some(answer) = answer_of_network(errno) else { break };
                    refused = Some(answer);
                    self.give_up_oldest(index, answer, tally);
                }
            }
            // Saves the read that would only return "nothing more".
            if self.flows[index].window.open() == 0 {
                break;
            }
        }
        // After a refusal the next sweep retries: no storm against a closed port.
        if refused.is_none() {
            self.supply(index, tally);
        }
        refused
    }

    /// Gives up the datagram that an answer of the network concerns: the oldest, most likely.
    fn give_up_oldest(&mut self, index: usize, errno: Errno, tally: &mut Tally) {
        if self.flows[index].window.give_up_oldest().is_some() {
            tally.failed(ErrorClass::Connect, &errno.into(), 1);
        }
    }

    /// Counts the datagrams of one receive, all with the same arrival time.
    fn hear(&mut self, index: usize, train: Train, tally: &mut Tally) {
        let now = self.poller.now();
        let ordered = self.talk.keeps_order();
        let flow = &mut self.flows[index];
        // Responses whose latency counts from the same moment.
        let (mut same, mut since) = (0, 0);
        let mut cut_off = Vec::new();
        for datagram in train.split(&self.buffer[..train.length]) {
            match self.talk.hear(index, flow.window.waiting(), datagram, now) {
                Heard::Answer(number, failure) => match flow.window.echoed(number) {
                    Echoed::Answer(from) => {
                        tally.unreached = 0;
                        if ordered {
                            let late = u64::from(number < flow.next_answer);
                            *tally.datagrams.reordered.get_or_insert(0) += late;
                            flow.next_answer = flow.next_answer.max(number + 1);
                        }
                        if let Some(failure) = failure {
                            tally.failed_for(failure, 1);
                        } else if from == since {
                            same += 1;
                        } else {
                            tally.complete_all(same, now.saturating_sub(since));
                            (same, since) = (1, from);
                        }
                    }
                    Echoed::Late => tally.datagrams.surplus += 1,
                    Echoed::Never => tally.event(Event::Stray),
                },
                Heard::CutOff(number) => {
                    tally.unreached = 0;
                    cut_off.push(number);
                }
                Heard::Handshake => tally.datagrams.handshakes += 1,
                Heard::Surplus => tally.datagrams.surplus += 1,
                Heard::Refused(reason) => tally.refused_flow(reason),
                Heard::Foreign => tally.event(Event::Stray),
            }
        }
        tally.complete_all(same, now.saturating_sub(since));
        cut_off.into_iter().for_each(|number| self.fall_back(index, number, tally));
    }

    /// Closed loop: sends until the flow has its number outstanding.
    fn supply(&mut self, index: usize, tally: &mut Tally) {
        if !self.running || self.schedule.is_some() {
            return;
        }
        loop {
            let window = &self.flows[index].window;
            let room = self.depth.saturating_sub(window.open()).min(MAX_WINDOW - window.len());
            // A lost datagram must not hold up its train, nor may trains shrink to nothing.
            if room < self.batch.div_ceil(2) {
                return;
            }
            let now = self.poller.now();
            if !self.talk.is_open(index, now) {
                return;
            }
            self.from.clear();
            self.from.resize(room.min(self.batch), now);
            if !self.send(index, now, tally) {
                return;
            }
        }
    }

    /// Open loop: sends what is due, the flows in turn; requests due at the same time go in one train.
    fn send_due(&mut self, tally: &mut Tally) {
        self.is_behind = self.running;
        if !self.running {
            return;
        }
        let mut left = TICKETS_PER_TURN;
        while left > 0 {
            let now = self.poller.now();
            self.from.clear();
            let stuck = !self.next_open(now);
            if self.stuck && !stuck {
                self.possible = now;
            }
            self.stuck = stuck;
            while self.from.len() < self.batch && left > 0 {
                // Without a flow to send it, a request stays due until it has waited too long.
                let latest = if self.stuck { now.saturating_sub(self.timeout + 1) } else { now };
                let Some(intended) = self.schedule.as_mut().and_then(|schedule| schedule.take(latest)) else {
                    // The rest is not due yet.
                    (left, self.is_behind) = (0, false);
                    break;
                };
                left -= 1;
                let full = self.flows[self.turn].window.len() + self.from.len() >= MAX_WINDOW;
                let deadline = intended + self.timeout;
                if full || deadline < now {
                    let blocked = full || self.stuck || self.possible > deadline;
                    tally.unsent(blocked, now.saturating_sub(intended));
                } else {
                    self.from.push(intended);
                }
            }
            if !self.from.is_empty() {
                self.send(self.turn, now, tally);
            }
        }
    }

    /// Advances to the next flow that may send; `false` without one.
    fn next_open(&mut self, now: Nanos) -> bool {
        let count = self.flows.len();
        let next =
            (1..=count).map(|step| (self.turn + step) % count).find(|flow| self.talk.is_open(*flow, now));
        self.turn = next.unwrap_or(self.turn);
        next.is_some()
    }

    /// Sends datagrams whose latency counts from `self.from`; `false` if the kernel did not accept all.
    fn send(&mut self, index: usize, now: Nanos, tally: &mut Tally) -> bool {
        let flow = &mut self.flows[index];
        self.out.clear();
        for number in flow.window.next()..flow.window.next() + self.from.len() as u64 {
            self.talk.ask(index, number, now, &mut self.out);
        }
        let size = self.out.len() / self.from.len();
        let mut result = self.trains.send(&flow.socket, &self.out, size, tally);
        if let (0, Some(errno)) = result
            && let Some(answer) = answer_of_network(errno)
        {
            // If it concerns an earlier datagram, none of these has been sent yet, and now they are.
            result = self.trains.send(&flow.socket, &self.out, size, tally);
            if result.1 != Some(errno) || errno == Errno::CONNREFUSED {
                self.give_up_oldest(index, answer, tally);
            }
        }
        let (sent, kept) = result;
        let flow = &mut self.flows[index];
        for from in &self.from[..sent] {
            flow.window.push(*from, now);
            if self.schedule.is_some() {
                tally.scheduled(*from, self.possible, now);
            }
        }
        tally.sent += sent as u64;
        if !self.may_wait(kept) {
            tally.unsendable(kept, self.from.len() - sent);
        }
        sent == self.from.len()
    }

    /// True if the error only holds the load back: without a schedule a full send buffer means that the
    /// client is faster than its device.
    fn may_wait(&self, kept: Option<Errno>) -> bool {
        kept == Some(Errno::AGAIN) && self.schedule.is_none()
    }
}

impl Engine for Exchange {
    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn begin(&mut self, schedule: Option<Schedule>, tally: &mut Tally) {
        self.schedule = schedule;
        self.running = true;
        (0..self.flows.len()).for_each(|index| self.supply(index, tally));
    }

    fn turn(&mut self, tally: &mut Tally) {
        let now = self.poller.now();
        let due = self.schedule.as_ref().filter(|_| !self.stuck).map(Schedule::next);
        let due = if self.is_behind { Some(now) } else { due };
        let until = self.next_sweep.min(due.unwrap_or(Nanos::MAX));
        self.poller.wait(now, until, due == Some(until), &mut tally.spun);
        for event in 0..self.poller.len() {
            if let Some(Ready { index, .. }) = self.poller.ready(event) {
                match index.checked_sub(self.flows.len()) {
                    Some(place) => self.proceed(place, tally),
                    None => drop(self.receive(index, tally)),
                }
            }
        }
        self.send_due(tally);
        let now = self.poller.now();
        if now >= self.next_sweep {
            for index in 0..self.flows.len() {
                while let Some(from) = self.flows[index].window.expire(now, self.timeout) {
                    self.talk.lost(index);
                    tally.timed_out(1, now.saturating_sub(from));
                }
                if self.running {
                    // Datagrams that could not be sent have no response, and are counted then.
                    let _ = self.greet(index, now, tally);
                }
                self.supply(index, tally);
            }
            self.drop_overdue_fallbacks();
            self.next_sweep = now + sweep_period(self.timeout);
        }
    }

    fn cease(&mut self) {
        self.running = false;
    }

    fn in_flight(&self) -> u64 {
        self.flows.iter().map(|flow| flow.window.open() as u64).sum()
    }

    fn unanswered(&self, now: Nanos) -> Unanswered {
        let mut unanswered = Unanswered::new();
        for from in self.flows.iter().flat_map(|flow| flow.window.since()) {
            unanswered.add_sent(1, from, now);
        }
        if let Some(schedule) = &self.schedule {
            unanswered.add_due(schedule.late(now), !self.stuck, now);
        }
        unanswered
    }

    fn schedule(&mut self) -> Option<&mut Schedule> {
        self.schedule.as_mut()
    }

    fn count_drops(&mut self, tally: &mut Tally) {
        for flow in &mut self.flows {
            let now = dropped(&flow.socket).unwrap_or(flow.dropped);
            let before = std::mem::replace(&mut flow.dropped, now);
            tally.datagrams.client_dropped += u64::from(now.wrapping_sub(before));
        }
    }
}
