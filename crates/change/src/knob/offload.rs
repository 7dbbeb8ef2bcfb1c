//! Offloads: work on packets that the device, or the kernel right after it, does before the protocols.
//!
//! Kernel: `Documentation/networking/netdev-features.rst`.

use super::ethtool::{EthtoolKnob, Value};

/// Properties that all offloads share. Each entry has the rest.
const OFFLOAD: EthtoolKnob = EthtoolKnob {
    name: "",
    value: Value::Offload(""),
    absent: "this kernel does not know the offload",
    fixed: "",
    meanings: &[],
};

pub(super) static GRO: EthtoolKnob = EthtoolKnob {
    name: "gro",
    value: Value::Offload("rx-gro"),
    fixed: "the kernel does not let rx-gro change (fixed)",
    ..OFFLOAD
};

pub(super) static GRO_HW: EthtoolKnob = EthtoolKnob {
    name: "gro_hw",
    value: Value::Offload("rx-gro-hw"),
    fixed: "the device has no rx-gro-hw, or the kernel does not let it change (fixed)",
    ..OFFLOAD
};

pub(super) static UDP_GRO_FORWARDING: EthtoolKnob = EthtoolKnob {
    name: "udp_gro_forwarding",
    value: Value::Offload("rx-udp-gro-forwarding"),
    fixed: "the kernel does not let rx-udp-gro-forwarding change (fixed)",
    ..OFFLOAD
};

pub(super) static LRO: EthtoolKnob = EthtoolKnob {
    name: "lro",
    value: Value::Offload("rx-lro"),
    fixed: "the device has no rx-lro, or the kernel does not let it change (fixed)",
    ..OFFLOAD
};

pub(super) static RX_CHECKSUM: EthtoolKnob = EthtoolKnob {
    name: "rx_checksum",
    value: Value::Offload("rx-checksum"),
    fixed: "the device has no rx-checksum, or the kernel does not let it change (fixed)",
    ..OFFLOAD
};

pub(super) static NTUPLE: EthtoolKnob = EthtoolKnob {
    name: "ntuple",
    value: Value::FlowRules("rx-ntuple-filter"),
    fixed: "the device has no rx-ntuple-filter, or the kernel does not let it change (fixed)",
    ..OFFLOAD
};

#[cfg(test)]
mod tests {
    use super::{GRO, GRO_HW, LRO, NTUPLE, RX_CHECKSUM, UDP_GRO_FORWARDING};
    use crate::knob::Knob;
    use crate::knob::testbed::{self, check, path, read, refusal, write};
    use rxlab_base::parse::ethtool::flow_bytes;
    use rxlab_base::parse::one_message;
    use rxlab_sys::{EthtoolGet, RecordedHost};

    /// Supported features and those that are on; `rx-lro` is fixed.
    fn host() -> RecordedHost {
        let known = ["rx-gro", "rx-lro", "rx-ntuple-filter"];
        let answer = testbed::features_answer(&known, &["rx-gro", "rx-ntuple-filter"], &["rx-lro"]);
        RecordedHost::new().with(&path(EthtoolGet::Features), answer)
    }

    #[test]
    fn an_offload_goes_off_and_on() {
        let (host, eth0) = (host(), "eth0");
        for value in ["off", "on", "on"] {
            assert_eq!(check(&GRO, &host, eth0, value).as_deref(), Ok(value));
            write(&GRO, &host, eth0, value).expect("written");
            assert_eq!(read(&GRO, &host, eth0).as_deref(), Ok(value));
            assert_eq!(read(&NTUPLE, &host, eth0).as_deref(), Ok("on"), "the others stay");
        }
    }

    #[test]
    fn each_offload_has_its_own_name_in_the_kernel() {
        let all = [
            (&GRO, "rx-gro"),
            (&GRO_HW, "rx-gro-hw"),
            (&LRO, "rx-lro"),
            (&RX_CHECKSUM, "rx-checksum"),
            (&UDP_GRO_FORWARDING, "rx-udp-gro-forwarding"),
            (&NTUPLE, "rx-ntuple-filter"),
        ];
        let names = all.map(|(_, name)| name);
        for (knob, name) in all {
            let host = RecordedHost::new()
                .with(&path(EthtoolGet::Features), testbed::features_answer(&names, &[], &[]));
            testbed::write(knob, &host, "eth0", "on").expect("written");
            let on: Vec<&str> = all
                .iter()
                .filter(|(knob, _)| read(*knob, &host, "eth0").as_deref() == Ok("on"))
                .map(|(_, name)| *name)
                .collect();
            assert_eq!(on, [name]);
        }
    }

    #[test]
    fn what_cannot_change_is_named() {
        let check = |knob: &dyn Knob, value: &str| {
            check(knob, &host(), "eth0", value).map_err(|error| error.to_string())
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
        let (host, eth0) = (host(), "eth0");
        write(&LRO, &host, eth0, "on").expect("no error");
        assert_eq!(read(&LRO, &host, eth0).as_deref(), Ok("off"));
    }

    #[test]
    fn flow_rules_are_not_lost_with_their_switch() {
        let rules = one_message(&flow_bytes(7, "tcp4 dst-port 80 action 1").expect("a rule"));
        let with = host().with(&path(EthtoolGet::Rules), rules);
        let error = refusal(&NTUPLE, &with, "eth0", "off");
        assert!(
            error.ends_with("and would lose: remove first, as with `ntuple_rule eth0/rule-7 = none`"),
            "{error}"
        );
        assert_eq!(check(&NTUPLE, &with, "eth0", "on").as_deref(), Ok("on"));
        for none in [host(), host().with(&path(EthtoolGet::Rules), Vec::new())] {
            assert_eq!(check(&NTUPLE, &none, "eth0", "off").as_deref(), Ok("off"));
        }
    }
}
