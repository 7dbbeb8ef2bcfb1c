//! `ETHTOOL_MSG_RSS_GET`, `ETHTOOL_GRSSH`, `ETHTOOL_GRXRINGS` and `ETHTOOL_GRXFH`: RSS tables, keys, functions and
//! hashed fields.

use super::{HashFields, Rss, field, field32, hex, only};
use crate::parse::wire::{with_bytes, with_message};
use crate::parse::{Attributes, WireError, attribute, messages, one_message, with_attributes, words};

const A_CONTEXT: u16 = 2;
const A_HFUNC: u16 = 3;
const A_INDIR: u16 = 4;
pub const A_HKEY: u16 = 5;
const A_INPUT_XFRM: u16 = 6;

// `struct ethtool_rxfh`: sizes, the function, then the table and the key.
pub const TABLE_SIZE: usize = 8;
pub const KEY_SIZE: usize = 12;
const FUNCTION: usize = 16;
const INPUT_XFRM: usize = 17;
pub const TABLE: usize = 24;

// `struct ethtool_rxnfc`: the command, the kind of flow, the answer.
pub const RXNFC_FLOW: usize = 4;
pub const RXNFC_DATA: usize = 8;

/// The kinds of flow whose fields are asked: the kernel's number and the name of its rules.
pub const HASHED: [(u32, &str); 4] = [(0x01, "tcp4"), (0x02, "udp4"), (0x05, "tcp6"), (0x06, "udp6")];

/// Names of the kernel's `RXH_*` bits, by position, as in Documentation/netlink/specs/ethtool.yaml.
const HASH_FIELDS: [(u32, &str); 10] = [
    (1, "l2da"),
    (2, "vlan"),
    (3, "l3-proto"),
    (4, "ip-src"),
    (5, "ip-dst"),
    (6, "l4-b-0-1"),
    (7, "l4-b-2-3"),
    (8, "gtp-teid"),
    (9, "ip6-fl"),
    (31, "discard"),
];

/// Names of the kernel's `ETH_RSS_HASH_*` bits.
const FUNCTIONS: [(u32, &str); 3] = [(1, "toeplitz"), (2, "xor"), (4, "crc32")];
/// Names of the kernel's `RXH_XFRM_*` bits.
const TRANSFORMS: [(u32, &str); 2] = [(1, "symmetric-xor"), (2, "symmetric-or-xor")];

/// The default table of one interface, from netlink.
pub fn rss(answer: &[u8]) -> Result<Rss, WireError> {
    one(only(answer)?)
}

/// All tables in an answer to a dump.
pub fn rss_contexts(answer: &[u8]) -> Result<Vec<Rss>, WireError> {
    messages(answer)?.into_iter().map(one).collect()
}

fn one(message: &[u8]) -> Result<Rss, WireError> {
    let message = Attributes::parse(message)?;
    Ok(Rss {
        // The default table has no number.
        context: message.number32(A_CONTEXT)?.unwrap_or(0),
        table: table(message.get(A_INDIR).unwrap_or_default())?,
        key: key(message.get(A_HKEY).unwrap_or_default()),
        function: message.number32(A_HFUNC)?.and_then(|bits| named(&FUNCTIONS, bits)),
        transform: message.number32(A_INPUT_XFRM)?.and_then(|bits| named(&TRANSFORMS, bits)),
    })
}

/// The default table of one interface, from the ioctl.
pub fn rss_ioctl(answer: &[u8]) -> Result<Rss, WireError> {
    let rss = only(answer)?;
    let cut = || WireError::new(format!("{} bytes are too short for the table and the key", rss.len()));
    let rest = rss.get(TABLE..).ok_or_else(cut)?;
    let length = (field32(rss, TABLE_SIZE)? as usize).saturating_mul(4);
    let (indirection, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    let hash_key = rest.get(..field32(rss, KEY_SIZE)? as usize).ok_or_else(cut)?;
    Ok(Rss {
        context: 0,
        table: table(indirection)?,
        key: key(hash_key),
        // `rest` begins after it.
        function: named(&FUNCTIONS, u32::from(rss[FUNCTION])),
        transform: named(&TRANSFORMS, u32::from(rss[INPUT_XFRM])),
    })
}

/// Number of queues the driver spreads over by default.
pub fn rx_rings(answer: &[u8]) -> Result<u32, WireError> {
    let rings = u64::from_ne_bytes(field(only(answer)?, RXNFC_DATA)?);
    u32::try_from(rings).map_err(|_| WireError::new(format!("{rings} receive rings")))
}

/// The fields that the device hashes, one message for each kind of flow.
pub fn hash_fields(answer: &[u8]) -> Result<Vec<HashFields>, WireError> {
    messages(answer)?.into_iter().map(fields_of_kind).collect()
}

fn fields_of_kind(rxnfc: &[u8]) -> Result<HashFields, WireError> {
    let (flow, bits) = (field32(rxnfc, RXNFC_FLOW)?, u64::from_ne_bytes(field(rxnfc, RXNFC_DATA)?));
    let kind = HASHED.iter().find(|(number, _)| *number == flow);
    let (_, kind) = kind.ok_or_else(|| WireError::new(format!("hash fields of flow {flow}")))?;
    let name = |bit: u32| HASH_FIELDS.iter().find(|(at, _)| *at == bit).map(|(_, name)| (*name).to_owned());
    let fields = set_bits(bits).map(|bit| name(bit).unwrap_or_else(|| format!("unknown({bit})"))).collect();
    Ok(HashFields { kind: (*kind).to_owned(), fields })
}

/// The letters that ethtool(8) has for hash fields (`rx-flow-hash`), by position of the kernel's `RXH_*` bits.
const LETTERS: [(u32, char); 9] =
    [(1, 'm'), (2, 'v'), (3, 't'), (4, 's'), (5, 'd'), (6, 'f'), (7, 'n'), (8, 'e'), (31, 'r')];

/// Hash fields, by the kernel's names, as letters of ethtool(8); `none` for none, `None` if a field has no letter.
pub fn hash_letters(fields: &[String]) -> Option<String> {
    let bit = |name: &String| HASH_FIELDS.iter().find(|(_, known)| known == name).map(|(at, _)| 1u64 << at);
    let bits: Option<Vec<u64>> = fields.iter().map(bit).collect();
    hash_letters_of_bits(bits?.into_iter().fold(0, |all, bit| all | bit))
}

/// The kernel's `RXH_*` bits as letters of ethtool(8).
pub fn hash_letters_of_bits(bits: u64) -> Option<String> {
    let letter = |bit: u32| LETTERS.iter().find(|(at, _)| *at == bit).map(|(_, letter)| *letter);
    let letters: String = set_bits(bits).map(letter).collect::<Option<_>>()?;
    Some(if letters.is_empty() { "none".to_owned() } else { letters })
}

/// The kernel's `RXH_*` bits of letters of ethtool(8), or of `none`; `None` for an unknown letter.
pub fn hash_letters_of(letters: &str) -> Option<u64> {
    if letters == "none" {
        return Some(0);
    }
    let bit = |letter| LETTERS.iter().find(|(_, known)| *known == letter).map(|(at, _)| 1u64 << at);
    let bits: Option<Vec<u64>> = letters.chars().map(bit).collect();
    bits.filter(|bits| !bits.is_empty()).map(|bits| bits.into_iter().fold(0, |all, bit| all | bit))
}

/// The kernel's number of a kind of flow.
pub fn flow_number(kind: &str) -> Option<u32> {
    HASHED.iter().find(|(_, name)| *name == kind).map(|(number, _)| *number)
}

/// The answer with other fields for one kind of flow.
pub fn with_fields(answer: &[u8], kind: &str, fields: u64) -> Result<Vec<u8>, WireError> {
    with_message(answer, |message| {
        if fields_of_kind(message)?.kind == kind {
            with_bytes(message, RXNFC_DATA, &fields.to_ne_bytes()).map(Some)
        } else {
            Ok(None)
        }
    })
}

/// The answer of netlink or of the ioctl (`by_ioctl`) with another key of the same length.
pub fn with_key(answer: &[u8], key: &[u8], by_ioctl: bool) -> Result<Vec<u8>, WireError> {
    if !by_ioctl {
        return with_attributes(answer, &attribute(A_HKEY, key));
    }
    let start = TABLE + 4 * rss_ioctl(answer)?.table.len();
    with_bytes(only(answer)?, start, key).map(|message| one_message(&message))
}

/// The answer of netlink or of the ioctl (`by_ioctl`) with another transformation of the hash's input.
pub fn with_transform(answer: &[u8], bits: u8, by_ioctl: bool) -> Result<Vec<u8>, WireError> {
    if !by_ioctl {
        return with_attributes(answer, &attribute(A_INPUT_XFRM, u32::from(bits).to_ne_bytes()));
    }
    rss_ioctl(answer)?;
    with_bytes(only(answer)?, INPUT_XFRM, &[bits]).map(|message| one_message(&message))
}

/// The answer of netlink with another table, or of the ioctl (`by_ioctl`) with another one of the same length.
pub fn with_table(answer: &[u8], queues: &[u32], by_ioctl: bool) -> Result<Vec<u8>, WireError> {
    if !by_ioctl {
        return with_attributes(answer, &attribute(A_INDIR, words(queues)));
    }
    let length = rss_ioctl(answer)?.table.len();
    if length != queues.len() {
        return Err(WireError::new(format!("{} entries for a table of {length}", queues.len())));
    }
    with_bytes(only(answer)?, TABLE, &words(queues)).map(|message| one_message(&message))
}

/// The answer to a dump with this table for a context, added if missing; `None` removes the
/// context.
pub fn with_context(answer: &[u8], id: u32, queues: Option<&[u32]>) -> Result<Vec<u8>, WireError> {
    let mut after = Vec::new();
    let mut set = queues;
    for message in messages(answer)? {
        let context = one_message(message);
        if one(message)?.context != id {
            after.extend(context);
        } else if let Some(queues) = set.take() {
            after.extend(with_table(&context, queues, false)?);
        }
    }
    if let Some(queues) = set {
        let context = attribute(A_CONTEXT, id.to_ne_bytes());
        after.extend(one_message(&[context, attribute(A_INDIR, words(queues))].concat()));
    }
    Ok(after)
}

fn table(bytes: &[u8]) -> Result<Vec<u32>, WireError> {
    match bytes.as_chunks() {
        (queues, []) => Ok(queues.iter().map(|queue| u32::from_ne_bytes(*queue)).collect()),
        _ => Err(WireError::new(format!("an RSS table of {} bytes", bytes.len()))),
    }
}

fn key(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| hex(bytes))
}

/// The name of one of the kernel's bits, of which `names` has those known; `None` if none is set.
fn named(names: &[(u32, &str)], bits: u32) -> Option<String> {
    let known = names.iter().find(|(known, _)| *known == bits).map(|(_, name)| (*name).to_owned());
    (bits != 0).then(|| known.unwrap_or_else(|| format!("unknown({bits})")))
}

/// Positions of the bits that are set, ascending.
fn set_bits(bits: u64) -> impl Iterator<Item = u32> {
    (0..u64::BITS).filter(move |bit| bits & (1 << bit) != 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{
        A_CONTEXT, A_HFUNC, A_HKEY, A_INDIR, A_INPUT_XFRM, hash_fields, rss, rss_contexts, rss_ioctl,
        rx_rings, with_context, with_fields, with_key, with_table, with_transform,
    };
    use crate::parse::ethtool::{HashFields, Rss};
    use crate::parse::wire::testing::answer;
    use crate::parse::{attribute, one_message, words};

    /// A device without RSS, which nevertheless has a hash function. The fields that go into the hash
    /// (attribute 8) are cut off here.
    #[test]
    fn a_captured_answer() {
        let eth0 = "1800018008000100040000000900020065746830000000000800030001000000";
        let function = Some("toeplitz".to_owned());
        assert_eq!(rss(&answer(&[eth0])), Ok(Rss { function, ..Rss::default() }));
    }

    /// Composed: no available machine has RSS contexts.
    #[test]
    fn further_contexts() {
        let message = |(context, queues): (u32, [u32; 2])| {
            let attributes = [
                attribute(A_CONTEXT, context.to_ne_bytes()),
                attribute(A_HFUNC, 2u32.to_ne_bytes()),
                attribute(A_INDIR, words(&queues)),
                attribute(A_HKEY, [0x6d, 0x5a, 0x01]),
                attribute(A_INPUT_XFRM, 1u32.to_ne_bytes()),
            ];
            one_message(&attributes.concat())
        };
        let answer = [(1, [4, 5]), (7, [6, 6])].map(message).concat();
        let contexts = rss_contexts(&answer).expect("valid");
        assert_eq!(contexts.iter().map(|rss| rss.context).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(
            (contexts[0].table.as_slice(), contexts[1].weights()),
            ([4, 5].as_slice(), [(6, 2)].into())
        );
        assert_eq!(contexts[0].key.as_deref(), Some("6d5a01"));
        assert_eq!(contexts[0].function.as_deref(), Some("xor"));
        assert_eq!(contexts[0].transform.as_deref(), Some("symmetric-xor"));
        assert!(rss(&answer).is_err(), "two tables where one was asked for");
        assert_eq!(rss_contexts(&[]), Ok(vec![]));
    }

    /// Composed: no recorded machine has an RSS table.
    #[test]
    fn by_ioctl() {
        let mut rxfh = words(&[0x46, 0, 4, 2, 1, 0]);
        rxfh.extend(words(&[0, 1, 0, 1]));
        rxfh.extend([0xab, 0xcd]);
        let parsed = |rxfh: &[u8]| rss_ioctl(&one_message(rxfh));
        let expected = Rss {
            context: 0,
            table: vec![0, 1, 0, 1],
            key: Some("abcd".to_owned()),
            function: Some("toeplitz".to_owned()),
            transform: Some("symmetric-or-xor".to_owned()),
        };
        rxfh[17] = 2;
        assert_eq!(parsed(&rxfh), Ok(expected));
        assert!(parsed(&rxfh[..41]).is_err(), "half a key");
        rxfh[8..12].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(parsed(&rxfh).is_err(), "a table larger than the answer");
    }

    /// Composed, like the two above.
    #[test]
    fn what_is_set_is_read() {
        let function = attribute(A_HFUNC, 1u32.to_ne_bytes());
        let netlink = one_message(&[function, attribute(A_INDIR, words(&[0, 1, 0, 1]))].concat());
        let before = rss(&netlink).expect("valid");
        let after = rss(&with_table(&netlink, &[2, 2, 3, 3], false).expect("valid")).expect("valid");
        assert_eq!(after, Rss { table: vec![2, 2, 3, 3], ..before });

        let ioctl = one_message(&[words(&[0x46, 0, 2, 0, 1, 0]), words(&[0, 1])].concat());
        let after = with_table(&ioctl, &[5, 6], true).expect("as long");
        assert_eq!(rss_ioctl(&after).expect("valid").table, [5, 6]);
        assert!(with_table(&ioctl, &[5], true).is_err());

        let two = with_context(&[], 1, Some(&[0, 1])).expect("valid");
        let two = with_context(&two, 3, Some(&[2, 3])).expect("valid");
        let two = with_context(&two, 1, Some(&[4, 5])).expect("valid");
        let tables = |answer: &[u8]| {
            rss_contexts(answer)
                .expect("valid")
                .into_iter()
                .map(|rss| (rss.context, rss.table))
                .collect::<Vec<_>>()
        };
        assert_eq!(tables(&two), [(1, vec![4, 5]), (3, vec![2, 3])]);
        assert_eq!(tables(&with_context(&two, 1, None).expect("valid")), [(3, vec![2, 3])]);
    }

    #[test]
    fn rings_to_spread_over() {
        let mut rxnfc = vec![0; 192];
        rxnfc[8] = 12;
        assert_eq!(rx_rings(&one_message(&rxnfc)), Ok(12));
        rxnfc[15] = 1;
        assert!(rx_rings(&one_message(&rxnfc)).is_err(), "more than there can be");
    }

    #[test]
    fn fields_by_kind_of_flow() {
        let answer = |flow: u32, bits: u64| {
            let mut rxnfc = vec![0; 192];
            rxnfc[4..8].copy_from_slice(&flow.to_ne_bytes());
            rxnfc[8..16].copy_from_slice(&bits.to_ne_bytes());
            one_message(&rxnfc)
        };
        let of = |kind: &str, fields: &[&str]| HashFields {
            kind: kind.to_owned(),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        };
        let both = [answer(1, 0xf0), answer(6, 1 << 31 | 1 << 40)].concat();
        let ports = of("tcp4", &["ip-src", "ip-dst", "l4-b-0-1", "l4-b-2-3"]);
        let other = of("udp6", &["discard", "unknown(40)"]);
        assert_eq!(hash_fields(&both), Ok(vec![ports, other.clone()]));
        let after = with_fields(&both, "tcp4", 0x30).expect("it is there");
        assert_eq!(hash_fields(&after), Ok(vec![of("tcp4", &["ip-src", "ip-dst"]), other]));
        assert!(hash_fields(&answer(3, 0)).is_err(), "a kind that was not asked");
    }

    proptest! {
        #[test]
        fn any_table_and_key_are_read_as_they_are_set(
            table in proptest::collection::vec(any::<u32>(), 1..20), key in proptest::collection::vec(any::<u8>(), 4..5), xor: bool,
        ) {
            let length = table.len() as u32;
            let netlink = one_message(&attribute(A_INDIR, words(&[0])));
            let ioctl = one_message(&[words(&[0x46, 0, length, 4, 1, 0]), vec![0; 4 * table.len() + 4]].concat());
            let transform = if xor { 1 } else { 2 };
            for (answer, by_ioctl, read) in [(netlink, false, rss as fn(&[u8]) -> _), (ioctl, true, rss_ioctl)] {
                let before = read(&answer).expect("valid");
                let with_table = with_table(&answer, &table, by_ioctl).expect("as long");
                prop_assert_eq!(read(&with_table), Ok(Rss { table: table.clone(), ..before.clone() }));
                let with_key = with_key(&with_table, &key, by_ioctl).expect("as long");
                let after = with_transform(&with_key, transform, by_ioctl).expect("valid");
                let transform = Some(if xor { "symmetric-xor" } else { "symmetric-or-xor" }.to_owned());
                prop_assert_eq!(read(&after), Ok(Rss { table: table.clone(), key: super::key(&key), transform, ..before }));
            }
        }
    }
}
