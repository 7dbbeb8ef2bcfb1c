//! A UDP tracker (BEP 15) with the same response for every peer, as a target for announces. It keeps no
//! torrents and no peers.

use std::net::UdpSocket;

use socket2::SockRef;

use super::bep15::{Answer, Request, Said};
use super::counters::{Shared, add};
use super::udp::BATCH;
use rxlab_sys::datagrams::receive_from;

/// The only peer in every response, in a network for documentation: 192.0.2.1:6881.
const PEER: [u8; 6] = [192, 0, 2, 1, 0x1a, 0xe1];
/// The same for IPv6: `[2001:db8::1]:6881`.
const PEER6: [u8; 18] = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x1a, 0xe1];
/// One seeder, no downloads, no leechers.
const TORRENT: [u8; 12] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];

/// Answers the pending requests, in batches.
pub(super) fn track(socket: &UdpSocket, scratch: &mut [u8], shared: &Shared, thread: usize) {
    let counters = &shared.threads[thread];
    let mut out = Vec::with_capacity(64);
    for _ in 0..BATCH {
        let Ok((train, from)) = receive_from(socket, scratch) else { break };
        let peers: &[u8] = if from.is_ipv6() { &PEER6 } else { &PEER };
        for datagram in train.split(&scratch[..train.length]) {
            // As trackers do: invalid requests get no response.
            let Some(request) = Request::parse(datagram) else { continue };
            let (counter, answer) = match request {
                Request::Connect { transaction } => {
                    (&counters.tracker_ids, Answer { transaction, said: Said::Connection(shared.tracker_id) })
                }
                Request::Announce { connection, transaction, .. }
                | Request::Scrape { connection, transaction, .. }
                    if connection != shared.tracker_id =>
                {
                    let said = Said::Error(b"connection id mismatch");
                    (&counters.tracker_refused, Answer { transaction, said })
                }
                Request::Announce { transaction, .. } => {
                    (&counters.tracked, Answer { transaction, said: Said::Peers(0, 1, peers) })
                }
                Request::Scrape { transaction, .. } => {
                    (&counters.tracked, Answer { transaction, said: Said::Torrents(&TORRENT) })
                }
            };
            out.clear();
            answer.write(&mut out);
            // A full send buffer loses the response, as a network would.
            add(counter, u64::from(SockRef::from(socket).send_to(&out, &from).is_ok()));
        }
    }
}
