//! Re-draws trials from the slots of real ones in which nothing was changed, as `bench/noise.sh` records them:
//! `cargo run --release --example noise -- [--runs N] RECORD...`, each a `record.json`.
//!
//! Prints how often the rule of a trial claims an effect where there is none, with a 95 % interval, and how often it finds a
//! change of 3, 5 and 10 % by which arm B was multiplied; below it the values, a series a line.

#![allow(clippy::disallowed_methods)] // Reads records and prints.

use std::io::{self, Write};
use std::process::ExitCode;

use rxlab_stats::cv;
use rxlab_trial::record::{Slot, TrialRecord};
use rxlab_trial::simulate::table::redrawn;

/// Metrics of interest; a record has some of them.
const METRICS: [&str; 3] = ["throughput", "p99_us", "machine_cpu"];

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let runs = match arguments.iter().position(|argument| argument == "--runs") {
        None => Some(10_000),
        Some(at) => {
            arguments.drain(at..(at + 2).min(arguments.len())).next_back().and_then(|n| n.parse().ok())
        }
    };
    let Some(runs) = runs.filter(|runs| *runs > 0 && !arguments.is_empty()) else {
        eprintln!("usage: noise [--runs N] RECORD...");
        return ExitCode::from(2);
    };
    let mut series = Vec::new();
    for path in &arguments {
        match read(path) {
            Ok(record) => series.extend(series_of(&record)),
            Err(error) => {
                eprintln!("noise: {path}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    let Some(table) = table(runs, &series) else {
        eprintln!("noise: a record has fewer than 80 slots with a metric: record more pairs");
        return ExitCode::from(2);
    };
    match print(runs, &table, &series) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noise: cannot write the output: {error}");
            ExitCode::from(5)
        }
    }
}

/// The table of all series, each computed by its own thread; `None` if one is too short.
fn table(runs: usize, series: &[(String, Vec<f64>)]) -> Option<String> {
    let tables: Vec<Option<String>> = std::thread::scope(|scope| {
        let one = |one| scope.spawn(move || redrawn(runs, std::slice::from_ref(one)));
        let threads: Vec<_> = series.iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread ends")).collect()
    });
    let tables: Vec<String> = tables.into_iter().collect::<Option<_>>()?;
    let rows = tables.iter().skip(1).filter_map(|table| table.lines().last());
    Some(tables.first()?.trim_end().lines().chain(rows).map(|line| format!("{line}\n")).collect())
}

fn read(path: &str) -> Result<TrialRecord, io::Error> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// Values of each metric in time order, with the name of the trial.
fn series_of(record: &TrialRecord) -> Vec<(String, Vec<f64>)> {
    let values = |metric: &str| -> Vec<f64> {
        let valid = |slot: &&Slot| slot.void.is_none();
        record.slots.iter().filter(valid).filter_map(|slot| slot.values.get(metric).copied()).collect()
    };
    METRICS
        .iter()
        .map(|metric| (format!("{}, {metric}", record.name), values(metric)))
        .filter(|(_, values)| !values.is_empty())
        .collect()
}

fn print(runs: usize, table: &str, series: &[(String, Vec<f64>)]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{runs} runs per row\n\n{table}")?;
    for (name, values) in series {
        let cv = 100.0 * cv(values).unwrap_or(0.0);
        write!(out, "\n{name}: {} slots, CV {cv:.1} %\n", values.len())?;
        let texts: Vec<String> = values.iter().map(|value| format!("{value:.4e}")).collect();
        writeln!(out, "{}", texts.join(" "))?;
    }
    Ok(())
}
