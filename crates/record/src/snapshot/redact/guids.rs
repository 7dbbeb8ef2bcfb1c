//! GUIDs in paths and texts. Hyper-V names a NIC by one, which on some clouds is its MAC address written
//! three times.

use std::collections::BTreeMap;

/// Length of a GUID in text: 32 hexadecimal digits and 4 dashes.
const LENGTH: usize = 36;
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// Stand-in of each GUID.
#[derive(Debug, Default)]
pub(super) struct Guids {
    given: BTreeMap<[u8; LENGTH], usize>,
}

impl Guids {
    /// The bytes with every GUID replaced by one of the same length.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        let mut at = 0;
        while let Some(found) = out.get(at..).and_then(<[u8]>::first_chunk::<LENGTH>).copied() {
            if is_guid(&found) && !continues(&out, at) {
                let next = self.given.len() + 1;
                let number = *self.given.entry(found).or_insert(next);
                out[at..at + LENGTH].copy_from_slice(stand_in(number).as_bytes());
                at += LENGTH;
            } else {
                at += 1;
            }
        }
        out
    }

    pub(super) fn text(&mut self, text: &str) -> String {
        // ASCII bytes were replaced by ASCII bytes.
        String::from_utf8(self.bytes(text.as_bytes())).expect("still text")
    }
}

fn stand_in(number: usize) -> String {
    format!("00000000-0000-4000-8000-{:012x}", number & 0xffff_ffff_ffff)
}

fn is_guid(bytes: &[u8; LENGTH]) -> bool {
    (0..)
        .zip(bytes)
        .all(|(at, byte)| if DASHES.contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// True if the 36 bytes at `at` are a part of something longer.
fn continues(bytes: &[u8], at: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    word(at.checked_sub(1).and_then(|before| bytes.get(before))) || word(bytes.get(at + LENGTH))
}

#[cfg(test)]
mod tests {
    use super::Guids;

    #[test]
    fn every_guid_and_nothing_else() {
        let mut guids = Guids::default();
        let path = "VMBUS:00/000d3af6-e0a5-000d-3af6-e0a5000d3af6/net/eth0";
        assert_eq!(guids.text(path), "VMBUS:00/00000000-0000-4000-8000-000000000001/net/eth0");
        assert_eq!(guids.text(path), "VMBUS:00/00000000-0000-4000-8000-000000000001/net/eth0");
        let two = "473d721b-2896-4eb5-a890-2cb48c991713 473d721b-2896-4eb5-a890-2cb48c991714";
        assert!(guids.text(two).ends_with("000000000002 00000000-0000-4000-8000-000000000003"));
        for other in ["0000:00:03.0", "x000d3af6-e0a5-000d-3af6-e0a5000d3af6", "é", ""] {
            assert_eq!(guids.text(other), other);
        }
    }
}
