//! Where a server of ours listens.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::str::FromStr;

use rustix::net::sockopt::socket_acceptconn;

use super::typed::address;
use crate::error::{CommandError, Kind, Result};

/// An address, or the listening socket on standard input, written `-`: the program that made it, such as systemd, may have
/// rights that the server lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listen {
    Address(SocketAddr),
    StandardInput,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "-" => Ok(Self::StandardInput),
            text => address(text).map(Self::Address),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::StandardInput => f.write_str("-"),
        }
    }
}

/// The listening socket and its address.
pub(super) fn open(listen: Listen) -> Result<(TcpListener, SocketAddr)> {
    let listener = match listen {
        Listen::Address(address) => TcpListener::bind(address).map_err(|error| {
            CommandError::new(Kind::from(&error), format!("cannot listen on {address}: {error}"))
        })?,
        Listen::StandardInput => passed()?,
    };
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn passed() -> Result<TcpListener> {
    let input = std::io::stdin();
    if !socket_acceptconn(&input).unwrap_or(false) {
        return Err(CommandError::usage("standard input is not a socket that listens")
            .hint("`--listen -` is for a service with StandardInput=socket; name an address otherwise"));
    }
    Ok(TcpListener::from(input.as_fd().try_clone_to_owned()?))
}
