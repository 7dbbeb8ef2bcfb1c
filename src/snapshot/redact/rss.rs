//! RSS without the hash key, which would allow aiming all flows at one queue.

use crate::parse::ethtool::rss::{A_HKEY, KEY_SIZE, TABLE, TABLE_SIZE};
use crate::parse::{Attributes, attribute, messages, push_message};

/// An answer of netlink without the key; `None` if it does not match the format.
pub(super) fn without_key(answer: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        let attributes = Attributes::parse(message).ok()?;
        let kept = attributes.iter().filter(|(kind, _)| *kind != A_HKEY);
        let kept: Vec<u8> = kept.flat_map(|(kind, value)| attribute(kind, value)).collect();
        push_message(&mut out, &kept);
    }
    Some(out)
}

/// An answer of the ioctl without the key, as from a driver that does not report it.
pub(super) fn ioctl_without_key(answer: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        let entries = u32::from_ne_bytes(*message.get(TABLE_SIZE..)?.first_chunk()?) as usize;
        let mut kept = message.get(..TABLE.checked_add(entries.checked_mul(4)?)?)?.to_vec();
        kept[KEY_SIZE..KEY_SIZE + 4].fill(0);
        push_message(&mut out, &kept);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{ioctl_without_key, without_key};
    use crate::parse::{attribute, ethtool, one_message};

    #[test]
    fn the_key_goes_and_the_table_stays() {
        let table = [attribute(3, 1u32.to_ne_bytes()), attribute(4, 7u32.to_ne_bytes())].concat();
        let whole = one_message(&[table, attribute(5, [9; 40])].concat());
        assert!(ethtool::rss(&whole).expect("valid").key.is_some());
        let clean = ethtool::rss(&without_key(&whole).expect("understood")).expect("valid");
        assert_eq!((clean.table, clean.key, clean.function), (vec![7], None, Some("toeplitz".into())));
    }

    #[test]
    fn the_same_for_the_ioctl() {
        let mut rxfh = vec![0; 24];
        rxfh[8..12].copy_from_slice(&2u32.to_ne_bytes());
        rxfh[12..16].copy_from_slice(&3u32.to_ne_bytes());
        rxfh.extend([1, 0, 0, 0, 5, 0, 0, 0, 0xAA, 0xBB, 0xCC]);
        let whole = one_message(&rxfh);
        assert_eq!(ethtool::rss_ioctl(&whole).expect("valid").key.as_deref(), Some("aabbcc"));
        let clean = ethtool::rss_ioctl(&ioctl_without_key(&whole).expect("understood")).expect("valid");
        assert_eq!((clean.table.len(), clean.key), (2, None));
        assert_eq!(ioctl_without_key(&one_message(&rxfh[..26])), None);
    }
}
