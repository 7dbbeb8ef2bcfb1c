//! The UDP servers: echo, and a sink that reports its totals.
//!
//! Both receive trains if the kernel supports them, and echo a train as one.
//!
//! [`sink_query`] queries the sink for its totals and is not counted. The response is 32 bytes: the number
//! of the query, then packets, payload bytes and packets out of order since the start over all threads
//! and all senders, each a little-endian `u64`.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use socket2::{SockAddr, SockRef};

use super::counters::{Shared, add};
use super::order::Order;
use rxlab_sys::datagrams::{receive_from, send_train};

const QUERY: &[u8; 16] = b"rxlab-sink-query";
/// Length of the response.
pub const SINK_TOTALS_LEN: usize = 32;

/// Query for the sink's totals. The response repeats `number`, so that a late one is not taken
/// for the response to a later query.
pub fn sink_query(number: u64) -> Vec<u8> {
    [&QUERY[..], &number.to_le_bytes()].concat()
}

/// The sink's response to [`sink_query`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkTotals {
    /// Number of the query.
    pub query: u64,
    /// Datagrams since the start.
    pub packets: u64,
    /// Bytes of payload in these datagrams.
    pub bytes: u64,
    /// Datagrams that arrived after a later one of the same flow, or twice. Only datagrams of `rxlab load`
    /// have numbers.
    pub reordered: u64,
}

impl SinkTotals {
    /// Parses a response; `None` if it is invalid.
    pub fn parse(answer: &[u8]) -> Option<Self> {
        let ([query, packets, bytes, reordered], []) = answer.as_chunks() else { return None };
        let [query, packets, bytes, reordered] =
            [query, packets, bytes, reordered].map(|number| u64::from_le_bytes(*number));
        Some(Self { query, packets, bytes, reordered })
    }
}

/// Receives per call: level-triggered epoll calls again if there are more.
pub(super) const BATCH: usize = 64;

/// Ports of servers that answer whatever they get, such as echo and chargen.
const WELL_KNOWN: u16 = 1024;

/// True if an echo to this address may come back: it is that of an echo of this port, here or elsewhere, or of a well-known
/// server. One datagram with a forged source would be sent back and forth for ever.
fn may_come_back(from: &SockAddr, port: u16) -> bool {
    from.as_socket().is_none_or(|from| from.port() == port || from.port() < WELL_KNOWN)
}

/// Echoes the pending datagrams, in batches.
pub(super) fn echo(socket: &UdpSocket, scratch: &mut [u8], shared: &Shared, thread: usize) {
    let mut echoed = 0;
    let port = socket.local_addr().map_or(0, |own| own.port());
    for _ in 0..BATCH {
        // An error is an empty queue, or an ICMP message about an earlier echo: nothing to do.
        let Ok((train, from)) = receive_from(socket, scratch) else { break };
        if may_come_back(&from, port) {
            continue;
        }
        let bytes = &scratch[..train.length];
        if train.datagrams() > 1 && send_train(socket, bytes, train.segment, Some(&from)).is_ok() {
            echoed += train.datagrams() as u64;
        } else {
            // A full send buffer loses the datagram, as a network would.
            let send = |datagram| u64::from(SockRef::from(socket).send_to(datagram, &from).is_ok());
            echoed += train.split(bytes).map(send).sum::<u64>();
        }
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    add(&shared.threads[thread].echoed, echoed);
}

/// Counts pending datagrams and answers queries, in batches.
pub(super) fn sink(
    socket: &UdpSocket,
    scratch: &mut [u8],
    order: &mut Order,
    shared: &Shared,
    thread: usize,
) {
    let counters = &shared.threads[thread];
    for _ in 0..BATCH {
        let Ok((train, from)) = receive_from(socket, scratch) else { break };
        let (mut packets, mut bytes, mut reordered) = (0, 0, 0);
        let mut query = None;
        let mut flow = from.as_socket().map(|from| order.flow(from));
        for datagram in train.split(&scratch[..train.length]) {
            if let Some(number) = datagram.strip_prefix(QUERY).and_then(|number| number.as_array::<8>()) {
                query = Some(*number);
                continue;
            }
            packets += 1;
            bytes += datagram.len() as u64;
            if let Some(flow) = &mut flow {
                reordered += u64::from(flow.is_late(datagram));
            }
        }
        add(&counters.sink_packets, packets);
        add(&counters.sink_bytes, bytes);
        add(&counters.sink_reordered, reordered);
        if let Some(number) = query {
            let totals = shared.totals();
            let counts = [totals.sink_packets, totals.sink_bytes, totals.sink_reordered];
            let answer = [number.as_slice(), counts.map(u64::to_le_bytes).as_flattened()].concat();
            // The client repeats the query if the response is lost.
            let _ = SockRef::from(socket).send_to(&answer, &from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    use super::may_come_back;
    use crate::servers::{Spec, Target};

    /// One datagram with a forged source once kept an echo busy for ever.
    #[test]
    fn an_echo_does_not_answer_another() {
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let target = Target::start(&Spec { udp_echo: any, ..Spec::default() }).expect("started");
        let echo = target.addresses().udp_echo.expect("served");
        let other = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), echo.port())).expect("free");
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("free");
        for socket in [&other, &client] {
            socket.send_to(b"hello", echo).expect("sent");
        }
        // They are handled in order.
        assert_eq!(client.recv(&mut [0; 8]).expect("an echo"), 5);
        assert_eq!(target.stop().echoed, 1);
        let chargen = SocketAddr::from(([192, 0, 2, 1], 19)).into();
        assert!(
            may_come_back(&chargen, 7007)
                && !may_come_back(&SocketAddr::from(([192, 0, 2, 1], 50_000)).into(), 7007)
        );
    }
}
