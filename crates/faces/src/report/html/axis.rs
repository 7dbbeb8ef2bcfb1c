//! An axis of changes in percent on a logarithmic scale: halving and doubling are equally far from no change, as in
//! the analysis.

use rxlab_trial::record::Effect;

use rxlab_base::number;

/// Changes below a tenth or above ten times are drawn at the edge.
const EDGE: f64 = std::f64::consts::LN_10;
/// Steps of ticks in percent, the finest first.
const STEPS: [f64; 11] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0];
/// Ticks for ranges that are too wide for an even step.
const UNEVEN: [f64; 9] = [-90.0, -75.0, -50.0, -25.0, 0.0, 33.0, 100.0, 300.0, 900.0];

/// An axis over log ratios that includes 0 and the margin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    low: f64,
    high: f64,
}

/// One tick: its position (0 to 1) and its label.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
    pub(super) zero: bool,
}

impl Axis {
    /// An axis that covers all finite `values` (log ratios) and `margin` (0.03 = 3 %).
    pub(super) fn over(values: impl IntoIterator<Item = f64>, margin: f64) -> Self {
        let margin = log(margin.clamp(0.002, 0.5)) * 1.35;
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (low, high) =
            finite.fold((-margin, margin), |(low, high), value| (low.min(value), high.max(value)));
        let room = (high - low) * 0.06;
        Self { low: (low - room).max(-EDGE * 1.02), high: (high + room).min(EDGE * 1.02) }
    }

    /// Position of a log ratio, 0 to 1; values beyond the axis are at its edge.
    pub(super) fn at(&self, log_ratio: f64) -> f64 {
        ((log_ratio - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// True if a log ratio lies within the axis.
    pub(super) fn holds(&self, log_ratio: f64) -> bool {
        (self.low..=self.high).contains(&log_ratio)
    }

    /// Ticks at least `apart` (share of the axis) from each other, at round percentages.
    pub(super) fn ticks(&self, apart: f64) -> Vec<Tick> {
        let even = STEPS.iter().map(|step| self.even(*step)).find(|ticks| readable(ticks, apart));
        even.unwrap_or_else(|| self.uneven(apart))
    }

    fn even(&self, step: f64) -> Vec<Tick> {
        let (low, high) = (self.low.exp_m1() * 100.0, self.high.exp_m1() * 100.0);
        let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
        // Too many to be readable.
        if last - first > 60 {
            return Vec::new();
        }
        (first..=last).map(|index| self.tick(index as f64 * step)).collect()
    }

    fn uneven(&self, apart: f64) -> Vec<Tick> {
        let within = UNEVEN.iter().filter(|percent| self.holds(log(**percent / 100.0)));
        let mut ticks: Vec<Tick> = vec![self.tick(0.0)];
        for tick in within.map(|percent| self.tick(*percent)) {
            if ticks.iter().all(|other| (other.at - tick.at).abs() >= apart) {
                ticks.push(tick);
            }
        }
        ticks
    }

    fn tick(&self, percent: f64) -> Tick {
        let label = if percent == 0.0 { "0 %".to_owned() } else { number::tick(percent) };
        Tick { at: self.at(log(percent / 100.0)), label, zero: percent == 0.0 }
    }
}

fn readable(ticks: &[Tick], apart: f64) -> bool {
    ticks.len() >= 2 && ticks.windows(2).all(|pair| pair[1].at - pair[0].at >= apart)
}

/// A relative change as a log ratio; minus infinity for -1 and below.
pub(super) fn log(change: f64) -> f64 {
    change.max(-1.0).ln_1p()
}

/// The ends of an interval as log ratios; infinite where there is no bound.
pub(super) fn ends(effect: &Effect) -> (f64, f64) {
    let low = if effect.has_low() { log(effect.low) } else { f64::NEG_INFINITY };
    (low, if effect.high.is_finite() { log(effect.high) } else { f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use super::{Axis, log};
    use proptest::prelude::{any, prop_assert, proptest};

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks(0.11).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round_and_apart() {
        assert_eq!(
            labels(&Axis::over([log(-0.53), log(0.014)], 0.03)),
            ["-50 %", "-40 %", "-30 %", "-20 %", "-10 %", "0 %"]
        );
        assert_eq!(labels(&Axis::over([], 0.03)), ["-4 %", "-2 %", "0 %", "+2 %", "+4 %"]);
        let wide = labels(&Axis::over([log(-0.95), log(40.0)], 0.03));
        assert_eq!(wide, ["0 %", "-90 %", "-75 %", "-50 %", "+100 %", "+300 %", "+900 %"]);
    }

    #[test]
    fn halving_and_doubling_are_equally_far() {
        let axis = Axis::over([log(-0.5), log(1.0)], 0.03);
        assert!((axis.at(log(-0.5)) - (1.0 - axis.at(log(1.0)))).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn every_axis_has_ticks_inside_it(values in proptest::collection::vec(any::<f64>(), 0..6), margin in any::<f64>()) {
            let axis = Axis::over(values.iter().copied(), if margin.is_nan() { 0.03 } else { margin });
            let ticks = axis.ticks(0.11);
            prop_assert!(ticks.iter().any(|tick| tick.zero));
            prop_assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)));
        }
    }
}
