//! Cause of a piece of receive time, and the task whose time it took.

use serde::{Deserialize, Serialize};

/// The context of a piece of receive time. Every nanosecond is in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A numbered interrupt raised it while a task was running: the task paid.
    NicIrq,
    /// Another CPU handed packets over with an inter-processor interrupt (RPS; since 5.19 also buffers to
    /// be freed here): the running task paid.
    RpsIpi,
    /// A timer or an interrupt without a number: the running task paid.
    OtherIrq,
    /// Another softirq (timer, transmit) raised it: the running task paid.
    OtherSoftirq,
    /// The task sent to this same machine, in its own system call.
    SelfInflicted,
    /// The CPU's `ksoftirqd` thread, which is scheduled like any other.
    Ksoftirqd,
    /// The thread of an interrupt, which is scheduled like any other.
    IrqThread,
    /// Nothing else wanted the CPU.
    Idle,
    /// Raised before the measurement began; the running task paid.
    Unknown,
    /// A NAPI thread (`napi/...`), which is scheduled like any other; no softirq.
    ThreadedNapi,
    /// A task that waits for packets polled for them itself (busy polling): its own work, no softirq. The
    /// first poll of each wait is not included.
    BusyPoll,
}

impl Class {
    /// The classes of softirq runs, in the order of `enum class` in records.bpf.h.
    pub const OF_RUNS: [Class; 9] = [
        Class::NicIrq,
        Class::RpsIpi,
        Class::OtherIrq,
        Class::OtherSoftirq,
        Class::SelfInflicted,
        Class::Ksoftirqd,
        Class::IrqThread,
        Class::Idle,
        Class::Unknown,
    ];

    /// True if this time was taken from a task that did not ask for it.
    pub fn interferes(self) -> bool {
        use Class::{NicIrq, OtherIrq, OtherSoftirq, RpsIpi, Unknown};
        matches!(self, NicIrq | RpsIpi | OtherIrq | OtherSoftirq | Unknown)
    }

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Class::NicIrq => "NIC IRQ",
            Class::RpsIpi => "RPS IPI",
            Class::OtherIrq => "other IRQ",
            Class::OtherSoftirq => "other softirq",
            Class::SelfInflicted => "self-inflicted",
            Class::Ksoftirqd => "ksoftirqd",
            Class::IrqThread => "IRQ thread",
            Class::Idle => "idle",
            Class::Unknown => "unknown",
            Class::ThreadedNapi => "threaded NAPI",
            Class::BusyPoll => "busy poll",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    /// The two lists are kept by hand; the programs write by position.
    #[test]
    fn the_order_is_that_of_the_programs() {
        let source = include_str!("records.bpf.h");
        let (_, rest) = source.split_once("enum class {").expect("there");
        let (list, _) = rest.split_once('}').expect("closed");
        let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let ours = Class::OF_RUNS.map(|class| match class {
            Class::SelfInflicted => "SELF".to_owned(),
            other => serde_json::to_value(other).expect("text").as_str().expect("text").to_uppercase(),
        });
        assert_eq!(names[..9], ours);
        assert_eq!(names[9..], ["CLASSES"]);
    }
}
