//! Queries to a tracker or name server, as given by the path of a URL.

use std::str::FromStr;

use rxlab_base::units::digits;

/// Request to a tracker (BEP 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Obtains connection ids only.
    Connect,
    Announce,
    Scrape,
}

/// `/announce`, `/scrape` or `/connect`; with `?torrents=N` for that many torrents in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrackerQuery {
    pub(super) ask: Action,
    /// Number of torrents, at least 1.
    pub(super) torrents: u64,
}

/// Default number of torrents.
const TORRENTS: u64 = 1000;
/// Longest name, in wire format.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

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

/// A query to a name server: `/example.com?type=AAAA`. The default type is A; the root is `/.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DnsQuestion {
    /// In wire format: name, type, class.
    pub(super) wire: Vec<u8>,
}

const CLASS_IN: u16 = 1;

/// Record types by name; any other can be given as `TYPE` and its number (RFC 3597).
const TYPES: [(&str, u16); 16] = [
    ("A", 1),
    ("NS", 2),
    ("CNAME", 5),
    ("SOA", 6),
    ("PTR", 12),
    ("MX", 15),
    ("TXT", 16),
    ("AAAA", 28),
    ("SRV", 33),
    ("NAPTR", 35),
    ("DS", 43),
    ("DNSKEY", 48),
    ("SVCB", 64),
    ("HTTPS", 65),
    ("ANY", 255),
    ("CAA", 257),
];

fn record_type(text: &str) -> Option<u16> {
    let text = text.to_ascii_uppercase();
    let known = TYPES.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    known.or_else(|| text.strip_prefix("TYPE").and_then(digits))
}

impl FromStr for DnsQuestion {
    type Err = ();

    fn from_str(path: &str) -> Result<Self, ()> {
        let path = path.strip_prefix('/').ok_or(())?;
        let (name, record) = match path.split_once('?') {
            None => (path, "A"),
            Some((name, query)) => (name, query.strip_prefix("type=").ok_or(())?),
        };
        let number = record_type(record).ok_or(())?;
        let mut wire = Vec::with_capacity(name.len() + 6);
        if name != "." {
            for label in name.strip_suffix('.').unwrap_or(name).split('.') {
                let fits = (1..=MAX_LABEL).contains(&label.len());
                // No escapes: other bytes of a label have no place in a URL.
                let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_*".contains(&b));
                if !fits || !plain {
                    return Err(());
                }
                wire.push(label.len() as u8);
                wire.extend_from_slice(label.as_bytes());
            }
        }
        wire.push(0);
        if wire.len() > MAX_NAME {
            return Err(());
        }
        wire.extend_from_slice(&number.to_be_bytes());
        wire.extend_from_slice(&CLASS_IN.to_be_bytes());
        Ok(Self { wire })
    }
}

/// The path for a line in a list of names: `example.com`, or `example.com AAAA`.
pub(super) fn dns_path(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let path = match (words.next(), words.next(), words.next()) {
        (Some(name), None, None) => format!("/{name}"),
        (Some(name), Some(record), None) => format!("/{name}?type={record}"),
        _ => return None,
    };
    path.parse::<DnsQuestion>().is_ok().then_some(path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::{Action, DnsQuestion, MAX_NAME, TrackerQuery, dns_path};

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

    #[test]
    fn questions_to_a_name_server() {
        let wire = |path: &str| path.parse::<DnsQuestion>().ok().map(|question| question.wire);
        assert_eq!(wire("/a.bc").as_deref(), Some(&b"\x01a\x02bc\0\0\x01\0\x01"[..]));
        assert_eq!(wire("/a.bc.?type=aaaa").as_deref(), Some(&b"\x01a\x02bc\0\0\x1c\0\x01"[..]));
        assert_eq!(wire("/.?type=TYPE65534").as_deref(), Some(&b"\0\xff\xfe\0\x01"[..]));
        let long = "a".repeat(63);
        assert!(wire(&format!("/{long}")).is_some() && wire(&format!("/{long}a")).is_none());
        let name = format!("{long}.{long}.{long}.{}", &long[..61]);
        assert_eq!(wire(&format!("/{name}")).map(|wire| wire.len() - 4), Some(MAX_NAME));
        assert!(wire(&format!("/{name}a")).is_none());
        for bad in
            ["", "/", "a", "/a..b", "/.a", "/a?type=", "/a?type=X", "/a?type=TYPE65536", "/a?x", "/a/b"]
        {
            assert_eq!(wire(bad), None, "{bad}");
        }
    }

    #[test]
    fn lines_of_a_list() {
        assert_eq!(dns_path("example.com").as_deref(), Some("/example.com"));
        assert_eq!(dns_path("example.com\tMX").as_deref(), Some("/example.com?type=MX"));
        for bad in ["", "a b c", "a b", "a?type=A A", "a/b"] {
            assert_eq!(dns_path(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_question_or_not(text in "/?[a-z.?=/]{0,20}(type=[A-Z0-9]{0,9})?|.{0,20}") {
            let _ = text.parse::<TrackerQuery>();
            if let Ok(question) = text.parse::<DnsQuestion>() {
                prop_assert!((5..=MAX_NAME + 4).contains(&question.wire.len()));
            }
            if let Some(path) = dns_path(&text) {
                prop_assert!(path.parse::<DnsQuestion>().is_ok());
            }
        }
    }
}
