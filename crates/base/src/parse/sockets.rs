//! `/proc/net/tcp`, `tcp6`, `udp` and `udp6`: sockets that accept packets from any peer; `/proc/net/unix`:
//! sockets that receive no packets.
//!
//! Addresses are printed as 32-bit words in the byte order of the machine; ports are not
//! (`get_tcp4_sock()` in net/ipv4/tcp_ipv4.c, `ip6_dgram_sock_seq_show()` in net/ipv6/datagram.c).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::ParseError;

/// A socket that accepts packets from any peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetSocket {
    pub address: IpAddr,
    pub port: u16,
    /// Its inode: N of the `socket:[N]` that `/proc/PID/fd` shows for its owners.
    pub inode: u64,
    /// Queue of its owner: connections to accept for a listening TCP socket, else bytes to read.
    pub queued: u64,
    /// Connections that may wait to be accepted; `None` for UDP, and in `/proc/net/tcp`.
    pub limit: Option<u64>,
    /// Packets and connections it had no room for since it was created; 0 if not reported.
    pub dropped: u64,
}

// States by include/net/tcp_states.h. A UDP socket is "closed" until it is connected to one peer.
const LISTEN: &str = "0A";
const CLOSE: &str = "07";

/// The TCP sockets that listen.
pub fn tcp_listeners(text: &str) -> Result<Vec<NetSocket>, ParseError> {
    sockets(text, LISTEN)
}

/// The UDP sockets that are bound and not connected.
pub fn udp_listeners(text: &str) -> Result<Vec<NetSocket>, ParseError> {
    sockets(text, CLOSE)
}

/// The inodes of the Unix sockets (`unix_seq_show()` in net/unix/af_unix.c). Their names may hold anything.
pub fn unix_sockets(text: &str) -> Result<BTreeSet<u64>, ParseError> {
    if !text.lines().next().unwrap_or_default().contains("Inode") {
        return Err(ParseError::at(1, "expected a header with Inode"));
    }
    let inode = |(number, line): (usize, &str)| {
        // After slot, references, protocol, flags, type and state.
        let word = line.split_ascii_whitespace().nth(6);
        super::counter(number, word.ok_or_else(|| ParseError::at(number, "no inode"))?)
    };
    (1..).zip(text.lines()).skip(1).map(inode).collect()
}

fn sockets(text: &str, state: &str) -> Result<Vec<NetSocket>, ParseError> {
    let head = text.lines().next().unwrap_or_default();
    if !head.contains("local_address") {
        return Err(ParseError::at(1, "expected a header with local_address"));
    }
    let rows = (1..).zip(text.lines()).skip(1);
    rows.filter_map(|(number, line)| row(number, line, state).transpose()).collect()
}

fn row(number: usize, line: &str, wanted: &str) -> Result<Option<NetSocket>, ParseError> {
    let mut words = line.split_ascii_whitespace();
    let mut column = |name: &str| words.next().ok_or_else(|| ParseError::at(number, format!("no {name}")));
    let slot = column("slot")?;
    if !slot.strip_suffix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit())) {
        return Err(ParseError::at(number, format!("`{slot}` is not a slot")));
    }
    let local = column("local address")?;
    column("remote address")?;
    let state = column("state")?;
    if hexadecimal(state, 2).is_none() {
        return Err(ParseError::at(number, format!("`{state}` is not a state")));
    }
    if state != wanted {
        return Ok(None);
    }
    let queues = column("queues")?;
    let queued = queues.split_once(':').and_then(|(_, unread)| u64::from_str_radix(unread, 16).ok());
    let queued =
        queued.ok_or_else(|| ParseError::at(number, format!("`{queues}` is not a pair of queues")))?;
    for name in ["timer", "retransmits", "user", "timeout"] {
        column(name)?;
    }
    let inode = super::counter(number, column("inode")?)?;
    // After the inode: references, a pointer, then drops for UDP and something else for TCP.
    let drops = words.nth(2).filter(|_| wanted == CLOSE);
    let dropped = drops.map_or(Ok(0), |drops| super::counter(number, drops))?;
    let place = endpoint(local);
    let (address, port) =
        place.ok_or_else(|| ParseError::at(number, format!("`{local}` is not an address and a port")))?;
    Ok(Some(NetSocket { address, port, inode, queued, limit: None, dropped }))
}

fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::try_from(hexadecimal(port, 4)?).ok()?;
    let word = |at: usize| Some(hexadecimal(address.get(at * 8..at * 8 + 8)?, 8)?.to_ne_bytes());
    match address.len() {
        8 => Some((Ipv4Addr::from(word(0)?).into(), port)),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?);
            }
            Some((Ipv6Addr::from(bytes).into(), port))
        }
        _ => None,
    }
}

fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let valid = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u32::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{NetSocket, tcp_listeners, udp_listeners, unix_sockets};

    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 81234 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 81299 1 0000000000000000 20 4 0 10 -1
";
    const UDP6: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
 1361: 000080FE00000000FF005450B6AD1DFE:0222 00000000000000000000000000000000:0000 07 00000000:00034000 00:00000000 00000000   998        0 6123 2 0000000000000000 17
";

    // The captured text is from a little-endian machine.
    #[cfg(target_endian = "little")]
    #[test]
    fn captured_text() {
        let address: IpAddr = "127.0.0.1".parse().expect("an address");
        assert_eq!(
            tcp_listeners(TCP),
            Ok(vec![NetSocket { address, port: 8080, inode: 81234, queued: 3, limit: None, dropped: 0 }])
        );
        let address: IpAddr = "fe80::5054:ff:fe1d:adb6".parse().expect("an address");
        assert_eq!(
            udp_listeners(UDP6),
            Ok(vec![NetSocket {
                address,
                port: 546,
                inode: 6123,
                queued: 0x34000,
                limit: None,
                dropped: 17
            }])
        );
    }

    #[test]
    fn other_states_and_an_empty_table_are_no_listeners() {
        assert_eq!(udp_listeners(TCP), Ok(vec![]));
        assert_eq!(tcp_listeners(TCP.lines().next().expect("a header")), Ok(vec![]));
    }

    #[test]
    fn unix_sockets_with_and_without_a_name() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path
00000000c2fc81e3: 00000003 00000000 00000000 0001 03 2706076
00000000fce5ebc5: 00000002 00000000 00010000 0001 01  1164 /run/systemd/journal/stdout of a b
";
        assert_eq!(unix_sockets(text), Ok([1164, 2_706_076].into()));
        assert_eq!(unix_sockets("x\n").expect_err("no header").line, 1);
        assert_eq!(unix_sockets(&text.replace(" 2706076", "")).expect_err("no inode").line, 2);
        assert_eq!(unix_sockets(&text.replace("1164", "x")).expect_err("no number").line, 3);
    }

    #[test]
    fn bad_rows_are_named() {
        assert_eq!(tcp_listeners("").expect_err("no header").line, 1);
        for (from, to) in [
            ("0100007F:1F90 0000", "0100007:1F90 0000"),
            ("81234", "x"),
            ("0A", "A"),
            ("0:", "0"),
            (":00000003", ":x"),
        ] {
            let text = TCP.replacen(from, to, 1);
            assert_eq!(tcp_listeners(&text).expect_err(from).line, 2, "{text}");
        }
    }

    fn printed(address: IpAddr) -> String {
        let bytes = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let words = bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")));
        words.map(|word| format!("{word:08X}")).collect()
    }

    proptest! {
        #[test]
        fn round_trip(
            address in any::<IpAddr>(),
            port in any::<u16>(),
            inode in any::<u64>(),
            queued in any::<u32>(),
        ) {
            let text = format!(
                "  sl  local_address rem_address st\n 0: {}:{port:04X} 0:0 0A 0:{queued:08X} 0:0 0 0 0 {inode} 1\n",
                printed(address)
            );
            let queued = queued.into();
            prop_assert_eq!(tcp_listeners(&text), Ok(vec![NetSocket { address, port, inode, queued, limit: None, dropped: 0 }]));
        }
    }
}
