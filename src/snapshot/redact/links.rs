//! Answers of `RTM_GETLINK`, cut down to the attributes that are read: no addresses, no altnames, no
//! tunnel ends.

use crate::parse::{Attributes, messages, push_attribute, push_message};

/// Length of `struct ifinfomsg`.
const HEADER: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_LINK_NETNSID: u16 = 37;

/// The answer with nothing but names, kinds and numbers; `None` when it is not of the format.
pub(super) fn redacted(answer: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        let (header, attributes) = message.split_at_checked(HEADER)?;
        let attributes = Attributes::parse(attributes).ok()?;
        let mut kept = header.to_vec();
        for kind in [IFLA_IFNAME, IFLA_LINK, IFLA_MASTER, IFLA_LINK_NETNSID] {
            if let Some(value) = attributes.get(kind) {
                push_attribute(&mut kept, kind, value);
            }
        }
        if let Some(kind) = attributes.nested(IFLA_LINKINFO).ok()?.get(IFLA_INFO_KIND) {
            let mut info = Vec::new();
            push_attribute(&mut info, IFLA_INFO_KIND, kind);
            push_attribute(&mut kept, IFLA_LINKINFO, &info);
        }
        push_message(&mut out, &kept);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{HEADER, IFLA_IFNAME, redacted};
    use crate::parse::{Attributes, messages, push_attribute, push_message};

    #[test]
    fn names_stay_and_addresses_go() {
        let mut message = vec![7; HEADER];
        push_attribute(&mut message, 1, &[2, 0, 0, 1, 2, 3]); // IFLA_ADDRESS
        push_attribute(&mut message, IFLA_IFNAME, b"eth0\0");
        let mut answer = Vec::new();
        push_message(&mut answer, &message);
        let clean = redacted(&answer).expect("an answer");
        let parts = messages(&clean).expect("an answer");
        let attributes = Attributes::parse(&parts[0][HEADER..]).expect("attributes");
        assert_eq!(attributes.iter().collect::<Vec<_>>(), [(IFLA_IFNAME, b"eth0\0".as_slice())]);
        assert_eq!(redacted(&answer[..9]), None);
    }
}
