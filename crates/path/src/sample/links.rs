//! Stacking of interfaces: from rtnetlink, or as far as sysfs shows it.

use std::collections::BTreeMap;

use super::{RawNic, read};
use rxlab_base::parse::{self, Link};
use rxlab_base::units::{Fact, NicName};
use rxlab_sys::{Host, Query};

/// Every interface of the sampled namespace.
pub(super) fn take(host: &dyn Host, nics: &[RawNic]) -> Fact<Vec<Link>> {
    match read::asked(host, &Query::Links, parse::links) {
        // Another root, a recording without answers, or a jail without netlink.
        Fact::Unsupported | Fact::Denied(_) => Fact::Known(from_sysfs(host, nics)),
        answered => answered,
    }
}

/// sysfs does not show the namespace of `iflink`: interfaces not known to be in this one are left out.
fn from_sysfs(host: &dyn Host, nics: &[RawNic]) -> Vec<Link> {
    let indices: BTreeMap<&str, u32> =
        nics.iter().filter_map(|nic| Some((nic.name.as_str(), *nic.ifindex.known()?))).collect();
    let ties: BTreeMap<u32, u32> = nics
        .iter()
        .filter_map(|nic| {
            let tie: Fact<u32> = read::number(host, &format!("sys/class/net/{}/iflink", nic.name));
            Some((*nic.ifindex.known()?, *tie.known()?))
        })
        .filter(|(index, tie)| index != tie)
        .collect();
    let sysfs = Sysfs { host, indices };
    let link = |nic: &RawNic| {
        let index = *nic.ifindex.known()?;
        let kind = sysfs.kind(nic);
        let other = ties.get(&index).filter(|other| ties.get(other) == Some(&index));
        Some(match other.filter(|_| kind.is_none()) {
            // Two that name each other are the ends of one pair. Of the kernel's kinds that come in pairs, only veth
            // does not report its kind. There may be thousands, so their directories are not listed.
            Some(other) => Link {
                kind: Some("veth".to_owned()),
                link: Some(*other),
                master: sysfs.master(&nic.name),
                ..Link::new(index, nic.name.clone())
            },
            None => Link { kind, ..sysfs.stacked(nic, index) },
        })
    };
    nics.iter().filter_map(link).collect()
}

/// Interfaces in sysfs, and their indices by name.
struct Sysfs<'a> {
    host: &'a dyn Host,
    indices: BTreeMap<&'a str, u32>,
}

impl Sysfs<'_> {
    /// The kind of a virtual interface: for devices it is a kind of driver (`wlan`).
    fn kind(&self, nic: &RawNic) -> Option<String> {
        let is_virtual = nic.device_path.known().is_none() || nic.is_virtual();
        let uevent = read::text(self.host, &format!("sys/class/net/{}/uevent", nic.name));
        let text = uevent.known().filter(|_| is_virtual)?;
        text.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).map(str::to_owned)
    }

    fn master(&self, name: &NicName) -> Option<u32> {
        let target = self.host.link(&format!("sys/class/net/{name}/master")).ok()?;
        self.index(target.rsplit('/').next().unwrap_or_default())
    }

    fn index(&self, name: &str) -> Option<u32> {
        self.indices.get(name).copied()
    }

    /// Parent and master of an interface, without its kind.
    fn stacked(&self, nic: &RawNic, index: u32) -> Link {
        let entries = self.host.list(&format!("sys/class/net/{}", nic.name)).unwrap_or_default();
        let mut lower =
            entries.iter().filter_map(|entry| entry.strip_prefix("lower_")?.parse::<NicName>().ok());
        // Members report it themselves; a lower interface that is not a member is a parent.
        let parent = lower.find(|lower| self.master(lower) != Some(index));
        let is_member = entries.iter().any(|entry| entry == "master");
        Link {
            link: parent.and_then(|parent| self.index(parent.as_str())),
            master: if is_member { self.master(&nic.name) } else { None },
            ..Link::new(index, nic.name.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::take;
    use crate::sample::nics;
    use rxlab_base::units::Fact;
    use rxlab_sys::{Host, LiveHost, Query, RecordedHost};

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
        let asked = host.query(&Query::Links).expect("every kernel has rtnetlink");
        let told = rxlab_base::parse::links(&asked).expect("understood");
        let loopback = told.iter().find(|link| link.name.as_str() == "lo").expect("every machine has one");
        let index: Fact<u32> = crate::sample::read::number(&host, "sys/class/net/lo/ifindex");
        assert_eq!(index, Fact::Known(loopback.index));
        assert_eq!((&loopback.kind, loopback.link, loopback.master), (&None, None, None));
    }
}
