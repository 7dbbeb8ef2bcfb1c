//! Interfaces and their relations: the answer to rtnetlink's `RTM_GETLINK`.
//!
//! Each message is a `struct ifinfomsg` and attributes; numbers are those of
//! include/uapi/linux/if_link.h.

use serde::{Deserialize, Serialize};

use super::wire::{attributes_replaced, with_message};
use super::{Attributes, WireError, attribute, messages};
use crate::display_as;
use crate::units::NicName;

/// One interface. Indices are numbers of interfaces in one network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
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
    /// The XDP program that takes its packets first.
    pub xdp: Option<Xdp>,
    /// Length to which GRO merges packets, in bytes: IPv6 (since 5.19), and IPv4 too before 6.3.
    pub gro_max_size: Option<u32>,
    /// The same for IPv4 (since 6.3).
    pub gro_ipv4_max_size: Option<u32>,
}

/// An XDP program of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Xdp {
    /// Where it runs.
    pub mode: XdpMode,
    /// Number of the program, as in `bpftool prog`; `None` if there are several.
    pub program: Option<u32>,
}

/// Where an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// In the driver, before the packet reaches the network stack.
    Driver,
    /// In the network stack, after RPS.
    Generic,
    /// In the device.
    Offload,
    /// Programs in more than one of these.
    Several,
}

display_as! { XdpMode:
    Driver => "driver",
    Generic => "generic",
    Offload => "offload",
    Several => "several",
}

impl Link {
    /// An interface of which only index and name are known.
    pub fn new(index: u32, name: NicName) -> Self {
        Self {
            index,
            name,
            kind: None,
            link: None,
            link_namespace: None,
            master: None,
            xdp: None,
            gro_max_size: None,
            gro_ipv4_max_size: None,
        }
    }
}

// struct ifinfomsg: family, padding, type, index, flags, change.
pub const IFINFOMSG: usize = 16;
const INDEX_AT: usize = 4;

pub const IFLA_IFNAME: u16 = 3;
pub const IFLA_LINK: u16 = 5;
pub const IFLA_MASTER: u16 = 10;
pub const IFLA_LINKINFO: u16 = 18;
pub const IFLA_INFO_KIND: u16 = 1;
pub const IFLA_LINK_NETNSID: u16 = 37;
pub const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
pub const IFLA_GRO_MAX_SIZE: u16 = 58;
pub const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;

/// A length of the packets that GRO makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroSize {
    All,
    Ipv4,
}

impl GroSize {
    /// Its value; `None` if the kernel does not report it.
    pub fn value(self, link: &Link) -> Option<u32> {
        match self {
            GroSize::All => link.gro_max_size,
            GroSize::Ipv4 => link.gro_ipv4_max_size,
        }
    }

    /// The attribute that sets it.
    pub fn attribute(self, bytes: u32) -> Vec<u8> {
        let kind = match self {
            GroSize::All => IFLA_GRO_MAX_SIZE,
            GroSize::Ipv4 => IFLA_GRO_IPV4_MAX_SIZE,
        };
        attribute(kind, bytes.to_ne_bytes())
    }
}

/// The request of `RTM_NEWLINK` that sets attributes of an interface, found by its name.
pub fn link_request(name: &NicName, attributes: &[u8]) -> Vec<u8> {
    [vec![0; IFINFOMSG], attribute(IFLA_IFNAME, format!("{name}\0")), attributes.to_vec()].concat()
}

/// [`link_request`] for the interface with an index.
pub fn indexed_link_request(index: u32, attributes: &[u8]) -> Vec<u8> {
    let mut request = [vec![0; IFINFOMSG], attributes.to_vec()].concat();
    request[INDEX_AT..INDEX_AT + 4].copy_from_slice(&index.to_ne_bytes());
    request
}

/// The answer to `RTM_GETLINK` after these attributes of one interface were set.
pub fn with_link_attributes(answer: &[u8], name: &NicName, attributes: &[u8]) -> Result<Vec<u8>, WireError> {
    with_message(answer, |message| {
        let is_it = one(message)?.is_some_and(|link| link.name == *name);
        let Some((header, rest)) = message.split_at_checked(IFINFOMSG).filter(|_| is_it) else {
            return Ok(None);
        };
        Ok(Some([header, &attributes_replaced(rest, attributes)?].concat()))
    })
}

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
        xdp: xdp(&attributes.nested(IFLA_XDP)?)?,
        gro_max_size: attributes.number32(IFLA_GRO_MAX_SIZE)?,
        gro_ipv4_max_size: attributes.number32(IFLA_GRO_IPV4_MAX_SIZE)?,
    }))
}

fn xdp(attributes: &Attributes<'_>) -> Result<Option<Xdp>, WireError> {
    let mode = match attributes.number32(IFLA_XDP_ATTACHED)? {
        None | Some(0) => return Ok(None),
        Some(1) => XdpMode::Driver,
        Some(2) => XdpMode::Generic,
        Some(3) => XdpMode::Offload,
        Some(4) => XdpMode::Several,
        Some(other) => return Err(WireError::new(format!("XDP attached in mode {other}"))),
    };
    Ok(Some(Xdp { mode, program: attributes.number32(IFLA_XDP_PROG_ID)? }))
}

#[cfg(test)]
mod tests {
    use proptest::option;
    use proptest::prelude::{Strategy, prop_assert_eq, proptest};

    use super::{
        GroSize, IFINFOMSG, IFLA_GRO_IPV4_MAX_SIZE, IFLA_GRO_MAX_SIZE, IFLA_IFNAME, IFLA_INFO_KIND,
        IFLA_LINK, IFLA_LINK_NETNSID, IFLA_LINKINFO, IFLA_MASTER, IFLA_XDP, IFLA_XDP_ATTACHED,
        IFLA_XDP_PROG_ID, INDEX_AT, Link, Xdp, XdpMode, links, with_link_attributes,
    };
    use crate::parse::{attribute, one_message};

    fn message(link: &Link) -> Vec<u8> {
        let mut bytes = vec![0; IFINFOMSG];
        bytes[INDEX_AT..INDEX_AT + 4].copy_from_slice(&link.index.to_ne_bytes());
        bytes.extend(attribute(IFLA_IFNAME, format!("{}\0", link.name)));
        for (kind, value) in [
            (IFLA_LINK, link.link),
            (IFLA_MASTER, link.master),
            (IFLA_LINK_NETNSID, link.link_namespace),
            (IFLA_GRO_MAX_SIZE, link.gro_max_size),
            (IFLA_GRO_IPV4_MAX_SIZE, link.gro_ipv4_max_size),
        ] {
            bytes.extend(value.into_iter().flat_map(|value| attribute(kind, value.to_ne_bytes())));
        }
        if let Some(xdp) = &link.xdp {
            let program = xdp.program.map(|program| attribute(IFLA_XDP_PROG_ID, program.to_ne_bytes()));
            let mode = attribute(IFLA_XDP_ATTACHED, [xdp.mode as u8 + 1]);
            bytes.extend(attribute(IFLA_XDP, [mode, program.unwrap_or_default()].concat()));
        }
        if let Some(kind) = &link.kind {
            bytes.extend(attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, kind)));
        }
        bytes
    }

    fn answer(all: &[Link]) -> Vec<u8> {
        all.iter().flat_map(|link| one_message(&message(link))).collect()
    }

    fn plain(index: u32, name: &str) -> Link {
        Link::new(index, name.parse().expect("a name"))
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

    /// Composed: attributes of include/uapi/linux/if_link.h.
    #[test]
    fn an_xdp_program() {
        use XdpMode::{Driver, Generic, Offload, Several};
        for (mode, program) in [(Driver, Some(17)), (Generic, Some(3)), (Offload, Some(4)), (Several, None)] {
            let link = Link { xdp: Some(Xdp { mode, program }), ..plain(4, "eth0") };
            assert_eq!(links(&answer(std::slice::from_ref(&link))), Ok(vec![link]));
        }
    }

    #[test]
    fn sizes_of_one_link_are_set() {
        let both = [plain(1, "eth0"), Link { gro_max_size: Some(65_536), ..plain(2, "eth1") }];
        let name = "eth1".parse().expect("a name");
        let mut after = answer(&both);
        for (size, bytes) in [(GroSize::All, 200_000), (GroSize::Ipv4, 100_000)] {
            after = with_link_attributes(&after, &name, &size.attribute(bytes)).expect("it is there");
        }
        let after = links(&after).expect("links");
        assert_eq!(after[0], both[0]);
        assert_eq!(
            [GroSize::All, GroSize::Ipv4].map(|size| size.value(&after[1])),
            [Some(200_000), Some(100_000)]
        );
        assert!(with_link_attributes(&answer(&both), &"eth2".parse().expect("a name"), &[]).is_err());
    }

    #[test]
    fn what_is_no_link_is_an_error() {
        let good = message(&plain(1, "lo"));
        for bad in [&good[..12], &good[..IFINFOMSG], &good[..good.len() - 6]] {
            assert!(links(&one_message(bad)).is_err(), "{bad:?}");
        }
    }

    fn any_link() -> impl Strategy<Value = Link> {
        let numbers = (1u32..9, option::of(10u32..20), option::of(0u32..4), option::of(1u32..20));
        (numbers, "[a-z]{1,8}[0-9]", option::of("[a-z]{1,8}"), option::of(1u32..9)).prop_map(
            |((index, link, link_namespace, master), name, kind, gro_max_size)| {
                let name = name.parse().expect("a name");
                Link { kind, link, link_namespace, master, gro_max_size, ..Link::new(index, name) }
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
