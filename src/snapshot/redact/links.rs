//! Answers of `RTM_GETLINK`, cut down to the attributes that are read: no addresses, no altnames, no
//! tunnel ends.

use crate::parse::links::{
    IFINFOMSG, IFLA_GRO_IPV4_MAX_SIZE, IFLA_GRO_MAX_SIZE, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINK,
    IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER, IFLA_XDP,
};
use crate::parse::{Attributes, attribute, messages, push_message};

/// Attributes that are kept whole: names and numbers.
const KEPT: [u16; 7] = [
    IFLA_IFNAME,
    IFLA_LINK,
    IFLA_MASTER,
    IFLA_LINK_NETNSID,
    IFLA_XDP,
    IFLA_GRO_MAX_SIZE,
    IFLA_GRO_IPV4_MAX_SIZE,
];

/// The answer with only names, kinds and numbers; `None` if it does not match the format.
pub(super) fn redacted(answer: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        let (header, attributes) = message.split_at_checked(IFINFOMSG)?;
        let attributes = Attributes::parse(attributes).ok()?;
        let kept = KEPT.into_iter().filter_map(|kind| Some(attribute(kind, attributes.get(kind)?)));
        let kind = attributes.nested(IFLA_LINKINFO).ok()?.get(IFLA_INFO_KIND);
        let info = kind.map(|kind| attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind)));
        push_message(&mut out, &[header, &kept.chain(info).flatten().collect::<Vec<u8>>()].concat());
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{IFINFOMSG, IFLA_IFNAME, redacted};
    use crate::parse::{Attributes, attribute, messages, one_message};

    #[test]
    fn names_stay_and_addresses_go() {
        let address = attribute(1, [2, 0, 0, 1, 2, 3]); // IFLA_ADDRESS
        let answer = one_message(&[vec![7; IFINFOMSG], address, attribute(IFLA_IFNAME, b"eth0\0")].concat());
        let clean = redacted(&answer).expect("an answer");
        let parts = messages(&clean).expect("an answer");
        let attributes = Attributes::parse(&parts[0][IFINFOMSG..]).expect("attributes");
        assert_eq!(attributes.iter().collect::<Vec<_>>(), [(IFLA_IFNAME, b"eth0\0".as_slice())]);
        assert_eq!(redacted(&answer[..9]), None);
    }
}
