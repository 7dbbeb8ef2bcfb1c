//! The UDP servers: echo, and a sink that tells its totals.
//!
//! A datagram of exactly [`SINK_QUERY`] asks the sink for its totals and is not counted. The
//! answer is 16 bytes: packets and payload bytes since the start, each a little-endian `u64`,
//! over all threads and all senders.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use super::counters::{Shared, add};

/// Asks the sink for its totals.
pub const SINK_QUERY: &[u8; 16] = b"rxlab-sink-query";
/// Length of the answer.
pub const SINK_TOTALS_LEN: usize = 16;

/// Packets and bytes from the sink's answer; `None` when it is no such answer.
pub fn parse_sink_totals(answer: &[u8]) -> Option<(u64, u64)> {
    let (packets, bytes) = answer.split_first_chunk::<8>()?;
    let bytes: &[u8; 8] = bytes.try_into().ok()?;
    Some((u64::from_le_bytes(*packets), u64::from_le_bytes(*bytes)))
}

/// Datagrams taken in one go: level-triggered epoll calls again when there are more.
const BATCH: usize = 64;

/// Sends back what has come, in batches.
pub(super) fn echo(socket: &UdpSocket, scratch: &mut [u8], shared: &Shared, thread: usize) {
    let mut echoed = 0;
    for _ in 0..BATCH {
        // An error is an empty queue, or an ICMP answer to an earlier echo: nothing to do.
        let Ok((length, from)) = socket.recv_from(scratch) else { break };
        // A full send buffer loses the datagram, as a network would.
        echoed += u64::from(socket.send_to(&scratch[..length], from).is_ok());
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    add(&shared.threads[thread].echoed, echoed);
}

/// Counts what has come and answers queries, in batches.
pub(super) fn sink(socket: &UdpSocket, scratch: &mut [u8], shared: &Shared, thread: usize) {
    let counters = &shared.threads[thread];
    let (mut packets, mut bytes) = (0, 0);
    for _ in 0..BATCH {
        let Ok((length, from)) = socket.recv_from(scratch) else { break };
        if scratch[..length] != SINK_QUERY[..] {
            packets += 1;
            bytes += length as u64;
            continue;
        }
        add(&counters.sink_packets, std::mem::take(&mut packets));
        add(&counters.sink_bytes, std::mem::take(&mut bytes));
        let totals = shared.totals();
        let mut answer = [0; SINK_TOTALS_LEN];
        answer[..8].copy_from_slice(&totals.sink_packets.to_le_bytes());
        answer[8..].copy_from_slice(&totals.sink_bytes.to_le_bytes());
        // The asker asks again when the answer is lost.
        let _ = socket.send_to(&answer, from);
    }
    add(&counters.sink_packets, packets);
    add(&counters.sink_bytes, bytes);
}
