//! UDP load: request-response protocols, and one way.

mod dns;
mod echo;
mod exchange;
mod flow;
mod oneway;
mod sink;
mod talk;
mod tracker;
mod train;

use std::net::{SocketAddr, UdpSocket};

use rustix::event::epoll::EventFlags;

pub(super) use dns::Dns;
pub use dns::{dns_answer, hear_name_server};
pub(super) use echo::UdpEcho;
pub(super) use oneway::UdpSink;
pub(super) use sink::SinkTotals;
pub(super) use tracker::UdpTracker;
pub use tracker::hear_tracker;

use super::check::{SpecError, range, refuse_if};
use super::destination::Destination;
use super::poller::Poller;
use super::protocol::Opened;
use super::session::LoadError;
use super::spec::{MAX_PAYLOAD, MIN_PAYLOAD, Spec};
use super::thread::{WARM_UP, Worker};
use crate::servers::UDP_BUFFER;
use exchange::Exchange;
use rxlab_sys::datagrams::MAX_TRAIN;
use rxlab_sys::socket::receive_buffer;
use talk::Talk;

/// Checks options of datagrams with a payload.
fn check_payload(spec: &Spec) -> Result<(), SpecError> {
    if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&spec.size) {
        return range("--size", format!("{MIN_PAYLOAD} to {MAX_PAYLOAD} bytes"), spec.size.to_string());
    }
    // A train counts as one datagram until the kernel splits it.
    let most = MAX_TRAIN.min(MAX_PAYLOAD / spec.size);
    if !(1..=most).contains(&spec.batch) {
        let most = format!("1 to {most} with datagrams of {} bytes", spec.size);
        return range("--batch", most, spec.batch.to_string());
    }
    Ok(())
}

/// Checks that nothing has to wait for a response.
fn check_depth(spec: &Spec) -> Result<(), SpecError> {
    refuse_if(
        spec.rate.is_some() && spec.pipeline != 1,
        "--pipeline does not work with --rate over UDP: nothing waits for a response",
    )
}

/// Opens the flows of a thread for a protocol with responses.
fn exchange(
    worker: &Worker,
    destination: &Destination,
    poller: Poller,
    talk: impl Talk + 'static,
) -> Result<Opened, LoadError> {
    let address = destination.inet();
    let mut engine = Exchange::new(&worker.spec, address, worker.index, Box::new(talk), poller)
        .map_err(|error| worker.unreached(destination, error))?;
    let down = |error| worker.down(destination, error);
    if worker.index == 0 {
        engine.probe(address).map_err(down)?;
    }
    engine.warm(worker.clock.now() + WARM_UP).map_err(down)?;
    Ok((Box::new(engine), None))
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
