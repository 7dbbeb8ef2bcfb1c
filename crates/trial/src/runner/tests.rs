//! The loop on simulated noise: the slots it runs, the ones it voids, and when it stops.

use super::{Ending, run};
use crate::analysis;
use crate::conclude::conclude;
use crate::metrics;
use crate::monitor::Monitor;
use crate::record::{Call, TrialRecord, Verdict};
use crate::simulate::{self, Simulated};
use crate::spec::Kind;
use rxlab_stats::design::{Arm, Phase};
use rxlab_stats::looks::Look;
use rxlab_stats::noise::Noise;

/// A machine whose throughput changes by `effect` in arm B.
fn simulated(noise: Noise, seed: u64, effect: f64) -> Simulated {
    Simulated::new(noise, seed, &[1.0, 1.0 + effect])
}

/// The same with little noise.
fn quiet(effect: f64) -> Simulated {
    simulated(Noise::white(0.01), 5, effect)
}

/// A trial without a calibration.
fn ran(bench: &mut Simulated) -> (TrialRecord, Ending) {
    let mut record = record(5);
    let ending = run(&mut record, 0, bench).expect("simulated");
    (record, ending)
}

fn record(seed: u64) -> TrialRecord {
    TrialRecord { seed, ..simulate::record() }
}

#[test]
fn calibration_comes_first_and_flips_nothing() {
    let mut record = record(7);
    let mut bench = simulated(Noise::white(0.01), 7, 0.5);
    let ending = run(&mut record, 10, &mut bench).expect("simulated");
    assert_eq!(ending, Ending::default());
    let calibration: Vec<_> = record.slots.iter().take_while(|s| s.phase == Phase::Calibration).collect();
    assert_eq!(calibration.len(), 20);
    assert!(calibration.iter().all(|slot| slot.arm == Arm::A));
    assert_eq!(record.calibration.as_ref().map(|c| c.pairs), Some(10));
    assert!(record.slots.len() - 20 < 80, "a 50 % effect needs no 40 pairs");
    assert_eq!(bench.saves, record.slots.len());
}

#[test]
fn no_early_stop_before_the_fewest_pairs() {
    let mut record = record(7);
    record.min_pairs = 25;
    run(&mut record, 0, &mut simulated(Noise::white(0.01), 7, 0.5)).expect("simulated");
    assert_eq!(record.slots.len(), 50);
}

#[test]
fn a_stopped_run_goes_on_with_the_same_coins() {
    let (mut whole, mut parts) = (record(11), record(11));
    run(&mut whole, 0, &mut simulated(Noise::white(0.05), 3, 0.0)).expect("simulated");
    let mut first = Simulated { stop_after: 6, ..simulated(Noise::white(0.05), 3, 0.0) };
    assert!(run(&mut parts, 0, &mut first).expect("simulated").interrupted);
    run(&mut parts, 0, &mut simulated(Noise::white(0.05), 4, 0.0)).expect("simulated");
    let shared = whole.slots.len().min(parts.slots.len());
    assert_eq!(arms(&whole)[..shared], arms(&parts)[..shared]);
}

#[test]
fn the_lone_slot_of_a_killed_run_is_void() {
    let mut parts = record(11);
    let mut first = Simulated { stop_after: 7, ..simulated(Noise::white(0.05), 3, 0.0) };
    run(&mut parts, 0, &mut first).expect("simulated");
    // As after a kill: the last slot was measured but not marked.
    parts.slots[6].void = None;
    run(&mut parts, 0, &mut simulated(Noise::white(0.05), 4, 0.0)).expect("simulated");
    assert!(parts.slots[6].void.is_some());
    assert_eq!(parts.slots[7].pair, parts.slots[6].pair + 1);
}

/// If arm A also sets something, that may fail to take hold.
#[test]
fn an_arm_that_never_takes_ends_the_trial() {
    let arms: [fn(usize, usize) -> bool; 2] = [|arm, _| arm == 0, |arm, _| arm == 1];
    for void in arms {
        let (record, ending) = ran(&mut Simulated { void, ..quiet(0.0) });
        assert_eq!(ending.not_applied.as_deref(), Some("nothing moved"));
        assert!(record.slots.len() <= 6);
    }
}

#[test]
fn one_void_slot_costs_one_pair() {
    let noisy = simulated(Noise::white(0.05), 5, 0.0);
    let (record, _) = ran(&mut Simulated { void: |_, slot| slot == 3, ..noisy });
    let analysis = analysis::analyse(&record);
    assert_eq!(analysis.voids, 1);
    assert_eq!(record.slots.len(), 2 * (analysis.pairs + 1));
}

#[test]
fn a_guard_stops_at_once() {
    let (record, ending) = ran(&mut Simulated { guard_at: Some(4), ..quiet(0.0) });
    assert_eq!(ending.guard.as_deref(), Some("too many errors"));
    assert_eq!(record.slots.len(), 5);
}

/// The trial once overwrote a value that an administrator had just set.
#[test]
fn a_value_set_from_outside_ends_the_trial_and_voids_the_slot() {
    for (at, void) in [(0, 1), (4, 5), (5, 6)] {
        let mut bench = Simulated { changed_at: Some(at), guard_at: Some(at), ..quiet(0.0) };
        let (record, ending) = ran(&mut bench);
        assert_eq!(ending.changed.as_deref(), Some("rps eth0/rx-0"));
        assert_eq!(ending.guard.as_deref(), Some("too many errors"), "said, and outranked");
        assert_eq!((record.slots.len(), bench.saves), (void, void), "nothing runs after it");
        let voids: Vec<_> = record.slots.iter().filter_map(|slot| slot.void.as_deref()).collect();
        assert_eq!(voids, ["changed from outside: rps eth0/rx-0"]);
        // The pair of that slot does not count either.
        assert_eq!(analysis::analyse(&record).pairs, at / 2);
    }
}

#[test]
fn a_change_while_nothing_is_flipped_ends_the_calibration() {
    let mut record = record(5);
    let mut bench = Simulated { changed_at: Some(3), ..quiet(0.0) };
    let ending = run(&mut record, 10, &mut bench).expect("simulated");
    assert!(ending.changed.is_some() && record.slots.len() == 4 && record.calibration.is_none());
}

/// The signs of the slots before a kill are lost: counted against all slots, those of a short rest
/// were never a majority.
#[test]
fn a_resumed_run_is_still_client_limited() {
    let limited = |seed| Simulated { limited: |_| true, ..simulated(Noise::white(0.05), seed, 0.0) };
    let mut record = record(11);
    let mut first = Simulated { stop_after: 60, ..limited(3) };
    assert!(run(&mut record, 0, &mut first).expect("simulated").interrupted);
    let ending = run(&mut record, 0, &mut limited(4)).expect("simulated");
    assert_eq!(ending.client_limited.as_deref(), Some("a full thread"));
}

/// The signs of void slots were once counted against the valid slots only.
#[test]
fn void_slots_do_not_tell_that_the_client_is_the_limit() {
    let mut record = record(11);
    let mut bench = Simulated {
        void: |_, slot| slot % 3 == 0,
        limited: |slot| slot % 3 == 0 || slot % 12 == 1,
        ..simulated(Noise::white(0.05), 3, 0.0)
    };
    assert_eq!(run(&mut record, 0, &mut bench).expect("simulated").client_limited, None);
}

#[test]
fn what_a_command_prints_beside_is_a_metric() {
    let (mut record, _) = ran(&mut quiet(0.5));
    for slot in &mut record.slots {
        slot.values.extend([("p99_us".to_owned(), 7.0), (metrics::name::BUSIEST.to_owned(), 50.0)]);
    }
    let printed = metrics::printed(&record);
    assert_eq!(printed.iter().map(|metric| metric.title.as_str()).collect::<Vec<_>>(), ["latency p99"]);
}

/// Without a log ratio the trial once ran all its pairs on broken traffic.
#[test]
fn a_change_that_stops_all_work_is_rolled_back_soon() {
    let (record, ending) = ran(&mut quiet(-1.0));
    assert!(ending.guard.is_some_and(|guard| guard.starts_with("nothing got through")));
    assert!(record.slots.len() <= 4, "arm A shows that work was done, two slots of B that it stops");
}

/// One empty slot of arm B once tripped a guard, and the same slot of arm A did nothing.
#[test]
fn one_empty_slot_says_as_little_in_either_arm() {
    for arm in [Arm::A, Arm::B] {
        let mut whole = ran(&mut quiet(0.0)).0;
        let at = whole.slots.iter().position(|slot| slot.arm == arm && slot.pair == 3).expect("pair 3");
        whole.slots.truncate(at + 1);
        whole.slots[at].values.insert("throughput".to_owned(), 0.0);
        let works = whole.slots.iter().map(|slot| (slot.arm.index(), &slot.values, &slot.void));
        assert_eq!(super::standstill(works), None, "{arm:?}");
    }
}

/// A comparison before and after, of six slots of each arm.
fn before_after() -> TrialRecord {
    TrialRecord { design: Kind::BeforeAfter, min_pairs: 6, max_pairs: 6, ..record(1) }
}

fn arms(record: &TrialRecord) -> Vec<(usize, Arm)> {
    record.slots.iter().map(|slot| (slot.pair, slot.arm)).collect()
}

#[test]
fn before_and_after_runs_one_arm_after_the_other_and_goes_on_there() {
    let mut whole = before_after();
    run(&mut whole, 0, &mut quiet(0.10)).expect("simulated");
    let wanted: Vec<_> =
        [Arm::A, Arm::B].into_iter().flat_map(|arm| (0..6).map(move |at| (at, arm))).collect();
    assert_eq!(arms(&whole), wanted);
    for cut in 0..12 {
        let mut resumed = TrialRecord { slots: whole.slots[..cut].to_vec(), ..before_after() };
        run(&mut resumed, 0, &mut quiet(0.10)).expect("simulated");
        assert_eq!(arms(&resumed), wanted, "after {cut} slots");
        assert!(resumed.slots.iter().all(|slot| slot.void.is_none()));
    }
}

/// Drift alone makes such a comparison differ: it once would have been called a help.
/// A trial whose time is over decides at a last look that has the error of the looks it did not reach.
#[test]
fn a_trial_ends_with_its_time() {
    let mut record = TrialRecord { time_s: Some(31.0), max_pairs: 40, ..record(0) };
    // Slots of a second: 15 pairs, which are no planned look.
    let ending = run(&mut record, 0, &mut simulated(Noise::white(0.03), 5, 0.0)).expect("simulated");
    assert_eq!((record.slots.len(), record.time_is_over), (30, true));
    let monitor = Monitor::new(&record);
    assert!(matches!(monitor.look_at(15), Look::Planned(error) if error > 0.03), "{:?}", monitor.look_at(15));
    let analysis = conclude(&record, &ending, false, None);
    assert!(analysis.metrics[0].p.is_some(), "the end");
    let mut early = TrialRecord { time_s: Some(31.0), max_pairs: 40, ..self::record(0) };
    run(&mut early, 0, &mut simulated(Noise::white(0.002), 5, 0.2)).expect("simulated");
    assert!(early.slots.len() == 18 && !early.time_is_over, "{}", early.slots.len());
}

#[test]
fn before_and_after_claims_nothing() {
    let mut record = before_after();
    let ending = run(&mut record, 0, &mut simulated(Noise::white(0.001), 1, 0.10)).expect("simulated");
    let analysis = conclude(&record, &ending, false, None);
    assert_eq!(analysis.verdict, Verdict::Unproven { apparent: Call::Helps });
    assert!(
        analysis.metrics.iter().all(|result| matches!(result.call, Call::Inconclusive | Call::Unmeasured))
    );
    assert!(analysis.metrics[0].effect.is_some_and(|effect| effect.low > 0.05), "{:?}", analysis.metrics[0]);
    assert!(analysis.notes[0].starts_with("Nothing was randomised"), "{:?}", analysis.notes);
    let stopped = Ending { interrupted: true, ..ending };
    assert_eq!(conclude(&record, &stopped, false, None).verdict, Verdict::Interrupted, "it can be resumed");
}
