//! Flow rules with stand-ins for the addresses that they match.

use std::net::IpAddr;

use super::standin::StandIns;
use crate::parse::{messages, push_message};

/// Where `struct ethtool_rx_flow_spec` begins in `struct ethtool_rxnfc` (64-bit machines), the kind of
/// packet in it, its fields, a MAC address behind them, and how far behind both their masks are.
const KIND: usize = 16;
const FIELDS: usize = KIND + 4;
const EXTRA_MAC: usize = FIELDS + 54;
const MASK: usize = 72;
/// Bits beside the kind: extra fields, extra MAC address, RSS context.
const FLAGS: u32 = 0xE000_0000;

// Kinds of include/uapi/linux/ethtool.h, by what stands at the start of their fields.
const TWO_IPV4: [u32; 7] = [1, 2, 3, 4, 9, 10, 13];
const TWO_IPV6: [u32; 7] = [5, 6, 7, 8, 11, 12, 14];
const TWO_MACS: [u32; 1] = [0x12];

/// The rules with stand-ins; `None` when one is of a kind whose addresses cannot be found.
pub(super) fn redacted(answer: &[u8], stand_ins: &mut StandIns) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for message in messages(answer).ok()? {
        let mut rule = message.to_vec();
        let kind = u32::from_ne_bytes(*rule.get(KIND..)?.first_chunk()?) & !FLAGS;
        if TWO_IPV4.contains(&kind) {
            [0, 4].iter().try_for_each(|at| ip::<4>(&mut rule, FIELDS + at, stand_ins))?;
        } else if TWO_IPV6.contains(&kind) {
            [0, 16].iter().try_for_each(|at| ip::<16>(&mut rule, FIELDS + at, stand_ins))?;
        } else if TWO_MACS.contains(&kind) {
            [0, 6].iter().try_for_each(|at| mac(&mut rule, FIELDS + at, stand_ins))?;
        } else {
            return None;
        }
        mac(&mut rule, EXTRA_MAC, stand_ins)?;
        push_message(&mut out, &rule);
    }
    Some(out)
}

fn ip<const N: usize>(rule: &mut [u8], at: usize, stand_ins: &mut StandIns) -> Option<()>
where
    IpAddr: From<[u8; N]>,
{
    let address: [u8; N] = *rule.get(at..)?.first_chunk()?;
    match stand_ins.ip(IpAddr::from(address)) {
        IpAddr::V4(stand_in) => put(rule, at, &stand_in.octets()),
        IpAddr::V6(stand_in) => put(rule, at, &stand_in.octets()),
    }
}

fn mac(rule: &mut [u8], at: usize, stand_ins: &mut StandIns) -> Option<()> {
    let address = *rule.get(at..)?.first_chunk()?;
    put(rule, at, &stand_ins.mac(address))
}

/// Writes a stand-in, as much of it as the rule's mask looks at: a network stays a network.
fn put(rule: &mut [u8], at: usize, stand_in: &[u8]) -> Option<()> {
    for (offset, byte) in stand_in.iter().enumerate() {
        let mask = *rule.get(at + MASK + offset)?;
        *rule.get_mut(at + offset)? = byte & mask;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{FIELDS, KIND, MASK, redacted};
    use crate::parse::{ethtool, push_message};
    use crate::snapshot::redact::standin::StandIns;

    fn rule(kind: u32, fields: &[u8], mask: &[u8]) -> Vec<u8> {
        let mut rule = vec![0; 192];
        rule[KIND..FIELDS].copy_from_slice(&kind.to_ne_bytes());
        rule[FIELDS..FIELDS + fields.len()].copy_from_slice(fields);
        rule[FIELDS + MASK..FIELDS + MASK + mask.len()].copy_from_slice(mask);
        let mut answer = Vec::new();
        push_message(&mut answer, &rule);
        answer
    }

    fn fields(answer: &[u8]) -> Vec<String> {
        let clean = redacted(answer, &mut StandIns::default()).expect("a known kind");
        ethtool::rules(&clean).expect("still a rule").remove(0).spec.fields
    }

    /// Composed: no machine at hand has a device with flow rules.
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
