//! Announces and scrapes to a BitTorrent tracker (BEP 15). Each flow is a peer of its own and has a
//! connection id of its own.

use std::ops::Range;

use super::talk::{Greeting, Heard, Talk, number_of};
use crate::load::clock::{MILLISECOND, Nanos, SECOND};
use crate::load::error_class::ErrorClass;
use crate::load::question::{Ask, TrackerQuestion};
use crate::target::bep15::{Answer, InfoHash, Request, Said};

/// How long a flow may use its connection id.
const GOOD: Nanos = 60 * SECOND;
/// From this age on it asks for another, and goes on with the one that it has.
const RENEW: Nanos = 50 * SECOND;
/// An id that the tracker did not take is renewed as well, but not more often than this.
const AT_MOST_EVERY: Nanos = SECOND;
/// How long an answer with a connection id may take.
const PATIENCE: Nanos = 500 * MILLISECOND;

#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    /// The connection id, and when it came.
    connection: Option<(u64, Nanos)>,
    /// The tracker answered with an error.
    doubtful: bool,
    /// The transaction of a request for an id that is under way, and when it was sent.
    asked: Option<(u32, Nanos)>,
    /// How many were sent.
    greetings: u32,
}

pub(super) struct Tracker {
    question: TrackerQuestion,
    /// Makes transaction ids of this session differ from those of others.
    salt: u32,
    /// Number of the first flow among all of the session.
    first: usize,
    peers: Vec<Peer>,
}

impl Tracker {
    pub(super) fn new(question: TrackerQuestion, session: u64, (first, count): (usize, usize)) -> Self {
        let salt = (session ^ (session >> 32)) as u32;
        Self { question, salt, first, peers: vec![Peer::default(); count] }
    }

    /// The hash of torrent `number`: any bytes, the same in every run.
    fn torrent(number: u64) -> InfoHash {
        let mut hash = [0; 20];
        for (index, part) in hash.chunks_mut(8).enumerate() {
            // SplitMix64, whose outputs for different inputs look unrelated.
            let mut word = (number * 3 + index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            part.copy_from_slice(&(word ^ (word >> 31)).to_be_bytes()[..part.len()]);
        }
        hash
    }
}

impl Talk for Tracker {
    fn ask(&mut self, flow: usize, number: u64, _now: Nanos, out: &mut Vec<u8>) {
        let connection = self.peers[flow].connection.map_or(0, |(id, _)| id);
        let transaction = self.salt ^ number as u32;
        let peer = (self.first + flow) as u32;
        // Peers begin at different torrents.
        let torrent = Self::torrent((u64::from(peer) + number) % self.question.torrents);
        let request = match self.question.ask {
            Ask::Connect => Request::Connect { transaction },
            Ask::Announce => {
                Request::Announce { connection, transaction, torrent, peer, started: number == 0 }
            }
            Ask::Scrape => Request::Scrape { connection, transaction, torrent },
        };
        request.write(out);
    }

    fn hear(&mut self, flow: usize, waiting: Range<u64>, datagram: &[u8], now: Nanos) -> Heard {
        let peer = &mut self.peers[flow];
        let Some(Answer { transaction, said }) = Answer::parse(datagram) else { return Heard::Foreign };
        if let Some((asked, _)) = peer.asked
            && asked == transaction
        {
            match said {
                Said::Connection(id) => {
                    (peer.connection, peer.doubtful, peer.asked) = (Some((id, now)), false, None);
                    return Heard::Handshake;
                }
                Said::Error(_) => {
                    // The next attempt comes when the patience with this one is over.
                    return Heard::TurnedAway;
                }
                _ => {}
            }
        }
        let Some(number) = number_of(u64::from(transaction ^ self.salt), 32, &waiting) else {
            return Heard::Foreign;
        };
        match (said, self.question.ask) {
            (Said::Connection(_), Ask::Connect) | (Said::Peers(..), Ask::Announce) => {
                Heard::Answer(number, None)
            }
            // One torrent was asked for.
            (Said::Torrents(torrents), Ask::Scrape) if torrents.len() == 12 => Heard::Answer(number, None),
            (Said::Error(_), _) => {
                peer.doubtful = true;
                Heard::Answer(number, Some(ErrorClass::TrackerError))
            }
            _ => Heard::Foreign,
        }
    }

    fn is_open(&self, flow: usize, now: Nanos) -> bool {
        let good = |(_, since): (u64, Nanos)| now.saturating_sub(since) < GOOD;
        self.question.ask == Ask::Connect || self.peers[flow].connection.is_some_and(good)
    }

    fn greet(&mut self, flow: usize, now: Nanos, out: &mut Vec<u8>) -> Greeting {
        let peer = &mut self.peers[flow];
        let age = peer.connection.map_or(Nanos::MAX, |(_, since)| now.saturating_sub(since));
        let wanted = age >= RENEW || (peer.doubtful && age >= AT_MOST_EVERY);
        let waiting = peer.asked.is_some_and(|(_, sent)| now.saturating_sub(sent) < PATIENCE);
        if self.question.ask == Ask::Connect || !wanted || waiting {
            return Greeting::Nothing;
        }
        let again = peer.asked.is_some();
        peer.greetings = peer.greetings.wrapping_add(1);
        // Requests come to these numbers only after some four thousand million of them.
        let transaction = self.salt ^ !(peer.greetings & 0xffff);
        peer.asked = Some((transaction, now));
        Request::Connect { transaction }.write(out);
        if again { Greeting::Again } else { Greeting::First }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Greeting, Heard, Request, SECOND, Said, Talk, Tracker};
    use crate::load::error_class::ErrorClass;
    use crate::load::question::TrackerQuestion;

    fn tracker(path: &str) -> Tracker {
        Tracker::new(path.parse::<TrackerQuestion>().expect("a question"), 5, (3, 2))
    }

    fn request(write: impl FnOnce(&mut Vec<u8>)) -> Option<Request> {
        let mut out = Vec::new();
        write(&mut out);
        Request::parse(&out)
    }

    fn answer(transaction: u32, said: Said<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        Answer { transaction, said }.write(&mut out);
        out
    }

    fn greet(tracker: &mut Tracker, now: u64, expected: Greeting) -> Option<u32> {
        let mut out = Vec::new();
        assert_eq!(tracker.greet(0, now, &mut out), expected, "at {now}");
        match Request::parse(&out) {
            Some(Request::Connect { transaction }) => Some(transaction),
            _ => None,
        }
    }

    /// The life of a connection id by the clock of BEP 15: good for a minute.
    #[test]
    fn a_connection_id_is_renewed_before_its_minute_is_over() {
        let mut tracker = tracker("/announce");
        assert!(!tracker.is_open(0, 0));
        let lost = greet(&mut tracker, 0, Greeting::First).expect("asked");
        greet(&mut tracker, SECOND / 4, Greeting::Nothing);
        let second = greet(&mut tracker, SECOND, Greeting::Again).expect("asked");
        let late = answer(lost, Said::Connection(1));
        assert_eq!(tracker.hear(0, 0..0, &late, SECOND), Heard::Foreign, "of a request given up");
        let good = answer(second, Said::Connection(2));
        assert_eq!(tracker.hear(1, 0..0, &good, SECOND), Heard::Foreign, "another flow");
        assert_eq!(tracker.hear(0, 0..0, &good, SECOND), Heard::Handshake);
        assert!(tracker.is_open(0, 60 * SECOND) && !tracker.is_open(1, 60 * SECOND));
        assert!(!tracker.is_open(0, 61 * SECOND), "its minute is over");
        greet(&mut tracker, 50 * SECOND, Greeting::Nothing);
        let third = greet(&mut tracker, 51 * SECOND, Greeting::First).expect("asked");
        assert!(tracker.is_open(0, 51 * SECOND), "the old one is still good");
        let renewed = answer(third, Said::Connection(3));
        assert_eq!(tracker.hear(0, 0..0, &renewed, 52 * SECOND), Heard::Handshake);
        assert!(tracker.is_open(0, 111 * SECOND));
        match request(|out| tracker.ask(0, 0, 0, out)) {
            Some(Request::Announce { connection: 3, started: true, peer: 3, .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_belong_to_their_request() {
        for (path, right, wrong) in [
            ("/announce", Said::Peers(1, 2, &[0; 12]), Said::Torrents(&[0; 12])),
            ("/scrape?torrents=1", Said::Torrents(&[0; 12]), Said::Torrents(&[0; 24])),
            ("/connect", Said::Connection(9), Said::Peers(1, 2, &[])),
        ] {
            let mut tracker = tracker(path);
            let transaction = match request(|out| tracker.ask(1, 70_000, 0, out)) {
                Some(
                    Request::Announce { transaction, .. }
                    | Request::Scrape { transaction, .. }
                    | Request::Connect { transaction },
                ) => transaction,
                None => panic!("{path}: no request"),
            };
            let mut hear = |said| tracker.hear(1, 69_990..70_001, &answer(transaction, said), 0);
            assert_eq!(hear(right), Heard::Answer(70_000, None), "{path}");
            assert_eq!(hear(wrong), Heard::Foreign, "{path}");
            let error = Heard::Answer(70_000, Some(ErrorClass::TrackerError));
            assert_eq!(hear(Said::Error(b"no")), error, "{path}");
            assert_eq!(tracker.hear(1, 0..1, b"", 0), Heard::Foreign);
        }
    }

    #[test]
    fn a_refused_connection_id_is_renewed_but_not_at_once() {
        let mut tracker = tracker("/announce");
        let first = greet(&mut tracker, 0, Greeting::First).expect("asked");
        assert_eq!(tracker.hear(0, 0..0, &answer(first, Said::Error(b"full")), 0), Heard::TurnedAway);
        let second = greet(&mut tracker, SECOND, Greeting::Again).expect("asked");
        tracker.hear(0, 0..0, &answer(second, Said::Connection(1)), SECOND);
        let Some(Request::Announce { transaction, .. }) = request(|out| tracker.ask(0, 0, 0, out)) else {
            panic!("no announce");
        };
        tracker.hear(0, 0..1, &answer(transaction, Said::Error(b"who?")), SECOND);
        greet(&mut tracker, SECOND + SECOND / 2, Greeting::Nothing);
        greet(&mut tracker, 2 * SECOND, Greeting::First);
    }

    #[test]
    fn torrents_are_different_and_the_same_in_every_run() {
        let mut hashes: Vec<_> = (0..1000).map(Tracker::torrent).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1000);
        let mut tracker = tracker("/announce?torrents=10");
        let mut torrent = |flow, number| match request(|out| tracker.ask(flow, number, 0, out)) {
            Some(Request::Announce { torrent, .. }) => torrent,
            other => panic!("{other:?}"),
        };
        assert_eq!(torrent(0, 5), torrent(0, 15));
        assert_eq!(torrent(0, 5), torrent(1, 4));
        assert_ne!(torrent(0, 5), torrent(0, 6));
    }
}
