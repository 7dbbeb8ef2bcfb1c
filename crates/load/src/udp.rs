//! UDP load: request-response protocols, and one way.

mod dns;
mod exchange;
mod flow;
mod oneway;
mod sink;
mod talk;
mod tracker;
mod train;

use std::net::{SocketAddr, UdpSocket};

use rustix::event::epoll::EventFlags;

pub use dns::{dns_answer, hear_name_server};
pub(super) use oneway::OneWay;
pub(super) use sink::SinkTotals;

use super::poller::Poller;
use super::query::{DnsQuestion, TrackerQuery};
use super::spec::Spec;
use super::url::Protocol;
use crate::servers::UDP_BUFFER;
use dns::Dns;
use exchange::Exchange;
use rxlab_sys::socket::receive_buffer;
use talk::{EchoTalk, Talk};
use tracker::Tracker;
pub use tracker::hear_tracker;

/// The engine of thread `index` for protocols with responses.
pub(super) fn exchange(
    spec: &Spec,
    address: SocketAddr,
    index: usize,
    session: u64,
    poller: Poller,
) -> std::io::Result<Exchange> {
    let talk: Box<dyn Talk> = match spec.url.protocol {
        Protocol::UdpTracker => {
            let question: TrackerQuery = spec.url.path.parse().expect("a URL was checked");
            Box::new(Tracker::new(question, session, spec.part(index), spec.timeout_ns()))
        }
        Protocol::Dns => {
            let question = |path: &String| -> DnsQuestion { path.parse().expect("a spec was checked") };
            Box::new(Dns::new(spec.targets().iter().map(question).collect(), session, spec.part(index).0))
        }
        _ => Box::new(EchoTalk::new(session, spec.size)),
    };
    Exchange::new(spec, address, index, talk, poller)
}

/// Any address of the family of `address`, any port.
fn unspecified(address: SocketAddr) -> SocketAddr {
    if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() }
}

/// Opens the sockets of the flows of thread `index`, each non-blocking and with its own source port, and adds them to
/// `poller` for the events of `flags`.
fn flow_sockets(
    spec: &Spec,
    address: SocketAddr,
    index: usize,
    poller: &Poller,
    flags: EventFlags,
) -> std::io::Result<Vec<UdpSocket>> {
    let (first, count) = spec.part(index);
    let open = |index| {
        let source = spec.source(first + index).unwrap_or_else(|| unspecified(address));
        let socket = UdpSocket::bind(source)?;
        receive_buffer(&socket, UDP_BUFFER)?;
        socket.connect(address)?;
        socket.set_nonblocking(true)?;
        poller.add(&socket, index, flags)?;
        Ok(socket)
    };
    (0..count).map(open).collect()
}
