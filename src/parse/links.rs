//! Interfaces and their relations: the answer to rtnetlink's `RTM_GETLINK`.
//!
//! Each message is a `struct ifinfomsg` and attributes; numbers are those of
//! include/uapi/linux/if_link.h.

use super::{Attributes, WireError, messages};
use crate::units::NicName;

/// One interface. Indices are numbers of interfaces in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: NicName,
    /// The kernel's kind of link, such as `veth`; `None` for devices with their own driver.
    pub kind: Option<String>,
    /// The interface that it is tied to: the parent of a VLAN, the other end of a veth. `None` if there
    /// is none (the kernel reports 0, or the interface's own index).
    pub link: Option<u32>,
    /// The number of [`Link::link`]'s namespace in this one; `None` = the same namespace.
    pub link_namespace: Option<u32>,
    /// The bridge, bond or VRF that it is a member of.
    pub master: Option<u32>,
}

// struct ifinfomsg: family, padding, type, index, flags, change.
pub(crate) const IFINFOMSG: usize = 16;
const INDEX_AT: usize = 4;

pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_LINK: u16 = 5;
pub(crate) const IFLA_MASTER: u16 = 10;
pub(crate) const IFLA_LINKINFO: u16 = 18;
pub(crate) const IFLA_INFO_KIND: u16 = 1;
pub(crate) const IFLA_LINK_NETNSID: u16 = 37;

/// The interfaces of an answer, in its order. One whose name is not UTF-8 is left out: it cannot be named here.
pub fn links(answer: &[u8]) -> Result<Vec<Link>, WireError> {
    messages(answer)?.into_iter().filter_map(|message| one(message).transpose()).collect()
}

fn one(message: &[u8]) -> Result<Option<Link>, WireError> {
    let short = || WireError::new("a link without its fixed header");
    let attributes = Attributes::parse(message.get(IFINFOMSG..).ok_or_else(short)?)?;
    let index = message.get(INDEX_AT..).and_then(|rest| rest.first_chunk()).ok_or_else(short)?;
    let index = u32::from_ne_bytes(*index);
    if attributes.get(IFLA_IFNAME).is_some_and(|name| std::str::from_utf8(name).is_err()) {
        return Ok(None);
    }
    let name = attributes.text(IFLA_IFNAME)?;
    let name = name.ok_or_else(|| WireError::new(format!("link {index} has no name")))?;
    let kind = attributes.nested(IFLA_LINKINFO)?.text(IFLA_INFO_KIND)?.map(str::to_owned);
    let link = attributes.number32(IFLA_LINK)?;
    let link_namespace = attributes.number32(IFLA_LINK_NETNSID)?;
    Ok(Some(Link {
        index,
        name: name.parse().map_err(|error| WireError::new(format!("link {index}: {error}")))?,
        kind,
        // Indices of two namespaces may be equal by chance.
        link: link.filter(|link| *link != 0 && (*link != index || link_namespace.is_some())),
        link_namespace,
        master: attributes.number32(IFLA_MASTER)?.filter(|master| *master != 0),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::{Strategy, prop_assert_eq, proptest};

    use super::{
        IFINFOMSG, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINK, IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER,
        INDEX_AT, Link, links,
    };
    use crate::parse::{push_attribute, push_message};

    fn message(link: &Link) -> Vec<u8> {
        let mut bytes = vec![0; IFINFOMSG];
        bytes[INDEX_AT..INDEX_AT + 4].copy_from_slice(&link.index.to_ne_bytes());
        push_attribute(&mut bytes, IFLA_IFNAME, format!("{}\0", link.name).as_bytes());
        let mut number = |kind, value: Option<u32>| {
            if let Some(value) = value {
                push_attribute(&mut bytes, kind, &value.to_ne_bytes());
            }
        };
        number(IFLA_LINK, link.link);
        number(IFLA_MASTER, link.master);
        number(IFLA_LINK_NETNSID, link.link_namespace);
        if let Some(kind) = &link.kind {
            let mut info = Vec::new();
            push_attribute(&mut info, IFLA_INFO_KIND, kind.as_bytes());
            push_attribute(&mut bytes, IFLA_LINKINFO, &info);
        }
        bytes
    }

    fn answer(all: &[Link]) -> Vec<u8> {
        let mut bytes = Vec::new();
        all.iter().for_each(|link| push_message(&mut bytes, &message(link)));
        bytes
    }

    fn plain(index: u32, name: &str) -> Link {
        let name = name.parse().expect("a name");
        Link { index, name, kind: None, link: None, link_namespace: None, master: None }
    }

    #[test]
    fn its_own_index_is_no_link_unless_it_is_that_of_another_namespace() {
        let own = Link { link: Some(4), ..plain(4, "eth0") };
        assert_eq!(links(&answer(&[own])), Ok(vec![plain(4, "eth0")]));
        let away = Link { link: Some(4), link_namespace: Some(0), ..plain(4, "eth0") };
        assert_eq!(links(&answer(std::slice::from_ref(&away))), Ok(vec![away]));
        let zero = Link { link: Some(0), master: Some(0), ..plain(9, "tunnel0") };
        assert_eq!(links(&answer(&[zero])), Ok(vec![plain(9, "tunnel0")]));
    }

    #[test]
    fn what_is_no_link_is_an_error() {
        let good = message(&plain(1, "lo"));
        for bad in [&good[..12], &good[..IFINFOMSG], &good[..good.len() - 6]] {
            let mut bytes = Vec::new();
            push_message(&mut bytes, bad);
            assert!(links(&bytes).is_err(), "{bad:?}");
        }
    }

    fn any_link() -> impl Strategy<Value = Link> {
        let numbers = (1u32..9, option::of(10u32..20), option::of(0u32..4), option::of(1u32..20));
        (numbers, "[a-z]{1,8}[0-9]", option::of("[a-z]{1,8}")).prop_map(
            |((index, link, link_namespace, master), name, kind)| {
                let name = name.parse().expect("a name");
                Link { index, name, kind, link, link_namespace, master }
            },
        )
    }

    proptest! {
        #[test]
        fn round_trip(all in proptest::collection::vec(any_link(), 0..4)) {
            prop_assert_eq!(links(&answer(&all)), Ok(all));
        }
    }
}
