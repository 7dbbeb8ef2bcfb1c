//! Listening and connected TCP sockets: answers to `SOCK_DIAG_BY_FAMILY`, requested for these states.
//!
//! Each message is a `struct inet_diag_msg` and attributes, one of which is read; numbers are those of
//! include/uapi/linux/inet_diag.h. Addresses and ports are in network byte order, the rest is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Attributes, NetSocket, WireError, messages};

// struct inet_diag_msg: family, state, timer, retransmits; struct inet_diag_sockid: local port, peer's port,
// local address, peer's address, interface, cookie; expiry, two queues, user, inode.
pub const INET_DIAG_MSG: usize = 72;
const PORT_AT: usize = 4;
pub const ADDRESS_AT: usize = 8;
const QUEUED_AT: usize = 56;
/// Of a listening socket, its most connections to accept (`idiag_wqueue`, tcp_diag_get_info()).
const LIMIT_AT: usize = 60;
const INODE_AT: usize = 68;

/// The attribute with the memory of a socket, 32-bit numbers, and the position of its drops among them
/// (`SK_MEMINFO_DROPS` of include/uapi/linux/sock_diag.h, since 4.7).
pub const INET_DIAG_SKMEMINFO: u16 = 7;
const DROPS_AT: usize = 8 * 4;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// TCP states of include/net/tcp_states.h.
const TCP_LISTEN: u8 = 10;
const TCP_ESTABLISHED: u8 = 1;
/// The peer has closed its side.
const TCP_CLOSE_WAIT: u8 = 8;

/// The sockets of an answer, in its order. A socket in another state is an error: none was requested.
pub fn listening_sockets(answer: &[u8]) -> Result<Vec<NetSocket>, WireError> {
    messages(answer)?.into_iter().map(|message| one(message, &[TCP_LISTEN])).collect()
}

/// The same for connections.
pub fn connected_sockets(answer: &[u8]) -> Result<Vec<NetSocket>, WireError> {
    messages(answer)?.into_iter().map(|message| one(message, &[TCP_ESTABLISHED, TCP_CLOSE_WAIT])).collect()
}

fn one(message: &[u8], wanted: &[u8]) -> Result<NetSocket, WireError> {
    let (fixed, attributes) = message
        .split_at_checked(INET_DIAG_MSG)
        .ok_or_else(|| WireError::new("a socket without its fixed part"))?;
    let memory = Attributes::parse(attributes)?.get(INET_DIAG_SKMEMINFO);
    let drops = memory.and_then(|memory| memory.get(DROPS_AT..)?.first_chunk());
    let [family, state] = [fixed[0], fixed[1]];
    if !wanted.contains(&state) {
        return Err(WireError::new(format!("a socket of state {state}, which was not requested")));
    }
    let address: IpAddr = match family {
        AF_INET => Ipv4Addr::from(bytes::<4>(fixed, ADDRESS_AT)).into(),
        AF_INET6 => Ipv6Addr::from(bytes::<16>(fixed, ADDRESS_AT)).into(),
        other => return Err(WireError::new(format!("a socket of address family {other}"))),
    };
    let inode = u32::from_ne_bytes(bytes(fixed, INODE_AT));
    let port = u16::from_be_bytes(bytes(fixed, PORT_AT));
    Ok(NetSocket {
        address,
        port,
        inode: inode.into(),
        queued: u32::from_ne_bytes(bytes(fixed, QUEUED_AT)).into(),
        limit: (state == TCP_LISTEN).then(|| u32::from_ne_bytes(bytes(fixed, LIMIT_AT)).into()),
        dropped: drops.map_or(0, |drops| u32::from_ne_bytes(*drops).into()),
    })
}

/// A field of the fixed part.
fn bytes<const N: usize>(fixed: &[u8], at: usize) -> [u8; N] {
    *fixed[at..].first_chunk().expect("every field lies within the fixed part")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{
        ADDRESS_AT, AF_INET, AF_INET6, INET_DIAG_MSG, INET_DIAG_SKMEMINFO, INODE_AT, LIMIT_AT, PORT_AT,
        QUEUED_AT, TCP_ESTABLISHED, TCP_LISTEN, connected_sockets, listening_sockets,
    };
    use crate::parse::wire::testing::answer;
    use crate::parse::{NetSocket, attribute, one_message};

    // From Linux 6.18: sshd's socket, and two listeners on loopback.
    #[cfg(target_endian = "little")]
    const FOUR: [&str; 2] = [
        "020a000007e8000000000000000000000000000000000000000000000000000000000000000000000000000001000000000000000000000000000000800000000000000089000000050008000000000008000f00000000000c00150001000000000000000600160052000000",
        "020a000046a000007f000001000000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000800000000000000078980300050008000000000008000f00000000000c00150001000000000000000600160052000000",
    ];
    #[cfg(target_endian = "little")]
    const SIX: [&str; 1] = [
        "0a0a000046a1000000000000000000000000000000000001000000000000000000000000000000000000000003000000000000000000000000000000800000000000000079980300050008000000000005000b000100000008000f00000000000c00150001000000000000000600160012000000",
    ];

    fn socket(address: &str, port: u16, inode: u64) -> NetSocket {
        let address = address.parse().expect("an address");
        NetSocket { address, port, inode, queued: 0, limit: Some(128), dropped: 0 }
    }

    // The captured bytes are from a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn captured_bytes() {
        let four = vec![socket("0.0.0.0", 2024, 137), socket("127.0.0.1", 18080, 235_640)];
        assert_eq!(listening_sockets(&answer(&FOUR)), Ok(four));
        assert_eq!(listening_sockets(&answer(&SIX)), Ok(vec![socket("::1", 18081, 235_641)]));
        assert_eq!(listening_sockets(&[]), Ok(vec![]));
    }

    fn message(socket: &NetSocket) -> Vec<u8> {
        let (family, address) = match socket.address {
            IpAddr::V4(four) => (AF_INET, four.octets().to_vec()),
            IpAddr::V6(six) => (AF_INET6, six.octets().to_vec()),
        };
        let mut bytes = vec![0; INET_DIAG_MSG];
        bytes[..2].copy_from_slice(&[family, TCP_LISTEN]);
        bytes[PORT_AT..PORT_AT + 2].copy_from_slice(&socket.port.to_be_bytes());
        bytes[ADDRESS_AT..ADDRESS_AT + address.len()].copy_from_slice(&address);
        let inode = u32::try_from(socket.inode).expect("32 bits");
        bytes[INODE_AT..INODE_AT + 4].copy_from_slice(&inode.to_ne_bytes());
        let queued = u32::try_from(socket.queued).expect("32 bits");
        bytes[QUEUED_AT..QUEUED_AT + 4].copy_from_slice(&queued.to_ne_bytes());
        let limit = u32::try_from(socket.limit.expect("listening")).expect("32 bits");
        bytes[LIMIT_AT..LIMIT_AT + 4].copy_from_slice(&limit.to_ne_bytes());
        bytes.extend(attribute(8, [0]));
        let mut memory = [0; 9];
        memory[8] = u32::try_from(socket.dropped).expect("32 bits");
        bytes.extend(attribute(INET_DIAG_SKMEMINFO, memory.map(u32::to_ne_bytes).concat()));
        bytes
    }

    /// Before 4.7 the memory of a socket has no drops.
    #[test]
    fn drops_may_not_be_told() {
        let mut bytes = message(&NetSocket { dropped: 7, ..socket("10.0.0.7", 80, 11) });
        assert_eq!(listening_sockets(&one_message(&bytes)).expect("one")[0].dropped, 7);
        bytes.truncate(bytes.len() - 4 - 9 * 4);
        bytes.extend(attribute(INET_DIAG_SKMEMINFO, [0; 8 * 4]));
        assert_eq!(listening_sockets(&one_message(&bytes)).expect("one")[0].dropped, 0);
    }

    #[test]
    fn connections_are_no_listeners() {
        let waiting = NetSocket { queued: 900, ..socket("10.0.0.7", 80, 11) };
        let mut bytes = message(&waiting);
        assert!(connected_sockets(&one_message(&bytes)).is_err());
        bytes[1] = TCP_ESTABLISHED;
        assert_eq!(connected_sockets(&one_message(&bytes)), Ok(vec![NetSocket { limit: None, ..waiting }]));
    }

    #[test]
    fn what_was_not_asked_for_is_an_error() {
        let good = message(&socket("10.0.0.7", 80, 11));
        assert!(listening_sockets(&one_message(&good)).is_ok());
        let with = |at: usize, value: u8| {
            let mut bad = good.clone();
            bad[at] = value;
            bad
        };
        let cut = |end: usize| good[..end].to_vec();
        // Another family, an established connection, no whole fixed part, half an attribute.
        for bad in [with(0, 1), with(1, 1), cut(INET_DIAG_MSG - 1), cut(INET_DIAG_MSG + 3)] {
            assert!(listening_sockets(&one_message(&bad)).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            address in any::<IpAddr>(),
            port in any::<u16>(),
            [inode, queued, limit, dropped] in any::<[u32; 4]>(),
        ) {
            let (queued, limit, dropped) = (queued.into(), Some(limit.into()), dropped.into());
            let socket = NetSocket { address, port, inode: inode.into(), queued, limit, dropped };
            prop_assert_eq!(listening_sockets(&one_message(&message(&socket))), Ok(vec![socket]));
        }
    }
}
