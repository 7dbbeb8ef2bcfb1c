//! Interrupt moderation: how long a device delays its interrupts, and whether its driver decides that.

use super::{Doc, Knob, KnobError, value};
use crate::host::{Action, EthtoolGet, Host};
use crate::journal::Armed;
use crate::model::{Model, Nic};
use crate::parse::ethtool::{Adaptive, Coalesce, Holdback, coalesce};
use crate::plan::Target;
use crate::units::Fact;

/// One number or one switch of interrupt moderation.
///
/// Kernel: `Documentation/networking/ethtool-netlink.rst`, `COALESCE_SET`.
pub(super) struct Moderation {
    name: &'static str,
    what: What,
    doc: &'static Doc,
}

/// The attribute.
#[derive(Clone, Copy)]
enum What {
    /// A number, and the switch that lets the driver change it by itself.
    Number(Holdback, Adaptive),
    Switch(Adaptive),
}

const TARGET: &str = "`NIC`";
const SOURCE: &str = "Documentation/networking/ethtool-netlink.rst, \"COALESCE_SET\"";
const SINCE: &str = "2.6; netlink since 5.7";
const LOST: &str = "Re-creating the interface, for example by reloading its driver. Some drivers forget it \
                    in a reset, or when the number of queues changes.";
const SWITCH: &str = "`on` or `off`";
const USECS: &str = "microseconds; 0 for none";
const FRAMES: &str = "a number of packets; for many drivers 0 or 1 means that only the time limits the delay";
const NUMBER_BEWARE: &str = "With the adaptive switch on, the driver changes it by itself; `adaptive_rx` \
                             and `adaptive_tx` are applied first. Drivers round it to their own steps; \
                             rxlab then restores the old value and reports what the driver kept. Small \
                             numbers can have special meanings: e1000e uses 1 and 3 for its adaptive modes. \
                             ixgbe may reset the device, and with it the link, when the delay crosses 10 \
                             us. If a driver does not support it, a module option can be the only way \
                             (InterruptThrottleRate, RxIntDelay and TxIntDelay of e1000 and e1000e, \
                             InterruptThrottleRate of Intel's own igb and ixgbe): it takes effect when the \
                             module is loaded, which takes the link down and which rxlab never does.";
const SWITCH_BEWARE: &str = "While it is on, the numbers of its direction show the driver's latest choice. \
                             Some drivers (mlx5) stop their queues for a moment.";

pub(super) static ADAPTIVE_RX: Moderation = Moderation {
    name: "adaptive_rx",
    what: What::Switch(Adaptive::Rx),
    doc: &Doc {
        summary: "Lets the driver choose how long it delays receive interrupts.",
        target: TARGET,
        values: SWITCH,
        example: "adaptive_rx eth0 = off",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: SWITCH_BEWARE,
    },
};

pub(super) static ADAPTIVE_TX: Moderation = Moderation {
    name: "adaptive_tx",
    what: What::Switch(Adaptive::Tx),
    doc: &Doc {
        summary: "Lets the driver choose how long it delays transmit interrupts.",
        target: TARGET,
        values: SWITCH,
        example: "adaptive_tx eth0 = off",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: SWITCH_BEWARE,
    },
};

pub(super) static RX_USECS: Moderation = Moderation {
    name: "rx_usecs",
    what: What::Number(Holdback::RxUsecs, Adaptive::Rx),
    doc: &Doc {
        summary: "How long the device delays a receive interrupt so that it covers several packets: fewer \
                  interrupts, more latency.",
        target: TARGET,
        values: USECS,
        example: "rx_usecs eth0 = 50",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: NUMBER_BEWARE,
    },
};

pub(super) static RX_FRAMES: Moderation = Moderation {
    name: "rx_frames",
    what: What::Number(Holdback::RxFrames, Adaptive::Rx),
    doc: &Doc {
        summary: "Number of packets after which the device raises a delayed receive interrupt.",
        target: TARGET,
        values: FRAMES,
        example: "rx_frames eth0 = 64",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: NUMBER_BEWARE,
    },
};

pub(super) static TX_USECS: Moderation = Moderation {
    name: "tx_usecs",
    what: What::Number(Holdback::TxUsecs, Adaptive::Tx),
    doc: &Doc {
        summary: "How long the device delays the interrupt that reports sent packets.",
        target: TARGET,
        values: USECS,
        example: "tx_usecs eth0 = 50",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: NUMBER_BEWARE,
    },
};

pub(super) static TX_FRAMES: Moderation = Moderation {
    name: "tx_frames",
    what: What::Number(Holdback::TxFrames, Adaptive::Tx),
    doc: &Doc {
        summary: "Number of sent packets after which the device raises the delayed interrupt.",
        target: TARGET,
        values: FRAMES,
        example: "tx_frames eth0 = 64",
        source: SOURCE,
        since: SINCE,
        lost: LOST,
        beware: NUMBER_BEWARE,
    },
};

const NOT_SHOWN: &str =
    "the driver has no such setting; its module may have an option for it (docs/knobs.md)";
const FIXED: &str =
    "the driver reports it but does not let it be set; its module may have an option for it (docs/knobs.md)";

impl What {
    fn text(self, coalesce: &Coalesce) -> Option<String> {
        match self {
            What::Number(which, _) => coalesce.holdback(which).map(|number| number.to_string()),
            What::Switch(which) => coalesce.adaptive(which).map(value::on_off),
        }
    }
}

impl Moderation {
    fn ask(&self, host: &dyn Host, nic: &Nic, target: &Target) -> Result<Coalesce, KnobError> {
        value::ethtool(self.name, host, target, EthtoolGet::Coalesce, &nic.name, coalesce)
    }
}

fn meaning(errno: i32) -> Option<&'static str> {
    (errno == rustix::io::Errno::INVAL.raw_os_error()).then_some(
        "the driver does not accept this value, or not while it adapts by itself (adaptive_rx, adaptive_tx)",
    )
}

/// True if a driver may have rounded `want` to `got`: it counts in its own steps.
fn rounded(want: u32, got: u32) -> bool {
    got >= want / 2 && got <= want.saturating_mul(2).max(16)
}

impl Knob for Moderation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn doc(&self) -> &'static Doc {
        self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::nic_targets(model, |nic| match &nic.hardware.coalesce {
            Fact::Known(coalesce) => self.what.text(coalesce).is_some(),
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
        self.read(host, model, target)?;
        match self.what {
            What::Switch(_) => value::switch(self.name, value).map(value::on_off),
            What::Number(..) => value::number32(self.name, value, "a whole number").map(|n| n.to_string()),
        }
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>, KnobError> {
        value::ethtool_path(self.name, model, target, EthtoolGet::Coalesce)
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String, KnobError> {
        let shown = self.ask(host, value::nic(self.name, model, target)?, target)?;
        let lacks = || KnobError::Lacks { knob: self.name, target: target.clone(), why: NOT_SHOWN };
        self.what.text(&shown).ok_or_else(lacks)
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
        let attributes = match self.what {
            What::Switch(which) => which.attribute(value::switch(self.name, value)?),
            What::Number(which, _) => which.attribute(value::number32(self.name, value, "a whole number")?),
        };
        let action = Action::Ethtool { get: EthtoolGet::Coalesce, nic: nic.name.clone(), attributes };
        value::act_or(self.name, host, target, value, &action, meaning, FIXED)
    }

    // A write that was not read back may have been rounded.
    fn left_by(&self, ours: &[String], unsettled: &[String], live: &str) -> bool {
        let made_of = |want: &String| match (want.parse(), live.parse()) {
            (Ok(want), Ok(got)) => rounded(want, got),
            _ => want == live,
        };
        ours.iter().any(|value| value == live) || unsettled.iter().any(made_of)
    }

    fn remark(&self, host: &dyn Host, model: &Model, target: &Target, _value: &str) -> Option<String> {
        let What::Number(_, adaptive) = self.what else { return None };
        let shown = self.ask(host, value::nic(self.name, model, target).ok()?, target).ok()?;
        let switch = match adaptive {
            Adaptive::Rx => "adaptive_rx",
            Adaptive::Tx => "adaptive_tx",
        };
        let on = shown.adaptive(adaptive) == Some(true);
        on.then(|| format!("{switch} {target} is on: the driver changes this number by itself"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ADAPTIVE_RX, ADAPTIVE_TX, EthtoolGet, Knob, RX_USECS, TX_FRAMES};
    use crate::host::{Cause, FlakyHost, Fuse, Mishap, Question, RecordedHost, Rule};
    use crate::knob::testbed::{self, model, target};
    use crate::parse::{push_attribute, push_message};

    /// Adaptive on receive, at 8 microseconds.
    fn host() -> RecordedHost {
        let (mut message, mut answer) = (Vec::new(), Vec::new());
        push_attribute(&mut message, 2, &8u32.to_ne_bytes());
        push_attribute(&mut message, 11, &[1]);
        push_message(&mut answer, &message);
        let question = Question::Ethtool(EthtoolGet::Coalesce, "eth0".parse().expect("a name"));
        RecordedHost::new().with(&question.path(), answer)
    }

    #[test]
    fn numbers_and_switches_are_set_alone() {
        let (host, model, eth0, armed) = (host(), model(), target("eth0"), testbed::armed());
        let read = |knob: &dyn Knob| knob.read(&host, &model, &eth0).map_err(|error| error.to_string());
        assert_eq!(RX_USECS.check(&host, &model, &eth0, "050").as_deref(), Ok("50"));
        RX_USECS.write(&host, &model, &eth0, "50", &armed).expect("written");
        assert_eq!((read(&RX_USECS).as_deref(), read(&ADAPTIVE_RX).as_deref()), (Ok("50"), Ok("on")));
        let remark = RX_USECS.remark(&host, &model, &eth0, "50");
        assert_eq!(
            remark.as_deref(),
            Some("adaptive_rx eth0 is on: the driver changes this number by itself")
        );
        ADAPTIVE_RX.write(&host, &model, &eth0, "off", &armed).expect("written");
        assert_eq!((read(&RX_USECS).as_deref(), read(&ADAPTIVE_RX).as_deref()), (Ok("50"), Ok("off")));
        assert_eq!(RX_USECS.remark(&host, &model, &eth0, "50"), None);
        for knob in [&ADAPTIVE_TX, &TX_FRAMES] {
            let why = read(knob).expect_err("not shown");
            assert!(why.contains("its module may have an option"), "{why}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let says = |knob: &dyn Knob, value: &str| {
            knob.check(&host(), &model(), &target("eth0"), value).expect_err(value).to_string()
        };
        assert_eq!(says(&ADAPTIVE_RX, "1"), "invalid value `1` for adaptive_rx: expected on or off");
        assert_eq!(says(&RX_USECS, "-1"), "invalid value `-1` for rx_usecs: expected a whole number");
        assert_eq!(
            says(&RX_USECS, "4294967296"),
            "invalid value `4294967296` for rx_usecs: expected a whole number"
        );
    }

    #[test]
    fn refusals_of_the_driver_are_explained() {
        let says = |cause| {
            let rule = Rule { suffix: "coalesce-get/eth0".into(), mishap: Mishap::Refuse(cause) };
            let host = FlakyHost::new(host(), vec![rule], Fuse::new(None, || ()));
            RX_USECS
                .write(&host, &model(), &target("eth0"), "5", &testbed::armed())
                .expect_err("refused")
                .to_string()
        };
        assert!(says(Cause::Missing).contains("reports it but does not let it be set; its module"));
        assert!(says(Cause::Errno(22)).contains("the driver does not accept this value"));
    }

    #[test]
    fn a_write_cut_short_may_have_been_rounded() {
        let list = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let left = |live: &str| RX_USECS.left_by(&list(&["8", "51"]), &list(&["51"]), live);
        assert!(left("50") && left("8") && !left("200") && !left("9"));
        assert!(
            ADAPTIVE_RX.left_by(&[], &list(&["on"]), "on")
                && !ADAPTIVE_RX.left_by(&[], &list(&["on"]), "off")
        );
    }
}
