//! Messages to and from a BitTorrent tracker over UDP (BEP 15). Numbers are big-endian.

/// The number that begins every request for a connection id.
const PROTOCOL: u64 = 0x0417_2710_1980;

const CONNECT: u32 = 0;
const ANNOUNCE: u32 = 1;
const SCRAPE: u32 = 2;
const ERROR: u32 = 3;

/// Hash of a torrent.
pub type InfoHash = [u8; 20];

/// A request, with only the fields that this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// For a connection id.
    Connect {
        /// Repeated in the response, as in all of them.
        transaction: u32,
    },
    /// A peer announces itself and asks for others.
    Announce {
        /// As issued by the tracker.
        connection: u64,
        #[allow(missing_docs)] // As above.
        transaction: u32,
        /// Info hash of the torrent.
        torrent: InfoHash,
        /// Number of the peer; its id, key and port are made from it.
        peer: u32,
        /// True in its first announce.
        started: bool,
    },
    /// Scrape of the counts of a torrent.
    Scrape {
        /// As issued by the tracker.
        connection: u64,
        #[allow(missing_docs)] // As above.
        transaction: u32,
        /// Info hash of the first torrent.
        torrent: InfoHash,
    },
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Request {
    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Request::Connect { transaction } => {
                put(out, &[&PROTOCOL.to_be_bytes(), &CONNECT.to_be_bytes(), &transaction.to_be_bytes()]);
            }
            Request::Announce { connection, transaction, torrent, peer, started } => {
                put(out, &[&connection.to_be_bytes(), &ANNOUNCE.to_be_bytes(), &transaction.to_be_bytes()]);
                // Client and version in the usual form, and the number.
                put(out, &[torrent, b"-RX0100-", &[0; 8], &peer.to_be_bytes()]);
                let (downloaded, left, uploaded) = (0u64, 1u64, 0u64);
                put(out, &[downloaded, left, uploaded].map(u64::to_be_bytes).each_ref().map(|n| &n[..]));
                let event = if *started { 2u32 } else { 0 };
                // The address is the sender's; the tracker chooses the number of peers.
                let (address, key, wanted) = (0u32, *peer, u32::MAX);
                put(out, &[event, address, key, wanted].map(u32::to_be_bytes).each_ref().map(|n| &n[..]));
                // Range of usual ports.
                let port = 1024 + (peer % 64_000) as u16;
                put(out, &[&port.to_be_bytes()]);
            }
            Request::Scrape { connection, transaction, torrent } => {
                put(out, &[&connection.to_be_bytes(), &SCRAPE.to_be_bytes(), &transaction.to_be_bytes()]);
                put(out, &[torrent]);
            }
        }
    }

    /// Parses a request; `None` if it is invalid.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (connection, transaction) = (long(bytes, 0)?, word(bytes, 12)?);
        let torrent = || bytes.get(16..)?.first_chunk().copied();
        match word(bytes, 8)? {
            CONNECT if connection == PROTOCOL => Some(Request::Connect { transaction }),
            // Longer ones have extensions.
            ANNOUNCE if bytes.len() >= 98 => Some(Request::Announce {
                connection,
                transaction,
                torrent: torrent()?,
                peer: word(bytes, 52)?,
                started: word(bytes, 80)? == 2,
            }),
            SCRAPE => Some(Request::Scrape { connection, transaction, torrent: torrent()? }),
            _ => None,
        }
    }
}

/// Contents of a tracker's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said<'a> {
    /// A connection id, good for a minute.
    Connection(u64),
    /// Leechers and seeders, and the peers as sent.
    Peers(u32, u32, &'a [u8]),
    /// For each torrent requested: seeders, completed downloads, leechers, 4 bytes each.
    Torrents(&'a [u8]),
    /// The reason of a failure.
    Error(&'a [u8]),
}

/// A response of a tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Transaction id of the request.
    pub transaction: u32,
    #[allow(missing_docs)] // Named by its type.
    pub said: Said<'a>,
}

/// Announce interval given to peers, in seconds.
const INTERVAL: u32 = 1800;

impl<'a> Answer<'a> {
    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let action = match self.said {
            Said::Connection(_) => CONNECT,
            Said::Peers(..) => ANNOUNCE,
            Said::Torrents(_) => SCRAPE,
            Said::Error(_) => ERROR,
        };
        put(out, &[&action.to_be_bytes(), &self.transaction.to_be_bytes()]);
        match self.said {
            Said::Connection(id) => put(out, &[&id.to_be_bytes()]),
            Said::Peers(leechers, seeders, peers) => {
                let numbers = [INTERVAL, leechers, seeders].map(u32::to_be_bytes);
                put(out, &numbers.each_ref().map(|number| &number[..]));
                put(out, &[peers]);
            }
            Said::Torrents(bytes) | Said::Error(bytes) => put(out, &[bytes]),
        }
    }

    /// Parses a response; `None` if it is invalid or cut off.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (action, transaction) = (word(bytes, 0)?, word(bytes, 4)?);
        let said = match action {
            CONNECT => Said::Connection(long(bytes, 8)?),
            ANNOUNCE => {
                let (leechers, seeders, peers) = (word(bytes, 12)?, word(bytes, 16)?, bytes.get(20..)?);
                // 6 bytes each over IPv4, 18 over IPv6.
                if peers.len() % 6 != 0 {
                    return None;
                }
                Said::Peers(leechers, seeders, peers)
            }
            SCRAPE if (bytes.len() - 8).is_multiple_of(12) => Said::Torrents(&bytes[8..]),
            ERROR => Said::Error(&bytes[8..]),
            _ => return None,
        };
        Some(Self { transaction, said })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{Answer, Request, Said};

    fn written(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    /// Field by field as in BEP 15.
    #[test]
    fn requests_have_the_published_form() {
        let connect = written(|out| Request::Connect { transaction: 7 }.write(out));
        assert_eq!(connect, [0, 0, 4, 0x17, 0x27, 0x10, 0x19, 0x80, 0, 0, 0, 0, 0, 0, 0, 7]);
        let announce = Request::Announce {
            connection: 0x0102_0304_0506_0708,
            transaction: 9,
            torrent: [0xaa; 20],
            peer: 3,
            started: true,
        };
        let bytes = written(|out| announce.write(out));
        assert_eq!(bytes.len(), 98);
        assert_eq!(bytes[..16], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 0, 0, 9]);
        assert_eq!((bytes[16..36] == [0xaa; 20], &bytes[36..44]), (true, &b"-RX0100-"[..]));
        assert_eq!(bytes[64..72], [0, 0, 0, 0, 0, 0, 0, 1], "bytes left");
        assert_eq!(bytes[80..98], [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 255, 255, 255, 255, 4, 3]);
        let scrape = Request::Scrape { connection: 1, transaction: 2, torrent: [5; 20] };
        assert_eq!(written(|out| scrape.write(out)).len(), 36);
    }

    #[test]
    fn cut_off_answers_are_none() {
        let whole =
            [Said::Connection(5), Said::Peers(1, 2, &[10, 0, 0, 1, 0x1a, 0xe1]), Said::Torrents(&[0; 24])];
        for said in whole {
            let answer = Answer { transaction: 77, said };
            let bytes = written(|out| answer.write(out));
            assert_eq!(Answer::parse(&bytes), Some(answer));
            assert_eq!(Answer::parse(&bytes[..bytes.len() - 1]), None, "{said:?}");
        }
        assert_eq!(Answer::parse(&[0, 0, 0, 3, 0, 0, 0, 1]).map(|a| a.said), Some(Said::Error(b"")));
        assert_eq!(Answer::parse(&[0, 0, 0, 4, 0, 0, 0, 1]), None);
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(
            connection in any::<u64>(), transaction in any::<u32>(), torrent in any::<[u8; 20]>(),
            peer in any::<u32>(), started in any::<bool>(),
        ) {
            for request in [
                Request::Connect { transaction },
                Request::Announce { connection, transaction, torrent, peer, started },
                Request::Scrape { connection, transaction, torrent },
            ] {
                prop_assert_eq!(Request::parse(&written(|out| request.write(out))), Some(request));
            }
        }

        #[test]
        fn any_bytes_are_an_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60), action in 0u8..5) {
            let mut bytes = bytes;
            if let Some(head) = bytes.first_chunk_mut::<4>() {
                *head = [0, 0, 0, action];
            }
            if let Some(answer) = Answer::parse(&bytes) {
                let again = written(|out| answer.write(out));
                prop_assert_eq!(Answer::parse(&again), Some(answer));
            }
            if let Some(request) = Request::parse(&bytes) {
                prop_assert_eq!(Request::parse(&written(|out| request.write(out))), Some(request));
            }
        }
    }
}
