//! What a plan should do to the receive time of each CPU: a sum on paper, for people to compare
//! with what a trial measures.
//!
//! The model: the CPU that receives now keeps a fixed part of its receive time (interrupt, polling,
//! hashing, the inter-processor interrupt); the rest moves to the other CPUs and costs more there.
//! It takes all receive time of that CPU for that interface's, and traffic to stay the same; a CPU
//! that is full now will do more work, not the same work in less time.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::diagnose::evidence::{Headroom, busy, headroom, receive_time, room};
use crate::diagnose::figures::{percent, times};
use crate::model::Rates;
use crate::units::{CpuId, CpuMask};

/// What the hand-over costs, as fractions of the receive time before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// Stays on the CPU that received.
    pub(super) kept: f64,
    /// What moves takes this much more where it goes.
    pub(super) dearer: f64,
}

/// A device with interrupts: field case A went from 98 % to 48.5 %, so about half stays. One
/// inter-processor interrupt serves a whole poll of up to 64 packets: little extra, an assumption.
pub(super) const DEVICE: Cost = Cost { kept: 0.48, dearer: 0.04 };

/// A virtual interface hands over almost packet by packet. Measured on a veth pair of a 2-CPU
/// virtual machine, per packet: half stays, and all CPUs together take 1.8 times as much.
pub(super) const VIRTUAL: Cost = Cost { kept: 0.5, dearer: 1.6 };

/// Work that moves: from where, over which CPUs it is spread now, and to where.
pub(super) struct Move {
    /// The CPU that receives.
    pub(super) from: CpuId,
    /// The part of its receive time that this queue makes up.
    pub(super) part: f64,
    /// The RPS mask of the queue today.
    pub(super) current: CpuMask,
    /// Where the work goes; weights add up to 1.
    pub(super) to: BTreeMap<CpuId, f64>,
}

/// What should happen to receive time, as fractions of wall time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The CPU that receives now.
    pub cpu: CpuId,
    /// Its receive time now.
    pub before: f64,
    /// Its receive time then.
    pub after: f64,
    /// The CPU with most receive time then.
    pub busiest: CpuId,
    /// Receive time of that CPU now.
    pub busiest_before: f64,
    /// Receive time of that CPU then.
    pub busiest_after: f64,
    /// Change of the receive time of all CPUs together (0.02 = 2 % more).
    pub total_change: f64,
    /// Headroom now.
    pub headroom_before: Headroom,
    /// Headroom then.
    pub headroom_after: Headroom,
    /// Packets a second of the interface in the look that this is made of; 0 = not known.
    #[serde(default)]
    pub packets: f64,
    /// Packets a second at which a CPU is full with receive work, or the machine with all its work, as it is now.
    #[serde(default)]
    pub most_before: f64,
    /// The same then.
    #[serde(default)]
    pub most_after: f64,
    /// What it rests on, in one line.
    #[serde(default)]
    pub basis: String,
    /// Receive time of each CPU that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuLoad>,
}

/// Receive time of a CPU, as fractions of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuLoad {
    /// Which.
    pub cpu: CpuId,
    /// Now.
    pub before: f64,
    /// Then.
    pub after: f64,
}

/// Receive time that is worth a line.
const SOME: f64 = 0.005;

/// What predictions without measured costs rest on.
pub(super) const FIXED: &str =
    "fixed fractions: about half of the receive work stays where it is, as in field case A";

/// Works the moves out with one cost for all of them. `None` when nothing moves by this model, such as when RPS
/// has moved the work already.
pub(super) fn predict(rates: &Rates, moves: &[Move], cost: Cost) -> Option<Prediction> {
    predict_each(rates, moves, |_| cost)
}

/// The same with a cost for each.
pub(super) fn predict_each(
    rates: &Rates,
    moves: &[Move],
    cost: impl Fn(&Move) -> Cost,
) -> Option<Prediction> {
    let before: BTreeMap<CpuId, f64> = rates.cpus.iter().map(|cpu| (cpu.cpu, receive_time(cpu))).collect();
    let mut after = before.clone();
    let mut moved_at_all = false;
    for step in moves {
        let time = before.get(&step.from)? * step.part;
        let cost = cost(step);
        // Behind a mask that holds the receiving CPU itself, only its own part of the mask is left
        // to move, and that part has paid for the hand-over already.
        let (fraction, dearer) = match step.current.len() {
            0 => (1.0 - cost.kept, cost.dearer),
            width if step.current.contains(step.from) => {
                let own = (1.0 - cost.kept) / width as f64;
                (own / (cost.kept + own), 0.0)
            }
            _ => continue,
        };
        let moved = time * fraction;
        moved_at_all |= moved > 0.0;
        *after.entry(step.from).or_default() -= moved;
        for (cpu, weight) in step.to.iter().filter(|(cpu, _)| before.contains_key(cpu)) {
            *after.entry(*cpu).or_default() += moved * (1.0 + dearer) * weight;
        }
    }
    if !moved_at_all {
        return None;
    }
    let most = |times: &BTreeMap<CpuId, f64>| {
        times.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(cpu, time)| (*cpu, *time))
    };
    let cpu = moves.iter().map(|step| step.from).max_by(|a, b| before[a].total_cmp(&before[b]))?;
    let (busiest, busiest_after) = most(&after)?;
    let sum = |times: &BTreeMap<CpuId, f64>| times.values().sum::<f64>();
    let extra = sum(&after) - sum(&before);
    let mean_busy = (rates.cpus.iter().map(busy).sum::<f64>() + extra) / rates.cpus.len() as f64;
    let loads = after.iter().map(|(cpu, after)| CpuLoad { cpu: *cpu, before: before[cpu], after: *after });
    Some(Prediction {
        cpus: loads.filter(|load| load.before.max(load.after) >= SOME).collect(),
        packets: 0.0,
        most_before: 0.0,
        most_after: 0.0,
        basis: FIXED.to_owned(),
        cpu,
        before: before[&cpu],
        after: after[&cpu],
        busiest,
        busiest_before: before[&busiest],
        busiest_after,
        total_change: extra / sum(&before),
        headroom_before: headroom(rates),
        headroom_after: Headroom { hottest: room(busiest_after), machine: room(mean_busy) },
    })
}

impl Prediction {
    /// With the packets a second that the look had.
    #[must_use]
    pub(super) fn at(mut self, packets: f64) -> Self {
        let most = |room: Headroom| packets * room.hottest.min(room.machine);
        (self.packets, self.most_before, self.most_after) =
            (packets, most(self.headroom_before), most(self.headroom_after));
        self
    }

    /// What spreading cannot do.
    pub fn regime(&self) -> String {
        "this spreads the load, it adds no capacity".to_owned()
    }

    /// How many times today's traffic fits, now and after the plan of this name.
    pub fn room(&self, plan: &str) -> String {
        let (before, after) = (self.headroom_before, self.headroom_after);
        format!(
            "CPU {} saturates at {} of today's traffic, after {plan} CPU {} at {}; the machine as a whole at {}, \
             then {}: {}",
            self.cpu,
            times(room(self.before)),
            self.busiest,
            times(after.hottest),
            times(before.machine),
            times(after.machine),
            self.regime()
        )
    }
}

/// `CPU 2 98 -> 47 %, total +2 %`, with the CPU that becomes the busiest when that is another one.
impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A CPU cannot be busier than all the time.
        let change = |f: &mut fmt::Formatter<'_>, cpu: CpuId, before: f64, after: f64| {
            write!(f, "CPU {cpu} {:.0} -> {}", before * 100.0, percent(after.min(1.0)))
        };
        change(f, self.cpu, self.before, self.after)?;
        if self.busiest != self.cpu && self.busiest_after > self.after {
            f.write_str(", ")?;
            change(f, self.busiest, self.busiest_before, self.busiest_after)?;
        }
        write!(f, ", total {:+.0} %", self.total_change * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{DEVICE, Move, Prediction, VIRTUAL, predict};
    use crate::diagnose::sketch::{Sketch, cpus};
    use crate::units::CpuId;

    fn even(list: &str) -> BTreeMap<CpuId, f64> {
        let mask = cpus(list);
        mask.iter().map(|cpu| (cpu, 1.0 / mask.len() as f64)).collect()
    }

    fn from_cpu_2(current: &str) -> Option<Prediction> {
        let (_, rates) = Sketch::case_a().build();
        let step = Move { from: CpuId(2), part: 1.0, current: cpus(current), to: even("0-1,3-7") };
        predict(&rates, &[step], DEVICE)
    }

    #[test]
    fn field_case_a() {
        let prediction = from_cpu_2("").expect("work moves");
        assert_eq!(prediction.to_string(), "CPU 2 98 -> 47 %, total +2 %");
        assert_eq!(
            prediction.room("rps"),
            "CPU 2 saturates at 1.0x of today's traffic, after rps CPU 2 at 2.1x; the machine as a whole at 1.2x, \
             then 1.2x: this spreads the load, it adds no capacity"
        );
    }

    #[test]
    fn taking_the_cpu_out_of_a_mask_moves_only_its_own_part() {
        let prediction = from_cpu_2("0-7").expect("work moves");
        assert!((0.8..0.9).contains(&prediction.after), "{prediction:?}");
        assert!(prediction.total_change.abs() < 1e-9);
    }

    #[test]
    fn nothing_moves_behind_a_mask_without_the_cpu() {
        assert_eq!(from_cpu_2("0-1"), None);
    }

    /// Measured with 540,000 packets/s before and 615,000 after: CPU 0 45 -> 24.5 %, CPU 1 0 -> 68 %: for the same traffic 22 and 60 %.
    #[test]
    fn on_two_cpus_the_other_one_becomes_the_busiest() {
        let (_, rates) = Sketch::new(2).veth("veth0").receives(0, 0.46, 5.4e5).receives(1, 0.0, 0.0).build();
        let step = Move { from: CpuId(0), part: 1.0, current: cpus(""), to: even("1") };
        let prediction = predict(&rates, &[step], VIRTUAL).expect("work moves");
        assert_eq!(prediction.to_string(), "CPU 0 46 -> 23 %, CPU 1 0 -> 60 %, total +80 %");
    }
}
