//! Output and plans of rxlab on random machines, compared with the truth about them. `bench/simulation/src/machines.rs`
//! describes the generator and the properties; `cargo run --release --package rxlab-simulation --bin machines` runs more
//! of them, and with `--show` shrinks one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rxlab_simulation::machines::{Violation, run};

/// Machines of every run, always the same: 10 ms each in a debug build.
const SEEDS: u64 = 5_000;

/// Machines on which a property did not hold before the program was mended, each for another reason.
const MENDED: [u64; 36] = [
    32_973, 107_671, 110_025, 120_710, 11_493, 18_330, 21_943, 42_554, 61_542, 73_701, 86_865, 90_086,
    90_804, 93_291, 96_851, 28_998, 36_570, 40_712, 710_573, 714_290, 723_964, 726_307, 726_584, 803_459,
    825_037, 828_322, 1_030_391, 1_033_120, 1_041_846, 1_054_043, 1_054_880, 1_058_206, 1_073_426, 1_075_907,
    1_099_873, 2_036_368,
];

/// Every violation, by seed.
fn violations() -> BTreeMap<u64, Violation> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let mended = || MENDED.get(usize::try_from(at - SEEDS).ok()?).copied();
            let Some(seed) = Some(at).filter(|at| *at < SEEDS).or_else(mended) else { break };
            if let Err(violation) = run(seed) {
                found.lock().expect("no thread panicked").insert(seed, violation);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().expect("no thread panicked")
}

#[test]
fn every_property_holds_on_every_machine() {
    crate::require::needs!(minutes);
    let wrong: Vec<String> =
        violations().into_iter().map(|(seed, why)| format!("seed {seed}: {why}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
