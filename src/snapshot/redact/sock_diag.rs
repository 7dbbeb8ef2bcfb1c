//! Answers of `SOCK_DIAG_BY_FAMILY` with stand-ins, cut down to their fixed parts and their memory: no
//! cookies and no peers.

use super::standin::StandIns;
use crate::parse::sock_diag::{ADDRESS_AT, INET_DIAG_MSG, INET_DIAG_SKMEMINFO};
use crate::parse::{
    Attributes, connected_sockets, listening_sockets, messages, push_attribute, push_message,
};

// Further fields of struct inet_diag_msg, which are never parsed.
const PEERS_PORT_AT: usize = 6;
const PEER_AT: usize = 24;
const INTERFACE_AT: usize = 40;
const COOKIE_AT: usize = 44;
const EXPIRES_AT: usize = 52;

/// The answer with stand-ins; `None` if it does not match the format.
pub(super) fn redacted(answer: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    let sockets = listening_sockets(answer).or_else(|_| connected_sockets(answer)).ok()?;
    let mut out = Vec::new();
    for (message, socket) in messages(answer).ok()?.into_iter().zip(sockets) {
        let stand_in = stand_ins.octets(socket.address);
        let (fixed, attributes) = message.split_at_checked(INET_DIAG_MSG)?;
        let mut kept = fixed.to_vec();
        kept[PEERS_PORT_AT..ADDRESS_AT].fill(0);
        kept[ADDRESS_AT..PEER_AT].fill(0);
        kept[ADDRESS_AT..ADDRESS_AT + stand_in.len()].copy_from_slice(&stand_in);
        kept[PEER_AT..INTERFACE_AT].fill(0);
        kept[COOKIE_AT..EXPIRES_AT].fill(0);
        if let Some(memory) = Attributes::parse(attributes).ok()?.get(INET_DIAG_SKMEMINFO) {
            push_attribute(&mut kept, INET_DIAG_SKMEMINFO, memory);
        }
        push_message(&mut out, &kept);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{ADDRESS_AT, INET_DIAG_MSG, redacted};
    use crate::parse::{listening_sockets, one_message, push_attribute};
    use crate::snapshot::redact::standin::StandIns;

    /// A listening socket of port 80 with nonzero bytes everywhere else.
    fn answer(family: u8, address: &[u8]) -> Vec<u8> {
        let mut message = vec![0xAA; INET_DIAG_MSG];
        message[..8].copy_from_slice(&[family, 10, 0, 0, 0, 80, 0, 0]);
        message[ADDRESS_AT..ADDRESS_AT + address.len()].copy_from_slice(address);
        push_attribute(&mut message, 21, &[0xAA; 8]); // INET_DIAG_CGROUP_ID
        one_message(&message)
    }

    fn shown(answer: &[u8]) -> Vec<(String, u16, u64)> {
        let sockets = listening_sockets(answer).expect("sockets");
        sockets.into_iter().map(|s| (s.address.to_string(), s.port, s.inode)).collect()
    }

    #[test]
    fn ports_and_inodes_stay_and_addresses_go() {
        let mut stand_ins = StandIns::default();
        let mut clean = |family, address: &[u8]| {
            let clean = redacted(&answer(family, address), &mut stand_ins).expect("an answer");
            assert_eq!(clean.len(), 4 + INET_DIAG_MSG, "no attributes");
            clean
        };
        let inode = 0xAAAA_AAAA;
        let four = clean(2, &[10, 0, 0, 7]);
        assert_eq!(shown(&four), [("198.18.0.1".to_owned(), 80, inode)]);
        // The filling remains in the interface, expiry, queues, user and inode.
        assert_eq!(four.iter().filter(|byte| **byte == 0xAA).count(), 4 + 5 * 4);
        let mapped = clean(10, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7]);
        assert_eq!(shown(&mapped), [("::ffff:198.18.0.1".to_owned(), 80, inode)]);
        let six = clean(10, &[0xfe; 16]);
        assert_eq!(shown(&six), [("2001:db8::2".to_owned(), 80, inode)]);
        assert_eq!(shown(&clean(10, &[0; 16])), [("::".to_owned(), 80, inode)]);
    }

    /// Port, address and memory of a connection; the other end is 10.0.0.9, port 53,300.
    #[test]
    fn of_a_connection_only_our_end_is_kept() {
        let mut message = vec![0; INET_DIAG_MSG];
        message[..8].copy_from_slice(&[2, 1, 0, 0, 0, 80, 208, 52]);
        message[ADDRESS_AT..ADDRESS_AT + 4].copy_from_slice(&[10, 0, 0, 7]);
        message[super::PEER_AT..super::PEER_AT + 4].copy_from_slice(&[10, 0, 0, 9]);
        push_attribute(&mut message, super::INET_DIAG_SKMEMINFO, &[3; 36]);
        let answer = one_message(&message);
        let clean = redacted(&answer, &mut StandIns::default()).expect("an answer");
        let sockets = crate::parse::connected_sockets(&clean).expect("a connection");
        assert_eq!((sockets[0].port, sockets[0].dropped), (80, 0x0303_0303));
        for other_end in [[208, 52].as_slice(), &[10, 0, 0, 9]] {
            assert!(!clean.windows(other_end.len()).any(|bytes| bytes == other_end), "{clean:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_not_kept() {
        let good = answer(2, &[10, 0, 0, 7]);
        assert_eq!(redacted(&good[..good.len() - 1], &mut StandIns::default()), None);
    }
}
