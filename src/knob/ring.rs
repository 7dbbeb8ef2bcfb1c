//! `ring_rx` and `ring_tx`: the number of packets that wait in each queue of the device.

use super::{Doc, Knob, KnobError, value};
use crate::host::{Action, EthtoolGet, Host};
use crate::journal::Armed;
use crate::model::{Model, Nic};
use crate::parse::ethtool::{Count, RingKind, rings};
use crate::plan::Target;
use crate::units::Fact;

/// Descriptors of the rings of one kind.
///
/// Kernel: `Documentation/networking/ethtool-netlink.rst`, `RINGS_SET`.
pub(super) struct Ring {
    name: &'static str,
    kind: RingKind,
    doc: &'static Doc,
}

const TARGET: &str = "`NIC`";
const VALUES: &str = "a number of packets from 1 to the device's maximum";
const SOURCE: &str = "Documentation/networking/ethtool-netlink.rst, \"RINGS_SET\"";
const SINCE: &str = "2.4; netlink since 5.7";
const LOST: &str = "Re-creating the interface, for example by reloading its driver. Neither a link that \
                    goes down and up nor a change of the number of queues loses it.";
const BEWARE: &str = "Drivers silently round it to a multiple or a power of two and raise it to their \
                      minimum; rxlab then restores the old value and reports what the driver would have \
                      kept. Most drivers stop the device or reset the link for it, and some (ena, bnxt) \
                      re-create their interrupts without affinity and XPS; rxlab replays these.";

pub(super) static RING_RX: Ring = Ring {
    name: "ring_rx",
    kind: RingKind::Rx,
    doc: &Doc {
        summary: "Number of received packets that wait in each queue of the device until a CPU takes them. \
                  The device drops what exceeds it.",
        target: TARGET,
        values: VALUES,
        example: "ring_rx eth0 = 1024",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: BEWARE,
    },
};

pub(super) static RING_TX: Ring = Ring {
    name: "ring_tx",
    kind: RingKind::Tx,
    doc: &Doc {
        summary: "Number of packets to send that each queue of the device holds. The kernel keeps the rest.",
        target: TARGET,
        values: VALUES,
        example: "ring_tx eth0 = 1024",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: BEWARE,
    },
};

/// Settings that drivers may discard when they re-create their queues.
const OF_QUEUES: &[&str] = &["irq_affinity", "xps_cpus", "xps_rxqs"];

const FIXED: &str = "the driver does not let its ring sizes be set, or not while the interface is up";

impl Ring {
    fn ask(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<Count, KnobError> {
        let nic = value::nic(self.name, model, target)?;
        let rings = value::ethtool(self.name, host, target, EthtoolGet::Rings, &nic.name, rings)?;
        let lacks = || KnobError::Lacks {
            knob: self.name,
            target: target.clone(),
            why: "the device has no such rings",
        };
        rings.of(self.kind).ok_or_else(lacks)
    }

    fn there(&self, nic: &Nic) -> bool {
        match &nic.hardware.rings {
            Fact::Known(rings) => rings.of(self.kind).is_some(),
            other => *other != Fact::Unsupported,
        }
    }
}

fn meaning(errno: i32) -> Option<&'static str> {
    match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::INVAL => {
            Some("the driver does not support this ring size, or not with these settings")
        }
        rustix::io::Errno::NETDOWN => Some("the interface is down"),
        _ => None,
    }
}

/// True if a driver may have turned `want` into `got`: a multiple or a power of two, or its minimum.
fn rounded(want: u32, got: u32) -> bool {
    got >= want / 2 && got <= want.saturating_mul(2).max(512)
}

impl Knob for Ring {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static Doc {
        self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| self.there(nic))
    }

    fn check(
        &self,
        host: &dyn Host,
        model: &Model,
        target: &Target,
        value: &str,
    ) -> Result<String, KnobError> {
        let limit = self.ask(host, model, target)?.max;
        let size = value::number32(self.name, value, "a number of packets, such as 1024")?;
        if size == 0 || size > limit {
            let why = format!("must be from 1 to {limit} for {target}");
            return Err(KnobError::BadValue { knob: self.name, value: value.to_owned(), why });
        }
        Ok(size.to_string())
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        value::ethtool_path(self.name, model, target, EthtoolGet::Rings)
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        Ok(self.ask(host, model, target)?.now.to_string())
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
        let attributes = self.kind.attribute(value::number32(self.name, value, "a number of packets")?);
        let action = Action::Ethtool { get: EthtoolGet::Rings, nic: nic.name.clone(), attributes };
        value::act_or(self.name, host, target, value, &action, meaning, FIXED)
    }

    fn disturbs(&self) -> &'static [&'static str] {
        OF_QUEUES
    }

    fn difference(&self, want: &str, got: &str) -> String {
        format!("asked for {want}, the driver rounded it to {got}; ask for a number that it keeps")
    }

    // A write that was not read back may have been rounded.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let made_of = |want: &String| match (want.parse(), live.parse()) {
            (Ok(want), Ok(got)) => rounded(want, got),
            _ => false,
        };
        ours.iter().any(|value| value == live) || unsettled.iter().any(made_of)
    }
}

#[cfg(test)]
mod tests {
    use super::{EthtoolGet, Knob, RING_RX, RING_TX};
    use crate::host::{Cause, FlakyHost, Fuse, Mishap, Question, RecordedHost, Rule};
    use crate::knob::testbed::{self, model, target};
    use crate::parse::{push_attribute, push_message};

    /// 256 of 4096 receive descriptors, and no transmit ring that ethtool knows of.
    fn host() -> RecordedHost {
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        push_attribute(&mut message, 2, &4096u32.to_ne_bytes());
        push_attribute(&mut message, 6, &256u32.to_ne_bytes());
        push_message(&mut answer, &message);
        let question = Question::Ethtool(EthtoolGet::Rings, "eth0".parse().expect("a name"));
        RecordedHost::new().with(&question.path(), answer)
    }

    #[test]
    fn a_size_within_the_limits_is_set() {
        let (host, model, eth0) = (host(), model(), target("eth0"));
        assert_eq!(RING_RX.check(&host, &model, &eth0, "01024").as_deref(), Ok("1024"));
        RING_RX.write(&host, &model, &eth0, "1024", &testbed::armed()).expect("written");
        assert_eq!(RING_RX.read(&host, &model, &eth0).as_deref(), Ok("1024"));
        let says = |value: &str| RING_RX.check(&host, &model, &eth0, value).expect_err(value).to_string();
        assert_eq!(says("4097"), "invalid value `4097` for ring_rx: must be from 1 to 4096 for eth0");
        assert_eq!(says("0"), "invalid value `0` for ring_rx: must be from 1 to 4096 for eth0");
        assert_eq!(says("1k"), "invalid value `1k` for ring_rx: expected a number of packets, such as 1024");
        let error = RING_TX.check(&host, &model, &eth0, "1").expect_err("no such ring");
        assert_eq!(error.to_string(), "eth0 has no ring_tx: the device has no such rings");
    }

    #[test]
    fn a_driver_that_only_shows_them_is_no_missing_file() {
        let says = |cause| {
            let rule = Rule { suffix: "rings-get/eth0".into(), mishap: Mishap::Refuse(cause) };
            let host = FlakyHost::new(host(), vec![rule], Fuse::new(None, || ()));
            RING_RX
                .write(&host, &model(), &target("eth0"), "64", &testbed::armed())
                .expect_err("refused")
                .to_string()
        };
        assert!(says(Cause::Missing).starts_with("eth0 has no ring_rx: the driver does not let"));
        assert!(says(Cause::Errno(22)).contains("the driver does not support this ring size"));
    }

    #[test]
    fn a_write_cut_short_may_have_been_rounded() {
        let list = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let (ours, unsettled) = (list(&["256", "1000"]), list(&["1000"]));
        for (live, left) in [("1024", true), ("512", true), ("256", true), ("4096", false), ("128", false)] {
            assert_eq!(RING_RX.left_by(&ours, &unsettled, live), left, "{live}");
        }
        assert!(!RING_RX.left_by(&ours, &[], "1024"));
        assert!(RING_RX.left_by(&[], &list(&["10"]), "64"), "a minimum");
    }
}
