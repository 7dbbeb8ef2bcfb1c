//! Public sockets, and the processes that hold them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::processes::{self, Seen};
use super::read;
use rxlab_base::display_as;
use rxlab_base::parse::{self, Container, NetSocket};
use rxlab_base::units::{CpuMask, Fact};
use rxlab_sys::{Cause, Host, HostError, Query};

/// The transport of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, listening.
    Tcp,
    /// UDP, bound and not connected.
    Udp,
}

display_as! { Transport:
    Tcp => "tcp",
    Udp => "udp",
}

/// The listening sockets of the sampled namespace, and their owners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawListeners {
    /// TCP over IPv4, then IPv6, then UDP; each in the order of the kernel.
    pub sockets: Vec<RawSocket>,
    /// The processes that hold one, by number.
    pub processes: BTreeMap<u32, Process>,
    /// Known if every process of the machine could be asked for its files; otherwise the reason.
    pub all_seen: Fact<()>,
}

/// One listening or unconnected socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSocket {
    /// The kernel's table that it is in.
    pub transport: Transport,
    /// Local address; unspecified for a socket bound to all addresses.
    pub address: IpAddr,
    /// Local port in host byte order.
    pub port: u16,
    /// The processes found to hold it.
    pub owners: Vec<u32>,
}

/// A process that owns listening sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name, truncated by the kernel to 15 bytes.
    pub command: String,
    /// Its control group: the path in the unified hierarchy, or, if that is empty, of the cpuset
    /// controller or of systemd's hierarchy in version 1.
    pub cgroup: Option<String>,
    /// Its systemd unit, such as `nginx.service`.
    pub unit: Option<String>,
    /// Its container.
    pub container: Option<Container>,
    /// CPUs that its main thread may run on (`Cpus_allowed_list`).
    pub allowed: Fact<CpuMask>,
    /// CPUs that its threads last ran on.
    pub ran_on: Fact<CpuMask>,
}

/// Sources for the sockets of one transport and family.
struct Source {
    transport: Transport,
    /// The fallback if there is no answer.
    table: &'static str,
    /// A query for the wanted ones only. TCP's tables also contain every connection, at microseconds each; a
    /// UDP socket is hardly ever a connection.
    query: Option<Query>,
}

const SOURCES: [Source; 4] = [
    Source { transport: Transport::Tcp, table: "proc/net/tcp", query: Some(Query::TcpListeners) },
    Source { transport: Transport::Tcp, table: "proc/net/tcp6", query: Some(Query::Tcp6Listeners) },
    Source { transport: Transport::Udp, table: "proc/net/udp", query: None },
    Source { transport: Transport::Udp, table: "proc/net/udp6", query: None },
];

impl Source {
    fn sockets(&self, host: &dyn Host) -> Fact<Vec<NetSocket>> {
        let ask = |query| read::asked(host, query, parse::listening_sockets);
        match (self.query.as_ref().map_or(Fact::Unsupported, ask), self.transport) {
            // Another root, an older recording, a kernel without sock_diag, or a jail without netlink.
            (Fact::Unsupported | Fact::Denied(_), Transport::Tcp) => {
                read::parsed(host, self.table, parse::tcp_listeners)
            }
            (Fact::Unsupported | Fact::Denied(_), Transport::Udp) => {
                read::parsed(host, self.table, parse::udp_listeners)
            }
            (answered, _) => answered,
        }
    }
}

pub(super) fn take(host: &dyn Host, seen: &Seen) -> Fact<RawListeners> {
    sockets(host).map(|sockets| owned(host, sockets, seen))
}

/// Without IPv6 its tables are missing; without any source nothing is known.
pub(super) fn sockets(host: &dyn Host) -> Fact<Vec<(Transport, NetSocket)>> {
    let (mut sockets, mut known) = (Vec::new(), 0);
    for source in SOURCES {
        match source.sockets(host) {
            Fact::Known(found) => {
                known += 1;
                sockets.extend(found.into_iter().map(|socket| (source.transport, socket)));
            }
            Fact::Unsupported => {}
            absent => return absent.map(|_| sockets),
        }
    }
    if known > 0 { Fact::Known(sockets) } else { Fact::Unsupported }
}

fn owned(host: &dyn Host, sockets: Vec<(Transport, NetSocket)>, seen: &Seen) -> RawListeners {
    let mut owners: BTreeMap<u64, Vec<u32>> = sockets.iter().map(|(_, s)| (s.inode, Vec::new())).collect();
    let mut all_seen = seen.everybody.clone();
    // If nothing listens, files of processes are not read.
    for pid in seen.programs.iter().filter(|_| !sockets.is_empty()) {
        let open = match open_sockets(host, *pid) {
            Ok(open) => open,
            Err(error) => {
                // A process that ended meanwhile owns nothing.
                if error.cause == Cause::Denied {
                    all_seen = read::absence(&error);
                }
                continue;
            }
        };
        for inode in open {
            if let Some(pids) = owners.get_mut(&inode).filter(|pids| pids.last() != Some(pid)) {
                pids.push(*pid);
            }
        }
    }
    let holders = owners.values().flatten().map(|pid| (*pid, process(host, seen, *pid)));
    let processes: BTreeMap<u32, Process> = holders.collect();
    let socket = |(transport, socket): (Transport, NetSocket)| RawSocket {
        transport,
        address: socket.address,
        port: socket.port,
        owners: owners[&socket.inode].clone(),
    };
    RawListeners { sockets: sockets.into_iter().map(socket).collect(), processes, all_seen }
}

/// All sockets that a process has open, by inode.
pub(super) fn open_sockets(host: &dyn Host, pid: u32) -> Result<Vec<u64>, HostError> {
    let files = host.links(&format!("proc/{pid}/fd"))?;
    let inode = |target: &str| target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    Ok(files.iter().filter_map(|(_, target)| inode(target)).collect())
}

fn process(host: &dyn Host, seen: &Seen, pid: u32) -> Process {
    let cgroup = processes::control_group(host, pid).known().cloned();
    Process {
        pid,
        command: seen.command(host, pid).unwrap_or_default(),
        unit: cgroup.as_deref().and_then(parse::unit).map(str::to_owned),
        container: cgroup.as_deref().and_then(parse::container),
        cgroup,
        allowed: read::parsed(host, &format!("proc/{pid}/status"), parse::allowed_cpus),
        ran_on: ran_on(host, pid),
    }
}

fn ran_on(host: &dyn Host, pid: u32) -> Fact<CpuMask> {
    read::list(host, &format!("proc/{pid}/task")).and_then(|threads| {
        let mut cpus = CpuMask::new();
        for thread in threads {
            match read::parsed(host, &format!("proc/{pid}/task/{thread}/stat"), parse::last_cpu) {
                Fact::Known(cpu) => cpus.insert(cpu),
                // It ended meanwhile.
                Fact::Unsupported => {}
                absent => return absent.map(|_| CpuMask::new()),
            }
        }
        Fact::Known(cpus)
    })
}

#[cfg(test)]
mod tests {
    use super::{Transport, take};
    use crate::sample::processes::Seen;
    use crate::sample::processes::tests::seen;
    use rxlab_base::units::{Fact, Need};
    use rxlab_sys::{Cause, Query, RecordedHost};

    fn table(rows: &[(&str, u64)]) -> String {
        let row = |(state, inode): &(&str, u64)| {
            format!(" 0: 00000000:0050 00000000:0000 {state} 0:0 0:0 0 0 0 {inode} 1\n")
        };
        let rows: String = rows.iter().map(row).collect();
        format!("  sl  local_address rem_address st\n{rows}")
    }

    fn host() -> RecordedHost {
        RecordedHost::new()
            .with("proc/net/tcp", table(&[("0A", 11), ("0A", 12), ("01", 13)]))
            .with("proc/net/udp", table(&[("07", 14)]))
            .with_link("proc/70/fd/0", "/dev/null")
            .with_link("proc/70/fd/5", "socket:[11]")
            .with_link("proc/70/fd/6", "socket:[11]")
            .with_link("proc/71/fd/5", "socket:[11]")
            .with_link("proc/71/fd/6", "socket:[13]")
            .with("proc/70/comm", "nginx\n")
            .with("proc/70/status", "Cpus_allowed_list:\t0-3\n")
            .with("proc/70/task/70/stat", format!("70 (nginx) S{} 3 0 0\n", " 0".repeat(35)))
            .with("proc/70/task/72/stat", format!("72 (nginx) S{} 1 0 0\n", " 0".repeat(35)))
    }

    #[test]
    fn sockets_and_who_holds_them() {
        let found = take(&host(), &seen(&[70, 71, 99]));
        let found = found.known().expect("known");
        let shown: Vec<_> =
            found.sockets.iter().map(|s| (s.transport, s.port, s.owners.as_slice())).collect();
        let expected: [(Transport, u16, &[u32]); 3] =
            [(Transport::Tcp, 80, &[70, 71]), (Transport::Tcp, 80, &[]), (Transport::Udp, 80, &[])];
        assert_eq!(shown, expected);
        assert_eq!(found.processes.keys().collect::<Vec<_>>(), [&70, &71]);
        let nginx = &found.processes[&70];
        assert_eq!((nginx.command.as_str(), &nginx.cgroup), ("nginx", &None));
        assert_eq!(nginx.allowed, Fact::Known("0-3".parse().expect("a list")));
        assert_eq!(nginx.ran_on, Fact::Known("1,3".parse().expect("a list")));
        assert_eq!(found.all_seen, Fact::Known(()));
    }

    /// Reading a table of 18,000 connections for its few listeners once took longer than everything else.
    #[test]
    fn the_table_of_connections_is_the_last_resort() {
        let query = Query::TcpListeners.path();
        let seen = |host: &RecordedHost| {
            take(host, &seen(&[]))
                .map(|found| found.sockets.iter().map(|s| (s.transport, s.port)).collect::<Vec<_>>())
        };
        let udp = (Transport::Udp, 80);
        let table = Fact::Known(vec![(Transport::Tcp, 80), (Transport::Tcp, 80), udp]);
        assert_eq!(seen(&host()), table);
        let answered = host().with(&query, []).with("proc/net/tcp", "never read");
        assert_eq!(seen(&answered), Fact::Known(vec![udp]));
        assert_eq!(seen(&host().with_failure(&query, Cause::Denied)), table);
        // A partial answer is invalid, and no reason to try another source.
        let broken = host().with(&query, [72, 0]);
        assert!(matches!(seen(&broken), Fact::Broken(why) if why.contains(&query)));
    }

    #[test]
    fn what_was_not_seen_is_said() {
        let host = host().with_failure("proc/71/fd", Cause::Denied);
        let found = take(&host, &seen(&[70, 71]));
        assert_eq!(found.known().expect("known").all_seen, Fact::Denied(Need::SysPtrace));
        // An invisible process may own any of them.
        let part = Seen { everybody: Fact::Denied(Need::AllProcesses), ..seen(&[70]) };
        let found = take(&self::host(), &part);
        assert_eq!(found.known().expect("known").all_seen, Fact::Denied(Need::AllProcesses));
        assert_eq!(take(&RecordedHost::new(), &seen(&[70])), Fact::Unsupported);
        let broken = host.with("proc/net/tcp6", "x\n");
        assert!(
            matches!(take(&broken, &seen(&[70])), Fact::Broken(why) if why.starts_with("/proc/net/tcp6: "))
        );
    }
}
