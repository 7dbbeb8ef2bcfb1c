//! `ETHTOOL_GRXCLSRULE`: flow rules ("ntuple"), one `struct ethtool_rxnfc` per message.

use super::flow_fields::spec;
use super::{FlowAction, FlowRule, field, field32};
use crate::parse::{WireError, messages, one_message};

/// Offsets of `struct ethtool_rx_flow_spec` and of its fields, on 64-bit machines.
pub const SPEC: usize = 16;
pub(super) const COOKIE: usize = SPEC + 152;
pub const LOCATION: usize = SPEC + 160;
pub(super) const CONTEXT: usize = 184;

/// Length of the whole `struct ethtool_rxnfc` in bytes.
pub(super) const LENGTH: usize = 192;

pub(super) const DISCARD: u64 = u64::MAX;
pub(super) const WAKE: u64 = u64::MAX - 1;
/// The rule names an RSS context.
pub(super) const FLOW_RSS: u32 = 0x2000_0000;

/// The flow rules of one interface.
pub fn rules(answer: &[u8]) -> Result<Vec<FlowRule>, WireError> {
    messages(answer)?.into_iter().map(rule).collect()
}

/// True if a driver takes special locations for new rules (`RX_CLS_LOC_SPECIAL` of `ETHTOOL_GRXCLSRLCNT`): some of these choose
/// each slot themselves, and refuse any that is named.
pub fn chooses_slots(answer: &[u8]) -> Result<bool, WireError> {
    const SLOTS: usize = 8;
    const SPECIAL: u64 = 0x8000_0000;
    let all = messages(answer)?;
    let rxnfc = all.first().copied().unwrap_or_default();
    Ok(field(rxnfc, SLOTS).map(u64::from_ne_bytes)? & SPECIAL != 0)
}

/// The answer with `rule` at a location, replacing any rule there; `None` removes it.
pub fn with_rule(answer: &[u8], location: u32, rule: Option<&[u8]>) -> Result<Vec<u8>, WireError> {
    let mut all = Vec::new();
    for message in messages(answer)? {
        let at = field32(message, LOCATION)?;
        if at != location {
            all.push((at, message));
        }
    }
    all.extend(rule.map(|rule| (location, rule)));
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().flat_map(|(_, message)| one_message(message)).collect())
}

pub(super) fn rule(rxnfc: &[u8]) -> Result<FlowRule, WireError> {
    let context = match field32(rxnfc, SPEC)? & FLOW_RSS {
        0 => None,
        _ => Some(field32(rxnfc, CONTEXT)?),
    };
    Ok(FlowRule {
        location: field32(rxnfc, LOCATION)?,
        spec: spec(&field(rxnfc, SPEC)?),
        action: action(field(rxnfc, COOKIE).map(u64::from_ne_bytes)?, context),
    })
}

/// The queue is in the lower 32 bits; the eight above are 0 for this function, else the number of
/// a virtual one, from 1.
fn action(cookie: u64, context: Option<u32>) -> FlowAction {
    let bits = cookie.to_be_bytes();
    let queue = u32::from_be_bytes([bits[4], bits[5], bits[6], bits[7]]);
    match (cookie, bits[3], context) {
        (DISCARD, ..) => FlowAction::Drop,
        (WAKE, ..) => FlowAction::WakeOnLan,
        (_, _, Some(context)) => FlowAction::Context { context, queue },
        (_, 0, None) => FlowAction::Queue(queue),
        (_, vf, None) => FlowAction::VirtualFunction { vf: u32::from(vf) - 1, queue },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{CONTEXT, COOKIE, FLOW_RSS, LOCATION, SPEC, chooses_slots, rules};
    use crate::parse::ethtool::{FlowAction, FlowRule};
    use crate::parse::one_message;

    /// Composed: no available machine has a device with flow rules.
    fn parsed(kind: u32, cookie: u64) -> Result<Vec<FlowRule>, crate::parse::WireError> {
        let mut rxnfc = [0u8; 192];
        rxnfc[SPEC..SPEC + 4].copy_from_slice(&kind.to_ne_bytes());
        // dst-port of TCP over IPv4, and its mask.
        rxnfc[SPEC + 14..SPEC + 16].copy_from_slice(&443u16.to_be_bytes());
        rxnfc[SPEC + 86..SPEC + 88].copy_from_slice(&[0xff; 2]);
        rxnfc[COOKIE..COOKIE + 8].copy_from_slice(&cookie.to_ne_bytes());
        rxnfc[LOCATION..LOCATION + 4].copy_from_slice(&1023u32.to_ne_bytes());
        rxnfc[CONTEXT..CONTEXT + 4].copy_from_slice(&3u32.to_ne_bytes());
        rules(&one_message(&rxnfc))
    }

    /// Composed, as bnxt_en answers: 1,024 slots, with and without the flag.
    #[test]
    fn a_driver_may_choose_the_slots() {
        let slots = |slots: u64| {
            let mut rxnfc = [0u8; 192];
            rxnfc[8..16].copy_from_slice(&slots.to_ne_bytes());
            chooses_slots(&one_message(&rxnfc))
        };
        assert_eq!((slots(1024), slots(0x8000_0400)), (Ok(false), Ok(true)));
        assert!(chooses_slots(&[]).is_err() && chooses_slots(&one_message(&[0; 4])).is_err());
    }

    #[test]
    fn every_action() {
        let action = |kind, cookie| {
            let rules = parsed(kind, cookie).expect("valid");
            assert_eq!((rules.len(), rules[0].location), (1, 1023));
            assert_eq!(
                (rules[0].spec.kind.as_str(), rules[0].spec.fields.as_slice()),
                ("tcp4", ["dst-port 443".to_owned()].as_slice())
            );
            rules[0].action
        };
        assert_eq!(action(1, 5), FlowAction::Queue(5));
        assert_eq!(action(1, u64::MAX), FlowAction::Drop);
        assert_eq!(action(1, u64::MAX - 1), FlowAction::WakeOnLan);
        assert_eq!(action(1, (2 << 32) | 7), FlowAction::VirtualFunction { vf: 1, queue: 7 });
        assert_eq!(action(1 | FLOW_RSS, 4), FlowAction::Context { context: 3, queue: 4 });
    }

    proptest! {
        #[test]
        fn a_message_is_one_rule_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..256), kind in 0u8..20) {
            let mut rxnfc = bytes.clone();
            // A known kind, with anything in its fields.
            if let Some(first) = rxnfc.get_mut(SPEC..SPEC + 4) {
                first.copy_from_slice(&u32::from(kind).to_ne_bytes());
            }
            if let Ok(found) = rules(&one_message(&rxnfc)) {
                prop_assert_eq!(found.len(), 1);
                prop_assert_eq!(rules(&one_message(&rxnfc).repeat(2)).map(|two| two.len()), Ok(2));
            }
        }
    }
}
