//! The decision after each pair: when to stop, and the call of an interval.

use super::record::{Better, Call, Effect, TrialRecord};
use rxlab_stats::interval::{Interval, Ratios};
use rxlab_stats::looks::{Look, lack_error, last, look_at};

/// The stopping rule of one trial. It has no memory: the same pairs give the same decision, so a
/// resumed trial decides as if it had never been stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Monitor {
    /// Fewest pairs at which it decides before the end.
    pub min_pairs: usize,
    /// Pairs at which it ends, at least 2.
    pub max_pairs: usize,
    /// Margin of equivalence (0.03 = 3 %).
    pub margin: f64,
    /// Direction in which the primary metric is better.
    pub better: Better,
    /// Seed of the sign-flip test.
    pub seed: u64,
    /// The time of the trial was over before all pairs.
    pub time_is_over: bool,
}

impl Monitor {
    /// The rule of `record`.
    pub fn new(record: &TrialRecord) -> Self {
        Self {
            min_pairs: record.min_pairs,
            max_pairs: record.max_pairs,
            margin: record.margin,
            better: record.metrics.first().map_or(Better::Higher, |primary| primary.better),
            seed: record.seed,
            time_is_over: record.time_is_over,
        }
    }

    /// The look that `pairs` valid pairs are.
    pub fn look_at(&self, pairs: usize) -> Look {
        let look = if self.time_is_over { last } else { look_at };
        look(pairs, self.min_pairs, self.max_pairs)
    }

    /// Decides from the log ratios of all valid pairs so far: the call and the interval of the primary metric with which
    /// the trial stops, or `None` to run another pair. Only planned looks stop a trial; the last one does, conclusive or
    /// not.
    pub fn look(&self, ratios: Ratios) -> Option<(Call, Effect)> {
        let pairs = ratios.d.len();
        let look = self.look_at(pairs);
        if let Look::Between(_) = look {
            return None;
        }
        // The sign-flip test only takes effects away, and costs more than all the rest.
        let undecided = |call| call == Call::Inconclusive && pairs < self.max_pairs;
        if self.other(ratios, look, 1, self.better).is_some_and(|(call, _)| undecided(call)) {
            return None;
        }
        let (call, interval) = self.primary(ratios, look)?;
        (!undecided(call)).then(|| (call, interval.into()))
    }

    /// Call and interval of the primary metric at `look`; `None` below two pairs.
    pub fn primary(&self, ratios: Ratios, look: Look) -> Option<(Call, Interval)> {
        let effect = ratios.primary_interval(look, self.seed)?;
        Some(judge(effect, self.equivalence(ratios, look, 1)?, self.margin, self.better))
    }

    /// The same of a metric that has one of `parts` equal shares of the error.
    pub fn other(
        &self,
        ratios: Ratios,
        look: Look,
        parts: usize,
        better: Better,
    ) -> Option<(Call, Interval)> {
        let effect = ratios.interval(look, parts)?;
        Some(judge(effect, self.equivalence(ratios, look, parts)?, self.margin, better))
    }

    /// Unbounded if the values have steps larger than the margin: a difference of that size could be rounded away.
    fn equivalence(&self, ratios: Ratios, look: Look, parts: usize) -> Option<Interval> {
        let look = match look {
            Look::Planned(error) => {
                Look::Planned(lack_error(error, self.min_pairs, self.max_pairs, self.time_is_over))
            }
            between => between,
        };
        let interval = ratios.equivalence(look, parts)?;
        Some(if ratios.step > self.margin { Interval::around(interval.mid, f64::INFINITY) } else { interval })
    }
}

/// Call of two intervals of ln(B/A) against `margin` (0.03 = 3 %), and the interval to show with it: `equivalence`
/// inside the margin, else `effect` above 0 or below. Being inside comes first: a proven effect that is too
/// small to matter is negligible, not a help.
pub fn judge(effect: Interval, equivalence: Interval, margin: f64, better: Better) -> (Call, Interval) {
    let (rises, falls) = match better {
        Better::Higher => (Call::Helps, Call::Hurts),
        Better::Lower => (Call::Hurts, Call::Helps),
    };
    let margin = margin.ln_1p();
    if equivalence.inside(margin) {
        let call = if effect.excludes_zero() { Call::Negligible } else { Call::NoEffect };
        // An end of the wider interval stays where that is inside too.
        let low = if effect.low > -margin { effect.low } else { equivalence.low };
        let high = if effect.high < margin { effect.high } else { equivalence.high };
        (call, Interval { low, high, ..effect })
    } else if effect.low > 0.0 {
        (rises, effect)
    } else if effect.high < 0.0 {
        (falls, effect)
    } else {
        (Call::Inconclusive, effect)
    }
}

#[cfg(test)]
mod tests {
    use super::{Monitor, judge};
    use crate::record::{Better, Call};
    use rxlab_stats::interval::{Interval, Ratios};

    fn monitor(min_pairs: usize, max_pairs: usize, better: Better) -> Monitor {
        Monitor { min_pairs, max_pairs, margin: 0.03, better, seed: 1, time_is_over: false }
    }

    fn call(low: f64, high: f64, better: Better) -> Call {
        let (low, high) = (low.ln_1p(), high.ln_1p());
        let interval = Interval { mid: (low + high) / 2.0, low, high };
        judge(interval, interval, 0.03, better).0
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
        let unbounded = Interval::around(2.0, f64::INFINITY);
        assert_eq!(judge(unbounded, unbounded, 0.03, Better::Higher).0, Call::Inconclusive);
    }

    /// The equivalence test is narrower; what is shown with its call lies inside the margin and never looks like
    /// an effect that was not shown.
    #[test]
    fn the_interval_shown_agrees_with_the_call() {
        let effect = Interval { mid: 0.012, low: -0.004, high: 0.032 };
        let equivalence = Interval { mid: 0.012, low: 0.001, high: 0.025 };
        let (call, shown) = judge(effect, equivalence, 0.03, Better::Higher);
        assert_eq!((call, shown), (Call::NoEffect, Interval { mid: 0.012, low: -0.004, high: 0.025 }));
    }

    fn effect_of(percent: f64, pairs: usize) -> Vec<f64> {
        (0..pairs).map(|i| percent / 100.0 + if i % 2 == 0 { 0.01 } else { -0.01 }).collect()
    }

    #[test]
    fn goes_on_until_a_planned_look_decides() {
        let monitor = monitor(9, 40, Better::Higher);
        let d = effect_of(10.0, 40);
        let look = |n: usize| monitor.look(Ratios::from(&d[..n]));
        assert_eq!((0..=40).find(|&n| look(n).is_some()), Some(9), "the first look");
        let (call, effect) = look(9).expect("it stops at 9");
        assert_eq!(call, Call::Helps);
        assert!(effect.low > 0.08 && effect.mid > 0.1 && effect.high < 0.13, "{effect:?}");
        assert_eq!(look(10), None, "no look is planned there");
    }

    #[test]
    fn a_fall_of_latency_is_a_negative_change_that_helps() {
        let d: Vec<f64> = effect_of(0.0, 12).iter().map(|noise| noise + 0.5f64.ln()).collect();
        let look = monitor(9, 40, Better::Lower).look(Ratios::from(&d[..]));
        let (call, effect) = look.expect("a halving is clear");
        assert_eq!(call, Call::Helps);
        assert!((effect.mid + 0.5).abs() < 0.001, "{effect:?}");
    }

    #[test]
    fn the_end_stops_whatever_it_says() {
        let wide: Vec<f64> = (0..6).map(|i| if i % 2 == 0 { 0.5 } else { -0.4 }).collect();
        let monitor = monitor(2, 6, Better::Higher);
        assert_eq!(monitor.look(Ratios::from(&wide[..5])), None);
        assert!(matches!(monitor.look(Ratios::from(&wide[..])), Some((Call::Inconclusive, _))));
    }

    /// Two coins show nothing, however large the difference.
    #[test]
    fn too_few_pairs_show_no_effect() {
        let monitor = monitor(1, 1, Better::Higher);
        assert_eq!(monitor.look(Ratios::from(&[0.1][..])), None);
        let look = monitor.look(Ratios::from(&[0.1, 0.1][..]));
        assert!(matches!(look, Some((Call::Inconclusive, _))), "{look:?}");
    }
}
