//! Stacking of interfaces, and the other ends of veths.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::topology::{Nic, NicKind};
use crate::sample::{NetNamespace, RawNamespaces};
use rxlab_base::parse::Link;
use rxlab_base::units::{Fact, NicName};

/// The place of one interface among the others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stack {
    /// The kernel's kind of link: `veth`, `bridge`, `bond`, `vlan`, `tun`; `None` for devices.
    pub kind: Option<String>,
    /// Interfaces that this one is made of: members of a bond or a bridge, the parent of a VLAN. Excludes a
    /// parent in another namespace.
    pub lower: Vec<NicName>,
    /// Interfaces that are made of this one.
    pub upper: Vec<NicName>,
    /// The devices below, through any number of steps; empty for a device itself.
    pub physical: Vec<NicName>,
    /// The other end of a veth.
    pub peer: Option<Peer>,
}

/// The other end of a veth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peer {
    /// Its interface index in its own namespace.
    pub ifindex: u32,
    /// Its name, if it is in the sampled namespace.
    pub nic: Option<NicName>,
    /// Index into [`super::Model::namespaces`], if it is in another known one.
    pub namespace: Option<usize>,
}

/// Kinds of link that come in pairs: their link is the other end, not a lower interface.
const PAIRS: [&str; 2] = ["veth", "netkit"];

/// Links whose packets are received in softirq on the CPU where the other end sends them: veth_xmit, netkit_xmit and tun_get_user
/// queue them there.
const SENT_HERE: [&str; 3] = ["veth", "netkit", "tun"];

impl Nic {
    /// True if its packets are received on the CPU where the other end sends them; `None` if the kind of link is unknown.
    pub fn receives_where_sent(&self) -> Option<bool> {
        self.stack.kind.as_deref().map(|kind| SENT_HERE.contains(&kind))
    }
}

/// The namespaces, in their order.
pub(super) fn namespaces(raw: RawNamespaces) -> Fact<Vec<NetNamespace>> {
    if raw.others.is_empty() {
        return raw.all_seen.map(|()| Vec::new());
    }
    Fact::Known(raw.others)
}

/// Sets the place of every interface; `namespaces` has the others by their number in the sampled one. A container host has thousands: everything looked up per interface is
/// indexed first.
pub(super) fn place(nics: &mut [Nic], links: &[Link], namespaces: &BTreeMap<u32, usize>) {
    let names: BTreeMap<u32, &NicName> = links.iter().map(|link| (link.index, &link.name)).collect();
    let links_by_name: BTreeMap<&NicName, &Link> =
        links.iter().rev().map(|link| (&link.name, link)).collect();
    let ties = Ties::new(links, &names);
    let devices = nics.iter().filter(|nic| nic.kind == NicKind::Device).map(|nic| &nic.name);
    let mut physical = ties.on_top_of(devices);
    for nic in nics {
        let Some(link) = links_by_name.get(&nic.name) else { continue };
        nic.xdp.clone_from(&link.xdp);
        nic.stack = Stack {
            kind: link.kind.clone(),
            lower: listed(&ties.below, &nic.name),
            upper: listed(&ties.above, &nic.name),
            physical: match nic.kind {
                NicKind::Device => Vec::new(),
                _ => physical.remove(&nic.name).unwrap_or_default(),
            },
            peer: peer(link, &names, namespaces),
        };
    }
}

type Steps<'a> = BTreeMap<&'a NicName, BTreeSet<&'a NicName>>;

/// Direct relations between interfaces.
struct Ties<'a> {
    below: Steps<'a>,
    above: Steps<'a>,
}

impl<'a> Ties<'a> {
    fn new(links: &'a [Link], names: &BTreeMap<u32, &'a NicName>) -> Self {
        let mut ties = Self { below: Steps::new(), above: Steps::new() };
        for link in links {
            if let Some(master) = link.master.and_then(|master| names.get(&master)) {
                ties.tie(&link.name, master);
            }
            let parent = link.link.filter(|_| !is_end(link) && link.link_namespace.is_none());
            if let Some(parent) = parent.and_then(|parent| names.get(&parent)) {
                ties.tie(parent, &link.name);
            }
        }
        ties
    }

    fn tie(&mut self, lower: &'a NicName, upper: &'a NicName) {
        self.below.entry(upper).or_default().insert(lower);
        self.above.entry(lower).or_default().insert(upper);
    }

    /// The devices below each interface, by name. Walks up from the devices, so that the number of steps is
    /// the number of relations above them. Terminates on cycles: the kernel allows none, but a recording may
    /// contain anything.
    fn on_top_of<'d>(&self, devices: impl Iterator<Item = &'d NicName>) -> BTreeMap<NicName, Vec<NicName>> {
        let mut found: BTreeMap<NicName, Vec<NicName>> = BTreeMap::new();
        let devices: BTreeSet<&NicName> = devices.collect();
        for device in devices {
            let (mut reached, mut open) = (BTreeSet::new(), vec![device]);
            while let Some(next) = open.pop() {
                for upper in self.above.get(next).into_iter().flatten() {
                    if reached.insert(*upper) {
                        open.push(upper);
                    }
                }
            }
            for upper in reached {
                found.entry(upper.clone()).or_default().push(device.clone());
            }
        }
        found
    }
}

fn listed(steps: &Steps<'_>, name: &NicName) -> Vec<NicName> {
    steps.get(name).into_iter().flatten().map(|name| (*name).clone()).collect()
}

fn is_end(link: &Link) -> bool {
    link.kind.as_deref().is_some_and(|kind| PAIRS.contains(&kind))
}

fn peer(link: &Link, names: &BTreeMap<u32, &NicName>, namespaces: &BTreeMap<u32, usize>) -> Option<Peer> {
    let ifindex = link.link.filter(|_| is_end(link))?;
    let away = link.link_namespace;
    Some(Peer {
        ifindex,
        nic: if away.is_none() { names.get(&ifindex).map(|name| (*name).clone()) } else { None },
        namespace: away.and_then(|id| namespaces.get(&id).copied()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Peer, namespaces, place};
    use crate::model::{DeviceAddress, Nic, NicKind};
    use crate::sample::{NetNamespace, RawNamespaces};
    use rxlab_base::parse::Link;
    use rxlab_base::units::{Fact, Need, NicName};

    fn name(text: &str) -> NicName {
        text.parse().expect("a name")
    }

    fn link(index: u32, text: &str, kind: &str) -> Link {
        let kind = Some(kind.to_owned()).filter(|kind| !kind.is_empty());
        Link { kind, ..Link::new(index, name(text)) }
    }

    fn placed(links: &[Link], namespaces: &BTreeMap<u32, usize>) -> Vec<Nic> {
        let nic = |link: &Link| {
            let kind = if link.kind.is_none() { NicKind::Device } else { NicKind::Virtual };
            Nic::new(link.name.clone(), DeviceAddress(link.name.to_string()), kind)
        };
        let mut nics: Vec<Nic> = links.iter().map(nic).collect();
        place(&mut nics, links, namespaces);
        nics
    }

    /// A bridge on a VLAN on a bond of two devices, and a container's veth in the bridge.
    #[test]
    fn devices_below_through_any_number_of_steps() {
        let nics = placed(
            &[
                Link { master: Some(3), ..link(1, "eth0", "") },
                Link { master: Some(3), ..link(2, "eth1", "") },
                link(3, "bond0", "bond"),
                Link { link: Some(3), master: Some(5), ..link(4, "bond0.7", "vlan") },
                link(5, "br0", "bridge"),
                Link { link: Some(2), link_namespace: Some(0), master: Some(5), ..link(6, "veth0", "veth") },
            ],
            &BTreeMap::new(),
        );
        let shown = |names: &[NicName]| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let row = |at: usize| {
            let stack = &nics[at].stack;
            (shown(&stack.lower), shown(&stack.upper), shown(&stack.physical))
        };
        let is = |lower: &str, upper: &str, physical: &str| {
            (lower.to_owned(), upper.to_owned(), physical.to_owned())
        };
        assert_eq!(row(0), is("", "bond0", ""));
        assert_eq!(row(2), is("eth0 eth1", "bond0.7", "eth0 eth1"));
        assert_eq!(row(3), is("bond0", "br0", "eth0 eth1"));
        assert_eq!(row(4), is("bond0.7 veth0", "", "eth0 eth1"));
        assert_eq!(row(5), is("", "br0", ""), "its other end is not below it");
        assert_eq!(nics[3].stack.kind.as_deref(), Some("vlan"));
    }

    #[test]
    fn a_ring_has_an_end() {
        let nics = placed(
            &[
                Link { link: Some(2), ..link(1, "a", "vlan") },
                Link { link: Some(1), ..link(2, "b", "vlan") },
                Link { link: Some(9), master: Some(8), ..link(3, "c", "vlan") },
            ],
            &BTreeMap::new(),
        );
        assert_eq!(nics[0].stack.physical, []);
        assert_eq!(nics[2].stack.lower, [], "no interface has the number 9");
    }

    /// 3,000 interfaces once took ten seconds: each was searched for among all, and its lower interfaces
    /// were collected again.
    #[test]
    fn thousands_of_interfaces_take_no_time() {
        let links: Vec<Link> = (0..3000)
            .map(|index| match index {
                0 => link(1, "eth0", ""),
                index => Link { link: Some(index), ..link(index + 1, &format!("v{index}"), "vlan") },
            })
            .collect();
        let began = std::time::Instant::now();
        let nics = placed(&links, &BTreeMap::new());
        assert!(began.elapsed().as_secs() < 3, "{:?}", began.elapsed());
        assert!(nics[1..].iter().all(|nic| nic.stack.physical == [name("eth0")]));
    }

    #[test]
    fn the_other_end_here_there_and_nowhere() {
        let tied = |tie, space, index, text| Link {
            link: Some(tie),
            link_namespace: space,
            ..link(index, text, "veth")
        };
        let nics = placed(
            &[
                tied(2, None, 1, "veth0"),
                tied(1, None, 2, "veth1"),
                tied(2, Some(3), 4, "veth2"),
                tied(2, Some(5), 5, "veth3"),
                Link { link: Some(1), link_namespace: Some(3), ..link(6, "mv0", "macvlan") },
            ],
            &BTreeMap::from([(3, 1)]),
        );
        let peers: Vec<Option<Peer>> = nics.iter().map(|nic| nic.stack.peer.clone()).collect();
        let peer =
            |ifindex, nic: Option<&str>, namespace| Some(Peer { ifindex, nic: nic.map(name), namespace });
        assert_eq!(peers[0], peer(2, Some("veth1"), None));
        assert_eq!(peers[1], peer(1, Some("veth0"), None));
        assert_eq!(peers[2], peer(2, None, Some(1)));
        assert_eq!(peers[3], peer(2, None, None), "no known process lives there");
        assert_eq!(peers[4], None);
        assert_eq!(nics[4].stack.lower, [], "its parent is in another namespace");
        assert!(nics[0].stack.lower.is_empty() && nics[0].stack.upper.is_empty());
        let one = NetNamespace { inode: 7, pid: 40, command: "sh".to_owned(), container: None };
        let seen = |others: &[NetNamespace], all_seen| RawNamespaces {
            others: others.to_vec(),
            by_id: BTreeMap::new(),
            all_seen,
        };
        let closed = || Fact::Denied(Need::SysPtrace);
        assert_eq!(namespaces(seen(std::slice::from_ref(&one), closed())), Fact::Known(vec![one]));
        assert_eq!(namespaces(seen(&[], closed())), Fact::Denied(Need::SysPtrace));
        assert_eq!(namespaces(seen(&[], Fact::Known(()))), Fact::Known(vec![]));
    }
}
