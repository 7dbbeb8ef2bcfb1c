//! `rxlab trial`: flips one factor in random order, compares pairs, and keeps the change only if it is proven to help.

mod blocks;
mod checkpoint;
mod conduct;
mod finish;
mod flags;
pub(super) mod list;
mod presample;
mod ready;
mod resume;
mod run;
pub(super) mod schedule;
mod show;

use crate::commands::Global;
use crate::error::Result;

pub(super) use blocks::exit as exit_blocks;
pub(super) use conduct::{Conduct, attempt, conduct, explain};
pub(super) use finish::{exit, put_back};
pub(super) use flags::LoadFlags;
pub(super) use presample::{plan, presample};
pub(super) use ready::{driver, ready};
pub(super) use resume::reopen;
pub(super) use show::say_written;

/// Try one change as a randomized paired trial
///
/// The change is flipped many times, in a random order from a recorded seed; pairs of neighbouring
/// slots are compared. The machine is restored at the end, even after Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(Box<flags::Args>),
    Resume(resume::Args),
    Show(show::Args),
    List(list::Args),
    Checkpoint(checkpoint::Args),
}

pub(super) fn run(global: &Global, args: Args) -> Result {
    match args.command {
        Command::Run(args) => run::run(global, &args),
        Command::Resume(args) => resume::run(global, &args),
        Command::Show(args) => show::run(global, &args),
        Command::List(args) => list::run(global, &args),
        Command::Checkpoint(args) => checkpoint::run(global, &args),
    }
}
