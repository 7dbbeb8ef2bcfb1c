//! Prints the tables of `docs/statistics.md`, and that of adjusted live traffic in `docs/trials.md`:
//! `cargo run --release --example statistics [RUNS]`.

#![allow(clippy::disallowed_methods)] // Prints.

use std::io::{self, Write};
use std::process::ExitCode;

use rxlab_trial::simulate::live;
use rxlab_trial::simulate::table::{RUNS, false_positives, operating};
use rxlab_trial::simulate::whole::whole;

fn main() -> ExitCode {
    match print(std::env::args().nth(1).map_or(RUNS, |text| text.parse().expect("a number"))) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("statistics: cannot write the output: {error}");
            ExitCode::from(5)
        }
    }
}

fn print(runs: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{runs} runs per row\n\n{}", false_positives(runs))?;
    writeln!(out, "{}", operating(runs, usize::MAX))?;
    writeln!(out, "{}", whole(runs, usize::MAX))?;
    write!(out, "{}", live::table(runs))
}
