//! Sockets of flows.

use std::net::{SocketAddr, UdpSocket};

use crate::host::socket::receive_buffer;
use crate::load::spec::Spec;
use crate::target::UDP_BUFFER;

/// Any address of the family of `address`, any port.
pub(super) fn unspecified(address: SocketAddr) -> SocketAddr {
    if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() }
}

/// Opens a non-blocking socket with its own source port, for flow `number` of the session.
pub(super) fn flow_socket(address: SocketAddr, spec: &Spec, number: usize) -> std::io::Result<UdpSocket> {
    let source = number.checked_rem(spec.sources.len()).map(|turn| SocketAddr::new(spec.sources[turn], 0));
    let socket = UdpSocket::bind(source.unwrap_or_else(|| unspecified(address)))?;
    receive_buffer(&socket, UDP_BUFFER)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
