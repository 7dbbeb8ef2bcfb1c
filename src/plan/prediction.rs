//! Predicted effect of a plan on the receive time of each CPU, to compare with the measurement of a trial.
//! The calculation is in `moves`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::moves::{Cost, Move, Shares};
use crate::diagnose::evidence::{Headroom, busy, headroom, receiving, room};
use crate::diagnose::figures::{percent, times};
use crate::model::Rates;
use crate::units::CpuId;

/// Predicted receive time, as fractions of wall time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Prediction {
    /// The CPU that receives now.
    pub cpu: CpuId,
    /// Its receive time now.
    pub before: f64,
    /// Its receive time after the plan.
    pub after: f64,
    /// The CPU with most receive time after the plan.
    pub busiest: CpuId,
    /// Current receive time of that CPU.
    pub busiest_before: f64,
    /// Receive time of that CPU after the plan.
    pub busiest_after: f64,
    /// Change of the receive time of all CPUs together (0.02 = 2 % more).
    pub total_change: f64,
    /// Current headroom.
    pub headroom_before: Headroom,
    /// Headroom after the plan.
    pub headroom_after: Headroom,
    /// Current headroom of the CPU with most receive time while its other work stays: programs that send or
    /// read the packets cannot leave. The same as in `headroom_before` unless that CPU is full.
    #[serde(default)]
    pub hottest_as_it_runs: f64,
    /// Packets per second of the interface in the sample that this is based on; 0 = not known.
    #[serde(default)]
    pub packets: f64,
    /// Packets per second at which a CPU is currently full with receive work, or the machine with all its
    /// work.
    #[serde(default)]
    pub most_before: f64,
    /// The same after the plan.
    #[serde(default)]
    pub most_after: f64,
    /// Basis of the prediction, in one line.
    #[serde(default)]
    pub basis: String,
    /// The CPU with most receive time now, from any interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hottest: Option<CpuId>,
    /// The CPU that has more to do than there is time after the plan, including its other work: the scheduler
    /// has to move some of it away, or cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overfull: Option<Overfull>,
    /// `None` if nothing is handed over that was not handed over before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// Parts of the plan that are not in the model, and their effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Receive time of each CPU that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuLoad>,
}

/// Receive time of a CPU, as fractions of wall time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CpuLoad {
    /// The CPU.
    pub cpu: CpuId,
    /// Current value.
    pub before: f64,
    /// Value after the plan.
    pub after: f64,
    /// Lowest and highest possible value after the plan; `None` if nothing is handed over that was not handed
    /// over before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

/// A CPU with more work than time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Overfull {
    /// The CPU.
    pub cpu: CpuId,
    /// All its work after the plan, as a fraction of wall time; above 1.
    pub busy: f64,
}

/// The uncertainty of a prediction: lowest and highest by the model's known error where costs were measured,
/// and otherwise by the costs seen elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Range {
    /// Receive time after the plan of the CPU that receives now.
    pub after: [f64; 2],
    /// Receive time after the plan of the CPU named as the busiest.
    pub busiest: [f64; 2],
    /// Change of the receive time of all CPUs together.
    pub total: [f64; 2],
    /// Headroom after the plan, of the CPU with most receive time.
    pub hottest: [f64; 2],
    /// Headroom after the plan, of the machine.
    pub machine: [f64; 2],
    /// How many times today's traffic fits after the plan.
    pub fits: [f64; 2],
}

/// Smallest receive time that is listed.
const SOME: f64 = 0.005;

/// Gain from which spreading is said to add capacity. Field case A had a predicted 1.2 and took no more
/// requests: no machine has all of its CPUs busy to the end.
const MORE: f64 = 1.25;

/// Busy part of a CPU's time from which it counts as full.
const FULL: f64 = 0.95;

/// Smallest change of today's capacity that is reported: less is rounding.
const CHANGE: f64 = 0.05;

/// Basis of predictions without measured costs.
pub(super) const FIXED: &str = "fixed fractions: about half of the receive work stays where it is; in our \
                                runs 27 to 60 % did on a device, 0 to 420 % on a virtual interface";

/// Receive time of CPUs and capacity after the plan.
struct Then {
    times: BTreeMap<CpuId, f64>,
    /// Change for all CPUs together.
    extra: f64,
    headroom: Headroom,
    /// The same if the other work of a full CPU does not grow with the packets.
    at_most: Headroom,
}

/// Calculates the effect of the moves, by fixed fractions where costs were not measured. `moves` has all
/// queues that bring the CPUs work. `None` if nothing moves in this model.
pub(super) fn predict(rates: &Rates, moves: &[Move]) -> Option<Prediction> {
    let before: BTreeMap<CpuId, f64> = rates.cpus.iter().map(|cpu| (cpu.cpu, receiving(cpu))).collect();
    let shares = Shares::new(before.clone(), moves);
    let sum = |times: &BTreeMap<CpuId, f64>| times.values().sum::<f64>();
    let all_busy: f64 = rates.cpus.iter().map(busy).sum();
    let hottest = most(&before).map(|(cpu, _)| cpu);
    let full = hottest.and_then(|cpu| rates.cpu(cpu)).filter(|cpu| busy(cpu) >= FULL);
    // Other work of a full CPU may be sending or reading as much as it gets to: it need not grow with the
    // packets.
    let elastic = full.map_or(0.0, |cpu| busy(cpu) - before[&cpu.cpu]);
    let work_out = |cost: &dyn Fn(&Move) -> Cost| {
        let times = shares.after(moves, cost);
        let extra = sum(&times) - sum(&before);
        let hottest = room(most(&times).map_or(0.0, |(_, time)| time));
        let machine = |busy: f64| room((busy + extra) / rates.cpus.len() as f64);
        let headroom = Headroom { hottest, machine: machine(all_busy) };
        let at_most = Headroom { hottest, machine: machine(all_busy - elastic) };
        Then { times, extra, headroom, at_most }
    };
    let then = work_out(&Move::likely);
    if before.iter().all(|(cpu, time)| (then.times[cpu] - time).abs() < 1e-6) {
        return None;
    }
    let moving = moves.iter().filter(|step| step.changes() && before.contains_key(&step.from));
    let cpu = moving.map(|step| step.from).max_by(|a, b| before[a].total_cmp(&before[b]))?;
    let (busiest, busiest_after) = most(&then.times)?;
    let cases =
        moves.iter().filter(|step| step.begins_to_steer()).map(|step| step.ends().len()).max().unwrap_or(0);
    let ends: Vec<Then> =
        (0..cases).map(|at| work_out(&|step| step.ends()[at % step.ends().len()])).collect();
    let among = |of: &dyn Fn(&Then) -> f64| {
        let values = ends.iter().chain([&then]).map(of);
        values
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| [low.min(value), high.max(value)])
    };
    let all_before = sum(&before);
    let range = (cases > 0).then(|| Range {
        after: among(&|then| then.times[&cpu]),
        busiest: among(&|then| then.times[&busiest]),
        total: among(&|then| then.extra / all_before),
        hottest: among(&|then| then.headroom.hottest),
        machine: [among(&|then| then.headroom.machine)[0], among(&|then| then.at_most.machine)[1]],
        fits: [among(&|then| then.headroom.fits())[0], among(&|then| then.at_most.fits())[1]],
    });
    // Reported only if all cases agree.
    let overfull = rates.cpus.iter().map(|cpu| {
        let [least, _] = among(&|then| then.times[&cpu.cpu]);
        Overfull { cpu: cpu.cpu, busy: busy(cpu) - before[&cpu.cpu] + least }
    });
    let overfull = overfull.max_by(|a, b| a.busy.total_cmp(&b.busy)).filter(|full| full.busy > 1.0 + CHANGE);
    let now = headroom(rates);
    let loads = then.times.iter().map(|(cpu, after)| {
        let range = (cases > 0).then(|| among(&|then| then.times[cpu]));
        CpuLoad { cpu: *cpu, before: before[cpu], after: *after, range }
    });
    Some(Prediction {
        cpus: loads.filter(|load| load.before.max(load.after) >= SOME).collect(),
        packets: 0.0,
        most_before: 0.0,
        most_after: 0.0,
        basis: FIXED.to_owned(),
        cpu,
        before: before[&cpu],
        after: then.times[&cpu],
        busiest,
        busiest_before: before[&busiest],
        busiest_after,
        hottest,
        hottest_as_it_runs: full.map_or(now.hottest, |cpu| room(busy(cpu))),
        overfull,
        range,
        left_out: Vec::new(),
        total_change: then.extra / all_before,
        headroom_before: now,
        headroom_after: then.headroom,
    })
}

/// The CPU with the largest of these times, the first of equals.
fn most(times: &BTreeMap<CpuId, f64>) -> Option<(CpuId, f64)> {
    times.iter().rev().max_by(|a, b| a.1.total_cmp(b.1)).map(|(cpu, time)| (*cpu, *time))
}

impl Prediction {
    /// Adds the packets per second of the sample.
    #[must_use]
    pub(super) fn at(mut self, packets: f64) -> Self {
        (self.packets, self.most_before, self.most_after) =
            (packets, packets * self.headroom_before.fits(), packets * self.headroom_after.fits());
        self
    }

    /// The same figures as exact as the model: packets to whole ones, all others to four decimals.
    #[must_use]
    pub(super) fn rounded(mut self) -> Self {
        // Adding 0 turns -0 into 0.
        let to = |scale: f64| move |value: &mut f64| *value = (*value * scale).round() / scale + 0.0;
        [&mut self.packets, &mut self.most_before, &mut self.most_after].into_iter().for_each(to(1.0));
        let figures = [
            &mut self.before,
            &mut self.after,
            &mut self.busiest_before,
            &mut self.busiest_after,
            &mut self.total_change,
            &mut self.headroom_before.hottest,
            &mut self.headroom_before.machine,
            &mut self.headroom_after.hottest,
            &mut self.headroom_after.machine,
            &mut self.hottest_as_it_runs,
        ];
        let ranges =
            self.range.iter_mut().flat_map(|Range { after, busiest, total, hottest, machine, fits }| {
                [after, busiest, total, hottest, machine, fits].into_iter().flatten()
            });
        let cpus = self.cpus.iter_mut().flat_map(|CpuLoad { before, after, range, .. }| {
            [before, after].into_iter().chain(range.iter_mut().flatten())
        });
        let overfull = self.overfull.iter_mut().map(|full| &mut full.busy);
        figures.into_iter().chain(ranges).chain(cpus).chain(overfull).for_each(to(1e4));
        self
    }

    /// Describes the change in the traffic that the host can take.
    pub fn regime(&self) -> String {
        let as_it_runs = self.hottest_as_it_runs.min(self.headroom_before.machine);
        let before = [as_it_runs, self.headroom_before.fits()];
        let fits = self.headroom_after.fits();
        let after = self.range.map_or([fits; 2], |range| range.fits);
        let instead = format!("{} instead of {}", between(after, times), between(before, times));
        if after[1] < before[0] * (1.0 - CHANGE) {
            return format!("this costs capacity: the host can take {instead}");
        }
        if after[1] < before[0] * MORE {
            return "this spreads the load but adds no capacity".to_owned();
        }
        if after[0] > before[1] * (1.0 + CHANGE) {
            return format!("this lets the host take {instead}");
        }
        format!("this may add capacity (only a trial can tell): the host can take {instead}")
    }

    /// Describes how many times today's traffic fits, now and after the plan of this name.
    pub fn room(&self, plan: &str) -> String {
        let (before, after) = (self.headroom_before, self.headroom_after);
        let hottest = self.range.map_or([after.hottest; 2], |range| range.hottest);
        let machine = self.range.map_or([after.machine; 2], |range| range.machine);
        let mut text = format!(
            "CPU {} saturates at {} today's traffic, with {plan} CPU {} at {}; the whole machine at {}, with {plan} \
             at {}: {}",
            self.hottest.unwrap_or(self.cpu),
            between([self.hottest_as_it_runs, before.hottest], times),
            self.busiest,
            between(hottest, times),
            times(before.machine),
            between(machine, times),
            self.regime()
        );
        if let Some(Overfull { cpu, busy }) = self.overfull {
            let all = percent(busy);
            text += &format!(
                "; with its other work CPU {cpu} would then need {all} of its time, so that work has to move"
            );
        }
        text
    }
}

/// `1.0x to 1.9x`, or one figure if both read the same.
fn between([low, high]: [f64; 2], shown: impl Fn(f64) -> String) -> String {
    let (low, high) = (shown(low), shown(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// `CPU 2 98 -> 26 to 59 %, total +2 %`, with the CPU that becomes the busiest if that is another one. A
/// range if costs were not measured.
impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = |cpu: CpuId, now: f64, then: [f64; 2]| {
            let percent = |part: f64| format!("{:.0}", part * 100.0);
            let then = match then {
                [low, _] if low > 1.0 => "over 100 %".to_owned(),
                [low, high] if high > 1.0 && low < high => format!("{} to over 100 %", percent(low)),
                then => between(then, percent) + " %",
            };
            format!("CPU {cpu} {} -> {then}", percent(now))
        };
        let ranges = self.range.map(|range| (range.after, range.busiest, range.total));
        let (after, busiest, total) =
            ranges.unwrap_or(([self.after; 2], [self.busiest_after; 2], [self.total_change; 2]));
        f.write_str(&change(self.cpu, self.before, after))?;
        if self.busiest != self.cpu && busiest[1] > after[0] {
            write!(f, ", {}", change(self.busiest, self.busiest_before, busiest))?;
        }
        write!(f, ", total {} %", between(total, |part| format!("{:+.0}", part * 100.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Prediction, predict};
    use crate::diagnose::sketch::{Sketch, cpus};
    use crate::model::{NicKind, Rates};
    use crate::plan::moves::{Cost, Measured, Move, Steering};
    use crate::plan::spread::even;
    use crate::units::CpuId;

    fn step(kind: NicKind, from: u32, now: &str, to: &str) -> Move {
        let mask = |list: &str| if list.is_empty() { Steering::default() } else { even(&cpus(list)) };
        let from = CpuId(from);
        Move { kind, packets: 42_000.0, from, then: from, now: mask(now), to: mask(to), cost: None }
    }

    fn of_a_device(rates: &Rates, now: &str, to: &str) -> Option<Prediction> {
        predict(rates, &[step(NicKind::Device, 2, now, to)])
    }

    fn from_cpu_2(current: &str) -> Option<Prediction> {
        of_a_device(&Sketch::case_a().build().1, current, "0-1,3-7")
    }

    /// The machine as a whole is almost full: spreading cannot do more.
    #[test]
    fn field_case_a() {
        let prediction = from_cpu_2("").expect("work moves");
        assert_eq!(prediction.to_string(), "CPU 2 98 -> 26 to 59 %, total +2 to +3 %");
        assert_eq!(
            prediction.room("rps"),
            "CPU 2 saturates at 1.0x today's traffic, with rps CPU 2 at 1.7x to 3.8x; the whole machine at 1.2x, with \
             rps at 1.2x: this spreads the load but adds no capacity"
        );
    }

    /// Field case C went from 250k to 670k requests/s by RPS alone.
    #[test]
    fn a_full_cpu_of_an_idle_machine_held_the_host_back() {
        let (_, rates) = Sketch::new(8).receives(2, 0.98, 42_000.0).build();
        let prediction = of_a_device(&rates, "", "0-1,3-7").expect("work moves").at(42_000.0);
        assert_eq!(prediction.regime(), "this lets the host take 1.7x to 3.8x instead of 1.0x");
        assert!((prediction.most_after / prediction.most_before - 1.0 / 0.48).abs() < 0.01, "{prediction:?}");
    }

    /// If the kernel counts hard interrupts separately, the CPU handles them in addition to its softirqs.
    #[test]
    fn hard_interrupts_are_receive_work() {
        let (_, mut rates) = Sketch::new(8).receives(2, 0.5, 42_000.0).build();
        rates.cpus[2].irq = 0.3;
        let prediction = of_a_device(&rates, "", "0-1,3-7").expect("work moves");
        assert!((prediction.before - 0.8).abs() < 1e-9 && prediction.headroom_before.hottest < 1.3);
    }

    #[test]
    fn taking_the_cpu_out_of_a_mask_moves_only_its_own_part() {
        let prediction = from_cpu_2("0-7").expect("work moves");
        assert!((0.8..0.9).contains(&prediction.after), "{prediction:?}");
        assert!(prediction.total_change.abs() < 1e-9);
        assert_eq!(prediction.range, None, "what a hand-over costs is paid already");
    }

    #[test]
    fn a_mask_that_stays_moves_nothing() {
        assert_eq!(of_a_device(&Sketch::case_a().build().1, "0-1", "0-1"), None);
    }

    /// Measured with 540,000 packets/s before and 615,000 after: CPU 0 45 -> 24.5 %, CPU 1 0 -> 68 %: for the same
    /// traffic 22 and 60 %.
    #[test]
    fn on_two_cpus_the_other_one_becomes_the_busiest() {
        let (_, rates) = Sketch::new(2).veth("veth0").receives(0, 0.46, 5.4e5).receives(1, 0.0, 0.0).build();
        let prediction = predict(&rates, &[step(NicKind::Virtual, 0, "", "1")]).expect("work moves");
        assert_eq!(
            prediction.to_string(),
            "CPU 0 46 -> 0 to over 100 %, CPU 1 0 -> 16 to over 100 %, total -66 to +670 %"
        );
    }

    /// A target that gets more than there is time was once said to just fit today's traffic.
    #[test]
    fn more_than_fits_is_said() {
        let (_, rates) = Sketch::new(2).veth("veth0").works(1, 0.8).receives(0, 0.9, 5e5).build();
        let likely = Cost { kept: 0.5, handed: 1.3 };
        let cost = Some(Measured { likely, ends: vec![likely] });
        let dear = Move { cost, ..step(NicKind::Virtual, 0, "", "1") };
        let prediction = predict(&rates, &[dear]).expect("work moves");
        assert!(prediction.busiest_after > 1.1 && prediction.headroom_after.hottest < 0.9, "{prediction:?}");
        assert!(prediction.to_string().contains("CPU 1 0 -> over 100 %"), "{prediction}");
        let room = prediction.room("rps");
        assert!(room.contains("CPU 1 at 0.9x") && room.contains("this costs capacity"), "{room}");
        assert!(
            room.ends_with(
                "with its other work CPU 1 would then need 198 % of its time, so that work has to move"
            ),
            "{room}"
        );
    }

    /// The practice range with policy routing rules: CPU 0 sends, receives, and is full; 100,000 packets/s
    /// without RPS, 280,000 with it. The prediction was once "this costs capacity: the host can take 1.0x
    /// instead of 1.2x".
    #[test]
    fn nothing_is_said_against_what_may_win() {
        let (_, rates) =
            Sketch::new(2).veth("veth0").receives(0, 0.56, 1e5).works(0, 0.44).works(1, 0.9).build();
        let prediction = predict(&rates, &[step(NicKind::Virtual, 0, "", "1")]).expect("work moves");
        let regime = prediction.regime();
        assert!(regime.starts_with("this may add capacity (only a trial can tell)"), "{regime}");
        let range = prediction.range.expect("no cost was measured");
        assert!(range.after[0] < 0.03 && range.total[0] < -0.6 && range.total[1] > 0.7, "{range:?}");
        assert!(range.fits[0] < 1.0 && range.fits[1] > 1.6, "{range:?}");
        assert_eq!(prediction.hottest_as_it_runs, 1.0, "what sends cannot leave");
        assert!(
            prediction.room("rps").starts_with("CPU 0 saturates at 1.0x to 1.8x today"),
            "{}",
            prediction.room("rps")
        );
    }
}
