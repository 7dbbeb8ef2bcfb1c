//! Random flows, and one packet of each, from any address to any address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rxlab_path::model::{Flow, Transport};
use rxlab_simulation::Random;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Flows of all four kinds, always the same. Their addresses are those of hosts, and none belongs to an interface here.
pub(crate) fn random_flows(count: usize) -> Vec<Flow> {
    let mut random = Random::new(20);
    (0..count).map(|_| random_flow(&mut random)).collect()
}

fn random_flow(random: &mut Random) -> Flow {
    let transport = random.pick(&[Transport::Tcp, Transport::Udp]);
    let is_ipv4 = random.percent(50);
    let mut end = || {
        let mut bits = || random.below(u32::MAX);
        let address = if is_ipv4 {
            IpAddr::from(Ipv4Addr::from((bits() & 0x00ff_ffff) | 0xac00_0000))
        } else {
            let [a, b, c, d] = [bits() & 0x1fff_ffff | 0x2000_0000, bits(), bits(), bits()].map(u128::from);
            IpAddr::from(Ipv6Addr::from(a << 96 | b << 64 | c << 32 | d))
        };
        let port = u16::try_from(1 + random.below(u32::from(u16::MAX))).expect("16 bits");
        SocketAddr::new(address, port)
    };
    Flow { transport, local: end(), remote: end() }
}

/// Sends packets with any source, by the routes of the network namespace of the thread that makes it.
pub(crate) struct Sender {
    ipv4: Socket,
    ipv6: Socket,
}

impl Sender {
    pub(crate) fn new() -> Self {
        // IPPROTO_RAW: what is sent includes the header (raw(7)).
        let raw = |domain| Socket::new(domain, Type::RAW, Some(Protocol::from(255))).expect("root");
        Self { ipv4: raw(Domain::IPV4), ipv6: raw(Domain::IPV6) }
    }

    /// Sends the first packet of a flow: a SYN, or an empty datagram.
    pub(crate) fn send(&self, flow: &Flow) {
        let socket = if flow.local.is_ipv4() { &self.ipv4 } else { &self.ipv6 };
        let to = SockAddr::from(SocketAddr::new(flow.local.ip(), 0));
        socket.send_to(&packet(flow), &to).expect("sent");
    }
}

/// The kernel fills in the length and the checksum of an IPv4 header; the other checksums are not used.
fn packet(flow: &Flow) -> Vec<u8> {
    let ports = [flow.remote, flow.local].map(|end| end.port().to_be_bytes()).concat();
    let (protocol, rest): (u8, &[u8]) = match flow.transport {
        Transport::Tcp => (6, &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]),
        Transport::Udp => (17, &[0, 8, 0, 0]),
    };
    let length = u8::try_from(ports.len() + rest.len()).expect("a short packet");
    let (begin, addresses) = match (flow.remote.ip(), flow.local.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => (
            vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0],
            [source.octets(), destination.octets()].concat(),
        ),
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            (vec![0x60, 0, 0, 0, 0, length, protocol, 64], [source.octets(), destination.octets()].concat())
        }
        _ => unreachable!("both ends have the same kind of address"),
    };
    [&begin[..], &addresses, &ports, rest].concat()
}
