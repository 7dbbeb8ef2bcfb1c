//! Queries to a name server (RFC 1035), with recursion desired, and with EDNS if asked for.

use std::ops::Range;
use std::str::FromStr;

use super::talk::{Heard, Talk, number_of};
use super::{check_depth, exchange};
use crate::check::{SpecError, range, refuse_if};
use crate::clock::Nanos;
use crate::destination::Destination;
use crate::error_class::ErrorClass;
use crate::poller::Poller;
use crate::protocol::{Definition, Opened};
use crate::rcode::{self, Rcodes};
use crate::reasons::Failure;
use crate::session::LoadError;
use crate::spec::Spec;
use crate::thread::Worker;
use crate::url::Url;
use rxlab_base::units::digits;

/// `dns://`.
pub(crate) struct Dns;

impl Definition for Dns {
    fn scheme(&self, tls: bool) -> Option<&'static str> {
        (!tls).then_some("dns")
    }

    fn form(&self) -> &'static str {
        "dns://HOST/NAME"
    }

    fn noun(&self) -> &'static str {
        "answers"
    }

    fn port(&self, _tls: bool) -> Option<u16> {
        Some(53)
    }

    fn path(&self, path: &str) -> Option<String> {
        match path {
            // The names can come from a list.
            "" | "/" => Some("/".to_owned()),
            path => path.parse::<DnsQuestion>().is_ok().then(|| path.to_owned()),
        }
    }

    fn listed_path(&self, line: &str, _url: &Url) -> Option<String> {
        dns_path(line)
    }

    fn path_noun(&self) -> &'static str {
        "name"
    }

    fn options(&self) -> &'static [&'static str] {
        &["--urls", "--expect-rcode", "--edns"]
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        check_depth(spec)?;
        if let Some(size) = spec.edns.filter(|size| *size < MIN_EDNS) {
            return range("--edns", format!("{MIN_EDNS} to 65535 bytes"), size.to_string());
        }
        refuse_if(
            !spec.paths.is_empty() && spec.url.path != "/",
            "--urls gives the names: give the URL itself without a name",
        )?;
        let wrong = spec.all_paths().iter().find(|path| path.parse::<DnsQuestion>().is_err());
        wrong.map_or(Ok(()), |path| {
            range("the name to query", "as in dns://HOST/NAME?type=A".to_owned(), path.clone())
        })
    }

    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
        let Worker { spec, index, session, .. } = worker;
        let question = |path: &String| -> DnsQuestion { path.parse().expect("a spec was checked") };
        let questions = spec.all_paths().iter().map(question).collect();
        exchange(worker, destination, poller, DnsTalk::new(spec, questions, *session, spec.part(*index).0))
    }
}

/// Smallest size that EDNS can allow (RFC 6891 6.2.3).
const MIN_EDNS: u16 = 512;
/// Longest name, in wire format.
const MAX_NAME: usize = 255;
const MAX_LABEL: usize = 63;

/// A query to a name server: `/example.com?type=AAAA`. The default type is A; the root is `/.`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DnsQuestion {
    /// In wire format: name, type, class.
    wire: Vec<u8>,
}

const CLASS_IN: u16 = 1;
/// Type of the record of EDNS.
const OPT: u16 = 41;

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
fn dns_path(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let path = match (words.next(), words.next(), words.next()) {
        (Some(name), None, None) => format!("/{name}"),
        (Some(name), Some(record), None) => format!("/{name}?type={record}"),
        _ => return None,
    };
    path.parse::<DnsQuestion>().is_ok().then_some(path)
}

/// Length of a message header.
const HEAD: usize = 12;
/// Length of type and class after a name.
const BEHIND_NAME: usize = 4;
// The flags of a header.
const RESPONSE: u16 = 1 << 15;
const OPCODE: u16 = 0xf << 11;
const CUT_OFF: u16 = 1 << 9;
const RECURSION_DESIRED: u16 = 1 << 8;
const RCODE: u16 = 0xf;

struct DnsTalk {
    /// Queried in turn; not empty.
    questions: Vec<DnsQuestion>,
    good: Rcodes,
    edns: Option<u16>,
    salt: u16,
    /// Number of the first flow within the session.
    first: usize,
}

impl DnsTalk {
    fn new(spec: &Spec, questions: Vec<DnsQuestion>, session: u64, first: usize) -> Self {
        let (good, edns) = (spec.expect_rcode.clone(), spec.edns);
        Self { questions, good, edns, salt: (session ^ (session >> 20)) as u16, first }
    }

    /// Each flow starts one further down the list.
    fn question(&self, flow: usize, number: u64) -> &[u8] {
        let turn = (self.first + flow) as u64 + number;
        &self.questions[(turn % self.questions.len() as u64) as usize].wire
    }
}

/// Judges a datagram as a response to the query of a path such as `/example.com?type=AAAA`: a good response
/// has no class; `None` is not a response to it. Its id is ignored.
pub fn dns_answer(datagram: &[u8], path: &str) -> Option<Option<ErrorClass>> {
    Some(match judge(datagram, &path.parse::<DnsQuestion>().ok()?.wire, &Rcodes::default())? {
        Judgement::Whole(failure) => failure.map(|failure| failure.class),
        Judgement::CutOff => Some(ErrorClass::Truncated),
    })
}

/// Returns the query, of those numbered `waiting` or before them, that a datagram answers; a query's number
/// is its id, modulo 2^16.
pub fn hear_name_server(datagram: &[u8], waiting: Range<u64>) -> Option<u64> {
    let question = |path: &str| path.parse::<DnsQuestion>().expect("a question");
    let spec = Spec::new("dns://h/".parse().expect("a URL"));
    let mut dns = DnsTalk::new(&spec, vec![question("/a.example"), question("/b.example?type=AAAA")], 0, 0);
    match dns.hear(0, waiting, datagram, 0) {
        Heard::Answer(number, _) | Heard::CutOff(number) => Some(number),
        _ => None,
    }
}

/// Meaning of a response.
enum Judgement {
    /// It has all that there is; a bad one has a failure.
    Whole(Option<Failure>),
    /// A good one that did not fit.
    CutOff,
}

/// Judges a response to the query in `asked`; `None` if it is not a response to it.
fn judge(answer: &[u8], asked: &[u8], good: &Rcodes) -> Option<Judgement> {
    let word = |at: usize| Some(u16::from_be_bytes(*answer.get(at..)?.first_chunk()?));
    let (flags, questions) = (word(2)?, word(4)?);
    let rcode = flags & RCODE;
    if flags & RESPONSE == 0 || flags & OPCODE != 0 {
        return None;
    }
    match questions {
        1 => {
            let (name, behind) = asked.split_at(asked.len() - BEHIND_NAME);
            let repeated = answer.get(HEAD..HEAD + asked.len())?;
            // Servers may change the case of the name; lengths of labels are not letters.
            let (same_name, same_type) = repeated.split_at(name.len());
            if !same_name.eq_ignore_ascii_case(name) || same_type != behind {
                return None;
            }
        }
        // A server that could not read a query does not repeat it.
        0 if rcode != 0 => {}
        _ => return None,
    }
    let class = match rcode {
        _ if good.has(rcode) && flags & CUT_OFF == 0 => return Some(Judgement::Whole(None)),
        _ if good.has(rcode) => return Some(Judgement::CutOff),
        2 => ErrorClass::Servfail,
        3 => ErrorClass::Nxdomain,
        5 => ErrorClass::Refused,
        _ => ErrorClass::OtherRcode,
    };
    let reason = (class == ErrorClass::OtherRcode).then(|| rcode::name(rcode));
    Some(Judgement::Whole(Some(Failure { class, reason })))
}

impl Talk for DnsTalk {
    fn ask(&mut self, flow: usize, number: u64, _now: Nanos, out: &mut Vec<u8>) {
        let id = self.salt ^ number as u16;
        // One question, and at most the record of EDNS.
        for word in [id, RECURSION_DESIRED, 1, 0, 0, u16::from(self.edns.is_some())] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(self.question(flow, number));
        if let Some(size) = self.edns {
            // The root as its name, the size as its class, version 0, no flags, no options.
            out.push(0);
            for word in [OPT, size, 0, 0, 0] {
                out.extend_from_slice(&word.to_be_bytes());
            }
        }
    }

    fn hear(&mut self, flow: usize, waiting: Range<u64>, datagram: &[u8], _now: Nanos) -> Heard {
        let Some(id) = datagram.first_chunk() else { return Heard::Foreign };
        let id = u16::from_be_bytes(*id) ^ self.salt;
        let Some(number) = number_of(u64::from(id), 16, &waiting) else { return Heard::Foreign };
        match judge(datagram, self.question(flow, number), &self.good) {
            Some(Judgement::Whole(failure)) => Heard::Answer(number, failure),
            Some(Judgement::CutOff) => Heard::CutOff(number),
            None => Heard::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{CUT_OFF, DnsQuestion, DnsTalk, Heard, MAX_NAME, RESPONSE, Spec, Talk, dns_path};
    use crate::error_class::ErrorClass;
    use crate::reasons::Failure;

    fn dns() -> DnsTalk {
        let question = |path: &str| path.parse::<DnsQuestion>().expect("a question");
        DnsTalk::new(&spec(), vec![question("/a.example"), question("/b.example?type=AAAA")], 77, 0)
    }

    fn spec() -> Spec {
        Spec::new("dns://h/".parse().expect("a URL"))
    }

    fn asked(dns: &mut DnsTalk, flow: usize, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        dns.ask(flow, number, 0, &mut out);
        out
    }

    /// The query as a response with these flags.
    fn answer(dns: &mut DnsTalk, number: u64, flags: u16) -> Vec<u8> {
        let mut bytes = asked(dns, 0, number);
        bytes[2..4].copy_from_slice(&(flags | RESPONSE).to_be_bytes());
        bytes
    }

    #[test]
    fn a_query_has_the_published_form() {
        let bytes = asked(&mut dns(), 0, 0);
        assert_eq!(bytes[2..], *b"\x01\0\0\x01\0\0\0\0\0\0\x01a\x07example\0\0\x01\0\x01");
        assert_eq!(asked(&mut dns(), 1, 0)[12..], asked(&mut dns(), 0, 1)[12..]);
    }

    #[test]
    fn answers_are_told_by_id_question_and_rcode() {
        let mut dns = dns();
        for (flags, class) in [
            (0, None),
            (2, Some(ErrorClass::Servfail)),
            (3, Some(ErrorClass::Nxdomain)),
            (5, Some(ErrorClass::Refused)),
            (1, Some(ErrorClass::OtherRcode)),
        ] {
            let bytes = answer(&mut dns, 65_537, flags);
            let heard = dns.hear(0, 65_530..65_540, &bytes, 0);
            let reason = (flags == 1).then(|| "FORMERR".to_owned());
            let failure = class.map(|class| Failure { class, reason });
            assert_eq!(heard, Heard::Answer(65_537, failure), "{flags:x}");
        }
        let cut_off = answer(&mut dns, 65_537, CUT_OFF);
        assert_eq!(dns.hear(0, 65_530..65_540, &cut_off, 0), Heard::CutOff(65_537));
        let mut other_case = answer(&mut dns, 2, 0);
        other_case[13] = b'A';
        assert_eq!(dns.hear(0, 0..4, &other_case, 0), Heard::Answer(2, None));
        let late = answer(&mut dns, 2, 0);
        assert_eq!(dns.hear(0, 65_000..65_010, &late, 0), Heard::Answer(2, None), "given up long ago");
        assert_eq!(dns.hear(0, 0..2, &late, 0), Heard::Foreign, "never asked");
    }

    #[test]
    fn what_is_no_answer_is_foreign() {
        let mut dns = dns();
        let good = answer(&mut dns, 0, 0);
        let mut foreign = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            assert_eq!(dns.hear(0, 0..2, &bytes, 0), Heard::Foreign, "{bytes:?}");
        };
        foreign(&|bytes| bytes[2] = 0);
        foreign(&|bytes| bytes[2] |= 0x08);
        foreign(&|bytes| bytes[5] = 0);
        foreign(&|bytes| bytes[5] = 2);
        foreign(&|bytes| bytes[13] = b'x');
        foreign(&|bytes| *bytes.last_mut().expect("bytes") = 3);
        for length in 0..good.len() {
            foreign(&|bytes| bytes.truncate(length));
        }
        let mut unread = answer(&mut dns, 0, 1)[..12].to_vec();
        unread[5] = 0;
        let failure = Failure { class: ErrorClass::OtherRcode, reason: Some("FORMERR".to_owned()) };
        assert_eq!(dns.hear(0, 0..2, &unread, 0), Heard::Answer(0, Some(failure)));
    }

    /// A name that does not exist is the ordinary answer of a blocklist.
    #[test]
    fn codes_that_are_expected_are_good_and_others_are_not() {
        let mut dns = dns();
        dns.good = "NXDOMAIN".parse().expect("codes");
        let failure = |class, reason: Option<&str>| {
            Heard::Answer(0, Some(Failure { class, reason: reason.map(str::to_owned) }))
        };
        for (flags, heard) in [
            (3, Heard::Answer(0, None)),
            (3 | CUT_OFF, Heard::CutOff(0)),
            (0, failure(ErrorClass::OtherRcode, Some("NOERROR"))),
            (2, failure(ErrorClass::Servfail, None)),
            (11, failure(ErrorClass::OtherRcode, Some("RCODE11"))),
        ] {
            let bytes = answer(&mut dns, 0, flags);
            assert_eq!(dns.hear(0, 0..2, &bytes, 0), heard, "{flags:x}");
        }
    }

    #[test]
    fn a_query_with_edns_allows_its_size() {
        let mut dns = dns();
        dns.edns = Some(1232);
        let bytes = asked(&mut dns, 0, 0);
        assert_eq!(bytes[4..12], *b"\0\x01\0\0\0\0\0\x01");
        assert!(bytes.ends_with(b"\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0"), "{bytes:?}");
        let small = Spec { edns: Some(511), ..spec() };
        assert!(small.check().is_err());
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
        fn a_path_is_a_query_or_not(text in "/?[a-z.?=/]{0,20}(type=[A-Z0-9]{0,9})?|.{0,20}") {
            if let Ok(question) = text.parse::<DnsQuestion>() {
                prop_assert!((5..=MAX_NAME + 4).contains(&question.wire.len()));
            }
            if let Some(path) = dns_path(&text) {
                prop_assert!(path.parse::<DnsQuestion>().is_ok());
            }
        }

        #[test]
        fn any_bytes_are_heard(bytes in proptest::collection::vec(any::<u8>(), 0..40), start in any::<u32>()) {
            let start = u64::from(start);
            if let Heard::Answer(number, _) = dns().hear(0, start..start + 100, &bytes, 0) {
                prop_assert!(number < start + 100);
            }
        }
    }
}
