//! Output and plans of rxlab on random machines, compared with the truth about them. `bench/machines/mod.rs`
//! describes the generator and the properties; `cargo run --release --example machines` runs more of them, and with `--show`
//! shrinks one.

#[path = "../../bench/machines/mod.rs"]
mod bench;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bench::{Property, Violation};

/// Machines of every run, always the same: 10 ms each in a debug build.
const SEEDS: u64 = 5_000;

/// Machines on which a property is known not to hold, exactly, and why. The map of every machine is right, and every
/// plan can be applied and undone.
const OPEN: [(Property, usize, &str); 1] = [(
    Property::Values,
    1,
    "two interfaces share a mask because the busiest interrupt of each comes to one CPU, not that of rx-0 (drivers that do not \
     report the queue of a packet, numa-local)",
)];

/// Every violation, by seed.
fn violations() -> BTreeMap<u64, Violation> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                break;
            }
            if let Err(violation) = bench::run(seed) {
                found.lock().expect("no thread panicked").insert(seed, violation);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().expect("no thread panicked")
}

#[test]
fn every_property_holds_on_every_machine_but_those_that_are_listed() {
    crate::require::needs!(minutes);
    let mut found: BTreeMap<Property, BTreeMap<u64, Violation>> = BTreeMap::new();
    for (seed, violation) in violations() {
        found.entry(violation.property).or_default().insert(seed, violation);
    }
    for (property, count, why) in OPEN {
        println!("{property:?} does not hold on {count} of {SEEDS} machines: {why}");
    }
    let mut wrong: Vec<String> = Vec::new();
    for (property, seeds) in &found {
        let known = OPEN.iter().find(|(open, ..)| open == property).map_or(0, |(_, count, _)| *count);
        if seeds.len() > known {
            wrong.push(format!("{property:?}: {} of {known} known", seeds.len()));
            wrong.extend(seeds.iter().map(|(seed, why)| format!("seed {seed}: {why}")));
        }
    }
    for (property, known, _) in OPEN {
        let count = found.get(&property).map_or(0, BTreeMap::len);
        if count < known {
            wrong.push(format!("{property:?}: {count} of {known} known, lower the number"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
