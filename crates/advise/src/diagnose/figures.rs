//! Evidence: what was seen of a subject, its figures as numbers and as text. No judgement.

use serde::{Deserialize, Serialize};

use rxlab_base::number::{count, percent, precise_percent, times};
use rxlab_base::units::{CpuId, CpuMask, IrqId, NicName, QueueId};
use rxlab_path::evidence::{tier, tier_words};
use rxlab_path::model::{Nic, ProcessRates, Rates};

/// One item of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// All of it in words.
    pub text: String,
    /// The part of the machine that it is about.
    pub subject: Subject,
    /// How its times were measured: `exact`, `tick-sampled`, `timed by eBPF`, `accuracy unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Its figures, in the order of the text; empty if it is about settings only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// Part of a machine that figures are about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The whole machine.
    Machine,
    /// One CPU.
    Cpu(CpuId),
    /// Several CPUs.
    Cpus(CpuMask),
    /// An interface.
    Nic(NicName),
    /// A queue of an interface.
    Queue {
        /// The interface.
        nic: NicName,
        /// The queue, such as `rx-0`.
        queue: QueueId,
    },
    /// An interrupt.
    Irq(IrqId),
    /// A process.
    Process {
        /// Its process id.
        pid: u32,
        /// Its name, truncated by the kernel to 15 bytes.
        command: String,
    },
}

impl Subject {
    pub(super) fn nic(nic: &Nic) -> Self {
        Self::Nic(nic.name.clone())
    }

    pub(super) fn rx(nic: &Nic, index: u32) -> Self {
        Self::Queue { nic: nic.name.clone(), queue: QueueId::rx(index) }
    }

    pub(super) fn process(process: &ProcessRates) -> Self {
        Self::Process { pid: process.pid, command: process.command.clone() }
    }
}

/// A number with a name and a unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// Its name, such as `receive_time`, the same in all rules; in a list, the part of the machine, such as `eth0/rx-0`.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Hundredths of a whole: of wall time for times, else of all packets or of what the name says.
    Percent,
    /// Packets per second.
    PacketsPerSecond,
    /// Other events per second.
    PerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Megabits per second.
    MegabitsPerSecond,
    /// A number of things.
    Count,
    /// A multiple of the present.
    Factor,
    /// CPUs' worth of time: 1.5 is one and a half CPUs all the time.
    Cpus,
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
}

impl Evidence {
    /// Evidence about `subject`. `text` words it, and takes each figure from a method below, which records it.
    pub(super) fn about(subject: Subject, text: impl FnOnce(&mut Self) -> String) -> Self {
        let mut seen = Self::fact(subject, "");
        seen.text = text(&mut seen);
        seen
    }

    pub(super) fn fact(subject: Subject, text: impl Into<String>) -> Self {
        Self { text: text.into(), subject, measured: None, figures: Vec::new() }
    }

    /// Records a figure and returns its number, for a format of its own.
    pub(super) fn figure(&mut self, name: &str, value: f64, unit: Unit) -> f64 {
        self.figures.push(Figure { name: name.to_owned(), value, unit });
        value
    }

    /// A fraction as whole percent.
    pub(super) fn percent(&mut self, name: &str, fraction: f64) -> String {
        self.figure(name, fraction * 100.0, Unit::Percent);
        percent(fraction)
    }

    /// A fraction as percent with one decimal.
    pub(super) fn precise_percent(&mut self, name: &str, fraction: f64) -> String {
        self.figure(name, fraction * 100.0, Unit::Percent);
        precise_percent(fraction)
    }

    /// A rate of packets per second.
    pub(super) fn packets(&mut self, name: &str, rate: f64) -> String {
        count(self.figure(name, rate, Unit::PacketsPerSecond))
    }

    /// A rate of other events per second.
    pub(super) fn rate(&mut self, name: &str, rate: f64) -> String {
        count(self.figure(name, rate, Unit::PerSecond))
    }

    /// A number of things.
    pub(super) fn count(&mut self, name: &str, number: usize) -> usize {
        self.figure(name, number as f64, Unit::Count);
        number
    }

    /// A multiple of the present.
    pub(super) fn times(&mut self, name: &str, factor: f64) -> String {
        times(self.figure(name, factor, Unit::Factor))
    }

    /// The way its times were measured.
    pub(super) fn tier(&mut self, rates: &Rates) -> &'static str {
        self.measured = Some(tier(rates).to_owned());
        tier_words(tier(rates))
    }
}

#[cfg(test)]
mod tests {
    use super::{Evidence, Figure, Subject, Unit};

    use rxlab_base::units::CpuId;

    /// Shown figures are recorded, in their order.
    #[test]
    fn a_text_and_its_figures() {
        let seen = Evidence::about(Subject::Cpu(CpuId(2)), |seen| {
            format!("{} of {} packets/s", seen.percent("share", 0.75), seen.packets("packets", 1_234.5))
        });
        assert_eq!(seen.text, "75 % of 1,235 packets/s");
        let figure = |name: &str, value, unit| Figure { name: name.to_owned(), value, unit };
        let packets = figure("packets", 1_234.5, Unit::PacketsPerSecond);
        assert_eq!(seen.figures, [figure("share", 75.0, Unit::Percent), packets]);
    }
}
