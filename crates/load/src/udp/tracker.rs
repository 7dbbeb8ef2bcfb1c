//! Announces and scrapes to a BitTorrent tracker (BEP 15). Each flow is a separate peer with its own
//! connection id.

use std::ops::Range;
use std::str::FromStr;

use super::talk::{Greeting, Heard, Talk, number_of};
use super::{check_depth, exchange};
use crate::Random;
use crate::check::SpecError;
use crate::clock::{MILLISECOND, Nanos, SECOND};
use crate::destination::Destination;
use crate::error_class::ErrorClass;
use crate::poller::Poller;
use crate::protocol::{Definition, Opened};
use crate::reasons::{Failure, shown};
use crate::servers::bep15::{Answer, InfoHash, Request, Said};
use crate::session::LoadError;
use crate::spec::Spec;
use crate::thread::Worker;
use rxlab_base::units::digits;

/// `udp-tracker://`.
pub(crate) struct UdpTracker;

impl Definition for UdpTracker {
    fn scheme(&self, tls: bool) -> Option<&'static str> {
        (!tls).then_some("udp-tracker")
    }

    fn form(&self) -> &'static str {
        "udp-tracker://HOST:PORT/announce"
    }

    fn noun(&self) -> &'static str {
        "answers"
    }

    fn path(&self, path: &str) -> Option<String> {
        match path {
            "" | "/" => Some("/announce".to_owned()),
            path => path.parse::<TrackerQuery>().is_ok().then(|| path.to_owned()),
        }
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        check_depth(spec)
    }

    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
        let Worker { spec, index, session, .. } = worker;
        let question: TrackerQuery = spec.url.path.parse().expect("a URL was checked");
        let talk = Tracker::new(question, *session, spec.part(*index), spec.timeout_ns());
        exchange(worker, destination, poller, talk)
    }
}

/// Request to a tracker (BEP 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Connection ids only.
    Connect,
    Announce,
    Scrape,
}

/// `/announce`, `/scrape` or `/connect`; with `?torrents=N` for that many torrents in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TrackerQuery {
    ask: Action,
    /// At least one.
    torrents: u64,
}

/// Default number of torrents.
const TORRENTS: u64 = 1000;

impl FromStr for TrackerQuery {
    type Err = ();

    fn from_str(path: &str) -> Result<Self, ()> {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let ask = match path {
            "/connect" => Action::Connect,
            "" | "/" | "/announce" => Action::Announce,
            "/scrape" => Action::Scrape,
            _ => return Err(()),
        };
        let torrents = match query {
            None => TORRENTS,
            Some(query) => {
                let number = query.strip_prefix("torrents=").and_then(digits::<u32>);
                number.filter(|number| *number > 0).ok_or(())?.into()
            }
        };
        Ok(Self { ask, torrents })
    }
}

/// Lifetime of a connection id.
const GOOD: Nanos = 60 * SECOND;
/// Age at which a flow requests another id while it continues with the current one.
const RENEW: Nanos = 50 * SECOND;
/// Ids rejected by the tracker are renewed as well, but not more often than this.
const AT_MOST_EVERY: Nanos = SECOND;
/// Requests in a row without an answer that make an id doubtful: trackers drop what has an id that they do not know, such as
/// one from before a restart. A single one may be lost on the way.
const SILENT: u8 = 2;
/// Time after which a request for an id is repeated: datagrams get lost.
const ONCE_MORE: Nanos = 500 * MILLISECOND;

#[derive(Debug, Clone, Copy, Default)]
struct Peer {
    /// The connection id, and when it arrived.
    connection: Option<(u64, Nanos)>,
    /// The tracker returned an error, or does not answer: it may have forgotten the id.
    doubtful: bool,
    /// Requests given up since the last answer.
    lost: u8,
    /// Start of the current attempt to get an id; one attempt may take several requests.
    trying: Option<Nanos>,
    /// Time of the last request for an id, and the number of requests.
    asked: Option<Nanos>,
    greetings: u16,
    /// The unanswered ones of the last 16: bit 0 is the latest. A response to any of them counts: a tracker
    /// that takes longer than [`ONCE_MORE`] answers all of them late.
    unanswered: u16,
}

impl Peer {
    /// True if request number `greeting` is unanswered; marks it as answered.
    fn is_answered(&mut self, greeting: u16) -> bool {
        let bit = 1u16.checked_shl(u32::from(self.greetings.wrapping_sub(greeting))).unwrap_or(0);
        let waited = self.unanswered & bit != 0;
        self.unanswered &= !bit;
        waited
    }
}

struct Tracker {
    question: TrackerQuery,
    /// Makes transaction ids of this session differ from those of others.
    salt: u32,
    /// Number of the first flow within the session.
    first: usize,
    /// Time limit for an attempt to get an id.
    patience: Nanos,
    peers: Vec<Peer>,
}

impl Tracker {
    /// For `count` flows, the first of which has number `first`; `timeout` limits a response.
    fn new(question: TrackerQuery, session: u64, (first, count): (usize, usize), timeout: Nanos) -> Self {
        let salt = (session ^ (session >> 32)) as u32;
        let patience = timeout.max(ONCE_MORE);
        Self { question, salt, first, patience, peers: vec![Peer::default(); count] }
    }

    /// The hash of torrent `number`: arbitrary bytes, the same in every run.
    fn torrent(number: u64) -> InfoHash {
        let mut hash = [0; 20];
        // Three words each of one sequence.
        let mut random = Random::after(3 * number);
        for part in hash.chunks_mut(8) {
            part.copy_from_slice(&random.next_u64().to_be_bytes()[..part.len()]);
        }
        hash
    }
}

impl Talk for Tracker {
    fn ask(&mut self, flow: usize, number: u64, _now: Nanos, out: &mut Vec<u8>) {
        let connection = self.peers[flow].connection.map_or(0, |(id, _)| id);
        let transaction = self.salt ^ number as u32;
        let peer = (self.first + flow) as u32;
        // Peers start at different torrents.
        let torrent = Self::torrent((u64::from(peer) + number) % self.question.torrents);
        let request = match self.question.ask {
            Action::Connect => Request::Connect { transaction },
            Action::Announce => {
                Request::Announce { connection, transaction, torrent, peer, started: number == 0 }
            }
            Action::Scrape => Request::Scrape { connection, transaction, torrent },
        };
        request.write(out);
    }

    fn hear(&mut self, flow: usize, waiting: Range<u64>, datagram: &[u8], now: Nanos) -> Heard {
        let peer = &mut self.peers[flow];
        let Some(Answer { transaction, said }) = Answer::parse(datagram) else { return Heard::Foreign };
        if let Ok(greeting) = u16::try_from(!(transaction ^ self.salt))
            && matches!(said, Said::Connection(_) | Said::Error(_))
            && peer.is_answered(greeting)
        {
            let settled = peer.trying.take().is_none() && peer.connection.is_some();
            return match said {
                // Another response has settled it.
                _ if settled => Heard::Surplus,
                Said::Connection(id) => {
                    (peer.connection, peer.doubtful, peer.lost) = (Some((id, now)), false, 0);
                    Heard::Handshake
                }
                Said::Error(message) => Heard::Refused(shown(message)),
                _ => Heard::Foreign,
            };
        }
        let Some(number) = number_of(u64::from(transaction ^ self.salt), 32, &waiting) else {
            return Heard::Foreign;
        };
        peer.lost = 0;
        match (said, self.question.ask) {
            (Said::Connection(_), Action::Connect) | (Said::Peers(..), Action::Announce) => {
                Heard::Answer(number, None)
            }
            // One torrent was requested.
            (Said::Torrents(torrents), Action::Scrape) if torrents.len() == 12 => Heard::Answer(number, None),
            (Said::Error(message), _) => {
                peer.doubtful = true;
                let (class, reason) = (ErrorClass::TrackerError, Some(shown(message)));
                Heard::Answer(number, Some(Failure { class, reason }))
            }
            _ => Heard::Foreign,
        }
    }

    fn lost(&mut self, flow: usize) {
        let peer = &mut self.peers[flow];
        peer.lost = peer.lost.saturating_add(1);
        peer.doubtful |= peer.lost >= SILENT;
    }

    fn is_open(&self, flow: usize, now: Nanos) -> bool {
        self.question.ask == Action::Connect
            || self.peers[flow].connection.is_some_and(|(_, since)| now.saturating_sub(since) < GOOD)
    }

    fn greet(&mut self, flow: usize, now: Nanos, out: &mut Vec<u8>) -> Greeting {
        let peer = &mut self.peers[flow];
        let age = peer.connection.map_or(Nanos::MAX, |(_, since)| now.saturating_sub(since));
        let wanted = age >= RENEW || (peer.doubtful && age >= AT_MOST_EVERY);
        let asked = peer.asked.is_some_and(|sent| now.saturating_sub(sent) < ONCE_MORE);
        if self.question.ask == Action::Connect || !wanted || asked {
            return Greeting::Nothing;
        }
        let given_up = peer.trying.is_some_and(|since| now.saturating_sub(since) >= self.patience);
        if given_up || peer.trying.is_none() {
            peer.trying = Some(now);
        }
        peer.asked = Some(now);
        peer.greetings = peer.greetings.wrapping_add(1);
        peer.unanswered = peer.unanswered << 1 | 1;
        // Request numbers collide with these only after some four billion requests.
        let transaction = self.salt ^ !u32::from(peer.greetings);
        Request::Connect { transaction }.write(out);
        if given_up { Greeting::Again } else { Greeting::Written }
    }
}

/// Returns the announce, of those numbered `waiting` or before them, that a datagram answers, with two
/// requests for a connection id waiting as well; an announce's number is its transaction.
pub fn hear_tracker(datagram: &[u8], waiting: Range<u64>) -> Option<u64> {
    let question = "/announce".parse().expect("a question");
    let mut tracker = Tracker::new(question, 0, (0, 1), SECOND);
    for now in [0, SECOND] {
        tracker.greet(0, now, &mut Vec::new());
    }
    match tracker.hear(0, waiting, datagram, SECOND) {
        Heard::Answer(number, _) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::{
        Action, Answer, Failure, Greeting, Heard, Request, SECOND, Said, Talk, Tracker, TrackerQuery,
        hear_tracker,
    };
    use crate::error_class::ErrorClass;

    fn tracker(path: &str) -> Tracker {
        let question = path.parse::<TrackerQuery>().expect("a question");
        Tracker::new(question, 5, (3, 2), 2 * SECOND)
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

    /// Lifetime of a connection id by the clock of BEP 15: one minute.
    #[test]
    fn a_connection_id_is_renewed_before_its_minute_is_over() {
        let mut tracker = tracker("/announce");
        assert!(!tracker.is_open(0, 0));
        greet(&mut tracker, 0, Greeting::Written).expect("asked");
        greet(&mut tracker, SECOND / 4, Greeting::Nothing);
        let second = greet(&mut tracker, SECOND, Greeting::Written).expect("asked");
        let good = answer(second, Said::Connection(2));
        assert_eq!(tracker.hear(1, 0..0, &good, SECOND), Heard::Foreign, "another flow");
        assert_eq!(tracker.hear(0, 0..0, &good, SECOND), Heard::Handshake);
        assert_eq!(tracker.hear(0, 0..0, &good, SECOND), Heard::Foreign, "once more");
        assert!(tracker.is_open(0, 60 * SECOND) && !tracker.is_open(1, 60 * SECOND));
        assert!(!tracker.is_open(0, 61 * SECOND), "its minute is over");
        greet(&mut tracker, 50 * SECOND, Greeting::Nothing);
        let third = greet(&mut tracker, 51 * SECOND, Greeting::Written).expect("asked");
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
            let (class, reason) = (ErrorClass::TrackerError, Some("no".to_owned()));
            let error = Heard::Answer(70_000, Some(Failure { class, reason }));
            assert_eq!(hear(Said::Error(b"no")), error, "{path}");
            assert_eq!(tracker.hear(1, 0..1, b"", 0), Heard::Foreign);
        }
    }

    /// A tracker that restarts drops announces with ids from before: the rest of their minute once went unanswered.
    #[test]
    fn an_id_that_goes_unanswered_is_renewed() {
        let mut tracker = tracker("/announce");
        let first = greet(&mut tracker, 0, Greeting::Written).expect("asked");
        let good = answer(first, Said::Connection(1));
        assert_eq!(tracker.hear(0, 0..0, &good, 0), Heard::Handshake);
        tracker.lost(0);
        greet(&mut tracker, 5 * SECOND, Greeting::Nothing);
        let late = answer(tracker.salt, Said::Peers(1, 2, &[0; 12]));
        assert_eq!(tracker.hear(0, 0..1, &late, 5 * SECOND), Heard::Answer(0, None), "it answers again");
        tracker.lost(0);
        greet(&mut tracker, 6 * SECOND, Greeting::Nothing);
        tracker.lost(0);
        let second = greet(&mut tracker, 6 * SECOND, Greeting::Written).expect("asked");
        assert!(tracker.is_open(0, 6 * SECOND), "meanwhile the old one is used");
        let renewed = answer(second, Said::Connection(2));
        assert_eq!(tracker.hear(0, 0..0, &renewed, 6 * SECOND), Heard::Handshake);
        greet(&mut tracker, 8 * SECOND, Greeting::Nothing);
    }

    /// It was once requested every half second, and only the response to the last request counted.
    #[test]
    fn a_slow_tracker_is_waited_for() {
        let mut tracker = tracker("/announce");
        let first = greet(&mut tracker, 0, Greeting::Written).expect("asked");
        let second = greet(&mut tracker, SECOND / 2, Greeting::Written).expect("asked");
        let hear = |tracker: &mut Tracker, asked, id, now| {
            tracker.hear(0, 0..0, &answer(asked, Said::Connection(id)), now)
        };
        assert_eq!(hear(&mut tracker, first, 1, SECOND * 6 / 10), Heard::Handshake);
        assert_eq!(hear(&mut tracker, second, 2, SECOND), Heard::Surplus);
        match request(|out| tracker.ask(0, 0, 0, out)) {
            Some(Request::Announce { connection: 1, .. }) => {}
            other => panic!("{other:?}"),
        }
        // An attempt without any response lasts as long as the timeout, and counts once.
        let mut tracker = self::tracker("/announce");
        let asked: Vec<u32> = (0..20)
            .map(|turn| {
                let given_up = turn > 0 && turn % 4 == 0;
                let expected = if given_up { Greeting::Again } else { Greeting::Written };
                greet(&mut tracker, turn * SECOND / 2, expected).expect("asked")
            })
            .collect();
        assert_eq!(hear(&mut tracker, asked[3], 1, 10 * SECOND), Heard::Foreign, "from long ago");
        assert_eq!(hear(&mut tracker, asked[4], 1, 10 * SECOND), Heard::Handshake);
    }

    #[test]
    fn a_refused_connection_id_is_renewed_but_not_at_once() {
        let mut tracker = tracker("/announce");
        let first = greet(&mut tracker, 0, Greeting::Written).expect("asked");
        assert_eq!(
            tracker.hear(0, 0..0, &answer(first, Said::Error(b"full")), 0),
            Heard::Refused("full".to_owned())
        );
        greet(&mut tracker, SECOND / 4, Greeting::Nothing);
        // The refusal was counted when it arrived.
        let second = greet(&mut tracker, 3 * SECOND, Greeting::Written).expect("asked");
        tracker.hear(0, 0..0, &answer(second, Said::Connection(1)), 3 * SECOND);
        let Some(Request::Announce { transaction, .. }) = request(|out| tracker.ask(0, 0, 0, out)) else {
            panic!("no announce");
        };
        tracker.hear(0, 0..1, &answer(transaction, Said::Error(b"who?")), 3 * SECOND);
        greet(&mut tracker, 3 * SECOND + SECOND / 2, Greeting::Nothing);
        greet(&mut tracker, 4 * SECOND, Greeting::Written);
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

    #[test]
    fn questions_to_a_tracker() {
        let question = |path: &str| path.parse::<TrackerQuery>().ok().map(|q| (q.ask, q.torrents));
        assert_eq!(question(""), Some((Action::Announce, 1000)));
        assert_eq!(question("/announce?torrents=1"), Some((Action::Announce, 1)));
        assert_eq!(question("/scrape"), Some((Action::Scrape, 1000)));
        assert_eq!(question("/connect"), Some((Action::Connect, 1000)));
        for bad in ["/x", "/scrape?", "/scrape?torrents=0", "/scrape?torrents=+1", "/announce/"] {
            assert_eq!(question(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_path_is_a_query_or_not(action in "/(announce|scrape|connect|[a-z]{0,9})", torrents: Option<u32>) {
            let query = torrents.map(|torrents| format!("?torrents={torrents}")).unwrap_or_default();
            let parsed = format!("{action}{query}").parse::<TrackerQuery>().ok();
            let is_action = ["/", "/announce", "/scrape", "/connect"].contains(&&*action);
            prop_assert_eq!(parsed.is_some(), is_action && torrents != Some(0));
            prop_assert_eq!(parsed.map_or(0, |query| query.torrents), parsed.map_or(0, |_| torrents.map_or(1000, u64::from)));
        }

        #[test]
        fn any_bytes_are_heard(
            action in 0u8..5, low in any::<u16>(), high in 0u16..2,
            rest in proptest::collection::vec(any::<u8>(), 0..40), start in any::<u32>(),
        ) {
            let words = [&[0, 0, 0, action][..], &high.to_be_bytes(), &low.to_be_bytes()].concat();
            let start = u64::from(start);
            if let Some(number) = hear_tracker(&[&words[..], &rest].concat(), start..start + 100) {
                prop_assert!(number < start + 100);
            }
        }
    }
}
