//! Questions to the kernel over a socket instead of a file.

use rxlab_base::units::NicName;

/// One query. Its answer is a sequence of messages (see [`rxlab_base::parse::messages`]).
///
/// In recordings, and below any root but `/`, an answer is a file: [`Query::path`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// Every queue of every interface and the NAPI that polls it: netdev `queue-get` (since 6.8).
    Queues,
    /// Every NAPI, its interrupt and its thread if reported by the driver: netdev `napi-get` (since 6.8).
    Napis,
    /// Packets by queue: netdev `qstats-get` (since 6.9).
    QueueStats,
    /// Driver information of an interface: one ethtool command.
    Ethtool(EthtoolGet, NicName),
    /// Every interface with its kind, its master and its peer: rtnetlink `RTM_GETLINK`.
    Links,
    /// Every queueing discipline with its statistics, other than those that a driver or the kernel has without one:
    /// rtnetlink `RTM_GETQDISC`.
    Qdiscs,
    /// The number of a process's namespace in ours: rtnetlink `RTM_GETNSID`.
    NamespaceId { pid: u32 },
    /// Listening TCP sockets over IPv4: sock_diag, which like `ss` loads its kernel module if it has one.
    /// Unlike `/proc/net/tcp` it does not walk the connections, of which a busy machine has 100,000s.
    TcpListeners,
    /// The same over IPv6.
    Tcp6Listeners,
    /// The connections that end at a port of this machine, over IPv4: sock_diag, which walks all connections
    /// for that, but reports only those.
    TcpConnections { port: u16 },
    /// The same over IPv6.
    Tcp6Connections { port: u16 },
    /// Interrupts that irqbalance does not manage: its socket's `setup`.
    IrqbalanceSetup { pid: u32 },
    /// Flags and slice of a thread, 8 bytes each: sched_getattr(2). No message.
    ThreadAttributes { pid: u32 },
}

/// A command of ethtool, by generic netlink where it has one, else by ioctl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EthtoolGet {
    /// Numbers of queues, and their maximums (netlink since 5.7).
    Channels,
    /// Ring sizes, and their maximums (netlink since 5.7).
    Rings,
    /// Interrupt moderation (netlink since 5.7).
    Coalesce,
    /// Offloads (netlink since 5.7).
    Features,
    /// The default RSS table, hash key and function (netlink since 6.2).
    Rss,
    /// RSS by ioctl, for kernels before 6.2.
    RssIoctl,
    /// All further RSS contexts (netlink dump since 6.12).
    RssContexts,
    /// Driver, firmware and bus (ioctl; netlink has no such message).
    Driver,
    /// Names of the driver's own statistics (ioctl).
    StatNames,
    /// Values of the driver's own statistics (ioctl).
    Stats,
    /// The flow rules, "ntuple" (ioctl).
    Rules,
    /// Number of the flow rules, and whether the driver chooses their slots (ioctl).
    RuleSlots,
    /// Number of queues the default RSS table spreads over (ioctl).
    RxRings,
    /// Header fields that the default RSS hash covers, for TCP and UDP (ioctl).
    HashFields,
    /// Interrupt moderation of each queue (ioctl).
    QueueCoalesce,
}

impl EthtoolGet {
    /// Folder and file name of its answer in a recording.
    fn path(self) -> &'static str {
        match self {
            EthtoolGet::Channels => "netlink/ethtool/channels-get",
            EthtoolGet::Rings => "netlink/ethtool/rings-get",
            EthtoolGet::Coalesce => "netlink/ethtool/coalesce-get",
            EthtoolGet::Features => "netlink/ethtool/features-get",
            EthtoolGet::Rss => "netlink/ethtool/rss-get",
            EthtoolGet::RssContexts => "netlink/ethtool/rss-contexts-get",
            EthtoolGet::RssIoctl => "ioctl/ethtool/grssh",
            EthtoolGet::Driver => "ioctl/ethtool/gdrvinfo",
            EthtoolGet::StatNames => "ioctl/ethtool/gstrings",
            EthtoolGet::Stats => "ioctl/ethtool/gstats",
            EthtoolGet::Rules => "ioctl/ethtool/grxclsrlall",
            EthtoolGet::RuleSlots => "ioctl/ethtool/grxclsrlcnt",
            EthtoolGet::RxRings => "ioctl/ethtool/grxrings",
            EthtoolGet::HashFields => "ioctl/ethtool/grxfh",
            EthtoolGet::QueueCoalesce => "ioctl/ethtool/perqueue",
        }
    }
}

/// The values that an answer has, in words, by its [`Query::path`]; `None` for the path of a file.
pub fn values_in_words(path: &str) -> Option<String> {
    let (folder, last) = path.rsplit_once('/')?;
    let option = match folder {
        "netlink/ethtool/channels-get" => "-l",
        "netlink/ethtool/rings-get" => "-g",
        "netlink/ethtool/coalesce-get" => "-c",
        "netlink/ethtool/features-get" => "-k",
        "netlink/ethtool/rss-get" | "netlink/ethtool/rss-contexts-get" => "-x",
        "ioctl/ethtool/grssh" | "ioctl/ethtool/grxrings" => "-x",
        "ioctl/ethtool/gdrvinfo" => "-i",
        "ioctl/ethtool/gstrings" | "ioctl/ethtool/gstats" => "-S",
        "ioctl/ethtool/grxclsrlall" | "ioctl/ethtool/grxclsrlcnt" | "ioctl/ethtool/grxfh" => "-n",
        "ioctl/ethtool/perqueue" => "-Q",
        "netlink/netdev" if last == "napi-get" => return Some("settings of NAPIs".to_owned()),
        "netlink/netdev" => return Some("data of queues".to_owned()),
        "netlink/route" | "netlink/route/nsid-get" => return Some("settings of interfaces".to_owned()),
        "netlink/sock_diag" | "netlink/sock_diag/tcp-connections" | "netlink/sock_diag/tcp6-connections" => {
            return Some("sockets".to_owned());
        }
        "syscall/sched_getattr" => return Some("scheduling of a thread".to_owned()),
        _ if folder.starts_with("socket/irqbalance/") => return Some("settings of irqbalance".to_owned()),
        _ => return None,
    };
    Some(format!("values of `ethtool {option} {last}`"))
}

impl Query {
    /// Path of the answer in a recording, also used in errors.
    pub fn path(&self) -> String {
        match self {
            Query::Queues => "netlink/netdev/queue-get".to_owned(),
            Query::Napis => "netlink/netdev/napi-get".to_owned(),
            Query::QueueStats => "netlink/netdev/qstats-get".to_owned(),
            Query::Ethtool(get, nic) => format!("{}/{nic}", get.path()),
            Query::Links => "netlink/route/link-get".to_owned(),
            Query::Qdiscs => "netlink/route/qdisc-get".to_owned(),
            Query::NamespaceId { pid } => format!("netlink/route/nsid-get/{pid}"),
            Query::TcpListeners => "netlink/sock_diag/tcp-listeners".to_owned(),
            Query::Tcp6Listeners => "netlink/sock_diag/tcp6-listeners".to_owned(),
            Query::TcpConnections { port } => format!("netlink/sock_diag/tcp-connections/{port}"),
            Query::Tcp6Connections { port } => format!("netlink/sock_diag/tcp6-connections/{port}"),
            Query::IrqbalanceSetup { pid } => format!("socket/irqbalance/{pid}/setup"),
            Query::ThreadAttributes { pid } => format!("syscall/sched_getattr/{pid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, Query, values_in_words};

    #[test]
    fn no_answer_is_called_a_file() {
        let ethtool = [
            EthtoolGet::Channels,
            EthtoolGet::Rings,
            EthtoolGet::Coalesce,
            EthtoolGet::Features,
            EthtoolGet::Rss,
            EthtoolGet::RssIoctl,
            EthtoolGet::RssContexts,
            EthtoolGet::Driver,
            EthtoolGet::StatNames,
            EthtoolGet::Stats,
            EthtoolGet::Rules,
            EthtoolGet::RuleSlots,
            EthtoolGet::RxRings,
            EthtoolGet::HashFields,
            EthtoolGet::QueueCoalesce,
        ]
        .map(|get| Query::Ethtool(get, "eth0".parse().expect("a name")));
        let others = [
            Query::Queues,
            Query::Napis,
            Query::QueueStats,
            Query::Links,
            Query::Qdiscs,
            Query::NamespaceId { pid: 7 },
            Query::TcpListeners,
            Query::Tcp6Listeners,
            Query::TcpConnections { port: 80 },
            Query::Tcp6Connections { port: 80 },
            Query::IrqbalanceSetup { pid: 7 },
            Query::ThreadAttributes { pid: 7 },
        ];
        for query in ethtool.iter().chain(&others) {
            assert!(values_in_words(&query.path()).is_some(), "{query:?}");
        }
        assert_eq!(values_in_words(&ethtool[5].path()).as_deref(), Some("values of `ethtool -x eth0`"));
        assert_eq!(values_in_words("proc/irq/24/smp_affinity"), None);
    }
}
