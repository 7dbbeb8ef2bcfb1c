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
    /// Looks the address up.
    pub(super) fn of(spec: &Spec) -> std::io::Result<Self> {
        if let Some(path) = &spec.unix {
            return Ok(Destination::Unix(path.clone()));
        }
        let mut addresses = (spec.url.host.as_str(), spec.url.port).to_socket_addrs()?;
        // Of a name with both kinds of address, the one that the sources can reach.
        let suits = |address: &SocketAddr| {
            spec.sources.first().is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        let address = addresses.find(suits);
        address.map(Destination::Inet).ok_or_else(|| std::io::ErrorKind::NotFound.into())
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
