//! Answers of the running kernel: the socket for each query, and its encoding.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use super::ethtool;
use super::netlink::{Extent, Netlink};
use super::netns::inside;
use super::socket::netns_cookie;
use super::{Action, Query, irqbalance, scheduler};
use rxlab_base::parse::links::IFINFOMSG;
use rxlab_base::parse::qdiscs::TCMSG;
use rxlab_base::parse::sock_diag::INET_DIAG_SKMEMINFO;
use rxlab_base::parse::{attribute, indexed_link_request, link_request, napi_request};

// Commands and attributes of include/uapi/linux/netdev.h.
const NETDEV_CMD_QUEUE_GET: u8 = 10;
const NETDEV_CMD_NAPI_GET: u8 = 11;
const NETDEV_CMD_QSTATS_GET: u8 = 12;
const NETDEV_CMD_NAPI_SET: u8 = 14;
const NETDEV_A_QSTATS_SCOPE: u16 = 4;
const NETDEV_QSTATS_SCOPE_QUEUE: u32 = 1;

// Requests of include/uapi/linux/rtnetlink.h and if_link.h, and the length of a fixed header.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_GETQDISC: u16 = 38;
const IFLA_EXT_MASK: u16 = 29;
const RTEXT_FILTER_SKIP_STATS: u32 = 8;
const RTM_GETNSID: u16 = 90;
const RTGENMSG: usize = 4;
const NETNSA_PID: u16 = 2;

// The request of include/uapi/linux/sock_diag.h and inet_diag.h, and the length of an empty struct
// inet_diag_sockid: any address.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_SOCKID: usize = 48;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u32 = 1;
const TCP_CLOSE_WAIT: u32 = 8;
const TCP_LISTEN: u32 = 10;
/// States in which there can be something to read.
const CONNECTED: [u32; 2] = [TCP_ESTABLISHED, TCP_CLOSE_WAIT];

/// The running kernel, in one network namespace. Its sockets are opened with the first query.
#[derive(Debug)]
pub(super) struct Kernel {
    // `None`: our own.
    namespace: Option<Arc<OwnedFd>>,
    // Cookie of that namespace, if the kernel has cookies.
    cookie: Option<u64>,
    netlink: OnceLock<Result<Netlink, Errno>>,
}

impl Kernel {
    pub(super) fn new(namespace: Option<Arc<OwnedFd>>, cookie: Option<u64>) -> Self {
        Self { namespace, cookie, netlink: OnceLock::new() }
    }

    /// `index` stands for the interface that the query names.
    pub(super) fn query(&self, query: &Query, index: Option<u32>) -> Result<Vec<u8>, Errno> {
        match query {
            Query::Queues => self.netdev(NETDEV_CMD_QUEUE_GET, &[]),
            Query::Napis => self.netdev(NETDEV_CMD_NAPI_GET, &[]),
            Query::QueueStats => {
                let scope = attribute(NETDEV_A_QSTATS_SCOPE, NETDEV_QSTATS_SCOPE_QUEUE.to_ne_bytes());
                self.netdev(NETDEV_CMD_QSTATS_GET, &scope)
            }
            Query::Links => {
                let mask = attribute(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
                let request = [vec![0; IFINFOMSG], mask].concat();
                self.netlink()?.route(RTM_GETLINK, &request, Extent::Dump)
            }
            Query::Qdiscs => self.netlink()?.route(RTM_GETQDISC, &[0; TCMSG], Extent::Dump),
            Query::NamespaceId { pid } => {
                let request = [vec![0; RTGENMSG], attribute(NETNSA_PID, pid.to_ne_bytes())].concat();
                self.netlink()?.route(RTM_GETNSID, &request, Extent::One)
            }
            // Some drivers answer EINVAL to an unknown query; a query for a value
            // has nothing in it that could be invalid.
            Query::Ethtool(get, nic) => match ethtool::query(self.netlink()?, *get, (nic, index)) {
                Err(Errno::INVAL) => Err(Errno::OPNOTSUPP),
                answer => answer,
            },
            Query::TcpListeners => self.tcp_sockets(AF_INET, &[TCP_LISTEN], 0),
            Query::Tcp6Listeners => self.tcp_sockets(AF_INET6, &[TCP_LISTEN], 0),
            Query::TcpConnections { port } => self.tcp_sockets(AF_INET, &CONNECTED, *port),
            Query::Tcp6Connections { port } => self.tcp_sockets(AF_INET6, &CONNECTED, *port),
            Query::IrqbalanceSetup { pid } => irqbalance::setup(*pid),
            Query::ThreadAttributes { pid } => scheduler::attributes(*pid),
        }
    }

    /// `index` stands for the interface that the action names.
    pub(super) fn act(&self, action: &Action, index: Option<u32>) -> Result<(), Errno> {
        match action {
            Action::Ethtool { get, nic, attributes } => {
                ethtool::set(self.netlink()?, *get, (nic, index), attributes)
            }
            Action::EthtoolIoctl { nic, change } => ethtool::change(self.netlink()?, (nic, index), change),
            Action::Link { nic, attributes } => {
                let request = match index {
                    Some(index) => indexed_link_request(index, attributes),
                    None => link_request(nic, attributes),
                };
                self.netlink()?.route(RTM_NEWLINK, &request, Extent::Change).map(drop)
            }
            Action::Napi { id, attributes } => {
                let request = napi_request(*id, attributes);
                let netlink = self.netlink()?;
                netlink.generic("netdev", NETDEV_CMD_NAPI_SET, &request, Extent::Change).map(drop)
            }
            Action::ThreadCpus { tid, cpus, .. } => scheduler::set_cpus(*tid, cpus),
            Action::ThreadPolicy { pid, scheduling } => scheduler::set_policy(*pid, scheduling),
            Action::IrqbalanceBan { pid, irqs } => irqbalance::ban(*pid, irqs),
            // Commands do not go to the kernel: the host runs them.
            Action::Shell { .. } => Err(Errno::OPNOTSUPP),
        }
    }

    fn netdev(&self, command: u8, attributes: &[u8]) -> Result<Vec<u8>, Errno> {
        self.netlink()?.generic("netdev", command, attributes, Extent::Dump)
    }

    /// Sockets of these states; `port` 0 is any.
    fn tcp_sockets(&self, family: u8, states: &[u32], port: u16) -> Result<Vec<u8>, Errno> {
        // struct inet_diag_req_v2: family, protocol, a bit for each requested attribute, padding; a bit for
        // each state; struct inet_diag_sockid, which begins with the local port.
        let wanted = 1u8 << (INET_DIAG_SKMEMINFO - 1);
        let states = states.iter().fold(0u32, |bits, state| bits | 1 << state).to_ne_bytes();
        let mut socket = [0; INET_DIAG_SOCKID];
        socket[..2].copy_from_slice(&port.to_be_bytes());
        let request = [[family, IPPROTO_TCP, wanted, 0].as_slice(), &states, &socket].concat();
        self.netlink()?.diagnose(SOCK_DIAG_BY_FAMILY, &request, Extent::Dump)
    }

    fn netlink(&self) -> Result<&Netlink, Errno> {
        // A netlink socket permanently belongs to the namespace of the thread that opens it.
        let open = || match &self.namespace {
            // The machine was opened by a thread of another namespace.
            None if self.cookie.is_some() && netns_cookie() != self.cookie => Err(Errno::XDEV),
            None => Netlink::open(),
            Some(file) => inside(Path::new("/proc/self/ns/net"), file, Netlink::open)
                .unwrap_or_else(|error| Err(error.errno())),
        };
        self.netlink.get_or_init(open).as_ref().map_err(|errno| *errno)
    }
}
