//! Listening sockets, the processes that own them, and the CPUs of these.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::sample::{Process, RawListeners, Transport};
use rxlab_base::units::Fact;

/// Sockets of one transport, address and port: several with SO_REUSEPORT.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listener {
    /// TCP or UDP.
    pub transport: Transport,
    /// The local address, `0.0.0.0` or `::` for any.
    pub address: std::net::IpAddr,
    /// The local port.
    pub port: u16,
    /// Number of sockets.
    pub sockets: usize,
    /// The processes that own them, by number; none for sockets of the kernel itself. Denied if one of the
    /// sockets has no owner among the processes that we may inspect.
    pub owners: Fact<Vec<Process>>,
}

/// Listeners by transport, port and address.
pub(super) fn group(raw: &RawListeners) -> Vec<Listener> {
    let mut groups: BTreeMap<_, Vec<&[u32]>> = BTreeMap::new();
    for socket in &raw.sockets {
        let key = (socket.transport, socket.port, socket.address);
        groups.entry(key).or_default().push(&socket.owners);
    }
    let listener = |((transport, port, address), sockets): (_, Vec<&[u32]>)| Listener {
        transport,
        address,
        port,
        sockets: sockets.len(),
        owners: owners(raw, &sockets),
    };
    groups.into_iter().map(listener).collect()
}

fn owners(raw: &RawListeners, sockets: &[&[u32]]) -> Fact<Vec<Process>> {
    if sockets.iter().any(|owners| owners.is_empty()) && raw.all_seen != Fact::Known(()) {
        return raw.all_seen.clone().map(|()| Vec::new());
    }
    let pids: BTreeSet<u32> = sockets.iter().flat_map(|owners| owners.iter().copied()).collect();
    let known = pids.into_iter().filter_map(|pid| raw.processes.get(&pid).cloned());
    Fact::Known(known.collect())
}

#[cfg(test)]
mod tests {
    use super::group;
    use crate::sample::{Process, RawListeners, RawSocket, Transport};
    use rxlab_base::units::{Fact, Need};

    fn raw(sockets: &[(u16, &[u32])]) -> RawListeners {
        let process = |pid: &u32| {
            let unit = Some(format!("web{pid}.service"));
            (*pid, Process { pid: *pid, unit, ..Process::default() })
        };
        let socket = |(port, owners): &(u16, &[u32])| RawSocket {
            transport: Transport::Tcp,
            address: std::net::Ipv4Addr::UNSPECIFIED.into(),
            port: *port,
            owners: owners.to_vec(),
        };
        RawListeners {
            sockets: sockets.iter().map(socket).collect(),
            processes: sockets.iter().flat_map(|(_, owners)| owners.iter().map(process)).collect(),
            all_seen: Fact::Known(()),
        }
    }

    #[test]
    fn reuseport_sockets_are_one_listener() {
        let listeners = group(&raw(&[(443, &[9]), (80, &[7, 8]), (80, &[8])]));
        assert_eq!(listeners.iter().map(|l| (l.port, l.sockets)).collect::<Vec<_>>(), [(80, 2), (443, 1)]);
        let owners = listeners[0].owners.known().expect("known");
        let shown: Vec<_> = owners.iter().map(|process| (process.pid, process.unit.as_deref())).collect();
        assert_eq!(shown, [(7, Some("web7.service")), (8, Some("web8.service"))]);
    }

    #[test]
    fn only_an_owner_that_was_not_found_can_be_hidden() {
        let mut raw = raw(&[(80, &[7]), (443, &[])]);
        assert_eq!(group(&raw)[1].owners, Fact::Known(vec![]), "the kernel's own");
        raw.all_seen = Fact::Denied(Need::SysPtrace);
        let listeners = group(&raw);
        assert_eq!(listeners[0].owners.known().map(Vec::len), Some(1));
        assert_eq!(listeners[1].owners, Fact::Denied(Need::SysPtrace));
    }
}
