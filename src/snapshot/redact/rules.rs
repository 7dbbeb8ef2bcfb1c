//! Flow rules with stand-ins for the addresses that they match.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::standin::StandIns;
use crate::parse::ethtool::flow_fields::{MASK, addresses};
use crate::parse::ethtool::rules::SPEC;
use crate::parse::{messages, push_message};

/// The rules with stand-ins; `None` if one is of a kind whose addresses cannot be found.
pub(super) fn redacted(answer: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        let mut rule = message.to_vec();
        let kind = u32::from_ne_bytes(*rule.get(SPEC..)?.first_chunk()?);
        for (at, length) in addresses(kind)? {
            let address = rule.get(SPEC + at..SPEC + at + length)?;
            let stand_in = stand_in(address, stand_ins)?;
            put(&mut rule, SPEC + at, &stand_in)?;
        }
        push_message(&mut out, &rule);
    }
    Some(out)
}

fn stand_in(address: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    if let Ok(four) = <[u8; 4]>::try_from(address) {
        Some(stand_ins.octets(Ipv4Addr::from(four).into()))
    } else if let Ok(sixteen) = <[u8; 16]>::try_from(address) {
        Some(stand_ins.octets(Ipv6Addr::from(sixteen).into()))
    } else {
        Some(stand_ins.mac(address.try_into().ok()?).to_vec())
    }
}

/// Writes the part of a stand-in that the rule's mask compares: a network stays a network.
fn put(rule: &mut [u8], at: usize, stand_in: &[u8]) -> Option<()> {
    for (offset, byte) in stand_in.iter().enumerate() {
        let mask = *rule.get(at + MASK + offset)?;
        *rule.get_mut(at + offset)? = byte & mask;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{MASK, SPEC, redacted};
    use crate::parse::{ethtool, one_message};
    use crate::snapshot::redact::standin::StandIns;

    /// The values of the kind's own fields.
    const FIELDS: usize = SPEC + 4;

    fn rule(kind: u32, fields: &[u8], mask: &[u8]) -> Vec<u8> {
        let mut rule = vec![0; 192];
        rule[SPEC..FIELDS].copy_from_slice(&kind.to_ne_bytes());
        rule[FIELDS..FIELDS + fields.len()].copy_from_slice(fields);
        rule[FIELDS + MASK..FIELDS + MASK + mask.len()].copy_from_slice(mask);
        one_message(&rule)
    }

    fn fields(answer: &[u8]) -> Vec<String> {
        let clean = redacted(answer, &mut StandIns::default()).expect("a known kind");
        ethtool::rules(&clean).expect("still a rule").remove(0).spec.fields
    }

    /// Composed: no available machine has a device with flow rules.
    #[test]
    fn addresses_go_and_ports_stay() {
        let tcp4 = rule(
            1,
            &[10, 0, 0, 7, 10, 1, 0, 0, 0, 0, 1, 187],
            &[255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255],
        );
        let text = fields(&tcp4).join(", ");
        assert!(text.contains("src-ip 198.18.0.1") && text.contains("dst-port 443"), "{text}");
        assert!(text.contains("dst-ip 198.18.0.0") && !text.contains("10."), "{text}");
        let ether = rule(0x12, &[0x52, 0x54, 0, 1, 2, 3], &[255; 6]);
        assert_eq!(fields(&ether), ["dst 02:00:00:00:00:01"]);
    }

    #[test]
    fn unknown_kinds_are_not_kept() {
        assert_eq!(redacted(&rule(0x1f, &[], &[]), &mut StandIns::default()), None);
        assert_eq!(redacted(&[1, 0, 0, 0, 9], &mut StandIns::default()), None);
    }
}
