//! The decision after each pair: when to stop, and the call of an interval.

use super::record::{Better, Call, Effect};
use super::stats::interval::{Interval, Level, Look, interval};

/// Fewest pairs at which a trial may stop early.
pub const FIRST_LOOK: usize = 5;

/// Next step after a valid pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Run another pair.
    Continue,
    /// Stop: the primary metric's call and interval.
    Stop(Call, Effect),
}

/// The stopping rule of one trial. It has no memory: the same pairs give the same decision, so a
/// resumed trial decides as if it had never been stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Monitor {
    max_pairs: usize,
    margin: f64,
    better: Better,
}

impl Monitor {
    /// A rule that ends at `max_pairs` (at least 2) with an equivalence margin of `margin` (0.03 =
    /// 3 %) on a metric that is better in the direction `better`.
    pub fn new(max_pairs: usize, margin: f64, better: Better) -> Self {
        Self { max_pairs, margin, better }
    }

    /// Decides from the log ratios ln(B/A) of all valid pairs so far, in time order.
    ///
    /// Before the end only a decided call stops, by the anytime-valid interval; at the end the
    /// fixed interval decides, conclusive or not.
    pub fn look(&self, d: &[f64]) -> Decision {
        let look = look_at(d.len(), self.max_pairs);
        if look == Look::Live && d.len() < FIRST_LOOK {
            return Decision::Continue;
        }
        let Some(interval) = interval(d, look, Level::PRIMARY) else { return Decision::Continue };
        match (look, judge(interval, self.margin, self.better)) {
            (Look::Live, Call::Inconclusive) => Decision::Continue,
            (_, call) => Decision::Stop(call, interval.effect()),
        }
    }
}

/// The look that `pairs` valid pairs are, in a trial that ends at `max_pairs`.
pub fn look_at(pairs: usize, max_pairs: usize) -> Look {
    if pairs >= max_pairs.max(2) { Look::End } else { Look::Live }
}

/// Call of an interval of ln(B/A) against `margin` (0.03 = 3 %), in this order: all inside
/// the margin, all above 0, all below 0. Being inside comes first: a proven effect that is too
/// small to matter is negligible, not a help.
pub fn judge(interval: Interval, margin: f64, better: Better) -> Call {
    let (rises, falls) = match better {
        Better::Higher => (Call::Helps, Call::Hurts),
        Better::Lower => (Call::Hurts, Call::Helps),
    };
    if interval.inside(margin.ln_1p()) {
        if interval.excludes_zero() { Call::Negligible } else { Call::NoEffect }
    } else if interval.low() > 0.0 {
        rises
    } else if interval.high() < 0.0 {
        falls
    } else {
        Call::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, Monitor, judge};
    use crate::trial::record::{Better, Call};
    use crate::trial::stats::interval::Interval;

    fn call(low: f64, high: f64, better: Better) -> Call {
        let (low, high) = (low.ln_1p(), high.ln_1p());
        judge(Interval { mid: (low + high) / 2.0, half: (high - low) / 2.0 }, 0.03, better)
    }

    #[test]
    fn the_four_answers_in_their_order() {
        assert_eq!(call(-0.01, 0.02, Better::Higher), Call::NoEffect);
        assert_eq!(call(0.01, 0.02, Better::Higher), Call::Negligible);
        assert_eq!(call(-0.02, -0.01, Better::Higher), Call::Negligible);
        assert_eq!(call(0.01, 0.05, Better::Higher), Call::Helps);
        assert_eq!(call(-0.05, -0.01, Better::Higher), Call::Hurts);
        assert_eq!(call(-0.01, 0.05, Better::Higher), Call::Inconclusive);
    }

    #[test]
    fn latency_is_better_when_it_falls() {
        assert_eq!(call(-0.6, -0.4, Better::Lower), Call::Helps);
        assert_eq!(call(0.4, 0.6, Better::Lower), Call::Hurts);
        assert_eq!(call(-0.01, 0.01, Better::Lower), Call::NoEffect);
    }

    /// The margin is a ratio: 1/1.03 is as far from 1 as 1.03 is.
    #[test]
    fn the_margin_is_symmetric_as_a_ratio() {
        assert_eq!(call(-0.029, 0.0299, Better::Higher), Call::NoEffect);
        assert_eq!(call(-0.0295, 0.01, Better::Higher), Call::Inconclusive);
    }

    #[test]
    fn an_unbounded_interval_decides_nothing() {
        let unbounded = Interval { mid: 2.0, half: f64::INFINITY };
        assert_eq!(judge(unbounded, 0.03, Better::Higher), Call::Inconclusive);
    }

    fn effect_of(percent: f64, pairs: usize) -> Vec<f64> {
        (0..pairs).map(|i| percent / 100.0 + if i % 2 == 0 { 0.01 } else { -0.01 }).collect()
    }

    #[test]
    fn goes_on_until_the_interval_decides() {
        let monitor = Monitor::new(40, 0.03, Better::Higher);
        let d = effect_of(10.0, 40);
        let stop = (0..=40).find(|&n| monitor.look(&d[..n]) != Decision::Continue);
        assert_eq!(stop, Some(9), "the first finite interval is at 9 pairs");
        let Decision::Stop(call, effect) = monitor.look(&d[..9]) else { panic!("it stops at 9") };
        assert_eq!(call, Call::Helps);
        assert!(effect.low > 0.0 && effect.mid > 0.1 && effect.high < 0.25, "{effect:?}");
    }

    #[test]
    fn a_fall_of_latency_is_a_negative_change_that_helps() {
        let d: Vec<f64> = effect_of(0.0, 12).iter().map(|noise| noise + 0.5f64.ln()).collect();
        let Decision::Stop(call, effect) = Monitor::new(40, 0.03, Better::Lower).look(&d) else {
            panic!("a halving is clear")
        };
        assert_eq!(call, Call::Helps);
        assert!((effect.mid + 0.5).abs() < 0.001, "{effect:?}");
    }

    #[test]
    fn the_end_stops_whatever_it_says() {
        let wide: Vec<f64> = (0..6).map(|i| if i % 2 == 0 { 0.5 } else { -0.4 }).collect();
        let monitor = Monitor::new(6, 0.03, Better::Higher);
        assert_eq!(monitor.look(&wide[..5]), Decision::Continue);
        assert!(matches!(monitor.look(&wide), Decision::Stop(Call::Inconclusive, _)));
    }

    #[test]
    fn a_trial_of_one_pair_is_one_of_two() {
        let monitor = Monitor::new(1, 0.03, Better::Higher);
        assert_eq!(monitor.look(&[0.1]), Decision::Continue);
        assert!(matches!(monitor.look(&[0.1, 0.1]), Decision::Stop(Call::Helps, _)));
    }
}
