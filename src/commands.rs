//! One command a file: its arguments and its `run`. Logic lives lower.

pub mod apply;
pub mod confirm;
pub mod guard;
mod machine;
mod place;
pub mod status;
pub mod undo;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::error::CommandError;

/// Parses the command line, runs the command, prints an error if there is one, and gives the exit
/// code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.message.is_empty() {
                // When even standard error is closed nobody is left to tell.
                let _ = writeln!(anstream::stderr(), "rxlab: {error}");
            }
            ExitCode::from(error.kind.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<(), CommandError> {
    match cli.command {
        Command::Apply(args) => apply::run(&cli.global, args),
        Command::Confirm(args) => confirm::run(&cli.global, args),
        Command::Undo(args) => undo::run(&cli.global, args),
        Command::Status(args) => status::run(&cli.global, args),
        Command::Guard(args) => guard::run(&cli.global, args),
    }
}
