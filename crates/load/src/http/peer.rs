//! Destination and source address of connections.

use std::net::SocketAddr;

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::tls::Setup;
use crate::destination::Destination;
use crate::spec::Spec;
use rxlab_sys::socket::choose_port_late;

pub(super) struct Peer {
    address: SockAddr,
    tcp: bool,
    sources: Vec<Option<SocketAddr>>,
    /// TLS settings, if used.
    pub(super) tls: Option<Setup>,
}

impl Peer {
    pub(super) fn new(destination: &Destination, spec: &Spec, tls: Option<Setup>) -> std::io::Result<Self> {
        let (address, tcp) = match destination {
            Destination::Inet(address) => (SockAddr::from(*address), true),
            Destination::Unix(path) => (SockAddr::unix(path)?, false),
        };
        // Without ports they repeat.
        let sources = if spec.source_ports.is_empty() { spec.sources.len() } else { spec.connections };
        Ok(Self { address, tcp, sources: (0..sources).map(|number| spec.source(number)).collect(), tls })
    }

    /// True if the error only means that the listener's queue is full: TCP waits in this case, a unix socket
    /// has to retry.
    pub(super) fn is_full(&self, error: &std::io::Error) -> bool {
        !self.tcp && error.kind() == std::io::ErrorKind::WouldBlock
    }

    /// Opens a socket that is connecting or connected. Connection `number` of the session determines the
    /// source address.
    pub(super) fn connect(&self, number: usize) -> std::io::Result<Socket> {
        let domain = if self.tcp { self.address.domain() } else { Domain::UNIX };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        if self.tcp {
            socket.set_tcp_nodelay(true)?;
        }
        let source = number.checked_rem(self.sources.len()).and_then(|turn| self.sources[turn]);
        if let Some(source) = source {
            match source.port() {
                // Without it (before Linux 4.2) fewer ports are available.
                0 if self.tcp => drop(choose_port_late(&socket)),
                0 => {}
                // The earlier connection from this port may not have ended everywhere.
                _ => socket.set_reuse_address(true)?,
            }
            socket.bind(&source.into())?;
        }
        match socket.connect(&self.address) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
            _ => Ok(socket),
        }
    }
}
