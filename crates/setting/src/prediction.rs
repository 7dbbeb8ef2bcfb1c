//! Predicted effect of a plan on the receive time of each CPU, to compare with the measurement of a trial.

use std::fmt;

use serde::{Deserialize, Serialize};

use rxlab_base::number::{percent, times};
use rxlab_base::units::CpuId;
use rxlab_path::evidence::Headroom;

/// Predicted receive time, as fractions of wall time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Lowest and highest packets per second of the interface to expect with the plan, while programs send as they do now;
    /// `None` if that cannot be predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<[f64; 2]>,
    /// The limit of the host or the link on the traffic of an interface of the plan, in words: no more gets through then, whatever
    /// the CPUs have room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overfull {
    /// The CPU.
    pub cpu: CpuId,
    /// All its work after the plan, as a fraction of wall time; above 1.
    pub busy: f64,
}

/// The uncertainty of a prediction: lowest and highest by the model's known error where costs were measured,
/// and otherwise by the costs seen elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Gain from which spreading is said to add more than little capacity. Field case A had a predicted 1.2 and took no more
/// requests: no machine has all of its CPUs busy to the end.
const MORE: f64 = 1.25;

/// Smallest change of today's capacity that is reported: less is rounding.
pub const CHANGE: f64 = 0.05;

impl Prediction {
    /// Adds the packets per second of the sample.
    #[must_use]
    pub fn at(mut self, packets: f64) -> Self {
        (self.packets, self.most_before, self.most_after) =
            (packets, packets * self.headroom_before.fits(), packets * self.headroom_after.fits());
        self
    }

    /// The same figures as exact as the model: packets to whole ones, all others to four decimals.
    #[must_use]
    pub fn rounded(mut self) -> Self {
        // Adding 0 turns -0 into 0.
        let to = |scale: f64| move |value: &mut f64| *value = (*value * scale).round() / scale + 0.0;
        let rates = [&mut self.packets, &mut self.most_before, &mut self.most_after];
        rates.into_iter().chain(self.rate.iter_mut().flatten()).for_each(to(1.0));
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

    /// CPUs whose receive time after the plan is predicted closely enough to be of use: now, and its lowest and highest value. At
    /// most the one that receives now, and the one that is then the busiest.
    pub fn loads(&self) -> Vec<(CpuId, f64, [f64; 2])> {
        let after = self.range.map_or([self.after; 2], |range| range.after);
        let busiest = self.range.map_or([self.busiest_after; 2], |range| range.busiest);
        let mut loads = vec![(self.cpu, self.before, after)];
        if self.busiest != self.cpu && busiest[1] > after[0] {
            loads.push((self.busiest, self.busiest_before, busiest));
        }
        loads.retain(|(.., [low, high])| high - low <= WIDEST_LOAD);
        loads
    }

    /// Lowest and highest change of the receive time of all CPUs together; `None` if the interval is too wide to be of use.
    pub fn total(&self) -> Option<[f64; 2]> {
        let total = self.range.map_or([self.total_change; 2], |range| range.total);
        is_useful(total.map(|change| 1.0 + change)).then_some(total)
    }

    /// How many times today's traffic fits with the plan; `None` if the interval is too wide to be of use, or a limit outside this
    /// machine bounds it.
    pub fn fits(&self) -> Option<[f64; 2]> {
        let fits = self.range.map_or([self.headroom_after.fits(); 2], |range| range.fits);
        (is_useful(fits) && self.limit.is_none()).then_some(fits)
    }

    /// Describes the traffic that fits with the plan, in a few words; `None` if it may be as much as today, or a limit outside this
    /// machine bounds it.
    pub fn capacity(&self) -> Option<String> {
        if self.limit.is_some() {
            return None;
        }
        if let Some(rate) = self.rate {
            let times_now = rate.map(|rate| rate / self.packets);
            return clears([1.0; 2], times_now)
                .then(|| format!("{} today's packets get through", dashed(times_now)));
        }
        if let Some(Overfull { cpu, .. }) = self.overfull {
            return Some(format!("fills CPU {cpu} unless its other work moves"));
        }
        let as_it_runs = self.hottest_as_it_runs.min(self.headroom_before.machine);
        let before = [as_it_runs, self.headroom_before.fits().max(as_it_runs)];
        let fits = self.headroom_after.fits();
        let after = self.range.map_or([fits; 2], |range| range.fits);
        if clears(before, after) && (after[1] < before[0] || after[1] >= before[0] * MORE) {
            return Some(format!("room for {} today's packets", dashed(after)));
        }
        (after[1] < before[0] * MORE && after[1] >= before[0] * (1.0 - CHANGE))
            .then(|| adds_at_most_little(before, after).to_owned())
    }

    /// Describes the change in the traffic that the host can take; without figures if they are too uncertain to be of use.
    pub fn regime(&self) -> String {
        let as_it_runs = self.hottest_as_it_runs.min(self.headroom_before.machine);
        let before = [as_it_runs, self.headroom_before.fits().max(as_it_runs)];
        let fits = self.headroom_after.fits();
        let after = self.range.map_or([fits; 2], |range| range.fits);
        let figures = is_useful(after) && is_useful(before);
        let instead = format!("{} instead of {}", between(after, times), between(before, times));
        if after[1] < before[0] * (1.0 - CHANGE) {
            let how_much = if figures { format!(": the host can take {instead}") } else { String::new() };
            return format!("this costs capacity{how_much}");
        }
        if let Some(limit) = &self.limit {
            return format!("this spreads the load, but {limit}, which no setting of this machine lifts");
        }
        if after[1] < before[0] * MORE {
            return format!("this spreads the load but {}", adds_at_most_little(before, after));
        }
        match (after[0] > before[1] * (1.0 + CHANGE), figures) {
            (true, _) => format!("this lets the host take {instead}"),
            (false, true) => {
                format!("this may add capacity (only a trial can tell): the host can take {instead}")
            }
            (false, false) => "whether this adds capacity cannot be predicted here; a trial tells".to_owned(),
        }
    }

    /// Describes how many times today's traffic fits, now and after the plan of this name.
    pub fn room(&self, plan: &str) -> String {
        let (before, after) = (self.headroom_before, self.headroom_after);
        let hottest = self.range.map_or([after.hottest; 2], |range| range.hottest);
        let machine = self.range.map_or([after.machine; 2], |range| range.machine);
        let now = [self.hottest_as_it_runs, before.hottest.max(self.hottest_as_it_runs)];
        let full = match between(now, times) {
            today if today == times(1.0) => "is full at today's traffic".to_owned(),
            more => format!("is full at {more} today's traffic"),
        };
        let hot = self.hottest.unwrap_or(self.cpu);
        let mut text =
            format!("CPU {hot} {full}, the whole machine at {}. With {plan}", times(before.machine));
        let is_shown = |figures| is_useful(figures) && self.rate.is_none();
        let then = [(format!("CPU {}", self.busiest), hottest), ("the whole machine".to_owned(), machine)];
        let then = then.into_iter().filter(|(_, figures)| is_shown(*figures));
        for (index, (what, figures)) in then.enumerate() {
            let verb = if index == 0 { " is full" } else { "" };
            text += &format!(", {what}{verb} at {}", between(figures, times));
        }
        text += &format!(": {}", self.regime());
        if let Some(Overfull { cpu, busy }) = self.overfull {
            let all = percent(busy);
            text += &format!(
                "; with its other work CPU {cpu} would then need {all} of its time, so that work has to move"
            );
        }
        text
    }
}

/// Widest interval of a CPU's receive time, as a part of its time, that helps to choose.
const WIDEST_LOAD: f64 = 0.5;

/// Widest interval, as the ratio of its ends, that helps to choose.
const WIDEST: f64 = 1.6;

/// A predicted part of a CPU's time. It is never said to be 0: softirqs and interrupts that are not for the packets that move
/// stay on the CPU, and no prediction counts them.
pub fn predicted_percent(part: f64) -> String {
    if part < NEAR_0 { "near 0 %".to_owned() } else { percent(part) }
}

/// Part of a CPU's time below which it would read as 0 %.
const NEAR_0: f64 = 0.005;

/// True for an interval that is narrow enough to be shown.
fn is_useful([low, high]: [f64; 2]) -> bool {
    high <= low * WIDEST
}

/// True if one interval is above the other, or below, by more than rounding.
fn clears(before: [f64; 2], after: [f64; 2]) -> bool {
    after[0] > before[1] * (1.0 + CHANGE) || after[1] < before[0] * (1.0 - CHANGE)
}

/// What a gain below [`MORE`] is called.
fn adds_at_most_little(before: [f64; 2], after: [f64; 2]) -> &'static str {
    let is_some = after[0] > before[1] * (1.0 + CHANGE);
    if is_some { "adds little capacity" } else { "adds no capacity" }
}

/// `1.7-3.8x`, or one figure if both read the same.
fn dashed(interval: [f64; 2]) -> String {
    let [low, high] = interval.map(times);
    if low == high { low } else { format!("{}-{high}", low.trim_end_matches('x')) }
}

/// `1.0x to 1.9x`, or one figure if both read the same.
fn between([low, high]: [f64; 2], shown: impl Fn(f64) -> String) -> String {
    let (low, high) = (shown(low), shown(high));
    if low == high { low } else { format!("{low} to {high}") }
}

/// `CPU 2: 98 -> 26 to 59 %, all CPUs +2 %`, with the CPU that becomes the busiest if that is another one, and the packets/s
/// if they are known; what is too uncertain is left out.
impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let change = |cpu: CpuId, now: f64, then: [f64; 2]| {
            let percent = |part: f64| format!("{:.0}", part * 100.0);
            let then = match then {
                [_, high] if high < NEAR_0 => predicted_percent(high),
                [low, _] if low > 1.0 => "over 100 %".to_owned(),
                [low, high] if high > 1.0 && low < high => format!("{} to over 100 %", percent(low)),
                then => between(then, percent) + " %",
            };
            format!("CPU {cpu}: {} -> {then}", percent(now))
        };
        let mut parts: Vec<String> =
            self.loads().into_iter().map(|(cpu, now, then)| change(cpu, now, then)).collect();
        if let Some(total) = self.total() {
            parts.push(format!("all CPUs {} %", between(total, |part| format!("{:+.0}", part * 100.0))));
        }
        if let Some(rate) = self.rate {
            parts.push(format!("packets/s {}", between(rate.map(|rate| rate / self.packets), times)));
        }
        if parts.is_empty() {
            return f.write_str("cannot be predicted here; a trial tells");
        }
        f.write_str(&parts.join(", "))
    }
}
