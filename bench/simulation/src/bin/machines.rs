//! Random machines with the truth in them: `cargo run --release --package rxlab-simulation --bin machines [--seeds N] [--from SEED]`,
//! or one with `--show SEED`. Prints the machines on which a property does not hold, made as small as they
//! get, and counts by property at the end.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A separate program with its own output.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use rxlab_simulation::machines::{Property, explain, run};

/// Number of violations of each property that are printed.
const SHOWN: usize = 100;

struct Options {
    seeds: u64,
    from: u64,
    show: Option<u64>,
}

fn options() -> Option<Options> {
    let mut options = Options { seeds: 100_000, from: 0, show: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let number = arguments.next()?.parse().ok()?;
        match flag.as_str() {
            "--seeds" => options.seeds = number,
            "--from" => options.from = number,
            "--show" => options.show = Some(number),
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("machines: usage: [--seeds N] [--from SEED] [--show SEED]");
        return ExitCode::from(2);
    };
    let seeds = match options.show {
        Some(seed) => seed..seed + 1,
        None => options.from..options.from + options.seeds,
    };
    let begun = Instant::now();
    let mut violations: BTreeMap<Property, Vec<u64>> = BTreeMap::new();
    for seed in seeds.clone() {
        let Err(violation) = run(seed) else { continue };
        let seeds = violations.entry(violation.property).or_default();
        seeds.push(seed);
        match options.show {
            Some(_) => println!("{}", explain(seed, violation)),
            None if seeds.len() <= SHOWN => println!("seed {seed}: {violation}"),
            None => {}
        }
    }
    let count = seeds.end - seeds.start;
    println!("{count} machines in {:.1} s", begun.elapsed().as_secs_f64());
    for (property, seeds) in &violations {
        println!("{property:?}: {} violations, first seed {}", seeds.len(), seeds[0]);
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
