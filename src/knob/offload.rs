//! Offloads: work on packets that the device, or the kernel right after it, does before the protocols.

use super::{Doc, Knob, KnobError, value};
use crate::host::{Action, EthtoolGet, Host};
use crate::journal::{Armed, Displaced};
use crate::model::Model;
use crate::parse::ethtool::{Feature, features, rules, wanted};
use crate::plan::Target;
use crate::units::Fact;

/// One offload that can be on or off.
///
/// Kernel: `Documentation/networking/netdev-features.rst`.
pub(super) struct Offload {
    name: &'static str,
    /// Name in the kernel.
    feature: &'static str,
    /// Error if the kernel reports it as fixed.
    fixed: &'static str,
    /// True if switching it off removes flow rules.
    holds_rules: bool,
    disturbs: &'static [&'static str],
    doc: &'static Doc,
}

const TARGET: &str = "`NIC`";
const VALUES: &str = "`on` or `off`";
const LOST: &str = "Re-creating the interface, for example by reloading its driver. A bond, a bridge or XDP \
                    on it may switch it.";
const SOURCE: &str = "Documentation/networking/netdev-features.rst";

/// Settings that drivers may discard when they restart their device.
const OF_QUEUES: &[&str] = &["irq_affinity", "xps_cpus", "xps_rxqs"];

/// Settings that disappear with [`NTUPLE`].
const RULE: &str = "ntuple_rule";

pub(super) static GRO: Offload = Offload {
    name: "gro",
    feature: "rx-gro",
    fixed: "the kernel does not let rx-gro change (fixed)",
    holds_rules: false,
    disturbs: &[],
    doc: &Doc {
        summary: "Merges packets of a flow that arrive close together into one large packet before the \
                  protocols see them: less work per byte.",
        target: TARGET,
        values: VALUES,
        example: "gro eth0 = on",
        source: SOURCE,
        since: "2.6.29; netlink since 5.7",
        lost: LOST,
        beware: "While it is on, a veth polls with NAPI (since 5.13), so that its packets can be merged and \
                 threaded.",
    },
};

pub(super) static LRO: Offload = Offload {
    name: "lro",
    feature: "rx-lro",
    fixed: "the device has no rx-lro, or the kernel does not let it change (fixed)",
    holds_rules: false,
    disturbs: OF_QUEUES,
    doc: &Doc {
        summary: "Merges packets of a flow in the device or its driver. Older than `gro`, and loses \
                  information about the merged packets.",
        target: TARGET,
        values: VALUES,
        example: "lro eth0 = off",
        source: SOURCE,
        since: "2.6.24; netlink since 5.7",
        lost: LOST,
        beware: "Not for forwarding: the kernel switches it off when forwarding or bridging begins, and \
                 keeps it off. Drivers reset the device for it, and bnxt re-creates its interrupts without \
                 affinity; rxlab replays that.",
    },
};

pub(super) static RX_CHECKSUM: Offload = Offload {
    name: "rx_checksum",
    feature: "rx-checksum",
    fixed: "the device has no rx-checksum, or the kernel does not let it change (fixed)",
    holds_rules: false,
    disturbs: &[],
    doc: &Doc {
        summary: "Lets the device verify checksums of received packets.",
        target: TARGET,
        values: VALUES,
        example: "rx_checksum eth0 = on",
        source: SOURCE,
        since: "2.4; netlink since 5.7",
        lost: LOST,
        beware: "Without it the CPU reads every byte, and some drivers cannot enable `lro`. Drivers reset \
                 the device for it: on e1000e the link goes down for seconds.",
    },
};

pub(super) static NTUPLE: Offload = Offload {
    name: "ntuple",
    feature: "rx-ntuple-filter",
    fixed: "the device has no rx-ntuple-filter, or the kernel does not let it change (fixed)",
    holds_rules: true,
    disturbs: &[RULE],
    doc: &Doc {
        summary: "Lets the device follow flow rules (`ntuple_rule`), and steer flows by itself to the CPU \
                  that reads them (accelerated RFS).",
        target: TARGET,
        values: VALUES,
        example: "ntuple eth0 = on",
        source: SOURCE,
        since: "2.6.34; netlink since 5.7",
        lost: LOST,
        beware: "Switching it off removes all flow rules: rxlab refuses while there are any, and does not \
                 undo it while there are rules it did not find before. Some drivers reset the device for \
                 it. Applied before the rules.",
    },
};

impl Offload {
    fn ask(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<Feature, KnobError> {
        let nic = value::nic(self.name, model, target)?;
        let all = value::ethtool(self.name, host, target, EthtoolGet::Features, &nic.name, features)?;
        let unknown = || self.lacks(target, "this kernel does not know the offload");
        all.into_iter().find(|feature| feature.name == self.feature).ok_or_else(unknown)
    }

    fn lacks(&self, target: &Target, why: &'static str) -> KnobError {
        KnobError::Lacks { knob: self.name, target: target.clone(), why }
    }

    /// Refuses to remove flow rules that no setting names and that are not `kept`.
    fn keeps_rules(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        kept: &[Displaced],
    ) -> Result<(), KnobError> {
        let nic = value::nic(self.name, model, target)?;
        let mut lost = match value::ethtool(self.name, host, target, EthtoolGet::Rules, &nic.name, rules) {
            Ok(rules) => rules,
            // Some drivers have the switch only for accelerated RFS.
            Err(KnobError::Unsupported { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let is_at = |displaced: &Displaced, place: u32| {
            let at = |location: u32| location == place;
            displaced.knob == RULE
                && matches!(displaced.target, Target::Rule { location, .. } if at(location))
        };
        lost.retain(|rule| kept.iter().all(|displaced| !is_at(displaced, rule.location)));
        let (Some(first), number) = (lost.first(), lost.len()) else { return Ok(()) };
        let rules = if number == 1 { "a flow rule".to_owned() } else { format!("{number} flow rules") };
        let why = format!(
            "{target} has {rules} that would be removed; remove first: ntuple_rule {target}/rule-{} = none",
            first.location
        );
        Err(KnobError::BadValue { knob: self.name, value: value::on_off(false), why })
    }
}

impl Knob for Offload {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static Doc {
        self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| match &nic.hardware.features {
            Fact::Known(all) => all.iter().any(|one| one.name == self.feature && one.changeable),
            other => *other != Fact::Unsupported,
        })
    }

    fn check(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        let now = self.ask(host, model, target)?;
        let on = value::switch(self.name, value)?;
        if on != now.on && !now.changeable {
            return Err(self.lacks(target, self.fixed));
        }
        if self.holds_rules && now.on && !on {
            self.keeps_rules(host, model, target, &[])?;
        }
        Ok(value::on_off(on))
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        value::ethtool_path(self.name, model, target, EthtoolGet::Features)
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        Ok(value::on_off(self.ask(host, model, target)?.on))
    }

    fn write(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
        _armed: &Armed,
    ) -> Result<(), KnobError> {
        let nic = value::nic(self.name, model, target)?;
        let attributes = wanted(self.feature, value::switch(self.name, value)?);
        let action = Action::Ethtool { get: EthtoolGet::Features, nic: nic.name.clone(), attributes };
        value::act_or(self.name, host, target, value, &action, |_| None, self.fixed)
    }

    fn disturbs(&self) -> &'static [&'static str] {
        self.disturbs
    }

    fn check_restore(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
        kept: &[Displaced],
    ) -> Result<(), KnobError> {
        if self.holds_rules && !value::switch(self.name, value)? {
            self.keeps_rules(host, model, target, kept)?;
        }
        Ok(())
    }

    fn difference(&self, want: &str, got: &str) -> String {
        format!(
            "asked for {want}, it stays {got}: another offload, or a device on top of the interface, \
             requires it"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, GRO, Knob, LRO, NTUPLE, RX_CHECKSUM};
    use crate::host::{Question, RecordedHost};
    use crate::knob::testbed::{self, model, target};
    use crate::parse::ethtool::flow_bytes;
    use crate::parse::push_message;

    /// Supported features and those that are on; `rx-lro` is fixed.
    fn host() -> RecordedHost {
        let known = ["rx-gro", "rx-lro", "rx-ntuple-filter"];
        path_with(
            RecordedHost::new(),
            EthtoolGet::Features,
            testbed::features_answer(&known, &["rx-gro", "rx-ntuple-filter"], &["rx-lro"]),
        )
    }

    fn path_with(host: RecordedHost, get: EthtoolGet, answer: Vec<u8>) -> RecordedHost {
        host.with(&Question::Ethtool(get, "eth0".parse().expect("a name")).path(), answer)
    }

    #[test]
    fn an_offload_goes_off_and_on() {
        let (host, model, eth0, armed) = (host(), model(), target("eth0"), testbed::armed());
        for value in ["off", "on", "on"] {
            assert_eq!(GRO.check(&host, &model, &eth0, value).as_deref(), Ok(value));
            GRO.write(&host, &model, &eth0, value, &armed).expect("written");
            assert_eq!(GRO.read(&host, &model, &eth0).as_deref(), Ok(value));
            assert_eq!(NTUPLE.read(&host, &model, &eth0).as_deref(), Ok("on"), "the others stay");
        }
    }

    #[test]
    fn what_cannot_change_is_named() {
        let check = |knob: &dyn Knob, value: &str| {
            knob.check(&host(), &model(), &target("eth0"), value).map_err(|error| error.to_string())
        };
        let fixed = check(&LRO, "on").expect_err("fixed");
        assert_eq!(
            fixed,
            "eth0 has no lro: the device has no rx-lro, or the kernel does not let it change (fixed)"
        );
        assert_eq!(check(&LRO, "off").as_deref(), Ok("off"), "it is so already");
        let unknown = check(&RX_CHECKSUM, "on").expect_err("not in the list");
        assert_eq!(unknown, "eth0 has no rx_checksum: this kernel does not know the offload");
        assert_eq!(check(&GRO, "yes").expect_err("no"), "invalid value `yes` for gro: expected on or off");
    }

    /// The kernel accepts the request and keeps the feature as it is.
    #[test]
    fn a_fixed_offload_stays_as_it_is() {
        let (host, model, eth0) = (host(), model(), target("eth0"));
        LRO.write(&host, &model, &eth0, "on", &testbed::armed()).expect("no error");
        assert_eq!(LRO.read(&host, &model, &eth0).as_deref(), Ok("off"));
    }

    #[test]
    fn flow_rules_are_not_lost_with_their_switch() {
        let mut rules = Vec::new();
        push_message(&mut rules, &flow_bytes(7, "tcp4 dst-port 80 action 1").expect("a rule"));
        let with = path_with(host(), EthtoolGet::Rules, rules);
        let error = NTUPLE.check(&with, &model(), &target("eth0"), "off").expect_err("a rule");
        assert!(
            error
                .to_string()
                .ends_with("a flow rule that would be removed; remove first: ntuple_rule eth0/rule-7 = none"),
            "{error}"
        );
        assert_eq!(NTUPLE.check(&with, &model(), &target("eth0"), "on").as_deref(), Ok("on"));
        for none in [host(), path_with(host(), EthtoolGet::Rules, Vec::new())] {
            assert_eq!(NTUPLE.check(&none, &model(), &target("eth0"), "off").as_deref(), Ok("off"));
        }
    }
}
