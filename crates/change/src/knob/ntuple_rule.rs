//! `ntuple_rule`: flows that the device sends to a queue of their own.

use rustix::io::Errno;

use super::error::Meanings;
use super::{Knob, KnobError, Result, Site};
use crate::journal::{Armed, Displaced};
use rxlab_base::parse::ethtool::{FlowAction, FlowRule, chooses_slots, flow_bytes, flow_text, rules};
use rxlab_base::units::Fact;
use rxlab_path::drivers::RuleLoss;
use rxlab_path::model::{Model, Nic, RxQueue};
use rxlab_setting::Target;
use rxlab_sys::{Action, EthtoolChange, EthtoolGet, Query};

/// One slot in the device's table of flow rules.
///
/// Kernel: `Documentation/networking/scaling.rst`, "RSS", and include/uapi/linux/ethtool.h. A slot has a rule
/// or none; if two rules match, the lower slot wins.
pub(super) struct NtupleRule;

const NAME: &str = "ntuple_rule";
const NONE: &str = "none";
const LACKS: &str = "the driver does not support flow rules, or they are off (ntuple)";

const NO_SLOT: &str = "the device has no room for another rule, or no such slot";
const CONFLICT: &str = "another rule conflicts: the same rule in another slot, or the existing one in this slot, which \
                        this driver does not replace (remove it first: = none)";

const MEANINGS: Meanings = &[
    (
        Errno::INVAL,
        "the device cannot match this, has no such slot or queue, or chooses the slots of rules itself",
    ),
    (Errno::NOSPC, NO_SLOT),
    (Errno::FBIG, NO_SLOT),
    (Errno::EXIST, CONFLICT),
    (Errno::BUSY, CONFLICT),
];

/// The interface and the slot.
fn find(site: Site<'_>) -> Result<(&Nic, u32)> {
    match site.target {
        Target::Rule { nic, location } => Ok((site.known_nic(nic)?, *location)),
        _ => Err(site.wrong("a flow rule (NIC/rule-N)")),
    }
}

fn shown(site: Site<'_>, nic: &Nic, location: u32) -> Result<Option<FlowRule>> {
    let all = site.ethtool(EthtoolGet::Rules, nic, rules).map_err(|error| error.or_lacks(LACKS))?;
    Ok(all.into_iter().find(|rule| rule.location == location))
}

/// The bytes of the rule, and the rule as the kernel will read them.
fn encode(site: Site<'_>, location: u32, value: &str) -> Result<(Vec<u8>, FlowRule)> {
    let bytes = flow_bytes(location, value).map_err(|why| site.bad(value, why))?;
    let answer = rxlab_base::parse::one_message(&bytes);
    let understood = rules(&answer).ok().and_then(|mut rules| rules.pop());
    let rule = understood.ok_or_else(|| site.bad(value, "not a valid rule"))?;
    Ok((bytes, rule))
}

fn text(rule: Option<&FlowRule>) -> String {
    rule.map_or_else(|| NONE.to_owned(), flow_text)
}

/// A look for rules that a write would remove.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Before {
    Change,
    /// Undo does not wait for rules that may be those of accelerated RFS, which come and go with the traffic.
    Undo,
}

/// Refuses to go on if a rule would be removed that no setting names and that is not `kept`.
pub(super) fn keep_all(site: Site<'_>, kept: &[Displaced], before: Before) -> Result {
    let nic = site.nic()?;
    let has_table = |queue: &RxQueue| !matches!(queue.rps_flow_cnt, Fact::Known(0) | Fact::Unsupported);
    let may_be_arfs = nic.driver_facts().lists_arfs && nic.rx.iter().any(has_table);
    if may_be_arfs && before == Before::Undo {
        return Ok(());
    }
    let mut lost = match site.ethtool(EthtoolGet::Rules, nic, rules) {
        Ok(rules) => rules,
        // Some drivers have the switch only for accelerated RFS.
        Err(KnobError::Unsupported { .. }) => return Ok(()),
        // mlx4_en, while its port is down or cannot steer: it has no rules then.
        Err(_) if counts_none(site, nic) => return Ok(()),
        Err(error) => return Err(error),
    };
    let is_at = |displaced: &Displaced, slot: u32| {
        displaced.knob == NAME
            && matches!(displaced.target, Target::Rule { location, .. } if location == slot)
    };
    lost.retain(|rule| kept.iter().all(|displaced| !is_at(displaced, rule.location)));
    let Some(first) = lost.first() else { return Ok(()) };
    let rules = if lost.len() == 1 { "a flow rule".to_owned() } else { format!("{} flow rules", lost.len()) };
    let (nic, slot) = (site.target, first.location);
    // One that rxlab removes comes back with undo.
    let by = if chooses(site)? {
        format!("`ethtool -N {nic} delete {slot}`")
    } else {
        format!("`ntuple_rule {nic}/rule-{slot} = none`")
    };
    let why = if may_be_arfs {
        format!(
            "{rules} that {nic} has and would lose. With RFS they may be those of accelerated RFS: set `rfs {nic}/rx-N = 0` \
             for each queue, and try again after a few seconds. Remove others first, as with {by}"
        )
    } else {
        format!("{rules} that {nic} has and would lose: remove first, as with {by}")
    };
    Err(site.unrestorable(why))
}

/// True if the driver refuses even to count its rules with EINVAL.
fn counts_none(site: Site<'_>, nic: &Nic) -> bool {
    let count = site.host.query(&Query::Ethtool(EthtoolGet::RuleSlots, nic.name.clone()));
    count.is_err_and(|error| error.cause == Errno::INVAL.into())
}

/// Refuses to go on if the driver would delete rules with the change: see [`RuleLoss`].
pub(super) fn keep_all_of_driver(site: Site<'_>, deletes: fn(&RuleLoss) -> bool, before: Before) -> Result {
    if deletes(&site.nic()?.driver_facts().deletes_rules) { keep_all(site, &[], before) } else { Ok(()) }
}

/// True if the driver may choose the slot of each rule itself: none can be put back into its own.
fn chooses(site: Site<'_>) -> Result<bool> {
    let nic = match site.target {
        Target::Rule { nic, .. } => site.known_nic(nic)?,
        _ => site.nic()?,
    };
    match site.ethtool(EthtoolGet::RuleSlots, nic, chooses_slots) {
        // Only a recording lacks it: what answers with the rules has asked for their number.
        Err(KnobError::Unsupported { .. }) => Ok(false),
        chooses => chooses,
    }
}

impl Knob for NtupleRule {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Existing rules; others can be created.
    fn targets(&self, model: &Model) -> Vec<Target> {
        let all = model
            .nics
            .iter()
            .flat_map(|nic| nic.hardware.rules.known().into_iter().flatten().map(move |rule| (nic, rule)));
        all.map(|(nic, rule)| Target::Rule { nic: nic.name.clone(), location: rule.location }).collect()
    }

    fn check(&self, site: Site<'_>, value: &str) -> Result<String> {
        let (nic, location) = find(site)?;
        let now = text(shown(site, nic, location)?.as_ref());
        if now != NONE && flow_bytes(location, &now).is_err() {
            return Err(site.bad(value, format!("the current rule, {now}, could not be restored")));
        }
        let checked = if value == NONE {
            NONE.to_owned()
        } else {
            let (_, rule) = encode(site, location, value)?;
            if let FlowAction::Queue(queue) = rule.action {
                site.check_queues(nic, value, &[queue])?;
            }
            flow_text(&rule)
        };
        if now != NONE && !self.same(&checked, &now) && chooses(site)? {
            return Err(site.unrestorable(format!(
                "the current rule, {now}: the driver may choose the slot of each new rule itself (RX_CLS_LOC_SPECIAL). \
                 Change it with `ethtool -N {}`",
                nic.name
            )));
        }
        Ok(checked)
    }

    fn read(&self, site: Site<'_>) -> Result<String> {
        let (nic, location) = find(site)?;
        Ok(text(shown(site, nic, location)?.as_ref()))
    }

    fn write(&self, site: Site<'_>, value: &str, _armed: &Armed) -> Result {
        let (nic, location) = find(site)?;
        let change = if value == NONE {
            if shown(site, nic, location)?.is_none() {
                return Ok(());
            }
            EthtoolChange::NoRule { location }
        } else {
            // Replaces an existing rule in one step too: between removing it and adding another one, it could
            // be lost.
            EthtoolChange::Rule { location, rule: encode(site, location, value)?.0 }
        };
        let action = Action::EthtoolIoctl { nic: nic.name.clone(), change };
        site.act(value, &action, MEANINGS).map_err(|error| error.or_lacks(LACKS))
    }

    // Drivers may clear the bits of a value that its mask leaves out.
    fn same(&self, want: &str, got: &str) -> bool {
        rxlab_base::parse::ethtool::same_flow(want, got)
    }

    // A driver that refuses a rule may already have removed the one it was to replace.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let one_of = |values: &[String]| values.iter().any(|value| self.same(value, live));
        one_of(ours) || one_of(unsettled) || (live == NONE && !unsettled.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, Fact, Knob, NtupleRule};
    use crate::knob::testbed::{
        answer, check, features_answer, list, model, path, read, refusal, refusing, target, with_rules, write,
    };
    use rxlab_base::parse::ethtool::flow_bytes;
    use rxlab_base::parse::one_message;
    use rxlab_sys::{Cause, Host, RecordedHost};

    /// Synthetic: no available machine has flow rules. One in slot 7, and one of an unknown kind in 9.
    fn host() -> RecordedHost {
        let known = flow_bytes(7, "udp4 dst-port 53 action 1").expect("a rule");
        let mut unknown = flow_bytes(9, "udp4 action 1").expect("a rule");
        unknown[16..20].copy_from_slice(&0x33u32.to_ne_bytes());
        let answer = [known, unknown].map(|rule| one_message(&rule)).concat();
        RecordedHost::new().with(&path(EthtoolGet::Rules), answer)
    }

    #[test]
    fn a_rule_comes_is_replaced_and_goes() {
        let host = host();
        let read = |at: &str| read(&NtupleRule, &host, at).expect("readable");
        for (at, value, kept) in [
            ("eth0/rule-3", "tcp4 dst-ip 10.0.0.2 action 1", "tcp4 dst-ip 10.0.0.2 action 1"),
            ("eth0/rule-3", "ether dst 02:fc:00:00:00:0A action 0", "ether dst 02:fc:00:00:00:0a action 0"),
            ("eth0/rule-3", "tcp6 dst-port 0x1bb action -1", "tcp6 dst-port 443 action -1"),
            ("eth0/rule-3", "none", "none"),
            ("eth0/rule-3", "none", "none"),
            ("eth0/rule-7", "none", "none"),
        ] {
            let value = check(&NtupleRule, &host, at, value).expect(value);
            write(&NtupleRule, &host, at, &value).expect("written");
            assert_eq!(read(at), kept);
        }
        assert_eq!(read("eth0/rule-9"), "unknown(51) action 1", "the others stay");
    }

    #[test]
    fn refusals_say_what_and_why() {
        let says = |at: &str, value: &str| refusal(&NtupleRule, &host(), at, value);
        assert!(says("eth0/rule-3", "tcp4 action 2").ends_with("eth0 has 2 receive queues, and no rx-2"));
        assert!(says("eth0/rule-3", "tcp4 dst-prt 2 action 1").contains("unknown field `dst-prt`"));
        assert!(says("eth0/rule-9", "none").contains("unknown(51) action 1, could not be restored"));
        assert_eq!(says("eth0", "none"), "ntuple_rule acts on a flow rule (NIC/rule-N), not on eth0");
        let none = RecordedHost::new();
        let error = refusal(&NtupleRule, &none, "eth0/rule-3", "none");
        assert_eq!(error, format!("eth0/rule-3 has no ntuple_rule: {}", super::LACKS));
        let full = refusing(host(), "grxclsrlall/eth0", Cause::Errno(28));
        let error = write(&NtupleRule, &full, "eth0/rule-3", "tcp4 action 1");
        assert!(error.expect_err("full").to_string().contains("no room for another rule"));
    }

    /// Composed, as bnxt_en, sfc and mv88e6xxx answer: they take a rule only without a slot. Undo could not put it back.
    #[test]
    fn a_rule_in_a_slot_that_the_driver_chose_stays() {
        let mut slots = vec![0; 192];
        slots[8..16].copy_from_slice(&0x8000_0400u64.to_ne_bytes());
        let host = host().with(&path(EthtoolGet::RuleSlots), one_message(&slots));
        let now = "udp4 dst-port 53 action 1";
        for value in ["none", "udp4 dst-port 53 action 0"] {
            let error = refusal(&NtupleRule, &host, "eth0/rule-7", value);
            let expected = format!(
                "ntuple_rule eth0/rule-7: undo could not restore the current rule, {now}: the driver may choose the slot of \
                 each new rule itself (RX_CLS_LOC_SPECIAL). Change it with `ethtool -N eth0`"
            );
            assert_eq!(error, expected);
        }
        assert_eq!(check(&NtupleRule, &host, "eth0/rule-7", now).as_deref(), Ok(now), "nothing is written");
        assert_eq!(check(&NtupleRule, &host, "eth0/rule-3", now).as_deref(), Ok(now), "it can be removed");
    }

    #[test]
    fn a_rule_that_went_with_a_refused_one_is_ours() {
        let (old, new) = ("udp4 dst-port 53 action 1", "udp4 dst-port 53 action 0");
        assert!(NtupleRule.left_by(&list(&[old, new]), &list(&[new]), "none"));
        assert!(!NtupleRule.left_by(&list(&[old, new]), &[], "none"), "removed by another program");
        assert!(!NtupleRule.left_by(&list(&[old, new]), &list(&[new]), "udp4 dst-port 54 action 0"));
    }

    /// Composed. bnxt_en, qede, enic and hns3 list what accelerated RFS has made, and no user can remove all of that: a change was
    /// refused with useless advice, and its undo too.
    #[test]
    fn rules_of_accelerated_rfs_do_not_keep_undo_from_reverting() {
        let says = |driver: &str, name: &str, value: &str, flows: u32| {
            let (mut model, eth0) = (model(), target("eth0"));
            model.nics[0].driver = Some(driver.to_owned());
            model.nics[0].rx.iter_mut().for_each(|queue| queue.rps_flow_cnt = Fact::Known(flows));
            let rings = answer(&[(2, &4096u32.to_ne_bytes()), (6, &256u32.to_ne_bytes())]);
            let features = ["rx-ntuple-filter", "rx-gro-hw"];
            let host = with_rules(true, &[7])
                .with(&path(EthtoolGet::Features), features_answer(&features, &features, &[]))
                .with(&path(EthtoolGet::Rings), rings);
            let knob = crate::knob::find(name).expect("a knob");
            let site = knob.site(&host, &model, &eth0);
            [knob.check(site, value).map(drop), knob.check_restore(site, value, &[])]
                .map(|result| result.map_err(|error| error.to_string()))
        };
        for (driver, name, value) in [
            ("bnxt_en", "ntuple", "off"),
            ("enic", "ntuple", "off"),
            ("hns3", "ntuple", "off"),
            ("qede", "ring_rx", "512"),
            ("qede", "gro_hw", "off"),
            ("mlx4_en", "ring_rx", "512"),
        ] {
            let lost =
                format!("{name} eth0: undo could not restore a flow rule that eth0 has and would lose");
            let remove = "as with `ntuple_rule eth0/rule-7 = none`";
            let refused = Err(format!("{lost}: remove first, {remove}"));
            assert_eq!(says(driver, name, value, 0), [refused.clone(), refused.clone()], "{driver}");
            let with_rfs = says(driver, name, value, 512);
            if driver == "mlx4_en" {
                assert_eq!(with_rfs, [refused.clone(), refused], "its list has only rules of users");
                continue;
            }
            let refused = format!(
                "{lost}. With RFS they may be those of accelerated RFS: set `rfs eth0/rx-N = 0` for each queue, and try again \
                 after a few seconds. Remove others first, {remove}"
            );
            assert_eq!(with_rfs, [Err(refused), Ok(())], "{driver}");
        }
        for (driver, name, value) in
            [("ice", "ring_rx", "512"), ("bnxt_en", "gro_hw", "off"), ("mlx4_en", "ring_rx", "256")]
        {
            assert_eq!(says(driver, name, value, 0)[0], Ok(()), "{driver}");
        }
    }

    /// mlx4_en without steering by the device, or whose port is down.
    #[test]
    fn a_driver_that_refuses_to_count_has_no_rules() {
        let (mut model, eth0) = (model(), target("eth0"));
        model.nics[0].driver = Some("mlx4_en".to_owned());
        let rings = answer(&[(2, &4096u32.to_ne_bytes()), (6, &256u32.to_ne_bytes())]);
        let failing = |gets: &[EthtoolGet]| {
            let host = RecordedHost::new().with(&path(EthtoolGet::Rings), rings.clone());
            let refused =
                gets.iter().fold(host, |host, get| host.with_failure(&path(*get), Cause::Errno(22)));
            let knob = crate::knob::find("ring_rx").expect("a knob");
            knob.check(knob.site(&refused, &model, &eth0), "512").map_err(|error| error.to_string())
        };
        assert_eq!(failing(&[EthtoolGet::Rules, EthtoolGet::RuleSlots]).as_deref(), Ok("512"));
        failing(&[EthtoolGet::Rules]).expect_err("one may have gone meanwhile");
    }

    #[test]
    fn nothing_is_done_for_what_is_no_rule() {
        let host = host();
        let before = host.read(&path(EthtoolGet::Rules)).expect("there");
        write(&NtupleRule, &host, "eth0/rule-7", "bad").expect_err("no rule");
        assert_eq!(host.read(&path(EthtoolGet::Rules)).expect("there"), before);
    }
}
