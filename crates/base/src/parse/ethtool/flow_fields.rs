//! Fields that a flow rule compares: `struct ethtool_rx_flow_spec`, by kind of packet.
//!
//! A rule has a value and a mask for each field; bits set in the mask are compared, and a field whose
//! mask is 0 is not compared at all.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{FlowSpec, hex};

/// Up to the ring cookie.
pub(super) type Spec = [u8; 148];

/// Offset of the values of the kind's own fields, and of those of the fields that all kinds have.
pub(super) const VALUE: usize = 4;
pub(super) const VALUE_EXT: usize = 56;
/// Distance from a value to its mask.
pub const MASK: usize = 72;

pub(super) const FLOW_EXT: u32 = 0x8000_0000;
pub(super) const FLOW_MAC_EXT: u32 = 0x4000_0000;
const FLAGS: u32 = FLOW_EXT | FLOW_MAC_EXT | 0x2000_0000;

/// Format of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Ip4,
    Ip6,
    Mac,
    /// A big-endian number of this number of bytes.
    Decimal(usize),
    Hex(usize),
}

impl Form {
    /// Length of the field in bytes.
    pub(super) fn length(self) -> usize {
        match self {
            Form::Ip4 => 4,
            Form::Ip6 => 16,
            Form::Mac => 6,
            Form::Decimal(length) | Form::Hex(length) => length,
        }
    }
}

/// A field: its name for `ethtool -N`, its offset, its format.
pub(super) type Field = (&'static str, usize, Form);

const TCP4: &[Field] = &[
    ("src-ip", 0, Form::Ip4),
    ("dst-ip", 4, Form::Ip4),
    ("src-port", 8, Form::Decimal(2)),
    ("dst-port", 10, Form::Decimal(2)),
    ("tos", 12, Form::Decimal(1)),
];
const ESP4: &[Field] = &[
    ("src-ip", 0, Form::Ip4),
    ("dst-ip", 4, Form::Ip4),
    ("spi", 8, Form::Hex(4)),
    ("tos", 12, Form::Decimal(1)),
];
const IP4: &[Field] = &[
    ("src-ip", 0, Form::Ip4),
    ("dst-ip", 4, Form::Ip4),
    ("l4data", 8, Form::Hex(4)),
    ("tos", 12, Form::Decimal(1)),
    ("l4proto", 14, Form::Decimal(1)),
];
const TCP6: &[Field] = &[
    ("src-ip", 0, Form::Ip6),
    ("dst-ip", 16, Form::Ip6),
    ("src-port", 32, Form::Decimal(2)),
    ("dst-port", 34, Form::Decimal(2)),
    ("tclass", 36, Form::Decimal(1)),
];
const ESP6: &[Field] = &[
    ("src-ip", 0, Form::Ip6),
    ("dst-ip", 16, Form::Ip6),
    ("spi", 32, Form::Hex(4)),
    ("tclass", 36, Form::Decimal(1)),
];
const IP6: &[Field] = &[
    ("src-ip", 0, Form::Ip6),
    ("dst-ip", 16, Form::Ip6),
    ("l4data", 32, Form::Hex(4)),
    ("tclass", 36, Form::Decimal(1)),
    ("l4proto", 37, Form::Decimal(1)),
];
const ETHER: &[Field] = &[("dst", 0, Form::Mac), ("src", 6, Form::Mac), ("proto", 12, Form::Hex(2))];

/// With `FLOW_MAC_EXT` and with `FLOW_EXT`.
pub(super) const MAC_EXT: &[Field] = &[("dst-mac", 2, Form::Mac)];
pub(super) const EXT: &[Field] =
    &[("vlan-etype", 8, Form::Hex(2)), ("vlan", 10, Form::Decimal(2)), ("user-def", 12, Form::Hex(8))];

pub(super) const KINDS: [(u32, &str, &[Field]); 13] = [
    (0x01, "tcp4", TCP4),
    (0x02, "udp4", TCP4),
    (0x03, "sctp4", TCP4),
    (0x05, "tcp6", TCP6),
    (0x06, "udp6", TCP6),
    (0x07, "sctp6", TCP6),
    (0x09, "ah4", ESP4),
    (0x0a, "esp4", ESP4),
    (0x0b, "ah6", ESP6),
    (0x0c, "esp6", ESP6),
    (0x0d, "ip4", IP4),
    (0x0e, "ip6", IP6),
    (0x12, "ether", ETHER),
];

/// The match of a rule.
pub(super) fn spec(bytes: &Spec) -> FlowSpec {
    let kind = u32::from_ne_bytes(*bytes.first_chunk().expect("four of 148 bytes"));
    let (flags, number) = (kind & FLAGS, kind & !FLAGS);
    let known = KINDS.iter().find(|(known, ..)| *known == number);
    let (kind, own) = match known {
        Some((_, name, fields)) => ((*name).to_owned(), *fields),
        None => (format!("unknown({number})"), [].as_slice()),
    };
    let mac = if flags & FLOW_MAC_EXT == 0 { [].as_slice() } else { MAC_EXT };
    let ext = if flags & FLOW_EXT == 0 { [].as_slice() } else { EXT };
    let own = own.iter().map(|field| (VALUE, field));
    let all = own.chain(mac.iter().chain(ext).map(|field| (VALUE_EXT, field)));
    FlowSpec { kind, fields: all.filter_map(|(base, field)| written(bytes, base, field)).collect() }
}

/// Offsets and lengths of the addresses in a rule of this kind, counted from the start of its [`Spec`]: 4 and
/// 16 bytes for IP, 6 for MAC, including those that its flags exclude from the comparison. `None` for unknown
/// kinds.
pub fn addresses(kind: u32) -> Option<impl Iterator<Item = (usize, usize)>> {
    let (.., own) = KINDS.iter().find(|(known, ..)| *known == kind & !FLAGS)?;
    let all = own.iter().map(|field| (VALUE, field)).chain(MAC_EXT.iter().map(|field| (VALUE_EXT, field)));
    Some(all.filter_map(|(base, (_, at, form))| match form {
        Form::Ip4 | Form::Ip6 | Form::Mac => Some((base + at, form.length())),
        Form::Decimal(_) | Form::Hex(_) => None,
    }))
}

/// `name value` or `name value/mask`; `None` for a field that is not compared.
fn written(bytes: &Spec, base: usize, (name, at, form): &Field) -> Option<String> {
    let length = form.length();
    let part = |start: usize| &bytes[start..start + length];
    let (value, mask) = (part(base + at), part(base + at + MASK));
    if mask.iter().all(|byte| *byte == 0) {
        return None;
    }
    let value_text = text(*form, value);
    if mask.iter().all(|byte| *byte == 0xff) {
        return Some(format!("{name} {value_text}"));
    }
    let mask_text = match form {
        Form::Ip4 | Form::Ip6 => prefix(mask).map_or_else(|| text(*form, mask), |bits| bits.to_string()),
        Form::Mac => text(*form, mask),
        Form::Decimal(length) | Form::Hex(length) => text(Form::Hex(*length), mask),
    };
    Some(format!("{name} {value_text}/{mask_text}"))
}

/// Number of leading bits of a mask that consists of leading bits only.
fn prefix(mask: &[u8]) -> Option<u32> {
    let ones: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let leading: u32 = mask.iter().take_while(|byte| **byte == 0xff).map(|_| 8).sum();
    let next = mask.iter().find(|byte| **byte != 0xff).map_or(0, |byte| byte.leading_ones());
    (leading + next == ones).then_some(ones)
}

fn text(form: Form, bytes: &[u8]) -> String {
    match (form, bytes) {
        (Form::Ip4, [a, b, c, d]) => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        (Form::Decimal(_), _) => {
            bytes.iter().fold(0u64, |number, byte| (number << 8) | u64::from(*byte)).to_string()
        }
        (Form::Mac, _) => {
            let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            parts.join(":")
        }
        (Form::Ip6, _) if let Some(address) = bytes.first_chunk::<16>() => {
            Ipv6Addr::from(*address).to_string()
        }
        _ => format!("0x{}", hex(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::{EXT, FLOW_EXT, FLOW_MAC_EXT, Field, KINDS, MAC_EXT, MASK, Spec, VALUE, VALUE_EXT, spec};

    /// Composed: no available machine has a device with flow rules.
    fn composed(kind: u32, parts: &[(usize, &[u8], &[u8])]) -> Spec {
        let mut bytes = [0; 148];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        for (at, value, mask) in parts {
            bytes[*at..at + value.len()].copy_from_slice(value);
            bytes[at + MASK..at + MASK + mask.len()].copy_from_slice(mask);
        }
        bytes
    }

    #[test]
    fn addresses_ports_and_masks() {
        let tcp4 = composed(
            1,
            &[
                (VALUE, &[10, 1, 0, 0], &[255, 255, 0, 0]),
                (VALUE + 4, &[10, 0, 7, 0], &[255, 0, 255, 0]),
                (VALUE + 8, &[0x1f, 0x90], &[0xff, 0xf0]),
                (VALUE + 10, &[0, 80], &[0xff, 0xff]),
            ],
        );
        assert_eq!(spec(&tcp4).kind, "tcp4");
        let fields =
            ["src-ip 10.1.0.0/16", "dst-ip 10.0.7.0/255.0.255.0", "src-port 8080/0xfff0", "dst-port 80"];
        assert_eq!(spec(&tcp4).fields, fields);
    }

    #[test]
    fn ether_ip6_and_what_every_kind_may_have() {
        let mac = [2, 0xfc, 0, 0, 0, 1];
        let ether = composed(
            0x12 | FLOW_EXT,
            &[
                (VALUE, &mac, &[0xff; 6]),
                (VALUE + 6, &mac, &[0xff, 0xff, 0xff, 0, 0, 0]),
                (VALUE + 12, &[0x88, 0xf7], &[0xff; 2]),
                (VALUE_EXT + 10, &[0, 100], &[0x0f, 0xff]),
            ],
        );
        let fields = [
            "dst 02:fc:00:00:00:01",
            "src 02:fc:00:00:00:01/ff:ff:ff:00:00:00",
            "proto 0x88f7",
            "vlan 100/0x0fff",
        ];
        assert_eq!(spec(&ether).fields, fields);

        let address = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let ip6 = composed(
            0x0e | FLOW_MAC_EXT,
            &[
                (VALUE, &address, &[0xff; 16]),
                (VALUE + 37, &[17], &[0xff]),
                (VALUE_EXT + 2, &mac, &[0xff; 6]),
            ],
        );
        assert_eq!(spec(&ip6).fields, ["src-ip 2001:db8::1", "l4proto 17", "dst-mac 02:fc:00:00:00:01"]);
    }

    #[test]
    fn a_kind_that_is_not_known_is_said() {
        let unknown = spec(&composed(0x33, &[(VALUE, &[1], &[0xff])]));
        assert_eq!((unknown.kind.as_str(), unknown.fields.len()), ("unknown(51)", 0));
    }

    #[test]
    fn every_field_lies_within_its_union() {
        let end = |(_, at, form): &Field| at + form.length();
        assert!(KINDS.iter().flat_map(|(.., fields)| *fields).all(|field| end(field) <= VALUE_EXT - VALUE));
        assert!(MAC_EXT.iter().chain(EXT).all(|field| end(field) <= VALUE + MASK - VALUE_EXT));
    }
}
