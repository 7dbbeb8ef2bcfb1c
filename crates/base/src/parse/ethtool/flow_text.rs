//! Flow rules as text, in the syntax of `ethtool -N`: `tcp4 dst-port 443 action 3`.
//!
//! Only compared fields are written; a mask follows its value: `src-ip 10.1.0.0/16`. A rule that a driver
//! reports can thus be written down and given back to it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::flow_fields::{EXT, FLOW_EXT, FLOW_MAC_EXT, Field, Form, KINDS, MAC_EXT, MASK, VALUE, VALUE_EXT};
use super::rules::{CONTEXT, COOKIE, DISCARD, FLOW_RSS, LENGTH, LOCATION, SPEC, WAKE};
use super::{FlowAction, FlowRule};

/// `struct ethtool_rxnfc` of one rule.
type Bytes = [u8; LENGTH];

/// The version that a rule for all of IPv4 must name, and its offset: after the type of service.
const IP4_VERSION: (u32, usize, u8) = (0x0d, VALUE + 13, 1);

/// A rule as text, without its location.
pub fn flow_text(rule: &FlowRule) -> String {
    let action = match rule.action {
        FlowAction::Drop => "action -1".to_owned(),
        FlowAction::WakeOnLan => "action -2".to_owned(),
        FlowAction::Queue(queue) => format!("action {queue}"),
        FlowAction::Context { context, queue } => format!("context {context} action {queue}"),
        FlowAction::VirtualFunction { vf, queue } => format!("vf {vf} queue {queue}"),
    };
    let fields = rule.spec.fields.iter().map(String::as_str);
    let words: Vec<&str> =
        [rule.spec.kind.as_str()].into_iter().chain(fields).chain([action.as_str()]).collect();
    words.join(" ")
}

/// The `struct ethtool_rxnfc` of a rule given as text, or the reason why the text is invalid.
pub fn flow_bytes(location: u32, text: &str) -> Result<Vec<u8>, String> {
    encode(location, text).map(|bytes| bytes.to_vec())
}

/// True if two rules match the same packets and do the same with them: drivers clear the bits of a
/// value that its mask leaves out.
pub fn same_flow(one: &str, other: &str) -> bool {
    let compared = |text: &str| {
        let mut bytes = encode(0, text).ok()?;
        for at in SPEC + VALUE..SPEC + VALUE + MASK {
            bytes[at] &= bytes[at + MASK];
        }
        Some(bytes)
    };
    one == other || compared(one).is_some_and(|one| compared(other) == Some(one))
}

fn encode(location: u32, text: &str) -> Result<Bytes, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let known = || KINDS.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ");
    let kind = KINDS.iter().find(|(_, kind, _)| *kind == name);
    let (kind, _, own) = kind.ok_or_else(|| format!("must start with a kind of packet: {}", known()))?;
    let mut bytes = [0; LENGTH];
    let mut flags = 0;
    let (mut action, mut vf, mut queue, mut context) = (None, None, None, None);
    while let Some(name) = words.next() {
        let value = words.next().ok_or_else(|| format!("`{name}` has no value"))?;
        let number = |into: &mut Option<u32>| {
            let first = value.parse().ok().filter(|_| into.is_none());
            *into =
                Some(first.ok_or_else(|| format!("`{name} {value}` is not a number, or is given twice"))?);
            Ok::<(), String>(())
        };
        match name {
            "vf" => number(&mut vf)?,
            "queue" => number(&mut queue)?,
            "context" => number(&mut context)?,
            "action" if action.is_none() => action = Some(value),
            _ => flags |= put_field(&mut bytes, own, name, value)?,
        }
    }
    let (cookie, context) = match (action, vf, queue, context) {
        (Some("-1"), None, None, None) => (DISCARD, None),
        (Some("-2"), None, None, None) => (WAKE, None),
        (Some(queue), None, None, context) if !queue.starts_with('-') => {
            let number: Result<u32, _> = queue.parse();
            let wrong = |_| format!("`action {queue}`: must be a queue number, or -1 to drop");
            (number.map_err(wrong)?.into(), context)
        }
        (None, Some(vf), Some(queue), None) if vf < 255 => {
            ((u64::from(vf) + 1) << 32 | u64::from(queue), None)
        }
        _ => return Err("must end with `action QUEUE`, or `action -1` to drop".to_owned()),
    };
    if let Some(context) = context {
        flags |= FLOW_RSS;
        bytes[CONTEXT..CONTEXT + 4].copy_from_slice(&context.to_ne_bytes());
    }
    if IP4_VERSION.0 == *kind {
        bytes[SPEC + IP4_VERSION.1] = IP4_VERSION.2;
    }
    bytes[SPEC..SPEC + 4].copy_from_slice(&(kind | flags).to_ne_bytes());
    bytes[COOKIE..COOKIE + 8].copy_from_slice(&cookie.to_ne_bytes());
    bytes[LOCATION..LOCATION + 4].copy_from_slice(&location.to_ne_bytes());
    Ok(bytes)
}

/// Stores one field and its mask, and returns the flag that marks it as present.
fn put_field(bytes: &mut Bytes, own: &[Field], name: &str, value: &str) -> Result<u32, String> {
    let of_all = |fields: &'static [Field], flag| fields.iter().map(move |field| (VALUE_EXT, flag, field));
    let own_fields = own.iter().map(|field| (VALUE, 0, field));
    let fields = own_fields.chain(of_all(MAC_EXT, FLOW_MAC_EXT)).chain(of_all(EXT, FLOW_EXT));
    let found = fields.clone().find(|(.., (field, ..))| *field == name);
    let (base, flag, (_, at, form)) = found.ok_or_else(|| {
        let names: Vec<&str> = fields.map(|(.., (name, ..))| *name).collect();
        format!("unknown field `{name}` for this kind of packet (known: {})", names.join(", "))
    })?;
    let wrong = || format!("`{name} {value}`: {}", expected(*form));
    let (text, mask) = match value.split_once('/') {
        Some((text, mask)) => (text, mask_bytes(*form, mask).ok_or_else(wrong)?),
        None => (value, vec![0xff; form.length()]),
    };
    let value = value_bytes(*form, text).ok_or_else(wrong)?;
    let at = SPEC + base + at;
    let there = &mut bytes[at + MASK..at + MASK + mask.len()];
    if there.iter().any(|byte| *byte != 0) {
        return Err(format!("`{name}` is given twice"));
    }
    if mask.iter().all(|byte| *byte == 0) {
        return Err(format!("`{name}` with a mask of 0 is not compared; leave it out"));
    }
    there.copy_from_slice(&mask);
    bytes[at..at + value.len()].copy_from_slice(&value);
    Ok(flag)
}

fn expected(form: Form) -> String {
    match form {
        Form::Ip4 => "must be an IPv4 address, with `/` and a prefix length for a network".to_owned(),
        Form::Ip6 => "must be an IPv6 address, with `/` and a prefix length for a network".to_owned(),
        Form::Mac => "must be a MAC address".to_owned(),
        Form::Decimal(bytes) | Form::Hex(bytes) => format!("must be a {}-bit number", 8 * bytes),
    }
}

fn value_bytes(form: Form, text: &str) -> Option<Vec<u8>> {
    match form {
        Form::Ip4 => Some(text.parse::<Ipv4Addr>().ok()?.octets().to_vec()),
        Form::Ip6 => Some(text.parse::<Ipv6Addr>().ok()?.octets().to_vec()),
        Form::Mac => {
            let byte =
                |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| is_hex(part) && part.len() == 2);
            let bytes: Vec<u8> = text.split(':').map(byte).collect::<Option<_>>()?;
            Some(bytes).filter(|bytes| bytes.len() == form.length())
        }
        Form::Decimal(length) | Form::Hex(length) => {
            let number = match text.strip_prefix("0x") {
                Some(digits) if is_hex(digits) => u64::from_str_radix(digits, 16).ok()?,
                None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok()?,
                _ => return None,
            };
            let bytes = number.to_be_bytes();
            let (above, bytes) = bytes.split_at(bytes.len() - length);
            above.iter().all(|byte| *byte == 0).then(|| bytes.to_vec())
        }
    }
}

fn mask_bytes(form: Form, text: &str) -> Option<Vec<u8>> {
    let bits = 8 * form.length();
    let prefix = match form {
        Form::Ip4 | Form::Ip6 if text.bytes().all(|b| b.is_ascii_digit()) => text.parse::<usize>().ok(),
        _ => return value_bytes(form, text),
    };
    let ones = prefix.filter(|ones| *ones <= bits)?;
    let byte = |at: usize| match ones.saturating_sub(8 * at) {
        8.. => 0xff,
        some => !(0xffu8 >> some),
    };
    Some((0..form.length()).map(byte).collect())
}

/// Digits only: the standard library also accepts a sign.
fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::super::rules::{SPEC, rule};
    use super::{KINDS, flow_bytes, flow_text, same_flow};

    /// The text parsed back from the bytes of a rule.
    fn read(text: &str) -> Result<String, String> {
        flow_bytes(7, text).map(|bytes| {
            let rule = rule(&bytes).expect("whole");
            assert_eq!(rule.location, 7);
            flow_text(&rule)
        })
    }

    #[test]
    fn a_rule_reads_as_it_is_written() {
        for text in [
            "tcp4 src-ip 10.0.0.1 dst-ip 10.0.0.2 src-port 1024 dst-port 443 action 3",
            "udp4 dst-port 53 action -1",
            "tcp6 src-ip 2001:db8::1 dst-ip 2001:db8::2 dst-port 80 tclass 3 action 0",
            "udp6 dst-ip 2001:db8::/32 action 1",
            "ip4 dst-ip 10.1.0.0/16 l4proto 17 action 2",
            "ip6 src-ip ::1 l4data 0x00000001 action 2",
            "ether dst 02:fc:00:00:00:01 action 4",
            "ether src 02:fc:00:00:00:01/ff:ff:ff:00:00:00 proto 0x88f7 vlan 100/0x0fff action 4",
            "sctp4 dst-ip 10.0.7.0/255.0.255.0 action 4",
            "esp6 spi 0x00001000 dst-mac 02:fc:00:00:00:01 action -2",
            "tcp4 src-port 8080/0xfff0 vf 1 queue 7",
            "tcp4 dst-port 443 user-def 0x0000000000000001 context 3 action 0",
        ] {
            assert_eq!(read(text).as_deref(), Ok(text));
        }
        assert_eq!(read("tcp4 dst-port 0x50 action 3").as_deref(), Ok("tcp4 dst-port 80 action 3"));
        assert_eq!(read("tcp4 action 3 dst-port 80").as_deref(), Ok("tcp4 dst-port 80 action 3"));
        assert_eq!(read("tcp4 dst-ip 10.0.0.1/32 action 3").as_deref(), Ok("tcp4 dst-ip 10.0.0.1 action 3"));
    }

    /// Offsets counted by hand in include/uapi/linux/ethtool.h: the reader cannot detect an error that it
    /// shares.
    #[test]
    fn the_bytes_are_where_the_kernel_has_them() {
        let bytes = flow_bytes(9, "ip4 dst-ip 10.0.0.2 l4proto 6 vlan 5 action 3").expect("valid");
        assert_eq!(bytes.len(), 192);
        assert_eq!(bytes[SPEC..SPEC + 4], (0x8000_0000u32 | 0x0d).to_ne_bytes());
        assert_eq!(bytes[24..28], [10, 0, 0, 2], "ip4dst");
        assert_eq!((bytes[33], bytes[34]), (1, 6), "ip_ver and proto");
        assert_eq!(bytes[82..84], [0, 5], "vlan_tci");
        assert_eq!(bytes[96..100], [255; 4], "the mask of ip4dst");
        assert_eq!((bytes[105], bytes[106]), (0, 255), "the masks of ip_ver and proto");
        assert_eq!(bytes[154..156], [255; 2], "the mask of vlan_tci");
        assert_eq!(bytes[168..176], 3u64.to_ne_bytes(), "ring_cookie");
        assert_eq!(bytes[176..180], 9u32.to_ne_bytes(), "location");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("", "must start with a kind of packet: tcp4, udp4"),
            ("tcp action 1", "must start with a kind of packet"),
            ("tcp4 dst-port 443", "must end with `action QUEUE`"),
            ("tcp4 dst-port", "`dst-port` has no value"),
            ("tcp4 dst-port 65536 action 1", "`dst-port 65536`: must be a 16-bit number"),
            ("tcp4 dst-port +1 action 1", "must be a 16-bit number"),
            ("tcp4 dst-ip ::1 action 1", "must be an IPv4 address"),
            ("tcp4 dst-ip 10.0.0.1/33 action 1", "must be an IPv4 address"),
            ("tcp4 dst-ip 10.0.0.1/0 action 1", "with a mask of 0 is not compared"),
            ("tcp4 dst-port 1 dst-port 2 action 1", "`dst-port` is given twice"),
            ("tcp4 tclass 1 action 1", "unknown field `tclass` for this kind of packet (known: src-ip, "),
            ("ether dst 02:fc:00:00:00 action 1", "must be a MAC address"),
            ("tcp4 action -3", "must end with `action QUEUE`"),
            ("tcp4 action x", "`action x`: must be a queue number"),
            ("tcp4 action 1 action 2", "unknown field `action`"),
            ("tcp4 vf 1 action 2", "must end with `action QUEUE`"),
            ("tcp4 context 1 action -1", "must end with `action QUEUE`"),
        ] {
            let says = read(text).expect_err(text);
            assert!(says.contains(why), "{text}: {says}");
        }
    }

    #[test]
    fn bits_that_are_not_compared_make_no_difference() {
        assert!(same_flow("tcp4 dst-ip 10.1.2.3/16 action 1", "tcp4 dst-ip 10.1.0.0/16 action 1"));
        assert!(same_flow("unknown(51) action 1", "unknown(51) action 1"));
        assert!(!same_flow("tcp4 dst-ip 10.1.2.3/16 action 1", "tcp4 dst-ip 10.1.0.0/24 action 1"));
        assert!(!same_flow("tcp4 dst-port 1 action 1", "tcp4 dst-port 1 action 2"));
        assert!(!same_flow("none", "tcp4 dst-port 1 action 2"));
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_that_reads_back_or_an_error(text in "(tcp4|ip6|ether|x)( [a-z-]{0,9} [0-9a-fx:./-]{0,12}){0,4}") {
            if let Ok(once) = read(&text) {
                let twice = read(&once);
                prop_assert_eq!(twice.as_deref(), Ok(once.as_str()));
                prop_assert!(same_flow(&text, &once));
            }
        }

        /// Any rule a driver reports can be given back to it, unless its kind is unknown.
        #[test]
        fn any_rule_of_a_known_kind_can_be_written_down(
            bytes in proptest::collection::vec(any::<u8>(), 192),
            kind in 0usize..13,
            flags in 0u32..8,
        ) {
            let mut bytes = bytes;
            bytes[SPEC..SPEC + 4].copy_from_slice(&(KINDS[kind].0 | flags << 29).to_ne_bytes());
            let found = rule(&bytes).expect("whole");
            let text = flow_text(&found);
            let again = flow_bytes(found.location, &text).map(|bytes| rule(&bytes).expect("whole"));
            prop_assert_eq!(again, Ok(found));
        }
    }
}
