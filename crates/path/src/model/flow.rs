//! Flows: the packets that one remote end sends to one local end.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

use super::Transport;
use rxlab_base::serde_as_text;

/// One flow of received packets: their source is the remote end, their destination the local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Flow {
    /// The protocol above IP.
    pub transport: Transport,
    /// Destination of received packets.
    pub local: SocketAddr,
    /// Source of received packets, with the same kind of address.
    pub remote: SocketAddr,
}

/// A text that is not a flow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlowError {
    /// The text has more or fewer than three words.
    #[error("`{0}` is not a flow: write 'tcp LOCAL:PORT REMOTE:PORT'")]
    Words(String),
    /// Neither tcp nor udp.
    #[error("unknown transport `{0}` (known: tcp, udp)")]
    Transport(String),
    /// Not an address and a port.
    #[error("the {end} end `{text}` is not ADDRESS:PORT, such as 10.0.0.1:443 or [2001:db8::1]:443")]
    End {
        /// Which end: `local` or `remote`.
        end: &'static str,
        /// The text of the end.
        text: String,
    },
    /// An end is 0.0.0.0 or `::`, which is no host.
    #[error("the {end} end {address} is not the address of one host")]
    NotOne {
        /// Which end: `local` or `remote`.
        end: &'static str,
        /// The unspecified address.
        address: IpAddr,
    },
    /// One end is IPv4 and the other one IPv6.
    #[error("the ends have different kinds of address: {local} and {remote}")]
    Families {
        /// The address of the local end.
        local: IpAddr,
        /// The address of the remote end.
        remote: IpAddr,
    },
}

impl Flow {
    /// The kernel's name for packets of this kind: `tcp4`, `udp4`, `tcp6` or `udp6`.
    pub fn kind(&self) -> &'static str {
        match (self.transport, self.local.is_ipv4()) {
            (Transport::Tcp, true) => "tcp4",
            (Transport::Udp, true) => "udp4",
            (Transport::Tcp, false) => "tcp6",
            (Transport::Udp, false) => "udp6",
        }
    }

    /// A flow rule of the kind `kind` that compares everything that the flow determines; `None` if its packets are
    /// of another kind.
    pub(super) fn as_rule(&self, kind: &str) -> Option<String> {
        let (source, destination) = (self.remote.port(), self.local.port());
        let fields = match (kind, self.local.is_ipv4()) {
            _ if kind == self.kind() => format!("src-port {source} dst-port {destination}"),
            ("ip4", true) | ("ip6", false) => {
                let protocol = match self.transport {
                    Transport::Tcp => 6,
                    Transport::Udp => 17,
                };
                format!("l4data 0x{source:04x}{destination:04x} l4proto {protocol}")
            }
            _ => return None,
        };
        let (source, destination) = (self.remote.ip(), self.local.ip());
        Some(format!("{kind} src-ip {source} dst-ip {destination} {fields} action 0"))
    }
}

impl FromStr for Flow {
    type Err = FlowError;

    fn from_str(text: &str) -> Result<Self, FlowError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [transport, local, remote] = words[..] else {
            return Err(FlowError::Words(words.join(" ")));
        };
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            other => return Err(FlowError::Transport(other.to_owned())),
        };
        let (local, remote) = (end("local", local)?, end("remote", remote)?);
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(FlowError::Families { local: local.ip(), remote: remote.ip() });
        }
        Ok(Self { transport, local, remote })
    }
}

/// A socket of both families shows the IPv4 addresses of its packets as `::ffff:10.0.0.1`.
fn end(end: &'static str, text: &str) -> Result<SocketAddr, FlowError> {
    let mut address: SocketAddr = text.parse().map_err(|_| FlowError::End { end, text: text.to_owned() })?;
    if let canonical @ IpAddr::V4(_) = address.ip().to_canonical() {
        address.set_ip(canonical);
    }
    if address.ip().is_unspecified() {
        return Err(FlowError::NotOne { end, address: address.ip() });
    }
    Ok(address)
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.transport, self.local, self.remote)
    }
}

serde_as_text!(Flow);

#[cfg(test)]
mod tests {
    use super::Flow;

    #[test]
    fn a_flow_is_a_transport_and_two_ends() {
        for text in ["tcp 10.0.0.1:443 198.51.100.7:50000", "udp [2001:db8::1]:53 [2001:db8::7]:5000"] {
            let flow: Flow = text.parse().expect(text);
            assert_eq!(flow.to_string(), text);
        }
    }

    /// They were hashed as IPv6, which leads to another queue.
    #[test]
    fn addresses_of_sockets_of_both_families_are_those_on_the_wire() {
        let plain = "tcp 161.142.100.80:1766 66.9.149.187:2794";
        for text in [
            "tcp [::ffff:161.142.100.80]:1766 [::ffff:66.9.149.187]:2794",
            "tcp 161.142.100.80:1766 [::ffff:66.9.149.187]:2794",
            "tcp [::ffff:161.142.100.80]:1766 66.9.149.187:2794",
        ] {
            let flow: Flow = text.parse().expect(text);
            assert_eq!((flow.to_string().as_str(), flow.kind()), (plain, "tcp4"), "{text}");
        }
        let scoped: Flow = "tcp [fe80::1%2]:1 [fe80::2%2]:2".parse().expect("IPv6");
        assert_eq!(scoped.to_string(), "tcp [fe80::1%2]:1 [fe80::2%2]:2");
        let error = "tcp [::ffff:0.0.0.0]:1 10.0.0.2:2".parse::<Flow>().expect_err("no host").to_string();
        assert_eq!(error, "the local end 0.0.0.0 is not the address of one host");
    }

    #[test]
    fn each_part_has_its_error() {
        for (text, why) in [
            ("tcp 10.0.0.1:443", "`tcp 10.0.0.1:443` is not a flow: write 'tcp LOCAL:PORT REMOTE:PORT'"),
            ("sctp 10.0.0.1:1 10.0.0.2:2", "unknown transport `sctp` (known: tcp, udp)"),
            ("tcp 10.0.0.1 10.0.0.2:2", "the local end `10.0.0.1` is not ADDRESS:PORT"),
            ("tcp 10.0.0.1:1 2001:db8::1:99999", "the remote end `2001:db8::1:99999` is not ADDRESS:PORT"),
            ("tcp 0.0.0.0:1 10.0.0.2:2", "the local end 0.0.0.0 is not the address of one host"),
            ("tcp 10.0.0.1:1 [::1]:2", "the ends have different kinds of address: 10.0.0.1 and ::1"),
        ] {
            let error = text.parse::<Flow>().expect_err(text).to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
