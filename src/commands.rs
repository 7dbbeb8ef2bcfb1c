//! Commands, one per file: arguments and `run`. The logic is in other modules.

pub mod apply;
pub mod confirm;
pub mod demo;
pub mod doctor;
pub mod explain;
pub mod export;
mod files;
pub mod guard;
pub mod history;
pub mod interference;
mod leftovers;
pub mod load;
mod look;
mod machine;
pub mod merge;
mod output;
pub mod persist;
mod place;
pub mod plan;
mod progress;
pub mod reapply;
pub mod restore;
pub mod show;
pub mod snapshot;
mod source;
pub mod status;
mod suggest;
pub mod target;
pub mod trace;
pub mod trial;
pub mod undo;
pub mod unpersist;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use serde::Serialize;

use crate::cli::{Cli, Command};
use crate::error::{CommandError, Kind};
use crate::report::json;

/// Parses the command line, runs the command, prints its error, if any, and returns the exit code.
pub fn main() -> ExitCode {
    output::fit_terminal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut answer) => {
            suggest::suggest(&mut answer, &Cli::command(), std::env::args());
            return answered(&answer);
        }
    };
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.message.is_empty() {
                // The exit code is the same whether or not standard error takes this.
                let _ = writeln!(output::stderr(), "rxlab: {error}");
            }
            ExitCode::from(error.kind.exit_code())
        }
    }
}

/// Prints clap's answer instead of running a command: help, the version, or a parse error, which quotes the
/// command line.
fn answered(answer: &clap::Error) -> ExitCode {
    let text = answer.render();
    if answer.use_stderr() {
        let _ = write!(output::stderr(), "{}", text.ansi());
        return ExitCode::from(Kind::Usage.exit_code());
    }
    let _ = write!(output::text_stdout(), "{}", text.ansi());
    ExitCode::SUCCESS
}

fn run(cli: Cli) -> Result<(), CommandError> {
    let mut global = cli.global;
    // Another spelling of `/` is the same machine. A path that cannot be resolved is an error where it is opened.
    if let Ok(root) = global.root.canonicalize() {
        global.root = root;
    }
    let global = &global;
    // The output of these two goes to a log.
    if !matches!(cli.command, Command::Guard(_) | Command::Restore(_)) {
        leftovers::pass_on_notices(global);
    }
    match cli.command {
        Command::Demo(args) => demo::run(global, &args),
        Command::Show(args) => show::run(global, &args),
        Command::Snapshot(args) => snapshot::run(global, &args),
        Command::Doctor(args) => doctor::run(global, &args),
        Command::Explain(args) => explain::run(global, &args),
        Command::Plan(args) => plan::run(global, &args),
        Command::Apply(args) => apply::run(global, args),
        Command::Confirm(args) => confirm::run(global, args),
        Command::Undo(args) => undo::run(global, args),
        Command::Reapply(args) => reapply::run(global, &args),
        Command::Status(args) => status::run(global, &args),
        Command::History(args) => history::run(global, &args),
        Command::Persist(args) => persist::run(global, &args),
        Command::Unpersist(args) => unpersist::run(global, &args),
        Command::Restore(args) => restore::run(global, &args),
        Command::Export(args) => export::run(global, &args),
        Command::Interference(args) => interference::run(global, &args),
        Command::Trace(args) => trace::run(global, &args),
        Command::Trial(args) => trial::run(global, args),
        Command::Target(args) => target::run(global, &args),
        Command::Load(args) => load::run(global, &args),
        Command::Merge(args) => merge::run(global, &args),
        Command::Guard(args) => guard::run(global, args),
    }
}

/// Returns a value as JSON text, for `writeln!`.
fn json(value: &impl Serialize) -> Result<String, CommandError> {
    json::pretty(value).map_err(|error| CommandError::failed(format!("cannot write JSON: {error}")))
}
