//! Bytes of one connection: over its socket, with TLS between where it is used.

use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use socket2::Socket;

use super::tls::{BROKEN, Setup, Tls};
use crate::error_class::ErrorClass;
use crate::reasons::Failure;
use rxlab_sys::socket::acknowledged;

/// Reads and writes without waiting: [`Errno::AGAIN`] where the socket is not ready.
pub(super) struct Transport {
    socket: Rc<Socket>,
    /// The TLS layer; `None` without.
    tls: Option<Box<Tls>>,
    /// Bytes written without TLS.
    plain: u64,
}

impl Transport {
    /// Over a nonblocking socket. Fails if the TLS settings do not allow a connection.
    pub(super) fn new(socket: Rc<Socket>, setup: Option<&Setup>) -> std::io::Result<Self> {
        let tls = setup.map(|setup| Tls::new(setup).map(Box::new)).transpose()?;
        Ok(Self { socket, tls, plain: 0 })
    }

    /// Continues the TLS handshake as far as the socket allows; true once it is complete, or without TLS.
    pub(super) fn greet(&mut self) -> std::io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.greet(&self.socket))
    }

    /// False if the server has chosen another protocol than `protocol` for this connection (ALPN); true without TLS.
    pub(super) fn is_agreed(&self, protocol: &[u8]) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.protocol() == Some(protocol))
    }

    /// True if TLS resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_resumed())
    }

    /// Why a read or write failed with `errno`.
    pub(super) fn failure(&mut self, errno: Errno) -> Failure {
        match self.tls.as_mut().and_then(|tls| tls.violation.take()).filter(|_| errno == BROKEN) {
            Some(violation) => Failure::new(ErrorClass::Tls, violation),
            None => Failure::new(ErrorClass::Reset, errno.to_string()),
        }
    }

    /// Reads once into `buffer`. `Ok(0)` is the end of the stream.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => recv(&*self.socket, buffer, RecvFlags::empty()).map(|(length, _)| length),
            Some(tls) => tls.read(&self.socket, buffer),
        }
    }

    /// True if something may be missing before the end of the stream: TLS did not end.
    pub(super) fn is_cut_off(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_cut_off)
    }

    /// True if a read that does not fill its buffer has emptied the socket. With TLS it says nothing about the socket.
    pub(super) fn is_empty_after_a_short_read(&self) -> bool {
        self.tls.is_none()
    }

    /// Writes once. With TLS a part may still have to be sent: see [`Transport::flush`].
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match &mut self.tls {
            None => {
                let written = send(&*self.socket, bytes, SendFlags::NOSIGNAL)?;
                self.plain += written as u64;
                Ok(written)
            }
            Some(tls) => tls.write(&self.socket, bytes),
        }
    }

    /// Bytes that the socket has taken so far, with records and handshake of TLS.
    pub(super) fn written(&self) -> u64 {
        self.tls.as_ref().map_or(self.plain, |tls| tls.written)
    }

    /// True if nothing written behind the first `length` bytes has arrived at the server's kernel; false if unknown.
    pub(super) fn has_arrived_no_more_than(&self, length: u64) -> bool {
        acknowledged(&*self.socket).is_some_and(|acknowledged| acknowledged <= length)
    }

    /// Sends the rest of what was written, as far as the socket accepts it.
    pub(super) fn flush(&mut self) -> Result<(), Errno> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.flush(&self.socket))
    }
}
