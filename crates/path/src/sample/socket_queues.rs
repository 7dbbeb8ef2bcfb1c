//! Queues of public sockets, and those of one process in two samples.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Counters, Transport, listeners, processes, read};
use crate::evidence::LOST;
use rxlab_base::parse::{self, NetSocket};
use rxlab_base::units::Fact;
use rxlab_sys::{Host, Query};

/// The public sockets of a process: listening TCP and unconnected UDP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SocketRates {
    /// Those of the sampled namespace.
    pub held: Vec<HeldRates>,
    /// True if it has other, unknown ones: of another namespace, connections, or not of the network.
    pub others: bool,
}

/// A public socket of a process in two samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldRates {
    /// TCP, listening, or UDP, not connected.
    pub transport: Transport,
    /// Local port in host byte order.
    pub port: u16,
    /// In the first sample: connections waiting to be accepted (TCP), or bytes waiting to be read (UDP).
    pub queued_before: u64,
    /// The same in the second sample.
    pub queued: u64,
    /// Connections or packets per second that it had no room for.
    pub dropped: f64,
    /// Connections to the port with unread data in the second sample; not asked of UDP, nor if the queue
    /// suffices.
    pub unread: Fact<u32>,
}

/// A public socket that had no room for what arrived.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LosingSocket {
    /// TCP, listening, or UDP, not connected.
    pub transport: Transport,
    /// Local address; unspecified for a socket bound to all addresses.
    pub address: IpAddr,
    /// Local port in host byte order.
    pub port: u16,
    /// Connections or packets per second that it had no room for.
    pub dropped: f64,
    /// In the first sample: connections waiting to be accepted (TCP), or bytes waiting to be read (UDP).
    pub queued_before: u64,
    /// The same in the second sample.
    pub queued: u64,
    /// Most that may wait: connections (TCP); `None` if not reported.
    pub limit: Option<u64>,
    /// The processes that hold it, by number, with their names; empty if none of the visible ones does.
    pub owners: Vec<(u32, String)>,
}

/// Losing sockets that are looked up.
const LOSING: usize = 16;

/// The public sockets that lost at least one packet or connection per second between `before` and `after`, which is later
/// and just read from `host`; most losses first. Files of processes are read only if there is one.
pub fn losing_sockets(host: &dyn Host, before: &Counters, after: &Counters) -> Fact<Vec<LosingSocket>> {
    let seconds = after.taken_ns.saturating_sub(before.taken_ns) as f64 / 1e9;
    before.sockets.clone().and_then(|then| {
        after.sockets.clone().map(|now| {
            let losing = now.iter().filter_map(|(inode, (transport, now))| {
                let (_, then) = then.get(inode).filter(|(_, then)| then.port == now.port)?;
                let dropped = now.dropped.saturating_sub(then.dropped) as f64 / seconds;
                (dropped >= LOST)
                    .then_some(LosingSocket {
                        transport: *transport,
                        address: now.address,
                        port: now.port,
                        dropped,
                        queued_before: then.queued,
                        queued: now.queued,
                        limit: now.limit,
                        owners: Vec::new(),
                    })
                    .map(|socket| (*inode, socket))
            });
            let mut losing: Vec<(u64, LosingSocket)> = losing.collect();
            losing.sort_by(|(_, a), (_, b)| b.dropped.total_cmp(&a.dropped));
            losing.truncate(LOSING);
            if !losing.is_empty() {
                name_owners(host, &mut losing);
            }
            losing.into_iter().map(|(_, socket)| socket).collect()
        })
    })
}

fn name_owners(host: &dyn Host, losing: &mut [(u64, LosingSocket)]) {
    let seen = processes::see(host);
    for pid in &seen.programs {
        let Ok(open) = listeners::open_sockets(host, *pid) else { continue };
        for (_, socket) in losing.iter_mut().filter(|(inode, _)| open.contains(inode)) {
            socket.owners.push((*pid, seen.command(host, *pid).unwrap_or_default()));
        }
    }
}

/// The public sockets of the sampled namespace, by inode.
pub(super) fn take(host: &dyn Host) -> Fact<BTreeMap<u64, (Transport, NetSocket)>> {
    listeners::sockets(host)
        .map(|sockets| sockets.into_iter().map(|socket| (socket.1.inode, socket)).collect())
}

/// The sockets of a process from `before` to `after`, just read from `host` and `seconds` later.
pub(super) fn held(
    host: &dyn Host,
    pid: u32,
    before: &Counters,
    after: &Counters,
    seconds: f64,
) -> Fact<SocketRates> {
    let mut open = match listeners::open_sockets(host, pid) {
        Ok(open) => open,
        Err(error) => return read::absence(&error),
    };
    open.sort_unstable();
    open.dedup();
    after.sockets.clone().map(|now| {
        let then = before.sockets.known();
        let held = open.iter().filter_map(|inode| {
            let (transport, now) = *now.get(inode)?;
            let then = then.and_then(|then| then.get(inode)).map(|(_, then)| then);
            let then = then.filter(|then| then.port == now.port);
            let queued_before = then.map_or(0, |then| then.queued);
            let dropped = then.map_or(0, |then| now.dropped.saturating_sub(then.dropped));
            let behind = queued_before.min(now.queued) > 0 || dropped > 0;
            let asked = transport == Transport::Tcp && !behind;
            Some(HeldRates {
                transport,
                port: now.port,
                queued_before,
                queued: now.queued,
                dropped: dropped as f64 / seconds,
                unread: if asked { unread(host, now.port) } else { Fact::NotAsked },
            })
        });
        let held: Vec<HeldRates> = held.collect();
        let rest: Vec<u64> = open.iter().filter(|inode| !now.contains_key(inode)).copied().collect();
        SocketRates { held, others: !rest.is_empty() && !are_unix(host, &rest) }
    })
}

/// True if all of these are Unix sockets: every service has one to its journal.
fn are_unix(host: &dyn Host, inodes: &[u64]) -> bool {
    let unix = read::parsed(host, "proc/net/unix", parse::unix_sockets);
    unix.known().is_some_and(|unix| inodes.iter().all(|inode| unix.contains(inode)))
}

/// Connections to a port with unread data.
fn unread(host: &dyn Host, port: u16) -> Fact<u32> {
    let mut known = Fact::Unsupported;
    for query in [Query::TcpConnections { port }, Query::Tcp6Connections { port }] {
        let asked = read::asked(host, &query, parse::connected_sockets);
        let asked = asked.map(|sockets| sockets.iter().filter(|socket| socket.queued > 0).count() as u32);
        known = match (known, asked) {
            (Fact::Known(sum), Fact::Known(more)) => Fact::Known(sum + more),
            // A machine without IPv6.
            (Fact::Known(sum), _) => Fact::Known(sum),
            (_, asked) => asked,
        };
    }
    known
}

#[cfg(test)]
mod tests {
    use super::{SocketRates, held, losing_sockets};
    use crate::sample::{Counters, Inventory, Scope};
    use rxlab_base::parse::one_message;
    use rxlab_base::units::{Fact, Need};
    use rxlab_sys::{Cause, Query, RecordedHost};

    /// A UDP socket on port 53 and one TCP listener on port 80, with this much in their queues.
    fn host(unread: u32, dropped: u32, backlog: u32) -> RecordedHost {
        let row = |state: &str, port: u32, queued: u32, inode: u32, rest: &str| {
            format!(
                "  sl  local_address\n 0: 00000000:{port:04X} 00000000:0000 {state} 0:{queued:X} 0:0 0 0 0 {inode} {rest}\n"
            )
        };
        RecordedHost::new()
            .with("proc/70/comm", "web\n")
            .with("proc/net/tcp", row("0A", 80, backlog, 11, "1"))
            .with("proc/net/udp", row("07", 53, unread, 12, &format!("2 0 {dropped}")))
            .with_link("proc/70/fd/3", "socket:[11]")
            .with_link("proc/70/fd/4", "socket:[12]")
            .with_link("proc/70/fd/5", "socket:[12]")
    }

    fn look(host: &RecordedHost) -> Counters {
        Counters::take(host, &Inventory::take(host, Scope::Load))
    }

    /// Two samples that are two seconds apart.
    fn between(before: &RecordedHost, after: &RecordedHost) -> SocketRates {
        held(after, 70, &look(before), &look(after), 2.0).known().expect("known").clone()
    }

    /// A connection with bytes to be read, and one without.
    fn connections() -> Vec<u8> {
        let connection = |queued: u32| {
            let mut message = [0; 72];
            message[..2].copy_from_slice(&[2, 1]);
            message[56..60].copy_from_slice(&queued.to_ne_bytes());
            one_message(&message)
        };
        [9, 0].map(connection).concat()
    }

    #[test]
    fn queues_at_both_looks_and_drops_between_them() {
        let found = between(&host(700, 4, 0), &host(900, 10, 3));
        let shown: Vec<_> =
            found.held.iter().map(|one| (one.port, one.queued_before, one.queued, one.dropped)).collect();
        assert_eq!(shown, [(80, 0, 3, 0.0), (53, 700, 900, 3.0)]);
        assert!(!found.others);
        let more = || host(0, 0, 0).with_link("proc/70/fd/9", "socket:[99]");
        assert!(between(&host(0, 0, 0), &more()).others);
        let unix =
            |inode| format!("Num RefCount Protocol Flags Type St Inode Path\n0: 3 0 0 0001 03 {inode}\n");
        assert!(!between(&host(0, 0, 0), &more().with("proc/net/unix", unix(99))).others);
        assert!(between(&host(0, 0, 0), &more().with("proc/net/unix", unix(98))).others);
    }

    #[test]
    fn a_socket_without_room_is_named_with_its_owner() {
        let losing = |before: RecordedHost, after: RecordedHost| {
            let after = after.at_ns(2_000_000_000);
            let found = losing_sockets(&after, &look(&before), &look(&after));
            found.known().expect("known").clone()
        };
        let found = losing(host(700, 4, 0), host(900, 10, 3));
        let [socket] = &found[..] else { panic!("{found:?}") };
        assert_eq!((socket.port, socket.dropped, socket.queued_before, socket.queued), (53, 3.0, 700, 900));
        assert_eq!(socket.owners, [(70, "web".to_owned())]);
        assert_eq!(losing(host(0, 4, 0), host(0, 5, 0)), [], "one in two seconds");
        let other = host(0, 90, 0).with("proc/net/udp", "  sl  local_address\n");
        assert_eq!(losing(other, host(0, 90, 0)), [], "what a new socket lost may be older");
    }

    #[test]
    fn connections_are_asked_for_where_none_wait_to_be_accepted() {
        let path = Query::TcpConnections { port: 80 }.path();
        let after = |backlog| host(0, 0, backlog).with(&path, connections());
        let unread =
            |before: &RecordedHost, after: &RecordedHost| between(before, after).held[0].unread.clone();
        assert_eq!(unread(&host(0, 0, 0), &after(0)), Fact::Known(1));
        assert_eq!(unread(&host(0, 0, 2), &after(2)), Fact::NotAsked);
        assert_eq!(unread(&host(0, 0, 0), &host(0, 0, 0)), Fact::Unsupported);
    }

    #[test]
    fn what_was_not_asked_and_what_is_hidden() {
        let counters = Counters::take(&host(1, 1, 1), &Inventory::take(&host(1, 1, 1), Scope::Counters));
        assert_eq!(counters.sockets, Fact::NotAsked, "trials do not pay for it");
        let hidden = host(1, 1, 1).with_failure("proc/70/fd", Cause::Denied);
        let seen = look(&hidden);
        assert_eq!(held(&hidden, 70, &seen, &seen, 2.0), Fact::Denied(Need::SysPtrace));
    }
}
