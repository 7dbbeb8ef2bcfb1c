//! The loop in blocks on simulated noise.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::{BlocksRecord, End, FactorOfRecord, run};
use crate::model::Identity;
use crate::trial::metrics;
use crate::trial::runner::{Bench, Measured};
use crate::trial::simulate::Noise;

struct Simulated {
    noise: Vec<f64>,
    slots: usize,
    stop_after: usize,
    void: fn(usize, usize) -> bool,
    work: f64,
}

impl Simulated {
    fn new(seed: u64) -> Self {
        let noise = Noise::white(0.02).values(seed, 400);
        Self { noise, slots: 0, stop_after: usize::MAX, void: |_, _| false, work: 1.0 }
    }
}

impl Bench<BlocksRecord> for Simulated {
    type Error = Infallible;

    fn slot(&mut self, cell: usize) -> Result<Measured, Infallible> {
        let slot = self.slots;
        self.slots += 1;
        let work = if cell == 3 { self.work } else { 1.0 };
        Ok(Measured {
            start_s: slot as f64,
            seconds: 1.0,
            values: BTreeMap::from([("throughput".to_owned(), self.noise[slot] * work)]),
            void: (self.void)(cell, slot).then(|| "nothing moved".to_owned()),
            ..Measured::default()
        })
    }

    fn save(&mut self, _: &BlocksRecord) -> Result<(), Infallible> {
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.slots >= self.stop_after
    }
}

fn record() -> BlocksRecord {
    let factor = |name: &str| FactorOfRecord { name: name.to_owned(), set: Vec::new() };
    BlocksRecord {
        schema: BlocksRecord::SCHEMA.to_owned(),
        id: "0001-test".to_owned(),
        version: String::new(),
        name: "test".to_owned(),
        factors: vec![factor("rps"), factor("rfs")],
        workload: "simulated".to_owned(),
        host: Identity { hostname: String::new(), kernel: String::new(), boot_id: String::new() },
        cpus: 2,
        started: String::new(),
        seed: 7,
        margin: 0.03,
        blocks: 8,
        washout_s: 0.0,
        measure_s: 1.0,
        primary: metrics::describe(metrics::name::THROUGHPUT, "req/s"),
        softirq_timed: false,
        slots: Vec::new(),
        conclusion: None,
    }
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
    assert_eq!(ran(&mut record, Simulated::new(1)), End::Complete);
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
    assert_eq!(ran(&mut record, Simulated { void: |_, slot| slot == 5, ..Simulated::new(1) }), End::Complete);
    assert_eq!((record.slots.len(), record.valid().len()), (36, 8));
}

#[test]
fn a_cell_that_never_takes_hold_ends_the_trial() {
    let mut record = record();
    let end = ran(&mut record, Simulated { void: |cell, _| cell == 2, ..Simulated::new(1) });
    assert_eq!(end, End::NotApplied { reason: "nothing moved".to_owned() });
    assert!(record.slots.len() <= 12 && record.conclusion.expect("concluded").factorial.is_none());
}

/// The slots of a block that was cut short are not counted, and the orders of all later blocks stay the same.
#[test]
fn a_stopped_run_goes_on_in_the_same_order() {
    let (mut whole, mut parts) = (record(), record());
    ran(&mut whole, Simulated::new(1));
    assert_eq!(ran(&mut parts, Simulated { stop_after: 6, ..Simulated::new(1) }), End::Interrupted);
    assert_eq!(parts.slots.len(), 6);
    assert_eq!(ran(&mut parts, Simulated::new(2)), End::Complete);
    assert_eq!(parts.valid().len(), 8);
    let (whole, parts) = (order(&whole), order(&parts));
    assert_eq!(parts[..6], whole[..6]);
    assert_eq!(parts[6..30], whole[8..32]);
}

#[test]
fn a_cell_that_stops_all_work_ends_the_trial() {
    let mut record = record();
    let end = ran(&mut record, Simulated { work: 0.0, ..Simulated::new(1) });
    assert!(matches!(end, End::GuardTripped { reason } if reason.starts_with("nothing got through")));
}
