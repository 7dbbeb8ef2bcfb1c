//! Answers of netlink and ioctls without addresses and keys, cut down to what is read.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::standin::StandIns;
use rxlab_base::parse::ethtool::flow_fields::{MASK, addresses};
use rxlab_base::parse::ethtool::rss::{A_HKEY, KEY_SIZE, TABLE, TABLE_SIZE};
use rxlab_base::parse::ethtool::rules::SPEC;
use rxlab_base::parse::links::{
    IFINFOMSG, IFLA_GRO_IPV4_MAX_SIZE, IFLA_GRO_MAX_SIZE, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINK,
    IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER, IFLA_XDP,
};
use rxlab_base::parse::sock_diag::{ADDRESS_AT, INET_DIAG_MSG, INET_DIAG_SKMEMINFO};
use rxlab_base::parse::{Attributes, attribute, connected_sockets, listening_sockets, messages, one_message};

/// The answer with each of its messages replaced; `None` if it does not match the format, or one of them does not.
fn with_messages(answer: &[u8], mut replace: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        out.extend(one_message(&replace(message)?));
    }
    Some(out)
}

/// Attributes of a link that are kept whole: names and numbers.
const KEPT: [u16; 7] = [
    IFLA_IFNAME,
    IFLA_LINK,
    IFLA_MASTER,
    IFLA_LINK_NETNSID,
    IFLA_XDP,
    IFLA_GRO_MAX_SIZE,
    IFLA_GRO_IPV4_MAX_SIZE,
];

/// An answer of `RTM_GETLINK` with only names, kinds and numbers: no addresses, no altnames, no tunnel ends.
pub(super) fn links(answer: &[u8]) -> Option<Vec<u8>> {
    with_messages(answer, |message| {
        let (header, attributes) = message.split_at_checked(IFINFOMSG)?;
        let attributes = Attributes::parse(attributes).ok()?;
        let kept = KEPT.into_iter().filter_map(|kind| Some(attribute(kind, attributes.get(kind)?)));
        let kind = attributes.nested(IFLA_LINKINFO).ok()?.get(IFLA_INFO_KIND);
        let info = kind.map(|kind| attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind)));
        Some([header, &kept.chain(info).flatten().collect::<Vec<u8>>()].concat())
    })
}

/// RSS tables without the hash key, which would allow aiming all flows at one queue.
pub(super) fn rss(answer: &[u8]) -> Option<Vec<u8>> {
    with_messages(answer, |message| {
        let attributes = Attributes::parse(message).ok()?;
        let kept = attributes.iter().filter(|(kind, _)| *kind != A_HKEY);
        Some(kept.flat_map(|(kind, value)| attribute(kind, value)).collect())
    })
}

/// The same for the ioctl, as from a driver that does not report the key.
pub(super) fn rss_ioctl(answer: &[u8]) -> Option<Vec<u8>> {
    with_messages(answer, |message| {
        let entries = u32::from_ne_bytes(*message.get(TABLE_SIZE..)?.first_chunk()?) as usize;
        let mut kept = message.get(..TABLE.checked_add(entries.checked_mul(4)?)?)?.to_vec();
        kept[KEY_SIZE..KEY_SIZE + 4].fill(0);
        Some(kept)
    })
}

/// Flow rules with stand-ins for the addresses that they match; `None` if one is of a kind whose addresses cannot be
/// found.
pub(super) fn rules(answer: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    with_messages(answer, |message| {
        let mut rule = message.to_vec();
        let kind = u32::from_ne_bytes(*rule.get(SPEC..)?.first_chunk()?);
        for (at, length) in addresses(kind)? {
            let at = SPEC + at;
            let stand_in = stand_in(rule.get(at..at + length)?, stand_ins)?;
            // Only what the rule's mask compares: a network stays a network.
            for (at, byte) in (at..).zip(stand_in) {
                rule[at] = byte & *rule.get(at + MASK)?;
            }
        }
        Some(rule)
    })
}

fn stand_in(address: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    if let Ok(four) = <[u8; 4]>::try_from(address) {
        Some(stand_ins.octets(Ipv4Addr::from(four).into()))
    } else if let Ok(sixteen) = <[u8; 16]>::try_from(address) {
        Some(stand_ins.octets(Ipv6Addr::from(sixteen).into()))
    } else {
        Some(stand_ins.mac(address.try_into().ok()?).to_vec())
    }
}

// Further fields of struct inet_diag_msg, which are never parsed.
const PEERS_PORT_AT: usize = 6;
const PEER_AT: usize = 24;
const INTERFACE_AT: usize = 40;
const COOKIE_AT: usize = 44;
const EXPIRES_AT: usize = 52;

/// An answer of `SOCK_DIAG_BY_FAMILY` with stand-ins, cut down to the fixed parts and the memory of sockets: no cookies
/// and no peers.
pub(super) fn sock_diag(answer: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    let sockets = listening_sockets(answer).or_else(|_| connected_sockets(answer)).ok()?;
    let mut sockets = sockets.into_iter();
    with_messages(answer, |message| {
        let stand_in = stand_ins.octets(sockets.next()?.address);
        let (fixed, attributes) = message.split_at_checked(INET_DIAG_MSG)?;
        let mut kept = fixed.to_vec();
        kept[PEERS_PORT_AT..ADDRESS_AT].fill(0);
        kept[ADDRESS_AT..PEER_AT].fill(0);
        kept[ADDRESS_AT..ADDRESS_AT + stand_in.len()].copy_from_slice(&stand_in);
        kept[PEER_AT..INTERFACE_AT].fill(0);
        kept[COOKIE_AT..EXPIRES_AT].fill(0);
        if let Some(memory) = Attributes::parse(attributes).ok()?.get(INET_DIAG_SKMEMINFO) {
            kept.extend(attribute(INET_DIAG_SKMEMINFO, memory));
        }
        Some(kept)
    })
}

#[cfg(test)]
mod tests {
    use super::{
        ADDRESS_AT, IFINFOMSG, IFLA_IFNAME, INET_DIAG_MSG, INET_DIAG_SKMEMINFO, MASK, PEER_AT, SPEC,
    };
    use super::{StandIns, links, rss, rss_ioctl, rules, sock_diag};
    use rxlab_base::parse::{
        Attributes, attribute, connected_sockets, ethtool, listening_sockets, messages, one_message,
    };

    #[test]
    fn names_of_links_stay_and_addresses_go() {
        let address = attribute(1, [2, 0, 0, 1, 2, 3]); // IFLA_ADDRESS
        let answer = one_message(&[vec![7; IFINFOMSG], address, attribute(IFLA_IFNAME, b"eth0\0")].concat());
        let clean = links(&answer).expect("an answer");
        let parts = messages(&clean).expect("an answer");
        let attributes = Attributes::parse(&parts[0][IFINFOMSG..]).expect("attributes");
        assert_eq!(attributes.iter().collect::<Vec<_>>(), [(IFLA_IFNAME, b"eth0\0".as_slice())]);
        assert_eq!(links(&answer[..9]), None);
    }

    #[test]
    fn the_key_of_rss_goes_and_the_table_stays() {
        let table = [attribute(3, 1u32.to_ne_bytes()), attribute(4, 7u32.to_ne_bytes())].concat();
        let whole = one_message(&[table, attribute(5, [9; 40])].concat());
        assert!(ethtool::rss(&whole).expect("valid").key.is_some());
        let clean = ethtool::rss(&rss(&whole).expect("understood")).expect("valid");
        assert_eq!((clean.table, clean.key, clean.function), (vec![7], None, Some("toeplitz".into())));
    }

    #[test]
    fn the_same_for_the_ioctl() {
        let mut rxfh = vec![0; 24];
        rxfh[8..12].copy_from_slice(&2u32.to_ne_bytes());
        rxfh[12..16].copy_from_slice(&3u32.to_ne_bytes());
        rxfh.extend([1, 0, 0, 0, 5, 0, 0, 0, 0xAA, 0xBB, 0xCC]);
        let whole = one_message(&rxfh);
        assert_eq!(ethtool::rss_ioctl(&whole).expect("valid").key.as_deref(), Some("aabbcc"));
        let clean = ethtool::rss_ioctl(&rss_ioctl(&whole).expect("understood")).expect("valid");
        assert_eq!((clean.table.len(), clean.key), (2, None));
        assert_eq!(rss_ioctl(&one_message(&rxfh[..26])), None);
    }

    /// The values of the kind's own fields.
    const FIELDS: usize = SPEC + 4;

    fn rule(kind: u32, fields: &[u8], mask: &[u8]) -> Vec<u8> {
        let mut rule = vec![0; 192];
        rule[SPEC..FIELDS].copy_from_slice(&kind.to_ne_bytes());
        rule[FIELDS..FIELDS + fields.len()].copy_from_slice(fields);
        rule[FIELDS + MASK..FIELDS + MASK + mask.len()].copy_from_slice(mask);
        one_message(&rule)
    }

    fn fields(answer: &[u8]) -> Vec<String> {
        let clean = rules(answer, &mut StandIns::default()).expect("a known kind");
        ethtool::rules(&clean).expect("still a rule").remove(0).spec.fields
    }

    /// Composed: no available machine has a device with flow rules.
    #[test]
    fn addresses_of_rules_go_and_ports_stay() {
        let tcp4 = rule(
            1,
            &[10, 0, 0, 7, 10, 1, 0, 0, 0, 0, 1, 187],
            &[255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255],
        );
        let text = fields(&tcp4).join(", ");
        assert!(text.contains("src-ip 198.18.0.1") && text.contains("dst-port 443"), "{text}");
        assert!(text.contains("dst-ip 198.18.0.0") && !text.contains("10."), "{text}");
        let ether = rule(0x12, &[0x52, 0x54, 0, 1, 2, 3], &[255; 6]);
        assert_eq!(fields(&ether), ["dst 02:00:00:00:00:01"]);
    }

    #[test]
    fn unknown_kinds_of_rules_are_not_kept() {
        assert_eq!(rules(&rule(0x1f, &[], &[]), &mut StandIns::default()), None);
        assert_eq!(rules(&[1, 0, 0, 0, 9], &mut StandIns::default()), None);
    }

    /// A listening socket of port 80 with nonzero bytes everywhere else.
    fn listening(family: u8, address: &[u8]) -> Vec<u8> {
        let mut message = vec![0xAA; INET_DIAG_MSG];
        message[..8].copy_from_slice(&[family, 10, 0, 0, 0, 80, 0, 0]);
        message[ADDRESS_AT..ADDRESS_AT + address.len()].copy_from_slice(address);
        message.extend(attribute(21, [0xAA; 8])); // INET_DIAG_CGROUP_ID
        one_message(&message)
    }

    fn shown(answer: &[u8]) -> Vec<(String, u16, u64)> {
        let sockets = listening_sockets(answer).expect("sockets");
        sockets.into_iter().map(|s| (s.address.to_string(), s.port, s.inode)).collect()
    }

    #[test]
    fn ports_and_inodes_of_sockets_stay_and_addresses_go() {
        let mut stand_ins = StandIns::default();
        let mut clean = |family, address: &[u8]| {
            let clean = sock_diag(&listening(family, address), &mut stand_ins).expect("an answer");
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
        message[PEER_AT..PEER_AT + 4].copy_from_slice(&[10, 0, 0, 9]);
        message.extend(attribute(INET_DIAG_SKMEMINFO, [3; 36]));
        let clean = sock_diag(&one_message(&message), &mut StandIns::default()).expect("an answer");
        let sockets = connected_sockets(&clean).expect("a connection");
        assert_eq!((sockets[0].port, sockets[0].dropped), (80, 0x0303_0303));
        for other_end in [[208, 52].as_slice(), &[10, 0, 0, 9]] {
            assert!(!clean.windows(other_end.len()).any(|bytes| bytes == other_end), "{clean:?}");
        }
    }

    #[test]
    fn what_is_no_answer_about_sockets_is_not_kept() {
        let good = listening(2, &[10, 0, 0, 7]);
        assert_eq!(sock_diag(&good[..good.len() - 1], &mut StandIns::default()), None);
    }
}
