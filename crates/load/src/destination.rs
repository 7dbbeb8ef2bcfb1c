//! The address behind a URL.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::spec::Spec;

/// Destination of a load.
#[derive(Debug, Clone)]
pub enum Destination {
    /// An address and a port.
    Inet(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Destination {
    /// Resolves the addresses, at least one. A server may listen on only one of them.
    pub fn resolve(spec: &Spec) -> std::io::Result<Vec<Self>> {
        if let Some(path) = &spec.unix {
            return Ok(vec![Destination::Unix(path.clone())]);
        }
        let port = spec.connect_to.as_ref().and_then(|to| to.port).unwrap_or(spec.url.port);
        let addresses = (spec.host(), port).to_socket_addrs()?;
        // If the name has both kinds of addresses, those that the sources can reach.
        let suits = |address: &SocketAddr| {
            spec.sources.first().is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        let found: Vec<Self> = addresses.filter(suits).map(Destination::Inet).collect();
        if found.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(found) }
    }

    /// The address of a load over UDP.
    pub(super) fn inet(&self) -> SocketAddr {
        match self {
            Destination::Inet(address) => *address,
            Destination::Unix(_) => unreachable!("a spec for UDP with a unix socket is refused"),
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Inet(address) => address.fmt(f),
            Destination::Unix(path) => path.display().fmt(f),
        }
    }
}
