//! Interrupt moderation of single receive queues.
//!
//! Kernel: ethtool(8), `-Q`; `ETHTOOL_PERQUEUE` of include/uapi/linux/ethtool.h.

use rustix::io::Errno;

use super::error::Meanings;
use super::{Doc, Knob, KnobError, Result, value};
use crate::host::{Action, EthtoolChange, EthtoolGet, Host, Question};
use crate::journal::Armed;
use crate::model::Model;
use crate::parse::ethtool::{QueueDelay, queue_coalesce};
use crate::plan::Target;

/// A value of the moderation of one queue.
pub(super) struct QueueCoalesceKnob {
    doc: Doc,
    which: QueueDelay,
}

const ABSENT: &str = "the driver does not moderate single queues (ethtool -Q)";
const MEANINGS: Meanings = &[(
    Errno::INVAL,
    "the driver does not accept this value, or not while it adapts by itself (queue_adaptive_rx)",
)];
const LOST: &str = "Re-creating the interface, for example by reloading its driver. With some drivers also a change of the \
                    number of queues or of their rings.";
const NUMBER_BEWARE: &str = "With `queue_adaptive_rx` on, the driver changes it by itself. Drivers round it to their own \
                             steps; rxlab then restores the old value and reports what the driver kept. A driver that \
                             does not have the value shows 0. Some drivers hold back the transmit interrupt of the same \
                             queue with it. Setting the value of all queues replaces it; undo sets both again.";

const fn of_queue(
    name: &'static str,
    which: QueueDelay,
    values: &'static str,
    summary: &'static str,
    example: &'static str,
) -> QueueCoalesceKnob {
    QueueCoalesceKnob {
        doc: Doc {
            name,
            summary,
            target: "`NIC/rx-N`",
            values,
            example,
            source: "ethtool(8), -Q",
            since: "4.6",
            lost: LOST,
            beware: match which {
                QueueDelay::AdaptiveRx => {
                    "While it is on, the numbers of the queue show the driver's latest choice. Setting `adaptive_rx` \
                     replaces it; undo sets both again."
                }
                _ => NUMBER_BEWARE,
            },
        },
        which,
    }
}

/// `adaptive_rx` of one queue.
pub(super) static QUEUE_ADAPTIVE_RX: QueueCoalesceKnob = of_queue(
    "queue_adaptive_rx",
    QueueDelay::AdaptiveRx,
    "`on` or `off`",
    "`adaptive_rx` of a single receive queue.",
    "queue_adaptive_rx eth0/rx-0 = off",
);

/// `rx_usecs` of one queue.
pub(super) static QUEUE_RX_USECS: QueueCoalesceKnob = of_queue(
    "queue_rx_usecs",
    QueueDelay::RxUsecs,
    "microseconds; 0 for none",
    "`rx_usecs` of a single receive queue: the queue of a bulk transfer can wait for more packets while the others \
     interrupt at once.",
    "queue_rx_usecs eth0/rx-0 = 50",
);

/// `rx_frames` of one queue.
pub(super) static QUEUE_RX_FRAMES: QueueCoalesceKnob = of_queue(
    "queue_rx_frames",
    QueueDelay::RxFrames,
    "a number of packets; for many drivers 0 or 1 means that only the time limits the delay",
    "`rx_frames` of a single receive queue.",
    "queue_rx_frames eth0/rx-0 = 64",
);

impl QueueCoalesceKnob {
    fn is_switch(&self) -> bool {
        self.which == QueueDelay::AdaptiveRx
    }

    fn text(&self, number: u32) -> String {
        if self.is_switch() { value::on_off(number != 0) } else { number.to_string() }
    }

    fn number(&self, value: &str) -> Result<u32> {
        match self.is_switch() {
            true => value::switch(self.doc.name, value).map(u32::from),
            false => value::number32(self.doc.name, value, "a whole number"),
        }
    }
}

impl Knob for QueueCoalesceKnob {
    fn doc(&self) -> &Doc {
        &self.doc
    }

    fn targets(&self, model: &Model) -> Vec<Target> {
        value::rx_targets(model, |queue| !queue.irqs.is_empty())
    }

    fn check(&self, host: &dyn Host, model: &Model, target: &Target, value: &str) -> Result<String> {
        self.read(host, model, target)?;
        self.number(value).map(|number| self.text(number))
    }

    fn locate(&self, model: &Model, target: &Target) -> Result<Vec<String>> {
        let (nic, _) = value::rx_queue(self.doc.name, model, target)?;
        Ok(vec![Question::Ethtool(EthtoolGet::QueueCoalesce, nic.name.clone()).path()])
    }

    fn read(&self, host: &dyn Host, model: &Model, target: &Target) -> Result<String> {
        let name = self.doc.name;
        let (nic, queue) = value::rx_queue(name, model, target)?;
        let all = value::ethtool(name, host, target, EthtoolGet::QueueCoalesce, &nic.name, queue_coalesce);
        let all = all.map_err(|error| error.or_lacks(ABSENT))?;
        let found = all.iter().find(|found| found.queue == queue.index);
        let found = found.ok_or_else(|| KnobError::lacks(name, target, ABSENT))?;
        Ok(self.text(found.value(self.which)))
    }

    fn write(&self, host: &dyn Host, model: &Model, target: &Target, value: &str, _armed: &Armed) -> Result {
        let name = self.doc.name;
        let (nic, queue) = value::rx_queue(name, model, target)?;
        let change =
            EthtoolChange::QueueDelay { queue: queue.index, which: self.which, value: self.number(value)? };
        let action = Action::EthtoolIoctl { nic: nic.name.clone(), change };
        value::act_or(name, host, target, value, &action, MEANINGS, ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::{QUEUE_ADAPTIVE_RX, QUEUE_RX_FRAMES, QUEUE_RX_USECS};
    use crate::host::{Cause, EthtoolGet, RecordedHost};
    use crate::knob::Knob;
    use crate::knob::testbed::{model, path, refusing, target, write};
    use crate::parse::ethtool::queue_coalesce::{COALESCE, QUEUE_COALESCE, QUEUE_MASK};
    use crate::parse::push_message;

    /// Composed: both queues of `eth0` adapt by themselves, at 8 microseconds.
    fn host() -> RecordedHost {
        let mut answer = Vec::new();
        for queue in [0, 1] {
            let mut message = vec![0; QUEUE_COALESCE];
            (message[QUEUE_MASK], message[COALESCE + 4], message[COALESCE + 40]) = (1 << queue, 8, 1);
            push_message(&mut answer, &message);
        }
        RecordedHost::new().with(&path(EthtoolGet::QueueCoalesce), answer)
    }

    #[test]
    fn each_queue_has_its_own_value() {
        let (host, first, second) = (host(), target("eth0/rx-0"), target("eth0/rx-1"));
        let all: [(&dyn Knob, &str, &str); 3] =
            [(&QUEUE_ADAPTIVE_RX, "on", "off"), (&QUEUE_RX_USECS, "8", "50"), (&QUEUE_RX_FRAMES, "0", "64")];
        for (knob, before, after) in all {
            assert_eq!(knob.check(&host, &model(), &second, after).as_deref(), Ok(after));
            write(knob, &host, "eth0/rx-1", after).expect("written");
            let values = [&first, &second].map(|at| knob.read(&host, &model(), at).expect("there"));
            assert_eq!(values, [before, after], "{}", knob.name());
        }
        let bad = QUEUE_RX_USECS.check(&host, &model(), &first, "-1").expect_err("no number").to_string();
        assert_eq!(bad, "invalid value `-1` for queue_rx_usecs: expected a whole number");
    }

    #[test]
    fn a_driver_without_it_is_named() {
        let says = |host: &RecordedHost| {
            QUEUE_RX_USECS.check(host, &model(), &target("eth0/rx-0"), "50").expect_err("none").to_string()
        };
        let why = "eth0/rx-0 has no queue_rx_usecs: the driver does not moderate single queues (ethtool -Q)";
        assert_eq!(says(&RecordedHost::new()), why);
        let host = refusing(host(), "perqueue/eth0", Cause::Errno(22));
        let error = write(&QUEUE_RX_USECS, &host, "eth0/rx-0", "5").expect_err("refused").to_string();
        assert!(error.contains("the driver does not accept this value"), "{error}");
    }
}
