//! TLS under a connection: the handshake, and bytes between the socket and the HTTP above it.
//!
//! Every connection makes a full handshake: what a server remembers of earlier ones would make the
//! price of a connection depend on the run before.

use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use rustix::io::Errno;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use socket2::Socket;

use super::block::Block;
use super::outgoing::Outgoing;
use crate::load::error_class::ErrorClass;

/// What [`Tls::read`] gives when the other end does not keep to TLS.
pub(super) const BROKEN: Errno = Errno::PROTO;

/// What all connections of a load have in common.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Setup {
    /// For connections to `host`. An error says why no server can have that name.
    pub(crate) fn new(mut config: ClientConfig, host: &str) -> Result<Self, String> {
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?,
        };
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }
}

/// The state of one connection.
pub(super) struct Tls {
    connection: ClientConnection,
}

impl Tls {
    pub(super) fn new(setup: &Setup) -> std::io::Result<Self> {
        let connection = ClientConnection::new(Arc::clone(&setup.config), setup.name.clone());
        connection.map(|connection| Self { connection }).map_err(std::io::Error::other)
    }

    /// Goes on with the handshake as far as the socket lets it; whether it is over.
    pub(super) fn greet(&mut self, socket: &mut Socket) -> std::io::Result<bool> {
        loop {
            self.send(socket)?;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match self.receive(socket) {
                Ok(true) => {}
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    // What is wrong is told to the other end as well, if it still listens.
                    let _ = self.send(socket);
                    return Err(error);
                }
            }
        }
    }

    /// Reads once from the socket; `false` at its end.
    fn receive(&mut self, socket: &mut Socket) -> std::io::Result<bool> {
        let length = self.connection.read_tls(socket)?;
        self.connection.process_new_packets().map_err(std::io::Error::other)?;
        Ok(length > 0)
    }

    /// Sends what is ready, as much as the socket takes.
    fn send(&mut self, socket: &mut Socket) -> std::io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes what is pending of the block, as much as fits into the socket and the records before it.
    pub(super) fn flush(
        &mut self,
        socket: &mut Socket,
        outgoing: &mut Outgoing,
        block: &Block,
    ) -> Result<(), ErrorClass> {
        loop {
            self.send(socket).map_err(|_| ErrorClass::Reset)?;
            let pending = outgoing.pending(block);
            if pending.is_empty() || self.connection.wants_write() {
                return Ok(());
            }
            // Into memory: an error would be one of this program.
            let taken = self.connection.writer().write(pending).map_err(|_| ErrorClass::Reset)?;
            outgoing.written(taken, block);
        }
    }

    /// Reads into `buffer`. `Ok(0)` is the end of the stream, [`BROKEN`] one that is no TLS.
    pub(super) fn read(&mut self, socket: &mut Socket, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Many servers close without a word. Whether an answer is whole, HTTP says.
                Err(_) => return Ok(0),
            }
            match self.receive(socket) {
                Ok(_) => self.send(socket).map_err(|_| Errno::CONNRESET)?,
                Err(error) => {
                    return Err(match error.kind() {
                        ErrorKind::WouldBlock => Errno::AGAIN,
                        ErrorKind::Interrupted => Errno::INTR,
                        ErrorKind::Other | ErrorKind::InvalidData => BROKEN,
                        _ => Errno::CONNRESET,
                    });
                }
            }
        }
    }
}
