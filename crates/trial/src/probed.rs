//! The metrics measured by the probe: names, and values from the counts of a slot.

use std::collections::{BTreeMap, BTreeSet};

use rxlab_base::units::CpuMask;
use rxlab_path::model::Rates;
use rxlab_probe::{Class, Reading};

/// Names, for people; `NAME` stands for a process, a unit or a container.
pub const NAMES: [&str; 7] = [
    NET_RX_PER_PACKET,
    NET_RX_MAX_CPU,
    PACKETS,
    INTERFERENCE,
    INTERFERENCE_PER_PACKET,
    "victim.NAME.interference",
    INFERRED,
];

/// NET_RX time of all CPUs per packet that went up the stack, nanoseconds.
pub const NET_RX_PER_PACKET: &str = "net_rx.ns_per_packet";
/// Largest share of a CPU's time spent in NET_RX, percent.
pub const NET_RX_MAX_CPU: &str = "net_rx.share.max_cpu";
/// Packets per second that went up the stack, all CPUs.
pub const PACKETS: &str = "net_rx.packets";
/// Time lost by tasks on the counted CPUs, percent of one CPU.
pub const INTERFERENCE: &str = "interference.share";
/// The same per packet that went up the stack anywhere, nanoseconds.
pub const INTERFERENCE_PER_PACKET: &str = "interference.ns_per_packet";
/// Interference seen by the probe thread, percent of its CPU.
pub const INFERRED: &str = "interference.inferred";

/// Floor of interference as a fraction of time, since zero has no ratio. An interrupt cut by the ends
/// of a slot takes as long: ten microseconds in a second.
const LEAST: f64 = 1e-5;
/// The same floor per packet, in nanoseconds. It is not the time divided by packets: without
/// interference, more packets would then seem to take less.
const LEAST_EACH: f64 = 0.1;

/// One of these metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probed {
    NetRxPerPacket,
    NetRxMaxCpu,
    Packets,
    Interference,
    InterferencePerPacket,
    /// Time lost by the named process, unit or container, percent of one CPU.
    Victim(String),
    Inferred,
}

impl Probed {
    /// The metric with this name, if any.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            NET_RX_PER_PACKET => Self::NetRxPerPacket,
            NET_RX_MAX_CPU => Self::NetRxMaxCpu,
            PACKETS => Self::Packets,
            INTERFERENCE => Self::Interference,
            INTERFERENCE_PER_PACKET => Self::InterferencePerPacket,
            INFERRED => Self::Inferred,
            other => {
                let victim = other.strip_prefix("victim.")?.strip_suffix(".interference")?;
                if victim.is_empty() {
                    return None;
                }
                Self::Victim(victim.to_owned())
            }
        })
    }

    /// Title and unit of the metric.
    pub fn title(&self) -> (String, &'static str) {
        let (title, unit) = match self {
            Self::NetRxPerPacket => ("NET_RX time per packet", "ns"),
            Self::NetRxMaxCpu => ("hottest CPU, NET_RX time", "%"),
            Self::Packets => ("packets up the stack", "pkt/s"),
            Self::Interference => ("receive interference", "%"),
            Self::InterferencePerPacket => ("interference per packet", "ns"),
            Self::Inferred => ("interference, inferred", "%"),
            Self::Victim(name) => return (format!("lost by {name}"), "%"),
        };
        (title.to_owned(), unit)
    }

    /// True if it needs the programs in the kernel.
    pub fn needs_programs(&self) -> bool {
        !matches!(self, Self::Packets | Self::Inferred)
    }

    /// The value in the metric's unit; `None` if unknown for this slot.
    pub fn value(&self, counted: &Counted<'_>) -> Option<f64> {
        let packets: f64 = counted.rates.cpus.iter().map(|cpu| cpu.packets).sum();
        let each = |ns_per_second: f64| (packets > 0.0).then(|| ns_per_second / packets);
        let percent = |ns_per_second: f64| ns_per_second / 1e7;
        match self {
            Self::Packets => Some(packets),
            Self::Inferred => counted.inferred.map(|part| 100.0 * part.max(LEAST)),
            Self::NetRxPerPacket => each(counted.net_rx()?.into_iter().sum()),
            Self::NetRxMaxCpu => counted.net_rx()?.into_iter().reduce(f64::max).map(percent),
            Self::Interference => counted.lost_ns().map(|ns| percent(ns.max(LEAST * 1e9))),
            Self::InterferencePerPacket => each(counted.lost_ns()?).map(|ns| ns.max(LEAST_EACH)),
            Self::Victim(name) => counted.lost_by(name).map(percent),
        }
        .filter(|value| value.is_finite())
    }
}

#[derive(Debug)]
pub struct Counted<'a> {
    /// By the programs, with the seconds; `None` if they are not attached.
    pub programs: Option<(&'a Reading, f64)>,
    /// Rates from the kernel's counters.
    pub rates: &'a Rates,
    /// CPUs whose interference counts; empty = all.
    pub cpus: &'a CpuMask,
    /// Existing processes, by each requested name.
    pub named: &'a BTreeMap<String, BTreeSet<u32>>,
    /// Fraction of its time that the probe thread reports as lost.
    pub inferred: Option<f64>,
}

impl Counted<'_> {
    /// NET_RX time of each CPU, nanoseconds per second.
    fn net_rx(&self) -> Option<Vec<f64>> {
        let (reading, seconds) = self.programs?;
        let rate = |ns: u64| ns as f64 / seconds;
        Some(reading.cpus.values().map(|cpu| rate(cpu.net_rx_ns())).collect())
    }

    /// The programs' counts by process; `None` if their table was full, so some losses are missing.
    fn losses(&self) -> Option<(&Reading, f64)> {
        self.programs.filter(|(reading, _)| reading.cpus.values().all(|cpu| cpu.unlisted_ns == 0))
    }

    /// Time that tasks lost to others' work, nanoseconds per second.
    fn lost_ns(&self) -> Option<f64> {
        let (reading, seconds) = self.losses()?;
        let counts = |cpu| self.cpus.is_empty() || self.cpus.contains(cpu);
        let runs = reading
            .cpus
            .iter()
            .filter(|(cpu, _)| counts(**cpu))
            .map(|(_, record)| interference_ns(record.ns));
        // Runs that hit an idle CPU have no victim: the victims' rows have the others.
        let interrupts =
            reading.victims.iter().filter(|((cpu, _), _)| counts(*cpu)).map(|(_, record)| record.irq_ns);
        Some(runs.chain(interrupts).sum::<u64>() as f64 / seconds)
    }

    /// Time that tasks of one name lost, with the floor, so that every ratio exists; `None` if nothing has that name.
    fn lost_by(&self, name: &str) -> Option<f64> {
        let (reading, seconds) = self.losses()?;
        let there = self.named.get(name);
        let is = |pid: u32, command: &str| command == name || there.is_some_and(|there| there.contains(&pid));
        let lost: Vec<u64> = reading
            .victims
            .iter()
            .filter(|((_, process), record)| is(process.pid, &record.command))
            .map(|(_, record)| interference_ns(record.ns) + record.irq_ns)
            .collect();
        let known = there.is_some_and(|there| !there.is_empty()) || !lost.is_empty();
        known.then(|| (lost.iter().sum::<u64>() as f64 / seconds).max(LEAST * 1e9))
    }
}

fn interference_ns(ns: [u64; Class::OF_RUNS.len()]) -> u64 {
    Class::OF_RUNS.into_iter().zip(ns).filter(|(class, _)| class.interferes()).map(|(_, ns)| ns).sum()
}

#[cfg(test)]
mod tests {
    use super::{Counted, NAMES, Probed};
    use rxlab_base::units::CpuId;
    use rxlab_path::sketch::Sketch;
    use rxlab_probe::{CpuRecord, ProcessId, Reading, VictimRecord};

    /// Two seconds: CPU 0 is interrupted by IPIs, CPU 1 receives for its own task and is hit when idle.
    fn reading() -> Reading {
        let cpu = |ns: [u64; 9], irq_ns| CpuRecord { ns, irq_ns, ..CpuRecord::default() };
        let victim = |ns, irq_ns, command: &str| VictimRecord {
            ns,
            irq_ns,
            command: command.to_owned(),
            ..VictimRecord::default()
        };
        let process = |cpu, pid| (CpuId(cpu), ProcessId { pid, began_ns: 0 });
        let (ipi, own) = ([0, 300_000_000, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 800_000_000, 0, 0, 0, 0]);
        Reading {
            cpus: [(CpuId(0), cpu(ipi, 0)), (CpuId(1), cpu(own, 500_000_000))].into(),
            victims: [
                (process(0, 7), victim(ipi, 100_000_000, "busy")),
                (process(1, 8), victim(own, 0, "sender")),
            ]
            .into(),
            ..Reading::default()
        }
    }

    fn value(name: &str, cpus: &str, programs: bool) -> Option<f64> {
        value_of(&reading(), name, cpus, programs)
    }

    fn value_of(reading: &Reading, name: &str, cpus: &str, programs: bool) -> Option<f64> {
        let (_, rates) = Sketch::new(2).receives(0, 0.1, 1e4).receives(1, 0.4, 3e4).build();
        let counted = Counted {
            programs: programs.then_some((reading, 2.0)),
            rates: &rates,
            cpus: &cpus.parse().unwrap_or_default(),
            named: &[("web".to_owned(), [7].into()), ("calm".to_owned(), [9].into())].into(),
            inferred: Some(0.25),
        };
        Probed::parse(name).expect(name).value(&counted)
    }

    #[test]
    fn each_is_what_it_is_called() {
        let near = |name: &str, cpus: &str, want: f64| {
            let value = value(name, cpus, true).expect(name);
            assert!((value - want).abs() < 1e-6, "{name}: {value} is not {want}");
        };
        near("net_rx.packets", "", 4e4);
        near("net_rx.ns_per_packet", "", 5.5e8 / 4e4);
        near("net_rx.share.max_cpu", "", 40.0);
        near("interference.share", "", 20.0);
        near("interference.share", "0", 20.0);
        near("interference.ns_per_packet", "", 2e8 / 4e4);
        near("victim.busy.interference", "", 20.0);
        near("victim.web.interference", "", 20.0);
        near("interference.inferred", "", 25.0);
    }

    /// Zero has no ratio: a setup without interference once had no effect at all.
    #[test]
    fn no_interference_is_a_very_small_one() {
        for (name, cpus) in [
            ("interference.share", "1"),
            ("victim.sender.interference", ""),
            ("victim.calm.interference", ""),
        ] {
            assert_eq!(value(name, cpus, true), Some(0.001), "{name}");
        }
        // More packets do not reduce the floor.
        assert_eq!(value("interference.ns_per_packet", "1", true), Some(0.1));
    }

    #[test]
    fn what_was_not_counted_has_no_value() {
        assert_eq!(value("victim.absent.interference", "", true), None);
        for name in NAMES.map(|name| name.replace("NAME", "busy")) {
            let metric = Probed::parse(&name).expect("its own name");
            assert_eq!(value(&name, "", false).is_none(), metric.needs_programs(), "{name}");
        }
    }

    /// A slot once reported too little interference when the table of processes was full.
    #[test]
    fn an_incomplete_table_has_no_value() {
        let mut reading = reading();
        reading.cpus.get_mut(&CpuId(1)).expect("there").unlisted_ns = 1;
        for name in ["interference.share", "interference.ns_per_packet", "victim.busy.interference"] {
            assert_eq!(value_of(&reading, name, "", true), None, "{name}");
        }
        assert!(value_of(&reading, "net_rx.share.max_cpu", "", true).is_some());
    }

    #[test]
    fn other_names_are_not_these() {
        for name in ["throughput", "victim..interference", "victim.x", "net_rx", "victim.interference"] {
            assert_eq!(Probed::parse(name), None, "{name}");
        }
        assert_eq!(Probed::parse("victim.a.b.interference"), Some(Probed::Victim("a.b".into())));
    }
}
