//! Asks a sink what arrived.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};

use crate::target::{SINK_QUERY, SINK_TOTALS_LEN, parse_sink_totals};

/// How long one query may take; there are [`TRIES`] of them.
const PATIENCE: Duration = Duration::from_millis(100);
const TRIES: usize = 5;

/// A socket of its own towards the sink, made in the load's network namespace.
#[derive(Debug)]
pub(crate) struct SinkTotals {
    socket: UdpSocket,
}

impl SinkTotals {
    /// A socket towards `sink`.
    pub(crate) fn connect(sink: SocketAddr) -> std::io::Result<Self> {
        let any: SocketAddr = if sink.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let socket = UdpSocket::bind(any)?;
        socket.connect(sink)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket })
    }

    /// Packets that the sink has counted; `None` when nothing at that address answers such
    /// queries. An error: nothing listens there.
    pub(crate) fn packets(&self) -> std::io::Result<Option<u64>> {
        let mut answer = [0; SINK_TOTALS_LEN + 1];
        // An answer that came after its query was given up is an old count.
        while recv(&self.socket, &mut answer, RecvFlags::DONTWAIT).is_ok() {}
        for _ in 0..TRIES {
            self.socket.send(SINK_QUERY)?;
            match self.socket.recv(&mut answer) {
                Ok(length) => match parse_sink_totals(&answer[..length]) {
                    Some((packets, _)) => return Ok(Some(packets)),
                    None => return Ok(None),
                },
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The packets once no more of them come in: what was sent just now can still be on its way.
    pub(crate) fn settled(&self) -> Option<u64> {
        let mut last = self.packets().ok()??;
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            let now = self.packets().ok()??;
            if now == last {
                break;
            }
            last = now;
        }
        Some(last)
    }
}
