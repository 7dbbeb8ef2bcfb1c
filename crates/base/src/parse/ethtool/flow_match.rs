//! Comparison of a flow rule with the packets of one flow.

use super::flow_fields::{MASK, VALUE};
use super::rules::SPEC;
use super::{FlowRule, flow_bytes, flow_text};

/// Returns whether packets of a flow match a rule; `None` if that depends on more than the flow.
///
/// `packet` is the flow as the text of a rule of the same kind, which compares all fields that the flow determines;
/// `None` if packets of the flow are of another kind. What a rule for all of Ethernet compares is not known from a
/// flow, nor what rules of unknown kinds compare.
pub fn flow_matches(rule: &FlowRule, packet: Option<&str>) -> Option<bool> {
    if rule.spec.kind == "ether" || rule.spec.kind.starts_with("unknown(") {
        return None;
    }
    let Some(packet) = packet else { return Some(false) };
    let (rule, packet) = (flow_bytes(0, &flow_text(rule)).ok()?, flow_bytes(0, packet).ok()?);
    let mut matches = Some(true);
    for at in SPEC + VALUE..SPEC + VALUE + MASK {
        let (compared, determined) = (rule[at + MASK], packet[at + MASK]);
        if (rule[at] ^ packet[at]) & compared & determined != 0 {
            return Some(false);
        }
        if compared & !determined != 0 {
            matches = None;
        }
    }
    matches
}

#[cfg(test)]
mod tests {
    use super::flow_matches;
    use crate::parse::ethtool::{FlowRule, flow_bytes, rules};
    use crate::parse::one_message;

    fn rule(text: &str) -> FlowRule {
        rules(&one_message(&flow_bytes(0, text).expect("a rule"))).expect("valid").remove(0)
    }

    #[test]
    fn a_flow_matches_what_its_rule_compares() {
        let packet = "tcp4 src-ip 198.51.100.7 dst-ip 10.0.0.1 src-port 50000 dst-port 443 action 0";
        for (text, expected) in [
            ("tcp4 dst-port 443 action 1", Some(true)),
            ("tcp4 dst-port 80 action 1", Some(false)),
            ("tcp4 src-ip 198.51.100.0/24 action 1", Some(true)),
            ("tcp4 src-ip 198.51.101.0/24 action 1", Some(false)),
            ("tcp4 dst-port 443 tos 8 action 1", None),
            ("tcp4 dst-port 80 tos 8 action 1", Some(false)),
            ("tcp4 dst-port 443 vlan 5 action 1", None),
            ("tcp4 action 1", Some(true)),
            ("ether proto 0x0800 action 1", None),
        ] {
            assert_eq!(flow_matches(&rule(text), Some(packet)), expected, "{text}");
        }
        assert_eq!(flow_matches(&rule("udp4 dst-port 443 action 1"), None), Some(false));
        let whole = "ip4 src-ip 198.51.100.7 dst-ip 10.0.0.1 l4data 0xc35001bb l4proto 6 action 0";
        for (text, expected) in [
            ("ip4 l4proto 6 action 1", Some(true)),
            ("ip4 l4proto 17 action 1", Some(false)),
            ("ip4 l4data 0x000001bb/0x0000ffff action 1", Some(true)),
            ("ip4 dst-ip 10.0.0.2 action 1", Some(false)),
        ] {
            assert_eq!(flow_matches(&rule(text), Some(whole)), expected, "{text}");
        }
    }
}
