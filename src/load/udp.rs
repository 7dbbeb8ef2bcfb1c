//! UDP load: questions and answers, and one way.

mod exchange;
mod flow;
mod oneway;
mod payload;
mod sink;
mod sockets;
mod talk;
mod train;

use std::net::SocketAddr;

pub(super) use exchange::Exchange;
pub(super) use oneway::OneWay;
pub(super) use sink::{Arrived, SinkTotals};

use super::clock::Clock;
use super::poller::Poller;
use super::spec::Spec;
use talk::EchoTalk;

/// The engine of thread `index` for round trips.
pub(super) fn exchange(
    spec: &Spec,
    address: SocketAddr,
    index: usize,
    session: u64,
    poller: Poller,
    clock: Clock,
) -> std::io::Result<Exchange> {
    let talk = Box::new(EchoTalk::new(session, spec.size));
    Exchange::new(spec, address, index, talk, poller, clock)
}
