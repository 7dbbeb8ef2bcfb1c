//! Destination and source address of connections.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};

use super::tls::Setup;
use crate::destination::Destination;
use crate::http_version::HttpVersion;
use crate::servers::UDP_BUFFER;
use crate::spec::Spec;
use rxlab_sys::datagrams::receive_trains;
use rxlab_sys::socket::{choose_port_late, receive_buffer};

/// What is said of a server that does not answer to QUIC.
pub(super) const SILENCE: &str = "no answer to QUIC over UDP";
/// Bytes that one receive returns at most (UDP_GRO).
const LARGEST_TRAIN: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Unix,
}

pub(super) struct Peer {
    address: SockAddr,
    kind: Kind,
    is_loopback: bool,
    sources: Vec<Option<SocketAddr>>,
    /// TLS settings, if used.
    pub(super) tls: Option<Setup>,
    /// What connections over UDP receive into, one at a time.
    pub(super) buffer: Rc<RefCell<Vec<u8>>>,
}

impl Peer {
    pub(super) fn new(destination: &Destination, spec: &Spec, tls: Option<Setup>) -> std::io::Result<Self> {
        let (address, kind) = match destination {
            Destination::Inet(address) if spec.http_version == HttpVersion::Http3 => {
                (SockAddr::from(*address), Kind::Udp)
            }
            Destination::Inet(address) => (SockAddr::from(*address), Kind::Tcp),
            Destination::Unix(path) => (SockAddr::unix(path)?, Kind::Unix),
        };
        // Without ports they repeat.
        let sources = if spec.source_ports.is_empty() { spec.sources.len() } else { spec.connections };
        let sources = (0..sources).map(|number| spec.source(number)).collect();
        let is_loopback = address.as_socket().is_some_and(|address| address.ip().is_loopback());
        let room = if kind == Kind::Udp { LARGEST_TRAIN } else { 0 };
        Ok(Self { address, kind, is_loopback, sources, tls, buffer: Rc::new(RefCell::new(vec![0; room])) })
    }

    /// True if the error only means that the listener's queue is full: TCP waits in this case, a unix socket
    /// has to retry.
    pub(super) fn is_full(&self, error: &std::io::Error) -> bool {
        self.kind == Kind::Unix && error.kind() == ErrorKind::WouldBlock
    }

    /// True if a TCP connection leads back to its own socket. That is how TCP connects to a port without a listener that the
    /// kernel has chosen for the client, too (RFC 9293 3.5, simultaneous open).
    pub(super) fn is_itself(&self, socket: &Socket) -> bool {
        self.kind == Kind::Tcp
            && self.is_loopback
            && socket.local_addr().is_ok_and(|local| local.as_socket() == self.address.as_socket())
    }

    /// The error of a peer that does not answer.
    pub(super) fn silence(&self) -> std::io::Error {
        match self.kind {
            Kind::Udp => std::io::Error::new(ErrorKind::TimedOut, SILENCE),
            Kind::Tcp | Kind::Unix => Errno::TIMEDOUT.into(),
        }
    }

    /// The address that datagrams go to.
    pub(super) fn inet(&self) -> SocketAddr {
        self.address.as_socket().expect("a unix socket has no datagrams here")
    }

    /// Opens a socket that is connecting or connected. Connection `number` of the session determines the
    /// source address.
    pub(super) fn connect(&self, number: usize) -> std::io::Result<Socket> {
        let domain = if self.kind == Kind::Unix { Domain::UNIX } else { self.address.domain() };
        let kind = if self.kind == Kind::Udp { Type::DGRAM } else { Type::STREAM };
        let socket = Socket::new(domain, kind, None)?;
        socket.set_nonblocking(true)?;
        match self.kind {
            Kind::Tcp => socket.set_tcp_nodelay(true)?,
            Kind::Udp => {
                receive_buffer(&socket, UDP_BUFFER)?;
                receive_trains(&socket)?;
            }
            Kind::Unix => {}
        }
        let source = number.checked_rem(self.sources.len()).and_then(|turn| self.sources[turn]);
        if let Some(source) = source {
            match source.port() {
                // Without it (before Linux 4.2) fewer ports are available.
                0 if self.kind == Kind::Tcp => drop(choose_port_late(&socket)),
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
