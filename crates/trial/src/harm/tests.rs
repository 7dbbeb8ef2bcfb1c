//! Composed records through the real conclusion: what each may not be advised to keep, and why.

use super::harms;
use crate::conclude::conclude;
use crate::metrics::{describe, name};
use crate::recommendation::{Advice, Recommendation};
use crate::record::{Slot, TrialRecord, Verdict};
use crate::runner::Ending;
use crate::simulate;
use rxlab_stats::design::{Arm, Phase, order};
use rxlab_stats::noise::Noise;

/// Values of a slot: name, mean in arm A, in arm B, and the coefficient of variation.
type Truth<'a> = (&'a str, f64, f64, f64);

/// A busy server that nothing changes.
const USUAL: [Truth; 7] = [
    (name::THROUGHPUT, 20e3, 20e3, 0.001),
    (name::HOTTEST_SOFTIRQ, 10.0, 10.0, 0.05),
    (name::HOTTEST_SHARE, 60.0, 60.0, 0.05),
    (name::SOFTIRQ_PER_PACKET, 5.0, 5.0, 0.05),
    (name::MACHINE_CPU, 15.0, 15.0, 0.05),
    (name::BUSIEST, 90.0, 90.0, 0.0),
    (name::HOTTEST_BUSY, 90.0, 90.0, 0.0),
];

/// A concluded trial of 20 pairs with `truths` in place of the usual values. `primary` comes first.
fn trial(primary: &str, truths: &[Truth]) -> TrialRecord {
    composed(primary, truths, |_, _| true)
}

/// The same, where slots have a primary value only if `has` says so, by arm and pair.
fn composed(primary: &str, truths: &[Truth], has: fn(Arm, usize) -> bool) -> TrialRecord {
    let kept = USUAL.iter().filter(|(name, ..)| truths.iter().all(|(other, ..)| other != name));
    let all: Vec<Truth> = kept.chain(truths).copied().collect();
    let circumstances = [name::BUSIEST, name::HOTTEST_BUSY, name::ARRIVALS];
    let mut names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
    names.retain(|name| !circumstances.contains(name));
    names.sort_by_key(|name| *name != primary);
    let mut record = TrialRecord {
        metrics: names.iter().map(|name| describe(name, "pkt/s")).collect(),
        min_pairs: 9,
        max_pairs: 20,
        ..simulate::record()
    };
    let noise: Vec<Vec<f64>> =
        (0..).zip(&all).map(|(at, (.., cv))| Noise::white(*cv).values(70 + at, 40)).collect();
    for pair in 0..20 {
        for (position, arm) in (0..).zip(order(7, Phase::Comparison, pair)) {
            let at = 2 * pair + usize::from(position);
            let values = all.iter().zip(&noise).filter(|(truth, _)| truth.0 != primary || has(arm, pair));
            let values: Vec<(&str, f64)> = values
                .map(|((name, a, b, cv), noise)| {
                    let mean = if arm == Arm::B { *b } else { *a };
                    // Noise has a level of its own.
                    (*name, if *cv == 0.0 { mean } else { mean * noise[at] / noise[0] })
                })
                .collect();
            record.slots.push(Slot::sample((Phase::Comparison, pair, position, arm), &values));
        }
    }
    record.analysis = Some(conclude(&record, &Ending::default(), true, None));
    record
}

/// The name of the verdict, the advice and its reason.
fn told(record: &TrialRecord) -> (Verdict, Advice, String) {
    let told = Recommendation::new(record, "rxlab");
    (record.verdict().expect("concluded").clone(), told.advice, told.reason)
}

const COOLER: Truth = (name::HOTTEST_SOFTIRQ, 40.0, 20.0, 0.03);
const SLOWER: Truth = (name::P99, 300.0, 900.0, 0.05);
const FASTER: Truth = (name::THROUGHPUT, 20e3, 21.2e3, 0.01);

#[test]
fn a_gain_without_harm_is_kept_and_what_it_leaves_open_is_said() {
    let record = trial(name::THROUGHPUT, &[FASTER]);
    let (verdict, advice, reason) = told(&record);
    assert_eq!((verdict, advice), (Verdict::Helps, Advice::Keep));
    assert_eq!(harms(&record), []);
    assert!(reason.contains("20 slots may miss harm that shows in fewer than 14 % of slots."), "{reason}");
}

/// "Keep it, at no measured cost" once stood next to +205 % of p99.
#[test]
fn harm_that_is_proven_comes_first_whatever_else_is_better() {
    let idle: Truth = (name::BUSIEST, 30.0, 30.0, 0.0);
    for (what, record) in [
        ("spreads", trial(name::HOTTEST_SOFTIRQ, &[COOLER, SLOWER])),
        ("idle", trial(name::THROUGHPUT, &[idle, SLOWER])),
        ("no effect", trial(name::THROUGHPUT, &[SLOWER])),
        ("helps", trial(name::THROUGHPUT, &[FASTER, SLOWER])),
    ] {
        let (verdict, advice, reason) = told(&record);
        assert_eq!((verdict, advice), (Verdict::Hurts, Advice::DoNotKeep), "{what}: {reason}");
        assert!(reason.starts_with("Latency p99 +2"), "{what}: {reason}");
    }
}

/// A price is named; it stands against nothing.
#[test]
fn cpu_time_is_a_price() {
    let record = trial(name::THROUGHPUT, &[FASTER, (name::MACHINE_CPU, 15.0, 21.0, 0.03)]);
    let (verdict, advice, reason) = told(&record);
    assert_eq!((verdict, advice), (Verdict::Helps, Advice::Keep));
    assert!(reason.contains("cost: CPU time per packet +4"), "{reason}");
}

#[test]
fn throughput_that_may_have_fallen_is_measured_longer() {
    let wide = |a, b| (name::THROUGHPUT, a, b, 0.2);
    let better: Truth = (name::P99, 300.0, 200.0, 0.05);
    for (what, record) in [
        ("spreads", trial(name::HOTTEST_SOFTIRQ, &[COOLER, wide(100e3, 92e3)])),
        ("helps", trial(name::P99, &[better, wide(20e3, 18.5e3)])),
    ] {
        let (verdict, advice, reason) = told(&record);
        assert_eq!(advice, Advice::MeasureLonger, "{what}: {verdict:?}, {reason}");
        assert!(reason.starts_with("Throughput ") && reason.contains("a loss is not excluded"), "{reason}");
    }
}

/// `--keep` once left 500 errors in force.
#[test]
fn errors_that_rise_from_zero_are_harm() {
    let record = trial(name::THROUGHPUT, &[FASTER, ("app_errors", 0.0, 500.0, 0.0)]);
    let (verdict, advice, reason) = told(&record);
    assert_eq!((verdict, advice), (Verdict::Hurts, Advice::DoNotKeep));
    assert!(reason.starts_with("App_errors 0 -> 500.0; throughput +"), "{reason}");
    let errors =
        record.analysis.iter().flat_map(|all| &all.metrics).find(|one| one.metric.name == "app_errors");
    assert_eq!(errors.map(|one| (one.mean_a, one.mean_b)), Some((0.0, 500.0)));
}

/// Two slots are no proof; they are no reason to keep it either.
#[test]
fn a_few_errors_where_there_were_none_are_measured_longer() {
    let mut record = trial(name::THROUGHPUT, &[FASTER, ("app_errors", 0.0, 0.0, 0.0)]);
    for slot in record.slots.iter_mut().filter(|slot| slot.arm == Arm::B && slot.pair < 2) {
        slot.values.insert("app_errors".to_owned(), 3.0);
    }
    record.analysis = Some(conclude(&record, &Ending::default(), true, None));
    let (verdict, advice, reason) = told(&record);
    assert_eq!((verdict, advice), (Verdict::Helps, Advice::MeasureLonger));
    assert!(
        reason.starts_with("App_errors in 2 of 20 slots with the change and in none without it"),
        "{reason}"
    );
    // More pairs at most would not keep it from deciding for the throughput as soon as before.
    let command = Recommendation::new(&record, "rxlab").command;
    assert!(command.is_some_and(|command| command.ends_with(" --min-pairs 40")));
}

/// Half of B's slots once had no p99, and the others showed -50 %.
#[test]
fn values_that_one_arm_lacks_conclude_nothing() {
    let better: Truth = (name::P99, 300.0, 150.0, 0.05);
    let record = composed(name::P99, &[better], |arm, pair| arm == Arm::A || pair % 2 == 0);
    let (verdict, advice, reason) = told(&record);
    assert!(matches!(verdict, Verdict::Inconclusive { .. }), "{verdict:?}");
    assert_eq!(advice, Advice::MeasureAgain);
    assert!(reason.starts_with("No value of latency p99 in 10 of 20 slots with the change"), "{reason}");
    let both = composed(name::P99, &[better], |_, pair| pair % 5 != 0);
    assert_eq!(told(&both).1, Advice::Keep, "chance takes values from both");
}

/// "All offered load got through" was once said where 20 % were lost.
#[test]
fn what_was_lost_is_compared_with_what_arrived() {
    let arrivals: Truth = (name::ARRIVALS, 100e3, 100e3, 0.0);
    let lost = trial(name::HOTTEST_SOFTIRQ, &[COOLER, arrivals, (name::THROUGHPUT, 80e3, 80e3, 0.001)]);
    let notes = &lost.analysis.as_ref().expect("concluded").notes;
    assert!(notes.iter().any(|note| note.starts_with("20 % of what was offered was lost")), "{notes:?}");
    let json = serde_json::to_value(lost.verdict()).expect("JSON");
    assert_eq!((&json["verdict"], &json["capacity"]), (&"spreads_only".into(), &"same".into()));
}

#[test]
fn a_trial_without_traffic_asks_for_traffic() {
    let idle: Truth = (name::THROUGHPUT, 0.0, 0.0, 0.0);
    let record = trial(name::THROUGHPUT, &[idle]);
    let told = Recommendation::new(&record, "rxlab");
    assert_eq!(told.sentence(), "measure again. While there is traffic.");
    assert_eq!(record.idle_slots(), Some((40, 40)));
}
