//! A server host and a client host joined by a veth pair.

use std::net::Ipv4Addr;

use super::{LabError, Namespace};
use rxlab_base::units::NicName;

#[derive(Debug, Clone)]
pub struct RangeSpec {
    /// Receive and transmit queues of the server's interface.
    pub queues: u32,
    /// Policy routing rules of the server, none of which matches: each packet walks through all of them, as on hosts
    /// with VPNs, several uplinks or containers, and costs as much as with a firewall.
    pub rules: u32,
}

impl Default for RangeSpec {
    fn default() -> Self {
        Self { queues: 1, rules: 0 }
    }
}

/// Two hosts with a cable between them. Packets to the server are received on the sender's CPU
/// unless RPS moves them: a pinned sender makes a one-core hotspot.
#[derive(Debug)]
pub struct Range {
    /// The host whose receive path is under test.
    pub server: Namespace,
    /// The host that sends.
    pub client: Namespace,
}

impl Range {
    /// The server's address. The /24 exists only inside the two namespaces.
    pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
    pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

    /// Builds the range; needs CAP_SYS_ADMIN, CAP_NET_ADMIN and `ip`.
    pub fn build(spec: &RangeSpec) -> Result<Self, LabError> {
        let range = Self { server: Namespace::new()?, client: Namespace::new()? };
        let queues = spec.queues;
        let peer = range.client.path();
        range.server.ip(&format!(
            "link add {server} numrxqueues {queues} numtxqueues {queues} type veth \
             peer name {client} numrxqueues {queues} numtxqueues {queues} netns {peer}",
            server = Self::server_nic(),
            client = Self::CLIENT_NIC,
            peer = peer.display(),
        ))?;
        for (host, nic, address) in
            [(&range.server, Self::SERVER_NIC, Self::SERVER), (&range.client, Self::CLIENT_NIC, Self::CLIENT)]
        {
            host.ip("link set lo up")?;
            host.ip(&format!("address add {address}/24 dev {nic}"))?;
            host.ip(&format!("link set {nic} up"))?;
        }
        if spec.rules > 0 {
            let rule = |number: u32| {
                let (high, low) = (number / 256, number % 256);
                format!("rule add from 198.{}.{low}.0/24 lookup main pref {}\n", 18 + high, 1000 + number)
            };
            range.server.ip_batch(&(0..spec.rules.min(512)).map(rule).collect::<String>())?;
        }
        Ok(range)
    }

    const SERVER_NIC: &'static str = "srv0";
    const CLIENT_NIC: &'static str = "cli0";

    pub fn server_nic() -> NicName {
        Self::SERVER_NIC.parse().expect("a valid interface name")
    }
}
