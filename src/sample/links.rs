//! Stacking of interfaces: from rtnetlink, or as far as sysfs shows it.

use std::collections::BTreeMap;

use super::{RawNic, read};
use crate::host::{Host, Question};
use crate::parse::{self, Link};
use crate::units::{Fact, NicName};

/// Every interface of the sampled namespace.
pub(super) fn take(host: &dyn Host, nics: &[RawNic]) -> Fact<Vec<Link>> {
    match read::asked(host, &Question::Links, parse::links) {
        // Another root, a recording without answers, or a jail without netlink.
        Fact::Unsupported | Fact::Denied(_) => Fact::Known(from_sysfs(host, nics)),
        answered => answered,
    }
}

/// sysfs does not show the namespace of `iflink`: interfaces not known to be in this one are left out.
fn from_sysfs(host: &dyn Host, nics: &[RawNic]) -> Vec<Link> {
    let indices: BTreeMap<&str, u32> =
        nics.iter().filter_map(|nic| Some((nic.name.as_str(), *nic.ifindex.known()?))).collect();
    let mut links: Vec<Link> = nics.iter().filter_map(|nic| one(host, &indices, nic)).collect();
    // Two that name each other are the ends of one pair. Of the kernel's kinds that come in pairs, only veth
    // does not report its kind.
    let ties: BTreeMap<u32, u32> = nics
        .iter()
        .filter_map(|nic| {
            let tie: Fact<u32> = read::number(host, &format!("sys/class/net/{}/iflink", nic.name));
            Some((*nic.ifindex.known()?, *tie.known()?))
        })
        .filter(|(index, tie)| index != tie)
        .collect();
    for link in links.iter_mut().filter(|link| link.kind.is_none()) {
        let other = ties.get(&link.index).copied();
        if let Some(other) = other.filter(|other| ties.get(other) == Some(&link.index)) {
            (link.kind, link.link) = (Some("veth".to_owned()), Some(other));
        }
    }
    links
}

/// `indices` are those of all interfaces, by name.
fn one(host: &dyn Host, indices: &BTreeMap<&str, u32>, nic: &RawNic) -> Option<Link> {
    let base = format!("sys/class/net/{}", nic.name);
    let by_name = |name: &str| indices.get(name).copied();
    let master = |name: &NicName| {
        let target = host.link(&format!("sys/class/net/{name}/master")).ok()?;
        by_name(target.rsplit('/').next().unwrap_or_default())
    };
    let index = *nic.ifindex.known()?;
    let entries = host.list(&base).unwrap_or_default();
    let lower = entries.iter().filter_map(|entry| entry.strip_prefix("lower_")?.parse::<NicName>().ok());
    // Members report it themselves; a lower interface that is not a member is a parent.
    let parent = lower.into_iter().find(|lower| master(lower) != Some(index));
    // For devices this is a kind of driver (`wlan`), not a kind of link.
    let is_virtual = nic.device_path.known().is_none_or(|path| path.contains("/virtual/"));
    let uevent = read::text(host, &format!("{base}/uevent"));
    let kind = uevent.known().and_then(|text| text.lines().find_map(|line| line.strip_prefix("DEVTYPE=")));
    Some(Link {
        kind: kind.filter(|_| is_virtual).map(str::to_owned),
        link: parent.and_then(|parent| by_name(parent.as_str())),
        master: if entries.iter().any(|entry| entry == "master") { master(&nic.name) } else { None },
        ..Link::new(index, nic.name.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::take;
    use crate::host::{Host, LiveHost, Question, RecordedHost};
    use crate::sample::nics;
    use crate::units::Fact;

    /// `br0` with the member `veth0`, whose other end is `veth1`; `vlan5` on `br0`; `veth2`, whose other
    /// end is in another namespace and happens to have the index of `br0`.
    fn host() -> RecordedHost {
        let mut host = RecordedHost::new();
        for (name, index, tie, kind) in [
            ("br0", 2, 2, "DEVTYPE=bridge\n"),
            ("veth0", 3, 4, ""),
            ("veth1", 4, 3, ""),
            ("vlan5", 5, 2, "DEVTYPE=vlan\n"),
            ("veth2", 6, 2, ""),
        ] {
            let base = format!("sys/class/net/{name}");
            host = host
                .with_link(&base, &format!("../../devices/virtual/net/{name}"))
                .with(&format!("{base}/ifindex"), format!("{index}\n"))
                .with(&format!("{base}/iflink"), format!("{tie}\n"))
                .with(&format!("{base}/uevent"), format!("INTERFACE={name}\nIFINDEX={index}\n{kind}"));
        }
        host.with_link("sys/class/net/veth0/master", "../../../../virtual/net/br0")
            .with_link("sys/class/net/br0/lower_veth0", "../veth0")
            .with_link("sys/class/net/vlan5/lower_br0", "../br0")
    }

    #[test]
    fn sysfs_tells_what_is_in_this_namespace() {
        let host = host();
        let nics = nics::take(&host, &Fact::Unsupported, |_| false);
        let links = take(&host, nics.known().expect("listed"));
        let shown: Vec<_> = links
            .known()
            .expect("known")
            .iter()
            .map(|link| (link.name.as_str(), link.kind.as_deref(), link.link, link.master))
            .collect();
        assert_eq!(
            shown,
            [
                ("br0", Some("bridge"), None, None),
                ("veth0", Some("veth"), Some(4), Some(2)),
                ("veth1", Some("veth"), Some(3), None),
                ("veth2", None, None, None),
                ("vlan5", Some("vlan"), Some(2), None),
            ]
        );
    }

    /// Other tests make and remove interfaces meanwhile; the loopback stays.
    #[test]
    fn this_machine_answers_over_netlink() {
        let host = LiveHost::open("/".as_ref()).expect("opened");
        let asked = host.ask(&Question::Links).expect("every kernel has rtnetlink");
        let told = crate::parse::links(&asked).expect("understood");
        let loopback = told.iter().find(|link| link.name.as_str() == "lo").expect("every machine has one");
        let index: Fact<u32> = crate::sample::read::number(&host, "sys/class/net/lo/ifindex");
        assert_eq!(index, Fact::Known(loopback.index));
        assert_eq!((&loopback.kind, loopback.link, loopback.master), (&None, None, None));
    }
}
