//! `udp://`: datagrams that the target echoes.

use std::ops::Range;

use super::flow::Header;
use super::talk::{Heard, Talk};
use super::{check_depth, check_payload, exchange};
use crate::check::SpecError;
use crate::clock::Nanos;
use crate::destination::Destination;
use crate::poller::Poller;
use crate::protocol::{Definition, Opened};
use crate::session::LoadError;
use crate::spec::{MIN_PAYLOAD, Spec};
use crate::thread::Worker;

/// `udp://`.
pub(crate) struct UdpEcho;

impl Definition for UdpEcho {
    fn scheme(&self, tls: bool) -> Option<&'static str> {
        (!tls).then_some("udp")
    }

    fn form(&self) -> &'static str {
        "udp://HOST:PORT"
    }

    fn noun(&self) -> &'static str {
        "round trips"
    }

    fn work_unit(&self) -> &'static str {
        "trips/s"
    }

    fn options(&self) -> &'static [&'static str] {
        &["--size", "--batch"]
    }

    fn check(&self, spec: &Spec) -> Result<(), SpecError> {
        check_depth(spec)?;
        check_payload(spec)
    }

    fn open(&self, worker: &Worker, destination: &Destination, poller: Poller) -> Result<Opened, LoadError> {
        exchange(worker, destination, poller, EchoTalk::new(worker.session, worker.spec.size))
    }
}

/// The echo of a datagram.
struct EchoTalk {
    session: u64,
    /// The bytes after the header.
    rest: Vec<u8>,
}

impl EchoTalk {
    /// Datagrams of `size` bytes that carry the number of the session.
    fn new(session: u64, size: usize) -> Self {
        Self { session, rest: vec![0; size - MIN_PAYLOAD] }
    }
}

impl Talk for EchoTalk {
    fn ask(&mut self, _flow: usize, number: u64, now: Nanos, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + MIN_PAYLOAD + self.rest.len(), 0);
        Header { session: self.session, sequence: number, sent: now }.write(&mut out[start..]);
    }

    fn hear(&mut self, _flow: usize, _waiting: Range<u64>, datagram: &[u8], now: Nanos) -> Heard {
        match Header::read(datagram) {
            // An echo is the datagram to the last byte, and follows it.
            Some(header)
                if header.session == self.session
                    && header.sent <= now
                    && datagram[MIN_PAYLOAD..] == self.rest =>
            {
                Heard::Answer(header.sequence, None)
            }
            _ => Heard::Foreign,
        }
    }

    fn keeps_order(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{EchoTalk, Heard, MIN_PAYLOAD, Talk};

    #[test]
    fn only_the_very_datagram_is_an_echo() {
        for size in [MIN_PAYLOAD, 40] {
            let mut talk = EchoTalk::new(7, size);
            let mut sent = Vec::new();
            talk.ask(0, 3, 10, &mut sent);
            assert_eq!(sent.len(), size);
            assert_eq!(talk.hear(0, 0..4, &sent, 20), Heard::Answer(3, None));
            assert_eq!(talk.hear(0, 0..4, &[&sent[..], &[0]].concat(), 20), Heard::Foreign);
            assert_eq!(talk.hear(0, 0..4, &sent[..size - 1], 20), Heard::Foreign);
            // The session, the send time, and the last byte.
            for at in [0, 23, size - 1] {
                let mut other = sent.clone();
                other[at] ^= 0x80;
                assert_eq!(talk.hear(0, 0..4, &other, 20), Heard::Foreign, "byte {at} of {size}");
            }
        }
    }
}
