//! The address behind a URL.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::spec::Spec;

/// Where a load goes.
#[derive(Debug, Clone)]
pub(super) enum Destination {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl Destination {
    /// Looks the addresses up; at least one. A server may listen on one of them only.
    pub(super) fn of(spec: &Spec) -> std::io::Result<Vec<Self>> {
        if let Some(path) = &spec.unix {
            return Ok(vec![Destination::Unix(path.clone())]);
        }
        let addresses = (spec.url.host.as_str(), spec.url.port).to_socket_addrs()?;
        // Of a name with both kinds of address, the one that the sources can reach.
        let suits = |address: &SocketAddr| {
            spec.sources.first().is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        let found: Vec<Self> = addresses.filter(suits).map(Destination::Inet).collect();
        if found.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(found) }
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
