//! Queries to a name server (RFC 1035), with recursion desired and without EDNS.

use std::ops::Range;

use super::talk::{Heard, Talk, number_of};
use crate::clock::Nanos;
use crate::error_class::ErrorClass;
use crate::query::DnsQuestion;

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

pub(super) struct Dns {
    /// Queried in turn; not empty.
    questions: Vec<DnsQuestion>,
    salt: u16,
    /// Number of the first flow within the session.
    first: usize,
}

impl Dns {
    pub(super) fn new(questions: Vec<DnsQuestion>, session: u64, first: usize) -> Self {
        Self { questions, salt: (session ^ (session >> 20)) as u16, first }
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
    judge(datagram, &path.parse::<DnsQuestion>().ok()?.wire)
}

/// Returns the query, of those numbered `waiting` or before them, that a datagram answers; a query's number
/// is its id, modulo 2^16.
pub fn hear_name_server(datagram: &[u8], waiting: Range<u64>) -> Option<u64> {
    let question = |path: &str| path.parse::<DnsQuestion>().expect("a question");
    let mut dns = Dns::new(vec![question("/a.example"), question("/b.example?type=AAAA")], 0, 0);
    match dns.hear(0, waiting, datagram, 0) {
        Heard::Answer(number, _) => Some(number),
        _ => None,
    }
}

/// Judges a response to the query in `asked`; `None` if it is not a response to it.
fn judge(answer: &[u8], asked: &[u8]) -> Option<Option<ErrorClass>> {
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
    Some(match rcode {
        0 if flags & CUT_OFF != 0 => Some(ErrorClass::Truncated),
        0 => None,
        2 => Some(ErrorClass::Servfail),
        3 => Some(ErrorClass::Nxdomain),
        5 => Some(ErrorClass::Refused),
        _ => Some(ErrorClass::OtherRcode),
    })
}

impl Talk for Dns {
    fn ask(&mut self, flow: usize, number: u64, _now: Nanos, out: &mut Vec<u8>) {
        let id = self.salt ^ number as u16;
        // One question, no records.
        for word in [id, RECURSION_DESIRED, 1, 0, 0, 0] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(self.question(flow, number));
    }

    fn hear(&mut self, flow: usize, waiting: Range<u64>, datagram: &[u8], _now: Nanos) -> Heard {
        let Some(id) = datagram.first_chunk() else { return Heard::Foreign };
        let id = u16::from_be_bytes(*id) ^ self.salt;
        let Some(number) = number_of(u64::from(id), 16, &waiting) else { return Heard::Foreign };
        match judge(datagram, self.question(flow, number)) {
            Some(class) => Heard::Answer(number, class),
            None => Heard::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, proptest};

    use super::{CUT_OFF, Dns, Heard, RESPONSE, Talk};
    use crate::error_class::ErrorClass;
    use crate::query::DnsQuestion;

    fn dns() -> Dns {
        let question = |path: &str| path.parse::<DnsQuestion>().expect("a question");
        Dns::new(vec![question("/a.example"), question("/b.example?type=AAAA")], 77, 0)
    }

    fn asked(dns: &mut Dns, flow: usize, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        dns.ask(flow, number, 0, &mut out);
        out
    }

    /// The query as a response with these flags.
    fn answer(dns: &mut Dns, number: u64, flags: u16) -> Vec<u8> {
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
            (CUT_OFF, Some(ErrorClass::Truncated)),
        ] {
            let bytes = answer(&mut dns, 65_537, flags);
            assert_eq!(dns.hear(0, 65_530..65_540, &bytes, 0), Heard::Answer(65_537, class), "{flags:x}");
        }
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
        assert_eq!(dns.hear(0, 0..2, &unread, 0), Heard::Answer(0, Some(ErrorClass::OtherRcode)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_heard(bytes in proptest::collection::vec(any::<u8>(), 0..40), start in any::<u32>()) {
            let start = u64::from(start);
            if let Heard::Answer(number, _) = dns().hear(0, start..start + 100, &bytes, 0) {
                prop_assert!(number < start + 100);
            }
        }
    }
}
