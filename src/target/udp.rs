//! The UDP servers: echo, and a sink that tells its totals.
//!
//! [`sink_query`] asks the sink for its totals and is not counted. The answer is 24 bytes: the number
//! of the query, then packets and payload bytes since the start over all threads and all senders, each
//! a little-endian `u64`.

use std::net::UdpSocket;
use std::sync::atomic::Ordering;

use super::counters::{Shared, add};

const QUERY: &[u8; 16] = b"rxlab-sink-query";
const QUERY_LEN: usize = QUERY.len() + 8;
/// Length of the answer.
pub const SINK_TOTALS_LEN: usize = 24;

/// What asks the sink for its totals. The answer repeats `number`, so that a late one is not taken
/// for the answer to a later query.
pub fn sink_query(number: u64) -> [u8; QUERY_LEN] {
    let mut query = [0; QUERY_LEN];
    query[..QUERY.len()].copy_from_slice(QUERY);
    query[QUERY.len()..].copy_from_slice(&number.to_le_bytes());
    query
}

/// The sink's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SinkTotals {
    /// Number of the query.
    pub query: u64,
    /// Datagrams since the start.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
}

impl SinkTotals {
    /// Reads an answer; `None` when it is none.
    pub fn parse(answer: &[u8]) -> Option<Self> {
        let answer: &[u8; SINK_TOTALS_LEN] = answer.try_into().ok()?;
        let number = |at: usize| Some(u64::from_le_bytes(answer[at..at + 8].try_into().ok()?));
        Some(Self { query: number(0)?, packets: number(8)?, bytes: number(16)? })
    }
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
        let number = scratch[..length].strip_prefix(QUERY).filter(|number| number.len() == 8);
        let Some(number) = number else {
            packets += 1;
            bytes += length as u64;
            continue;
        };
        add(&counters.sink_packets, std::mem::take(&mut packets));
        add(&counters.sink_bytes, std::mem::take(&mut bytes));
        let totals = shared.totals();
        let mut answer = [0; SINK_TOTALS_LEN];
        answer[..8].copy_from_slice(number);
        answer[8..16].copy_from_slice(&totals.sink_packets.to_le_bytes());
        answer[16..].copy_from_slice(&totals.sink_bytes.to_le_bytes());
        // The asker asks again when the answer is lost.
        let _ = socket.send_to(&answer, from);
    }
    add(&counters.sink_packets, packets);
    add(&counters.sink_bytes, bytes);
}
