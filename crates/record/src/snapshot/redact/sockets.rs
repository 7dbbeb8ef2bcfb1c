//! `/proc/net/tcp`, `tcp6`, `udp` and `udp6` with stand-ins, and without connections, which reveal
//! the machine's peers and are never read. `/proc/net/unix` without names, which are never read either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::standin::StandIns;

/// TCP's "listening" and UDP's "not connected" (include/net/tcp_states.h).
const WAITING: [&str; 2] = ["0A", "07"];

/// The table with stand-ins; `None` if a line does not match the format.
pub(super) fn redacted(table: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(table).ok()?;
    let mut lines = text.lines();
    let mut out = format!("{}\n", lines.next()?);
    for line in lines {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [_, local, remote, state, ..] = words.as_mut_slice() else { return None };
        if !WAITING.contains(&state.as_str()) {
            continue;
        }
        *local = endpoint(local, stand_ins)?;
        *remote = endpoint(remote, stand_ins)?;
        out += &format!("  {}\n", words.join(" "));
    }
    Some(out.into_bytes())
}

/// The table of Unix sockets without their names; `None` if a line does not match the format.
pub(super) fn without_names(table: &[u8]) -> Option<Vec<u8>> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().take(7).collect();
        (words.len() == 7).then(|| words.join(" ") + "\n")
    };
    let kept: Option<String> = String::from_utf8_lossy(table).lines().map(line).collect();
    kept.map(String::into_bytes)
}

/// `0100007F:0035` with a stand-in for the address.
fn endpoint(text: &str, stand_ins: &mut StandIns) -> Option<String> {
    let (address, port) = text.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| {
        // The kernel prints each 32-bit word of the address as a number of its own byte order.
        let word = std::str::from_utf8(word).ok().filter(|word| word.len() == 8)?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let bytes = words.collect::<Option<Vec<[u8; 4]>>>()?.concat();
    let address: IpAddr = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
    };
    let stand_in = stand_ins.octets(address);
    let (words, _) = stand_in.as_chunks();
    let words = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    Some(format!("{}:{port}", words.collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::{redacted, without_names};
    use crate::snapshot::redact::standin::StandIns;

    fn clean(text: &str) -> Option<String> {
        redacted(text.as_bytes(), &mut StandIns::default())
            .map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn listeners_stay_and_connections_go() {
        let table = "  sl  local_address rem_address   st\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n   \
            1: 0700000A:0050 00000000:0000 0A 00000000:00000000\n   \
            2: 0700000A:0050 08080808:D431 01 00000000:00000000\n";
        let clean = clean(table).expect("a table");
        assert!(clean.contains("0100007F:1F90"), "{clean}");
        assert!(clean.contains("010012C6:0050"), "198.18.0.1 for 10.0.0.7: {clean}");
        assert!(!clean.contains("0700000A") && !clean.contains("08080808"), "{clean}");
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn six_and_mapped_four() {
        let line = |address: &str| format!("head\n 0: {address}:0050 {}:0000 0A 0\n", "0".repeat(32));
        let any = clean(&line(&"0".repeat(32))).expect("a table");
        assert!(any.contains(&format!("{}:0050", "0".repeat(32))));
        let mapped = clean(&line("0000000000000000FFFF00000700000A")).expect("a table");
        assert!(mapped.contains("0000000000000000FFFF0000010012C6:0050"), "{mapped}");
    }

    #[test]
    fn names_of_unix_sockets_go() {
        let head = "Num RefCount Protocol Flags Type St Inode";
        let row = "00000000fce5ebc5: 00000002 00000000 00010000 0001 01 1164";
        let table =
            format!("{head} Path\n{row} /run/user/of user\n{row}\n").replace("of user", "of\u{ff}user");
        // Any user can bind one to such a path.
        let latin_1: Vec<u8> = table.chars().map(|letter| u8::try_from(letter).expect("Latin-1")).collect();
        let clean = without_names(&latin_1);
        assert_eq!(clean, Some(format!("{head}\n{row}\n{row}\n").into_bytes()));
        assert_eq!(
            without_names(format!("{head}\n{row} /a\nsecret\n").as_bytes()),
            None,
            "a name of two lines"
        );
    }

    #[test]
    fn what_is_no_table_is_not_kept() {
        assert_eq!(clean("head\n 0: zz:0050 0:0 0A\n"), None);
        assert_eq!(clean(""), None);
    }
}
