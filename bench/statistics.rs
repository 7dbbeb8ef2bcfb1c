//! Prints the tables of `docs/statistics.md`, that of adjusted live traffic in `docs/trials.md` and that of `docs/fleet.md`, or
//! those from a number on:
//! `cargo run --release --example statistics [RUNS [TABLE]]`.

#![allow(clippy::disallowed_methods)] // Prints.

use std::io::{self, Write};
use std::process::ExitCode;

use rxlab_trial::simulate::table::{RUNS, false_positives, operating};
use rxlab_trial::simulate::whole::whole;
use rxlab_trial::simulate::{families, fleet, live};

fn main() -> ExitCode {
    let number = |place: usize| std::env::args().nth(place).map(|text| text.parse().expect("a number"));
    match print(number(1).unwrap_or(RUNS), number(2).unwrap_or(1)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("statistics: cannot write the output: {error}");
            ExitCode::from(5)
        }
    }
}

fn print(runs: usize, from: usize) -> io::Result<()> {
    let tables: [fn(usize) -> String; 7] = [
        false_positives,
        |runs| operating(runs, usize::MAX),
        |runs| whole(runs, usize::MAX),
        live::table,
        families::wrong,
        families::lasting,
        fleet::table,
    ];
    let mut out = io::stdout().lock();
    writeln!(out, "{runs} runs per row")?;
    tables.iter().skip(from.saturating_sub(1)).try_for_each(|table| write!(out, "\n{}", table(runs)))
}
