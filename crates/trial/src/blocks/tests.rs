//! The loop in blocks on simulated noise.

use rand_chacha::rand_core::Rng;

use super::{BlocksRecord, Effects, End, Estimate, NamedSettings, Search, run};
use crate::choose::Choice;
use crate::record::Call;
use crate::simulate::Simulated;
use crate::spec::Kind;
use crate::{halving, sample_record};
use rxlab_stats::design::{Purpose, stream};
use rxlab_stats::interval::Ratios;
use rxlab_stats::looks::ERROR;
use rxlab_stats::noise::Noise;

fn simulated(seed: u64) -> Simulated {
    Simulated::new(Noise::white(0.02), seed, &[1.0; 13])
}

fn record() -> BlocksRecord {
    BlocksRecord { blocks: 8, ..sample_record::blocks(Kind::Factorial, &["rps", "rfs"]) }
}

fn ran(record: &mut BlocksRecord, mut bench: Simulated) -> End {
    let ending = run(record, &mut bench).expect("simulated");
    record.conclude(ending);
    record.conclusion.clone().expect("concluded").end
}

fn order(record: &BlocksRecord) -> Vec<(usize, usize)> {
    record.slots.iter().map(|slot| (slot.block, slot.cell)).collect()
}

#[test]
fn every_block_holds_every_cell_once() {
    let mut record = record();
    assert_eq!(ran(&mut record, simulated(1)), End::Complete);
    assert_eq!(record.slots.len(), 32);
    for block in order(&record).chunks(4) {
        let mut cells: Vec<usize> = block.iter().map(|(_, cell)| *cell).collect();
        cells.sort_unstable();
        assert_eq!(cells, [0, 1, 2, 3]);
    }
}

#[test]
fn a_void_slot_costs_its_block() {
    let mut record = record();
    assert_eq!(ran(&mut record, Simulated { void: |_, slot| slot == 5, ..simulated(1) }), End::Complete);
    assert_eq!((record.slots.len(), record.valid().len()), (36, 8));
}

#[test]
fn a_cell_that_never_takes_hold_ends_the_trial() {
    let mut record = record();
    let end = ran(&mut record, Simulated { void: |cell, _| cell == 2, ..simulated(1) });
    assert_eq!(end, End::NotApplied { reason: "nothing moved".to_owned() });
    assert!(record.slots.len() <= 12 && record.conclusion.expect("concluded").found.is_none());
}

/// The guard killed a choice whose slots took three times longer than planned.
#[test]
fn a_late_trial_ends_by_itself() {
    let mut record = record();
    assert_eq!(ran(&mut record, Simulated { late_after: 10, ..simulated(1) }), End::Incomplete);
    assert_eq!(record.slots.len(), 12, "at the end of a block");
}

/// An interrupted slot is void, and as the third one of its cell it once ended the trial for good.
#[test]
fn an_interruption_does_not_end_the_trial() {
    let voids = || Simulated { void: |cell, _| cell == 2, ..simulated(1) };
    let (mut whole, mut parts) = (record(), record());
    ran(&mut whole, voids());
    let end = ran(&mut parts, Simulated { stop_after: whole.slots.len(), ..voids() });
    assert_eq!((end, parts.slots.len()), (End::Interrupted, whole.slots.len()));
}

/// The slots of a block that was cut short are not counted, and the orders of all later blocks stay the same.
#[test]
fn a_stopped_run_goes_on_in_the_same_order() {
    let (mut whole, mut parts) = (record(), record());
    ran(&mut whole, simulated(1));
    assert_eq!(ran(&mut parts, Simulated { stop_after: 6, ..simulated(1) }), End::Interrupted);
    assert_eq!(parts.slots.len(), 6);
    assert_eq!(ran(&mut parts, simulated(2)), End::Complete);
    assert_eq!(parts.valid().len(), 8);
    let (whole, parts) = (order(&whole), order(&parts));
    assert_eq!(parts[..6], whole[..6]);
    assert_eq!(parts[6..30], whole[8..32]);
}

#[test]
fn a_cell_that_stops_all_work_ends_the_trial() {
    let mut record = record();
    let end = ran(&mut record, Simulated { work: vec![1.0, 1.0, 1.0, 0.0], ..simulated(1) });
    assert!(matches!(end, End::GuardTripped { reason } if reason.starts_with("nothing got through")));
}

/// A search among candidates with these effects (0.03 = 3 %), on a machine with white noise of 3 % and drift.
fn searched(seed: u64, effects: &[f64]) -> (BlocksRecord, Search) {
    let named = |at| NamedSettings { name: format!("candidate-{at}"), ..NamedSettings::default() };
    let settings = (0..effects.len()).map(named).collect();
    let mut record = BlocksRecord { settings, seed, ..sample_record::blocks(Kind::Search, &[]) };
    let work: Vec<f64> = std::iter::once(1.0).chain(effects.iter().map(|effect| 1.0 + effect)).collect();
    assert_eq!(ran(&mut record, Simulated::new(Noise::drifting(), seed, &work)), End::Complete);
    let Some(Effects::Search(search)) = record.conclusion.clone().and_then(|conclusion| conclusion.found)
    else {
        panic!("{record:?}")
    };
    (record, search)
}

/// Effects of candidates between -6 and +10 %.
fn effects(seed: u64, candidates: usize) -> Vec<f64> {
    let mut rng = stream(seed, Purpose::Noise);
    let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX);
    (0..candidates).map(|_| -0.06 + 0.16 * uniform()).collect()
}

#[test]
fn a_search_finds_a_candidate_close_to_the_best_in_few_slots() {
    for candidates in [6, 8, 12] {
        let (mut near, mut slots) = (0, 0);
        for seed in 0..400 {
            let effects = effects(seed, candidates);
            let (record, search) = searched(seed, &effects);
            let best = effects.iter().copied().fold(f64::MIN, f64::max);
            near += usize::from(effects[search.winner] > best - 0.02);
            slots = record.slots.len();
        }
        assert!(near >= 380, "{near} of 400 of {candidates}");
        // Without the confirmation, against all candidates in as many blocks as that has.
        assert_eq!(slots, halving::slots(candidates, 20));
        let (search, exhaustive) = (slots - 40, (candidates + 1) * 20);
        assert!(10 * search <= 4 * exhaustive, "{search} of {exhaustive}");
    }
}

/// A choice among candidates with these effects.
fn choice(effects: &[f64]) -> (BlocksRecord, Simulated) {
    let settings = (0..effects.len())
        .map(|at| NamedSettings {
            name: format!("candidate-{at}"),
            size: Some((0, at + 1)),
            later: !(at + 1).is_power_of_two(),
            ..NamedSettings::default()
        })
        .collect();
    let work: Vec<f64> = std::iter::once(1.0).chain(effects.iter().map(|effect| 1.0 + effect)).collect();
    (
        BlocksRecord { kind: Kind::Choice, settings, blocks: 60, ..record() },
        Simulated::new(Noise::drifting(), 5, &work),
    )
}

fn found(record: &BlocksRecord) -> Choice {
    match record.conclusion.clone().and_then(|conclusion| conclusion.found) {
        Some(Effects::Choice(choice)) => choice,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_choice_drops_what_cannot_win_and_looks_between_neighbours() {
    let (mut record, bench) = choice(&[0.1, 0.3, 0.6, 0.2, 0.1, 0.0, -0.1, -0.2]);
    assert_eq!(ran(&mut record, bench), End::Complete);
    let found = found(&record);
    assert_eq!((found.winner, found.open.len(), found.tripped.len()), (Some(3), 0, 0));
    // Sizes 1, 2, 4 and 8, then 3 between 2 and 4.
    assert_eq!(found.tried[..5], [0, 1, 2, 4, 8]);
    assert!(found.tried.contains(&3) && record.slots.len() < 60, "{found:?}, {} slots", record.slots.len());
}

#[test]
fn the_unchanged_machine_wins_where_everything_hurts() {
    let (mut record, bench) = choice(&[-0.2, -0.3, -0.1]);
    assert_eq!(ran(&mut record, bench), End::Complete);
    assert_eq!((found(&record).winner, found(&record).open), (Some(0), vec![]));
}

#[test]
fn a_candidate_that_stops_all_work_leaves_and_the_others_go_on() {
    let (mut record, bench) = choice(&[0.1, -1.0]);
    assert_eq!(ran(&mut record, bench), End::Complete);
    let found = found(&record);
    assert_eq!((found.winner, found.tripped), (Some(1), vec![2]));
    let last = record.slots.iter().rposition(|slot| slot.cell == 2).expect("tried");
    assert!(record.slots[last].tripped && record.slots[last].void.is_some() && last + 1 < record.slots.len());
}

#[test]
fn a_candidate_that_never_takes_hold_leaves() {
    let (mut record, bench) = choice(&[0.1, 0.3]);
    assert_eq!(ran(&mut record, Simulated { void: |cell, _| cell == 2, ..bench }), End::Complete);
    assert_eq!((found(&record).winner, found(&record).tripped), (Some(1), vec![2]));
}

#[test]
fn a_guard_that_trips_without_a_change_ends_a_choice() {
    let (mut record, bench) = choice(&[0.1, 0.2]);
    let first = rxlab_stats::design::block(record.seed, 0, 3);
    let own = first.iter().position(|cell| *cell == 0);
    assert!(matches!(ran(&mut record, Simulated { guard_at: own, ..bench }), End::GuardTripped { .. }));
}

#[test]
fn a_stopped_choice_goes_on_in_the_same_order() {
    let (mut whole, bench) = choice(&[0.1, 0.3, 0.6, 0.2]);
    ran(&mut whole, bench);
    let (mut parts, bench) = choice(&[0.1, 0.3, 0.6, 0.2]);
    assert_eq!(ran(&mut parts, Simulated { stop_after: 5, ..bench }), End::Interrupted);
    let (_, bench) = choice(&[0.1, 0.3, 0.6, 0.2]);
    assert_eq!(ran(&mut parts, bench), End::Complete);
    assert_eq!(order(&parts)[..5], order(&whole)[..5]);
    assert_eq!(found(&parts).winner, found(&whole).winner);
}

/// The blocks that chose the winner favour it: fresh ones do not. 20 of 400, and three standard deviations.
#[test]
fn the_best_of_equals_is_not_confirmed() {
    let wrong =
        (0..400).filter(|seed| searched(*seed, &[0.0; 8]).1.confirmed.expect("twenty blocks").is_shown());
    assert!(wrong.count() <= 33);
}

/// No lead that does not exist is claimed in more than 5 % of searches: 10 of 200, and three standard deviations. Among
/// equals, and with two best of eight.
#[test]
fn the_winner_is_ahead_only_as_far_as_shown() {
    for effects in
        [vec![0.0; 2], vec![0.0; 8], vec![0.0, 0.05, 0.05, 0.0, -0.1, 0.0, 0.0, 0.02], vec![0.0; 12]]
    {
        let is_wrong = |seed: &u64| {
            let search = searched(*seed, &effects).1;
            let winner = effects[search.winner];
            let is_false = |lead: &Estimate| {
                let truth = (1.0 + winner) / (1.0 + effects[lead.factors[0]]) - 1.0;
                lead.effect.low > truth || lead.effect.high < truth
            };
            assert_eq!(search.leads.len(), effects.len() - 1);
            search.leads.iter().any(is_false)
        };
        let wrong = (0..200).filter(is_wrong).count();
        assert!(wrong <= 19, "{wrong} of 200: {effects:?}");
    }
    let clear = searched(1, &[0.0, 0.2, 0.1, 0.0]).1;
    assert_eq!((clear.winner, clear.rivals()), (1, Vec::new()));
    assert!(clear.ahead().is_some_and(|ahead| (0.02..0.1).contains(&ahead)), "{:?}", clear.leads);
    let equal = searched(1, &[0.0; 2]).1;
    assert_eq!((equal.rivals().len(), equal.ahead()), (1, None));
}

/// The contrast of the confirmation was once counted twice, which made its interval 16 % too wide.
#[test]
fn the_confirmation_has_all_the_error() {
    let (record, search) = searched(1, &[0.1, 0.0]);
    let d: Vec<f64> = record.valid().iter().map(|block| (block[1] / block[0]).ln()).collect();
    let interval = Ratios::from(&d[..]).student(ERROR).expect("blocks");
    assert!((search.confirmed.expect("blocks").effect.low - interval.low.exp_m1()).abs() < 1e-12);
}

#[test]
fn a_winner_is_confirmed_in_fresh_blocks() {
    let (record, search) = searched(1, &[0.0, 0.2, 0.1]);
    assert_eq!((search.winner, search.left, search.blocks), (1, vec![vec![1, 2], vec![1]], 20));
    assert_eq!(search.confirmed.map(|confirmed| confirmed.call), Some(Call::Helps));
    let fresh: Vec<_> = record.slots.iter().filter(|slot| slot.stage == 2).collect();
    assert!(fresh.len() == 40 && fresh.iter().all(|slot| [0, 2].contains(&slot.cell)));
    assert!(record.slots.iter().filter(|slot| slot.stage == 1).all(|slot| slot.cell != 1), "halved");
}

#[test]
fn a_stopped_search_goes_on_at_its_stage() {
    let blank = || BlocksRecord { blocks: 8, ..sample_record::blocks(Kind::Search, &["a", "b", "c"]) };
    let (mut whole, mut parts) = (blank(), blank());
    ran(&mut whole, simulated(1));
    assert_eq!(ran(&mut parts, Simulated { stop_after: 14, ..simulated(1) }), End::Interrupted);
    assert_eq!(ran(&mut parts, simulated(1)), End::Complete);
    assert_eq!(order(&parts)[..14], order(&whole)[..14]);
    let stages = |record: &BlocksRecord| record.slots.iter().map(|slot| slot.stage).max();
    assert_eq!((stages(&parts), stages(&whole)), (Some(2), Some(2)));
}
