//! TLS of a connection: the handshake, and bytes between the socket and the HTTP above it.
//!
//! Every connection makes a full handshake unless the load asks for resumption: its cost would depend on the connections
//! before.

use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicClientConfig;
use rustix::io::Errno;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection, HandshakeKind, InvalidMessage};
use socket2::Socket;

use crate::spec::Spec;
use crate::trust;

/// Returned by [`Tls::read`] if the peer violates the TLS protocol.
pub(super) const BROKEN: Errno = Errno::PROTO;

/// Servers whose sessions are kept; a load has one.
const SESSIONS: usize = 8;

/// State shared by all connections of a load.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Setup {
    /// For connections to the host of `spec` that carry `protocol` (its ALPN name). Fails if it is not a valid server name.
    pub(crate) fn new(mut config: ClientConfig, spec: &Spec, protocol: &[u8]) -> Result<Self, String> {
        let host = &spec.url.host;
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::from(address),
            Err(_) => ServerName::try_from(host.clone()).map_err(|error| format!("{host}: {error}"))?,
        };
        config.resumption =
            if spec.tls_resume { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Self { config: Arc::new(config), name })
    }

    /// The settings as QUIC takes them, with its name of the server.
    pub(super) fn quic(&self) -> std::io::Result<(quinn_proto::ClientConfig, String)> {
        let config = QuicClientConfig::try_from(Arc::clone(&self.config)).map_err(std::io::Error::other)?;
        Ok((quinn_proto::ClientConfig::new(Arc::new(config)), self.name.to_str().into_owned()))
    }
}

/// State of one connection.
pub(super) struct Tls {
    connection: ClientConnection,
    /// Violation that [`Tls::read`] found, or the alert that it received.
    pub(super) violation: Option<String>,
    /// Bytes that the socket has taken.
    pub(super) written: u64,
    /// The server closed the connection without an end of TLS (close_notify).
    pub(super) is_cut_off: bool,
}

impl Tls {
    pub(super) fn new(setup: &Setup) -> std::io::Result<Self> {
        let connection = ClientConnection::new(Arc::clone(&setup.config), setup.name.clone());
        connection
            .map(|connection| Self { connection, violation: None, written: 0, is_cut_off: false })
            .map_err(std::io::Error::other)
    }

    /// True if the handshake resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Protocol that the server has chosen (ALPN).
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Continues the handshake as far as the socket allows; returns true once it is complete.
    pub(super) fn greet(&mut self, socket: &Socket) -> std::io::Result<bool> {
        loop {
            self.send(socket)?;
            if !self.connection.is_handshaking() {
                return Ok(true);
            }
            match self.receive(socket) {
                Ok(true) => {}
                Ok(false) => {
                    let why = "the server ended the connection within the handshake";
                    return Err(std::io::Error::new(ErrorKind::InvalidData, why));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    // Send the alert to the peer as well, if it still listens.
                    let _ = self.send(socket);
                    return Err(error);
                }
            }
        }
    }

    /// Reads once from the socket; `false` at its end.
    fn receive(&mut self, mut socket: &Socket) -> std::io::Result<bool> {
        let length = self.connection.read_tls(&mut socket)?;
        // An answer, if not a good one.
        let invalid = |error| std::io::Error::new(ErrorKind::InvalidData, in_words(&error));
        self.connection.process_new_packets().map_err(invalid)?;
        Ok(length > 0)
    }

    /// Sends what is ready, as far as the socket accepts it.
    fn send(&mut self, mut socket: &Socket) -> std::io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut socket) {
                Ok(length) => self.written += length as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes as many bytes as fit into a record that the socket accepts; [`Errno::AGAIN`] while it accepts none.
    pub(super) fn write(&mut self, socket: &Socket, bytes: &[u8]) -> Result<usize, Errno> {
        self.flush(socket)?;
        if self.connection.wants_write() {
            return Err(Errno::AGAIN);
        }
        // Into memory: an error would be a bug of this program.
        let taken = self.connection.writer().write(bytes).map_err(|_| Errno::PROTO)?;
        self.flush(socket)?;
        Ok(taken)
    }

    /// Sends records that are ready, as far as the socket accepts them.
    pub(super) fn flush(&mut self, socket: &Socket) -> Result<(), Errno> {
        self.send(socket).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::CONNRESET))
    }

    /// Reads into `buffer`. `Ok(0)` is the end of the stream, [`BROKEN`] a protocol violation.
    pub(super) fn read(&mut self, socket: &Socket, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            match self.connection.reader().read(buffer) {
                Ok(length) => return Ok(length),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // Many servers close like this. Most responses say themselves if they are complete.
                Err(_) => {
                    self.is_cut_off = true;
                    return Ok(0);
                }
            }
            match self.receive(socket) {
                // What was received may be a response to a request that the server takes no more of: the next write says so.
                Ok(_) => drop(self.send(socket)),
                Err(error) => {
                    return Err(match error.kind() {
                        ErrorKind::WouldBlock => Errno::AGAIN,
                        ErrorKind::Interrupted => Errno::INTR,
                        ErrorKind::Other | ErrorKind::InvalidData => {
                            self.violation = Some(error.to_string());
                            BROKEN
                        }
                        _ => Errno::from_io_error(&error).unwrap_or(Errno::CONNRESET),
                    });
                }
            }
        }
    }
}

/// The usual mistakes in words that need no knowledge of TLS.
fn in_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server does not speak TLS on this port".to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the issuer of the server's certificate is unknown".to_owned()
        }
        rustls::Error::InvalidCertificate(error) if trust::is_of_ca(error) => {
            "the server's certificate is that of a CA: it is probably self-signed".to_owned()
        }
        other => other.to_string(),
    }
}
