//! Prints the table of adjusted live traffic in `docs/trials.md`: `cargo run --release --example covariate [RUNS]`.

#![allow(clippy::disallowed_methods)] // Prints.

use std::io::{self, Write};
use std::process::ExitCode;

use rxlab::trial::simulate::live;
use rxlab::trial::simulate::table::RUNS;

fn main() -> ExitCode {
    let runs = match std::env::args().nth(1).map(|text| text.parse()) {
        None => RUNS,
        Some(Ok(runs)) if runs > 0 => runs,
        Some(_) => {
            eprintln!("covariate: RUNS must be a number, such as {RUNS}");
            return ExitCode::from(2);
        }
    };
    // A reader that has closed the pipe has seen enough.
    match write!(io::stdout().lock(), "{runs} runs per row\n\n{}", live::table(runs)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("covariate: cannot write the output: {error}");
            ExitCode::from(5)
        }
    }
}
