//! The engine with a protocol of its own, on a socket that never responds.

use std::net::UdpSocket;
use std::ops::Range;

use rustix::io::Errno;

use super::{Engine, Exchange};
use crate::clock::{Clock, MILLISECOND, Nanos, SECOND};
use crate::error_class::ErrorClass;
use crate::event::Event;
use crate::poller::Poller;
use crate::rate::Rate;
use crate::schedule::Schedule;
use crate::spec::Spec;
use crate::tally::Tally;
use crate::udp::talk::{Heard, Talk};
use rxlab_sys::socket::receive_buffer;

/// Flow 0 may send from this moment on, flow 1 after twice the time.
struct Opens(Nanos);

impl Talk for Opens {
    fn ask(&mut self, flow: usize, _number: u64, _now: Nanos, out: &mut Vec<u8>) {
        out.push(flow as u8);
    }

    fn hear(&mut self, _flow: usize, _waiting: Range<u64>, _datagram: &[u8], _now: Nanos) -> Heard {
        Heard::Foreign
    }

    fn is_open(&self, flow: usize, now: Nanos) -> bool {
        now >= self.0 * (flow as u64 + 1)
    }
}

/// An engine for two flows to `address`.
fn engine(address: std::net::SocketAddr, opens: Nanos, timeout: Nanos, clock: Clock) -> Exchange {
    let mut spec = Spec::new(format!("udp://{address}").parse().expect("a URL"));
    (spec.connections, spec.timeout) = (2, std::time::Duration::from_nanos(timeout));
    let poller = Poller::alone(spec.pacing, clock);
    Exchange::new(&spec, address, 0, Box::new(Opens(opens)), poller).expect("sockets")
}

/// Runs a schedule of 1000 per second over two flows until 300 requests are sent or given up; flow 0
/// opens at `opens`. Returns the counts, the requests due, and the flow of each that arrived.
fn run(opens: Nanos, timeout: Nanos) -> (Tally, u64, Vec<u8>) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("bound");
    receiver.set_nonblocking(true).expect("set");
    let address = receiver.local_addr().expect("bound");
    let clock = Clock::start();
    let mut exchange = engine(address, opens, timeout, clock);
    let schedule = Schedule::new(0, &Rate::steady(1000.0), false, 0, 1, u64::MAX);
    let mut tally = Tally::new();
    exchange.begin(Some(schedule), &mut tally);
    let (mut byte, mut flows) = ([0], Vec::new());
    while tally.sent + tally.errors_of(ErrorClass::Unsent) < 300 {
        exchange.turn(&mut tally);
        flows.extend(std::iter::from_fn(|| receiver.recv(&mut byte).ok().map(|_| byte[0])));
    }
    let due = exchange.schedule().map_or(0, |schedule| schedule.cut(clock.now()));
    (tally, due, flows)
}

/// A tracker that issues no connection ids must not make its client drop or hide a request.
#[test]
fn what_is_due_waits_for_a_flow_that_may_send() {
    let (tally, due, flows) = run(100 * MILLISECOND, 10 * SECOND);
    assert_eq!(tally.errors.values().sum::<u64>(), 0);
    assert!(tally.sent <= due, "{} of {due}", tally.sent);
    assert_eq!(flows.len() as u64, tally.sent);
    let first_of_other = flows.iter().position(|flow| *flow == 1).expect("the other flow opened too");
    assert!(first_of_other >= 100, "it opened later: {first_of_other}");
    // They were late, and count from when they were due.
    assert!(tally.late.max() >= 90 * MILLISECOND, "{}", tally.late.max());
    // A hundred waited for the target, 50 ms each. None of that is the client's lag.
    let waited = tally.late.mean() - tally.lag.mean();
    assert!(waited >= 10.0 * MILLISECOND as f64, "{} and {}", tally.late.mean(), tally.lag.mean());
}

#[test]
fn what_waits_too_long_for_a_flow_is_unsent() {
    let (tally, due, flows) = run(200 * MILLISECOND, 50 * MILLISECOND);
    let unsent = tally.errors_of(ErrorClass::Unsent);
    // Those of the first 150 ms, and what a stalled CPU adds.
    assert!(unsent >= 149, "{unsent}");
    assert!((149..=unsent).contains(&tally.blocked), "{} were the tracker's", tally.blocked);
    assert_eq!(flows.len() as u64, tally.sent);
    assert!(tally.sent + unsent <= due, "{} and {unsent} of {due}", tally.sent);
}

/// With as many per turn as may be sent, and turns as rare as sweeps, most of them were once not counted.
#[test]
fn all_that_waits_too_long_is_unsent_however_much_it_is() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let clock = Clock::start();
    let timeout = 200 * MILLISECOND;
    let mut exchange = engine(peer.local_addr().expect("bound"), Nanos::MAX / 2, timeout, clock);
    let mut tally = Tally::new();
    let schedule = Schedule::new(0, &Rate::steady(1e6), false, 0, 1, u64::MAX);
    exchange.begin(Some(schedule), &mut tally);
    let (mut last, mut now) = (0, clock.now());
    while now < 2 * timeout {
        exchange.turn(&mut tally);
        (last, now) = (now, clock.now());
    }
    let unanswered = exchange.unanswered(now);
    assert!(unanswered.late == 0 && unanswered.waiting > 0, "no flow may send: {unanswered:?}");
    assert_eq!(unanswered.ages.len(), unanswered.waiting);
    let unsent = tally.errors_of(ErrorClass::Unsent);
    assert_eq!(tally.blocked, unsent);
    // One is due every microsecond; a stalled CPU may delay the last turn, and count late in it.
    let [least, most] = [last, now].map(|at| at.saturating_sub(timeout) / 1000);
    assert!((least / 2..=most + most / 10).contains(&unsent), "{unsent} of {least} to {most}");
}

/// Datagrams that a busy client did not read in time once counted as lost on the way.
#[test]
fn what_the_client_drops_itself_is_told() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut exchange = engine(peer.local_addr().expect("bound"), 0, 10 * SECOND, Clock::start());
    for flow in &exchange.flows {
        receive_buffer(&flow.socket, 4096).expect("set");
    }
    let mut tally = Tally::new();
    exchange.begin(None, &mut tally);
    let (_, flow) = peer.recv_from(&mut [0; 8]).expect("asked");
    for _ in 0..200 {
        peer.send_to(&[1; 500], flow).expect("sent");
    }
    exchange.count_drops(&mut tally);
    let dropped = tally.datagrams.client_dropped;
    assert!(dropped > 0);
    while tally.events.get(&Event::Stray).copied().unwrap_or(0) + dropped < 200 {
        exchange.turn(&mut tally);
    }
    exchange.count_drops(&mut tally);
    assert_eq!(tally.datagrams.client_dropped, dropped, "each is counted once");
}

/// In a closed loop a slow device fills the send buffer; with a schedule a due request is then late.
#[test]
fn a_full_send_buffer_holds_only_a_closed_loop_back() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let mut exchange = engine(peer.local_addr().expect("bound"), 0, SECOND, Clock::start());
    assert!(exchange.may_wait(Some(Errno::AGAIN)) && !exchange.may_wait(Some(Errno::NOBUFS)));
    exchange.schedule = Some(Schedule::new(0, &Rate::steady(1.0), false, 0, 1, 1));
    assert!(!exchange.may_wait(Some(Errno::AGAIN)));
}
