//! A later look at a trial whose change stayed: are its settings still set, and does the effect still hold?
//!
//! It compares the primary metric now with the slots of both arms then. Nothing is randomised between then and now, so
//! whatever else has changed is in the difference: a checkpoint can contradict a trial, and proves nothing alone. Slots in a
//! row are of one moment of the machine, and count as the fewer independent ones that their autocorrelation leaves.

use serde::{Deserialize, Serialize};

use super::record::{Call, Effect, TrialRecord};
use rxlab_base::units::rfc3339;
use rxlab_stats::design::Arm;
use rxlab_stats::interval::{Interval, welch_serial};

/// Error of an interval.
const ERROR: f64 = 0.05;

/// One checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Checkpoint {
    /// `rxlab.checkpoint/1`.
    pub schema: String,
    /// The trial.
    pub trial: String,
    /// When it was taken, RFC 3339 in UTC.
    pub taken: String,
    /// Settings of the change that are not set any more, as found.
    pub drifted: Vec<String>,
    /// Values of the primary metric.
    pub values: Vec<f64>,
    /// Change from arm A then to now; `None` if either has too few values above 0.
    pub from_a: Option<Effect>,
    /// Change from arm B then to now.
    pub from_b: Option<Effect>,
    /// What follows.
    pub state: State,
}

/// What a checkpoint shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The metric differs from arm A by more than the margin, and not shown to be less than in the trial.
    Holds,
    /// It still differs from arm A in the same direction, by less than the trial showed.
    Weaker,
    /// It is not: it is like arm A, or on the other side.
    Gone,
    /// The trial showed that there is no effect, and the metric is still within the margin of arm A.
    StillNone,
    /// The interval leaves both open.
    Unclear,
    /// The change is not set any more.
    NotSet,
}

impl Checkpoint {
    pub const SCHEMA: &'static str = "rxlab.checkpoint/1";

    /// Compares `values` of the primary metric of `record` with those of its slots. `drifted`: settings of the change
    /// that are not set.
    pub fn new(record: &TrialRecord, values: Vec<f64>, drifted: Vec<String>) -> Self {
        let now = logs(values.iter().copied());
        let primary = record.metrics.first().map_or("", |primary| &primary.name);
        let from = |arm| welch_serial(&logs(record.values(primary, arm)), &now, ERROR);
        let (from_a, from_b) = (from(Arm::A), from(Arm::B));
        let state = match from_a {
            _ if !drifted.is_empty() => State::NotSet,
            Some(change) => match record.analysis.as_ref().and_then(|analysis| analysis.metrics.first()) {
                Some(result) if shows_none(result.call) => still_none(change, record.margin),
                result => state(result.and_then(|result| result.effect), change, record.margin),
            },
            None => State::Unclear,
        };
        Self {
            schema: Self::SCHEMA.to_owned(),
            trial: record.id.clone(),
            taken: rfc3339(jiff::Timestamp::now()),
            drifted,
            values,
            from_a: from_a.map(Effect::from),
            from_b: from_b.map(Effect::from),
            state,
        }
    }

    /// Time since the trial began, seconds; `None` if the record has no valid time.
    pub fn after_s(&self, record: &TrialRecord) -> Option<f64> {
        let [then, now] = [&record.started, &self.taken].map(|time| time.parse::<jiff::Timestamp>());
        Some(now.ok()?.duration_since(then.ok()?).as_secs_f64())
    }
}

/// True if a trial showed the lack of an effect that matters.
fn shows_none(call: Call) -> bool {
    matches!(call, Call::NoEffect | Call::Negligible)
}

/// What a `change` from arm A to now, as a log ratio, says about the lack of an effect. A change beyond the margin is that
/// of the traffic, which is no effect either.
fn still_none(change: Interval, margin: f64) -> State {
    let is_within = change.high < margin.ln_1p() && change.low > (-margin).ln_1p();
    if is_within { State::StillNone } else { State::Unclear }
}

/// What a `change` from arm A to now, as a log ratio, says about the trial's effect.
fn state(effect: Option<Effect>, change: Interval, margin: f64) -> State {
    let shown = effect.filter(|effect| effect.low > 0.0 || effect.high < 0.0);
    let Some(shown) = shown else { return State::Unclear };
    // On the scale on which the trial's effect is a rise.
    let (low, high, least) = if shown.mid > 0.0 {
        (change.low, change.high, shown.low.ln_1p())
    } else {
        (-change.high, -change.low, -shown.high.ln_1p())
    };
    if low > margin.ln_1p() && high >= least {
        State::Holds
    } else if low > 0.0 && high < least {
        State::Weaker
    } else if high < margin.ln_1p() {
        State::Gone
    } else {
        State::Unclear
    }
}

/// Logarithms; empty if a value has none.
fn logs(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let log = |value: f64| (value.is_finite() && value > 0.0).then(|| value.ln());
    values.map(log).collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Checkpoint, State, state, still_none};
    use crate::analysis::analyse;
    use crate::record::{Effect, Slot, TrialRecord};
    use crate::simulate;
    use rxlab_stats::design::{Arm, Phase};
    use rxlab_stats::interval::Interval;
    use rxlab_stats::noise::Noise;

    #[test]
    fn an_effect_holds_is_gone_or_is_open() {
        let rise = Effect { mid: 0.18, low: 0.12, high: 0.24 };
        let fall = Effect { mid: -0.18, low: -0.24, high: -0.12 };
        let none = Effect { mid: 0.0, low: -0.01, high: 0.01 };
        let now = |effect, low: f64, high: f64| {
            let change = Interval { mid: (low + high) / 2.0, low, high };
            state(Some(effect), change, 0.03)
        };
        assert_eq!(now(rise, 0.05, 0.2), State::Holds);
        assert_eq!(now(fall, -0.2, -0.05), State::Holds);
        assert_eq!(now(rise, 0.008, 0.014), State::Weaker, "+1.1 % of +18 % once held");
        assert_eq!(now(fall, -0.08, -0.04), State::Weaker);
        assert_eq!(now(rise, 0.01, 0.2), State::Unclear, "not beyond the margin");
        assert_eq!(now(rise, -0.02, 0.02), State::Gone);
        assert_eq!(now(rise, -0.2, -0.1), State::Gone);
        assert_eq!(now(fall, -0.02, 0.1), State::Gone);
        assert_eq!(now(rise, -0.1, 0.2), State::Unclear);
        assert_eq!(now(none, 0.05, 0.2), State::Unclear, "the trial showed nothing");
        assert_eq!(state(None, Interval::around(0.1, 0.01), 0.03), State::Unclear);
    }

    #[test]
    fn no_effect_stays_none_within_the_margin() {
        let now = |low: f64, high: f64| still_none(Interval { mid: (low + high) / 2.0, low, high }, 0.1);
        assert_eq!(now(-0.02, 0.03), State::StillNone);
        assert_eq!(now(-0.02, 0.2), State::Unclear);
        assert_eq!(now(-0.2, 0.03), State::Unclear);
        assert_eq!(now(0.2, 0.3), State::Unclear);
    }

    /// A trial of pairs with these values, whose arm B is 20 % above arm A.
    fn record(values: &[f64]) -> TrialRecord {
        let slot =
            |pair, arm, value| Slot::sample((Phase::Comparison, pair, 0, arm), &[("throughput", value)]);
        let pair =
            |(pair, value): (usize, &f64)| [slot(pair, Arm::A, *value), slot(pair, Arm::B, 1.2 * value)];
        let slots = values.iter().enumerate().flat_map(pair).collect();
        let started = "2026-11-22T10:00:00Z".to_owned();
        let mut record = TrialRecord { started, slots, ..simulate::record() };
        record.analysis = Some(analyse(&record));
        record
    }

    const QUIET: [f64; 10] = [100.0, 101.0, 100.0, 100.0, 101.0, 101.0, 100.0, 101.0, 100.0, 101.0];

    #[test]
    fn now_is_compared_with_both_arms() {
        let now = QUIET.map(|value| 1.2 * value).to_vec();
        let checkpoint = Checkpoint::new(&record(&QUIET), now.clone(), Vec::new());
        let (a, b) = (checkpoint.from_a.expect("measured"), checkpoint.from_b.expect("measured"));
        assert!((a.mid - 0.2).abs() < 0.001 && b.mid.abs() < 1e-12, "{a:?} {b:?}");
        assert!(checkpoint.after_s(&record(&QUIET)).is_some_and(|after| after > 0.0));
        let drifted = Checkpoint::new(&record(&QUIET), now, vec!["rps eth0/rx-0 = 0".to_owned()]);
        assert_eq!(drifted.state, State::NotSet);
        let without = Checkpoint::new(&record(&QUIET), vec![0.0; 10], Vec::new());
        assert_eq!((without.state, without.from_a), (State::Unclear, None));
        let few = Checkpoint::new(&record(&QUIET), vec![120.0; 5], Vec::new());
        assert_eq!(
            (few.state, few.from_a),
            (State::Unclear, None),
            "too few to see whether they depend on each other"
        );
    }

    /// Nothing is left of an effect of 20 %; the machine has two states 40 % apart, which last for eight slots.
    #[test]
    fn slots_of_one_state_are_no_proof() {
        let states = Noise { states: 0.2, dwell_slots: 8.0, ..Noise::white(0.01) };
        let holds = |seed: &u64| {
            let then = record(&states.values(*seed, 40));
            let now = states.values(seed + 10_000, 10);
            Checkpoint::new(&then, now, Vec::new()).state == State::Holds
        };
        let wrong = (0..400).filter(holds).count();
        assert!(wrong <= 40, "{wrong} of 400");
    }
}
