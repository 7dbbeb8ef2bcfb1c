//! Interrupt moderation: how long a device, or one of its receive queues, delays its interrupts, and whether its driver
//! decides that.
//!
//! Kernel: `Documentation/networking/ethtool-netlink.rst`, `COALESCE_SET`; of single queues: ethtool(8), `-Q`, and
//! `ETHTOOL_PERQUEUE` of include/uapi/linux/ethtool.h.

use rustix::io::Errno;

use super::ethtool::{EthtoolKnob, Value};
use rxlab_base::parse::ethtool::{Adaptive, CoalesceParameter, QueueDelay};

const fn moderation(name: &'static str, value: Value) -> EthtoolKnob {
    EthtoolKnob {
        name,
        value,
        absent: "the driver has no such setting; its module may have an option for it (docs/knobs.md)",
        fixed: "the driver reports it but does not let it be set; its module may have an option for it \
                (docs/knobs.md)",
        meanings: &[(
            Errno::INVAL,
            "the driver does not accept this value, or not while it adapts by itself (adaptive_rx, adaptive_tx)",
        )],
    }
}

pub(super) static ADAPTIVE_RX: EthtoolKnob = moderation("adaptive_rx", Value::Adaptive(Adaptive::Rx));
pub(super) static ADAPTIVE_TX: EthtoolKnob = moderation("adaptive_tx", Value::Adaptive(Adaptive::Tx));
pub(super) static RX_USECS: EthtoolKnob =
    moderation("rx_usecs", Value::Delay(CoalesceParameter::RxUsecs, Adaptive::Rx));
pub(super) static RX_FRAMES: EthtoolKnob =
    moderation("rx_frames", Value::Delay(CoalesceParameter::RxFrames, Adaptive::Rx));
pub(super) static TX_USECS: EthtoolKnob =
    moderation("tx_usecs", Value::Delay(CoalesceParameter::TxUsecs, Adaptive::Tx));
pub(super) static TX_FRAMES: EthtoolKnob =
    moderation("tx_frames", Value::Delay(CoalesceParameter::TxFrames, Adaptive::Tx));

/// A knob of the moderation of one receive queue.
const fn of_queue(name: &'static str, which: QueueDelay) -> EthtoolKnob {
    EthtoolKnob {
        name,
        value: Value::QueueDelay(which),
        absent: NO_QUEUE_MODERATION,
        fixed: NO_QUEUE_MODERATION,
        meanings: &[(
            Errno::INVAL,
            "the driver does not accept this value, or not while it adapts by itself (queue_adaptive_rx)",
        )],
    }
}

const NO_QUEUE_MODERATION: &str = "the driver does not moderate single queues (ethtool -Q)";

pub(super) static QUEUE_ADAPTIVE_RX: EthtoolKnob = of_queue("queue_adaptive_rx", QueueDelay::AdaptiveRx);
pub(super) static QUEUE_RX_USECS: EthtoolKnob = of_queue("queue_rx_usecs", QueueDelay::RxUsecs);
pub(super) static QUEUE_RX_FRAMES: EthtoolKnob = of_queue("queue_rx_frames", QueueDelay::RxFrames);

#[cfg(test)]
mod tests {
    use super::{
        ADAPTIVE_RX, ADAPTIVE_TX, QUEUE_ADAPTIVE_RX, QUEUE_RX_FRAMES, QUEUE_RX_USECS, RX_USECS, TX_FRAMES,
    };
    use crate::knob::Knob;
    use crate::knob::testbed::{answer, check, list, model, path, read, refusal, refusing, target, write};
    use rxlab_base::parse::ethtool::queue_coalesce::{COALESCE, QUEUE_COALESCE, QUEUE_MASK};
    use rxlab_base::parse::one_message;
    use rxlab_sys::{Cause, EthtoolGet, RecordedHost};

    /// Adaptive on receive, at 8 microseconds.
    fn host() -> RecordedHost {
        let answer = answer(&[(2, &8u32.to_ne_bytes()), (11, &[1])]);
        RecordedHost::new().with(&path(EthtoolGet::Coalesce), answer)
    }

    #[test]
    fn numbers_and_switches_are_set_alone() {
        let (host, eth0) = (host(), "eth0");
        let read = |knob: &dyn Knob| read(knob, &host, eth0).map_err(|error| error.to_string());
        assert_eq!(check(&RX_USECS, &host, eth0, "050").as_deref(), Ok("50"));
        write(&RX_USECS, &host, eth0, "50").expect("written");
        assert_eq!((read(&RX_USECS).as_deref(), read(&ADAPTIVE_RX).as_deref()), (Ok("50"), Ok("on")));
        let (model, target) = (model(), target(eth0));
        let remark = || RX_USECS.remark(RX_USECS.site(&host, &model, &target), "50");
        assert_eq!(
            remark().as_deref(),
            Some("adaptive_rx eth0 is on: the driver changes this number by itself")
        );
        write(&ADAPTIVE_RX, &host, eth0, "off").expect("written");
        assert_eq!((read(&RX_USECS).as_deref(), read(&ADAPTIVE_RX).as_deref()), (Ok("50"), Ok("off")));
        assert_eq!(remark(), None);
        for knob in [&ADAPTIVE_TX, &TX_FRAMES] {
            let why = read(knob).expect_err("not shown");
            assert!(why.contains("its module may have an option"), "{why}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        let says = |knob: &dyn Knob, value: &str| refusal(knob, &host(), "eth0", value);
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
            let host = refusing(host(), "coalesce-get/eth0", cause);
            write(&RX_USECS, &host, "eth0", "5").expect_err("refused").to_string()
        };
        assert!(says(Cause::Missing).contains("reports it but does not let it be set; its module"));
        assert!(says(Cause::Errno(22)).contains("the driver does not accept this value"));
    }

    #[test]
    fn a_write_cut_short_may_have_been_rounded() {
        let left = |live: &str| RX_USECS.left_by(&list(&["8", "51"]), &list(&["51"]), live);
        assert!(left("50") && left("8") && !left("200") && !left("9"));
        assert!(
            ADAPTIVE_RX.left_by(&[], &list(&["on"]), "on")
                && !ADAPTIVE_RX.left_by(&[], &list(&["on"]), "off")
        );
    }

    /// Composed: both queues of `eth0` adapt by themselves, at 8 microseconds.
    fn by_queue() -> RecordedHost {
        let answer = [0, 1].map(|queue| {
            let mut message = vec![0; QUEUE_COALESCE];
            (message[QUEUE_MASK], message[COALESCE + 4], message[COALESCE + 40]) = (1 << queue, 8, 1);
            one_message(&message)
        });
        RecordedHost::new().with(&path(EthtoolGet::QueueCoalesce), answer.concat())
    }

    #[test]
    fn each_queue_has_its_own_value() {
        let (host, first, second) = (by_queue(), "eth0/rx-0", "eth0/rx-1");
        let all: [(&dyn Knob, &str, &str); 3] =
            [(&QUEUE_ADAPTIVE_RX, "on", "off"), (&QUEUE_RX_USECS, "8", "50"), (&QUEUE_RX_FRAMES, "0", "64")];
        for (knob, before, after) in all {
            assert_eq!(check(knob, &host, second, after).as_deref(), Ok(after));
            write(knob, &host, "eth0/rx-1", after).expect("written");
            let values = [first, second].map(|at| read(knob, &host, at).expect("there"));
            assert_eq!(values, [before, after], "{}", knob.name());
        }
        let bad = refusal(&QUEUE_RX_USECS, &host, first, "-1");
        assert_eq!(bad, "invalid value `-1` for queue_rx_usecs: expected a whole number");
    }

    #[test]
    fn a_driver_that_moderates_no_single_queue_is_named() {
        let says = |host: &RecordedHost| refusal(&QUEUE_RX_USECS, host, "eth0/rx-0", "50");
        let why = "eth0/rx-0 has no queue_rx_usecs: the driver does not moderate single queues (ethtool -Q)";
        assert_eq!(says(&RecordedHost::new()), why);
        let host = refusing(by_queue(), "perqueue/eth0", Cause::Errno(22));
        let error = write(&QUEUE_RX_USECS, &host, "eth0/rx-0", "5").expect_err("refused").to_string();
        assert!(error.contains("the driver does not accept this value"), "{error}");
    }
}
