//! Runs the real code on a simulated machine while an adversary moves between any two of its operations:
//! `cargo run --release --package rxlab-simulation --bin world [--seeds N] [--from SEED] [--minutes M]`, or one schedule
//! with `--replay SCHEDULE`, move by move; `--mutations` says which schedule finds each old defect, `--mutation NAME` of
//! one. Prints the shrunk schedule of each run that breaks an invariant, and counts at the end.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A separate program with its own output.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use rxlab_simulation::world::{MUTATIONS, Mutation, breaks, generate, run, shrink};

/// Number of failures after which it stops.
const ENOUGH: u64 = 10;

struct Options {
    seeds: u64,
    from: u64,
    minutes: Option<f64>,
    replay: Option<String>,
    /// Names of old defects to find; `all` for each.
    mutations: Option<String>,
}

fn options() -> Option<Options> {
    let mut options = Options { seeds: 20_000, from: 0, minutes: None, replay: None, mutations: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        match flag.as_str() {
            "--seeds" => options.seeds = arguments.next()?.parse().ok()?,
            "--from" => options.from = arguments.next()?.parse().ok()?,
            "--minutes" => options.minutes = Some(arguments.next()?.parse().ok().filter(|m| *m > 0.0)?),
            "--mutations" => options.mutations = Some("all".to_owned()),
            "--mutation" => options.mutations = Some(arguments.next()?),
            "--replay" => options.replay = Some(arguments.next()?),
            _ => return None,
        }
    }
    Some(options)
}

/// Schedules within which a mutation has to be found.
const WITHIN: u64 = 20_000;

/// The first seed whose schedule breaks one of the `wanted` invariants with a mutation, and the violation.
fn found(mutation: Mutation, wanted: &str) -> Option<(u64, String)> {
    (0..WITHIN).find_map(|seed| Some((seed, breaks(mutation, wanted, seed)?)))
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!(
            "world: usage: [--seeds N] [--from SEED] [--minutes M] [--mutations] [--mutation NAME] [--replay SCHEDULE]"
        );
        return ExitCode::from(2);
    };
    match simulate(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("world: cannot write the output: {error}");
            ExitCode::from(5)
        }
    }
}

/// Returns the number of schedules that broke an invariant.
fn simulate(options: &Options) -> io::Result<u64> {
    let mut out = io::stdout().lock();
    if let Some(text) = &options.replay {
        let schedule = serde_json::from_str(text).map_err(io::Error::other)?;
        let report = run(&schedule, Mutation::Nothing, true);
        report.log.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        return Ok(u64::from(report.violation.is_some()));
    }
    if let Some(name) = &options.mutations {
        return mutations(name, &mut out);
    }
    let began = Instant::now();
    let time = options.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    let bar = bar(options);
    let (mut moves, mut ends) = (BTreeMap::new(), BTreeMap::new());
    let (mut runs, mut operations, mut failed) = (0u64, 0u64, 0u64);
    while !time.map_or(runs >= options.seeds, |time| began.elapsed() >= time) && failed < ENOUGH {
        let seed = options.from + runs;
        let schedule = generate(seed);
        let report = run(&schedule, Mutation::Nothing, false);
        runs += 1;
        operations += report.operations;
        report.moves.iter().for_each(|(kind, count)| *moves.entry(*kind).or_insert(0) += count);
        report.ends.iter().for_each(|(kind, count)| *ends.entry(*kind).or_insert(0) += count);
        if report.violation.is_some() {
            failed += 1;
            let (small, violation) = shrink(&schedule, Mutation::Nothing);
            let text = serde_json::to_string(&small).map_err(io::Error::other)?;
            writeln!(out, "seed {seed}: invariant {violation}\n  world::replay(r#\"{text}\"#)")?;
            out.flush()?;
        }
        if let Some(time) = time {
            bar.set_length(time.as_secs());
            bar.set_position(began.elapsed().as_secs());
        } else {
            bar.set_position(runs);
        }
    }
    bar.finish_and_clear();
    let seconds = began.elapsed().as_secs_f64();
    writeln!(
        out,
        "{runs} schedules from seed {} in {seconds:.0} s ({:.0}/s), {operations} operations, {failed} failed",
        options.from,
        runs as f64 / seconds,
    )?;
    for (title, counts) in [("moves", moves), ("ends", ends)] {
        writeln!(out, "\n{title}:")?;
        for (kind, count) in counts {
            writeln!(out, "{count:>10}  {kind}")?;
        }
    }
    Ok(failed)
}

/// Prints the first seed that finds each mutation; returns the number of those that none finds.
fn mutations(name: &str, out: &mut impl Write) -> io::Result<u64> {
    let mut missed = 0;
    let wanted = |(mutation, ..): &(Mutation, &str, u64)| name == "all" || format!("{mutation:?}") == name;
    for (mutation, wanted, _) in MUTATIONS.into_iter().filter(wanted) {
        match found(mutation, wanted) {
            Some((seed, violation)) => writeln!(out, "{mutation:?}: seed {seed}: {violation}")?,
            None => {
                missed += 1;
                writeln!(out, "{mutation:?}: not found")?;
            }
        }
        out.flush()?;
    }
    Ok(missed)
}

fn bar(options: &Options) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{elapsed_precise} [{wide_bar}] {pos}/{len}");
    ProgressBar::new(options.seeds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
