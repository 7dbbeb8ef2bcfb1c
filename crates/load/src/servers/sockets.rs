//! Sockets of one server thread. Every thread binds its own with SO_REUSEPORT, and the kernel spreads
//! connections and flows over them.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::{Addresses, TargetError};
use rxlab_sys::datagrams::receive_trains;
use rxlab_sys::socket::receive_buffer;

/// Longest queue of connections not yet accepted; the kernel clamps it to `somaxconn`.
const BACKLOG: i32 = 4096;
/// Receive buffer of the UDP sockets, here and of a load's flows, so that bursts are lost in the receive
/// path under test and not in the sockets.
pub(crate) const UDP_BUFFER: usize = 8 << 20;

pub(super) struct Sockets {
    pub(super) http: Option<TcpListener>,
    pub(super) udp_echo: Option<UdpSocket>,
    pub(super) udp_sink: Option<UdpSocket>,
    pub(super) udp_tracker: Option<UdpSocket>,
}

impl Sockets {
    /// Binds the sockets of `addresses`. The `first` thread makes sure that no other server uses the
    /// addresses: with SO_REUSEPORT alone two targets would silently share the traffic.
    /// With `trains` the UDP sockets receive datagrams of one flow together.
    pub(super) fn bind(addresses: &Addresses, trains: bool, first: bool) -> Result<Self, TargetError> {
        let http = addresses.http.map(|address| {
            bind("HTTP", address, Type::STREAM, first).and_then(|socket| {
                socket.listen(BACKLOG).map_err(|error| TargetError::Bind { what: "HTTP", address, error })?;
                Ok(TcpListener::from(socket))
            })
        });
        let udp = |what, address: Option<SocketAddr>| -> Result<Option<UdpSocket>, TargetError> {
            let Some(address) = address else { return Ok(None) };
            let socket = UdpSocket::from(bind(what, address, Type::DGRAM, first)?);
            if trains {
                receive_trains(&socket).map_err(|errno| TargetError::Bind {
                    what,
                    address,
                    error: errno.into(),
                })?;
            }
            Ok(Some(socket))
        };
        Ok(Self {
            http: http.transpose()?,
            udp_echo: udp("UDP echo", addresses.udp_echo)?,
            udp_sink: udp("UDP sink", addresses.udp_sink)?,
            udp_tracker: udp("UDP tracker", addresses.udp_tracker)?,
        })
    }

    /// Bound addresses, with real port numbers.
    pub(super) fn addresses(&self) -> Addresses {
        Addresses {
            http: self.http.as_ref().and_then(|socket| socket.local_addr().ok()),
            udp_echo: self.udp_echo.as_ref().and_then(|socket| socket.local_addr().ok()),
            udp_sink: self.udp_sink.as_ref().and_then(|socket| socket.local_addr().ok()),
            udp_tracker: self.udp_tracker.as_ref().and_then(|socket| socket.local_addr().ok()),
        }
    }
}

fn bind(what: &'static str, address: SocketAddr, kind: Type, first: bool) -> Result<Socket, TargetError> {
    let open = || -> std::io::Result<Socket> {
        let protocol = if kind == Type::STREAM { Protocol::TCP } else { Protocol::UDP };
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if kind == Type::STREAM {
            // Only against connections of an earlier run in TIME_WAIT; UDP would share the port.
            socket.set_reuse_address(true)?;
        }
        // The first socket takes the address for itself, and shares it only afterwards.
        socket.set_reuse_port(!first)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.set_reuse_port(true)?;
        if kind == Type::DGRAM {
            receive_buffer(&socket, UDP_BUFFER)?;
        }
        Ok(socket)
    };
    open().map_err(|error| TargetError::Bind { what, address, error })
}
