//! Time lost to receive work, added up over measurements: by CPU, by class and by unit.

use std::collections::BTreeMap;

use super::Class;
use super::interference::{Interference, Tier, Victim};
use rxlab_base::units::CpuId;

/// Units with a total of their own.
pub const UNITS: usize = 20;

/// Part of a measurement that a unit must lose to get a total of its own: short-lived processes would fill the list.
const WORTH: f64 = 0.001;

/// Digits of a container's ID that tell it from the others of a machine.
const ID_DIGITS: usize = 12;

/// Sums over all measurements so far, in seconds. They only grow: a rate of one of them divided by the rate of
/// [`LostTotals::measured`] is a mean share of the time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LostTotals {
    /// Length of the measurements.
    pub measured: f64,
    /// Time that each CPU took from tasks for receive work that they did not ask for, interrupts included.
    pub cpus: BTreeMap<CpuId, f64>,
    /// Receive time by class, of all CPUs.
    pub classes: BTreeMap<Class, f64>,
    /// Time in interrupt handlers, of all CPUs; in no class.
    pub hard_irq: f64,
    units: BTreeMap<String, Unit>,
    /// Loss of units while they had no total of their own.
    pub other_units: f64,
}

/// A unit with its own total.
#[derive(Debug, Clone, Default, PartialEq)]
struct Unit {
    lost: f64,
    /// Its loss in recent measurements: each counts half as much as the next.
    recent: f64,
}

impl LostTotals {
    /// Adds a measurement with eBPF; others do not know who lost time.
    pub fn add(&mut self, sample: &Interference) {
        if sample.tier != Tier::Ebpf {
            return;
        }
        self.measured += sample.seconds;
        for cpu in &sample.cpus {
            if let Some(ns) = cpu.lost_ns() {
                *self.cpus.entry(cpu.cpu).or_default() += seconds(ns);
            }
            for (class, ns) in &cpu.by_class {
                if let Some(ns) = ns.known() {
                    *self.classes.entry(*class).or_default() += seconds(*ns);
                }
            }
            self.hard_irq += cpu.hard_irq_ns.known().map_or(0.0, |ns| seconds(*ns));
        }
        let mut lost: BTreeMap<String, f64> = BTreeMap::new();
        for victim in sample.victims.known().into_iter().flatten() {
            *lost.entry(unit(victim)).or_default() += seconds(victim.lost_ns());
        }
        self.add_units(lost, sample.seconds * WORTH);
    }

    /// Units with a total of their own, by name: a systemd unit, a container as `ENGINE:ID`, or a process name. There are
    /// at most [`UNITS`]; one that lost much lately takes the place of one that did not, whose total ends.
    pub fn units(&self) -> impl Iterator<Item = (&str, f64)> {
        self.units.iter().map(|(name, unit)| (name.as_str(), unit.lost))
    }

    fn add_units(&mut self, lost: BTreeMap<String, f64>, worth: f64) {
        self.units.values_mut().for_each(|unit| unit.recent /= 2.0);
        let mut strangers: Vec<(String, f64)> = Vec::new();
        for (name, lost) in lost.into_iter().filter(|(_, lost)| *lost > 0.0) {
            match self.units.get_mut(&name) {
                Some(unit) => {
                    unit.lost += lost;
                    unit.recent += lost;
                }
                None => strangers.push((name, lost)),
            }
        }
        strangers.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (name, lost) in strangers {
            if lost >= worth && self.has_room_for(lost) {
                self.units.insert(name, Unit { lost, recent: lost });
            } else {
                self.other_units += lost;
            }
        }
    }

    /// True if a unit that lost this much gets its own total. Makes room by ending the one that lost least lately, if
    /// that is less than half as much: units of about equal loss do not take turns.
    fn has_room_for(&mut self, lost: f64) -> bool {
        if self.units.len() < UNITS {
            return true;
        }
        let least = self.units.iter().min_by(|a, b| a.1.recent.total_cmp(&b.1.recent));
        let Some(name) = least.filter(|(_, unit)| unit.recent < lost / 2.0).map(|(name, _)| name.clone())
        else {
            return false;
        };
        self.units.remove(&name);
        true
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn unit(victim: &Victim) -> String {
    if let Some(container) = &victim.container {
        let id: String = container.id.chars().take(ID_DIGITS).collect();
        return format!("{}:{id}", container.engine);
    }
    victim.unit.clone().unwrap_or_else(|| victim.command.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{LostTotals, UNITS};
    use crate::{Class, CpuInterference, Interference, Tier, Victim};
    use rxlab_base::parse::Container;
    use rxlab_base::units::{CpuId, Fact};

    fn victim(command: &str, lost_ns: u64) -> Victim {
        Victim {
            command: command.to_owned(),
            processes: 1,
            by_class: [(Class::NicIrq, lost_ns), (Class::SelfInflicted, 77)].into(),
            ..Victim::default()
        }
    }

    fn sample(tier: Tier, victims: Vec<Victim>) -> Interference {
        let by_class = [
            (Class::NicIrq, Fact::Known(300_000_000)),
            (Class::Idle, Fact::Known(500_000_000)),
            (Class::BusyPoll, Fact::Unsupported),
        ];
        Interference {
            schema: Interference::SCHEMA.to_owned(),
            tier,
            missing: None,
            exact_softirq_time: Fact::NotAsked,
            seconds: 2.0,
            cpus: vec![CpuInterference {
                cpu: CpuId(1),
                net_rx_ns: Fact::Known(800_000_000),
                hard_irq_ns: Fact::Known(100_000_000),
                by_class: by_class.into(),
                ..CpuInterference::default()
            }],
            victims: Fact::Known(victims),
            irqs: Fact::NotAsked,
            napis: Fact::NotAsked,
            threads: Vec::new(),
            inference: Vec::new(),
            cost: Fact::NotAsked,
            notes: Vec::new(),
        }
    }

    #[test]
    fn measurements_add_up() {
        let mut totals = LostTotals::default();
        let container = Container { engine: "docker".into(), id: "0123456789abcdef".into(), pod: None };
        let all = || {
            vec![
                Victim { unit: Some("web.service".into()), ..victim("nginx", 1_000_000_000) },
                Victim { unit: Some("web.service".into()), ..victim("php", 500_000_000) },
                Victim {
                    unit: Some("x.scope".into()),
                    container: Some(container.clone()),
                    ..victim("db", 250_000_000)
                },
                victim("kworker/1:2", 125_000_000),
                victim("idler", 1_000_000),
            ]
        };
        totals.add(&sample(Tier::Ebpf, all()));
        totals.add(&sample(Tier::Ebpf, all()));
        totals.add(&sample(Tier::Procfs, all()));
        assert_eq!((totals.measured, totals.hard_irq, totals.other_units), (4.0, 0.2, 0.002));
        assert_eq!(totals.cpus, BTreeMap::from([(CpuId(1), 0.8)]));
        assert_eq!(totals.classes, BTreeMap::from([(Class::NicIrq, 0.6), (Class::Idle, 1.0)]));
        let units: Vec<(&str, f64)> = totals.units().collect();
        assert_eq!(units, [("docker:0123456789ab", 0.5), ("kworker/1:2", 0.25), ("web.service", 3.0)]);
    }

    #[test]
    fn units_are_bounded_and_no_total_steps_back() {
        let mut totals = LostTotals::default();
        let round = |from: u64, lost: u64| -> Vec<Victim> {
            (from..from + UNITS as u64).map(|n| victim(&format!("p{n:03}"), lost)).collect()
        };
        totals.add(&sample(Tier::Ebpf, round(0, 1_000_000_000)));
        totals.add(&sample(Tier::Ebpf, round(100, 1_000_000_000)));
        assert_eq!(
            (totals.units().count(), totals.other_units),
            (UNITS, UNITS as f64),
            "equals do not take turns"
        );
        // Those of the first round are gone; a single one of the second still loses.
        let mut other = totals.other_units;
        for _ in 0..5 {
            totals.add(&sample(Tier::Ebpf, round(100, 1_000_000_000)));
            assert!(totals.units().count() == UNITS && totals.other_units >= other);
            other = totals.other_units;
        }
        assert!(totals.units().all(|(name, _)| name.starts_with("p1")), "{totals:?}");
        assert!(totals.units().all(|(_, lost)| lost <= 5.0), "a total begins when it is shown");
    }
}
